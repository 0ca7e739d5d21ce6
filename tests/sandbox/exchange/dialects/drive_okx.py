"""OKX's wire under the suites of all dialects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Driver, Next, Order, Rows, Seen

_SECRET, _PASSPHRASE = "secret-of-the-desk", "passphrase-of-the-desk"


class OkxDriver(Driver):
    wire = "okx"
    network = "ERC20"
    amount_includes_fee = False
    page_limit = 100
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET, "password": _PASSPHRASE}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, '"code": "50111"'),
        "secret": ({"secret": "another-secret"}, '"code": "50113"'),
        "passphrase": ({"password": "another-passphrase"}, '"code": "50105"'),
        "clock": ({"options": {"timeDifference": 60_000}}, '"code": "50102"'),
    }
    venue_fields: ClassVar = {
        "api_key": API_KEY,
        "api_secret": _SECRET,
        "api_passphrase": _PASSPHRASE,
        "address_whitelist": [TO],
    }
    refusals: ClassVar = {
        "unknown_coin": '"code": "51000"',
        "unknown_network": '"code": "51000"',
        "bad_address": '"code": "58222"',
        "strange_address": '"code": "58207"',
        "no_amount": '"code": "50014"',
        "malformed_amount": '"code": "51000"',
        "off_step": '"code": "51000"',
        "too_little": '"code": "58206"',
        "nothing": '"code": "58206"',
        "too_much": '"code": "58205"',
        "insufficient": '"code": "58350"',
    }
    no_right = '"code": "50120"'
    in_maintenance = '"code": "50001"'
    closed = '"code": "58200"'
    withdrawal_words: ClassVar = {
        "email_sent": "8",
        "cancelled": "-2",
        "awaiting_approval": "0",
        "rejected": "-1",
        "processing": "1",
        "failure": "-1",
        "completed": "2",
    }
    deposit_words: ClassVar = {
        "pending": "0",
        "success": "2",
        "rejected": "13",
        "credited_locked": "1",
        "wrong": "12",
        "awaiting_user": "8",
    }

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {
            "ccy": order.coin,
            "chain": f"{order.coin}-{order.network or self.network}",
            "toAddr": order.address,
            "dest": "4",
            "clientId": order.client_id,
        }
        if order.amount is not None:
            fields["amt"] = order.amount
        return await client.privatePostAssetWithdrawal(fields)

    def submitted_id(self, reply: Any) -> str | None:
        rows = reply.get("data") if isinstance(reply, dict) else None
        return rows[0].get("wdId") if rows else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        rows = await _data(client.privateGetAssetWithdrawalHistory({"limit": str(limit), **(after or {})}))
        return rows, {"after": rows[-1]["ts"]} if len(rows) == limit else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        bounds = {"before": str(start_ms - 1), "after": str(end_ms + 1)}
        return await _data(client.privateGetAssetWithdrawalHistory(bounds))

    async def find(self, client: Any, client_id: str) -> Rows:
        return await _data(client.privateGetAssetWithdrawalHistory({"clientId": client_id}))

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        return Seen(
            key=row["wdId"],
            amount=Decimal(row["amt"]),
            status=row["state"],
            tx_id=row["txId"] or None,
            at_ms=int(row["ts"]),
            fee=Decimal(row["fee"]),
            client_id=row["clientId"] or None,
        )

    async def deposits(self, client: Any) -> Rows:
        return await _data(client.privateGetAssetDepositHistory())

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        return Seen(row["depId"], Decimal(row["amt"]), row["state"], row["txId"], int(row["ts"]))

    async def free(self, client: Any, coin: str) -> Decimal:
        (row,) = await _data(client.privateGetAssetBalances({"ccy": coin}))
        return Decimal(row["availBal"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        (row,) = await _data(client.privateGetAssetCurrencies({"ccy": coin}))
        return Decimal(row["fee"]), Decimal(row["minWd"]), row["canWd"]

    async def may_withdraw(self, client: Any) -> bool:
        (account,) = await _data(client.privateGetAccountConfig())
        return "withdraw" in account["perm"].split(",")

    async def works(self, client: Any) -> bool:
        return not await _data(client.publicGetSystemStatus({"state": "ongoing"}))

    async def clock_ms(self, client: Any) -> int:
        (row,) = await _data(client.publicGetPublicTime())
        return int(row["ts"])

    async def deposit_address(self, client: Any, coin: str) -> str:
        (row,) = await _data(client.privateGetAssetDepositAddress({"ccy": coin}))
        assert row["chain"] == f"{coin}-{self.network}"
        return str(row["addr"])


async def _data(asking: Any) -> Rows:
    reply = await asking
    assert reply["code"] == "0"
    rows: Rows = reply["data"]
    return rows


DRIVER = OkxDriver()
