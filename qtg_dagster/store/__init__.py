"""PostgreSQL: the tables, their migrations, and every statement the platform sends."""
