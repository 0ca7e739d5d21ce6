"""Binding transfers on a venue's record to the nodes that made them move. A binding is written once."""

from __future__ import annotations

from sqlalchemy import text

from qtg_dagster.domain.record_days import Stretch
from qtg_dagster.store.cex_transfers import Place
from qtg_dagster.store.database import Transaction

# A node's venue stands in its plan, or is a parameter of its movement.
_VENUE = """CASE WHEN p.config->>'venue' LIKE '$param:%'
    THEN r.input_params->>substr(p.config->>'venue', 8) ELSE p.config->>'venue' END"""
# Hashes are compared without 0x and case: two that differ by no more are one.
_WITHDRAWALS = f"""
    WITH nodes AS (
        SELECT n.id, n.request_id, n.node_key, n.provider_refs->>'exchange_withdrawal_id' AS withdrawal_id,
               n.provider_refs->>'withdrawal_client_id' AS client_id
        FROM qtg.movement_request_nodes n
        JOIN qtg.movement_requests r ON r.id = n.request_id
        JOIN qtg.movement_plan_nodes p ON p.id = n.plan_node_id
        WHERE r.network_class = :network_class AND n.executor_key = 'exec.cex.withdrawal_action'
          AND {_VENUE} = :venue_key AND n.provider_refs <> '{{}}'::jsonb
    ),
    found AS (
        SELECT t.id, n.id AS node_id, n.request_id, n.node_key,
               CASE WHEN n.withdrawal_id = t.row_key THEN 'withdrawal_id' ELSE 'client_id' END AS by,
               greatest(count(*) OVER (PARTITION BY t.id), count(*) OVER (PARTITION BY n.id)) AS claims
        FROM qtg.cex_transfers t
        JOIN nodes n ON n.withdrawal_id = t.row_key
             OR (n.client_id = t.client_id AND coalesce(n.withdrawal_id, t.row_key) = t.row_key)
        WHERE t.network_class = :network_class AND t.venue_key = :venue_key AND t.account = :account
          AND t.kind = 'withdrawal' AND t.matched_node_id IS NULL
          AND t.occurred_at >= :start AND t.occurred_at < :end
          AND NOT EXISTS (SELECT FROM qtg.cex_transfers o WHERE o.matched_node_id = n.id)
    )
    UPDATE qtg.cex_transfers t
    SET matched_request_id = f.request_id, matched_node_id = f.node_id, matched_node_key = f.node_key,
        matched_by = f.by, matched_at = now()
    FROM found f WHERE f.id = t.id AND f.claims = 1
"""  # noqa: S608 - our own constants
_SOUGHT = """sought AS (
        SELECT t.id, t.row_key, t.address, t.amount, lower(regexp_replace(x.tx_id, '^0[xX]', '')) AS tx
        FROM qtg.cex_transfers t
        CROSS JOIN LATERAL (
            SELECT t.tx_id UNION SELECT e.after->>'tx_id' FROM qtg.cex_transfer_events e WHERE e.transfer_id = t.id
        ) AS x (tx_id)
        WHERE t.network_class = :network_class AND t.venue_key = :venue_key AND t.account = :account
          AND t.kind = 'deposit' AND t.matched_node_id IS NULL AND x.tx_id IS NOT NULL
          AND t.occurred_at >= :start AND t.occurred_at < :end
    )"""
_DEPOSITS = f"""
    WITH {_SOUGHT},
    watching AS (
        SELECT n.id, n.request_id, n.node_key, string_to_array(n.provider_refs->>'deposit_id', ',') AS deposit_ids,
               p.config->>'address' AS address
        FROM qtg.movement_request_nodes n
        JOIN qtg.movement_requests r ON r.id = n.request_id
        JOIN qtg.movement_plan_nodes p ON p.id = n.plan_node_id
        WHERE r.network_class = :network_class AND n.executor_key = 'exec.cex.deposit_observe'
          AND {_VENUE} = :venue_key
    ),
    sent AS (
        SELECT DISTINCT n.request_id, lower(regexp_replace(n.provider_refs->>'tx_hash', '^0[xX]', '')) AS tx
        FROM qtg.movement_request_nodes n
        WHERE n.request_id IN (SELECT request_id FROM watching) AND n.provider_refs ? 'tx_hash'
    ),
    found AS (
        SELECT DISTINCT s.id, w.id AS node_id, w.request_id, w.node_key,
               CASE WHEN s.row_key = ANY (w.deposit_ids) THEN 'deposit_id' ELSE 'tx_id' END AS by
        FROM sought s
        JOIN watching w ON s.row_key = ANY (w.deposit_ids)
             OR ((w.address IS NULL OR w.address LIKE '$%' OR s.address IS NULL
                  OR w.address = s.address OR (w.address ILIKE '0x%' AND lower(w.address) = lower(s.address)))
                 AND EXISTS (SELECT FROM sent x WHERE x.request_id = w.request_id AND x.tx = s.tx))
    ),
    one AS (SELECT *, count(*) OVER (PARTITION BY id) AS claims FROM found)
    UPDATE qtg.cex_transfers t
    SET matched_request_id = f.request_id, matched_node_id = f.node_id, matched_node_key = f.node_key,
        matched_by = f.by, matched_at = now()
    FROM one f WHERE f.id = t.id AND f.claims = 1
"""  # noqa: S608 - our own constants

# What nobody watches for may have been sent by a movement all the same: by a transaction of its own, or by a venue
# that paid its withdrawal out, perhaps with those of others, so that the amount has to agree. Where nothing is sought,
# nothing is read.
_SENT_DEPOSITS = f"""
    WITH {_SOUGHT},
    sent AS (
        SELECT n.id AS node_id, n.request_id, n.node_key, CAST(NULL AS numeric) AS amount,
               lower(regexp_replace(n.provider_refs->>'tx_hash', '^0[xX]', '')) AS tx
        FROM qtg.movement_request_nodes n
        JOIN qtg.movement_requests r ON r.id = n.request_id
        WHERE (SELECT count(*) FROM sought) > 0 AND r.network_class = :network_class AND n.node_kind = 'action'
          AND n.executor_key NOT LIKE 'exec.cex.%' AND n.provider_refs ? 'tx_hash'
        UNION ALL
        SELECT w.matched_node_id, w.matched_request_id, w.matched_node_key, w.amount,
               lower(regexp_replace(w.tx_id, '^0[xX]', ''))
        FROM qtg.cex_transfers w
        WHERE (SELECT count(*) FROM sought) > 0 AND w.network_class = :network_class AND w.kind = 'withdrawal'
          AND w.matched_node_id IS NOT NULL AND w.tx_id IS NOT NULL
    ),
    found AS (
        SELECT DISTINCT s.id, x.node_id, x.request_id, x.node_key
        FROM sought s JOIN sent x ON x.tx = s.tx AND coalesce(x.amount, s.amount) = s.amount
    ),
    one AS (SELECT *, count(*) OVER (PARTITION BY id) AS claims FROM found)
    UPDATE qtg.cex_transfers t
    SET matched_request_id = f.request_id, matched_node_id = f.node_id, matched_node_key = f.node_key,
        matched_by = 'tx_id', matched_at = now()
    FROM one f WHERE f.id = t.id AND f.claims = 1
"""  # noqa: S608 - our own constants


async def match_transfers(transaction: Transaction, place: Place, stretch: Stretch) -> int:
    """Bind what is unbound in these days to the one node that it belongs to; how many were.

    A transfer that two nodes could have made is bound to neither, and of two withdrawals that one node could have made,
    none is: people look at them.
    """
    bound = {**place.bound, "start": stretch.start, "end": stretch.end}
    matched = 0
    for statement in (_WITHDRAWALS, _DEPOSITS, _SENT_DEPOSITS):
        done = await transaction.execute(text(statement), bound)
        matched += int(done.rowcount)  # type: ignore[attr-defined]
    return matched
