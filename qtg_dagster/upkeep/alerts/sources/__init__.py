"""Where alerts come from: one module a condition."""

from __future__ import annotations

from qtg_dagster.store.audit_verifications import audit_chain_problem
from qtg_dagster.upkeep.alerts.looking import Source
from qtg_dagster.upkeep.alerts.sources import (
    audit_chain,
    callbacks,
    channels,
    core,
    dead_nonces,
    interventions,
    manual_steps,
    open_breakers,
    outboxes,
    stranded_sends,
    transfers,
    uncertain,
    unwell_workers,
    venue_records,
)

#: All of them; a new condition is a module and a line here.
SOURCES: tuple[Source, ...] = (
    interventions.SOURCE,
    uncertain.SOURCE,
    transfers.SOURCE,
    stranded_sends.SOURCE,
    dead_nonces.SOURCE,
    venue_records.SOURCE,
    core.SOURCE,
    audit_chain.source_over(audit_chain_problem),
    unwell_workers.SOURCE,
    callbacks.SOURCE,
    outboxes.SOURCE,
    channels.SOURCE,
    open_breakers.SOURCE,
    manual_steps.SOURCE,
)
