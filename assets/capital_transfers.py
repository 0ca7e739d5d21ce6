"""Capital transfers as an asset: which ones a person should look at, and what can be done about each."""

import dagster as dg

from assets.checks import Finding
from assets.keys import CAPITAL_TRANSFERS, GROUP
from qtg_dagster.domain.capital_transfers import ADVICE, TransferState
from qtg_dagster.settings import Settings
from qtg_dagster.store.capital_transfers import Transfer, read_transfers, transfers_needing_attention
from qtg_dagster.store.ccip_sends import stranded_sends
from qtg_dagster.store.database import Database
from resources import DatabaseResource, SettingsResource

NONE_NEEDS_ATTENTION = "none_needs_attention"
NONE_STRANDED = "no_ccip_send_stranded"

capital_transfers = dg.AssetSpec(
    CAPITAL_TRANSFERS,
    group_name=GROUP,
    kinds={"postgres"},
    description="What was asked to be moved from where to where, kept in qtg.capital_transfer_requests.",
)


async def find_transfers(database: Database, settings: Settings) -> Finding:
    """Does every transfer go on? One that stopped is an error; one that is late, or that nobody follows, a warning."""
    async with database.transaction() as transaction:
        shown = await transfers_needing_attention(transaction, settings.network_class)
        waiting = await read_transfers(transaction, settings.network_class, open_only=True, most=1)
    told = {f"{one.transfer_id} {one.attention_kind}": _line(one) for one in shown}
    followed = settings.workers_enabled and settings.capital_transfer_followup_enabled
    if waiting and not followed:
        told["not followed up"] = (
            "transfers are open and the follow-up is switched off: set MG_CAPITAL_TRANSFER_FOLLOWUP_ENABLED=true, or "
            "launch follow_up_capital_transfers"
        )
    stopped = any(one.state is TransferState.NEEDS_ATTENTION for one in shown)
    severity = dg.AssetCheckSeverity.ERROR if stopped else dg.AssetCheckSeverity.WARN
    return Finding(CAPITAL_TRANSFERS, NONE_NEEDS_ATTENTION, not told, severity, told or {"needing attention": "none"})


async def find_stranded(database: Database, settings: Settings) -> Finding:
    """Is the end of every old CCIP send known? If not: where to look for it."""
    async with database.transaction() as transaction:
        stranded = await stranded_sends(transaction, settings.network_class)
    told = {f"send {one.id}": one.attention for one in stranded}
    severity = dg.AssetCheckSeverity.ERROR
    return Finding(CAPITAL_TRANSFERS, NONE_STRANDED, not told, severity, told or {"stranded": "none"})


def _line(transfer: Transfer) -> str:
    assert transfer.attention_kind is not None  # noqa: S101 - only those are shown
    assert transfer.attention_since is not None  # noqa: S101 - the table has them together
    since = f"since {transfer.attention_since:%Y-%m-%d %H:%M:%S} UTC"
    return f"{transfer}, {since}: {transfer.attention}. To do: {ADVICE[transfer.attention_kind]}"


@dg.asset_check(
    asset=CAPITAL_TRANSFERS,
    name=NONE_NEEDS_ATTENTION,
    description="No capital transfer has stopped or is late, and somebody follows them up.",
)
def none_needs_attention(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_transfers(opened, now)).result()


@dg.asset_check(
    asset=CAPITAL_TRANSFERS, name=NONE_STRANDED, description="The end of every CCIP send that is old is known."
)
def no_ccip_send_stranded(database: DatabaseResource, settings: SettingsResource) -> dg.AssetCheckResult:
    now = settings.read()
    return database.read(lambda opened: find_stranded(opened, now)).result()


transfer_checks = (none_needs_attention, no_ccip_send_stranded)
