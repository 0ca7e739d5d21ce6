"""Which workers run by themselves, and why one does not."""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from qtg_dagster.settings import Settings


@dataclass(frozen=True, slots=True)
class Switch:
    """Whether a worker is on; `because` says what switches it on when it is off."""

    on: bool
    because: str = ""

    @property
    def sensor_status(self) -> dg.DefaultSensorStatus:
        return dg.DefaultSensorStatus.RUNNING if self.on else dg.DefaultSensorStatus.STOPPED

    @property
    def schedule_status(self) -> dg.DefaultScheduleStatus:
        return dg.DefaultScheduleStatus.RUNNING if self.on else dg.DefaultScheduleStatus.STOPPED

    def explain(self, description: str) -> str:
        """The description, led by the reason when the worker is off."""
        return description if self.on else f"STOPPED: {self.because}. {description}"


def worker_switch(settings: Settings, flag: str | None = None) -> Switch:
    """The switch of a worker: all hang on MG_WORKERS_ENABLED, some on a flag of their own (a settings field)."""
    if not settings.workers_enabled:
        return Switch(False, "MG_WORKERS_ENABLED is false")
    if flag is not None and not getattr(settings, flag):
        return Switch(False, f"MG_{flag.upper()} is false; set it to true to start")
    return Switch(True)


def evm_switch(settings: Settings, flag: str) -> Switch:
    """The switch of a worker that needs a chain: without a client or endpoints it has nobody to ask."""
    switch = worker_switch(settings, flag)
    if switch.on and settings.evm_missing:
        return Switch(False, settings.evm_missing)
    return switch


def record_switch(settings: Settings) -> Switch:
    """The switch of the worker that keeps venues' records: on for the venues that are named."""
    switch = worker_switch(settings)
    if switch.on and not settings.recorded_venues:
        return Switch(False, "MG_CEX_TRANSFER_INGEST_VENUES_CSV names no venue")
    return switch
