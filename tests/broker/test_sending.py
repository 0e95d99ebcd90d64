"""Sending: one message stored once, however often it is tried."""

from __future__ import annotations

import pytest

from inboxd.broker import Broker
from inboxd.errors import (
    BodyTooLarge,
    HopsExceeded,
    InvalidRequest,
    MessageIdReused,
    MessageUnknown,
    SenderForbidden,
    TaskUnknown,
)
from inboxd.model import Identity, NewMessage, NewTask, PullRequest
from tests.conftest import FixedClock
from tests.support.mail import Mail, ids, shown

pytestmark = pytest.mark.anyio


async def test_a_retry_stores_nothing_and_says_so(broker: Broker, admin: Identity) -> None:
    await broker.declare(admin, NewTask(task="backend"))
    new = NewMessage(body="hello", message_id="m-1")
    first = await broker.send(admin, "backend", new)
    again = await broker.send(admin, "backend", new)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.message == first.message
    assert again.pending == 1


async def test_the_same_id_with_other_words_is_refused(broker: Broker, admin: Identity) -> None:
    await broker.declare(admin, NewTask(task="backend"))
    await broker.send(admin, "backend", NewMessage(body="hello", message_id="m-1"))
    with pytest.raises(MessageIdReused):
        await broker.send(admin, "backend", NewMessage(body="goodbye", message_id="m-1"))
    batch = await broker.pull(admin, "backend", PullRequest())
    assert [b"hello" in message.doc for message in batch.messages] == [True]


async def test_an_unknown_recipient_bounces_with_the_nearest_names(broker: Broker, admin: Identity) -> None:
    await broker.declare(admin, NewTask(task="backend"))
    with pytest.raises(TaskUnknown) as refusal:
        await broker.send(admin, "bakend", NewMessage(body="hello"))
    assert "backend" in (refusal.value.hint or "")


async def test_the_same_id_to_another_task_or_of_another_sender_is_refused(mail: Mail, frontend: Mail) -> None:
    await mail.send("m-1", body="hello")
    with pytest.raises(MessageIdReused):
        await mail.send("m-1", task="frontend", body="hello")
    with pytest.raises(MessageIdReused):
        await frontend.send("m-1", body="hello")


async def test_a_retry_says_what_became_of_the_message(mail: Mail) -> None:
    await mail.send("m-1")
    await mail.settle("ack", await mail.pull())
    again = await mail.send("m-1")
    assert again.duplicate
    assert shown(again.message)["state"] == "delivered"
    assert again.pending == 0


async def test_everything_a_sender_said_arrives_as_it_was_said(mail: Mail) -> None:
    said = {
        "body": 'a "quoted"\nline \u2028 with \U0001f4ec and \\ and é',
        "kind": "question",
        "subject": "Ünïcode",
        "summary": "two\nlines",
        "payload": {"a": [1, 2.5, None, True, "x"], "empty": {}, "list": []},
        "priority": "high",
        "thread_id": "t-1",
        "topic": "topic with spaces",
        "ttl_ms": 60_000,
        "artifacts": [{"path": "src/auth.ts", "kind": "file", "metadata": {"line": 3}}],
    }
    sent = shown((await mail.send("m-1", **said)).message)
    got = shown((await mail.pull()).messages[0])
    assert {field: got[field] for field in said} == said
    assert {field: sent[field] for field in said} == said
    assert (sent["state"], got["state"], got["attempts"]) == ("queued", "in_flight", 1)
    changing = {"state", "attempts", "held_by"}
    assert {k: v for k, v in sent.items() if k not in changing} == {k: v for k, v in got.items() if k not in changing}


async def test_a_message_without_an_id_gets_one(mail: Mail) -> None:
    answers = [await mail.broker.send(mail.who, "backend", NewMessage(body="hello")) for _ in range(2)]
    assert len(set(ids(answer.message for answer in answers))) == 2
    assert answers[1].pending == 2


async def test_an_unknown_recipient_is_made_when_the_sender_asks(mail: Mail) -> None:
    answer = await mail.send("m-1", task="new", create=True)
    assert (answer.recipient_state, answer.pending) == ("queued", 1)
    assert await mail.pulled(task="new") == ["m-1"]


async def test_the_sender_is_told_the_state_of_the_recipient(mail: Mail, clock: FixedClock) -> None:
    assert (await mail.send("m-1")).recipient_state == "queued"
    await mail.presence("start")
    assert (await mail.send("m-2")).recipient_state == "active"
    clock.pass_ms(300_000)
    assert (await mail.send("m-3")).recipient_state == "idle"
    await mail.presence("terminated")
    assert (await mail.send("m-4")).recipient_state == "terminated"


async def test_a_terminated_task_still_collects_mail(mail: Mail) -> None:
    await mail.presence("terminated")
    await mail.send_all("m-1", "m-2")
    assert (await mail.pending()).pending == 2
    assert await mail.pulled() == ["m-1", "m-2"]


async def test_the_broker_sets_the_sender(mail: Mail, frontend: Mail) -> None:
    assert shown((await frontend.send("m-1")).message)["sender"] == "task:frontend"
    assert shown((await mail.send("m-2")).message)["sender"] == "operator"
    assert shown((await mail.send("m-3", sender="user")).message)["sender"] == "user"
    with pytest.raises(SenderForbidden):
        await frontend.send("m-4", sender="user")
    with pytest.raises(SenderForbidden):
        await frontend.send("m-4", sender="task:backend")


async def test_what_is_too_large_is_refused_and_nothing_is_stored(mail: Mail) -> None:
    limit = mail.broker.settings.body_bytes_max
    await mail.send("fits", body="x" * limit)
    for body in ("x" * (limit + 1), "é" * (limit // 2 + 1)):
        with pytest.raises(BodyTooLarge):
            await mail.send("m-1", body=body)
    with pytest.raises(BodyTooLarge):
        await mail.send("m-1", payload="x" * mail.broker.settings.payload_bytes_max)
    with pytest.raises(InvalidRequest):
        await mail.send("m-1", payload=float("nan"))
    assert (await mail.pending()).pending == 1


async def test_a_loop_of_agents_is_cut(mail: Mail, backend: Mail, frontend: Mail) -> None:
    await mail.send("hop-0")
    hops_max = mail.broker.settings.hops_max
    for number in range(1, hops_max + 1):
        speaker, task = (backend, "frontend") if number % 2 else (frontend, "backend")
        answer = await speaker.send(f"hop-{number}", task=task, reply_to=f"hop-{number - 1}")
        assert shown(answer.message)["hops"] == number
    with pytest.raises(HopsExceeded) as refusal:
        await backend.send("one-more", task="frontend", reply_to=f"hop-{hops_max}")
    assert refusal.value.hint
    person = await mail.send("person", sender="user", reply_to=f"hop-{hops_max}")
    assert shown(person.message)["hops"] == 0
    assert shown((await backend.send("again", task="frontend", reply_to="person")).message)["hops"] == 1


async def test_a_sender_cannot_count_its_hops_down(mail: Mail, backend: Mail) -> None:
    await mail.send("m-1", hops=7)
    assert shown((await backend.send("m-2", task="frontend", reply_to="m-1", hops=0)).message)["hops"] == 8
    assert shown((await backend.send("m-3", task="frontend", reply_to="m-1", hops=12)).message)["hops"] == 12


async def test_a_newer_word_on_a_topic_replaces_the_queued_one(mail: Mail, frontend: Mail) -> None:
    await mail.send_all("a-1", "b", topic="build")
    await frontend.send("c", topic="build")
    answer = await mail.send("a-2", topic="build", priority="urgent")
    assert answer.superseded == ["b"]
    assert answer.pending == 2
    assert await mail.pulled() == ["a-2", "c"]
    gone = await mail.show("b")
    assert (gone["state"], gone["reason"]) == ("superseded", "a-2")


async def test_what_was_handed_over_is_not_replaced(mail: Mail) -> None:
    await mail.send("a", topic="build")
    batch = await mail.pull()
    assert (await mail.send("b", topic="build")).superseded == []
    await mail.settle("release", batch)
    assert await mail.pulled() == ["a", "b"]


async def test_only_its_sender_supersedes_a_message_and_only_in_the_same_inbox(mail: Mail, frontend: Mail) -> None:
    await mail.send("a")
    with pytest.raises(SenderForbidden):
        await frontend.send("x", supersedes="a")
    with pytest.raises(MessageUnknown):
        await mail.send("x", task="frontend", supersedes="a")
    assert (await mail.send("b", supersedes="a")).superseded == ["a"]
    assert (await mail.send("c", supersedes="a")).superseded == []
    assert await mail.pulled() == ["b", "c"]


async def test_mail_expires_when_its_time_passes_undelivered(mail: Mail, clock: FixedClock) -> None:
    await mail.send("short", ttl_ms=1_000)
    await mail.send("long", ttl_ms=2_000)
    clock.pass_ms(999)
    assert (await mail.pending()).pending == 2
    clock.pass_ms(1)
    assert (await mail.pending()).pending == 1
    expired = await mail.show("short")
    assert (expired["state"], expired["reason"]) == ("expired", "ttl")
    clock.pass_ms(1_000)
    assert await mail.pulled() == []


async def test_mail_that_was_delivered_does_not_expire(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1", ttl_ms=1_000)
    batch = await mail.pull()
    clock.pass_ms(1_000)
    await mail.settle("ack", batch)
    clock.pass_ms(100_000)
    await mail.broker.sweep(mail.who.namespace)
    assert await mail.state_of("m-1") == "delivered"


async def test_a_sender_is_waiting_until_it_is_answered(mail: Mail, frontend: Mail, backend: Mail) -> None:
    await frontend.send("q-1", awaiting_response=True)
    await frontend.send("q-2", awaiting_response=True)
    asked = await mail.task("frontend")
    assert (asked.state, asked.waiting_for) == ("waiting", ["q-1", "q-2"])
    await backend.send("unrelated", task="frontend")
    assert (await mail.task("frontend")).waiting_for == ["q-1", "q-2"]
    await backend.send("a-1", task="frontend", reply_to="q-1")
    assert (await mail.task("frontend")).waiting_for == ["q-2"]
    await backend.send("a-2", task="frontend", reply_to="q-2")
    answered = await mail.task("frontend")
    assert (answered.state, answered.waiting_for) == ("active", [])


async def test_a_sender_stops_waiting_when_its_question_expires_or_is_superseded(
    mail: Mail, frontend: Mail, clock: FixedClock
) -> None:
    await frontend.send("q-1", awaiting_response=True, ttl_ms=1_000)
    await frontend.send("q-2", awaiting_response=True, topic="t")
    await frontend.send("q-3", topic="t")
    assert (await mail.task("frontend")).waiting_for == ["q-1"]
    clock.pass_ms(1_000)
    await mail.broker.sweep(mail.who.namespace)
    assert (await mail.task("frontend")).waiting_for == []


async def test_only_a_sender_with_an_inbox_can_wait(mail: Mail) -> None:
    with pytest.raises(InvalidRequest):
        await mail.send("q-1", awaiting_response=True)
    await mail.send("q-2", awaiting_response=True, sender="user")
    assert (await mail.task("user")).waiting_for == ["q-2"]
