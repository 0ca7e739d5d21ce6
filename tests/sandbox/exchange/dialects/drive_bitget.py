"""Bitget's wire under the suites of all dialects."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import Any, ClassVar

from tests.sandbox.exchange.dialects.driver import API_KEY, TO, Driver, Next, Order, Rows, Seen

_SECRET, _PASSPHRASE = "secret-of-the-desk", "passphrase-of-the-desk"
_DAY_MS = 86_400_000
_CHAINS = {"ETH": "ETH"}  # a chain's own coin


class BitgetDriver(Driver):
    wire = "bitget"
    network = "ERC20"
    tells_status = False
    copy_outcome = "refused 43118"
    page_limit = 100
    settings: ClassVar = {"apiKey": API_KEY, "secret": _SECRET, "password": _PASSPHRASE}
    spoilt: ClassVar = {
        "key": ({"apiKey": "another-key"}, '"code": "40037"'),
        "secret": ({"secret": "another-secret"}, '"code": "40009"'),
        "passphrase": ({"password": "another-passphrase"}, '"code": "40012"'),
        "clock": ({"options": {"timeDifference": 60_000}}, '"code": "40008"'),
    }
    venue_fields: ClassVar = {
        "api_key": API_KEY,
        "api_secret": _SECRET,
        "api_passphrase": _PASSPHRASE,
        "address_whitelist": [TO],
    }
    refusals: ClassVar = {
        "unknown_coin": '"code": "13002"',
        "unknown_network": '"code": "43111"',
        "bad_address": '"code": "47002"',
        "strange_address": "address not in address book",
        "no_amount": '"code": "40019"',
        "malformed_amount": '"code": "40020"',
        "off_step": '"code": "43124"',
        "too_little": '"code": "43114"',
        "nothing": '"code": "43114"',
        "too_much": '"code": "13212"',
        "insufficient": '"code": "43012"',
    }
    no_right = '"code": "40014"'
    in_maintenance = '"code": "40200"'
    closed = '"code": "42015"'
    withdrawal_words: ClassVar = {
        "email_sent": "first_audit",
        "cancelled": "cancel",
        "awaiting_approval": "pending",
        "rejected": "reject",
        "processing": "wallet_processing",
        "failure": "fail",
        "completed": "success",
    }
    deposit_words: ClassVar = {
        "pending": "pending",
        "success": "success",
        "rejected": "fail",
        "credited_locked": "pre_success",
        "wrong": "deposit_check_fail",
        "awaiting_user": "deposit_check",
    }

    async def submit(self, client: Any, order: Order) -> Any:
        fields = {
            "coin": order.coin,
            "transferType": "on_chain",
            "chain": order.network or _CHAINS.get(order.coin, self.network),
            "address": order.address,
            "clientOid": order.client_id,
        }
        if order.amount is not None:
            fields["size"] = order.amount
        return await client.privateSpotPostV2SpotWalletWithdrawal(fields)

    def submitted_id(self, reply: Any) -> str | None:
        data = reply.get("data") if isinstance(reply, dict) else None
        return data.get("orderId") if isinstance(data, dict) else None

    async def page(self, client: Any, limit: int, after: Next) -> tuple[Rows, Next]:
        asked = {**_lately(), "limit": str(limit), **(after or {})}
        rows = await _data(client.privateSpotGetV2SpotWalletWithdrawalRecords(asked))
        return rows, {"idLessThan": rows[-1]["orderId"]} if len(rows) == limit else None

    async def within(self, client: Any, start_ms: int, end_ms: int) -> Rows:
        bounds = {"startTime": str(start_ms), "endTime": str(end_ms)}
        return await _data(client.privateSpotGetV2SpotWalletWithdrawalRecords(bounds))

    async def find(self, client: Any, client_id: str) -> Rows:
        return await _data(client.privateSpotGetV2SpotWalletWithdrawalRecords({**_lately(), "clientOid": client_id}))

    def read_withdrawal(self, row: dict[str, Any]) -> Seen:
        fee = -Decimal(row["fee"])
        return Seen(
            key=row["orderId"],
            amount=Decimal(row["size"]) - fee,
            status=row["status"],
            tx_id=row["tradeId"],
            at_ms=int(row["cTime"]),
            fee=fee,
            client_id=row["clientOid"],
        )

    async def deposits(self, client: Any) -> Rows:
        return await _data(client.privateSpotGetV2SpotWalletDepositRecords(_lately()))

    def read_deposit(self, row: dict[str, Any]) -> Seen:
        return Seen(row["orderId"], Decimal(row["size"]), row["status"], row["tradeId"], int(row["cTime"]))

    async def free(self, client: Any, coin: str) -> Decimal:
        (row,) = await _data(client.privateSpotGetV2SpotAccountAssets({"coin": coin}))
        return Decimal(row["available"])

    async def terms(self, client: Any, coin: str) -> tuple[Decimal, Decimal, bool]:
        (entry,) = await _data(client.publicSpotGetV2SpotPublicCoins({"coin": coin}))
        (chain,) = entry["chains"]
        return Decimal(chain["withdrawFee"]), Decimal(chain["minWithdrawAmount"]), chain["withdrawable"] == "true"

    async def may_withdraw(self, client: Any) -> bool:
        return "wwow" in (await _data(client.privateSpotGetV2SpotAccountInfo()))["authorities"]

    async def clock_ms(self, client: Any) -> int:
        return int((await _data(client.publicCommonGetV2PublicTime()))["serverTime"])

    async def deposit_address(self, client: Any, coin: str) -> str:
        asked = {"coin": coin, "chain": _CHAINS.get(coin, self.network)}
        return str((await _data(client.privateSpotGetV2SpotWalletDepositAddress(asked)))["address"])


def _lately() -> dict[str, str]:
    """Both times have to be given, and lie no more than ninety days apart."""
    end = int(time.time() * 1000) + _DAY_MS
    return {"startTime": str(end - 80 * _DAY_MS), "endTime": str(end)}


async def _data(asking: Any) -> Any:
    reply = await asking
    assert reply["code"] == "00000"
    assert abs(int(reply["requestTime"]) - time.time() * 1000) < _DAY_MS
    return reply["data"]


DRIVER = BitgetDriver()
