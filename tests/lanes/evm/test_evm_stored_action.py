"""A stored action that is not what was prepared and signed: nothing is sent by it, and nothing is called failed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from qtg_dagster.domain.contract import PreparedAction, ResultStatus, payload_hash
from qtg_dagster.recursion import keep_recursion_limit
from tests.lanes.evm.conftest import Desk

SEND = "eth_sendRawTransaction"


def rewritten(prepared: PreparedAction, payload: str) -> PreparedAction:
    """Another payload, with the hash that it should have."""
    return prepared.model_copy(update={"payload": payload, "payload_hash": payload_hash(payload)})


def without(prepared: PreparedAction, field: str) -> PreparedAction:
    document = json.loads(prepared.payload)
    del document["transaction"][field]
    return rewritten(prepared, json.dumps(document))


def signed_as(prepared: PreparedAction, signed: str) -> PreparedAction:
    return prepared.model_copy(update={"signed_payload": signed})


async def refused_everywhere(desk: Desk, context: Any, changed: PreparedAction) -> None:
    sent = desk.proxy.calls[SEND]
    submitted = await desk.transfer.submit(context, changed)
    assert (submitted.status, submitted.error_code) == (ResultStatus.REJECTED, "SIGNED_PAYLOAD_MISMATCH")
    assert submitted.evidence["refused"]
    later = context.model_copy(update={"prepared": changed})
    for look in (desk.transfer.observe, desk.transfer.recover):
        seen = await look(later)
        assert (seen.status, seen.error_code) == (ResultStatus.UNKNOWN, "STORED_ACTION_MISMATCH")
        assert seen.evidence["stored_action"]
    adopted = await desk.transfer.adopt(later, "0x" + "ab" * 32)
    assert adopted.status is ResultStatus.REJECTED
    assert desk.proxy.calls[SEND] == sent


async def test_a_changed_payload_or_hash_is_told_by_both(desk: Desk) -> None:
    context, prepared = await desk.prepared()
    await refused_everywhere(desk, context, prepared.model_copy(update={"payload": prepared.payload + " "}))
    await refused_everywhere(desk, context, prepared.model_copy(update={"payload_hash": "0" * 64}))


@pytest.mark.parametrize(
    "payload",
    ["", "{}", "[]", "null", "7", "not JSON", '{"transaction": null}', "[" * 100_000],
    ids=lambda text: text[:9],
)
async def test_a_payload_of_another_kind_is_told(desk: Desk, payload: str) -> None:
    keep_recursion_limit()  # as the platform does when it starts
    context, prepared = await desk.prepared()
    await refused_everywhere(desk, context, rewritten(prepared, payload))


async def test_a_payload_that_lacks_a_field_is_told(desk: Desk) -> None:
    context, prepared = await desk.prepared()
    for field in json.loads(prepared.payload)["transaction"]:
        await refused_everywhere(desk, context, without(prepared, field))


@pytest.mark.parametrize("signed", ["", "zz", "0x", "0x00", "0x02", "0x02c0", "0x02f8", "0x03c0", "0x7f00", "\ud800"])
async def test_bytes_that_are_no_transaction_are_told(desk: Desk, signed: str) -> None:
    context, prepared = await desk.prepared()
    await refused_everywhere(desk, context, signed_as(prepared, signed))


async def test_damaged_bytes_are_told_wherever_they_are_damaged(desk: Desk) -> None:
    context, prepared = await desk.prepared()
    signed = str(prepared.signed_payload)
    for at in range(2, len(signed), 8):
        other = "0" if signed[at] != "0" else "f"
        await refused_everywhere(desk, context, signed_as(prepared, signed[:at] + other + signed[at + 1 :]))
    await refused_everywhere(desk, context, signed_as(prepared, signed[:-2]))


async def test_an_action_changed_after_it_was_sent_is_unknown_and_the_whole_one_is_found(desk: Desk) -> None:
    context, prepared = await desk.prepared()
    assert (await desk.transfer.submit(context, prepared)).status is ResultStatus.ACCEPTED
    desk.mine(3)
    changed = prepared.model_copy(update={"payload": prepared.payload + " "})
    seen = await desk.transfer.recover(context.model_copy(update={"prepared": changed}))
    assert seen.status is ResultStatus.UNKNOWN
    assert (await desk.transfer.recover(context)).status is ResultStatus.COMPLETED
    assert desk.proxy.calls[SEND] == 1


async def test_an_expired_action_tells_when_it_expired_and_when_it_was_looked_at(desk: Desk) -> None:
    context, prepared = await desk.prepared()
    until = datetime.now(UTC) - timedelta(seconds=1)
    result = await desk.transfer.submit(context, prepared.model_copy(update={"expires_at": until}))
    assert (result.status, result.error_code) == (ResultStatus.NOT_SENT, "PREPARED_EXPIRED")
    assert result.evidence["expires_at"] == until.isoformat()
    assert datetime.fromisoformat(result.evidence["now"]) > until
    assert desk.proxy.calls[SEND] == 0
