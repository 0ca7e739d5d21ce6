"""Coinbase's wire under the suites of all dialects."""

from __future__ import annotations

import time
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar
from uuid import NAMESPACE_URL, UUID, uuid5

from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Driver, Next, Order, Rows, Seen

#: Two keys made for these tests alone.
SECRET = """-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIORkwFBisxf6UTPZKKVqWPZi6y2o5UUylTmNRtgYpe7YoAoGCCqGSM49
AwEHoUQDQgAEsKHabCiOHQkTcoOR1yYgJ5VwJag7e/2StrWLXkAC4Te+UHefezTs
TTrx/S3+whfWidm77hx5nFbNihlaUKkB7w==
-----END EC PRIVATE KEY-----
"""
ANOTHER = """-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIAuzRgWf86vldpmuQb2hOIJYmV40t06Jts9iWXisiFrLoAoGCCqGSM49
AwEHoUQDQgAEHlmvX5QexX7AZVRELvwN8DPuCRKZHYAVUkDydd7mtg3TQWGB4WmN
9m6VfA2T36oddRSDKl9RZowv/prXd3QD/g==
-----END EC PRIVATE KEY-----
"""


class CoinbaseDriver(Driver):
    wire = "coinbase"
    network = "ethereum"
    amount_includes_fee = False
    tells_status = False
    grain_ms = 1000
    copies_add = False
    signs_bodies = False
    one_record = True
    page_limit = 100
    settings: ClassVar = {"apiKey": API_KEY, "secret": SECRET}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, "invalid api key"),
        "secret": ({"secret": ANOTHER}, "invalid signature"),
        "clock": ({"seconds": lambda: int(time.time()) - 600}, "request timestamp expired"),
    }
    venue_fields: ClassVar = {"api_key": API_KEY, "api_secret": SECRET, "address_whitelist": [TO]}
    refusals: ClassVar = {
        "unknown_coin": "not_found",
        "unknown_network": "validation_error",
        "bad_address": "validation_error",
        "strange_address": "validation_error",
        "no_amount": "param_required",
        "malformed_amount": "validation_error",
        "off_step": "validation_error",
        "too_little": "validation_error",
        "nothing": "validation_error",
        "too_much": "validation_error",
        "insufficient": "validation_error",
    }
    no_right = "invalid_scope"
    in_maintenance = "service_unavailable"
    closed = "validation_error"
    withdrawal_words: ClassVar = {
        "email_sent": "waiting_for_signature",
        "cancelled": "canceled",
        "awaiting_approval": "waiting_for_clearing",
        "rejected": "expired",
        "processing": "pending",
        "failure": "failed",
        "completed": "completed",
    }
    deposit_words: ClassVar = {
        "pending": "pending",
        "success": "completed",
        "rejected": "failed",
        "credited_locked": "waiting_for_clearing",
        "wrong": "expired",
        "awaiting_user": "waiting_for_signature",
    }

    def own_id(self, client_id: str) -> str:
        """A UUID of version 4."""
        return str(UUID(bytes=uuid5(NAMESPACE_URL, client_id).bytes, version=4))

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {
            "account_id": order.coin,
            "type": "send",
            "to": order.address,
            "currency": order.coin,
            "network": order.network or self.network,
            "idem": self.own_id(order.client_id),
        }
        if order.amount is not None:
            fields["amount"] = order.amount
        return await client.v2PrivatePostAccountsAccountIdTransactions(fields)

    def submitted_id(self, reply: Any) -> str | None:
        found = reply.get("data") if isinstance(reply, dict) else None
        return found.get("id") if isinstance(found, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        asked = {"account_id": "ETH", "limit": str(limit), **(after or {})}
        reply = await client.v2PrivateGetAccountsAccountIdTransactions(asked)
        rows: Rows = reply["data"]
        more = reply["pagination"]["next_uri"]
        sends = [row for row in rows if row["amount"]["amount"].startswith("-")]
        return sends, {"starting_after": rows[-1]["id"]} if more else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        """The wire takes no bounds: a client keeps to its own."""
        rows, _ = await self.page(client, self.page_limit, None)
        return [row for row in rows if start_ms // 1000 * 1000 <= self.read_withdrawal(row).at_ms <= end_ms]

    async def find(self, client: Any, client_id: str) -> Rows:
        """The wire cannot be asked for it, and shows it."""
        rows, _ = await self.page(client, self.page_limit, None)
        return [row for row in rows if row["idem"] == self.own_id(client_id)]

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        network = row["network"]
        return Seen(
            key=row["id"],
            amount=Decimal(network["transaction_amount"]["amount"]),
            status=row["status"],
            tx_id=network.get("hash"),
            at_ms=_ms(row["created_at"]),
            fee=Decimal(network["transaction_fee"]["amount"]),
            client_id=row["idem"] or None,
        )

    async def deposits(self, client: Any) -> Rows:
        asked = {"account_id": "ETH", "limit": "100"}
        rows: Rows = (await client.v2PrivateGetAccountsAccountIdTransactions(asked))["data"]
        return [row for row in rows if not row["amount"]["amount"].startswith("-")]

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        amount, network = Decimal(row["amount"]["amount"]), row["network"]
        return Seen(row["id"], amount, row["status"], network["hash"], _ms(row["created_at"]))

    async def free(self, client: Any, coin: str) -> Decimal:
        accounts = (await client.v2PrivateGetAccounts({"limit": "100"}))["data"]
        (own,) = [account for account in accounts if account["currency"]["code"] == coin]
        return Decimal(own["balance"]["amount"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        """The wire says neither fee nor minimum; those are the suites' own."""
        account = (await client.v2PrivateGetAccountsAccountId({"account_id": coin}))["data"]
        fee, least = ("0.001", "0.01") if coin == "ETH" else ("1", "2")
        return Decimal(fee), Decimal(least), account["allow_withdrawals"]

    async def may_withdraw(self, client: Any) -> bool:
        return bool((await client.v3PrivateGetBrokerageKeyPermissions())["can_transfer"])

    async def clock_ms(self, client: Any) -> int:
        return int((await client.v2PublicGetTime())["data"]["epoch"]) * 1000

    async def deposit_address(self, client: Any, coin: str) -> str:
        (row,) = (await client.v2PrivateGetAccountsAccountIdAddresses({"account_id": coin}))["data"]
        assert row["network"] == self.network
        return str(row["address"])


def _ms(told: str) -> int:
    return int(datetime.fromisoformat(told).timestamp() * 1000)


DRIVER = CoinbaseDriver()
