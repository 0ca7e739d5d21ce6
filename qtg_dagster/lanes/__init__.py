"""The lanes that move money: one folder each; no lane imports another."""
