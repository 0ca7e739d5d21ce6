"""Dagster's daemon with a shorter pause between two rounds over the sensors."""

from __future__ import annotations

import pytest
from dagster._daemon import sensor

from qtg_dagster.host.daemon import LOOK_SECONDS, look_every_second


def test_the_loop_over_the_sensors_reads_the_pause_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensor, "MIN_INTERVAL_LOOP_TIME", 5)
    look_every_second()
    assert sensor.MIN_INTERVAL_LOOP_TIME == LOOK_SECONDS
    assert "MIN_INTERVAL_LOOP_TIME" in sensor.execute_sensor_iteration_loop.__code__.co_names


def test_a_dagster_that_names_it_differently_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sensor, "MIN_INTERVAL_LOOP_TIME")
    with pytest.raises(AttributeError, match="host/daemon"):
        look_every_second()
