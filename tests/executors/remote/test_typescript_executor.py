"""The example in another language: asked like any other, killed between executing and answering."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from qtg_dagster.domain.clock import SystemClock
from qtg_dagster.domain.contract import ExecutionResult, HealthState, ResultStatus
from qtg_dagster.domain.errors import InvalidInput, RemoteFault
from qtg_dagster.executors.message_auth import new_nonce, request_headers
from qtg_dagster.executors.remote.executor import RemoteExecutor
from qtg_dagster.executors.remote.terms import Terms
from tests.executors.remote.conftest import Connect
from tests.executors.remote.node_service import NodeService, node_service
from tests.executors.remote.orders import KEY, OTHER_SECRET, SECRET, order

S = ResultStatus
TERMS = Terms(submit_grace_seconds=60, signs=False)


async def submit(remote: RemoteExecutor, attempt_no: int = 1) -> ExecutionResult:
    """Prepare and submit, as the dispatcher does."""
    context = order(attempt_no)
    assert await remote.preflight(context) is None
    prepared = await remote.prepare(context)
    return await remote.submit(context.model_copy(update={"prepared": prepared}), prepared)


async def test_a_move_is_made_and_seen(tmp_path: Path, connect: Connect) -> None:
    async with node_service(tmp_path) as service:
        remote = connect(service.url, terms=TERMS)
        assert (await remote.health()).health_state is HealthState.HEALTHY
        accepted = await submit(remote)
        assert accepted.status is S.ACCEPTED
        [move] = service.book()
        assert (move["amount"], move["destination"], move["idempotency_key"]) == (
            "12.5",
            "0xallowed",
            order().idempotency_key,
        )
        seen = await remote.observe(order())
        assert (seen.status, seen.provider_refs) == (S.COMPLETED, accepted.provider_refs)
        assert (await remote.recover(order())).status is S.COMPLETED
        assert (await remote.recover(order(2))).status is S.UNKNOWN


async def test_terms_that_differ_degrade_it(tmp_path: Path, connect: Connect) -> None:
    async with node_service(tmp_path) as service:
        report = await connect(service.url, terms=Terms(submit_grace_seconds=5)).health()
    assert report.health_state is HealthState.DEGRADED
    assert "submit_grace_seconds: the service says 60, the inventory 5" in report.detail


async def test_a_prepared_action_that_wants_no_signature_where_one_is_expected_is_not_sent_on(
    tmp_path: Path, connect: Connect
) -> None:
    async with node_service(tmp_path) as service:
        with pytest.raises(RemoteFault, match="WRONG_TERMS: signing_required is False"):
            await connect(service.url, terms=Terms(signs=True)).prepare(order())


async def test_wrong_input_is_named(tmp_path: Path, connect: Connect) -> None:
    async with node_service(tmp_path) as service:
        with pytest.raises(InvalidInput, match=r"node_config.amount: not a plain decimal"):
            await connect(service.url).preflight(order(amount="1e3"))


async def killed_between_executing_and_answering(service: NodeService, remote: RemoteExecutor) -> ExecutionResult:
    service.holds_answers.touch()
    answer = asyncio.create_task(submit(remote))
    await service.wait_for_moves(1)
    assert not answer.done()
    await service.kill()
    service.holds_answers.unlink()
    return await answer


async def test_killed_before_it_answered_recover_finds_the_one_move(tmp_path: Path, connect: Connect) -> None:
    async with node_service(tmp_path) as first:
        remote = connect(first.url)
        lost = await killed_between_executing_and_answering(first, remote)
        assert (lost.status, lost.error_code) == (S.UNKNOWN, "REMOTE_LOST")
    async with node_service(tmp_path, port=first.port) as second:
        found = await remote.recover(order())
        assert found.status is S.COMPLETED
        assert found.evidence["in_the_book"]["idempotency_key"] == order().idempotency_key
        assert (await submit(remote)).status is S.UNKNOWN, "nobody does that; it comes too late"
        assert len(second.book()) == 1


async def test_a_submit_that_arrives_after_recovery_has_asked_is_not_begun(tmp_path: Path, connect: Connect) -> None:
    async with node_service(tmp_path) as service:
        remote = connect(service.url)
        assert (await remote.recover(order())).status is S.UNKNOWN
        late = await submit(remote)
        assert (late.status, late.error_code) == (S.UNKNOWN, "REMOTE_TOO_LATE")
        assert service.book() == []


async def test_a_submit_that_comes_twice_moves_once(tmp_path: Path, connect: Connect) -> None:
    async with node_service(tmp_path) as service:
        remote = connect(service.url)
        assert (await submit(remote)).provider_refs == (await submit(remote)).provider_refs
        assert len(service.book()) == 1


async def test_a_line_that_was_cut_is_no_move(tmp_path: Path, connect: Connect) -> None:
    async with node_service(tmp_path) as first:
        await submit(connect(first.url))
    with (tmp_path / "moves.jsonl").open("a") as book:
        book.write('{"idempotency_key":"qtg-2-01234')
    async with node_service(tmp_path) as second:
        remote = connect(second.url)
        assert (await remote.observe(order(2))).status is S.UNKNOWN
        assert (await submit(remote, 2)).status is S.ACCEPTED
        assert [move["idempotency_key"] for move in second.book()] == [order(n).idempotency_key for n in (1, 2)]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ("nothing", "UNSIGNED"),
        ("secret", "WRONG_SIGNATURE"),
        ("body", "WRONG_SIGNATURE"),
        ("late", "STALE"),
        ("early", "STALE"),
        ("again", "REPLAYED"),
    ],
)
async def test_it_checks_signatures_as_the_host_in_python_does(wrong: str, code: str, tmp_path: Path) -> None:
    off = {"late": -61_000, "early": 61_000}.get(wrong, 0)
    nonce = new_nonce()
    async with node_service(tmp_path) as service, httpx.AsyncClient(base_url=service.url, trust_env=False) as http:
        stamp = int(SystemClock().now().timestamp() * 1000) + off
        headers = request_headers(
            OTHER_SECRET if wrong == "secret" else SECRET,
            method="POST",
            path="/submit",
            timestamp=stamp,
            nonce=nonce,
            idempotency_key="k",
            body=b"{}",
        )
        body = b"{ }" if wrong == "body" else b"{}"
        if wrong == "again":
            assert (await http.post("/submit", content=body, headers=headers)).status_code == 400
        response = await http.post("/submit", content=body, headers={} if wrong == "nothing" else headers)
        assert response.json()["error"]["code"] == code
        assert response.json()["error"]["nothing_done"] is True
        assert "QTG-Signature" not in response.headers
        assert service.book() == []


async def test_it_does_not_serve_other_machines_in_the_clear(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="node ended with 1"):
        async with node_service(tmp_path, EXECUTOR_HOST="0.0.0.0"):  # noqa: S104 - to be refused
            raise RuntimeError("it serves")


def test_the_key_of_the_example_is_the_tests() -> None:
    assert f'"{KEY}"' in (Path(__file__).parents[3] / "examples" / "typescript-executor" / "server.mjs").read_text()
