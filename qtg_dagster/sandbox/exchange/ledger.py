"""The venue's ledger file: SQLite, every commit on the disk before anyone is told."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from qtg_dagster.domain.errors import ConfigurationError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;

CREATE TABLE IF NOT EXISTS moves (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms INTEGER NOT NULL,
    venue TEXT NOT NULL,
    coin TEXT NOT NULL,
    kind TEXT NOT NULL,
    amount TEXT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL CHECK (target <> source),
    reference TEXT NOT NULL,
    UNIQUE (venue, kind, reference)
) STRICT;
CREATE TRIGGER IF NOT EXISTS moves_are_never_changed BEFORE UPDATE ON moves
    BEGIN SELECT RAISE(ABORT, 'moves is append-only'); END;
CREATE TRIGGER IF NOT EXISTS moves_are_never_deleted BEFORE DELETE ON moves
    BEGIN SELECT RAISE(ABORT, 'moves is append-only'); END;

CREATE TABLE IF NOT EXISTS withdrawals (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    venue TEXT NOT NULL,
    order_id TEXT,
    coin TEXT NOT NULL,
    network TEXT NOT NULL,
    address TEXT NOT NULL,
    tag TEXT,
    net TEXT NOT NULL,
    fee TEXT NOT NULL,
    status INTEGER NOT NULL,
    info TEXT NOT NULL DEFAULT '',
    applied_ms INTEGER NOT NULL,
    completed_ms INTEGER,
    confirmations INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS withdrawals_by_order ON withdrawals (venue, order_id);
CREATE INDEX IF NOT EXISTS withdrawals_by_time ON withdrawals (venue, applied_ms);
CREATE INDEX IF NOT EXISTS withdrawals_open ON withdrawals (venue, seq) WHERE status IN (2, 4);

CREATE TABLE IF NOT EXISTS told_withdrawals (
    withdrawal_id TEXT PRIMARY KEY REFERENCES withdrawals (id)
) STRICT;

CREATE TABLE IF NOT EXISTS payouts (
    withdrawal_id TEXT PRIMARY KEY REFERENCES withdrawals (id),
    sender TEXT NOT NULL,
    nonce INTEGER NOT NULL,
    raw TEXT NOT NULL,
    tx_hash TEXT NOT NULL UNIQUE,
    broadcast INTEGER NOT NULL DEFAULT 0,
    settled INTEGER NOT NULL DEFAULT 0,
    UNIQUE (sender, nonce)
) STRICT;

CREATE TABLE IF NOT EXISTS deposits (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    venue TEXT NOT NULL,
    coin TEXT NOT NULL,
    network TEXT NOT NULL,
    address TEXT NOT NULL,
    source_address TEXT NOT NULL,
    amount TEXT NOT NULL,
    status INTEGER NOT NULL,
    tx_hash TEXT NOT NULL,
    log_position INTEGER NOT NULL,
    block_number INTEGER NOT NULL,
    block_hash TEXT NOT NULL,
    confirmations INTEGER NOT NULL DEFAULT 0,
    inserted_ms INTEGER NOT NULL,
    completed_ms INTEGER,
    UNIQUE (tx_hash, log_position)
) STRICT;
CREATE INDEX IF NOT EXISTS deposits_by_time ON deposits (venue, inserted_ms);
CREATE INDEX IF NOT EXISTS deposits_open ON deposits (seq) WHERE status IN (0, 6);
"""


class Ledger:
    """One SQLite file, one process, one thread. Raises `ConfigurationError` when another process holds it."""

    def __init__(self, path: Path, *, epoch: str | None = None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path)
        self._connection = sqlite3.connect(path, isolation_level=None)
        path.chmod(0o600)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("PRAGMA foreign_keys=ON")
        self._connection.executescript(f"BEGIN; {_SCHEMA} COMMIT;")  # one write to the disk
        self._rollback_hooks: list[Callable[[], None]] = []
        self._check_epoch(epoch, path)

    def _check_epoch(self, epoch: str | None, path: Path) -> None:
        known = self.meta("epoch")
        if epoch is not None and known is not None and known != epoch:
            self.close()
            raise ConfigurationError(
                f"exchange ledger: {path} belongs to epoch {known}, the chain is in epoch {epoch}; remove the ledger"
            )
        if epoch is not None and known is None:
            with self.transaction():
                self.set_meta("epoch", epoch)

    def on_rollback(self, hook: Callable[[], None]) -> None:
        """Have `hook` called after every transaction that was rolled back."""
        self._rollback_hooks.append(hook)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes inside are on the disk together, or not at all. Never await inside."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            for hook in self._rollback_hooks:
                hook()
            raise

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[sqlite3.Row]:
        """All rows of a query."""
        return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[object] = ()) -> sqlite3.Row | None:
        """The first row of a query, or None."""
        found: sqlite3.Row | None = self._connection.execute(sql, parameters).fetchone()
        return found

    def write(self, sql: str, parameters: Sequence[object] = ()) -> int:
        """Run one change inside a transaction; returns the number of rows changed."""
        if not self._connection.in_transaction:
            raise RuntimeError("the ledger is written inside a transaction only")
        return self._connection.execute(sql, parameters).rowcount

    def meta(self, key: str) -> str | None:
        """A remembered value, or None."""
        found = self.row("SELECT value FROM meta WHERE key = ?", (key,))
        return None if found is None else str(found["value"])

    def set_meta(self, key: str, value: str) -> None:
        """Remember a value, inside a transaction."""
        self.write(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (key, value),
        )

    def close(self) -> None:
        """Close the file and let another process have it."""
        self._connection.close()
        os.close(self._lock)


def _locked(path: Path) -> int:
    descriptor = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigurationError(f"exchange ledger: {path} is in use by another process; stop that one") from None
    return descriptor
