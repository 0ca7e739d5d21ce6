"""Cadence, limits, prepared actions and fault points."""

from __future__ import annotations

import hashlib
import math
import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from qtg_dagster import faults
from qtg_dagster.domain.amounts import Amount, Asset
from qtg_dagster.domain.contract import ExecutionResult, PreparedAction, ResultStatus
from qtg_dagster.domain.errors import InvalidInput, RiskControlViolated
from qtg_dagster.domain.observation import (
    DEFAULT_OBSERVE_INTERVALS,
    MAX_BACKOFF_SECONDS,
    error_backoff,
    observe_delay,
)
from qtg_dagster.domain.plans import RiskControls
from qtg_dagster.domain.risk import check_amount, check_destination, check_fee
from qtg_dagster.faults import FaultInjected, FaultPoint, fault_point

USDC = Asset("USDC", 6)


def usdc(text: str) -> Amount:
    return Amount.parse(USDC, text)


def test_intervals_are_the_runtime_references() -> None:
    assert DEFAULT_OBSERVE_INTERVALS == {
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
    assert observe_delay("anything_else", None) == 10


@given(st.floats(allow_nan=False), st.sampled_from([*DEFAULT_OBSERVE_INTERVALS, "other"]))
def test_a_hint_wins_within_its_bounds(hint: float, action_type: str) -> None:
    delay = observe_delay(action_type, hint)
    assert 0 <= delay <= MAX_BACKOFF_SECONDS
    if 0 <= hint <= MAX_BACKOFF_SECONDS:
        assert delay == hint


def test_a_hint_of_zero_is_a_hint() -> None:
    assert observe_delay("ccip_delivery", 0) == 0


def test_a_pass_backs_off_from_its_fifth_failure_to_a_minute() -> None:
    assert [error_backoff(n) for n in range(8)] == [0, 0, 0, 0, 0, 32, 60, 60]
    assert error_backoff(10**9) == 60


@pytest.mark.parametrize("amount", ["0", "0.000"])
def test_nothing_is_no_amount(amount: str) -> None:
    with pytest.raises(RiskControlViolated, match="not positive"):
        check_amount(RiskControls(), usdc(amount), field="amount")


def test_the_cap_itself_is_allowed_and_the_next_unit_is_not() -> None:
    controls = RiskControls(hard_cap="100")
    check_amount(controls, usdc("100"), field="amount")
    with pytest.raises(RiskControlViolated, match="over the hard cap") as refused:
        check_amount(controls, usdc("100.000001"), field="parameters.amount")
    assert refused.value.field == "parameters.amount"
    check_amount(RiskControls(), usdc("1000000000"), field="amount")


@pytest.mark.parametrize("cap", ["1e3", "many", "", "-1", "1.0000001"])
def test_a_cap_that_cannot_be_read_lets_nothing_through(cap: str) -> None:
    with pytest.raises(InvalidInput):
        check_amount(RiskControls(hard_cap=cap), usdc("0.5"), field="amount")


def test_an_empty_allowlist_allows_nothing() -> None:
    with pytest.raises(RiskControlViolated, match="allowlist"):
        check_destination(RiskControls(), "0xabc", field="destination")


def test_hex_is_compared_without_case_and_all_else_with_it() -> None:
    controls = RiskControls(destination_allowlist=("0xAbC", "Memo:Desk"))
    check_destination(controls, "0xaBc", field="destination")
    check_destination(controls, "Memo:Desk", field="destination")
    for other in ("memo:desk", "0xAbC ", "", "0xAbCd"):
        with pytest.raises(RiskControlViolated):
            check_destination(controls, other, field="destination")


def test_a_fee_over_its_ceiling_is_refused() -> None:
    controls = RiskControls(max_fee="1.5")
    check_fee(controls, usdc("1.5"), USDC)
    check_fee(RiskControls(), usdc("99"), USDC)
    with pytest.raises(RiskControlViolated, match="fee ceiling"):
        check_fee(controls, usdc("1.500001"), USDC)


def test_a_prepared_action_carries_the_hash_of_its_text() -> None:
    action = PreparedAction.of(action_type="move", payload_format="x.v1", payload='{"a":"ü"}')
    assert action.payload_hash == hashlib.sha256('{"a":"ü"}'.encode()).hexdigest()


@pytest.mark.parametrize("hint", [-1, -0.001, math.nan])
def test_a_hint_is_not_negative(hint: float) -> None:
    with pytest.raises(ValidationError):
        ExecutionResult(status=ResultStatus.OBSERVING, retry_after_seconds=hint)


def test_fault_points_do_nothing_unless_armed() -> None:
    for point in FaultPoint:
        fault_point(point)


def test_an_armed_point_acts_at_its_nth_passing_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "_armed", faults._Armed("preflight:raise:2"))
    fault_point(FaultPoint.PREFLIGHT)
    fault_point(FaultPoint.APPROVE)
    with pytest.raises(FaultInjected, match="preflight"):
        fault_point(FaultPoint.PREFLIGHT)
    fault_point(FaultPoint.PREFLIGHT)


def test_an_unknown_point_is_refused() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        faults._Armed("nowhere:kill")


def test_the_environment_arms_a_point_that_kills() -> None:
    program = "from qtg_dagster.faults import *; fault_point(FaultPoint.APPROVE); print('alive')"
    environment = {**os.environ, "QTG_FAULT": "approve:kill"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")
