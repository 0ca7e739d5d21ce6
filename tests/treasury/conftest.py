"""A venue's record kept over the stand-in exchange, row for row."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from qtg_dagster.domain.record_days import DAY, start_of
from qtg_dagster.inventory import VenueEntry
from qtg_dagster.lanes.cex.accounts import VenueAccount
from qtg_dagster.lanes.cex.record import VenueRecord
from qtg_dagster.sandbox.exchange.config import ExchangeConfig
from qtg_dagster.sandbox.exchange.control import ExchangeControl
from qtg_dagster.sandbox.exchange.server import Serving, serving
from qtg_dagster.secret import Secret
from qtg_dagster.store.database import Database
from qtg_dagster.treasury.record_ingest import Ingested, Order, RecordKeeper
from tests.sandbox.exchange.conftest import API_KEY, API_SECRET, TOKEN, hot_wallet, make_config, new_address

__all__ = ["hot_wallet", "make_config", "new_address"]

VENUE = "venue_a"
#: Old enough for days to be closed, young enough for every venue's window.
FIRST = datetime.now(UTC).date() - DAY * 40


@pytest.fixture
async def exchange(make_config: Callable[..., ExchangeConfig]) -> AsyncIterator[Serving]:
    """A stand-in of Binance without a chain, with money for many rows of others."""
    balances = {"ETH": "100000", "USDC": "10000000"}
    config = make_config(initial_balances=balances).model_copy(update={"chain": None})
    async with serving(config) as running:
        yield running


@dataclass
class RecordDesk:
    """One account's record on both sides: the venue's, and ours."""

    control: ExchangeControl
    database: Database
    account: VenueAccount
    pauses: list[float]

    @property
    def keeper(self) -> RecordKeeper:
        return self.keeper_of()

    def keeper_of(self, **changes: Any) -> RecordKeeper:
        from qtg_dagster.domain.clock import SystemClock

        async def pause(seconds: float) -> None:
            self.pauses.append(seconds)

        reader = VenueRecord(self.account, pause=pause)
        return RecordKeeper(self.database, "sandbox", reader, SystemClock(), **changes)

    async def ingest(self, *days: date, purpose: str = "backfill") -> Ingested:
        return await self.keeper.ingest(Order(days, purpose))

    async def ingest_span(self, days: int) -> Ingested:
        return await self.ingest(*(FIRST + DAY * number for number in range(days)))

    async def add(self, history: str, day: date, count: int = 1, *, hours: float = 12, **details: Any) -> list[str]:
        """Rows on a day, a second apart, the newest at that hour."""
        at = start_of(day) + timedelta(hours=hours)
        spacing = {"spacing_ms": 1000, **details}
        return await self.control.add_rows(VENUE, history, count, newest_ms=int(at.timestamp() * 1000), **spacing)

    async def rows(self, sql: str, **bound: Any) -> list[dict[str, Any]]:
        async with self.database.transaction() as transaction:
            return [dict(row) for row in (await transaction.execute(text(sql), bound)).mappings()]

    async def kept(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Our record: identity -> raw status, amount, fee, transaction."""
        found = await self.rows("SELECT * FROM qtg.cex_transfers")
        return {
            (row["kind"], row["row_key"]): (row["raw_status"], str(row["amount"].normalize()), row["tx_id"] or "")
            for row in found
        }

    async def true(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The venue's books, in the same shape."""
        withdrawals = await self.control.withdrawals(VENUE)
        deposits = await self.control.deposits(VENUE)
        told = [("withdrawal", row["id"], row["status"], row["net"], row["tx_hash"]) for row in withdrawals]
        told += [("deposit", row["id"], row["status"], row["amount"], row["tx_hash"]) for row in deposits]
        return {(kind, key): (str(status), _plain(net), tx or "") for kind, key, status, net, tx in told}

    async def written(self) -> dict[str, Sequence[str]]:
        """The versions of all rows, by table: equal before and after means that nothing was written."""
        tables = ("cex_transfers", "cex_transfer_events", "cex_transfer_days")
        return {
            table: [row["v"] for row in await self.rows(f"SELECT xmin::text || ctid::text AS v FROM qtg.{table}")]  # noqa: S608
            for table in tables
        }


def _plain(amount: str) -> str:
    from decimal import Decimal

    return str(Decimal(amount).normalize())


@pytest.fixture
async def record(exchange: Serving, database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RecordDesk]:
    """The desk over a stand-in and a fresh database."""
    monkeypatch.setenv("RECORD_KEY", API_KEY)
    monkeypatch.setenv("RECORD_SECRET", API_SECRET)
    entry = VenueEntry.model_validate(
        {
            "wire": "binance",
            "base_url": f"{exchange.address}/{VENUE}",
            "api_key": {"env": "RECORD_KEY"},
            "api_secret": {"env": "RECORD_SECRET"},
            "assets": {"USDC": "USDC"},
            "networks": {"eip155:1": "ETH"},
        }
    )
    account, database = VenueAccount(VENUE, entry), Database(database_url, pool_size=3)
    async with ExchangeControl(exchange.address, Secret(TOKEN)) as control:
        yield RecordDesk(control, database, account, [])
    await account.close()
    await database.close()
