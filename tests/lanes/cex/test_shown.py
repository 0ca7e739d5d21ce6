"""What is written down of a venue's rows names nobody, and everything else of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.redaction import REDACTED
from qtg_dagster.lanes.cex.reply import RawReply
from qtg_dagster.lanes.cex.shown import shown, shown_address, shown_rows
from qtg_dagster.lanes.cex.venues.bybit import VENUE as BYBIT
from qtg_dagster.lanes.cex.venues.okx import VENUE as OKX

HASH, ADDRESS = "0x" + "1f" * 32, "0x" + "ab" * 20
#: Rows as the venues document them.
INSIDE_BYBIT = {
    "coin": "USDT",
    "chain": "ETH",
    "amount": "26",
    "txID": "",
    "status": "success",
    "tag": "",
    "withdrawFee": "0",
    "toAddress": "15638072681@163.com",
    "createTime": "1669711121000",
    "withdrawId": "9801",
    "withdrawType": 1,
}
BETWEEN_BYBIT = {"id": "1103", "coin": "ETH", "amount": "0.1", "type": 1, "status": 2, "createdTime": "1705393280"}
FROM_OKX = {
    "ccy": "USDT",
    "chain": "USDT-TRC20",
    "amt": "1",
    "state": "2",
    "depId": "4703879",
    "txId": "1f" * 32,
    "from": "13426335357",
    "areaCodeFrom": "86",
    "to": "TN4hGjVXMzy",
    "ts": "1655251200000",
}
COINBASE = {
    "type": "send",
    "description": "rent for Wilhelmina",
    "to": {"resource": "user", "id": "7fd10cd7", "name": "Wilhelmina Quistgaard", "email": "w@example.org"},
    "details": {"title": "Sent USDC", "subtitle": "To Wilhelmina Quistgaard"},
    "network": {"network_name": "ethereum", "hash": HASH},
}
PEOPLE = ("15638072681", "163.com", "13426335357", "Wilhelmina", "w@example.org", "hjx***@gmail.com")


@pytest.mark.parametrize("row", [INSIDE_BYBIT, FROM_OKX, COINBASE, {**BETWEEN_BYBIT, "address": "hjx***@gmail.com"}])
def test_nobody_is_named(row: dict[str, Any]) -> None:
    told = json.dumps(shown(row))
    assert not [person for person in PEOPLE if person in told]
    assert REDACTED in told
    assert json.dumps(shown({"rows": [row]})) == f'{{"rows": [{told}]}}'


def test_what_is_of_nobody_stays() -> None:
    row = shown({**COINBASE, "id": "13426335357", "memo": "104782215", "ts": "1655251200000", "address": ADDRESS})
    assert (row["network"], row["id"]) == (COINBASE["network"], "13426335357")
    assert (row["memo"], row["ts"], row["address"]) == ("104782215", "1655251200000", ADDRESS)
    refusal = {"error": {"name": "withdraw_insufficient_balance", "message": "no"}}
    assert shown(refusal) == refusal, "an error's name is a code"
    assert shown({"walletTxId": f"{HASH}@{ADDRESS}"}) == {"walletTxId": f"{HASH}@{ADDRESS}"}


def test_rows_and_answers_are_shown_so() -> None:
    (inside,) = BYBIT.read_withdrawals({"retCode": 0, "result": {"rows": [INSIDE_BYBIT]}})
    (came,) = OKX.read_deposits({"code": "0", "data": [FROM_OKX]})
    told = json.dumps([*shown_rows([inside]), *shown_rows([came]), RawReply(True, 201, json=COINBASE).evidence()])
    assert not [person for person in PEOPLE if person in told]
    assert inside.address == "15638072681@163.com", "it is compared with ours, and differs"


@pytest.mark.parametrize("person", ["15638072681@163.com", "+86 134-2633-5357", "134****5357", "hjx***@gmail.com"])
def test_a_person_is_no_address(person: str) -> None:
    assert REDACTED in str(shown_address(person))
    assert "5357" not in str(shown_address(person))


@given(st.from_regex(r"0x[0-9a-f]{40}|[1-9A-HJ-NP-Za-km-z]{30,44}|r[1-9A-HJ-NP-Za-km-z]{25,34}", fullmatch=True))
def test_addresses_of_chains_stay(address: str) -> None:
    assert shown_address(address) == address
    assert shown_address(None) is None
