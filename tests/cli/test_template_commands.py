"""`qtg template` on a real database, from a first proposal to a version in use."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from qtg_dagster import cli

INVENTORY = "assets: {USDC: {symbol: USDC, decimals: 6}}\n"
TEMPLATE = """
template_key: rent
title: "Rent\\u202e"
parameters: [{name: amount, type: amount, asset: USDC}]
risk_controls: {hard_cap: "100", destination_allowlist: [landlord]}
nodes:
  - {node_key: manual_pay, node_kind: manual, action_type: pay, config: {amount: "$param:amount"}}
"""


@pytest.fixture(autouse=True)
def _machine(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(INVENTORY)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("QTG_HOME", str(tmp_path))
    monkeypatch.setenv("MG_INVENTORY_FILE", str(inventory))


def qtg(*words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli.build(), ["template", *words], input=given)


def propose(document: str, *more: str) -> tuple[str, str]:
    """A proposal's id and digest."""
    made = qtg("propose", "-", "--by", "ada", "--reason", "because", *more, given=document)
    assert made.exit_code == 0, made.output
    return made.stdout.strip(), re.findall(r"digest ([0-9a-f]{64})", made.stderr)[0]


def test_a_template_goes_from_proposal_to_version_and_to_the_next(database_url: str) -> None:
    assert qtg("list").output == "there is no template yet\n"
    assert qtg("proposals").output == "no proposal waits\n"
    proposal_id, digest = propose(TEMPLATE)
    assert qtg("proposals").output.startswith(f"{proposal_id}  PENDING  rent, a new template; 0 of 1 approvals; by ada")
    own = qtg("approve", proposal_id, "--digest", digest, "--by", "Ada")
    assert own.exit_code == 1
    assert "nobody approves their own proposal" in own.output
    said = qtg("approve", proposal_id, "--digest", digest, "--by", "grace")
    assert said.output == "rent: version 1, approved by grace\n"
    shown = qtg("show", "rent").stdout
    assert shown.startswith(f"# version 1, digest {digest}\n")

    wider, digest = propose(shown.replace("hard_cap: '100'", "hard_cap: '250'"), "--based-on", "1")
    assert qtg("list").output == f"{'rent':32} version 1    Rent\\u202e  1 proposed\n"
    seen = qtg("diff", wider).output
    assert seen.startswith("WARNINGS\n  risk_controls.hard_cap: larger amounts are allowed\n")
    assert re.search(r"!  risk_controls.hard_cap +100 +250 +larger amounts are allowed", seen)
    assert digest in seen
    assert qtg("reject", wider, "--by", "grace", "--reason", "too much").output == "rent: rejected by grace: too much\n"
    assert qtg("proposals").output == "no proposal waits\n"
    everything = qtg("proposals", "--all").output
    assert "REJECTED rent, based on version 1; rejected by grace: too much" in everything
    assert "APPROVED rent, a new template; version 1, approved by grace" in everything
    with psycopg.connect(database_url) as connection:
        trail = connection.execute("SELECT action, actor FROM qtg.audit_outbox ORDER BY id").fetchall()
    assert trail == [
        ("propose_template", "ada"),
        ("approve_template_proposal", "grace"),
        ("propose_template", "ada"),
        ("reject_template_proposal", "grace"),
    ]


def test_the_same_key_gives_the_same_proposal_and_says_so() -> None:
    first = propose(TEMPLATE, "--key", "k")
    again = qtg("propose", "-", "--by", "ada", "--reason", "because", "--key", "k", given=TEMPLATE)
    assert again.stdout.strip() == first[0]
    assert "stands already" in again.stderr


@pytest.mark.parametrize(
    ("words", "given", "said"),
    [
        (("propose", "-", "--by", "ada", "--reason", "x"), "title: [", "neither YAML nor JSON"),
        (("propose", "-", "--by", "ada", "--reason", "x", "--based-on", "3"), TEMPLATE, "no version 3 of rent"),
        (("propose", "-", "--by", "ada", "--reason", " "), TEMPLATE, "reason"),
        (("propose", "/nowhere/at/all", "--by", "ada", "--reason", "x"), None, "No such file"),
        (("show", "rent"), None, "there is no template 'rent'"),
        (("diff", "nothing"), None, "there is no template proposal 'nothing'"),
        (("approve", "nothing", "--digest", "0", "--by", "grace"), None, "there is no template proposal"),
        (("reject", "nothing", "--by", "grace"), None, "--reason"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(words: tuple[str, ...], given: str | None, said: str) -> None:
    refused = qtg(*words, given=given)
    assert refused.exit_code != 0
    assert said in refused.output
