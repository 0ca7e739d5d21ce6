"""Dagster's daemon, which here looks every second whether a sensor is due; as shipped, it looks every five.

A sensor that asks for 2 seconds is then asked every 2, not every 5: so long READY nodes wait for a drain when none is
alive, and so long a killed drain waits for the next. Run as `python -m qtg_dagster.host.daemon` with the arguments of
`dagster-daemon`.
"""

from __future__ import annotations

LOOK_SECONDS = 1


def look_every_second() -> None:
    """Shorten the pause between two rounds over all sensors; their own intervals stay what decides."""
    from dagster._daemon import sensor

    if not hasattr(sensor, "MIN_INTERVAL_LOOP_TIME"):
        raise AttributeError("this Dagster names the pause of its sensor loop differently: see host/daemon.py")
    sensor.MIN_INTERVAL_LOOP_TIME = LOOK_SECONDS


def main() -> None:
    """Serve until ended."""
    from dagster._daemon.cli import main as dagster_daemon

    look_every_second()
    dagster_daemon()


if __name__ == "__main__":
    main()
