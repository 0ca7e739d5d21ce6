"""Bybit's wire under the suites of all dialects."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any, ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Driver, Next, Order, Rows, Seen

_SECRET = "secret-of-the-desk"


class BybitDriver(Driver):
    wire = "bybit"
    network = "ETH"
    amount_includes_fee = False
    shows_client_ids = False
    has_address_book = True
    page_limit = 50
    copy_outcome = "refused 131082"
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, '"retCode": 10003'),
        "secret": ({"secret": "another-secret"}, '"retCode": 10004'),
        "clock": ({"options": {"timeDifference": 60_000}}, '"retCode": 10002'),
    }
    venue_fields: ClassVar = {
        "api_key": API_KEY,
        "api_secret": _SECRET,
        "address_book": [
            {"name": f"the desk's {coin}", "coin": coin, "network": "ETH", "address": TO} for coin in ("ETH", "USDC")
        ],
    }
    refusals: ClassVar = {
        "unknown_coin": '"retCode": 131002',
        "unknown_network": '"retCode": 131002',
        "bad_address": '"retCode": 131093',
        "strange_address": '"retCode": 131093',
        "no_amount": '"retCode": 131002',
        "malformed_amount": '"retCode": 131002',
        "off_step": '"retCode": 131210',
        "too_little": '"retCode": 131096',
        "nothing": '"retCode": 131096',
        "too_much": '"retCode": 131096',
        "insufficient": '"retCode": 131001',
    }
    no_right = '"retCode": 10005'
    in_maintenance = '"retCode": 10016'
    closed = '"retCode": 131097'
    withdrawal_words: ClassVar = {
        "email_sent": "MoreInformationRequired",
        "cancelled": "CancelByUser",
        "awaiting_approval": "SecurityCheck",
        "rejected": "Reject",
        "processing": "Pending",
        "failure": "Fail",
        "completed": "success",
    }
    deposit_words: ClassVar = {
        "pending": "1",
        "success": "3",
        "rejected": "4",
        "credited_locked": "10011",
        "wrong": "70011",
        "awaiting_user": "70013",
    }

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {
            "coin": order.coin,
            "chain": order.network or self.network,
            "address": order.address,
            "timestamp": int(time.time() * 1000),
            "forceChain": 1,
            "accountType": "FUND",
            "feeType": 0,
            "requestId": order.client_id,
        }
        if order.amount is not None:
            fields["amount"] = order.amount
        return await client.privatePostV5AssetWithdrawCreate(fields)

    def submitted_id(self, reply: Any) -> str | None:
        found = reply.get("result") if isinstance(reply, dict) else None
        return found.get("id") if isinstance(found, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        asked = {"limit": str(limit), "withdrawType": "2", **(after or {})}
        found = await _result(client.privateGetV5AssetWithdrawQueryRecord(asked))
        cursor = found["nextPageCursor"]
        return found["rows"], {"cursor": cursor} if cursor else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        bounds = {"startTime": str(start_ms), "endTime": str(end_ms)}
        rows: Rows = (await _result(client.privateGetV5AssetWithdrawQueryRecord(bounds)))["rows"]
        return rows

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        return Seen(
            key=row["withdrawId"],
            amount=Decimal(row["amount"]),
            status=row["status"],
            tx_id=row["txID"] or None,
            at_ms=int(row["createTime"]),
            fee=Decimal(row["withdrawFee"]),
        )

    async def deposits(self, client: Any) -> Rows:
        internal = await _result(client.privateGetV5AssetDepositQueryInternalRecord({}))
        assert internal["rows"] == []
        rows: Rows = (await _result(client.privateGetV5AssetDepositQueryRecord({"limit": "50"})))["rows"]
        return rows

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        return Seen(row["id"], Decimal(row["amount"]), str(row["status"]), row["txID"], int(row["successAt"] or 0))

    async def free(self, client: Any, coin: str) -> Decimal:
        asked = {"accountType": "FUND", "coin": coin}
        (row,) = (await _result(client.privateGetV5AssetTransferQueryAccountCoinsBalance(asked)))["balance"]
        return Decimal(row["transferBalance"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        (entry,) = (await _result(client.privateGetV5AssetCoinQueryInfo({"coin": coin})))["rows"]
        (chain,) = entry["chains"]
        return Decimal(chain["withdrawFee"]), Decimal(chain["withdrawMin"]), chain["chainWithdraw"] == "1"

    async def may_withdraw(self, client: Any) -> bool:
        key = await _result(client.privateGetV5UserQueryApi())
        return "Withdraw" in key["permissions"]["Wallet"]

    async def works(self, client: Any) -> bool:
        return not (await _result(client.publicGetV5SystemStatus()))["list"]

    async def clock_ms(self, client: Any) -> int:
        return int((await _result(client.publicGetV5MarketTime()))["timeNano"]) // 1_000_000

    async def deposit_address(self, client: Any, coin: str) -> str:
        (chain,) = (await _result(client.privateGetV5AssetDepositQueryAddress({"coin": coin})))["chains"]
        assert chain["chain"] == self.network
        return str(chain["addressDeposit"])

    async def address_book(self, client: Any) -> list[str]:
        rows = (await _result(client.privateGetV5AssetWithdrawQueryAddress({"coin": "ETH"})))["rows"]
        return [row["address"] for row in rows if row["verified"] == 1]


async def _result(asking: Any) -> dict[str, Any]:
    reply = await asking
    assert int(reply["retCode"]) == 0
    found: dict[str, Any] = reply["result"]
    return found


DRIVER = BybitDriver()
