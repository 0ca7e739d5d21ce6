"""Callbacks: what a movement's owner is told, signed, delivered at least once, in order, and to no address of ours."""
