"""Following: every event once and in order, from any number the log reaches back to; bounded, whoever reads slowly or not at all."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from inboxd.broker import Broker
from inboxd.broker.following import Batch, Event, Feed, Follower, Page, Want, batches_of
from inboxd.broker.permission import may_hear
from inboxd.errors import StoreUnavailable, TokenInvalid
from inboxd.model import Identity, NewBroadcast, NewTask, NewToken, Role
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.connection import connect
from inboxd.store.store import Store
from tests.conftest import FixedClock
from tests.support.leaks import keys_of
from tests.support.mail import Mail
from tests.support.servers import PrivateServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

SOON_S = 10
BEHIND_MAX = 100
Told = tuple[int, str]


@pytest.fixture
def settings() -> Settings:
    """A sign of life often enough for a test to wait for it, and little patience."""
    return Settings(attempts_max=5, events_ping_ms=100, events_behind_max=BEHIND_MAX)


@pytest.fixture
async def far(server: PrivateServer, settings: Settings, clock: FixedClock, mail: Mail) -> AsyncIterator[Mail]:
    """The same caller at another inboxd, which shares nothing but the store."""
    connection = await connect(server.url, wait_ms=5_000)
    made = Mail(Broker(Store(connection, settings), settings, clock), mail.who)
    yield made
    made.broker.close()
    await connection.close()


@asynccontextmanager
async def following(mail: Mail, want: Want = Want(), after: int | None = None) -> AsyncIterator[Follower]:  # noqa: B008
    follower = await mail.broker.follow(mail.who, want, after)
    try:
        yield follower
    finally:
        follower.leave()


async def caller(mail: Mail, role: Role, task: str | None = None, ttl_ms: int | None = None) -> Identity:
    made = await mail.broker.create_token(mail.who, NewToken(role=role, task=task, ttl_ms=ttl_ms))
    await mail.broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, mail.who.namespace)
    return Identity(mail.who.namespace, role, task, made.token_id, made.expires_at_ms)


async def log_of(mail: Mail) -> list[tuple[int, str, bytes]]:
    """What the log has."""
    events = keys.key(mail.who.namespace, "events")
    rows = await mail.broker.store.connection.call(events, "XRANGE", events, "-", "+")
    return [(int(row[0].split(b"-")[0]), json.loads(row[1][1])["type"], row[1][1]) for row in rows]


async def seq_of(mail: Mail) -> int:
    meta = keys.key(mail.who.namespace, "meta")
    return int(await mail.broker.store.connection.call(meta, "HGET", meta, "seq") or 0)


async def retitle(mail: Mail, *titles: str) -> None:
    """One event each, and nothing else."""
    for title in titles:
        await mail.broker.declare(mail.who, NewTask(task="backend", title=title))


async def take(follower: Follower, *, pings: bool = False) -> list[Event]:
    """What it takes next; nothing once it has ended."""
    async with asyncio.timeout(SOON_S):
        while batches := await follower.take():
            if found := [event for batch in batches for event in batch.events if pings or event.type != "ping"]:
                return found
    return []


async def take_until(follower: Follower, last: int) -> list[Event]:
    """What it takes until it has come to this number, or ended; a sign of life may be what brings it there."""
    found: list[Event] = []
    while follower.at < last and (more := await take(follower, pings=True)):
        found += [event for event in more if event.type != "ping"]
    return found


async def catch_up(mail: Mail, follower: Follower) -> list[Event]:
    return await take_until(follower, await seq_of(mail))


def numbers(events: list[Event]) -> list[int]:
    return [event.n for event in events]


def feed_of(mail: Mail) -> Feed:
    return mail.broker.feeds[mail.who.namespace]


def rarely(mail: Mail, **more: int) -> None:
    """From now on a sign of life is so rare that nothing is found by it."""
    mail.broker.settings = Settings(events_ping_ms=60_000, **more)


class Ear:
    """Hears a namespace's numbers, and nothing more."""

    def __init__(self) -> None:
        self.last = 0

    def heard(self, events: list[tuple[dict[str, Any], bytes]]) -> None:
        self.last = events[-1][0]["id"]

    def missed(self) -> None: ...

    def closed(self) -> None: ...


@asynccontextmanager
async def unheard(mail: Mail) -> AsyncIterator[None]:
    """What happens in this block never reaches the feed by subscription."""
    listeners, feed, ear = mail.broker.waiting.listeners[mail.who.namespace], feed_of(mail), Ear()
    listeners.discard(feed)
    listeners.add(ear)
    yield
    last = await seq_of(mail)
    await wait_until(lambda: ear.last == last, within_ms=5_000)
    listeners.discard(ear)
    listeners.add(feed)


# ── order and completeness ───────────────────────────────────────────────────────────────────────────────────


async def test_a_follower_is_told_every_event_as_the_log_has_it(mail: Mail) -> None:
    async with following(mail) as follower:
        began = follower.at
        await mail.send_all("m-1", "m-2")
        await mail.settle("ack", await mail.pull())
        await mail.presence("end")
        told = await catch_up(mail, follower)
        assert told == [Event(*row) for row in await log_of(mail) if row[0] > began]
        assert follower.at == await seq_of(mail)


async def test_whoever_begins_now_is_told_nothing_of_before(mail: Mail) -> None:
    await mail.send("before")
    async with following(mail) as follower:
        assert follower.at == await seq_of(mail)
        await mail.send("after")
        assert [json.loads(event.line)["message_id"] for event in await catch_up(mail, follower)] == ["after"]


async def test_whoever_comes_back_with_any_number_is_told_the_rest_and_then_what_happens(mail: Mail) -> None:
    await mail.send_all(*(f"m-{number}" for number in range(20)))
    last = await seq_of(mail)
    for after in range(last + 1):
        async with following(mail, after=after) as follower:
            await retitle(mail, f"title {after}")
            assert numbers(await catch_up(mail, follower)) == list(range(after + 1, last + after + 2))


async def test_a_long_absence_is_told_page_by_page(mail: Mail) -> None:
    await retitle(mail, *(f"title {number}" for number in range(1_300)))
    async with following(mail, after=0) as follower:
        assert numbers(await catch_up(mail, follower)) == list(range(1, await seq_of(mail) + 1))
        assert follower.live


async def test_two_processes_tell_the_same(mail: Mail, far: Mail) -> None:
    async with following(mail) as here, following(far) as there:
        for number in range(10):
            await (mail if number % 2 else far).send(f"m-{number}")
        assert await catch_up(mail, here) == await catch_up(mail, there) != []


async def test_a_lost_subscription_costs_no_event_and_doubles_none(
    server: PrivateServer, mail: Mail, far: Mail
) -> None:
    rarely(mail)
    async with following(mail) as follower:
        began = follower.at
        told: list[Event] = []
        for number in range(5):
            server.ask("CLIENT", "KILL", "TYPE", "pubsub")
            await far.send_all(*(f"m-{number}-{each}" for each in range(3)))
            told += await catch_up(mail, follower)
        assert numbers(told) == list(range(began + 1, await seq_of(mail) + 1))


async def test_a_hole_in_the_numbers_is_filled_from_the_log(mail: Mail, far: Mail) -> None:
    rarely(mail)
    async with following(mail) as follower:
        began = follower.at
        async with unheard(mail):
            await far.send_all("unheard-1", "unheard-2")
        await far.send("heard")
        assert numbers(await catch_up(mail, follower)) == list(range(began + 1, await seq_of(mail) + 1))


async def test_what_the_log_told_first_is_not_told_again(mail: Mail, far: Mail) -> None:
    rarely(mail)
    async with following(mail) as follower:
        began, feed = follower.at, feed_of(mail)
        async with unheard(mail):
            await far.send("m-1")
            feed.look()
            told = await catch_up(mail, follower)
        feed.heard([(json.loads(event.line), event.line) for event in told])
        await far.send("m-2")
        told += await catch_up(mail, follower)
        assert numbers(told) == list(range(began + 1, await seq_of(mail) + 1))


async def test_nothing_is_missed_or_doubled_by_whoever_keeps_coming_back_under_load(mail: Mail, far: Mail) -> None:
    chance = random.Random(7)
    done = asyncio.Event()
    last = 0

    async def keep_coming_back() -> list[int]:
        at = await seq_of(mail)
        told: list[int] = [at]
        while not (done.is_set() and told[-1] >= last):
            async with following(chance.choice((mail, far)), after=told[-1]) as follower:
                for _ in range(chance.randrange(1, 6)):
                    if told[-1] >= last and done.is_set():
                        break
                    batches = await follower.take()
                    told += [event.n for batch in batches for event in batch.events if event.type != "ping"]
        return told

    async with asyncio.timeout(SOON_S * 3):
        readers = [asyncio.create_task(keep_coming_back()) for _ in range(10)]
        for number in range(150):
            await chance.choice((mail, far)).send(f"m-{number}")
        last = await seq_of(mail)
        done.set()
        await retitle(mail, "so that nobody waits")
        for told in await asyncio.gather(*readers):
            assert told == list(range(told[0], told[-1] + 1))
            assert told[-1] >= last


# ── a log that does not go on ────────────────────────────────────────────────────────────────────────────────


async def test_a_number_the_log_no_longer_reaches_is_answered_with_a_reset(mail: Mail) -> None:
    events = keys.key(mail.who.namespace, "events")
    await mail.send_all("m-1", "m-2", "m-3")
    await mail.broker.store.connection.call(events, "XTRIM", events, "MAXLEN", 2)
    last = await seq_of(mail)
    for after, begins in ((last - 3, "reset"), (last - 2, "task_message_queued"), (0, "reset")):
        async with following(mail, after=after) as follower:
            first = (await take(follower))[0]
            assert first.type == begins
            if begins == "reset":
                assert first.n == last
                assert json.loads(first.line) | {"at_ms": 0} == {
                    "id": last, "type": "reset", "at_ms": 0, "after": after,
                }  # fmt: skip
            await retitle(mail, str(after))
            assert numbers(await catch_up(mail, follower)) == [last + 1]
            last += 1


async def test_a_number_beyond_the_log_is_answered_with_a_reset(mail: Mail) -> None:
    last = await seq_of(mail)
    async with following(mail, after=last + 1_000) as follower:
        assert [(event.n, event.type) for event in await take(follower)] == [(last, "reset")]
        await mail.send("m-1")
        assert numbers(await catch_up(mail, follower)) == [last + 1]


async def test_a_number_this_process_has_not_come_to_yet_is_no_reset(mail: Mail, far: Mail) -> None:
    async with following(mail) as slow:
        async with unheard(mail):
            await far.send_all("m-1", "m-2")
            ahead = await mail.broker.follow(mail.who, Want(), await seq_of(mail))
        await far.send("m-3")
        assert numbers(await catch_up(mail, ahead)) == [await seq_of(mail)]
        ahead.leave()
        assert len(await catch_up(mail, slow)) == 3


async def emptied(mail: Mail) -> None:
    for name in await keys_of(mail.broker.store.connection, mail.who.namespace):
        await mail.broker.store.connection.call(name, "DEL", name)


@pytest.mark.parametrize("heard", [("m-3",), ()], ids=["after it was heard", "before anything was heard"])
async def test_an_emptied_store_is_told_as_a_reset_and_then_from_its_beginning(
    mail: Mail, heard: tuple[str, ...]
) -> None:
    rarely(mail)
    await mail.send_all("m-1", "m-2")
    async with following(mail) as follower, following(mail, Want.of(type="thread_*")) as filtered:
        await mail.send_all(*heard)
        await catch_up(mail, follower)
        await emptied(mail)
        await mail.declare("backend")
        told = await take(follower)
        assert [event.type for event in told] == ["reset"]
        await mail.send("m-4")
        assert numbers(await catch_up(mail, follower)) == list(range(told[0].n + 1, await seq_of(mail) + 1))
        assert [event.type for event in await take(filtered)] == ["reset"]


async def test_a_log_that_lost_its_last_writes_and_grew_again_is_told_as_a_reset(
    server: PrivateServer, mail: Mail, far: Mail, clock: FixedClock
) -> None:
    """A replica became master before it had everything: the same numbers now stand for other events."""
    rarely(mail)
    kept = await log_of(mail)
    async with following(mail) as follower:
        await retitle(mail, "lost-1", "lost-2")
        await catch_up(mail, follower)
        call = mail.broker.store.connection.call
        events, meta = (keys.key(mail.who.namespace, row) for row in ("events", "meta"))
        await call(events, "DEL", events)
        for n, _, line in kept:
            await call(events, "XADD", events, f"{n}-0", "event", line)
        await call(meta, "HSET", meta, "seq", kept[-1][0])
        clock.pass_ms(1)
        async with unheard(mail):
            await retitle(far, "new-1", "new-2", "new-3")
        server.ask("CLIENT", "KILL", "TYPE", "pubsub")
        told = await take(follower)
        assert [(event.n, event.type) for event in told] == [(await seq_of(mail), "reset")]


# ── who wants, and may hear, what ────────────────────────────────────────────────────────────────────────────

MESSAGE = {"type": "task_message_queued", "task": "backend", "sender": "task:frontend", "thread_id": "th-1"}
STATE = {"type": "task_state_changed", "task": "frontend"}
THREAD = {"type": "thread_claimed", "thread_id": "th-1", "agents": ["backend", "third"], "task": "third"}
POOL = {"type": "thread_opened", "thread_id": "th-2", "agents": ["*"]}
TOKEN = {"type": "token_created", "token_id": "0" * 12}
ALL = [MESSAGE, STATE, THREAD, POOL, TOKEN]


@pytest.mark.parametrize(
    ("want", "fitting"),
    [
        ({}, ALL),
        ({"task": "backend"}, [MESSAGE, THREAD, POOL]),
        ({"task": "backend,frontend"}, [MESSAGE, STATE, THREAD, POOL]),
        ({"task": "nobody"}, [POOL]),
        ({"type": "task_state_changed"}, [STATE]),
        ({"type": "task_*"}, [MESSAGE, STATE]),
        ({"type": "thread_*,token_created"}, [THREAD, POOL, TOKEN]),
        ({"type": "*"}, ALL),
        ({"type": "task"}, []),
        ({"thread": "th-1"}, [MESSAGE, THREAD]),
        ({"thread": "th-1,th-2", "type": "thread_*"}, [THREAD, POOL]),
        ({"thread": "th-1", "task": "frontend"}, []),
    ],
)
def test_a_wish_fits_what_it_says(want: dict[str, str], fitting: list[dict[str, Any]]) -> None:
    assert [event for event in ALL if Want.of(**want).fits(event)] == fitting


@pytest.mark.parametrize(
    ("agent", "hears"),
    [
        ("backend", [MESSAGE, THREAD, POOL]),
        ("frontend", [MESSAGE, STATE, POOL]),
        ("third", [THREAD, POOL]),
        ("other", [POOL]),
        ("operator", [POOL]),
    ],
)
def test_an_agent_may_hear_what_is_its_own(agent: str, hears: list[dict[str, Any]]) -> None:
    assert [event for event in ALL if may_hear(agent, event)] == hears


@pytest.mark.parametrize("after", [None, 0], ids=["live", "from the log"])
async def test_an_agent_is_told_only_what_is_its_own(mail: Mail, after: int | None) -> None:
    who = await caller(mail, "agent", "backend")
    follower = await mail.broker.follow(who, Want(), after)
    await mail.send("to-it")
    await mail.send("from-it", task="frontend", sender="task:backend")
    await mail.send("not-its", task="frontend")
    await mail.presence("start", task="frontend")
    told = [json.loads(event.line) for event in await catch_up(mail, follower)]
    follower.leave()
    assert [event["message_id"] for event in told if "message_id" in event] == ["to-it", "from-it"]
    assert {event.get("task", "backend") for event in told if event.get("sender") != "task:backend"} == {"backend"}


@pytest.mark.parametrize("role", ["admin", "user", "operator", "observer"])
async def test_everybody_else_is_told_everything(mail: Mail, role: Role) -> None:
    who = await caller(mail, role)
    follower = await mail.broker.follow(who)
    began = follower.at
    await mail.send("m-1")
    await mail.send("m-2", task="frontend")
    assert numbers(await catch_up(mail, follower)) == list(range(began + 1, await seq_of(mail) + 1))
    follower.leave()


@pytest.mark.parametrize("after", [None, 0], ids=["live", "from the log"])
async def test_each_is_told_what_it_asked_for(mail: Mail, after: int | None) -> None:
    async with (
        following(mail, Want.of(task="backend", type="task_message_*"), after) as mine,
        following(mail, Want.of(task="frontend,nobody", type="task_message_queued"), after) as theirs,
        following(mail, Want.of(type="task_session_started"), after) as started,
    ):
        await mail.send_all("m-1", "m-2")
        await mail.send("m-3", task="frontend")
        await mail.presence("start")
        last = await seq_of(mail)
        told = [
            [json.loads(event.line).get("message_id", event.type) for event in await take_until(one, last)]
            for one in (mine, theirs, started)
        ]
    assert told == [["m-1", "m-2"], ["m-3"], ["task_session_started"]]


# ── signs of life ────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_sign_of_life_tells_the_last_number_though_nothing_wanted_happened(mail: Mail) -> None:
    async with following(mail, Want.of(type="thread_*")) as follower:
        await mail.send_all("m-1", "m-2")
        last = await seq_of(mail)
        assert await take_until(follower, last) == []
        assert follower.at == last


async def test_a_sign_of_life_never_leads_back(mail: Mail, far: Mail, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was given while the log was read is older than what the log had."""
    rarely(mail)
    async with following(mail, after=0) as follower:
        feed = feed_of(mail)
        read = feed.read

        async def slowly(after: int) -> Page:
            monkeypatch.setattr(feed, "read", read)
            feed._tick()
            async with unheard(mail):
                await far.send_all("m-1", "m-2")
            return await read(after)

        monkeypatch.setattr(feed, "read", slowly)
        told = await take(follower, pings=True)
        await far.send("m-3")
        while told[-1].n < await seq_of(mail):
            told += await take(follower, pings=True)
        assert numbers(told) == sorted(numbers(told))


async def test_an_event_lost_on_the_way_is_found_by_the_next_sign_of_life(mail: Mail, far: Mail) -> None:
    async with following(mail) as follower:
        began = follower.at
        async with unheard(mail):
            await far.send("unheard")
        assert numbers(await catch_up(mail, follower)) == list(range(began + 1, await seq_of(mail) + 1))


# ── readers that are slow ────────────────────────────────────────────────────────────────────────────────────


async def test_a_reader_that_takes_nothing_is_cut_off_and_loses_nothing_by_coming_back(mail: Mail) -> None:
    async with following(mail) as stuck, following(mail) as quick:
        began = stuck.at
        await mail.send("m-0")
        taken = await take(stuck)
        number = 1
        async with asyncio.timeout(SOON_S):
            while stuck.ended is None:
                await mail.send(f"m-{number}")
                number += 1
                await catch_up(mail, quick)
        assert stuck.ended == "slow"
        assert number <= BEHIND_MAX + 5
        assert await stuck.take() == []
        assert mail.broker.cut_off == 1
        assert quick.ended is None
        async with following(mail, after=stuck.at) as again:
            taken += await catch_up(mail, again)
        assert numbers(taken) == list(range(began + 1, await seq_of(mail) + 1))


async def test_what_waits_for_a_slow_reader_is_bounded_in_bytes_too(mail: Mail) -> None:
    rarely(mail, events_behind_bytes_max=2_000)
    async with following(mail) as stuck:
        await mail.send("m-0")
        await stuck.take()
        await mail.send_all(*(f"m-{number}" for number in range(1, 20)))
        await wait_until(lambda: stuck.ended == "slow", within_ms=5_000)


async def test_a_reader_that_does_not_finish_what_it_took_is_cut_off_after_a_while(mail: Mail) -> None:
    async with following(mail) as stuck, following(mail) as idle:
        await mail.send("m-1")
        assert await stuck.take()
        await catch_up(mail, idle)
        waiting = asyncio.create_task(take_until(idle, 10**9))
        await wait_until(lambda: stuck.ended == "slow", within_ms=5_000)
        assert idle.ended is None
        waiting.cancel()


async def test_a_burst_larger_than_what_may_wait_reaches_whoever_reads(mail: Mail) -> None:
    tasks = [f"task-{number}" for number in range(BEHIND_MAX + 50)]
    async with following(mail) as follower, following(mail, Want.of(task=tasks[-1])) as narrow:
        began = follower.at
        waiting = asyncio.create_task(take(follower))
        await asyncio.wait({waiting}, timeout=0)
        await mail.broker.broadcast(mail.who, NewBroadcast(to=tasks, body="x", create=True))
        told = [*await waiting, *await catch_up(mail, follower)]
        assert numbers(told) == list(range(began + 1, await seq_of(mail) + 1))
        assert len(told) > 2 * BEHIND_MAX
        await mail.send("as-it-happens")
        assert len(await catch_up(mail, follower)) == 1
        assert follower.live
        assert len(await catch_up(mail, narrow)) == 2
    assert mail.broker.cut_off == 0


async def test_equal_wishes_share_what_they_are_told(mail: Mail) -> None:
    async with (
        following(mail, Want.of(task="backend,frontend")) as one,
        following(mail, Want.of(task="frontend,backend")) as other,
    ):
        await mail.send("m-1")
        (first, *_), (second, *_) = await one.take(), await other.take()
        assert first is second


def test_batches_are_whole_and_not_much_larger_than_what_is_written_at_once() -> None:
    events = [Event(n, "task_changed", b"x" * 1_000) for n in range(1, 101)]
    batches = batches_of(events)
    assert [event for batch in batches for event in batch.events] == events
    assert max(batch.size_bytes for batch in batches) < 40_000
    assert batches_of([]) == []
    assert Batch((events[0],)).size_bytes > 1_000


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_revoked_token_ends_what_it_follows_and_nothing_else(mail: Mail, far: Mail) -> None:
    who, other = await caller(mail, "observer"), await caller(mail, "observer")
    follower, bystander = await mail.broker.follow(who), await mail.broker.follow(other)
    await far.broker.revoke_token(far.who, who.token_id)
    await far.send("secret")
    await wait_until(lambda: follower.ended == "token", within_ms=2_000)
    assert await follower.take() == []
    assert len(await catch_up(mail, bystander)) == 2
    for one in (follower, bystander):
        one.leave()


async def test_a_token_that_vanished_without_a_word_ends_what_it_follows(mail: Mail) -> None:
    who = await caller(mail, "observer")
    follower = await mail.broker.follow(who)
    tokens = keys.key(mail.who.namespace, "tokens")
    await mail.broker.store.connection.call(tokens, "HDEL", tokens, who.token_id)
    await wait_until(lambda: follower.ended == "token", within_ms=5_000)
    follower.leave()


async def test_a_token_revoked_a_moment_ago_follows_nothing(mail: Mail) -> None:
    who = await caller(mail, "observer")
    await mail.broker.revoke_token(mail.who, who.token_id)
    with pytest.raises(TokenInvalid):
        await mail.broker.follow(who)
    assert mail.broker.feeds == {}


async def test_a_token_that_expires_ends_what_it_follows(mail: Mail, clock: FixedClock) -> None:
    who = await caller(mail, "observer", ttl_ms=60_000)
    follower = await mail.broker.follow(who)
    clock.pass_ms(59_999)
    await mail.send("m-1")
    assert len(await catch_up(mail, follower)) == 1
    clock.pass_ms(1)
    await wait_until(lambda: follower.ended == "token", within_ms=5_000)
    follower.leave()


# ── beginning and end ────────────────────────────────────────────────────────────────────────────────────────


async def test_closing_ends_every_follower_once_it_was_told_what_happened_before(mail: Mail) -> None:
    async with following(mail) as follower, following(mail, after=0) as behind:
        began = follower.at
        await mail.send("m-1")
        last = await seq_of(mail)
        await wait_until(lambda: feed_of(mail).last == last, within_ms=5_000)
        mail.broker.close()
        assert numbers(await take_until(follower, 10**9)) == list(range(began + 1, last + 1))
        assert (follower.ended, behind.ended) == ("stopping", "stopping")
        assert await behind.take() == []
        with pytest.raises(StoreUnavailable):
            await mail.broker.follow(mail.who)


async def test_whoever_leaves_leaves_nothing_behind(mail: Mail) -> None:
    waiting = mail.broker.waiting
    followers = [
        await mail.broker.follow(mail.who, Want.of(task=f"t-{number % 3}"), after)
        for number in range(12)
        for after in (None, 0)
    ]
    assert mail.broker.following() == 24
    assert waiting.count() == 0
    feed = feed_of(mail)
    assert len(feed._groups) == 3
    taking = [asyncio.create_task(follower.take()) for follower in followers]
    await asyncio.wait(taking, timeout=0.01)
    for follower in followers:
        follower.leave()
        follower.leave()
    assert {one.result() == [] for one in (await asyncio.wait(taking))[0] if not one.result()} <= {True}
    assert (mail.broker.feeds, dict(waiting.listeners), waiting.waiters.total()) == ({}, {}, 0)
    assert (feed._groups, dict(feed._by_task), feed._due) == ({}, {}, set())


async def test_a_reader_that_goes_while_the_log_is_read_leaves_nothing_behind(mail: Mail) -> None:
    follower = await mail.broker.follow(mail.who, Want(), 0)
    taking = asyncio.create_task(follower.take())
    await asyncio.wait({taking}, timeout=0)
    follower.leave()
    assert await taking == []
    cancelled = await mail.broker.follow(mail.who, Want(), 0)
    taking = asyncio.create_task(cancelled.take())
    await asyncio.wait({taking}, timeout=0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    cancelled.leave()
    assert mail.broker.feeds == {}
