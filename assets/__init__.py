"""Assets and their checks: the data side of the treasury, as the web UI shows it."""
