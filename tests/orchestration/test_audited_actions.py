"""Who did what, with which plan, is always there: every job by which people change something leaves its audit entry."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from qtg_dagster.composition import Platform
from qtg_dagster.definitions import build_definitions
from qtg_dagster.domain.contract import ExecutionContext, ExecutionResult, ResultStatus
from qtg_dagster.domain.plans import NodeKind, Plan, PlanNode
from qtg_dagster.engine.orders import MovementOrder
from qtg_dagster.engine.requests import approve_movement, create_movement, publish_template
from qtg_dagster.executors.registry import ExecutorRegistry
from qtg_dagster.inventory import Inventory
from qtg_dagster.settings import Settings, load_settings
from resources import ResourceSet
from tests.orchestration.location import LocalExecutor, LocalExecutors
from tests.orchestration.shapes import Ask, Launch, Rows

INVENTORY = """
assets: {USDC: {symbol: USDC, decimals: 6}}
signers: {signer.local.desk: {keystore: nowhere.json, passphrase: {env: NOT_SET}}}
"""
#: Jobs of machines: nobody decides anything in them. What their moves mean for money is in the journal, and refusals,
#: expiries and follow-ups that they decide are audited as the engine's (tests/engine).
MACHINES = {
    "balance_snapshots",
    "deliver",
    "dispatch",
    "executor_health",
    "expire",
    "follow_up_capital_transfers",
    "ingest_cex_transfers",
    "observe",
    "reap_ccip_stranded",
    "reap_evm_nonces",
    "recover",
    "retain",
    "verify_audit_chain",
}
#: Jobs that only show.
LOOKS = {"review_movement", "review_template_proposal"}
#: Jobs that need routes or a chain to do anything: their entries are asserted where those are, in files of that name.
ELSEWHERE = {
    "request_capital_transfer": ("tests/engine/test_capital_transfers.py", '"request"'),
    "retry_capital_transfer": ("tests/engine/test_transfer_followup.py", '"retry"'),
    "close_capital_transfer": ("tests/engine/test_transfer_followup.py", "'close_capital_transfer'"),
    "cancel_capital_transfer": ("tests/orchestration/test_capital_transfers.py", "'cancel_capital_transfer'"),
    "acknowledge_cex_transfers": ("tests/treasury/test_record_decisions.py", '"acknowledge_cex_transfers"'),
    "settle_cex_transfer": ("tests/treasury/test_record_decisions.py", '"settle_cex_transfer"'),
    "acknowledge_nonce": ("tests/nonces/test_nonce_reaper.py", "'acknowledge_nonce'"),
    "fill_nonce": ("tests/nonces/test_nonce_filling.py", '"fill_nonce"'),
}

WHO = {"actor": "grace", "reason": "because"}


class AdoptingExecutor(LocalExecutor):
    """Takes whatever exists for the node's own."""

    identifying_refs = ("reference",)

    async def adopt(self, context: ExecutionContext, reference: str) -> ExecutionResult:  # noqa: ARG002
        refs = {"reference": reference}
        return ExecutionResult(status=ResultStatus.ACCEPTED, provider_refs=refs, evidence={"seen": "in the wallet"})


class AdoptingExecutors(LocalExecutors):
    def register_more(self, executors: ExecutorRegistry, inventory: Inventory) -> None:
        super().register_more(executors, inventory)
        executors.register("exec.local.adopting", AdoptingExecutor())


@pytest.fixture(autouse=True)
def _inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(INVENTORY)
    monkeypatch.setenv("MG_INVENTORY_FILE", str(file))


@pytest.fixture
def resources(location: Any) -> ResourceSet:
    return ResourceSet.wired(AdoptingExecutors())


@pytest.fixture
def defs(resources: ResourceSet) -> dg.Definitions:
    return build_definitions(load_settings(), resources)


def _node(key: str, kind: NodeKind = NodeKind.ACTION) -> PlanNode:
    if kind is NodeKind.MANUAL:
        return PlanNode(node_key=key, node_kind=kind, action_type="look")
    return PlanNode(node_key=key, node_kind=kind, action_type="move", executor_key="exec.local.adopting")


#: Two nodes side by side: an action, and a person's look.
PLAN = Plan(template_key="watched", title="Watched", nodes=(_node("move"), _node("manual_look", NodeKind.MANUAL)))
DOCUMENT = json.dumps(PLAN.model_dump(mode="json"))


@dataclass
class Stage:
    """Brings about what a job decides on."""

    ask: Ask
    rows: Rows
    request_id: str = ""
    proposal: dict[str, str] = field(default_factory=dict)
    alert_id: int = 7

    def publish(self) -> None:
        self.ask(lambda platform: publish_template(platform.engine, PLAN, actor="ada"))

    def create(self) -> None:
        self.publish()

        async def order(platform: Platform) -> str:
            wanted = MovementOrder(template_key="watched", requested_by="ada", callback_url="https://93.184.216.34/x")
            return (await create_movement(platform.engine, wanted)).request_id

        self.request_id = self.ask(order)

    def approve(self) -> None:
        self.create()
        self.ask(lambda platform: approve_movement(platform.engine, self.request_id, actor="lin"))

    def fail(self) -> None:
        """The action has FAILED, on evidence."""
        self.approve()
        self.rows(
            "WITH step AS (INSERT INTO qtg.movement_node_steps (request_node_id, attempt_no, step_kind, facts) "
            "SELECT id, 0, 'refused', '{}' FROM qtg.movement_request_nodes WHERE node_key = 'move' "
            "RETURNING id, request_node_id) "
            "UPDATE qtg.movement_request_nodes n SET node_state = 'FAILED', evidence_step_id = step.id "
            "FROM step WHERE n.id = step.request_node_id RETURNING n.id"
        )
        self.rows("UPDATE qtg.movement_requests SET request_state = 'FAILED' RETURNING id")

    def stop(self) -> None:
        """The movement waits for an intervention."""
        self.approve()
        self.rows("UPDATE qtg.movement_requests SET request_state = 'EXECUTING' RETURNING id")
        self.rows("UPDATE qtg.movement_requests SET request_state = 'MANUAL_INTERVENTION' RETURNING id")

    def give_up_telling(self) -> None:
        self.approve()
        self.rows("UPDATE qtg.movement_callback_outbox SET status = 'dlq' RETURNING id")

    def open_breaker(self) -> None:
        from qtg_dagster.engine.breakers import open_breaker

        self.ask(lambda platform: open_breaker(platform.engine, "lane:cex", actor="ada", reason="odd"))

    def limit(self) -> None:
        from qtg_dagster.treasury.limits import set_velocity_limit

        self.ask(lambda platform: set_velocity_limit(platform.engine, "USDC", "1", actor="ada", reason="r"))

    def halt(self) -> None:
        self.rows(
            "INSERT INTO qtg.core_group_events (network_class, event, falls, reason) "
            "VALUES ('sandbox', 'halt', 5, 'died again and again') RETURNING id"
        )

    def alarm(self) -> None:
        [alert] = self.rows(
            "INSERT INTO qtg.alerts (network_class, kind, dedupe_key, severity, title) "
            "VALUES ('sandbox', 'audit_chain', 'audit_chain', 'critical', 'the audit chain is broken') RETURNING id"
        )
        self.alert_id = alert["id"]

    def propose(self) -> None:
        from qtg_dagster.treasury.proposals import ProposalOrder, propose_template

        async def propose(platform: Platform) -> dict[str, str]:
            order = ProposalOrder.read({"plan": PLAN, "based_on": 0, "proposed_by": "ada", "reason": "new"})
            proposal = (await propose_template(platform.engine, order)).proposal
            return {"proposal_id": proposal.proposal_id, "plan_digest": proposal.plan_digest}

        self.proposal = self.ask(propose)


@dataclass(frozen=True)
class Deed:
    """A job of people: what must stand before it, its op and config, and the entry that it leaves."""

    before: Callable[[Stage], None]
    op: str
    config: Callable[[Stage], dict[str, Any]]
    action: str
    actor: str = "grace"


def about(**more: Any) -> Callable[[Stage], dict[str, Any]]:
    return lambda stage: {"request_id": stage.request_id, **WHO, **more}


def on(**config: Any) -> Callable[[Stage], dict[str, Any]]:
    return lambda _: {**WHO, **config}


def nothing(_: Stage) -> None:
    """The job needs nothing to stand."""


DEEDS: dict[str, Deed] = {
    "publish_templates": Deed(
        nothing, "publish", lambda _: {"document": DOCUMENT, "published_by": "grace"}, "publish_template"
    ),
    "create_movement": Deed(
        Stage.publish, "create", lambda _: {"template_key": "watched", "requested_by": "grace"}, "create"
    ),
    "approve_movement": Deed(Stage.create, "approve", about(), "approve"),
    "reject_movement": Deed(Stage.create, "reject", about(), "reject"),
    "cancel_movement": Deed(Stage.create, "cancel", about(), "cancel"),
    "resume_movement": Deed(Stage.stop, "resume", about(), "resume"),
    "retry_node": Deed(Stage.fail, "retry", about(node_key="move"), "retry"),
    "complete_manual_step": Deed(
        Stage.approve,
        "complete",
        lambda stage: {
            "request_id": stage.request_id,
            "node_key": "manual_look",
            "actor": "grace",
            "note": "seen by phone",
        },
        "complete_manual_node",
    ),
    "skip_manual_step": Deed(Stage.approve, "skip", about(node_key="manual_look"), "skip"),
    "adopt_into_node": Deed(Stage.approve, "adopt", about(node_key="move", reference="0xbeef"), "adopt"),
    "open_breaker": Deed(nothing, "open", on(scope="lane:cex"), "open_breaker"),
    "release_breaker": Deed(Stage.open_breaker, "release", on(scope="lane:cex", per_minute=1), "release_breaker"),
    "close_breaker": Deed(Stage.open_breaker, "close", on(scope="lane:cex"), "close_breaker"),
    "set_velocity_limit": Deed(nothing, "set_limit", on(asset="USDC", daily="5"), "set_velocity_limit"),
    "clear_velocity_limit": Deed(Stage.limit, "clear_limit", on(asset="USDC"), "clear_velocity_limit"),
    "enrol_signer": Deed(
        nothing, "enrol", on(signer_key="signer.local.desk", address="0x" + "11" * 20), "enrol_signer"
    ),
    "resume_core": Deed(Stage.halt, "resume_core_workers", on(), "resume_core"),
    "redrive_callbacks": Deed(Stage.give_up_telling, "redrive", on(), "redrive_callbacks"),
    "resend_callbacks": Deed(Stage.approve, "resend", about(), "resend_callbacks"),
    "acknowledge_alert": Deed(
        Stage.alarm, "acknowledge_open_alert", lambda stage: {"alert_id": stage.alert_id, **WHO}, "acknowledge_alert"
    ),
    "propose_template": Deed(
        nothing,
        "propose",
        lambda _: {"document": DOCUMENT, "proposed_by": "grace", "reason": "new"},
        "propose_template",
    ),
    "approve_template_proposal": Deed(
        Stage.propose, "approve_proposal", lambda stage: {**stage.proposal, **WHO}, "approve_template_proposal"
    ),
    "reject_template_proposal": Deed(
        Stage.propose,
        "reject_proposal",
        lambda stage: {"proposal_id": stage.proposal["proposal_id"], **WHO},
        "reject_template_proposal",
    ),
}


def test_every_job_is_known_to_be_audited_a_machine_s_or_only_a_look() -> None:
    found = build_definitions(Settings(), ResourceSet.wired()).get_repository_def().get_all_jobs()
    jobs = {job.name for job in found if not job.name.startswith("__")}
    known = [set(DEEDS), MACHINES, LOOKS, set(ELSEWHERE)]
    assert jobs == set().union(*known), "a new job: say here which entry it leaves, or whose it is"
    assert sum(map(len, known)) == len(jobs)
    people = {job.name for job in found if job.name not in MACHINES | LOOKS and not job.name.startswith("__")}
    for job in found:
        fields = {name for node in job.nodes for name in _fields(node.definition)}
        named = fields & {"actor", "requested_by", "proposed_by", "published_by"}
        assert bool(named) == (job.name in people), f"{job.name}: who does it?"


def _fields(op: Any) -> set[str]:
    fields = getattr(getattr(op.config_schema, "config_type", None), "fields", {})
    return set(fields)


@pytest.mark.parametrize("job", ELSEWHERE)
def test_an_entry_that_is_asserted_elsewhere_is(job: str) -> None:
    file, words = ELSEWHERE[job]
    assert words in (Path(__file__).parents[2] / file).read_text()


@pytest.mark.parametrize("job", DEEDS)
def test_a_deed_leaves_one_entry_with_who_what_and_the_plan(job: str, launch: Launch, ask: Ask, rows: Rows) -> None:
    deed, stage = DEEDS[job], Stage(ask, rows)
    deed.before(stage)
    [before] = rows("SELECT coalesce(max(id), 0) AS id FROM qtg.audit_outbox")
    assert launch(job, deed.op, **deed.config(stage)).success
    [entry] = rows("SELECT * FROM qtg.audit_outbox WHERE id > :id", id=before["id"])
    assert (entry["action"], entry["actor"], entry["network_class"]) == (deed.action, deed.actor, "sandbox")
    assert entry["subject_id"]
    if entry["subject_type"] == "movement_request":
        [movement] = rows("SELECT compiled_plan_hash, approval_digest FROM qtg.movement_requests")
        assert entry["details"].items() >= movement.items()


@pytest.mark.parametrize(
    "job", [job for job, deed in DEEDS.items() if deed.before is not nothing or job == "open_breaker"]
)
def test_a_deed_that_is_refused_leaves_no_entry(job: str, launch: Launch, rows: Rows) -> None:
    """The entry is written in the deed's transaction, or not at all: here nothing that it is about stands."""
    deed = DEEDS[job]
    stage = Stage(lambda _: None, rows, "0d9f5b2e-6e3f-4a53-9f0b-0c7a3f1f7a11")
    stage.proposal = {"proposal_id": stage.request_id, "plan_digest": "d"}
    config = deed.config(stage) | ({"scope": "nonsense"} if job == "open_breaker" else {})
    refused = launch(job, deed.op, **config)
    assert refused.success == (job == "redrive_callbacks")
    assert rows("SELECT 1 FROM qtg.audit_outbox") == []
