"""What keeps us out of a venue is told in the venue's words and with the fix: by preflight, health and `qtg doctor`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qtg_dagster.domain.contract import HealthState, ResultStatus
from qtg_dagster.host.findings import Finding
from qtg_dagster.host.platform_checks import ask_health, read_wallets
from qtg_dagster.lanes.cex.access import REMEDIES, access_refusal
from qtg_dagster.lanes.cex.reply import RawReply
from qtg_dagster.lanes.cex.venue import Access
from tests.lanes.cex.venues.bench import Bench, benches

EVERYWHERE = pytest.mark.parametrize("bench", benches(), ids=lambda bench: bench.wire)
ANY = Access.KEY_IP_OR_PERMISSION
#: A part of the key -> its name in ccxt, and what a venue may make of a wrong one.
PARTS = {
    "key": ("apiKey", {Access.WRONG_KEY, ANY}),
    "secret": ("secret", {Access.WRONG_SIGNATURE, ANY}),
    "passphrase": ("password", {Access.WRONG_PASSPHRASE, ANY}),
}
#: A state of the venue or of the key -> the condition of the stand-in, and what a venue may make of it.
STATES: dict[str, tuple[dict[str, Any], set[Access]]] = {
    "key reads nothing": ({"key_reads": False}, {Access.NO_PERMISSION, ANY}),
    "another address": ({"ip_allowed": False}, {Access.IP_NOT_ALLOWED, Access.NO_PERMISSION, ANY}),
    "maintenance": ({"maintenance": True}, {Access.MAINTENANCE}),
}


async def refused(desk: Any, order: Any, kinds: set[Access], case: str) -> None:
    """Preflight, health and doctor name the venue's code and words, what it means, and the fix."""
    (account,) = desk.lane.accounts
    error = account.venue.read_error((await account.call(account.venue.permissions())).json)
    kind = account.venue.access_codes.get(error.error_code)
    assert kind in kinds, (case, error)
    remedy = REMEDIES[kind]
    answer = await desk.executor("withdrawal_action").preflight(order())
    if remedy.field is None:
        assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, remedy.code), case
        assert answer.retry_after_seconds > 0
    else:
        assert answer.status is ResultStatus.REJECTED, case
        assert answer.evidence["field"] == f"venues.venue_a.{remedy.field}", case
    for told in (answer.error_message, await health_line(desk), (await wallets(desk)).line()):
        for part in (error.error_code, " ".join(error.message.split()), remedy.means, remedy.fix):
            assert part in told, case


async def health_line(desk: Any) -> str:
    finding = await ask_health("exec.cex.withdrawal_action", desk.executor("withdrawal_action").health)
    assert not finding.ok
    return finding.line()


async def wallets(desk: Any) -> Finding:
    (fetcher,) = desk.lane.balance_fetchers
    return await read_wallets(fetcher)


@EVERYWHERE
async def test_what_keeps_us_out(bench: Bench, open_desk: Any, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stand-in for all cases: none leaves anything behind, and the last look finds all well."""
    desk = await open_desk(bench)
    spoilt = import_module(f"tests.sandbox.exchange.dialects.drive_{bench.wire}").DRIVER.spoilt
    parts = {name: part for name, part in PARTS.items() if name != "passphrase" or bench.passphrase is not None}
    for name, (ccxt_name, kinds) in parts.items():
        field = "api_passphrase" if name == "passphrase" else f"api_{name}"
        monkeypatch.setenv("SPOILT", spoilt[name][0][ccxt_name])
        await refused(desk.again(**{field: {"env": "SPOILT"}}), order, kinds, name)
    for case, (conditions, kinds) in STATES.items():
        await desk.control.set_conditions("venue_a", **conditions)
        await refused(desk, order, kinds, case)
        await desk.control.reset_conditions("venue_a")
    assert await desk.posts() == 0
    fresh = desk.again()  # a venue's status is kept for a while where it may seldom be asked
    assert await fresh.executor("withdrawal_action").preflight(order()) is None
    assert (await wallets(fresh)).ok


leaves = st.one_of(st.none(), st.booleans(), st.integers(-(10**6), 10**6), st.text(max_size=12))
names = st.sampled_from(
    ["code", "error", "errors", "result", "data", "status", "msg", "label", "message", "name", "id"]
)
bodies = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4))


@EVERYWHERE
@given(body=bodies)
def test_no_answer_is_too_odd_to_be_read(bench: Bench, body: Any) -> None:
    """What cannot be understood is for the reader of that answer to refuse, in words that say that a look failed."""
    refusal = access_refusal("desk", bench.venue, RawReply(sent=True, status=200, json=body))
    assert refusal is None or refusal.venue_code in bench.venue.access_codes


@EVERYWHERE
async def test_what_lets_us_in_and_pays_nothing_out(bench: Bench, open_desk: Any, order: Any) -> None:
    desk = await open_desk(bench)
    action, health = desk.executor("withdrawal_action"), desk.executor("withdrawal_action").health
    await desk.control.set_conditions("venue_a", key_withdraws=False)
    answer = await action.preflight(order())
    if bench.tells_rights:
        assert (answer.status, answer.evidence["field"]) == (ResultStatus.REJECTED, "venues.venue_a.api_key")
        assert answer.evidence["fix"]
        finding = await ask_health("cex", health)
        assert finding.detail == f"{HealthState.DEGRADED}, venue_a: {answer.evidence['problem']}"
    else:  # the withdrawal itself is refused, and nothing was taken
        assert answer is None
        submitted = await action.submit(order(), await action.prepare(order()))
        assert bench.venue.access_codes[submitted.error_code] is Access.NO_PERMISSION
        assert (submitted.status, await desk.executed()) == (ResultStatus.REJECTED, [])
    await desk.control.set_conditions("venue_a", key_withdraws=True, withdraw_disabled=[f"ETH/{bench.network}"])
    answer = await action.preflight(order())
    assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, "NETWORK_SUSPENDED")
    assert bench.venue.network_code(bench.network) in answer.error_message
    await desk.control.set_conditions("venue_a", withdraw_disabled=[], clock_skew_ms=600_000)
    answer = await action.preflight(order())
    assert (answer.status, answer.error_code) == (ResultStatus.NOT_SENT, "CLOCK_SKEW")
    assert "ynchronise this machine" in answer.error_message
    await desk.control.set_conditions("venue_a", clock_skew_ms=0, ip_restricted=True)  # as a key should be
    assert await action.preflight(order()) is None
    assert (await ask_health("cex", health)).ok
