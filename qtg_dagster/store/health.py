"""The last known health of executors and signers, and which of them nobody registers any more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import text

from qtg_dagster.domain.contract import HealthState
from qtg_dagster.store.database import Transaction
from qtg_dagster.store.statements import as_json

_REGISTERED = """
    INSERT INTO qtg.{table} AS r (network_class, {key})
    SELECT :network_class, unnest(CAST(:keys AS text[]))
    ON CONFLICT (network_class, {key}) DO UPDATE SET orphan = false WHERE r.orphan
"""
_ORPHANS = """
    UPDATE qtg.{table}
    SET orphan = true, health_state = 'unknown', health_detail = 'no longer registered', latency_ms = NULL{forget},
        changed_at = CASE WHEN health_state <> 'unknown' THEN now() ELSE changed_at END
    WHERE network_class = :network_class AND NOT orphan AND NOT {key} = ANY (CAST(:keys AS text[]))
"""
_SEEN = """
    UPDATE qtg.{table} r
    SET health_state = s.state, health_detail = s.detail, latency_ms = s.latency_ms, checked_at = now(){observe},
        changed_at = CASE WHEN r.health_state <> s.state THEN now() ELSE r.changed_at END
    FROM jsonb_to_recordset(CAST(:seen AS jsonb))
        AS s(key text, state text, detail text, latency_ms double precision, signer_address text)
    WHERE r.network_class = :network_class AND r.{key} = s.key
"""


@dataclass(frozen=True, slots=True)
class _Register:
    table: str
    key: str
    forget: str = ""
    observe: str = ""

    def statement(self, template: str) -> str:
        return template.format(**asdict(self))


_EXECUTORS = _Register("executor_registry", "executor_key")
# An observation is cleared with its signer, and kept over a check that could not read an address.
_SIGNERS = _Register(
    "signer_registry",
    "signer_key",
    forget=", observed_signer_address = NULL",
    observe=", observed_signer_address = coalesce(s.signer_address, r.observed_signer_address)",
)


@dataclass(frozen=True, slots=True)
class SeenHealth:
    """One check of one executor or signer; `detail` is free of secrets."""

    key: str
    state: HealthState
    detail: str
    latency_ms: float
    signer_address: str | None = None


async def register_executors(transaction: Transaction, network_class: str, keys: Iterable[str]) -> None:
    """Make a row for each registered executor, and mark the others' as orphans."""
    await _register(transaction, _EXECUTORS, network_class, keys)


async def register_signers(transaction: Transaction, network_class: str, keys: Iterable[str]) -> None:
    """Make a row for each registered signer; an orphan's observed address is cleared."""
    await _register(transaction, _SIGNERS, network_class, keys)


async def record_executors(transaction: Transaction, network_class: str, seen: Sequence[SeenHealth]) -> None:
    """Store checks of executors; `changed_at` moves only with the state."""
    await _record(transaction, _EXECUTORS, network_class, seen)


async def record_signers(transaction: Transaction, network_class: str, seen: Sequence[SeenHealth]) -> None:
    """Store checks of signers and the addresses they were observed with."""
    await _record(transaction, _SIGNERS, network_class, seen)


async def _register(transaction: Transaction, register: _Register, network_class: str, keys: Iterable[str]) -> None:
    bound = {"network_class": network_class, "keys": sorted(keys)}
    for template in (_REGISTERED, _ORPHANS):
        await transaction.execute(text(register.statement(template)), bound)


async def _record(
    transaction: Transaction, register: _Register, network_class: str, seen: Sequence[SeenHealth]
) -> None:
    bound = {"network_class": network_class, "seen": as_json([asdict(one) for one in seen])}
    await transaction.execute(text(register.statement(_SEEN)), bound)
