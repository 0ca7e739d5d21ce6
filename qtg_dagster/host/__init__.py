"""What makes QTG run on one machine: embedded PostgreSQL, node tools, child processes, Dagster's host side."""
