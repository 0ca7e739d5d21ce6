"""Which channel gets which word: planned in the commit that notes the word as given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qtg_dagster.domain.alerts import AlertKind, What, next_delivery, wants
from qtg_dagster.inventory import ChannelEntry
from qtg_dagster.settings import Settings
from qtg_dagster.store.alert_deliveries import ChannelState, channel_states, plan_delivery, supersede, tidy
from qtg_dagster.store.alerts import StoredAlert, earlier_episodes, lock_alerts, standing_alerts, write_told
from qtg_dagster.store.database import Transaction
from qtg_dagster.upkeep.alerts.detection import alert_policy
from qtg_dagster.upkeep.alerts.planning import words

States = Mapping[tuple[int, str], ChannelState]


async def tell_alerts(transaction: Transaction, settings: Settings, channels: Mapping[str, ChannelEntry]) -> int:
    """Plan a message for each word that is due and each channel that takes it; how many were planned.

    A channel that is new, or whose terms have changed, hears of what is open.
    """
    network_class = settings.network_class
    now = await lock_alerts(transaction, network_class)
    await tidy(transaction, network_class, list(channels))
    standing = await standing_alerts(transaction, network_class)
    due = words(standing, await earlier_episodes(transaction, network_class), now, alert_policy(settings))
    states = await channel_states(transaction, [alert.view.id for alert in standing])
    planned = 0
    for word in due:
        await write_told(transaction, word.alert.view.id, word.alert.episode, word.episode)
        planned += await _spread(transaction, word.alert, word.what, channels, states)
    said = {word.alert.view.id for word in due}
    for alert in standing:
        if alert.view.id not in said and _is_told(alert):
            planned += await _catch_up(transaction, alert, channels, states)
    return planned


async def _spread(
    transaction: Transaction, alert: StoredAlert, what: What, channels: Mapping[str, ChannelEntry], states: States
) -> int:
    planned = 0
    for name in _concerned(alert, what, channels, states):
        state = states.get((alert.view.id, name), ChannelState())
        overtaken, added = next_delivery(state.pending, state.attempted, state.heard, what)
        if overtaken:
            await supersede(transaction, alert.view.id, name)
        if added is not None:
            await plan_delivery(transaction, alert.view.network_class, alert.view.id, name, added)
            planned += 1
    return planned


async def _catch_up(
    transaction: Transaction, alert: StoredAlert, channels: Mapping[str, ChannelEntry], states: States
) -> int:
    missing = [name for name in _concerned(alert, What.OPENED, channels, states) if (alert.view.id, name) not in states]
    for name in missing:
        await plan_delivery(transaction, alert.view.network_class, alert.view.id, name, What.OPENED)
    return len(missing)


def _is_told(alert: StoredAlert) -> bool:
    episode = alert.episode
    return episode.told is not None and episode.resolved_at is None and episode.absent_since is None


def _concerned(alert: StoredAlert, what: What, channels: Mapping[str, ChannelEntry], states: States) -> Sequence[str]:
    """Channels that take this alert; of its end, those that were told of it, whatever their terms say now."""
    view = alert.view
    if what is What.RESOLVED:
        return [name for name in channels if (view.id, name) in states]
    about = (view.network_class, view.kind, view.severity)
    return [
        name
        for name, entry in channels.items()
        if wants(entry.least_severity, entry.kinds, entry.network_classes, about)
        # A channel that fails cannot be told so.
        and not (view.kind == AlertKind.CHANNEL_FAILING and view.dedupe_key == name)
    ]
