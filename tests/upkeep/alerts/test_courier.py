"""The notification dispatcher on real servers: at least once, one at a time, and nobody waits for another."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from qtg_dagster.domain.alerts import AlertKind, Condition, Severity
from qtg_dagster.engine.parts import Engine
from qtg_dagster.host.paths import project_root
from qtg_dagster.settings import Settings
from qtg_dagster.store.alerts import raise_alert
from qtg_dagster.store.database import Database
from qtg_dagster.store.postgres import PostgresStore
from qtg_dagster.store.roles import SENDER
from qtg_dagster.upkeep.alerts.courier import NotificationCourier
from qtg_dagster.upkeep.delivery import Delivery
from tests.conftest import as_role
from tests.engine.desk import Desk
from tests.engine.plans import manual, plan_of, until
from tests.upkeep.alerts.receivers import HttpReceiver, MailReceiver, fails, hangs, kills, well

Courier = Callable[..., NotificationCourier]


def drift(key: str = "venue:x", severity: Severity = Severity.WARNING) -> Condition:
    return Condition(AlertKind.DRIFT, key, severity, f"{key} differs", {"ours": "10"})


def inventory_of(file: Path, *channels: str) -> Path:
    """An inventory of these channels, each with its URL in a variable of its name."""
    lines = [f"  {name}: {{url: {{env: {name.upper()}_URL}}}}\n" for name in channels]
    file.write_text("".join(["notifications:\n", *lines]))
    return file


@pytest.fixture
async def courier(
    settings: Settings,
    sender: Database,
    http: HttpReceiver,
    mail: MailReceiver,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> AsyncIterator[Courier]:
    """A dispatcher for the channels `desk` (a webhook) and, when asked for, `night` (mail)."""
    monkeypatch.setenv("DESK_URL", http.url("hook/CANARYtoken?rto=60"))
    monkeypatch.setenv("NIGHT_URL", mail.url())
    made: list[NotificationCourier] = []

    def build(*channels: str, **changes: Any) -> NotificationCourier:
        names = channels or ("desk",)
        inventory = inventory_of(tmp_path / f"inventory{len(made)}.yaml", *names)
        changed = settings.model_copy(update={"inventory_file": inventory, **changes})
        made.append(NotificationCourier(sender, changed, look_seconds=0))
        return made[-1]

    yield build
    for each in made:
        await each.finish(5)


async def raised(desk: Desk, *conditions: Condition) -> None:
    async with desk.engine.database.transaction() as tx:
        for each in conditions:
            await raise_alert(tx, "sandbox", each)


async def round_of(courier: NotificationCourier, desk: Desk) -> int:
    """One round, to the end of what it began."""
    begun = await courier.work(desk.runner, asyncio.Event())
    await courier.finish(30)
    return begun


async def deliveries(desk: Desk) -> list[dict[str, Any]]:
    return await desk.rows("SELECT * FROM qtg.alert_deliveries ORDER BY id")


async def make_due(desk: Desk) -> None:
    await desk.sql("UPDATE qtg.alert_deliveries SET next_attempt_at = now() WHERE outcome = 'pending'")


async def test_a_condition_goes_to_every_channel_and_so_does_its_end(
    desk: Desk, courier: Courier, http: HttpReceiver, mail: MailReceiver
) -> None:
    dispatcher = courier("desk", "night")
    await desk.begin(plan_of(manual("manual_x"), key="by_hand"))
    await desk.sql(
        "INSERT INTO qtg.core_group_events (network_class, event, falls, reason) VALUES ('sandbox', 'halt', 5, 'died')"
    )
    assert await dispatcher.waiting() == 2  # the manual step is in the list and, as info, for neither channel
    assert await round_of(dispatcher, desk) == 2
    assert http.titles == ["[CRITICAL] the core workers are halted: no movement goes on"]
    assert [each["subject"] for each in mail.mails] == http.titles
    assert await dispatcher.waiting() == 0
    assert await round_of(dispatcher, desk) == 0
    await desk.sql(
        "INSERT INTO qtg.core_group_events (network_class, event, actor, reason) VALUES ('sandbox', 'resume', 'a', 'b')"
    )
    assert await dispatcher.waiting() >= 1
    await round_of(dispatcher, desk)
    assert http.titles[1:] == ["[RESOLVED] the core workers are halted: no movement goes on"]
    assert len(mail.mails) == 2


async def test_switched_off_it_does_nothing_and_nothing_waits(desk: Desk, courier: Courier, http: HttpReceiver) -> None:
    dispatcher = courier(notify_enabled=False)
    await raised(desk, drift())
    assert (await dispatcher.waiting(), await round_of(dispatcher, desk)) == (0, 0)
    assert await deliveries(desk) == []
    assert await round_of(courier(), desk) == 1, "what is open when it is switched on is told then"
    assert http.titles == ["[WARNING] venue:x differs"]


async def test_what_is_not_taken_is_tried_again_and_the_row_says_why_without_a_secret(
    desk: Desk, courier: Courier, http: HttpReceiver
) -> None:
    dispatcher = courier()
    http.behaviour = fails
    await raised(desk, drift())
    await round_of(dispatcher, desk)
    [row] = await deliveries(desk)
    assert (row["outcome"], row["attempts"]) == ("pending", 1)
    assert "500" in row["last_error"]
    assert "CANARY" not in str(row)
    assert await round_of(dispatcher, desk) == 0, "it rests"
    assert await dispatcher.waiting() == 0
    assert await dispatcher.waiting(60) == 1
    http.behaviour = well
    await make_due(desk)
    assert await dispatcher.waiting() == 1
    await round_of(dispatcher, desk)
    [row] = await deliveries(desk)
    assert (row["outcome"], row["attempts"], row["last_error"]) == ("sent", 2, None)


async def test_pauses_grow_to_a_minute(desk: Desk, courier: Courier, http: HttpReceiver) -> None:
    dispatcher = courier()
    http.behaviour = fails
    await raised(desk, drift())
    pauses = []
    for _ in range(7):
        await round_of(dispatcher, desk)
        [row] = await desk.rows(
            "SELECT round(extract(epoch FROM next_attempt_at - now()))::int AS pause FROM qtg.alert_deliveries"
        )
        pauses.append(row["pause"])
        await make_due(desk)
    assert pauses == [2, 4, 8, 16, 32, 60, 60]


async def test_a_channel_that_hangs_delays_its_own_messages_alone(
    desk: Desk, courier: Courier, http: HttpReceiver, mail: MailReceiver
) -> None:
    http.behaviour = hangs
    dispatcher = courier("desk", "night", notify_send_timeout_seconds=30)
    await raised(desk, drift("a"))
    more = asyncio.Event()
    assert await dispatcher.work(desk.runner, more) == 2

    async def mailed(many: int) -> bool:
        await dispatcher.work(desk.runner, more)
        return len(mail.mails) == many

    await until(lambda: mailed(1), "the mail went while the webhook hangs")
    await raised(desk, drift("b"))
    await until(lambda: mailed(2), "and so did the next")
    assert dispatcher.in_flight >= 1
    assert len(http.messages) == 1
    await dispatcher.finish(0)
    assert dispatcher.in_flight == 0


async def test_no_connection_is_held_while_a_message_is_under_way(
    desk: Desk, courier: Courier, sender: Database, http: HttpReceiver
) -> None:
    http.behaviour = hangs
    dispatcher = courier(notify_send_timeout_seconds=30)
    await raised(desk, drift())
    await dispatcher.work(desk.runner, asyncio.Event())

    async def under_way() -> bool:
        return len(http.messages) == 1

    await until(under_way, "the server has it")
    [row] = await desk.rows(
        "SELECT count(*) AS busy FROM pg_stat_activity WHERE usename = 'qtg_sender' AND datname = current_database() "
        "AND (state <> 'idle' OR xact_start IS NOT NULL)"
    )
    assert row["busy"] == 0
    await dispatcher.finish(0)


async def test_many_at_once_are_one_message(desk: Desk, courier: Courier, http: HttpReceiver) -> None:
    dispatcher = courier()
    await raised(desk, *(drift(f"venue:{number}") for number in range(50)))
    for _ in range(6):
        await round_of(dispatcher, desk)
    assert http.titles == ["[WARNING] 20 alerts in sandbox"] * 2 + ["[WARNING] 10 alerts in sandbox"]
    assert {row["outcome"] for row in await deliveries(desk)} == {"sent"}


async def test_where_each_alert_is_an_incident_many_are_told_one_by_one_until_one_fails(
    desk: Desk, courier: Courier, http: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from apprise.plugins import pagerduty

    events = http.url("enqueue").replace("json://", "http://")
    monkeypatch.setattr(pagerduty, "PAGERDUTY_API_LOOKUP", dict.fromkeys(pagerduty.PAGERDUTY_API_LOOKUP, events))
    monkeypatch.setenv("PAGER_URL", "pagerduty://integrationkey@apikey/QTG/treasury")
    dispatcher = courier("pager")
    await raised(desk, *(drift(f"venue:{number}") for number in range(6)))
    http.behaviour = lambda handler: (fails if len(http.messages) == 4 else well)(handler)
    await round_of(dispatcher, desk)
    assert [row["outcome"] for row in await deliveries(desk)] == ["sent"] * 3 + ["pending"] * 3
    assert len(http.messages) == 4
    http.behaviour = well
    for _ in range(3):
        await make_due(desk)
        await round_of(dispatcher, desk)
    assert {row["outcome"] for row in await deliveries(desk)} == {"sent"}
    assert len({message["dedup_key"] for _, message in http.messages}) == 6
    assert len(http.messages) == 7


async def test_a_message_that_is_always_refused_holds_up_nobody_for_long(
    desk: Desk, courier: Courier, http: HttpReceiver
) -> None:
    dispatcher = courier()
    http.behaviour = fails
    await raised(desk, drift("refused"))
    await round_of(dispatcher, desk)
    await desk.sql("UPDATE qtg.alert_deliveries SET next_attempt_at = now() + interval '1 hour'")
    await raised(desk, drift("fresh"))
    assert await round_of(dispatcher, desk) == 0, "planned, while the channel rests"
    http.behaviour = lambda handler: (fails if "refused" in http.titles[-1] else well)(handler)
    await make_due(desk)
    await round_of(dispatcher, desk)
    assert http.titles[1] == "[WARNING] fresh differs"


async def test_two_dispatchers_at_once_send_one_message(desk: Desk, courier: Courier, http: HttpReceiver) -> None:
    await raised(desk, drift())
    first, second = courier(), courier()
    await asyncio.gather(*(round_of(each, desk) for each in (first, second)))
    await round_of(second, desk)
    assert len(http.messages) == 1


async def test_a_claim_that_was_lost_settles_nothing(desk: Desk, courier: Courier, http: HttpReceiver) -> None:
    """It hung, its claim ran out, somebody else sent: what it says then is about no message of its own."""
    http.behaviour = hangs
    slow = courier(notify_send_timeout_seconds=30)
    await raised(desk, drift())
    await slow.work(desk.runner, asyncio.Event())

    async def under_way() -> bool:
        return len(http.messages) == 1

    await until(under_way, "the first is under way")
    await make_due(desk)
    http.behaviour = fails
    await round_of(courier(), desk)
    http.over.set()
    await slow.finish(30)
    [row] = await deliveries(desk)
    assert (row["outcome"], row["attempts"]) == ("pending", 2)
    assert "500" in row["last_error"]


async def test_a_wrong_channel_is_said_to_be_and_the_others_are_served(
    desk: Desk, courier: Courier, mail: MailReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG_URL", "nosuch://CANARYtoken")
    dispatcher = courier("wrong", "night")
    await raised(desk, drift())
    await round_of(dispatcher, desk)
    assert len(mail.mails) == 1
    rows = {row["channel"]: row for row in await deliveries(desk)}
    assert rows["night"]["outcome"] == "sent"
    assert "notifications.wrong.url: apprise cannot use it" in rows["wrong"]["last_error"]
    assert "CANARY" not in str(rows)


async def test_a_channel_that_fails_five_times_is_an_alert_for_the_others(
    desk: Desk, courier: Courier, http: HttpReceiver, mail: MailReceiver
) -> None:
    dispatcher = courier("desk", "night")
    http.behaviour = fails
    await raised(desk, drift())
    for _ in range(6):
        await round_of(dispatcher, desk)
        await make_due(desk)
    await round_of(dispatcher, desk)
    assert [each["subject"] for each in mail.mails] == [
        "[WARNING] venue:x differs",
        "[WARNING] messages do not get through to the channel desk",
    ]
    http.behaviour = well
    for _ in range(3):
        await make_due(desk)
        await round_of(dispatcher, desk)
    assert mail.mails[-1]["subject"] == "[RESOLVED] messages do not get through to the channel desk"


KILLED = textwrap.dedent("""
    import asyncio, sys
    from qtg_dagster.settings import Settings
    from qtg_dagster.store.database import Database
    from qtg_dagster.upkeep.alerts.courier import NotificationCourier

    async def main():
        settings = Settings(database_url=sys.argv[1], notify_enabled=True, inventory_file=sys.argv[2])
        courier = NotificationCourier(Database(sys.argv[1], pool_size=3), settings)
        await courier.work(None, asyncio.Event())
        await courier.finish(60)
        print("lived")

    asyncio.run(main())
""")


async def test_killed_between_sent_and_saved_it_sends_again(
    desk: Desk, courier: Courier, http: HttpReceiver, database_url: str, tmp_path: Path
) -> None:
    await raised(desk, drift())
    courier()  # its environment
    process: list[subprocess.Popen[bytes]] = []
    http.behaviour = kills(lambda: process[0].pid)
    command = [
        sys.executable,
        "-c",
        KILLED,
        as_role(database_url, SENDER),
        str(inventory_of(tmp_path / "killed.yaml", "desk")),
    ]
    process.append(subprocess.Popen(command, stdout=subprocess.PIPE, cwd=project_root()))  # noqa: ASYNC220
    out, _ = await asyncio.to_thread(process[0].communicate, timeout=60)
    assert (process[0].returncode, out) == (-9, b"")
    assert len(http.messages) == 1
    [row] = await deliveries(desk)
    assert (row["outcome"], row["attempts"]) == ("pending", 1)
    http.behaviour = well
    dispatcher = courier()
    assert await round_of(dispatcher, desk) == 0, "its claim has not run out"
    await make_due(desk)
    await round_of(dispatcher, desk)
    assert http.titles == ["[WARNING] venue:x differs"] * 2
    [row] = await deliveries(desk)
    assert (row["outcome"], row["attempts"]) == ("sent", 2)


async def test_it_is_carried_by_the_delivery_drain_and_woken_by_who_raises(
    desk: Desk, engine: Engine, courier: Courier, sender: Database, http: HttpReceiver
) -> None:
    dispatcher = courier(notify_interval_seconds=3600)
    settings = engine.settings.model_copy(update={"drain_linger_seconds": 60.0, "drain_poll_seconds": 30.0})
    delivery = Delivery(PostgresStore(sender), settings, [dispatcher])
    running = asyncio.create_task(delivery.run())

    async def beats() -> bool:
        return bool(await desk.rows("SELECT 1 FROM qtg.worker_heartbeats WHERE worker = 'notification_dispatcher' "
                                    "AND last_attempt_at IS NOT NULL"))  # fmt: skip

    async def told() -> bool:
        return len(http.messages) == 2

    try:
        await until(beats, "it has looked")
        await raised(desk, drift())
        await raised(desk, drift("venue:y"))
        await until(told, "both were told, an hour before the next look")
    finally:
        delivery.stop("the test is over")
        await asyncio.wait_for(running, 60)
    assert delivery.report.errors == {}
