"""Judging a finished case by what the providers have on record, against the database. O1-O12 of the programme.

What the receiver of callbacks has on record is judged in `telling`.
Money that did not move is accounted for too: it waits for a person by name, was called off, or has been lost.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from decimal import Decimal
from typing import Any

from qtg_dagster.composition import Platform
from qtg_dagster.domain.states import INITIAL_NODE_STATE, NODE_MOVES, NodeState
from qtg_dagster.store.ledger import LedgerReport, verify_ledger
from qtg_dagster.upkeep.audit_promoter import promote_all
from qtg_dagster.upkeep.audit_trail import verify_trail
from tests.crash.bench import AWAY, WAITS_FOR_A_PERSON, Bench
from tests.crash.boundaries import Lane
from tests.crash.provider.executor import CANARY, LOOKS_NEEDED
from tests.crash.telling import judge_telling
from tests.crash.world import Effect

Row = dict[str, Any]

_NODES = """
    SELECT n.id::text AS id, n.request_id::text AS request_id, n.node_key, n.node_kind, n.executor_key, n.node_state,
           n.state_version, n.error_code, n.runner_id, r.request_state, r.state_version AS request_version,
           r.input_params, e.step_kind AS evidence_kind, e.facts AS evidence, e.to_state AS evidence_to,
           e.request_node_id::text AS evidence_of,
           n.runner_id IS NOT NULL AND n.runner_id NOT IN (SELECT runner_id FROM qtg.live_runners) AS held_by_the_dead,
           EXISTS (SELECT 1 FROM qtg.movement_node_steps u
                   WHERE u.request_node_id = n.id AND u.to_state = 'UNKNOWN') AS was_unknown,
           (SELECT coalesce(jsonb_agg(jsonb_build_array(s.from_state, s.to_state) ORDER BY s.id)
                            FILTER (WHERE s.to_state IS NOT NULL), '[]')
            FROM qtg.movement_node_steps s WHERE s.request_node_id = n.id) AS moves
    FROM qtg.movement_request_nodes n
    JOIN qtg.movement_requests r ON r.id = n.request_id
    LEFT JOIN qtg.movement_node_steps e ON e.id = n.evidence_step_id
    ORDER BY n.request_created_at, n.id
"""
#: Of the one asset that the cases move.
_DECIMALS = 6
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "REJECTED", "EXPIRED", "MANUAL_INTERVENTION")


class Verdict:
    """What was found wrong, and how often money moved for each node that was to move some."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.waiting: set[str] = set()
        self.once = self.twice = self.never = self.with_people = self.called_off = 0

    def demand(self, holds: bool, oracle: str, words: str) -> None:
        if not holds:
            self.violations.append(f"{oracle}: {words}")


async def judge(bench: Bench, lane: Lane | None) -> Verdict:
    """All oracles over one finished case; no lane means that all of them moved."""
    verdict = Verdict()
    nodes = await bench.rows(_NODES)
    verdict.waiting = {n["request_id"] for n in nodes if _waits_for_a_person(n)}
    effects, keys = await bench.effects(lane), await bench.keys()
    _effects(verdict, nodes, effects, keys)
    await _ledger(verdict, bench, nodes, effects)
    _journal(verdict, nodes)
    _rest(verdict, nodes)
    await _nonces(verdict, bench, lane)
    await _outbox(verdict, bench)
    verdict.violations += await judge_telling(bench)
    await _approvals(verdict, bench)
    await _audit_trail(verdict, bench)
    await _secrets(verdict, bench)
    await _cycles(verdict, bench)
    return verdict


def _waits_for_a_person(node: Row) -> bool:
    return node["node_state"] == NodeState.UNKNOWN and node["error_code"] in WAITS_FOR_A_PERSON


def _effects(verdict: Verdict, nodes: list[Row], effects: list[Effect], keys: dict[str, set[str]]) -> None:
    """O1, O2 and O8: each at most once, exactly once iff COMPLETED, for the amount that was approved."""
    count = Counter(effect.key for effect in effects)
    amounts = {effect.key: Decimal(effect.amount) for effect in effects}
    known = set().union(*keys.values()) if keys else set()
    strangers = [key for key in count if key not in known]
    verdict.demand(not strangers, "O1", f"moves under keys that no attempt has: {strangers}")
    completed = Decimal(0)
    for node in nodes:
        if node["node_kind"] != "action":
            continue
        mine = keys.get(node["id"], set())
        times, state = sum(count[key] for key in mine), node["node_state"]
        verdict.twice += times > 1
        verdict.once += times == 1
        name = f"{node['node_key']} of {node['request_id']}"
        if times == 0:
            _not_moved(verdict, node, name)
        verdict.demand(times <= 1, "O1", f"{name} moved {times} times")
        if state == NodeState.COMPLETED:
            verdict.demand(times == 1, "O1", f"{name} is COMPLETED and moved {times} times")
            completed += Decimal(node["input_params"]["amount"])
        else:
            verdict.demand(times == 0, "O1", f"{name} is {state} and moved {times} times")
        approved = Decimal(node["input_params"]["amount"])
        wrong = [str(amounts[key]) for key in mine if key in amounts and amounts[key] != approved]
        verdict.demand(not wrong, "O8", f"{name} moved {wrong}, approved were {approved}")
    moved = _sum(effects)
    verdict.demand(moved == completed, "O2", f"{moved} moved, {completed} are COMPLETED")


def _not_moved(verdict: Verdict, node: Row, name: str) -> None:
    """Whatever FAILED was done again: what has not moved was called off, or waits for a person, or is lost."""
    if node["node_state"] == NodeState.CANCELLED:
        verdict.called_off += 1
    elif node["request_id"] in verdict.waiting:
        verdict.with_people += 1
    else:
        verdict.never += 1
        verdict.demand(False, "O1", f"{name} is {node['node_state']} and never moved")


async def _ledger(verdict: Verdict, bench: Bench, nodes: list[Row], effects: list[Effect]) -> None:
    """O2: every line adds up with every node, and what left and was not given back is what the providers moved."""
    report = await _verified(bench.platform)
    verdict.demand(not report.unbalanced, "O2", f"the ledger does not add up in {report.unbalanced}")
    for finding in report.findings:
        wrong = finding.wrong or finding.check == "not in the ledger"
        verdict.demand(not wrong, "O2", f"ledger: {finding.node_key} of {finding.request_id}: {finding.check}")
    lines = await bench.rows(
        "SELECT coalesce(sum(CASE entry_kind WHEN 'departure' THEN base_units ELSE -base_units END), 0) AS units "
        "FROM qtg.ledger_lines WHERE entry_kind IN ('departure', 'return')"
    )
    uncertain = [node for node in nodes if node["node_kind"] == "action" and node["node_state"] == NodeState.UNKNOWN]
    expected = _sum(effects) + sum((Decimal(node["input_params"]["amount"]) for node in uncertain), Decimal(0))
    left = Decimal(lines[0]["units"]) / 10**_DECIMALS
    verdict.demand(left == expected, "O2", f"the ledger says that {left} left, the providers say {expected}")


async def _verified(platform: Platform) -> LedgerReport:
    """The ledger's own check; a pooled connection may still be one to a server that has gone since."""
    for _ in range(3):
        with suppress(*AWAY):
            async with platform.database.transaction() as transaction:
                return await verify_ledger(transaction, platform.settings.network_class)
    raise AssertionError("the ledger cannot be read")


def _sum(effects: list[Effect]) -> Decimal:
    return sum((Decimal(effect.amount) for effect in effects), Decimal(0))


def _journal(verdict: Verdict, nodes: list[Row]) -> None:
    """O4: one legal path to where each node stands; O10: nothing is FAILED without evidence of absence."""
    for node in nodes:
        name, here = node["node_key"], INITIAL_NODE_STATE
        for old, new in node["moves"]:
            legal = old == here and NodeState(new) in NODE_MOVES[NodeState(old)]
            verdict.demand(legal, "O4", f"{name} goes {old} -> {new} from {here}")
            here = NodeState(new)
        verdict.demand(here == node["node_state"], "O4", f"{name} is {node['node_state']}, journaled as {here}")
        verdict.demand(node["state_version"] == len(node["moves"]), "O4", f"{name}: the versions have a gap")
        if node["node_state"] in (NodeState.COMPLETED, NodeState.FAILED):
            own = node["evidence_of"] == node["id"] and node["evidence_to"] == node["node_state"]
            verdict.demand(own, "O4", f"{name} is {node['node_state']} without evidence of its own")
        if node["node_state"] == NodeState.FAILED and node["was_unknown"]:
            said = (node["evidence"] or {}).get("evidence", {})
            proven = bool(said) and int(said.get("absent_looks", LOOKS_NEEDED)) >= LOOKS_NEEDED
            verdict.demand(proven, "O10", f"{name} went from UNKNOWN to FAILED on {node['evidence']}")


def _rest(verdict: Verdict, nodes: list[Row]) -> None:
    """O5, and that every movement has ended or waits for a person by name."""
    for node in nodes:
        name = f"{node['node_key']} {node['node_state']}"
        verdict.demand(not node["held_by_the_dead"], "O5", f"{name} is held by a dead runner")
        verdict.demand(node["node_state"] not in ("SUBMITTING", "SUBMITTED", "OBSERVING"), "O5", f"{name} at rest")
    for node in nodes:
        ended = node["request_state"] in _ENDED or node["request_id"] in verdict.waiting
        verdict.demand(ended, "O5", f"movement {node['request_id']} is stuck in {node['request_state']}")


async def _nonces(verdict: Verdict, bench: Bench, lane: Lane | None) -> None:
    """O3: used nonces are contiguous, each for one payload, and as many as the chain has counted."""
    world = bench.stage.world
    if lane not in (None, Lane.EVM_TRANSFER) or world is None:
        return
    bound = await bench.rows(
        "SELECT nonce, count(*) AS times, count(DISTINCT payload_hash) AS payloads FROM qtg.evm_nonce_reservation "
        "WHERE reservation_state = 'BOUND' GROUP BY nonce ORDER BY nonce"
    )
    used = [row["nonce"] for row in bound]
    expected = list(range(bench.chain_nonce, bench.chain_nonce + len(used)))
    verdict.demand(used == expected, "O3", f"nonces {used}, expected {expected}")
    verdict.demand(all(row["payloads"] == 1 for row in bound), "O3", "a nonce has several payloads")
    counted = await world.nonce()
    verdict.demand(counted == bench.chain_nonce + len(used), "O3", f"the chain counts {counted}, reserved are {used}")


async def _outbox(verdict: Verdict, bench: Bench) -> None:
    """O6: one row for every change of a movement's state."""
    wrong = await bench.rows(
        "SELECT r.id, r.request_state, r.state_version, count(o.id) AS told FROM qtg.movement_requests r "
        "LEFT JOIN qtg.movement_callback_outbox o ON o.request_id = r.id AND o.event_type = 'request_state_changed' "
        "GROUP BY r.id HAVING count(o.id) <> r.state_version"
    )
    for row in wrong:
        words = f"movement {row['id']} {row['request_state']} moved {row['state_version']} times, told {row['told']}"
        verdict.demand(False, "O6", words)


async def _approvals(verdict: Verdict, bench: Bench) -> None:
    """O7: whatever was attempted had a valid approval by somebody else for exactly this plan."""
    unapproved = await bench.rows(
        "SELECT DISTINCT n.request_id::text AS id FROM qtg.movement_node_attempts a "
        "JOIN qtg.movement_request_nodes n ON n.id = a.request_node_id "
        "JOIN qtg.movement_requests r ON r.id = n.request_id "
        "WHERE NOT EXISTS (SELECT 1 FROM qtg.movement_approvals p WHERE p.request_id = r.id "
        "AND p.decision = 'approved' AND p.compiled_plan_hash = r.compiled_plan_hash "
        "AND p.approval_digest = r.approval_digest AND p.actor <> r.requested_by "
        "AND p.decided_at <= coalesce(r.expires_at, p.decided_at))"
    )
    verdict.demand(not unapproved, "O7", f"attempted without approval: {unapproved}")


async def _audit_trail(verdict: Verdict, bench: Bench) -> None:
    """O9: the chain verifies, each entry is in it once, and each decision names the plan that it was about."""
    network_class = bench.platform.settings.network_class
    for _ in range(3):
        with suppress(*AWAY):
            await promote_all(bench.platform.database, network_class)
            report = await verify_trail(bench.platform.database, network_class)
            break
    else:
        raise AssertionError("the audit trail cannot be read")
    for broken in report.breaks:
        verdict.demand(False, "O9", broken.told())
    [counted] = await bench.rows(
        "SELECT (SELECT count(*) FROM qtg.audit_outbox) AS entries, (SELECT count(*) FROM qtg.audit_events) AS events"
    )
    verdict.demand(counted["entries"] == counted["events"] == report.rows, "O9", f"{counted}, {report.rows} read")
    undone = await bench.rows(
        "SELECT r.id::text AS id "
        "FROM qtg.movement_requests r LEFT JOIN qtg.movement_approvals p ON p.request_id = r.id "
        "WHERE (SELECT count(*) FROM qtg.audit_events e WHERE e.subject_id = r.id::text AND e.action = 'create' "
        "       AND e.actor = r.requested_by AND e.details ->> 'compiled_plan_hash' = r.compiled_plan_hash) <> 1 "
        "   OR (p.decision = 'approved' AND NOT EXISTS (SELECT 1 FROM qtg.audit_events e "
        "       WHERE e.subject_id = r.id::text AND e.action = 'approve' AND e.actor = p.actor "
        "       AND e.details ->> 'compiled_plan_hash' = p.compiled_plan_hash))"
    )
    verdict.demand(not undone, "O9", f"movements whose creation or approval is not in the trail: {undone}")


async def _secrets(verdict: Verdict, bench: Bench) -> None:
    """O11: no secret in any row or log."""
    world = bench.stage.world
    canaries = [CANARY, *(world.canaries() if world else [])]
    logged = bench.log.read_text(errors="replace") if bench.log.is_file() else ""
    tables = await bench.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'qtg'")
    union = " UNION ALL ".join(f"SELECT t::text AS row FROM qtg.{row['tablename']} t" for row in tables)  # noqa: S608
    for number, canary in enumerate(canaries):
        verdict.demand(canary not in logged, "O11", f"secret {number} is in the log")
    pattern = "|".join(canaries).replace("\\", "")
    found = await bench.rows(f"SELECT count(*) AS many FROM ({union}) AS x WHERE row ~ %s", pattern)  # noqa: S608
    verdict.demand(found[0]["many"] == 0, "O11", f"{found[0]['many']} rows hold a secret")


async def _cycles(verdict: Verdict, bench: Bench) -> None:
    """O12: a window is one row."""
    found = await bench.rows(
        "SELECT cycle_key FROM qtg.cycles GROUP BY network_class, worker, cycle_key HAVING count(*) > 1"
    )
    verdict.demand(not found, "O12", f"windows served twice: {found}")
