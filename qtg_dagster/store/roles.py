"""Database roles: what each part of QTG may do to the truth, and that nobody rewrites it.

The migrator owns the schema and is the role that `qtg migrate` connects as. Every other role gets its rights from
`qtg.grant_roles()`, which each migration run ends with; a role that does not exist is passed over.
"""

from __future__ import annotations

from qtg_dagster.domain.retention import OURS

SCHEMA = "qtg"

APP = "qtg_app"
SIGNER = "qtg_signer"
SENDER = "qtg_sender"
READONLY = "qtg_readonly"
RETENTION = "qtg_retention"
DAGSTER = "qtg_dagster"

#: Role -> what it is for.
ROLES = {
    APP: "drains, schedules and operators: all of the work, none of the rewriting",
    SIGNER: "signers alone: what they have signed",
    SENDER: "the outboxes' workers: callbacks and the promotion of audit entries",
    READONLY: "people who look",
    RETENTION: "the deletion of what has settled, by functions of its own",
    DAGSTER: "Dagster's own storage",
}

_WORK = (
    "movement_requests",
    "movement_request_nodes",
    "movement_node_attempts",
    "evm_nonce_reservation",
    "evm_nonce_fillers",
)
_PROPOSALS = ("template_proposals", "template_proposal_decisions")
_SWITCHES = ("breakers", "breaker_starts", "velocity_limits", "velocity_spends", "alerts")
_TRANSFERS = ("capital_transfer_requests", "ccip_send_intent")
#: Venues' records: what is known of a transfer changes, what was seen when does not.
_RECORD = ("cex_transfers", "cex_transfer_days")
_RECORD_EVIDENCE = ("cex_transfer_events", "cex_transfer_readings")
#: What whoever works shows of itself.
_ALIVE = ("runners", "worker_heartbeats")
_PRESENCE = (*_ALIVE, "cycles", "executor_registry", "signer_registry")
_TEMPLATES = ("movement_templates", "movement_plan_versions")
_EVIDENCE = (
    "movement_node_steps",
    "movement_approvals",
    "ledger_lines",
    "audit_outbox",
    "audit_verifications",
    "core_deaths",
)
_WRITTEN_ONCE = ("movement_plan_nodes", "movement_plan_edges", "balance_snapshots", "core_group_events")
#: Alerts, and the messages about them.
_TOLD = ("alerts", "alert_deliveries")
#: What alerts are found in, beside what the sender reads anyway.
_ALERT_SIGHTS = (
    *("movement_request_nodes", "movement_node_steps", "movement_node_attempts", "movement_approvals"),
    *("movement_templates", "movement_plan_versions", "movement_plan_nodes", "movement_plan_edges", "plan_documents"),
    *("executor_registry", "signer_registry", "core_group_events", "breakers", "breaker_starts"),
    *("evm_nonce_reservation", "evm_nonce_fillers", "signer_journal"),
    *("cex_transfers", "cex_transfer_days", "cex_transfer_readings"),
)

#: What delivery writes of a callback; what it says and whom it is for is written once.
_DELIVERED = (
    "status, attempts, next_attempt_at, delivered_at, last_error, last_status, last_attempt_at, "
    "runner_id, claim_epoch, claimed_at"
)

#: Functions that run as the schema's owner: nobody calls one but whom it is granted to.
OWNERS_FUNCTIONS = tuple(kind.function for kind in OURS)

#: Role -> privilege -> tables of the schema; `*` is every table and view. With EXECUTE, functions.
GRANTS: dict[str, dict[str, tuple[str, ...]]] = {
    APP: {
        "SELECT": ("*",),
        "INSERT": (
            *_WORK,
            *_SWITCHES,
            *_TRANSFERS,
            "capital_transfer_attempts",
            *_RECORD,
            *_RECORD_EVIDENCE,
            *_PRESENCE,
            *_TEMPLATES,
            *_EVIDENCE,
            *_WRITTEN_ONCE,
            *_PROPOSALS,
            "movement_callback_outbox",
        ),
        "UPDATE": (*_WORK, *_SWITCHES, *_TRANSFERS, *_RECORD, *_PRESENCE, *_TEMPLATES),
        "UPDATE (proposal_state, plan_version_id, decided_at)": ("template_proposals",),
        "UPDATE (status, attempts, next_attempt_at, resends)": ("movement_callback_outbox",),
        "DELETE": ("breaker_starts", "velocity_limits"),
    },
    SIGNER: {"SELECT": ("signer_journal", "signer_spends"), "INSERT": ("signer_journal", "signer_spends")},
    SENDER: {
        "SELECT": (
            "movement_callback_outbox",
            "audit_outbox",
            "audit_events",
            "audit_verifications",
            "movement_requests",
            *_TRANSFERS,
            *_ALIVE,
            "live_runners",
            *_ALERT_SIGHTS,
            *_TOLD,
        ),
        "INSERT": ("audit_events", *_ALIVE, *_TOLD),
        "UPDATE": (*_ALIVE, *_TOLD),
        f"UPDATE ({_DELIVERED})": ("movement_callback_outbox",),
        "UPDATE (promoted_at)": ("audit_outbox",),
    },
    READONLY: {"SELECT": ("*",)},
    RETENTION: {"EXECUTE": OWNERS_FUNCTIONS},
}
_WITH_SEQUENCES = (APP, SIGNER, SENDER)


def _named(things: tuple[str, ...]) -> str:
    return ", ".join(f"{SCHEMA}.{thing}" for thing in things)


def _rights(role: str, rights: dict[str, tuple[str, ...]]) -> str:
    lines = [
        f"IF to_regrole('{role}') IS NOT NULL THEN",
        f"    REVOKE ALL ON ALL TABLES IN SCHEMA {SCHEMA} FROM {role};",
        f"    REVOKE ALL ON FUNCTION {_named(OWNERS_FUNCTIONS)} FROM {role};",
        f"    GRANT USAGE ON SCHEMA {SCHEMA} TO {role};",
    ]
    for privilege, things in rights.items():
        on = f"ALL TABLES IN SCHEMA {SCHEMA}" if things == ("*",) else _named(things)
        on = f"FUNCTION {on}" if privilege == "EXECUTE" else on
        lines.append(f"    GRANT {privilege} ON {on} TO {role};")
    if role in _WITH_SEQUENCES:
        lines.append(f"    GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {role};")
    lines += [f"    granted := granted || '{role}'::text;", "END IF;"]
    return "\n    ".join(lines)


_BODY = "\n    ".join(_rights(role, rights) for role, rights in GRANTS.items())
GRANT_ROLES = f"""CREATE OR REPLACE FUNCTION {SCHEMA}.grant_roles() RETURNS text[] LANGUAGE plpgsql AS $grants$
DECLARE
    granted text[] := '{{}}';
    thing text;
BEGIN
    REVOKE ALL ON FUNCTION {_named(OWNERS_FUNCTIONS)} FROM PUBLIC;
    {_BODY}
    IF to_regrole('{DAGSTER}') IS NOT NULL AND to_regnamespace('dagster') IS NOT NULL THEN
        GRANT USAGE, CREATE ON SCHEMA dagster TO {DAGSTER};
        -- What an earlier version made as the schema's owner; what the role makes itself is its own.
        FOR thing IN SELECT format('TABLE dagster.%I', tablename) FROM pg_tables
                     WHERE schemaname = 'dagster' AND tableowner = current_user
                     UNION ALL SELECT format('SEQUENCE dagster.%I', sequencename) FROM pg_sequences
                     WHERE schemaname = 'dagster' AND sequenceowner = current_user LOOP
            EXECUTE format('GRANT ALL ON %s TO {DAGSTER}', thing);
        END LOOP;
        granted := granted || '{DAGSTER}'::text;
    END IF;
    RETURN granted;
END
$grants$"""  # noqa: S608 - our own constants

# A role belongs to the whole server, and another database's migration may be making it at this moment.
_CREATED = "\n".join(
    f"    BEGIN CREATE ROLE {role} LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END;"
    for role in ROLES
)
#: Make the roles that are missing, without a password; whoever may not create roles leaves that to an administrator.
CREATE_ROLES = f"""DO $roles$
BEGIN
{_CREATED}
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'QTG''s database roles were not made: %', SQLERRM;
END
$roles$"""


def markdown() -> str:
    """The grants as a table, for the documentation."""
    lines = ["| role | right | tables, functions |", "| --- | --- | --- |"]
    for role, rights in GRANTS.items():
        for privilege, tables in rights.items():
            named = "all, and views" if tables == ("*",) else ", ".join(f"`{table}`" for table in sorted(tables))
            lines.append(f"| `{role}` | {privilege} | {named} |")
    return "\n".join(lines)
