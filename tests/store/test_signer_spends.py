"""A signer's own daily count: kept under a race, not double, by sender, asset and day."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from qtg_dagster.domain.errors import SigningRefused
from qtg_dagster.store.database import Database
from qtg_dagster.store.roles import SIGNER
from qtg_dagster.store.signer_journal import SignerJournal
from tests.conftest import as_role

SENDER = "0x" + "11" * 20


@pytest.fixture
async def journal(database_url: str) -> AsyncIterator[SignerJournal]:
    database = Database(as_role(database_url, SIGNER), pool_size=5)
    yield SignerJournal(database)
    await database.close()


async def spend(
    journal: SignerJournal, nonce: int, units: int, *, sender: str = SENDER, asset: str = "USDC", daily: int = 100
) -> bool:
    try:
        await journal.spend(
            chain="eip155:1",
            sender=sender,
            nonce=nonce,
            asset=asset,
            units=units,
            daily_units=daily,
            at_most="100 USDC",
        )
    except SigningRefused:
        return False
    return True


async def test_the_day_is_spent_to_the_last_unit_and_no_further(journal: SignerJournal) -> None:
    assert [await spend(journal, nonce, 40) for nonce in (1, 2, 3)] == [True, True, False]
    assert await spend(journal, 4, 20)
    assert not await spend(journal, 5, 1)


async def test_the_same_nonce_again_spends_nothing_more(journal: SignerJournal) -> None:
    assert [await spend(journal, 1, 100) for _ in range(3)] == [True, True, True]


async def test_senders_and_assets_are_counted_apart(journal: SignerJournal) -> None:
    assert await spend(journal, 1, 100)
    assert await spend(journal, 1, 100, sender="0x" + "22" * 20)
    assert await spend(journal, 2, 100, asset="ETH")


async def test_of_many_who_want_the_last_unit_one_gets_it(journal: SignerJournal) -> None:
    won = await asyncio.gather(*(spend(journal, nonce, 100) for nonce in range(20)))
    assert won.count(True) == 1


async def test_a_new_day_begins_with_nothing_spent(journal: SignerJournal, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(
            "INSERT INTO qtg.signer_spends (chain, sender, nonce, asset, units, spent_at) "
            "VALUES ('eip155:1', %s, 1, 'USDC', 100, now() - interval '1 day')",
            (SENDER,),
        )
    assert await spend(journal, 2, 100)
