"""Gate's wire under the suites of all dialects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Driver, Next, Order, Rows, Seen

_SECRET = "secret-of-the-desk"
_MINED, _NOT_MINED = "DONE in a block", "DONE in none"


def _label(name: str) -> str:
    return f'"label": "{name}"'


class GateDriver(Driver):
    wire = "gate"
    network = "ETH"
    has_address_book = True
    tells_status = False
    pages_shift = True
    grain_ms = 1000
    page_limit = 100
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, _label("INVALID_KEY")),
        "secret": ({"secret": "another-secret"}, _label("INVALID_SIGNATURE")),
        "clock": ({"options": {"timeDifference": 120_000}}, _label("REQUEST_EXPIRED")),
    }
    venue_fields: ClassVar = {
        "api_key": API_KEY,
        "api_secret": _SECRET,
        "address_book": [{"name": "the desk", "coin": "ETH", "network": "ETH", "address": TO}],
    }
    refusals: ClassVar = {
        "unknown_coin": _label("INVALID_CURRENCY"),
        "unknown_network": _label("INVALID_PARAM_VALUE"),
        "bad_address": _label("INVALID_PARAM_VALUE"),
        "strange_address": _label("ADDRESS_NOT_USED"),
        "no_amount": _label("MISSING_REQUIRED_PARAM"),
        "malformed_amount": _label("INVALID_PARAM_VALUE"),
        "off_step": _label("INVALID_PRECISION"),
        "too_little": _label("AMOUNT_TOO_LITTLE"),
        "nothing": _label("AMOUNT_TOO_LITTLE"),
        "too_much": _label("WITHDRAWAL_OVER_LIMIT"),
        "insufficient": _label("BALANCE_NOT_ENOUGH"),
    }
    no_right = _label("FORBIDDEN")
    in_maintenance = _label("SERVER_ERROR")
    closed = _label("INVALID_PARAM_VALUE")
    withdrawal_words: ClassVar = {
        "email_sent": "VERIFY",
        "cancelled": "CANCEL",
        "awaiting_approval": "REQUEST",
        "rejected": "REJECT",
        "processing": _NOT_MINED,
        "failure": "INVALID",
        "completed": _MINED,
    }
    deposit_words: ClassVar = {
        "pending": "PEND",
        "success": "DONE",
        "rejected": "INVALID",
        "credited_locked": "DEP_CREDITED",
        "wrong": "BLOCKED",
        "awaiting_user": "MANUAL",
    }

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {
            "currency": order.coin,
            "chain": order.network or self.network,
            "address": order.address,
            "withdraw_order_id": order.client_id,
        }
        if order.amount is not None:
            fields["amount"] = order.amount
        return await client.privateWithdrawalsPostWithdrawals(fields)

    def submitted_id(self, reply: Any) -> str | None:
        return reply.get("id") if isinstance(reply, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        offset = int((after or {}).get("offset", 0))
        rows: Rows = await client.privateWalletGetWithdrawals({"limit": str(limit), "offset": str(offset)})
        return rows, {"offset": offset + limit} if len(rows) == limit else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        bounds = {"from": str(start_ms // 1000), "to": str(end_ms // 1000)}
        rows: Rows = await client.privateWalletGetWithdrawals(bounds)
        return rows

    async def find(self, client: Any, client_id: str) -> Rows:
        rows: Rows = await client.privateWalletGetWithdrawals({"withdraw_order_id": client_id})
        return rows

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        status = row["status"]
        if status == "DONE":
            status = _MINED if int(row["block_number"]) > 0 else _NOT_MINED
        fee = Decimal(row["fee"])
        return Seen(
            key=row["id"],
            amount=Decimal(row["amount"]) - fee,
            status=status,
            tx_id=row["txid"] or None,
            at_ms=int(row["timestamp"]) * 1000,
            fee=fee,
            client_id=row["withdraw_order_id"] or None,
        )

    async def deposits(self, client: Any) -> Rows:
        rows: Rows = await client.privateWalletGetDeposits()
        return rows

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        return Seen(row["id"], Decimal(row["amount"]), row["status"], row["txid"], int(row["timestamp"]) * 1000)

    async def free(self, client: Any, coin: str) -> Decimal:
        (row,) = await client.privateSpotGetAccounts({"currency": coin})
        return Decimal(row["available"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        (chain,) = await client.publicWalletGetCurrencyChains({"currency": coin})
        (limits,) = await client.privateWalletGetWithdrawStatus({"currency": coin})
        fee = Decimal(limits["withdraw_fix_on_chains"][chain["chain"]])
        return fee, Decimal(limits["withdraw_amount_mini"]), chain["is_withdraw_disabled"] == 0

    async def may_withdraw(self, client: Any) -> bool:
        (key,) = await client.privateAccountGetMainKeys()
        return {"name": "withdrawal", "read_only": False} in key["perms"]

    async def clock_ms(self, client: Any) -> int:
        return int((await client.publicSpotGetTime())["server_time"])

    async def deposit_address(self, client: Any, coin: str) -> str:
        (own,) = (await client.privateWalletGetDepositAddress({"currency": coin}))["multichain_addresses"]
        assert own["chain"] == self.network
        return str(own["address"])

    async def address_book(self, client: Any) -> list[str]:
        return [row["address"] for row in await client.privateWalletGetSavedAddress({"currency": "ETH"})]


DRIVER = GateDriver()
