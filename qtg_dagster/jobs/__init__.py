"""Dagster jobs: thin calls into the engine, upkeep and treasury."""
