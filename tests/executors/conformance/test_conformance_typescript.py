"""The example service in another language is judged like any other, by its URL and its book."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from qtg_dagster.cli import build
from qtg_dagster.executors.conformance import Clause, Knob
from qtg_dagster.executors.remote.hosting import Listening, hosting
from tests.executors.conformance.service import book_app
from tests.executors.remote.node_service import NodeService, node_service
from tests.executors.remote.orders import KEY, SECRET, order


def book_of(service: NodeService) -> object:
    """Its moves settle as they are made."""

    async def count(key: str | None) -> int:
        return sum(key in (None, move["idempotency_key"]) for move in service.book())

    return book_app(count, lambda _knob, _key: None, frozenset({Knob.SETTLE}))


async def test_the_example_in_typescript_keeps_the_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIFY_SECRET", SECRET.expose())
    file = tmp_path / "order.json"
    terms = {"submit_grace_seconds": 60, "signs": False}
    context = order().model_dump(mode="json")
    file.write_text(json.dumps({"context": context, "terms": terms, "timeouts": {"health": 1}}))

    def verify(url: str, book_url: str) -> Result:
        known = ["--key", KEY, "--secret-env", "VERIFY_SECRET", "--context", str(file), "--book", book_url]
        return CliRunner().invoke(build(), ["executor", "verify", url, *known, "--allow-unjudged"])

    async with node_service(tmp_path) as service, hosting(book_of(service), Listening()) as (book_url, _):
        found = await asyncio.to_thread(verify, service.url, book_url)
    assert found.exit_code == 0, found.output
    assert f"{len(Clause) - 2} passed, 0 broken, 1 not judged, 1 exempt" in found.output
    assert "the bench has no knob odd-status" in found.output
    assert len(service.book()) > 5, "it did move"
