"""Which channel gets which word, over the alert's whole life."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.inventory import ChannelEntry
from qtg_dagster.secret import SecretSource
from qtg_dagster.settings import Settings
from qtg_dagster.store.alerts import raise_alert, resolve_alert
from qtg_dagster.store.database import Database
from qtg_dagster.upkeep.alerts.detection import detect_alerts
from qtg_dagster.upkeep.alerts.telling import tell_alerts
from tests.engine.desk import Desk

Tell = Callable[..., Awaitable[int]]
URL = SecretSource(env="NOWHERE")
DESK = {"desk": ChannelEntry(url=URL)}


def drift(severity: Severity = Severity.WARNING, key: str = "venue:x USDC") -> Condition:
    return Condition(AlertKind.DRIFT, key, severity, f"{key} differs", {"ours": "10", "theirs": "9"}, asset="balances")


@pytest.fixture
def tell(sender: Database, settings: Settings) -> Tell:
    async def told(channels: dict[str, ChannelEntry] | None = None) -> int:
        async with sender.transaction() as tx:
            return await tell_alerts(tx, settings, DESK if channels is None else channels)

    return told


async def raised(database: Database, *conditions: Condition) -> list[int]:
    async with database.transaction() as tx:
        return [await raise_alert(tx, "sandbox", each) for each in conditions]


async def ended(database: Database, condition: Condition) -> bool:
    async with database.transaction() as tx:
        return await resolve_alert(tx, "sandbox", condition.kind, condition.key)


async def queue(desk: Desk) -> list[tuple[str, str, str]]:
    rows = await desk.rows("SELECT channel, what, outcome FROM qtg.alert_deliveries ORDER BY id")
    return [(row["channel"], row["what"], row["outcome"]) for row in rows]


async def sent(desk: Desk) -> None:
    """All that waits has arrived."""
    await desk.sql(
        "UPDATE qtg.alert_deliveries SET outcome = 'sent', settled_at = now(), attempts = attempts + 1 "
        "WHERE outcome = 'pending'"
    )


async def test_what_a_part_of_qtg_raises_is_told_once_and_once_when_it_is_over(desk: Desk, tell: Tell) -> None:
    app = desk.engine.database
    [first] = await raised(app, drift())
    assert await raised(app, drift()) == [first]
    assert await desk.rows("SELECT times_seen FROM qtg.alerts") == [{"times_seen": 1}], "renewed, and never gone"
    assert [await tell(), await tell()] == [1, 0]
    await sent(desk)
    assert await ended(app, drift())
    assert not await ended(app, drift())
    assert [await tell(), await tell()] == [1, 0]
    assert await queue(desk) == [("desk", "opened", "sent"), ("desk", "resolved", "pending")]


async def test_it_is_raised_in_the_caller_s_transaction_or_not_at_all(desk: Desk, tell: Tell) -> None:
    async def fails() -> None:
        async with desk.engine.database.transaction() as tx:
            await raise_alert(tx, "sandbox", drift())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fails()
    assert await tell() == 0
    assert await desk.rows("SELECT 1 FROM qtg.alerts") == []


async def test_secrets_in_evidence_do_not_reach_a_row(desk: Desk) -> None:
    told = Condition(AlertKind.DRIFT, "k", Severity.INFO, "t", {"url": "https://a:CANARY@x/", "api_key": "CANARY"})
    await raised(desk.engine.database, told)
    [row] = await desk.rows("SELECT * FROM qtg.alerts")
    assert "CANARY" not in str(row)


async def test_an_unsent_message_carries_later_news_itself(desk: Desk, tell: Tell) -> None:
    app = desk.engine.database
    await raised(app, drift())
    await tell()
    await raised(app, drift(Severity.CRITICAL))
    assert await tell() == 0
    assert await queue(desk) == [("desk", "opened", "pending")]


async def test_what_was_heard_is_escalated(desk: Desk, tell: Tell) -> None:
    app = desk.engine.database
    await raised(app, drift())
    await tell()
    await sent(desk)
    await raised(app, drift(Severity.CRITICAL))
    assert await tell() == 1
    assert (await queue(desk))[-1] == ("desk", "escalated", "pending")


async def test_who_cannot_have_heard_of_it_is_not_told_that_it_is_over(desk: Desk, tell: Tell) -> None:
    app = desk.engine.database
    await raised(app, drift())
    await tell()
    await ended(app, drift())
    assert await tell() == 0
    assert await queue(desk) == [("desk", "opened", "superseded")]


async def test_who_may_have_heard_of_it_is_told_that_it_is_over(desk: Desk, tell: Tell) -> None:
    app = desk.engine.database
    await raised(app, drift())
    await tell()
    await desk.sql("UPDATE qtg.alert_deliveries SET attempts = 1")
    await ended(app, drift())
    assert await tell() == 1
    assert await queue(desk) == [("desk", "opened", "superseded"), ("desk", "resolved", "pending")]


async def test_channels_get_what_their_terms_say_and_a_crossed_threshold_is_news(desk: Desk, tell: Tell) -> None:
    app = desk.engine.database
    night = ChannelEntry(url=URL, least_severity=Severity.CRITICAL)
    cores = ChannelEntry(url=URL, kinds=(AlertKind.CORE_HALTED,))
    elsewhere = ChannelEntry(url=URL, network_classes=("mainnet",))
    channels = {**DESK, "night": night, "cores": cores, "elsewhere": elsewhere}
    await raised(app, drift())
    await tell(channels)
    await sent(desk)
    assert await queue(desk) == [("desk", "opened", "sent")]
    await raised(app, drift(Severity.CRITICAL))
    await tell(channels)
    assert (await queue(desk))[1:] == [("desk", "escalated", "pending"), ("night", "escalated", "pending")]
    await sent(desk)
    await ended(app, drift())
    await tell(channels)
    assert (await queue(desk))[3:] == [("desk", "resolved", "pending"), ("night", "resolved", "pending")]


async def test_a_channel_that_is_added_hears_of_what_is_open(desk: Desk, tell: Tell) -> None:
    await raised(desk.engine.database, drift())
    assert await tell({}) == 0
    assert await tell() == 1
    assert await tell() == 0
    assert await tell({**DESK, "more": ChannelEntry(url=URL)}) == 1
    assert [channel for channel, _, _ in await queue(desk)] == ["desk", "more"]


async def test_messages_to_a_channel_that_is_gone_are_dropped(desk: Desk, tell: Tell) -> None:
    await raised(desk.engine.database, drift())
    await tell()
    await tell({})
    assert await queue(desk) == [("desk", "opened", "dropped")]


async def test_a_message_of_yesterday_is_given_up(desk: Desk, tell: Tell) -> None:
    await raised(desk.engine.database, drift())
    await tell()
    await desk.sql("UPDATE qtg.alert_deliveries SET created_at = now() - interval '25 hours'")
    await tell()
    assert await queue(desk) == [("desk", "opened", "failed")]


async def test_one_that_comes_and_goes_is_told_three_times_an_hour(desk: Desk, tell: Tell) -> None:
    app = desk.engine.database
    for _ in range(6):
        await raised(app, drift())
        await tell()
        await sent(desk)
        await ended(app, drift())
        await tell()
        await sent(desk)
    assert [what for _, what, _ in await queue(desk)] == ["opened", "resolved"] * 3
    await raised(app, drift())
    assert await tell() == 0
    await desk.sql("UPDATE qtg.alerts SET opened_told_at = opened_told_at - interval '1 hour'")
    assert await tell() == 1


async def test_a_failing_channel_is_not_told_of_itself(desk: Desk, tell: Tell) -> None:
    about = Condition(AlertKind.CHANNEL_FAILING, "desk", Severity.WARNING, "desk does not answer")
    await raised(desk.engine.database, about)
    await tell({**DESK, "other": ChannelEntry(url=URL)})
    assert await queue(desk) == [("other", "opened", "pending")]


async def test_the_sender_cannot_take_an_alert_away_nor_the_app_a_message(desk: Desk, sender: Database) -> None:
    from sqlalchemy import text
    from sqlalchemy.exc import ProgrammingError

    for database, statement in (
        (sender, "DELETE FROM qtg.alerts"),
        (sender, "DELETE FROM qtg.alert_deliveries"),
        (desk.engine.database, "UPDATE qtg.alert_deliveries SET outcome = 'sent'"),
        (desk.engine.database, "DELETE FROM qtg.alerts"),
    ):
        with pytest.raises(ProgrammingError, match="permission denied"):
            async with database.transaction() as tx:
                await tx.execute(text(statement))


async def test_what_was_raised_is_not_ended_by_a_look_that_does_not_find_it(
    desk: Desk, sender: Database, settings: Settings
) -> None:
    """Also of a kind that is looked for: who raised it says when it is over."""
    unwell = Condition(AlertKind.WORKER_UNWELL, "drift_verifier", Severity.WARNING, "it says so itself")
    await raised(desk.engine.database, unwell, drift())
    for _ in range(2):
        await detect_alerts(sender, settings)
    rows = await desk.rows("SELECT kind FROM qtg.alerts WHERE resolved_at IS NULL AND absent_since IS NULL ORDER BY id")
    assert [row["kind"] for row in rows] == ["worker_unwell", "drift"]
