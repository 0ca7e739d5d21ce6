"""Binance's wire under the suites of all dialects."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Driver, Next, Order, Rows, Seen

_SECRET = "secret-of-the-desk"


class BinanceDriver(Driver):
    wire = "binance"
    network = "ETH"
    pages_shift = True
    grain_ms = 1000
    page_limit = 1000
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, '"code": -2015'),
        "secret": ({"secret": "another-secret"}, '"code": -1022'),
        "clock": ({"options": {"timeDifference": 60_000}}, '"code": -1021'),
    }
    venue_fields: ClassVar = {"api_key": API_KEY, "api_secret": _SECRET, "address_whitelist": [TO]}
    refusals: ClassVar = {
        "unknown_coin": '"code": -4018',
        "unknown_network": '"code": -4019',
        "bad_address": '"code": -4007',
        "strange_address": '"code": -4035',
        "no_amount": '"code": -1102',
        "malformed_amount": '"code": -1100',
        "off_step": '"code": -4021',
        "too_little": '"code": -4022',
        "nothing": '"code": -4022',
        "too_much": '"code": -4023',
        "insufficient": '"code": -4026',
    }
    no_right = '"code": -2015'
    in_maintenance = '"code": -1016'
    closed = '"code": -4019'
    withdrawal_words: ClassVar = {
        "email_sent": "0",
        "cancelled": "1",
        "awaiting_approval": "2",
        "rejected": "3",
        "processing": "4",
        "failure": "5",
        "completed": "6",
    }
    deposit_words: ClassVar = {
        "pending": "0",
        "success": "1",
        "rejected": "2",
        "credited_locked": "6",
        "wrong": "7",
        "awaiting_user": "8",
    }

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {"coin": order.coin, "network": order.network or self.network, "address": order.address}
        fields["withdrawOrderId"] = order.client_id
        return await client.sapiPostCapitalWithdrawApply(fields | _amount(order, "amount"))

    def submitted_id(self, reply: Any) -> str | None:
        return reply.get("id") if isinstance(reply, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        offset = 0 if after is None else after["offset"]
        rows = await client.sapiGetCapitalWithdrawHistory({"limit": limit, "offset": offset})
        return rows, {"offset": offset + limit} if len(rows) == limit else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        rows: Rows = await client.sapiGetCapitalWithdrawHistory({"startTime": start_ms, "endTime": end_ms})
        return rows

    async def find(self, client: Any, client_id: str) -> Rows:
        rows: Rows = await client.sapiGetCapitalWithdrawHistory({"withdrawOrderId": client_id})
        return rows

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        at = datetime.strptime(row["applyTime"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        return Seen(
            key=row["id"],
            amount=Decimal(row["amount"]),
            status=str(row["status"]),
            tx_id=row["txId"] or None,
            at_ms=int(at.timestamp() * 1000),
            fee=Decimal(row["transactionFee"]),
            client_id=row.get("withdrawOrderId"),
        )

    async def deposits(self, client: Any) -> Rows:
        rows: Rows = await client.sapiGetCapitalDepositHisrec()
        return rows

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        return Seen(row["id"], Decimal(row["amount"]), str(row["status"]), row["txId"], row["insertTime"])

    async def free(self, client: Any, coin: str) -> Decimal:
        (row,) = await client.sapiV3PostAssetGetUserAsset({"asset": coin})
        return Decimal(row["free"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        found = {row["coin"]: row["networkList"][0] for row in await client.sapiGetCapitalConfigGetall()}[coin]
        return Decimal(found["withdrawFee"]), Decimal(found["withdrawMin"]), found["withdrawEnable"]

    async def may_withdraw(self, client: Any) -> bool:
        return (await client.sapiGetAccountApiRestrictions())["enableWithdrawals"] is True

    async def works(self, client: Any) -> bool:
        return (await client.sapiGetSystemStatus())["status"] == 0

    async def clock_ms(self, client: Any) -> int:
        return int((await client.publicGetTime())["serverTime"])

    async def deposit_address(self, client: Any, coin: str) -> str:
        found = await client.sapiGetCapitalDepositAddress({"coin": coin, "network": self.network})
        return str(found["address"])


def _amount(order: Order, name: str) -> dict[str, str]:
    return {} if order.amount is None else {name: order.amount}


DRIVER = BinanceDriver()
