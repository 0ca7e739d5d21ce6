"""Measurements, run by hand or by `./qtg bench`; never part of the tests."""
