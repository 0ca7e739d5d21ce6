"""The demo beside a running stack: a thread with an event loop of its own, which can be called off."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from rich.console import Console

from qtg_dagster.sandbox.demo.owner import Owner
from qtg_dagster.sandbox.demo.run import Demo, DemoResult
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.settings import Settings


class DemoGuest:
    """Runs the demo once; with `leave`, everything stops when it has ended."""

    def __init__(self, home: Path, console: Console, *, leave: bool) -> None:
        self._home = home
        self._console = console
        self._leave = leave
        self._thread = threading.Thread(target=self._run, name="demo", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[DemoResult] | None = None
        self.result: DemoResult | None = None
        self.error: Exception | None = None

    def begin(self) -> None:
        self._thread.start()

    def wants_to_leave(self) -> bool:
        return self._leave and not self._thread.is_alive()

    def end(self) -> None:
        if self._loop is not None and self._task is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(timeout=10)

    @property
    def passed(self) -> bool:
        return self.result is not None and self.result.passed

    def _run(self) -> None:
        try:
            asyncio.run(self._demo())
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - shown, and the exit code says so
            self.error = error
            self._console.print(f"[bold red]The demo did not end well:[/] {type(error).__name__}: {error}")

    async def _demo(self) -> None:
        from qtg_dagster.composition import open_platform
        from qtg_dagster.host.environment import machine_settings
        from qtg_dagster.sandbox.world import control_token

        self._loop = asyncio.get_running_loop()
        settings: Settings = machine_settings()
        venue_url = settings.inventory.venue("venue_a").base_url or ""
        url, token = venue_url.removesuffix("/venue_a"), control_token(self._home)
        callbacks = settings.inventory.callbacks
        assert callbacks is not None  # noqa: S101 - the sandbox's inventory has a secret
        owner = Owner(callbacks.secret.read("callbacks.secret").expose())
        async with open_platform(settings, pool_size=4) as platform, ExchangeControl(url, token) as control:
            self._task = asyncio.create_task(Demo(platform, control, self._console, owner).run())
            self.result = await self._task
        self._say(self.result)

    def _say(self, result: DemoResult) -> None:
        if result.passed:
            self._console.print("[green]All movements completed, and every balance agrees to the last unit.[/]")
        else:
            self._console.print("[bold red]The demo failed: see the tables above.[/]")
        if not self._leave:
            self._console.print("The web UI stays up; Ctrl-C stops everything.")
