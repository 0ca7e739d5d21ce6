"""Delivery to real servers: in order, at least once, whatever the receiver does."""

from __future__ import annotations

import asyncio
import json

import pytest

from qtg_dagster.domain.errors import ConfigurationError
from tests.callbacks.authority import Authority
from tests.callbacks.conftest import Start
from tests.callbacks.post import Post, Resolved
from tests.callbacks.receiver import answers, cuts, drips, floods, gate, hangs


async def test_a_callback_arrives_once_and_is_delivered(post: Post, receiver: Start) -> None:
    owner = await receiver()
    request_id = await post.movement(owner.url)
    assert await post.deliver() == 1
    [told] = owner.book
    row = await post.one()
    assert (row["status"], row["attempts"], row["last_status"], row["last_error"]) == ("delivered", 0, 204, None)
    assert row["delivered_at"] is not None
    assert row["runner_id"] is None
    assert told.body.decode() == row["body"]
    event = told.event
    assert event.pop("occurred_at") == f"{row['created_at']:%Y-%m-%dT%H:%M:%S.%fZ}"
    assert event == {
        "event_id": str(row["event_id"]),
        "event_type": "frontier_advanced",
        "network_class": "sandbox",
        "request_id": request_id,
        "sequence": 1,
        "payload": {"frontier": ["first"]},
    }


async def test_a_movements_events_arrive_in_order_and_others_go_on_meanwhile(post: Post, receiver: Start) -> None:
    slow, owner = await receiver(), await receiver()
    behaviour, open_ = gate()
    slow.always = behaviour
    await post.movement(slow.url, events=3)
    await post.movement(owner.url, events=3)
    while len(owner.book) < 3:
        await post.begin()
        await asyncio.wait_for(post.more.wait(), 10)
        post.more.clear()
    assert owner.sequences() == [1, 2, 3]
    assert slow.sequences() == [1], "the second waits for the first"
    open_.set()
    await post.settled()
    await post.deliver()
    assert slow.sequences() == [1, 2, 3]
    assert await post.states() == ["delivered"] * 6


async def test_a_receiver_that_is_down_for_an_hour_gets_everything_once_it_is_up(post: Post, receiver: Start) -> None:
    post.desk.under(callback_max_attempts=100)
    owner = await receiver()
    url = owner.url
    port = owner.port
    await owner.stop()
    await post.movement(url, events=2)
    waits = []
    for _ in range(60):
        assert await post.round() == 1, "the second event waits for the first"
        waits.append(round((await post.rows())[0]["wait"]))
        await post.make_due()
    assert waits == [2, 4, 8, 16, 32, *[64] * 55]
    row = (await post.rows())[0]
    assert (row["status"], row["attempts"]) == ("pending", 60)
    assert row["last_error"].startswith("connection_failed")
    up = await receiver()
    await post.desk.sql(
        "UPDATE qtg.movement_callback_outbox SET callback_url = replace(callback_url, :old, :new)",
        old=f":{port}/",
        new=f":{up.port}/",
    )
    await post.make_due()
    await post.deliver()
    assert up.sequences() == [1, 2]


async def test_a_retry_sends_the_same_bytes_nonce_and_id_and_a_fresh_signature(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.will(answers(500))
    await post.movement(owner.url)
    post.now = 1_900_000_000.0
    await post.round()
    post.now = 1_900_000_064.0
    await post.make_due()
    await post.round()
    first, again = owner.book
    assert first.body == again.body
    for name in ("webhook-id", "x-qtg-callback-timestamp", "x-qtg-callback-nonce", "x-qtg-callback-signature"):
        assert first.headers[name] == again.headers[name]
    assert (first.headers["webhook-timestamp"], again.headers["webhook-timestamp"]) == ("1900000000", "1900000064")
    assert first.headers["webhook-signature"] != again.headers["webhook-signature"]


async def test_a_receiver_that_flaps_gets_every_event_in_order(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.will(cuts, answers(204), answers(503), cuts, answers(204), answers(500), answers(204))
    await post.movement(owner.url, events=3)
    while "pending" in await post.states():
        await post.make_due()
        await post.round()
    assert owner.sequences() == [1, 1, 2, 2, 2, 3, 3]
    assert await post.states() == ["delivered"] * 3


@pytest.mark.parametrize("status", [400, 401, 404, 405, 410, 422, 499])
async def test_a_client_error_is_final_and_later_events_go_on(post: Post, receiver: Start, status: int) -> None:
    owner = await receiver()
    owner.will(answers(status, b'{"error": "no such hook"}'))
    await post.movement(owner.url, events=2)
    await post.deliver()
    refused, later = await post.rows()
    assert (refused["status"], refused["attempts"], refused["last_status"]) == ("dlq", 1, status)
    assert refused["last_error"] == f'http_{status}: {{"error": "no such hook"}}'
    assert later["status"] == "delivered"
    assert owner.sequences() == [1, 2]


@pytest.mark.parametrize("status", [301, 302, 307, 308, 408, 425, 429, 500, 502, 503, 504])
async def test_what_may_pass_is_tried_again(post: Post, receiver: Start, status: int) -> None:
    owner, elsewhere = await receiver(), await receiver()
    owner.will(answers(status, Location=elsewhere.url))
    await post.movement(owner.url)
    await post.round()
    row = await post.one()
    assert (row["status"], row["attempts"], row["last_status"]) == ("pending", 1, status)
    await post.make_due()
    await post.round()
    assert (await post.one())["status"] == "delivered"
    assert elsewhere.connections == 0, "no redirect is followed"


async def test_after_the_last_attempt_it_is_in_the_dlq_with_the_reason(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.always = answers(500, b"database is down")
    await post.movement(owner.url)
    for _ in range(5):
        await post.make_due()
        await post.round()
    row = await post.one()
    assert (row["status"], row["attempts"], row["last_error"]) == ("dlq", 5, "http_500: database is down")
    await post.make_due()
    assert await post.round() == 0
    assert len(owner.book) == 5


@pytest.mark.parametrize(
    ("status", "asked", "wait"),
    [(429, "30", 30), (503, "120", 120), (503, "100000", 900), (429, "1", 2), (429, "soon", 2), (500, "30", 2)],
)
async def test_a_receiver_that_asks_for_patience_gets_it_within_a_bound(
    post: Post, receiver: Start, status: int, asked: str, wait: int
) -> None:
    owner = await receiver()
    owner.will(answers(status, Retry_After=asked))
    await post.movement(owner.url)
    await post.round()
    assert round((await post.one())["wait"]) == wait


async def test_patience_may_be_asked_for_until_a_date(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.will(answers(503, Retry_After="Sun, 17 Mar 2030 17:47:40 GMT"))
    await post.movement(owner.url)
    post.now = 1_900_000_000.0  # 17:46:40
    await post.round()
    assert round((await post.one())["wait"]) == 60


async def test_ten_megabytes_of_answer_are_hung_up_on(post: Post, receiver: Start) -> None:
    owner, written = await receiver(), list[int]()
    owner.will(floods(10_000_000, written))
    await post.movement(owner.url)
    await post.round()
    assert (await post.one())["status"] == "delivered"
    assert sum(written) < 9_000_000, "most of it was never taken"


async def test_a_body_that_drips_costs_a_moment_and_undoes_nothing(post: Post, receiver: Start) -> None:
    owner = await receiver()
    owner.will(drips(200, headers=False))
    await post.movement(owner.url)
    await post.round()
    assert (await post.one())["status"] == "delivered"


@pytest.mark.parametrize("kind", ["drip", "hang"])
async def test_an_answer_that_does_not_come_in_time_counts_as_none(post: Post, receiver: Start, kind: str) -> None:
    post.desk.under(callback_timeout_seconds=0.3)
    owner = await receiver()
    owner.will(hangs if kind == "hang" else drips(200, headers=True))
    await post.movement(owner.url)
    await post.round()
    row = await post.one()
    assert (row["status"], row["last_status"]) == ("pending", None)
    assert row["last_error"] == "timeout: no answer within 0.3 s"


async def test_a_connection_cut_after_the_request_was_read_leads_to_a_second_delivery(
    post: Post, receiver: Start
) -> None:
    owner = await receiver()
    owner.will(cuts)
    await post.movement(owner.url)
    await post.round()
    assert (await post.one())["last_error"].startswith("connection_cut")
    await post.make_due()
    await post.round()
    first, again = owner.book
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert (await post.one())["status"] == "delivered"


async def test_tls_is_checked_against_the_name_and_the_address_against_the_policy(
    post: Post, receiver: Start, resolved: Resolved, authority: Authority
) -> None:
    owner = await receiver(authority.server("hooks.example.com"))
    post.desk.under(callback_allowed_networks="127.0.0.0/8", callback_ports=f"443,{owner.port}")
    resolved.names["hooks.example.com"] = ["127.0.0.1"]
    await post.movement(f"https://hooks.example.com:{owner.port}/in?a=1")
    await post.round()
    assert (await post.one())["status"] == "delivered"
    [told] = owner.book
    assert (told.path, told.headers["host"]) == ("/in?a=1", f"hooks.example.com:{owner.port}")


@pytest.mark.parametrize("wrong", ["name", "authority"])
async def test_a_wrong_certificate_gets_nothing(
    post: Post, receiver: Start, resolved: Resolved, authority: Authority, tmp_path: object, wrong: str
) -> None:
    from pathlib import Path

    other = Authority(Path(str(tmp_path)), "somebody else")
    tls = authority.server("other.example.com") if wrong == "name" else other.server("hooks.example.com")
    owner = await receiver(tls)
    post.desk.under(callback_allowed_networks="127.0.0.0/8", callback_ports=f"{owner.port}")
    resolved.names["hooks.example.com"] = ["127.0.0.1"]
    await post.movement(f"https://hooks.example.com:{owner.port}/")
    await post.round()
    row = await post.one()
    assert row["last_error"].startswith("tls_failed"), row["last_error"]
    assert (row["status"], owner.book) == ("pending", [])


@pytest.mark.parametrize("addresses", [["127.0.0.1"], ["93.184.216.34", "10.0.0.7"], ["::ffff:169.254.169.254"]])
async def test_a_name_that_leads_into_our_own_network_by_now_is_not_called(
    post: Post, receiver: Start, resolved: Resolved, addresses: list[str]
) -> None:
    owner = await receiver()
    post.desk.under(callback_ports=f"{owner.port}")
    resolved.names["hooks.example.com"] = addresses
    await post.movement(f"https://hooks.example.com:{owner.port}/")
    await post.round()
    row = await post.one()
    assert row["last_error"].startswith("address_refused: hooks.example.com leads to")
    assert owner.connections == 0


async def test_a_name_that_does_not_resolve_is_a_failed_attempt(post: Post) -> None:
    await post.movement("https://nowhere.example.com/")
    await post.round()
    assert (await post.one())["last_error"].startswith("not_resolved")


async def test_a_url_that_is_not_allowed_any_more_waits_in_the_dlq(post: Post, receiver: Start) -> None:
    owner = await receiver()
    await post.movement(owner.url)
    post.desk.under(callback_allowed_hosts="")
    await post.round()
    row = await post.one()
    assert (row["status"], row["last_error"]) == ("dlq", "url_refused: is not https")
    assert owner.connections == 0


async def test_proxies_of_the_environment_are_not_used(
    post: Post, receiver: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, proxy = await receiver(), await receiver()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    await post.movement(owner.url)
    await post.round()
    assert (len(owner.book), proxy.connections) == (1, 0)


async def test_without_a_secret_callbacks_wait_and_the_courier_says_so(post: Post, receiver: Start) -> None:
    owner = await receiver()
    post.desk.under(inventory_file=None)
    assert await post.begin() == 0, "nothing waits, so nothing is wrong"
    await post.movement(owner.url)
    with pytest.raises(ConfigurationError, match="no `callbacks` section"):
        await post.begin()
    assert await post.states() == ["pending"]
    assert await post.courier.waiting() == 1


async def test_what_is_told_is_json_that_anything_reads(post: Post, receiver: Start) -> None:
    owner = await receiver()
    request_id = await post.desk.create(post_plan())
    async with post.desk.engine.database.connection() as connection:
        await connection.execute(
            "INSERT INTO qtg.movement_callback_outbox (request_id, event_type, payload, callback_url) "
            "VALUES (%s, 'request_attention', %s, %s)",
            (request_id, json.dumps({"evidence": {"café": '"\\\n', "amount": "0.10", "n": 1.5}}), owner.url),
        )
    await post.round()
    assert owner.book[0].event["payload"] == {"evidence": {"café": '"\\\n', "amount": "0.10", "n": 1.5}}


def post_plan() -> object:
    from tests.engine.plans import node, plan_of

    return plan_of(node("first"))
