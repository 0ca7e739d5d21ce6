"""A web server and a mail server on this machine that take messages, and behave as they are told."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

Behaviour = Callable[["_Handler"], None]


class _Handler(BaseHTTPRequestHandler):
    receiver: HttpReceiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.receiver.took(self.path, json.loads(body))
        self.receiver.behaviour(self)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def well(handler: _Handler) -> None:
    """Take it."""
    handler.answer(200)


def fails(handler: _Handler) -> None:
    """Refuse it, and say the path in doing so."""
    handler.answer(500, f"cannot take {handler.path}".encode())


def hangs(handler: _Handler) -> None:
    """Say nothing until the test is over."""
    handler.receiver.over.wait()


def kills(pid: Callable[[], int]) -> Behaviour:
    """Have the sender die with its message delivered and nothing saved."""

    def kill(handler: _Handler) -> None:
        os.kill(pid(), signal.SIGKILL)
        handler.answer(200)

    return kill


class HttpReceiver:
    """Takes JSON messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self.behaviour: Behaviour = well
        self.over = threading.Event()
        handler = type("Handler", (_Handler,), {"receiver": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def took(self, path: str, message: dict[str, Any]) -> None:
        self.messages.append((path, message))

    def url(self, path: str = "hook") -> str:
        return f"json://127.0.0.1:{self._server.server_port}/{path}"

    @property
    def titles(self) -> list[str]:
        return [message["title"] for _, message in self.messages]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()


class MailReceiver:
    """Takes mail."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.refuses = False
        self._controller = Controller(self, hostname="127.0.0.1", port=free_port(), server_hostname="mail.desk.example")

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: ARG002, N802
        if self.refuses:
            return "451 not now"
        content = envelope.content
        assert isinstance(content, bytes)
        mail = message_from_bytes(content, policy=policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 taken"

    def url(self) -> str:
        to = "from=qtg@desk.example&to=night@desk.example"
        return f"mailto://127.0.0.1:{self._controller.port}?smtp=127.0.0.1&mode=insecure&format=text&{to}"

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._controller.stop()


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
