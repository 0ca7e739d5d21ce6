"""Channels on real servers: what they take, what they say when they do not, and no secret in any of it."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path

import pytest

from qtg_dagster.domain.alert_messages import Message
from qtg_dagster.domain.alerts import Severity
from qtg_dagster.domain.errors import ConfigurationError
from qtg_dagster.inventory import ChannelEntry, Inventory
from qtg_dagster.secret import SecretSource
from qtg_dagster.upkeep.alerts.channels import Channel, check_channels, open_channel
from tests.upkeep.alerts.receivers import HttpReceiver, MailReceiver, fails, free_port, hangs

CANARY = "CANARYtoken42"
MESSAGE = Message(
    "[CRITICAL] the core group is halted", "reason: five deaths\nlook: qtg core status", Severity.CRITICAL
)


def entry(monkeypatch: pytest.MonkeyPatch, url: str, variable: str = "DESK_CHANNEL") -> ChannelEntry:
    monkeypatch.setenv(variable, url)
    return ChannelEntry(url=SecretSource(env=variable))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, http: HttpReceiver) -> Channel:
    return open_channel("desk", entry(monkeypatch, http.url(f"hook/{CANARY}")))


async def test_a_webhook_takes_a_message_as_it_was_written(opened: Channel, http: HttpReceiver) -> None:
    answer = await opened.send(MESSAGE, 20)
    assert answer.taken, answer.reason
    [(path, message)] = http.messages
    assert path == f"/hook/{CANARY}"
    assert (message["title"], message["message"], message["type"]) == (MESSAGE.title, MESSAGE.body, "failure")


async def test_a_mail_server_takes_one_too(monkeypatch: pytest.MonkeyPatch, mail: MailReceiver) -> None:
    channel = open_channel("night", entry(monkeypatch, mail.url()))
    answer = await channel.send(MESSAGE, 20)
    assert answer.taken, answer.reason
    [got] = mail.mails
    assert got["subject"] == MESSAGE.title
    assert got["to"] == "night@desk.example"
    body = got.get_body(("plain",))
    assert body is not None
    assert "look: qtg core status" in body.get_content()


async def test_a_mail_server_that_refuses_is_said_to(monkeypatch: pytest.MonkeyPatch, mail: MailReceiver) -> None:
    mail.refuses = True
    answer = await open_channel("night", entry(monkeypatch, mail.url())).send(MESSAGE, 20)
    assert not answer.taken
    assert answer.reason
    assert mail.mails == []


async def test_a_server_error_is_the_reason(opened: Channel, http: HttpReceiver) -> None:
    http.behaviour = fails
    answer = await opened.send(MESSAGE, 20)
    assert not answer.taken
    assert "500" in answer.reason
    assert CANARY not in answer.reason


async def test_nobody_listening_is_a_reason_too(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = open_channel("desk", entry(monkeypatch, f"json://127.0.0.1:{free_port()}/{CANARY}"))
    answer = await channel.send(MESSAGE, 20)
    assert not answer.taken
    assert answer.reason
    assert CANARY not in answer.reason


async def test_one_that_hangs_is_given_up_in_time_and_two_at_most_hang(opened: Channel, http: HttpReceiver) -> None:
    http.behaviour = hangs
    began = time.monotonic()
    first, second = await opened.send(MESSAGE, 0.2), await opened.send(MESSAGE, 0.2)
    third = await opened.send(MESSAGE, 0.2)
    assert time.monotonic() - began < 3
    assert [each.taken for each in (first, second, third)] == [False] * 3
    assert first.reason == second.reason == "no answer within 0 s"
    assert third.reason == "2 earlier messages still hang"
    assert len(http.messages) <= 2


@pytest.mark.parametrize("url", [f"nosuch://{CANARY}", f"slack://{CANARY}/x", f"{CANARY}", "json://"])
def test_what_apprise_cannot_use_is_refused_by_the_channel_s_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, url: str
) -> None:
    with caplog.at_level(1), pytest.raises(ConfigurationError) as refused:
        open_channel("desk", entry(monkeypatch, url))
    assert "notifications.desk.url" in str(refused.value)
    assert CANARY not in str(refused.value)
    assert refused.value.__cause__ is None
    assert CANARY not in caplog.text


def test_every_wrong_channel_is_named_and_a_missing_secret_too(monkeypatch: pytest.MonkeyPatch) -> None:
    good = entry(monkeypatch, "json://127.0.0.1:1/x", "GOOD")
    bad = entry(monkeypatch, "nosuch://x", "BAD")
    missing = ChannelEntry(url=SecretSource(env="DESK_NOT_SET"))
    check_channels({"good": good})
    with pytest.raises(ConfigurationError) as refused:
        check_channels({"good": good, "bad": bad, "missing": missing})
    assert "notifications.bad" in str(refused.value)
    assert "notifications.missing.url: the environment variable DESK_NOT_SET" in str(refused.value)
    assert "notifications.good" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#desk",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "pagerduty://integrationkey@apikey/QTG/treasury",
        "mailtos://user:password@mail.desk.example?to=night@desk.example&from=qtg@desk.example",
        "jsons://hooks.desk.example/qtg",
    ],
)
def test_the_urls_of_the_documentation_are_usable(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    assert open_channel("desk", entry(monkeypatch, url)).name == "desk"


async def test_at_the_lowest_level_of_every_logger_no_url_is_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, http: HttpReceiver
) -> None:
    parts = "//user42:CANARYpass42@", f"/{CANARY}?password=CANARYquery42"
    url = http.url("hook").replace("//", parts[0]) + parts[1]
    with caplog.at_level(1):
        logging.getLogger().debug("the capture works")
        channel = open_channel("desk", entry(monkeypatch, url))
        for behaviour in (http.behaviour, fails):
            http.behaviour = behaviour
            answer = await channel.send(MESSAGE, 20)
            assert "CANARY" not in answer.reason
    assert len(http.messages) == 2
    assert "the capture works" in caplog.text
    assert "CANARY" not in caplog.text
    assert "CANARY" not in repr(channel)


async def test_a_pager_keeps_one_incident_an_alert_and_its_end_ends_it(
    monkeypatch: pytest.MonkeyPatch, http: HttpReceiver
) -> None:
    from apprise.plugins import pagerduty

    events = http.url("enqueue").replace("json://", "http://")
    monkeypatch.setattr(pagerduty, "PAGERDUTY_API_LOOKUP", dict.fromkeys(pagerduty.PAGERDUTY_API_LOOKUP, events))
    channel = open_channel("night", entry(monkeypatch, "pagerduty://integrationkey@apikey/QTG/treasury"))
    assert channel.keeps_incidents
    told = replace(MESSAGE, key="sandbox core_halted core group")
    for message in (told, replace(told, title="[RESOLVED] it runs", good_news=True), replace(told, key="another")):
        answer = await channel.send(message, 20)
        assert answer.taken, answer.reason
    sent = [message for _, message in http.messages]
    assert [each["event_action"] for each in sent] == ["trigger", "resolve", "trigger"]
    assert sent[0]["dedup_key"] == sent[1]["dedup_key"] != sent[2]["dedup_key"]
    assert sent[0]["payload"]["severity"] == "critical"


async def test_a_plug_in_that_breaks_is_told_by_its_error_s_name_alone(
    opened: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(**_: object) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(opened._service, "notify", breaks)
    answer = await opened.send(MESSAGE, 20)
    assert (answer.taken, answer.reason) == (False, "apprise failed: RuntimeError")


async def test_channels_send_side_by_side(monkeypatch: pytest.MonkeyPatch, http: HttpReceiver) -> None:
    with HttpReceiver() as other:
        http.behaviour = hangs
        slow = open_channel("slow", entry(monkeypatch, http.url(), "SLOW"))
        quick = open_channel("quick", entry(monkeypatch, other.url(), "QUICK"))
        waiting = asyncio.create_task(slow.send(MESSAGE, 20))
        assert (await quick.send(MESSAGE, 20)).taken
        assert not waiting.done()
        waiting.cancel()


def test_the_inventory_takes_channels_with_terms_and_refuses_a_url_in_the_open(tmp_path: Path) -> None:
    file = tmp_path / "inventory.yaml"
    file.write_text(
        "notifications:\n"
        "  night: {url: {env: X}, least_severity: critical, kinds: [core_halted], network_classes: [m]}\n"
    )
    night = Inventory.load(file).notifications["night"]
    assert (night.least_severity, night.kinds, night.network_classes) == (Severity.CRITICAL, ("core_halted",), ("m",))
    for wrong in (f"url: slack://{CANARY}", "url: {env: X}, kinds: [weather]", "url: {env: X}, least_severity: loud"):
        file.write_text(f"notifications: {{desk: {{{wrong}}}}}\n")
        with pytest.raises(ConfigurationError, match=r"notifications\.desk") as refused:
            Inventory.load(file)
        assert CANARY not in str(refused.value)
