"""What keeps the platform in order beside the movements."""
