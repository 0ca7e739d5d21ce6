"""Kraken's wire under the suites of all dialects."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any, ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY, STRANGE, TO, Driver, Next, Order, Rows, Seen

_SECRET = base64.b64encode(b"secret-of-the-desk").decode()
_ANOTHER = base64.b64encode(b"another-secret").decode()
_SAVED = {"network": "Ethereum", "address": TO}


class KrakenDriver(Driver):
    wire = "kraken"
    network = "Ethereum"
    has_client_ids = False
    has_address_book = True
    grain_ms = 1000
    page_limit = 500
    copy_outcome = "refused EAPI:Invalid nonce"
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, "EAPI:Invalid key"),
        "secret": ({"secret": _ANOTHER}, "EAPI:Invalid signature"),
        "nonce": ({"options": {"timeDifference": 60_000}}, "EAPI:Invalid nonce"),
    }
    venue_fields: ClassVar = {
        "api_key": API_KEY,
        "api_secret": _SECRET,
        "address_book": [
            {"name": "desk ETH", "coin": "ETH", **_SAVED},
            {"name": "desk USDC", "coin": "USDC", **_SAVED},
            {"name": "unproven ETH", "coin": "ETH", **_SAVED, "verified": False},
        ],
    }
    refusals: ClassVar = {
        "unknown_coin": "EFunding:Unknown asset",
        "bad_address": "EFunding:Invalid address",
        "strange_address": "EFunding:Unknown withdraw key",
        "no_amount": "EGeneral:Invalid arguments:amount",
        "malformed_amount": "EFunding:Invalid amount",
        "off_step": "EFunding:Invalid amount",
        "too_little": "EFunding:Invalid amount",
        "nothing": "EFunding:Invalid amount",
        "too_much": "EFunding:Withdrawal limit exceeded",
        "insufficient": "EFunding:Insufficient funds",
    }
    no_right = "EGeneral:Permission denied"
    in_maintenance = "EService:Unavailable"
    closed = "EFunding:No funding method"
    withdrawal_words: ClassVar = {
        "email_sent": "Initial onhold",
        "cancelled": "Failure canceled",
        "awaiting_approval": "Initial",
        "rejected": "Failure",
        "processing": "Pending",
        "failure": "Failure",
        "completed": "Success",
    }
    deposit_words: ClassVar = {
        "pending": "Settled",
        "success": "Success",
        "rejected": "Failure",
        "credited_locked": "Success on-hold",
        "wrong": "Failure",
        "awaiting_user": "Settled on-hold",
    }

    async def submit(self, client: Any, order: Order) -> Any:
        key = f"desk {order.coin}" if order.address != STRANGE else "nobody"
        fields = {"asset": order.coin, "key": key}
        if order.address not in (TO, STRANGE):
            fields["address"] = order.address
        if order.amount is not None:
            fields["amount"] = order.amount
        return await client.privatePostWithdraw(fields)

    def submitted_id(self, reply: Any) -> str | None:
        result = reply.get("result") if isinstance(reply, dict) else None
        return result.get("refid") if isinstance(result, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        asked = {"cursor": "true", "limit": str(limit), **(after or {})}
        result = await _result(client.privatePostWithdrawStatus(asked))
        cursor = result["next_cursor"]
        return result["withdrawals"], None if cursor is None else {"cursor": cursor}

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        bounds = {"start": str(Decimal(start_ms) / 1000), "end": str(Decimal(end_ms) / 1000)}
        rows: Rows = await _result(client.privatePostWithdrawStatus(bounds))
        return rows

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        return Seen(
            key=row["refid"],
            amount=Decimal(row["amount"]),
            status=_status(row),
            tx_id=row["txid"],
            at_ms=row["time"] * 1000,
            fee=Decimal(row["fee"]),
        )

    async def deposits(self, client: Any) -> Rows:
        rows: Rows = await _result(client.privatePostDepositStatus())
        return rows

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        return Seen(row["refid"], Decimal(row["amount"]), _status(row), row["txid"], row["time"] * 1000)

    async def free(self, client: Any, coin: str) -> Decimal:
        row = (await _result(client.privatePostBalanceEx()))[_asset(coin)]
        return Decimal(row["balance"]) - Decimal(row["hold_trade"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        methods: Rows = await _result(client.privatePostWithdrawMethods({"asset": coin}))
        if not methods:  # a way that is closed is not listed
            return Decimal(0), Decimal(0), False
        (row,) = methods
        return Decimal(row["fee"]["fee"]), Decimal(row["minimum"]), True

    async def may_withdraw(self, client: Any) -> bool:
        return "withdraw-funds" in (await _result(client.privatePostGetApiKeyInfo()))["permissions"]

    async def works(self, client: Any) -> bool:
        return (await _result(client.publicGetSystemStatus()))["status"] == "online"

    async def clock_ms(self, client: Any) -> int:
        return int((await _result(client.publicGetTime()))["unixtime"]) * 1000

    async def deposit_address(self, client: Any, coin: str) -> str:
        (method,) = await _result(client.privatePostDepositMethods({"asset": coin}))
        asked = {"asset": coin, "method": method["method"]}
        (row,) = await _result(client.privatePostDepositAddresses(asked))
        return str(row["address"])

    async def address_book(self, client: Any) -> list[str]:
        rows = await _result(client.privatePostWithdrawAddresses({"asset": "ETH", "verified": "true"}))
        return [row["address"] for row in rows]


async def _result(asking: Any) -> Any:
    reply = await asking
    assert reply["error"] == []
    return reply["result"]


def _asset(coin: str) -> str:
    return {"ETH": "XETH"}.get(coin, coin)


def _status(row: dict[str, Any]) -> str:
    return " ".join(word for word in (row["status"], row.get("status-prop")) if word)


DRIVER = KrakenDriver()
