"""Which movements the demo makes, and how each must end."""

from __future__ import annotations

from dataclasses import dataclass

from qtg_dagster.domain.states import RequestState

REQUESTER = "demo treasurer"
APPROVER = "demo approver"
OPERATOR = "demo operator"
MANUAL_NODE = "manual_check"


@dataclass(frozen=True, slots=True)
class Sample:
    """One movement of the demo."""

    title: str
    template_key: str
    amount: str
    loses_reply: bool = False
    expected: RequestState = RequestState.COMPLETED


SAMPLES = (
    Sample("exchange to exchange, withdrawal reply lost", "cex_chain_cex_usdc", "75.25", loses_reply=True),
    Sample("exchange to exchange", "cex_chain_cex_usdc", "1250.5"),
    Sample("plain chain transfer", "chain_transfer_usdc", "40"),
    Sample("chain transfer after a manual check", "chain_transfer_manual_check", "15.000001"),
)
