"""Receivers of callbacks, in a process of their own: `python -m benchmarks.callback_receivers ANSWERING HANGING`.

Prints their ports; when its input ends, prints how many different events each got, and how many it got twice.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter

_ANSWER = b"HTTP/1.1 204 No Content\r\n\r\n"


class Receiver:
    """Counts what it is told by its id; one that hangs never answers."""

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs
        self.told: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                await reader.readexactly(int(headers["content-length"]))
                self.told[headers["webhook-id"]] += 1
                if self._hangs:
                    await reader.read()
                    return
                writer.write(_ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


async def main(answering: int, hanging: int) -> None:
    receivers = [Receiver(hangs=number >= answering) for number in range(answering + hanging)]
    servers = [await asyncio.start_server(each.serve, "127.0.0.1", 0) for each in receivers]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps([(len(each.told), sum(each.told.values()) - len(each.told)) for each in receivers]), flush=True)
    for server in servers:
        server.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
