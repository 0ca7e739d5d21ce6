"""How often a node is looked at, and how long a failing look may be put off."""

from __future__ import annotations

#: Seconds between two looks at a node, by action type (the runtime reference's DEFAULT_OBSERVE_INTERVALS).
DEFAULT_OBSERVE_INTERVALS: dict[str, float] = {
    "cex_withdrawal_status": 5,
    "cex_deposit_status": 10,
    "destination_chain_receive_observe": 10,
    "destination_chain_finality_observe": 15,
    "protocol_observe": 15,
    "cctp_attestation": 15,
    "cctp_mint_status": 5,
    "ccip_delivery": 60,
    "debridge_fulfillment": 30,
}
OTHER_OBSERVE_INTERVAL: float = 10
#: Retry hints are clamped to this, so that a paging timeout is never found much later than it is due.
MAX_BACKOFF_SECONDS: float = 600
#: A worker pass that keeps failing waits min(2^n, 60) seconds from the fifth failure on.
MAX_CONSECUTIVE_ERRORS = 5
MAX_PASS_BACKOFF_SECONDS: float = 60


def observe_delay(action_type: str, retry_after_seconds: float | None) -> float:
    """Seconds until the next look; an executor's hint wins over the default."""
    if retry_after_seconds is not None:
        return clamp_hint(retry_after_seconds)
    return DEFAULT_OBSERVE_INTERVALS.get(action_type, OTHER_OBSERVE_INTERVAL)


def clamp_hint(seconds: float) -> float:
    """An executor's hint within bounds: nobody is put off for ever."""
    return min(max(seconds, 0.0), MAX_BACKOFF_SECONDS)


def error_backoff(consecutive_errors: int) -> float:
    """Seconds a pass waits after `consecutive_errors` failures in a row; zero below the threshold."""
    if consecutive_errors < MAX_CONSECUTIVE_ERRORS:
        return 0.0
    return min(2.0 ** min(consecutive_errors, 16), MAX_PASS_BACKOFF_SECONDS)
