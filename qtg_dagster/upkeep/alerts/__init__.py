"""Alerts: found in the database, told to channels, acknowledged by people."""
