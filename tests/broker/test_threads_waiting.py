"""wait-reply and watch: woken by what is theirs, at once; nothing between two calls is missed, and a reply is taken once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inboxd.broker import Broker
from inboxd.broker.threads import Reply, Watched
from inboxd.errors import Forbidden, MessageUnknown, ReceiptLost, ThreadState, ThreadUnknown
from inboxd.model import HookExtras, Identity, ReplyRequest, SettleRequest, WaitReplyRequest
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.connection import connect
from inboxd.store.store import Store
from tests.conftest import FixedClock
from tests.support.mail import Mail, shown
from tests.support.servers import PrivateServer
from tests.support.waiting import wait_until
from tests.support.worker import Worker

pytestmark = pytest.mark.anyio

LONG_MS = 30_000
SOON_S = 10


@pytest.fixture
async def far(server: PrivateServer, settings: Settings, clock: FixedClock, leader: Worker) -> AsyncIterator[Worker]:
    """The leader at another inboxd, which shares nothing but the store."""
    connection = await connect(server.url, wait_ms=5_000)
    made = Worker(Broker(Store(connection, settings), settings, clock), leader.who)
    yield made
    made.broker.close()
    await connection.close()


@pytest.fixture
async def blocked(leader: Worker, worker: Worker) -> Worker:
    """The worker of t-1, which it has read, claimed, and asked a question in."""
    await leader.open()
    await worker.claim()
    await worker.mail()
    await worker.ask("Which?", message_id="q-1")
    await leader.mail()
    return worker


async def waiting(worker: Worker, callers: int = 1) -> None:
    """Until so many callers wait, heard by the store."""
    listening = worker.broker.store.subscribed
    await wait_until(
        lambda: worker.broker.waiting.count() == callers and listening("events", worker.who.namespace), within_ms=5_000
    )


def said(reply: Reply) -> dict[str, Any]:
    assert reply.message is not None
    return shown(reply.message)


def told(found: Watched) -> list[tuple[str, str]]:
    events = [json.loads(event) for event in found.events]
    return [(event["type"], event["thread_id"]) for event in events]


async def hooked(worker: Worker) -> str | None:
    """What the agent's hook says after its next tool."""
    answer = await worker.broker.hook(
        worker.who, "claude", {"hook_event_name": "PostToolUse", "session_id": "s-1"}, HookExtras(pull_id="h"), ack=True
    )
    return answer and answer.body.decode()


async def test_a_reply_from_elsewhere_wakes_who_waits_for_it_and_its_hook_shows_it_no_more(
    blocked: Worker, far: Worker
) -> None:
    async with asyncio.timeout(SOON_S):
        reply = asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS))
        await waiting(blocked)
        await far.reply("That.", message_id="a-1")
        got = said(await reply)
    assert (got["message_id"], got["state"], got["reply_to"], got["delivered_to"]) == (
        "a-1", "delivered", "q-1", "wait-reply",
    )  # fmt: skip
    assert await hooked(blocked) is None
    assert await blocked.mail() == []
    assert blocked.broker.waiting.count() == 0


async def test_one_that_does_not_wait_gets_it_through_its_hook(blocked: Worker, leader: Worker) -> None:
    await leader.reply("That one.", message_id="a-1")
    assert "That one." in (await hooked(blocked) or "")
    again = await blocked.wait_reply()
    assert said(again)["state"] == "delivered"
    assert again.receipt is None


async def test_no_reply_between_two_calls_is_missed(blocked: Worker, leader: Worker) -> None:
    first = await blocked.wait_reply()
    assert (first.message, first.receipt) == (None, None)
    for number in range(5):
        await leader.reply(f"{number}", message_id=f"a-{number}")
    place, got = first.next_event_id, []
    while (found := await blocked.wait_reply(after_event=place)).message:
        place = found.next_event_id
        got.append(said(found)["body"])
    assert got == ["0", "1", "2", "3", "4"]
    assert (await blocked.wait_reply(after_event=place)).message is None
    await leader.reply("5")
    assert said(await blocked.wait_reply(after_event=found.next_event_id))["body"] == "5"


async def test_an_answer_that_was_lost_on_its_way_is_given_again_to_the_same_place(
    blocked: Worker, leader: Worker
) -> None:
    place = (await blocked.wait_reply()).next_event_id
    await leader.reply("That.", message_id="a-1")
    for _ in range(3):
        assert said(await blocked.wait_reply(after_event=place))["message_id"] == "a-1"
        assert said(await blocked.wait_reply(after_message="q-1"))["message_id"] == "a-1"
    assert await blocked.mail() == []


async def test_replies_while_somebody_waits_again_and_again_all_arrive_once_in_order(
    blocked: Worker, far: Worker
) -> None:
    got: list[str] = []

    async def wait() -> None:
        place = None
        while len(got) < 30:
            found = await blocked.wait_reply(wait_ms=LONG_MS, after_event=place)
            place = found.next_event_id
            got.append(said(found)["body"])

    async with asyncio.timeout(SOON_S * 3), asyncio.TaskGroup() as group:
        group.create_task(wait())
        for number in range(30):
            await far.reply(f"{number}")
    assert got == [f"{number}" for number in range(30)]


async def test_nobody_wakes_for_anothers_reply(leader: Worker, far: Worker) -> None:
    broker, who = leader.broker, leader.who
    workers = [Worker(broker, Identity(who.namespace, "agent", f"w-{n}", "0" * 12, None)) for n in range(8)]
    for number, one in enumerate(workers):
        await leader.open(f"t-{number}", to=one.name, create=True)
        await one.claim(f"t-{number}")
        await one.ask("?", f"t-{number}")
    waits = [asyncio.create_task(one.wait_reply(f"t-{number}", wait_ms=LONG_MS)) for number, one in enumerate(workers)]
    await waiting(leader, 8)
    answered: set[int] = set()
    async with asyncio.timeout(SOON_S):
        for number in (3, 0, 7, 1, 6, 2, 5, 4):
            await far.reply(f"for {number}", f"t-{number}")
            assert said(await waits[number])["body"] == f"for {number}"
            answered.add(number)
            assert {n for n, wait in enumerate(waits) if wait.done()} == answered
        assert [said(wait.result())["body"] for wait in waits] == [f"for {number}" for number in range(8)]


async def test_words_of_other_kinds_and_to_others_wake_nobody_for_good(
    blocked: Worker, far: Worker, other: Worker
) -> None:
    async with asyncio.timeout(SOON_S):
        reply = asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS))
        await waiting(blocked)
        await far.reply("Hm.", kind="progress")
        await far.reply("What do you mean?", kind="question")
        await far.reply("You know?", to="other")
        await far.mark_read()
        await blocked.renew()
        await far.reply("That.", message_id="a-1")
        assert said(await reply)["message_id"] == "a-1"
    assert said(await blocked.wait_reply(after_message="q-1", kinds=["question"]))["body"] == "What do you mean?"


async def test_a_cancel_wakes_who_waits(blocked: Worker, far: Worker) -> None:
    async with asyncio.timeout(SOON_S):
        reply = asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS))
        await waiting(blocked)
        await far.cancel(reason="Enough.")
        found = await reply
    assert (said(found)["kind"], said(found)["body"]) == ("control", "Enough.")
    with pytest.raises(ThreadState):
        await blocked.wait_reply(after_event=found.next_event_id, wait_ms=LONG_MS)
    assert await blocked.mail() == []


async def test_a_thread_that_ends_without_a_word_to_who_waits_lets_it_go(
    blocked: Worker, leader: Worker, other: Worker, clock: FixedClock
) -> None:
    clock.pass_ms(60_000)
    await other.claim()
    async with asyncio.timeout(SOON_S):
        reply = asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS))
        await waiting(blocked)
        await other.done()
        with pytest.raises(ThreadState):
            await reply


async def test_a_leader_waits_for_the_result(leader: Worker, worker: Worker, far: Worker) -> None:
    await leader.open()
    async with asyncio.timeout(SOON_S):
        result = asyncio.create_task(far.wait_reply(wait_ms=LONG_MS))
        await waiting(far)
        await worker.claim()
        await worker.update(summary="Halfway.")
        await worker.ask("Which?")
        await worker.done(summary="Fixed.")
        assert said(await result)["summary"] == "Fixed."
    assert [one["kind"] for one in await leader.mail()] == ["question"]


async def test_of_two_that_wait_as_one_agent_both_are_told_and_one_delivery_is_made(
    blocked: Worker, far: Worker
) -> None:
    async with asyncio.timeout(SOON_S):
        waits = [asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS)) for _ in range(5)]
        await waiting(blocked, 5)
        await far.reply("That.", message_id="a-1")
        got = [said(await one) for one in waits]
    assert {one["message_id"] for one in got} == {"a-1"}
    assert {(one["state"], one["attempts"]) for one in got} == {("delivered", 1)}
    assert await blocked.mail() == []


async def test_a_held_reply_is_acked_by_its_receipt(blocked: Worker, leader: Worker) -> None:
    await leader.reply("That.", message_id="a-1")
    held = await blocked.wait_reply(ack=False, session="w-1")
    assert held.receipt is not None
    assert (said(held)["state"], said(held)["held_by"]) == ("in_flight", "w-1")
    assert await blocked.mail() == []
    await blocked.broker.ack(blocked.who, "backend", SettleRequest(receipt=held.receipt))
    assert said(await blocked.wait_reply())["state"] == "delivered"


async def test_who_dies_before_its_ack_gets_it_again(blocked: Worker, far: Worker, clock: FixedClock) -> None:
    await far.reply("That.", message_id="a-1")
    place = (await blocked.wait_reply(ack=False, session="w-1", hold_ms=5_000)).next_event_id - 1
    # Another wait does not show it while it is in those hands, nor pass it by.
    in_between = await blocked.wait_reply(ack=False, session="w-2")
    assert (in_between.message, in_between.next_event_id) == (None, place)
    async with asyncio.timeout(SOON_S):
        again = asyncio.create_task(blocked.wait_reply(ack=False, session="w-2", wait_ms=LONG_MS, after_event=place))
        await waiting(blocked)
        clock.pass_ms(5_000)
        await blocked.broker.sweep(blocked.who.namespace)
        found = await again
    assert (said(found)["message_id"], said(found)["attempts"]) == ("a-1", 2)
    assert found.receipt is not None
    await blocked.broker.ack(blocked.who, "backend", SettleRequest(receipt=found.receipt))
    assert await blocked.mail() == []


async def test_what_nobody_acks_comes_through_the_hook(blocked: Worker, leader: Worker, clock: FixedClock) -> None:
    await leader.reply("That one.", message_id="a-1")
    held = await blocked.wait_reply(ack=False)
    assert await hooked(blocked) is None
    clock.pass_ms(30_000)
    assert "That one." in (await hooked(blocked) or "")
    with pytest.raises(ReceiptLost):
        await blocked.broker.ack(blocked.who, "backend", SettleRequest(receipt=held.receipt))


async def test_a_session_that_lost_the_answer_gets_it_under_a_new_receipt(blocked: Worker, leader: Worker) -> None:
    await leader.reply("That.", message_id="a-1")
    first = await blocked.wait_reply(ack=False, session="w-1")
    second = await blocked.wait_reply(ack=False, session="w-1")
    assert said(first)["message_id"] == said(second)["message_id"]
    assert first.receipt != second.receipt
    with pytest.raises(ReceiptLost):
        await blocked.broker.ack(blocked.who, "backend", SettleRequest(receipt=first.receipt))
    await blocked.broker.ack(blocked.who, "backend", SettleRequest(receipt=second.receipt))


async def test_who_is_told_while_the_hook_holds_it_waits_until_that_is_over(blocked: Worker, far: Worker) -> None:
    await far.reply("That.", message_id="a-1")
    hook = Mail(blocked.broker, blocked.who)
    batch = await hook.pull("hook")
    async with asyncio.timeout(SOON_S):
        reply = asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS))
        await waiting(blocked)
        await hook.settle("ack", batch)
        assert said(await reply)["delivered_to"] == "hook"


async def test_time_is_up(blocked: Worker, leader: Worker) -> None:
    found = await blocked.wait_reply(wait_ms=30)
    assert found.message is None
    assert found.next_event_id == await leader.broker.store.last_event(leader.who.namespace)


async def test_a_place_that_is_none_and_a_thread_that_is_none_are_refused(blocked: Worker, leader: Worker) -> None:
    await leader.open("t-2")
    for wrong in ("nothing", "t-2"):
        with pytest.raises(MessageUnknown):
            await blocked.wait_reply(after_message=wrong)
    with pytest.raises(ThreadUnknown):
        await blocked.wait_reply("nothing", wait_ms=LONG_MS)


async def test_only_who_may_act_for_an_agent_takes_its_replies(blocked: Worker, leader: Worker, mail: Mail) -> None:
    await leader.reply("That.", message_id="a-1")
    for name in ("user", "observer"):
        with pytest.raises(Forbidden):
            await mail.broker.wait_reply(
                Identity(mail.who.namespace, name, None, name, None),  # type: ignore[arg-type]
                "t-1",
                WaitReplyRequest(agent="backend"),
            )
    operator = Identity(mail.who.namespace, "operator", None, "operator", None)
    got = await mail.broker.wait_reply(operator, "t-1", WaitReplyRequest(agent="backend"))
    assert said(got)["state"] == "delivered"


async def test_the_person_waits_for_a_reply_too(mail: Mail, worker: Worker) -> None:
    user = Identity(mail.who.namespace, "user", None, "user", None)
    await worker.open(to="user")
    await mail.broker.reply(user, "t-1", ReplyRequest(body="What for?", kind="question"))
    await worker.reply("For fun.")
    got = await mail.broker.wait_reply(user, "t-1", WaitReplyRequest())
    assert said(got)["body"] == "For fun."
    assert (await mail.pull(task="user")).messages[0].state == b"in_flight", "the opening message is still its mail"


async def test_a_closing_broker_lets_who_waits_go(blocked: Worker, leader: Worker) -> None:
    async with asyncio.timeout(SOON_S):
        waits = [
            asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS)),
            asyncio.create_task(leader.watch(wait_ms=LONG_MS)),
        ]
        await waiting(blocked, 2)
        blocked.broker.close()
        reply, watched = [await one for one in waits]
    assert isinstance(reply, Reply)
    assert reply.message is None
    assert isinstance(watched, Watched)
    assert not watched.events


async def test_a_watcher_is_told_of_everything_once(leader: Worker, worker: Worker, far: Worker) -> None:
    place = (await leader.watch()).next_event_id
    seen: list[tuple[str, str]] = []

    async def watch() -> None:
        nonlocal place
        while len(seen) < 6:
            found = await leader.watch(after_event=place, wait_ms=LONG_MS)
            assert not found.reset
            place = found.next_event_id
            seen.extend(told(found))

    async with asyncio.timeout(SOON_S), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await far.open()
        await worker.claim()
        await worker.update()
        await worker.ask("?")
        await far.reply("!")
        await worker.done()
    assert [kind for kind, _ in seen] == [
        "thread_opened", "thread_claimed", "thread_updated", "thread_blocked", "thread_replied", "thread_done",
    ]  # fmt: skip
    assert (await leader.watch(after_event=place, wait_ms=30)).events == []


async def test_a_list_says_from_where_to_watch(leader: Worker, worker: Worker) -> None:
    await leader.open("t-1")
    listed = await leader.broker.list_threads(leader.who, limit=10)
    fetched = await leader.broker.fetch(leader.who, agent=None, statuses=[], limit=10, unread=False)
    assert listed.next_event_id == fetched.next_event_id
    await leader.open("t-2")
    assert told(await leader.watch(after_event=listed.next_event_id)) == [("thread_opened", "t-2")]


async def test_a_watcher_sees_its_own_threads_and_the_pool(
    leader: Worker, worker: Worker, other: Worker, mail: Mail
) -> None:
    await leader.open("t-1")
    await leader.open("t-2", to=None)
    assert told(await other.watch(after_event=0)) == [("thread_opened", "t-2")]
    assert told(await worker.watch(after_event=0)) == [("thread_opened", "t-1"), ("thread_opened", "t-2")]
    admin = Worker(mail.broker, mail.who)
    assert told(await admin.watch(after_event=0)) == [("thread_opened", "t-1"), ("thread_opened", "t-2")]
    assert told(await admin.watch(after_event=0, agent="other")) == [("thread_opened", "t-2")]
    with pytest.raises(Forbidden):
        await other.watch(agent="backend")


async def test_a_watcher_of_some_statuses_wakes_for_those_only(leader: Worker, worker: Worker, far: Worker) -> None:
    async with asyncio.timeout(SOON_S):
        watching = asyncio.create_task(leader.watch(status=["done", "failed"], wait_ms=LONG_MS))
        await waiting(leader)
        await far.open()
        await worker.claim()
        await worker.fail()
        assert told(await watching) == [("thread_failed", "t-1")]


async def test_a_watcher_that_was_away_for_too_long_is_told_so(leader: Worker, mail: Mail) -> None:
    await leader.open()
    events = keys.key(leader.who.namespace, "events")
    await mail.broker.store.connection.call(events, "XTRIM", events, "MAXLEN", 1)
    found = await leader.watch(after_event=1, wait_ms=LONG_MS)
    last = await mail.broker.store.last_event(leader.who.namespace)
    assert (found.reset, found.events, found.next_event_id) == (True, [], last)
    ahead = await leader.watch(after_event=last + 1_000, wait_ms=LONG_MS)
    assert (ahead.reset, ahead.next_event_id) == (True, last)


async def test_a_watcher_passes_a_long_log_by(leader: Worker, mail: Mail, monkeypatch: pytest.MonkeyPatch) -> None:
    from inboxd.broker import threads

    monkeypatch.setattr(threads, "SCAN_MAX", 3)
    place = (await leader.watch()).next_event_id
    for number in range(10):
        await mail.send(f"m-{number}")
    await leader.open()
    found = await leader.watch(after_event=place)
    assert told(found) == [("thread_opened", "t-1")]


async def test_what_became_of_a_thread_is_heard_though_the_subscription_was_lost(blocked: Worker, far: Worker) -> None:
    async with asyncio.timeout(SOON_S):
        reply = asyncio.create_task(blocked.wait_reply(wait_ms=LONG_MS))
        await waiting(blocked)
        call = blocked.broker.store.connection.call
        name = keys.key(blocked.who.namespace, "meta")
        await call(name, "CLIENT", "KILL", "TYPE", "pubsub")
        await far.reply("That.", message_id="a-1")
        assert said(await reply)["message_id"] == "a-1"
