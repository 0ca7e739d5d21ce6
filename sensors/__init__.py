"""Sensors and schedules: what detects and times work."""
