"""The questions of the suites to the wires that Upbit began; a driver says what precedes a path in ccxt's names."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

import ccxt.async_support as ccxt

from tests.sandbox.exchange.dialects.driver import TO, Driver, Next, Order, Rows, Seen

SAVED = {"network": "ETH", "address": TO}


class UpbitLikeDriver(Driver):
    network = "ETH"
    has_client_ids = False
    has_address_book = True
    amount_includes_fee = False
    pages_shift = True
    tells_rights = False
    grain_ms = 1000
    page_limit = 100
    endpoints: ClassVar[str]
    down: ClassVar[str]  # the name of the error in maintenance

    def ask(self, client: Any, path: str, **asked: str) -> Any:
        return getattr(client, f"privateGet{self.endpoints}{path}")(asked)

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {"currency": order.coin, "net_type": order.network or self.network, "address": order.address}
        if order.amount is not None:
            fields["amount"] = order.amount
        return await getattr(client, f"privatePost{self.endpoints}WithdrawsCoin")(fields)

    def submitted_id(self, reply: Any) -> str | None:
        return reply.get("uuid") if isinstance(reply, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        number = int((after or {"page": "1"})["page"])
        rows: Rows = await self.ask(client, "Withdraws", limit=str(limit), page=str(number))
        return rows, {"page": str(number + 1)} if len(rows) == limit else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        """The record takes no bounds in time, so that the reader has to keep them, by whole seconds."""
        first, last = start_ms // 1000 * 1000, end_ms
        return [row for row in await self.withdrawals(client) if first <= self.read_withdrawal(row).at_ms <= last]

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        return Seen(
            key=row["uuid"],
            amount=Decimal(row["amount"]),
            status=row["state"],
            tx_id=row["txid"],
            at_ms=_ms(row["created_at"]),
            fee=Decimal(row["fee"]),
        )

    async def deposits(self, client: Any) -> Rows:
        rows: Rows = await self.ask(client, "Deposits")
        return rows

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        return Seen(row["uuid"], Decimal(row["amount"]), row["state"], row["txid"], _ms(row["created_at"]))

    async def free(self, client: Any, coin: str) -> Decimal:
        (row,) = [row for row in await self.ask(client, "Accounts") if row["currency"] == coin]
        return Decimal(row["balance"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        told = await self.ask(client, "WithdrawsChance", currency=coin, net_type=self.network)
        currency, limit = told["currency"], told["withdraw_limit"]
        return Decimal(currency["withdraw_fee"]), Decimal(limit["minimum"]), "withdraw" in currency["wallet_support"]

    async def may_withdraw(self, client: Any) -> bool:
        """That the key is known is all that is told."""
        return client.apiKey in [row["access_key"] for row in await self.ask(client, "ApiKeys")]

    async def works(self, client: Any) -> bool:
        """Nothing public tells of maintenance: whatever is signed does."""
        try:
            return bool(await self.ask(client, "StatusWallet"))
        except ccxt.BaseError as refusal:
            return self.down not in str(refusal)

    async def clock_ms(self, client: Any) -> int:
        with suppress(ccxt.BaseError):  # the time of a refusal is as good
            await self.ask(client, "ApiKeys")
        told = {name.lower(): value for name, value in client.last_response_headers.items()}["date"]
        return int(parsedate_to_datetime(told).timestamp() * 1000)

    async def deposit_address(self, client: Any, coin: str) -> str:
        row = await self.ask(client, "DepositsCoinAddress", currency=coin, net_type=self.network)
        return str(row["deposit_address"])

    async def address_book(self, client: Any) -> list[str]:
        rows = await self.ask(client, "WithdrawsCoinAddresses")
        return [row["withdraw_address"] for row in rows if row["currency"] == "ETH"]


def _ms(told: str) -> int:
    return int(datetime.fromisoformat(told).timestamp() * 1000)
