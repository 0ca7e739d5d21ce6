"""Rows that hide where money went, and a chain that shows it: what is proven counts, and every doubt stays one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.domain.errors import QtgError
from qtg_dagster.inventory import Inventory
from qtg_dagster.lanes.cex import destinations
from qtg_dagster.lanes.cex.accounts import VenueAccount, VenueAccounts
from qtg_dagster.lanes.cex.adopting import judge_adoption
from qtg_dagster.lanes.cex.destinations import MOST_ROWS, may_arrive, with_destinations
from qtg_dagster.lanes.cex.orders import Withdrawal, withdrawal_of
from qtg_dagster.lanes.cex.venue import Call, FeeRule
from qtg_dagster.lanes.cex.venues.bithumb import VENUE as BITHUMB
from qtg_dagster.lanes.cex.venues.kraken import VENUE as KRAKEN
from qtg_dagster.lanes.cex.venues.upbit import VENUE as UPBIT
from qtg_dagster.lanes.cex.withdrawal_recovery import Attempt, look_up
from qtg_dagster.lanes.cex.withdrawal_refs import bound_refs
from tests.lanes.cex.conftest import DESTINATION

NOW = datetime(2026, 3, 29, 12, tzinfo=UTC)
PREPARED = NOW - timedelta(hours=3)
ELSEWHERE = "0x" + "ee" * 20
INVENTORY = Inventory.model_validate(
    {
        "assets": {"ETH": {"symbol": "ETH", "decimals": 18}},
        "chains": {"eip155:1": {"name": "E", "rpc_urls": ["http://127.0.0.1:9"], "native_asset": "ETH"}},
        "venues": {
            "desk": {
                "wire": "upbit",
                "api_key": {"env": "K"},
                "api_secret": {"env": "S"},
                "assets": {"ETH": "ETH"},
                "networks": {"eip155:1": "ETH"},
            }
        },
    }
)


def hash_of(number: int) -> str:
    return f"0x{number:064x}"


def row(number: int, **fields: Any) -> dict[str, Any]:
    """A withdrawal of 10 ETH as the venue shows it, asked for when ours was."""
    shown = {"type": "withdraw", "uuid": f"u{number}", "currency": "ETH", "net_type": "ETH", "state": "DONE"}
    made = {"created_at": PREPARED.isoformat(), "amount": "10", "fee": "0.01", "txid": hash_of(number)}
    return {**shown, **made, **fields}


class Account(VenueAccount):
    """An account whose record is in memory."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        super().__init__("desk", INVENTORY.venues["desk"])
        self.rows = list(rows)

    async def read(self, call: Call) -> Any:
        if "uuid" in call.params:
            return [found for found in self.rows if found["uuid"] == call.params["uuid"]]
        return self.rows if call.params["page"] == "1" else []


class Chain:
    """What the chain says of each transaction: whom it paid, None for a doubt, or why it cannot be read."""

    def __init__(self, said: dict[int, str | QtgError | None] | None = None) -> None:
        self.said = {hash_of(number): what for number, what in (said or {}).items()}
        self.asked: list[str] = []

    async def paid_to(
        self, *, chain: str, asset: str, tx_hash: str, amounts: Collection[Decimal], destination: str
    ) -> str | None:
        assert (chain, asset, destination) == ("eip155:1", "ETH", DESTINATION)
        assert amounts == {Decimal(10), Decimal("9.99")}
        self.asked.append(tx_hash)
        what = self.said.get(tx_hash)
        if isinstance(what, QtgError):
            raise what
        return what


def context(memo: str | None = None, *, attempted: bool = True, **refs: Any) -> ExecutionContext:
    config = {"venue": "desk", "asset": "ETH", "chain": "eip155:1", "amount": "10", "destination": DESTINATION}
    prepared = PreparedAction.of(
        action_type="cex_withdrawal",
        payload_format=UPBIT.payload_format,
        payload="{}",
        provider_refs={
            "withdrawal_prepared_at": PREPARED.isoformat(),
            "withdrawal_expires_at": (PREPARED + timedelta(seconds=60)).isoformat(),
            "withdrawal_balance_before": {"free": "100", "locked": "0", "withdrawing": "0"},
        },
    )
    return ExecutionContext(
        request_id="r1",
        request_node_id="n1",
        compiled_plan_hash="h",
        template_key="t",
        template_version=1,
        node_key="withdraw",
        node_kind="action",
        action_type="cex_withdrawal",
        attempt_no=1,
        intent={},
        input_params={},
        resolved_bindings={},
        risk_controls={},
        node_config=config | ({"memo": memo} if memo else {}),
        provider_context={},
        idempotency_key="n1:1",
        node_refs=refs,
        prepared=prepared if attempted else None,
    )


def withdrawal_at(account: VenueAccount, at: ExecutionContext) -> Withdrawal:
    return replace(withdrawal_of(at, VenueAccounts(INVENTORY)), account=account)


async def looked_up(chain: Chain | None, *rows: dict[str, Any], memo: str | None = None) -> ExecutionResult | None:
    at = context(memo)
    attempt = Attempt.of(at, "ETH")
    assert attempt is not None
    return await look_up(withdrawal_at(Account(*rows), at), attempt, {}, NOW, chain)


async def adopted(chain: Chain | None, *rows: dict[str, Any], attempted: bool = False) -> ExecutionResult:
    at = context(attempted=attempted)
    return await judge_adoption(withdrawal_at(Account(*rows), at), at, "u1", NOW, chain)


async def test_a_row_whose_transaction_paid_our_destination_is_ours() -> None:
    found = await looked_up(Chain({1: DESTINATION}), row(1))
    assert found is not None
    assert (found.status, found.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, "u1")
    assert found.evidence["on_chain"] == [f"u1: transaction {hash_of(1)} on eip155:1 paid {DESTINATION}"]


async def test_a_row_whose_transaction_paid_somebody_else_is_not_ours() -> None:
    assert await looked_up(Chain({1: ELSEWHERE}), row(1)) is None
    found = await looked_up(Chain({1: ELSEWHERE, 2: DESTINATION}), row(1), row(2))
    assert found is not None
    assert (found.status, found.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, "u2")


UNREADABLE = QtgError("node.example: HTTP 503")


@pytest.mark.parametrize(
    ("said", "rows", "code"),
    [
        (None, [row(1)], "UNPROVEN_ON_RECORD"),
        ({}, [row(1)], "UNPROVEN_ON_RECORD"),
        ({1: UNREADABLE}, [row(1)], "UNPROVEN_ON_RECORD"),
        ({1: DESTINATION}, [row(1, txid=None)], "UNPROVEN_ON_RECORD"),
        ({1: DESTINATION}, [row(1, txid="internal-1")], "UNPROVEN_ON_RECORD"),
        ({1: DESTINATION}, [row(1, transaction_type="internal")], "UNPROVEN_ON_RECORD"),
        ({1: DESTINATION}, [row(1, net_type=None)], "UNPROVEN_ON_RECORD"),
        ({1: DESTINATION}, [row(1, created_at=None)], "UNPROVEN_ON_RECORD"),
        ({1: ELSEWHERE}, [row(1), row(2, txid=None)], "UNPROVEN_ON_RECORD"),
        ({1: DESTINATION, 2: DESTINATION}, [row(1), row(2)], "SEVERAL_ON_RECORD"),
        ({1: DESTINATION}, [row(1), row(2)], "SEVERAL_ON_RECORD"),
        ({1: DESTINATION}, [row(1), row(2, txid=None)], "SEVERAL_ON_RECORD"),
        ({1: DESTINATION, 2: UNREADABLE}, [row(1), row(2)], "SEVERAL_ON_RECORD"),
        ({1: DESTINATION}, [row(1, state="CANCELLED")], "UNDONE_ON_RECORD"),
    ],
)
async def test_every_doubt_is_a_persons(said: Any, rows: Any, code: str) -> None:
    found = await looked_up(None if said is None else Chain(said), *rows)
    assert found is not None
    assert (found.status, found.error_code) == (ResultStatus.UNKNOWN, code)
    assert "exchange_withdrawal_id" not in found.provider_refs


async def test_what_the_chain_did_not_tell_is_in_the_evidence() -> None:
    found = await looked_up(Chain({1: UNREADABLE}), row(1), row(2))
    assert found is not None
    unread, doubtful = found.evidence["on_chain"]
    assert unread.endswith("could not be read: node.example: HTTP 503")
    assert "does not tell for certain" in doubtful


async def test_no_chain_says_what_memo_there_was() -> None:
    found = await looked_up(Chain({1: DESTINATION}), row(1), memo="7")
    assert found is not None
    assert (found.status, found.error_code) == (ResultStatus.UNKNOWN, "UNPROVEN_ON_RECORD")


async def test_only_rows_that_could_be_ours_are_asked_about() -> None:
    chain = Chain()
    early = row(2, created_at=(PREPARED - timedelta(minutes=5)).isoformat())
    await looked_up(chain, row(1), early, row(3, amount="11"), row(4, net_type="ARB"), row(5, txid=None))
    assert chain.asked == [hash_of(1)]


async def test_where_rows_show_destinations_no_chain_is_asked() -> None:
    account, chain, at = Account(), Chain({1: DESTINATION}), context()
    account.venue = KRAKEN
    rows = UPBIT.read_withdrawals([row(1)])
    shown = await with_destinations(withdrawal_at(account, at), rows, lambda _: True, chain)
    assert (shown.rows, shown.seen, chain.asked) == (rows, (), [])


async def test_one_look_has_its_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(dict.fromkeys(range(MOST_ROWS + 5), ELSEWHERE))
    found = await looked_up(chain, *(row(number) for number in range(MOST_ROWS + 5)))
    assert found is not None
    assert (found.error_code, len(chain.asked)) == ("SEVERAL_ON_RECORD", MOST_ROWS)

    class Silent(Chain):
        async def paid_to(self, **asked: Any) -> str | None:
            if asked["tx_hash"] == hash_of(2):
                await asyncio.Event().wait()
            return await super().paid_to(**asked)

    monkeypatch.setattr(destinations, "SECONDS", 0.01)
    found = await looked_up(Silent({1: ELSEWHERE, 2: DESTINATION}), row(1), row(2))
    assert found is not None
    assert (found.status, found.error_code) == (ResultStatus.UNKNOWN, "UNPROVEN_ON_RECORD")
    assert found.evidence["on_chain"][-1] == "no answer within 0.01 s"


@pytest.mark.parametrize(
    ("rule", "amounts"), [(FeeRule.EITHER, {"10", "9.99"}), (FeeRule.ON_TOP, {"10"}), (FeeRule.FROM_AMOUNT, {"10"})]
)
def test_less_than_a_row_shows_may_arrive_only_where_nobody_says_who_pays_the_fee(
    rule: FeeRule, amounts: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(UPBIT), "fee_rule", rule)
    (shown,) = UPBIT.read_withdrawals([row(1)])
    assert may_arrive(shown, UPBIT) == {Decimal(amount) for amount in amounts}
    assert Decimal(0) not in may_arrive(replace(shown, fee=shown.amount), UPBIT)


async def test_who_adopts_is_told_that_the_chain_shows_the_destination() -> None:
    answer = await adopted(Chain({1: DESTINATION}), row(1))
    assert answer.status is ResultStatus.ACCEPTED
    assert answer.evidence["destination"] == f"not on the record: the chain shows {DESTINATION}"


@pytest.mark.parametrize("chain", [None, Chain(), Chain({1: UNREADABLE})])
async def test_where_the_chain_leaves_a_doubt_the_word_of_who_adopts_is_taken(chain: Chain | None) -> None:
    answer = await adopted(chain, row(1))
    assert answer.status is ResultStatus.ACCEPTED
    assert answer.evidence["destination"].endswith("on the word of who adopted it")


async def test_nobodys_word_stands_against_the_chain() -> None:
    answer = await adopted(Chain({1: ELSEWHERE}), row(1))
    assert (answer.status, answer.error_code) == (ResultStatus.REJECTED, "OTHER_ON_RECORD")
    assert "differs in address" in str(answer.error_message)
    assert f"paid {ELSEWHERE}" in str(answer.error_message)


@pytest.mark.parametrize(
    ("second", "status"),
    [(ELSEWHERE, ResultStatus.ACCEPTED), (None, ResultStatus.REJECTED), (DESTINATION, ResultStatus.REJECTED)],
)
async def test_a_second_row_that_went_elsewhere_stands_in_nobodys_way(second: str | None, status: ResultStatus) -> None:
    answer = await adopted(Chain({1: DESTINATION, 2: second}), row(1), row(2), attempted=True)
    assert answer.status is status, answer


@pytest.mark.parametrize(
    ("copy", "status"),
    [(ELSEWHERE, ResultStatus.COMPLETED), (None, ResultStatus.UNKNOWN), (DESTINATION, ResultStatus.UNKNOWN)],
)
async def test_what_went_elsewhere_is_no_copy_of_ours(copy: str | None, status: ResultStatus) -> None:
    account, at = Account(row(1), row(2)), context()
    account.venue = BITHUMB
    withdrawal, attempt = withdrawal_at(account, at), Attempt.of(at, "ETH")
    assert attempt is not None
    bound = bound_refs(withdrawal, "u1")
    found = await look_up(withdrawal, attempt, bound, NOW, Chain({1: DESTINATION, 2: copy}))
    assert found is not None
    assert found.status is status, found


SAID = st.sampled_from([DESTINATION, ELSEWHERE, None, UNREADABLE])


@given(st.lists(st.tuples(SAID, st.booleans()), max_size=6))
def test_only_the_one_row_that_is_left_and_proven_is_ours(told: list[tuple[Any, bool]]) -> None:
    rows = [row(number, **({} if hashed else {"txid": None})) for number, (_, hashed) in enumerate(told)]
    chain = Chain({number: what for number, (what, _) in enumerate(told)})
    found = asyncio.run(looked_up(chain, *rows))
    left = [number for number, (what, hashed) in enumerate(told) if not hashed or what != ELSEWHERE]
    proven = [number for number in left if told[number] == (DESTINATION, True)]
    if not left:
        assert found is None
    elif left == proven and len(left) == 1:
        assert found is not None
        assert (found.status, found.provider_refs["exchange_withdrawal_id"]) == (ResultStatus.COMPLETED, f"u{left[0]}")
    else:
        assert found is not None
        assert found.status is ResultStatus.UNKNOWN
