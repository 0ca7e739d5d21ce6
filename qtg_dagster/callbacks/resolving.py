"""The addresses of a name, as this machine finds them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Sequence


class SystemResolver:
    """The machine's own resolver, a thread a question: one that hangs keeps nobody else waiting, nor the process."""

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[str]] = loop.create_future()

        def ask() -> None:
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                told: list[str] | OSError = list(dict.fromkeys(str(each[4][0]) for each in found))
            except OSError as error:
                told = error
            except UnicodeError as error:  # a label that the codec of names will not have
                told = OSError(str(error))
            if not loop.is_closed():
                loop.call_soon_threadsafe(_answer, answer, told)

        threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
        return await answer


def _answer(waiting: asyncio.Future[list[str]], told: list[str] | OSError) -> None:
    if waiting.done():
        return
    if isinstance(told, OSError):
        waiting.set_exception(told)
    else:
        waiting.set_result(told)
