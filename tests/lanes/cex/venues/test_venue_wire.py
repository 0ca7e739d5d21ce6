"""What is approved is what stands in the request that the real client signs: amount, network, memo, beneficiary."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qtg_dagster.domain.amounts import plain_decimal
from qtg_dagster.domain.contract import ResultStatus
from qtg_dagster.lanes.cex.transport import Credentials, Transport
from qtg_dagster.lanes.cex.venue import Call, Order, Venue
from qtg_dagster.secret import Secret
from tests.lanes.cex.venues.bench import API_KEY, DESTINATION, Bench, benches

BENCHES = pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
SIGNED_AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
_LEAST_TIME = 10**9
ORDER = Order("USDC", "ETH", DESTINATION, None, "1.5", "c" * 32, saved_as="the desk")
#: Plain decimals of any size and precision that an asset can have.
amounts = st.builds(lambda units, places: Decimal(units).scaleb(-places), st.integers(1, 10**24), st.integers(0, 18))


class Wire:
    """The real client of a venue with its line cut: what it would have sent is kept instead."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.venue: Venue = bench.venue
        self._loop = asyncio.new_event_loop()
        passphrase = None if bench.passphrase is None else Secret(bench.passphrase)
        keys = Credentials(Secret(API_KEY), Secret(bench.secret), passphrase)
        self._transport = Transport(self.venue.ccxt_id, keys, base_url="http://127.0.0.1:9")
        self._sent: list[tuple[str, Any]] = []
        self._loop.run_until_complete(self._cut())

    async def _cut(self) -> None:
        await self._transport.open()

        async def fetch(url: str, _method: str = "GET", _headers: Any = None, body: Any = None) -> Any:
            self._sent.append((url, body))
            return {}

        self._transport._client.fetch = fetch

    def values(self, call: Call) -> list[Any]:
        """All values of the request that the call makes; numbers of JSON as the text that they are sent as."""
        self._sent.clear()
        reply = self._loop.run_until_complete(self._transport.call(call))
        assert self._sent, reply.error
        ((url, body),) = self._sent
        found = [value for _, value in parse_qsl(urlsplit(url).query, keep_blank_values=True)]
        if isinstance(body, str) and body.lstrip().startswith("{"):
            return [*found, *_leaves(json.loads(body, parse_float=Number, parse_int=Number))]
        return [*found, *(value for _, value in parse_qsl(body or "", keep_blank_values=True))]

    def submitted(self, **changes: Any) -> list[Any]:
        network = self.venue.network_code("ETH")
        return self.values(self.venue.submit(replace(ORDER, network=network, **changes), SIGNED_AT))

    def close(self) -> None:
        self._loop.run_until_complete(self._transport.close())
        self._loop.close()


class Number(str):
    """A number of JSON as it is spelt."""

    __slots__ = ()


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


@pytest.fixture(scope="module", params=benches(), ids=lambda bench: bench.wire)
def wire(request: pytest.FixtureRequest) -> Iterator[Wire]:
    opened = Wire(request.param)
    yield opened
    opened.close()


@given(amounts)
@example(Decimal("1E-7"))
@example(Decimal("0.100000000000000005"))
@example(Decimal("12.345678912345"))
@example(Decimal("1E+21"))
def test_the_plain_decimal_and_nothing_else_is_sent(wire: Wire, amount: Decimal) -> None:
    text = plain_decimal(amount)
    usual, sent = wire.submitted(), wire.submitted(amount=text)
    assert len(sent) == len(usual)
    changed = [value for value, before in zip(sent, usual, strict=True) if value != before]
    assert text in changed or text == ORDER.amount
    assert not [value for value in changed if value != text and _is_about(value, amount)]


def _is_about(value: Any, amount: Decimal) -> bool:
    """This amount in another spelling, or rounded. Times and nonces change too, and are larger."""
    try:
        number = Decimal(str(value))
    except ArithmeticError:
        return False
    return 0 < number < _LEAST_TIME and abs(number - amount) <= amount / 1000


def test_a_memo_is_text_to_the_last_zero(wire: Wire) -> None:
    plain = wire.submitted()
    assert "007" not in plain
    for memo in ("007", "7", "0", "1e3", "a b&c=d"):
        with_memo = wire.submitted(memo=memo)
        if wire.venue.saved_addresses_only and len(with_memo) == len(plain):  # it stands in the address book alone
            continue
        assert memo in with_memo or f"{DESTINATION}:{memo}" in with_memo


def test_a_network_goes_out_under_the_venues_own_name(wire: Wire) -> None:
    usual = wire.venue.network_code("ETH")
    implied = wire.venue.saved_addresses_only and usual not in wire.submitted()  # by the name in the address book
    for name in (wire.bench.network, "ERC20", "TRC20", "TRX"):
        code = wire.venue.network_code(name)
        assert wire.venue.network_code(code) == code
        sent = wire.values(wire.venue.submit(replace(ORDER, network=code), SIGNED_AT))
        assert implied or code in sent or f"{ORDER.coin}-{code}" in sent


@BENCHES
async def test_a_network_that_is_not_listed_is_never_passed_through(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench, networks={"eip155:31337": "FOO"})
    answer = await desk.executor("withdrawal_action").preflight(order())
    if bench.venue.lists_closed_networks:
        assert (answer.status, answer.evidence["field"]) == (ResultStatus.REJECTED, "config.chain")
        assert f"{bench.venue.network_code('FOO')!r}" in answer.error_message
    else:
        assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, "NETWORK_SUSPENDED")
    assert await desk.posts() == 0


@pytest.mark.parametrize("bench", [b for b in benches() if b.beneficiary], ids=lambda bench: bench.wire)
def test_a_beneficiary_stands_beside_an_unchanged_request(bench: Bench) -> None:
    wire = Wire(bench)
    try:
        call = bench.venue.submit(replace(ORDER, network=bench.venue.network_code("ETH")), SIGNED_AT)
        told = bench.venue.with_beneficiary(call, bench.beneficiary)
        assert told is not None
        before, after = wire.values(call), wire.values(told)
        signatures = 2  # the signature, and a nonce or time of the client's own
        assert sum(before.count(value) <= after.count(value) for value in before) >= len(before) - signatures
        assert ORDER.amount in after
        spelt = json.dumps(after)
        for value in bench.beneficiary.values():
            assert str(value) in spelt or json.dumps(value) in spelt
    finally:
        wire.close()
