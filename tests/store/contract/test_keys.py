"""What every store promises of idempotency keys: one belongs to one movement for good, also when its rows are gone."""

from __future__ import annotations

import pytest

from qtg_dagster.domain.errors import Conflict
from qtg_dagster.engine.requests import cancel_movement, create_movement, publish_template
from tests.engine.plans import node, order_of, plan_of
from tests.store.contract.conftest import Bench

ONE = plan_of(node("first"))
ORDER = order_of(ONE, idempotency_key="payroll 7")


async def ended(bench: Bench) -> str:
    await publish_template(bench.engine, ONE)
    receipt = await create_movement(bench.engine, ORDER)
    await cancel_movement(bench.engine, receipt.request_id, actor="heidi", reason="no")
    return receipt.request_id


async def test_a_key_of_a_deleted_movement_gives_what_it_gave_while_it_stood(bench: Bench) -> None:
    request_id = await ended(bench)
    standing = await create_movement(bench.engine, ORDER)
    assert (standing.request_id, standing.created) == (request_id, False)
    bench.ground.forget(request_id)
    assert await create_movement(bench.engine, ORDER) == standing


async def test_another_order_under_the_key_of_a_deleted_movement_is_refused(bench: Bench) -> None:
    request_id = await ended(bench)
    bench.ground.forget(request_id)
    with pytest.raises(Conflict, match=f"belongs to movement {request_id}"):
        await create_movement(bench.engine, ORDER.model_copy(update={"reason": "another"}))


async def test_other_keys_and_orders_without_one_are_free(bench: Bench) -> None:
    request_id = await ended(bench)
    bench.ground.forget(request_id)
    for key in ("payroll 8", None):
        receipt = await create_movement(bench.engine, ORDER.model_copy(update={"idempotency_key": key}))
        assert receipt.created
        assert receipt.request_id != request_id
