"""Template proposals from the launchpad: what changes is on the run's page, and refusals say what to do."""

from __future__ import annotations

import json

import pytest

from qtg_dagster.domain.plans import Plan, RiskControls
from tests.orchestration.shapes import Launch, Rows, Shown


@pytest.fixture
def wider(plan: Plan) -> Plan:
    return plan.model_copy(update={"risk_controls": RiskControls(hard_cap=None, destination_allowlist=("0xnew",))})


def document(plan: Plan) -> str:
    return json.dumps(plan.model_dump(mode="json"))


def test_a_version_is_proposed_looked_at_approved_and_in_use(
    plan: Plan, wider: Plan, launch: Launch, metadata: Shown, failure: Shown, rows: Rows
) -> None:
    assert launch("publish_templates", "publish", document=document(plan)).success
    made = launch(
        "propose_template", "propose", document=document(wider), based_on=1, proposed_by="ada", reason="a|new *place*"
    )
    shown = metadata(made)
    assert (shown["state"], shown["loosens"]) == ("PENDING", 1)
    assert "money may go there, and could not" in shown["warnings"]
    assert r"| \! | risk\_controls.destination\_allowlist.0xnew | — | 0xnew | money may go there" in shown["changes"]
    assert "a\\|new \\*place\\*" in shown["proposal"]
    which = {"proposal_id": shown["proposal id"]}
    assert metadata(launch("review_template_proposal", "review_proposal", **which)) == shown

    own = launch(
        "approve_template_proposal", "approve_proposal", **which, plan_digest=shown["plan digest"], actor="ada"
    )
    assert "nobody approves their own proposal" in failure(own).description
    unseen = launch("approve_template_proposal", "approve_proposal", **which, plan_digest="0" * 64, actor="grace")
    assert "look at its differences again" in failure(unseen).description
    said_yes = launch(
        "approve_template_proposal", "approve_proposal", **which, plan_digest=shown["plan digest"], actor="grace"
    )
    assert metadata(said_yes)["state"] == "APPROVED"
    assert "version 2, approved by grace" in metadata(said_yes)["proposal"]
    assert rows("SELECT max(version) AS version FROM qtg.movement_plan_versions") == [{"version": 2}]


def test_a_rejection_ends_it_and_is_shown(plan: Plan, launch: Launch, metadata: Shown, rows: Rows) -> None:
    made = metadata(launch("propose_template", "propose", document=document(plan), proposed_by="ada", reason="new"))
    rejected = launch(
        "reject_template_proposal", "reject_proposal", proposal_id=made["proposal id"], actor="grace", reason="not now"
    )
    assert metadata(rejected)["state"] == "rejected by grace: not now"
    assert rows("SELECT 1 FROM qtg.movement_plan_versions") == []


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("template_key: Bad Key\ntitle: x\nnodes: []", "document.template_key"),
        ("title: x\ntitle: y", "document"),
        ("- a: [", "document"),
        ("1: x", "document"),
        ("just words", "document"),
    ],
)
def test_a_document_that_is_no_template_is_refused_by_its_field(
    text: str, field: str, launch: Launch, failure: Shown
) -> None:
    refused = failure(launch("propose_template", "propose", document=text, proposed_by="ada", reason="x"))
    assert refused.metadata["field"].value == field


def test_where_templates_change_by_proposal_alone_publishing_says_how(
    plan: Plan, wider: Plan, launch: Launch, failure: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert launch("publish_templates", "publish", document=document(plan)).success
    monkeypatch.setenv("MG_TEMPLATES_BY_PROPOSAL_ONLY", "true")
    assert launch("publish_templates", "publish", document=document(plan)).success, "it changes nothing"
    refused = failure(launch("publish_templates", "publish", document=document(wider)))
    assert "propose_template" in refused.description
