"""Reading the ledger, and finding what in it does not fit the nodes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.store.database import Transaction

# The lines outlive their movement's rows; what they name stands in its tombstone then.
_MOVEMENTS = """(SELECT id, network_class, request_state, created_at, NULL::jsonb AS nodes FROM qtg.movement_requests
          UNION ALL
          SELECT request_id, network_class, request_state, created_at, nodes FROM qtg.movement_tombstones)"""
_LINES = text(f"""
    SELECT l.posted_at, coalesce(n.node_key, r.nodes -> l.request_node_id::text ->> 'key', '?') AS node_key,
           l.attempt_no, l.entry_kind, l.from_account, l.to_account, l.asset, l.decimals,
           l.base_units
    FROM qtg.ledger_lines l
    LEFT JOIN qtg.movement_request_nodes n ON n.id = l.request_node_id
    JOIN {_MOVEMENTS} AS r ON r.id = l.request_id
    WHERE l.request_id = CAST(:request_id AS uuid) AND r.network_class = :network_class
    ORDER BY l.id
""")  # noqa: S608 - our own constant
_TOTALS = text(f"""
    SELECT asset, decimals, split_part(account, ':', 1) AS account_class, sum(units) AS base_units
    FROM (
        SELECT asset, decimals, to_account AS account, base_units AS units, request_id FROM qtg.ledger_lines
        UNION ALL
        SELECT asset, decimals, from_account, -base_units, request_id FROM qtg.ledger_lines
    ) AS side
    JOIN {_MOVEMENTS} AS r ON r.id = side.request_id
    WHERE r.network_class = :network_class
    GROUP BY 1, 2, 3
    ORDER BY 1, 3
""")  # noqa: S608 - our own constant
#: Money that is still in transit where it cannot be, and more that arrived than left.
_IN_TRANSIT = text(f"""
    SELECT r.id::text AS request_id, n.node_key,
           CASE WHEN s.units < 0 THEN 'more arrived than left'
                WHEN n.node_state <> 'COMPLETED' AND s.attempt_no < n.attempt_no THEN 'an earlier attempt in transit'
                WHEN n.node_state NOT IN ('SUBMITTING', 'SUBMITTED', 'OBSERVING', 'UNKNOWN', 'COMPLETED')
                    THEN n.node_state || ' with money in transit'
                ELSE r.request_state || ' with money in transit' END AS check,
           s.units::text || ' base units of ' || s.asset AS detail,
           s.units < 0 OR r.request_state = 'COMPLETED' OR s.attempt_no < n.attempt_no
               OR n.node_state NOT IN ('SUBMITTING', 'SUBMITTED', 'OBSERVING', 'UNKNOWN', 'COMPLETED') AS wrong
    FROM (
        SELECT d.request_id, d.request_node_id, d.attempt_no, d.asset,
               d.base_units - coalesce((
                   SELECT sum(l.base_units) FROM qtg.ledger_lines l
                   WHERE l.request_node_id = d.request_node_id AND l.attempt_no = d.attempt_no
                     AND l.from_account = d.to_account), 0) AS units
        FROM qtg.ledger_lines d
        WHERE d.entry_kind = 'departure'
    ) AS s
    JOIN {_MOVEMENTS} AS r ON r.id = s.request_id
    JOIN LATERAL (
        SELECT o.node_key, o.node_state, o.attempt_no FROM qtg.movement_request_nodes o WHERE o.id = s.request_node_id
        UNION ALL
        SELECT r.nodes -> s.request_node_id::text ->> 'key', r.nodes -> s.request_node_id::text ->> 'state',
               s.attempt_no
        WHERE r.nodes IS NOT NULL
    ) AS n ON true
    WHERE s.units <> 0 AND r.network_class = :network_class
    ORDER BY r.created_at, n.node_key
""")  # noqa: S608 - our own constant
#: Lines of movements that nobody knows: neither rows nor a tombstone.
_NOBODYS = text("""
    SELECT l.request_id::text AS request_id, '?' AS node_key, 'of no movement' AS check,
           count(*)::text || ' lines' AS detail, true AS wrong
    FROM qtg.ledger_lines l
    WHERE NOT EXISTS (SELECT FROM qtg.movement_requests r WHERE r.id = l.request_id)
      AND NOT EXISTS (SELECT FROM qtg.movement_tombstones t WHERE t.request_id = l.request_id)
    GROUP BY 1
    ORDER BY 1
""")
#: Effects whose departure is not there: forgotten, or never known.
_MISSING = text("""
    SELECT r.id::text AS request_id, n.node_key,
           CASE WHEN a.ledger ? 'units' THEN 'COMPLETED without its departure' ELSE 'not in the ledger' END AS check,
           coalesce(a.ledger ->> 'not_posted', 'its attempt says nothing of the ledger') AS detail,
           coalesce(a.ledger ? 'units', false) AS wrong
    FROM qtg.movement_request_nodes n
    JOIN qtg.movement_requests r ON r.id = n.request_id
    LEFT JOIN qtg.movement_node_attempts a ON a.request_node_id = n.id AND a.attempt_no = n.attempt_no
    WHERE n.node_kind = 'action' AND n.node_state = 'COMPLETED' AND r.network_class = :network_class
      AND NOT EXISTS (SELECT 1 FROM qtg.ledger_lines l WHERE l.request_node_id = n.id
                      AND l.attempt_no = n.attempt_no AND l.entry_kind = 'departure')
    ORDER BY r.created_at, n.node_key
""")


@dataclass(frozen=True, slots=True)
class Line:
    """One posting, as a person reads it."""

    posted_at: datetime
    node_key: str
    attempt_no: int
    entry_kind: str
    from_account: str
    to_account: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class Total:
    """What all accounts of one class hold of one asset; of an asset, these add up to nothing."""

    account_class: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class Finding:
    """A node whose lines are worth a look; `wrong` when they contradict its state."""

    request_id: str
    node_key: str
    check: str
    detail: str
    wrong: bool


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """The sums of the ledger and what was found in it."""

    totals: tuple[Total, ...]
    findings: tuple[Finding, ...]

    @property
    def unbalanced(self) -> tuple[Asset, ...]:
        """Assets whose accounts do not add up to nothing."""
        sums: dict[Asset, int] = {}
        for total in self.totals:
            sums[total.amount.asset] = sums.get(total.amount.asset, 0) + total.amount.base_units
        return tuple(asset for asset, units in sums.items() if units)

    @property
    def right(self) -> bool:
        """Whether every asset adds up and no node contradicts its lines."""
        return not self.unbalanced and not any(finding.wrong for finding in self.findings)


async def read_lines(transaction: Transaction, network_class: str, request_id: str) -> list[Line]:
    """The lines of a movement, oldest first."""
    rows = await transaction.execute(_LINES, {"request_id": request_id, "network_class": network_class})
    return [
        Line(
            row.posted_at,
            row.node_key,
            row.attempt_no,
            row.entry_kind,
            row.from_account,
            row.to_account,
            Amount(Asset(row.asset, row.decimals), int(row.base_units)),
        )
        for row in rows
    ]


async def verify_ledger(transaction: Transaction, network_class: str) -> LedgerReport:
    """Add everything up and compare it with the nodes; reads the whole ledger of the network class."""
    bound = {"network_class": network_class}
    totals = await transaction.execute(_TOTALS, bound)
    sums = tuple(
        Total(row.account_class, Amount(Asset(row.asset, row.decimals), int(row.base_units))) for row in totals
    )
    findings: list[Finding] = []
    for question in (_IN_TRANSIT, _MISSING, _NOBODYS):
        rows = await transaction.execute(question, bound if question is not _NOBODYS else {})
        findings += [Finding(**row) for row in rows.mappings()]
    return LedgerReport(sums, tuple(findings))
