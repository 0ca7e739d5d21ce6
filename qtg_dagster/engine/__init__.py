"""Durable movement of funds: plain async Python over the database and the executors. Knows nothing of Dagster."""
