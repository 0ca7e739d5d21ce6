"""KuCoin's wire under the suites of all dialects."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Driver, Next, Order, Rows, Seen

_SECRET, _PASSPHRASE = "secret-of-the-desk", "passphrase-of-the-desk"
_PARAMETER = '"code": "400100"'


class KucoinDriver(Driver):
    wire = "kucoin"
    network = "eth"
    amount_includes_fee = False
    pages_shift = True
    page_limit = 500
    page_least = 10
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET, "password": _PASSPHRASE}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, '"code": "400003"'),
        "secret": ({"secret": "another-secret"}, '"code": "400005"'),
        "passphrase": ({"password": "another-passphrase"}, '"code": "400004"'),
        "clock": ({"options": {"timeDifference": 10_000}}, '"code": "400002"'),
    }
    venue_fields: ClassVar = {
        "api_key": API_KEY,
        "api_secret": _SECRET,
        "api_passphrase": _PASSPHRASE,
        "address_whitelist": [TO],
    }
    refusals: ClassVar = {
        "unknown_coin": _PARAMETER,
        "unknown_network": '"code": "900014"',
        "bad_address": _PARAMETER,
        "strange_address": "not in the whitelist",
        "no_amount": "amount is required",
        "malformed_amount": _PARAMETER,
        "off_step": "increment is invalid",
        "too_little": "below the minimum",
        "nothing": "below the minimum",
        "too_much": "exceeds the limit",
        "insufficient": '"code": "230003"',
    }
    no_right = '"code": "400007"'
    in_maintenance = '"code": "503000"'
    closed = '"code": "260210"'
    withdrawal_words: ClassVar = {
        "email_sent": "REVIEW",
        "cancelled": "FAILURE",
        "awaiting_approval": "PROCESSING",
        "rejected": "FAILURE",
        "processing": "WALLET_PROCESSING",
        "failure": "FAILURE",
        "completed": "SUCCESS",
    }
    deposit_words: ClassVar = {
        "pending": "PROCESSING",
        "success": "SUCCESS",
        "rejected": "FAILURE",
        "credited_locked": "PROCESSING",
        "wrong": "FAILURE",
        "awaiting_user": "PROCESSING",
    }

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {
            "currency": order.coin,
            "chain": order.network or self.network,
            "toAddress": order.address,
            "withdrawType": "ADDRESS",
            "feeDeductType": "EXTERNAL",
            "remark": order.client_id,
        }
        if order.amount is not None:
            fields["amount"] = order.amount
        return await client.privatePostWithdrawals(fields)

    def submitted_id(self, reply: Any) -> str | None:
        data = reply.get("data") if isinstance(reply, dict) else None
        return data.get("withdrawalId") if isinstance(data, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        asked = {"currency": "ETH", "pageSize": str(limit), "currentPage": "1", **(after or {})}
        page = await _data(client.privateGetWithdrawals(asked))
        number = page["currentPage"]
        return page["items"], {"currentPage": str(number + 1)} if number < page["totalPage"] else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        bounds = {"currency": "ETH", "startAt": str(start_ms), "endAt": str(end_ms)}
        rows: Rows = (await _data(client.privateGetWithdrawals(bounds)))["items"]
        return rows

    async def find(self, client: Any, client_id: str) -> Rows:
        """The record cannot be asked for a remark: it is read through."""
        return [row for row in await self.withdrawals(client) if row["remark"] == client_id]

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        return Seen(
            key=row["id"],
            amount=Decimal(row["amount"]),
            status=row["status"],
            tx_id=row["walletTxId"],
            at_ms=row["createdAt"],
            fee=Decimal(row["fee"]),
            client_id=row["remark"] or None,
        )

    async def deposits(self, client: Any) -> Rows:
        rows: Rows = (await _data(client.privateGetDeposits({"currency": "ETH"})))["items"]
        return rows

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        assert "id" not in row
        tx_id, _, address = row["walletTxId"].partition("@")
        key = f"{row['currency']} {row['walletTxId']} {row['amount']} {row['createdAt']}"
        assert address == row["address"]
        return Seen(key, Decimal(row["amount"]), row["status"], tx_id, row["createdAt"])

    async def free(self, client: Any, coin: str) -> Decimal:
        (row,) = await _data(client.privateGetAccounts({"currency": coin, "type": "main"}))
        return Decimal(row["available"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        (chain,) = (await _data(client.publicGetCurrenciesCurrency({"currency": coin})))["chains"]
        asked = {"currency": coin, "chain": chain["chainId"]}
        quota = await _data(client.privateGetWithdrawalsQuotas(asked))
        fee, least = Decimal(chain["withdrawalMinFee"]), Decimal(chain["withdrawalMinSize"])
        assert (fee, least) == (Decimal(quota["withdrawMinFee"]), Decimal(quota["withdrawMinSize"]))
        assert chain["isWithdrawEnabled"] == quota["isWithdrawEnabled"]
        return fee, least, chain["isWithdrawEnabled"]

    async def may_withdraw(self, client: Any) -> bool:
        return "Withdrawal" in (await _data(client.privateGetUserApiKey()))["permission"].split(",")

    async def works(self, client: Any) -> bool:
        return (await _data(client.publicGetStatus()))["status"] == "open"

    async def clock_ms(self, client: Any) -> int:
        return int(await _data(client.publicGetTimestamp()))

    async def deposit_address(self, client: Any, coin: str) -> str:
        (row,) = await _data(client.privateGetDepositAddresses({"currency": coin, "version": "v3"}))
        assert row["chainId"] == self.network
        return str(row["address"])


async def _data(asking: Any) -> Any:
    reply = await asking
    assert reply["code"] == "200000"
    return reply["data"]


DRIVER = KucoinDriver()
