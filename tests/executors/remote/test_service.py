"""An executor behind its service, asked over real HTTP: what comes through, and what is not let in."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.domain.contract import PROTOCOL_VERSION, ExecutionResult, HealthState, ResultStatus
from qtg_dagster.domain.errors import InvalidInput, RemoteFault
from qtg_dagster.executors.contract import Executor, serialization_key, submit_grace
from qtg_dagster.executors.message_auth import answer_is_signed, new_nonce, request_headers
from qtg_dagster.executors.remote.documents import ErrorAnswer, SubmitRequest
from qtg_dagster.executors.remote.hosting import Listening, describe, hosting
from qtg_dagster.executors.remote.reading import read_document
from qtg_dagster.executors.remote.service import ExecutorService
from qtg_dagster.executors.remote.terms import Terms
from qtg_dagster.executors.request_gate import RequestGate
from qtg_dagster.secret import Secret
from tests.executors.remote.conftest import Connect
from tests.executors.remote.orders import KEY, OTHER_SECRET, SECRET, BookExecutor, KeyedExecutor, action, order

S = ResultStatus


def now() -> int:
    return int(SystemClock().now().timestamp() * 1000)


class Stranger:
    """Whoever can reach the service and write whatever they like."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.nonce = new_nonce()

    def body(self, **changes: Any) -> bytes:
        request = SubmitRequest(protocol_version=PROTOCOL_VERSION, executor_key=KEY, context=order(), prepared=action())
        return json.dumps({**request.model_dump(mode="json"), **changes}).encode()

    def signed(self, body: bytes, *, secret: Secret = SECRET, at: int | None = None, **rest: str) -> dict[str, str]:
        given = {"method": "POST", "path": "/submit", "idempotency_key": order().idempotency_key, **rest}
        return request_headers(secret, timestamp=now() if at is None else at, nonce=self.nonce, body=body, **given)

    async def submit(self, body: bytes, headers: dict[str, str], path: str = "/submit") -> httpx.Response:
        return await self._http.post(path, content=body, headers=headers)

    def refusal(self, response: httpx.Response) -> tuple[int, str, bool, bool]:
        """Status, code, whether it says that nothing was done, and whether it is signed and so proves it."""
        error = read_document(response.content, ErrorAnswer).error
        signed = answer_is_signed(
            SECRET,
            nonce=self.nonce,
            status=response.status_code,
            headers=response.headers,
            body=response.content,
        )
        return response.status_code, error.code, error.nothing_done, signed


@pytest.fixture
async def stranger(service: str) -> AsyncIterator[Stranger]:
    async with httpx.AsyncClient(base_url=service, trust_env=False) as http:
        yield Stranger(http)


async def test_all_six_methods_come_through(service: str, book: BookExecutor, connect: Connect) -> None:
    remote = connect(service)
    assert isinstance(remote, Executor)
    assert await remote.preflight(order()) is None
    assert await remote.prepare(order()) == action()
    submitted = await remote.submit(order(), action())
    assert submitted.status is S.ACCEPTED
    assert submitted.provider_refs == {"reference": order().idempotency_key}
    assert (await remote.observe(order())).status is S.COMPLETED
    assert (await remote.recover(order())).status is S.ACCEPTED
    assert (await remote.recover(order(2))).status is S.UNKNOWN
    assert (await remote.health()).health_state is HealthState.HEALTHY
    assert book.calls == ["preflight", "prepare", "submit", "observe", "recover", "recover", "health"]
    assert book.book == [order().idempotency_key]


async def test_a_preflight_that_does_not_pass_says_why(service: str, book: BookExecutor, connect: Connect) -> None:
    book.answers["preflight"] = ExecutionResult(status=S.REJECTED, error_code="NOT_LISTED", error_message="not listed")
    found = await connect(service).preflight(order())
    assert found is not None
    assert (found.status, found.error_code) == (S.REJECTED, "NOT_LISTED")


async def test_wrong_input_found_by_prepare_arrives_as_that(service: str, book: BookExecutor, connect: Connect) -> None:
    book.fails_after["prepare"] = InvalidInput("node_config.amount", "too small", "Give at least 10.")
    with pytest.raises(InvalidInput, match=r"node_config.amount: too small. Give at least 10."):
        await connect(service).prepare(order())


@pytest.mark.parametrize("error", [RuntimeError("password=hunter2"), InvalidInput("a", "b", "c")])
async def test_a_submit_that_raised_after_executing_is_unknown(
    error: Exception, service: str, book: BookExecutor, connect: Connect
) -> None:
    book.fails_after["submit"] = error
    found = await connect(service).submit(order(), action())
    assert (found.status, found.error_code) == (S.UNKNOWN, "REMOTE_EXECUTOR_RAISED")
    assert found.evidence["http_status"] == 500
    assert book.book == [order().idempotency_key]
    assert "hunter2" not in found.model_dump_json()


async def test_an_answer_that_is_not_json_is_unknown(service: str, book: BookExecutor, connect: Connect) -> None:
    book.answers["submit"] = ExecutionResult(status=S.ACCEPTED, provider_refs={"handle": object()})
    found = await connect(service).submit(order(), action())
    assert (found.status, found.error_code) == (S.UNKNOWN, "REMOTE_EXECUTOR_RAISED")


@pytest.mark.parametrize("method", ["observe", "recover"])
async def test_a_look_that_raised_is_a_fault(method: str, service: str, book: BookExecutor, connect: Connect) -> None:
    book.fails_after[method] = TimeoutError("the chain is slow")
    with pytest.raises(RemoteFault, match="TimeoutError"):
        await getattr(connect(service), method)(order())


async def test_what_nobody_signed_is_not_let_in(stranger: Stranger, book: BookExecutor) -> None:
    response = await stranger.submit(stranger.body(), {})
    assert stranger.refusal(response) == (401, "UNSIGNED", True, False)
    assert book.calls == []


async def test_another_secret_does_not_let_in(stranger: Stranger, book: BookExecutor) -> None:
    body = stranger.body()
    response = await stranger.submit(body, stranger.signed(body, secret=OTHER_SECRET))
    assert stranger.refusal(response) == (401, "WRONG_SIGNATURE", True, False)
    assert book.calls == []


@pytest.mark.parametrize("changed", ["body", "path", "verb", "key", "nonce", "time", "query"])
async def test_nothing_of_a_signed_request_can_be_changed(changed: str, stranger: Stranger, book: BookExecutor) -> None:
    body = stranger.body()
    headers = stranger.signed(
        body,
        **{"method": "PUT"} if changed == "verb" else {},
        **{"path": "/observe"} if changed == "path" else {},
    )
    if changed == "key":
        headers["Idempotency-Key"] = "another"
    elif changed == "nonce":
        headers["QTG-Nonce"] = new_nonce()
    elif changed == "time":
        headers["QTG-Timestamp"] = str(int(headers["QTG-Timestamp"]) + 1)
    path = "/submit?fast=1" if changed == "query" else "/submit"
    response = await stranger.submit(body + b" " if changed == "body" else body, headers, path)
    assert stranger.refusal(response) == (401, "WRONG_SIGNATURE", True, False)
    assert book.calls == []


@pytest.mark.parametrize("off", [-61_000, 61_000])
async def test_a_stale_request_is_not_let_in(off: int, stranger: Stranger, book: BookExecutor) -> None:
    body = stranger.body()
    response = await stranger.submit(body, stranger.signed(body, at=now() + off))
    assert stranger.refusal(response) == (401, "STALE", True, False)
    assert book.calls == []


async def test_a_request_is_let_in_once_and_the_refusal_proves_nothing(stranger: Stranger, book: BookExecutor) -> None:
    """A signed one would let whoever sends it again tell the caller that nothing was done."""
    body = stranger.body()
    headers = stranger.signed(body)
    assert (await stranger.submit(body, headers)).status_code == 200
    again = await stranger.submit(body, headers)
    assert stranger.refusal(again) == (409, "REPLAYED", True, False)
    assert len(book.book) == 1


async def test_an_oversized_request_is_not_let_in(stranger: Stranger, book: BookExecutor) -> None:
    body = stranger.body(executor_key="x" * 70_000)
    response = await stranger.submit(body, stranger.signed(body))
    assert stranger.refusal(response) == (413, "OVERSIZED", True, False)
    assert book.calls == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"protocol_version": "2.0"}, "WRONG_VERSION"),
        ({"protocol_version": None}, "WRONG_VERSION"),
        ({"prepared": None}, "MALFORMED"),
        ({"surprise": 1}, "MALFORMED"),
        ({"executor_key": "exec.example.other"}, "WRONG_EXECUTOR"),
    ],
)
async def test_a_known_caller_with_a_wrong_document_gets_proof_that_nothing_was_done(
    changes: dict[str, Any], code: str, stranger: Stranger, book: BookExecutor
) -> None:
    body = stranger.body(**changes)
    response = await stranger.submit(body, stranger.signed(body))
    assert stranger.refusal(response) == (400, code, True, True)
    assert book.calls == []


async def test_the_key_in_the_header_must_be_the_contexts(stranger: Stranger, book: BookExecutor) -> None:
    body = stranger.body()
    response = await stranger.submit(body, stranger.signed(body, idempotency_key="another"))
    assert stranger.refusal(response) == (400, "WRONG_KEY", True, True)
    assert book.calls == []


async def test_health_and_description_are_not_for_strangers(service: str) -> None:
    async with httpx.AsyncClient(base_url=service, trust_env=False) as http:
        assert (await http.get("/health")).status_code == 401
        assert (await http.get("/describe")).status_code == 401


async def test_a_service_with_another_secret_is_down(service: str, connect: Connect) -> None:
    report = await connect(service, secret=OTHER_SECRET).health()
    assert report.health_state is HealthState.DOWN
    assert "UNSIGNED" in report.detail


@pytest.mark.parametrize(
    ("terms", "key", "said"),
    [
        (Terms(submit_grace_seconds=30), KEY, "submit_grace_seconds: the service says 67, the inventory 30"),
        (Terms(submit_grace_seconds=67, serialization_key="one"), KEY, "serialization_key: the service says None"),
        (Terms(submit_grace_seconds=67, signs=True), KEY, "signs: the service says None, the inventory True"),
        (Terms(submit_grace_seconds=67), "exec.example.other", f"the service hosts {KEY}, not exec.example.other"),
    ],
)
async def test_a_service_that_describes_itself_otherwise_is_degraded(
    terms: Terms, key: str, said: str, service: str, connect: Connect
) -> None:
    report = await connect(service, terms=terms, key=key).health()
    assert report.health_state is HealthState.DEGRADED
    assert said in report.detail
    assert "the book is open" in report.detail


async def test_an_executor_with_keys_by_node_needs_one_for_all(connect: Connect) -> None:
    keyed = KeyedExecutor()
    app = ExecutorService(keyed, describe(KEY, keyed), RequestGate([SECRET], SystemClock())).app()
    async with hosting(app, Listening()) as (url, _):
        report = await connect(url).health()
        assert report.health_state is HealthState.DEGRADED
        assert "name one for all in the inventory" in report.detail
        alone = connect(url, terms=Terms(submit_grace_seconds=67, serialization_key="example"))
        assert (await alone.health()).health_state is HealthState.HEALTHY
        assert serialization_key(alone, {"sender": "0xabc"}) == "example"
        assert submit_grace(alone) == 67


async def test_the_session_is_open_for_submit_and_recover(connect: Connect) -> None:
    seen: list[object] = []

    class Keeper(BookExecutor):
        async def submit(self, context: Any, prepared: Any, session: object = None) -> ExecutionResult:
            seen.append(session)
            return await super().submit(context, prepared, session)

        async def recover(self, context: Any, session: object = None) -> ExecutionResult:
            seen.append(session)
            return await super().recover(context, session)

    keeper = Keeper()
    service = ExecutorService(
        keeper,
        describe(KEY, keeper),
        RequestGate([SECRET], SystemClock()),
        session=lambda: contextlib.nullcontext("a session"),
    )
    async with hosting(service.app(), Listening()) as (url, _):
        remote = connect(url)
        await remote.submit(order(), action())
        await remote.recover(order())
    assert seen == ["a session", "a session"]


async def test_while_a_secret_is_replaced_both_are_good(connect: Connect) -> None:
    book = BookExecutor()
    gate = RequestGate([OTHER_SECRET, SECRET], SystemClock())
    async with hosting(ExecutorService(book, describe(KEY, book), gate).app(), Listening()) as (url, _):
        for secret in (SECRET, OTHER_SECRET):
            assert (await connect(url, secret=secret).observe(order())).status is S.COMPLETED


async def test_a_submit_that_arrives_after_recovery_has_asked_is_not_begun(
    service: str, book: BookExecutor, connect: Connect
) -> None:
    """Else it could move what recovery has just proved not to have moved."""
    remote = connect(service)
    assert (await remote.recover(order())).status is S.UNKNOWN
    late = await remote.submit(order(), action())
    assert (late.status, late.error_code) == (S.UNKNOWN, "REMOTE_TOO_LATE")
    assert book.book == []
    assert (await remote.submit(order(2), action())).status is S.ACCEPTED
