"""Upkeep works on the same engine and database as the engine's own tests."""

from tests.engine.conftest import *  # noqa: F403
