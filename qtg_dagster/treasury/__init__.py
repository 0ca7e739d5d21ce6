"""What the treasury knows of its own money."""
