"""`qtg record` on a real database: what is listed, shown, answered for and settled."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli

TRANSFER = (
    "INSERT INTO qtg.cex_transfers (network_class, venue_key, account, kind, row_key, coin, address, tx_id, amount, "
    "fee, status, raw_status, status_listed, internal, occurred_at, raw, content_hash) "
    "VALUES ('sandbox', 'venue_a', 'main', 'withdrawal', %s, 'USDC', '0xab', '0x1', 12.50, 1, 'DONE', '6', true, "
    "false, '2026-03-01 12:00+00', '{\"id\": \"w\"}', 'h') RETURNING id"
)
EVENT = (
    "INSERT INTO qtg.cex_transfer_events (transfer_id, changes, before, after, content_hash, raw) "
    "VALUES (%s, '{status}', '{\"status\": \"PENDING\"}', '{\"status\": \"DONE\"}', 'h', '{}')"
)
DAY = (
    "INSERT INTO qtg.cex_transfer_days (network_class, venue_key, account, day, day_state, problem, transfers, "
    "open_transfers) VALUES ('sandbox', 'venue_a', 'main', '2026-03-01', 'INCOMPLETE', 'HTTP_500: x', 2, 0)"
)


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))


@pytest.fixture
def numbers(database_url: str) -> list[int]:
    """Two transfers on record, and a day that could not be read."""
    with psycopg.connect(database_url) as connection:
        found = [connection.execute(TRANSFER, (key,)).fetchone() for key in ("w1", "w2")]
        ids = [int(row[0]) for row in found if row is not None]
        connection.execute(EVENT, (ids[0],))
        connection.execute(DAY)
    return ids


def qtg(*words: str) -> Result:
    return CliRunner().invoke(cli.build(), ["record", *words])


def by(*words: str) -> tuple[str, ...]:
    return (*words, "--by", "ada", "--reason", "ours by hand")


def test_what_no_movement_made_is_listed_until_somebody_answers_for_it(numbers: list[int]) -> None:
    first, second = numbers
    shown = qtg("list", "--unmatched", "--venue", "venue_a").output
    assert [int(line.split()[0]) for line in shown.splitlines()] == [second, first]
    assert "12.5 USDC  no movement" in shown
    assert qtg(*by("acknowledge", str(first))).output == "1 acknowledged\n"
    assert "acknowledged by ada" in qtg("list", "--before", "2026-03-02T00:00:00Z").output
    assert qtg(*by("acknowledge", "--venue", "venue_a", "--before", "2026-03-02")).output == "1 acknowledged\n"
    assert qtg("list", "--unmatched").output == "no such transfer is on record\n"


def test_one_is_shown_with_its_history_and_the_venues_own_row(numbers: list[int]) -> None:
    shown = qtg("show", str(numbers[0])).output
    for part in ("id at the venue: w1", "transaction: 0x1", "status: status PENDING -> DONE", '{"id": "w"}'):
        assert part in shown
    assert "there is no transfer 999" in qtg("show", "999").output


def test_days_that_could_not_be_read_are_named_with_the_reason(numbers: list[int]) -> None:
    assert numbers
    assert "2026-03-01  venue_a  INCOMPLETE  2 transfers, 0 open  HTTP_500: x" in qtg("days", "--incomplete").output
    assert qtg("days", "--venue", "venue_b").output == "every day that was read is closed\n"


def test_a_disputed_end_is_settled_by_a_person(numbers: list[int], database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "UPDATE qtg.cex_transfers SET disputed_status = 'FAILED', disputed_raw_status = '5', disputed_hash = 'x', "
            "disputed_at = now() WHERE id = %s",
            (numbers[0],),
        )
    assert "! now FAILED" in qtg("list", "--disputed").output
    assert "ours stands" in qtg(*by("settle", str(numbers[0]), "--stands", "ours")).output
    assert qtg("list", "--disputed").output == "no such transfer is on record\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("read", "venue_x", "2026-03-01", "2026-03-02"), "'venue_x' is not in the inventory"),
        (("list", "--before", "soon"), "'soon' is no time"),
        (by("acknowledge"), "it is not clear which transfers are meant"),
        (by("settle", "1", "--stands", "ours"), "1 is not disputed"),
    ],
)
def test_what_cannot_be_done_says_why(words: tuple[str, ...], said: str) -> None:
    assert said in qtg(*words).output
