"""Following: every event of a namespace, in order, to any number of readers, from any number the log still reaches back to.

    log ──▶ Feed (one per process and namespace) ──▶ Group (equal wishes) ──▶ Follower (one reader)

The feed passes on what is published, by number: a hole is filled from the log, what came already is left out, and where the log
does not continue what was told (trimmed, emptied, a master that lost its last writes) a `reset` says so. A follower that comes with
an old number, or is overrun by a burst, reads the log itself, as fast as its reader takes it, until it is near; then it is given
what happens. So no more than a set amount ever waits in memory for one reader; a reader that takes nothing is cut off, and can come
back with the last number it got. Nothing is rendered here: followers take events, shared in batches, for an edge to write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import from_json, to_json

from inboxd.broker.permission import concerned, may_hear
from inboxd.broker.room import Clock, Room
from inboxd.broker.tokens import is_token_id
from inboxd.broker.waiting import Waiting
from inboxd.errors import InboxdError, StoreUnavailable, TokenInvalid
from inboxd.model import Identity
from inboxd.settings import Settings
from inboxd.store.store import Store

log = logging.getLogger("inboxd.follow")

PAGE_EVENTS: Final = 200
"""Events read from the log at once: some tens of kilobytes, which are also written at once."""
BATCH_BYTES: Final = 32_768
"""A batch is closed once it is this large, so that whoever writes it waits for its reader now and then."""
EVENT_BYTES: Final = 64
"""What an event costs beside its line, about."""
RETRY_MS: Final = 250
"""Between two looks at a store that does not answer."""
TOLD_AT_ONCE: Final = 100
"""Followers that are given something in one tick of the loop."""
HOPS: Final = 3
"""Ticks of the loop until what followers were given is in their sockets: they wake, they write, the writes leave."""

NOTICES: Final = frozenset({"ping", "reset"})
"""Types of the feed's own, which are in no log."""
End = Literal["stopping", "store", "token", "slow", "left"]
"""Why a follower is told nothing more: the broker stops, its store does not answer, its token opens nothing any more, its reader
takes nothing, it went."""


class Event(NamedTuple):
    n: int
    type: str
    line: bytes
    """The event as it was written, one line of JSON."""


class Batch:
    """Events for all followers of a group, in one piece. `rendered` belongs to the edge: made once, used for each of them."""

    __slots__ = ("events", "rendered", "size_bytes")

    def __init__(self, events: tuple[Event, ...]) -> None:
        self.events = events
        self.size_bytes = sum(len(event.line) + EVENT_BYTES for event in events)
        self.rendered: bytes | None = None


class Want(NamedTuple):
    """What of a log is wanted; what is empty leaves nothing out."""

    tasks: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    type_starts: tuple[str, ...] = ()
    threads: frozenset[str] = frozenset()

    @classmethod
    def of(cls, task: str = "", type: str = "", thread: str = "") -> Want:  # noqa: A002
        """From lists with commas; a type may end in `*`."""
        types = _listed(type)
        return cls(
            _listed(task),
            frozenset(one for one in types if not one.endswith("*")),
            tuple(sorted(one[:-1] for one in types if one.endswith("*"))),
            _listed(thread),
        )

    def fits(self, event: Mapping[str, Any]) -> bool:
        kind: str = event["type"]
        if (self.types or self.type_starts) and kind not in self.types and not kind.startswith(self.type_starts):
            return False
        if self.threads and event.get("thread_id") not in self.threads:
            return False
        return not self.tasks or any(concerned(event, task) for task in self.tasks)


def _listed(words: str) -> frozenset[str]:
    return frozenset(word for word in words.split(",") if word)


class Group:
    """The followers that want, and may hear, the same."""

    def __init__(self, want: Want, own: str | None) -> None:
        self.want = want
        self.own = own
        """The task of an agent, which hears only what is its own; None hears all."""
        self.members = 0
        """Followers of these wishes, those that still read the log included."""
        self.followers: set[Follower] = set()
        """Those that are given what happens."""
        self.untold: list[Event] = []

    def wants(self, event: Mapping[str, Any]) -> bool:
        return (self.own is None or may_hear(self.own, event)) and self.want.fits(event)


class Page(NamedTuple):
    """What the log has behind a number."""

    last: int
    """Where the log ends."""
    same: bytes | None
    """The event of that very number, if it is still kept."""
    events: list[tuple[int, dict[str, Any], bytes]]

    def torn(self, after: int) -> bool:
        """Whether the log does not go on from `after`."""
        if not self.events:
            return self.last != after
        return self.last < after or self.events[0][0] != after + 1


class Follower:
    """One reader. It takes; whoever writes for it takes again when that was written, and not before."""

    def __init__(self, feed: Feed, who: Identity, want: Want) -> None:
        self.at = 0
        """The number of the last event taken: what its reader may come back with."""
        self.ended: End | None = None
        self.on_end: Callable[[], None] = lambda: None
        """Called once when `ended` is set."""
        self.who = who
        self.live = False
        """Whether it is given what happens; otherwise it reads the log."""
        self.group = feed.group_of(want, who.task if who.role == "agent" else None)
        self._feed = feed
        self._queue: deque[Batch] = deque()
        self._queued_events = 0
        self._queued_bytes = 0
        self._moved = True  # it took something since it was last given something
        self._resets = 0
        self._news: asyncio.Future[None] | None = None
        self._reading: asyncio.Task[Page] | None = None
        self._expiring: asyncio.TimerHandle | None = None
        self._writing = False
        self._turn = self._turn_seen = 0

    def start(self, after: int | None) -> None:
        """From now on, or from behind an event."""
        self._resets = self._feed.resets
        if after is None:
            self.at = self._feed.last
            self._join()
        else:
            self.at = after
        self.expire()

    async def take(self) -> list[Batch]:
        """What there is to tell, once there is something; nothing when it has ended."""
        self._writing, self._moved = False, True
        self._turn += 1
        while True:
            taken = self._next()
            if not taken and self.ended is None:
                if self.live:
                    await self._wait()
                    continue
                taken = await self._read_on()
            if taken or self.ended is not None:
                self._writing = bool(taken)
                return taken

    def leave(self) -> None:
        """Nobody takes from it any more."""
        self.end("left")
        self._feed.forget(self)

    def end(self, why: End) -> None:
        if self.ended is not None:
            return
        self.ended = why
        self._part()
        if why == "slow":
            self._feed.cut_off()
        if why != "stopping":
            self._clear()
        if self._expiring is not None:
            self._expiring.cancel()
        if self._reading is not None:
            self._reading.cancel()
        self._wake()
        self.on_end()

    # ── what the feed does with it ───────────────────────────────────────────────────────────────────────

    def give(self, batches: list[Batch], events: int, size_bytes: int) -> None:
        """Queue these: so many events and bytes in all, notices of the feed's own not counted."""
        if not self.live:
            return
        events += self._queued_events
        size_bytes += self._queued_bytes
        if events > self._feed.behind_max or size_bytes > self._feed.behind_bytes_max:
            if self._moved or self._reading is not None:
                # It keeps reading: this was a burst, and it can have the rest from the log.
                self._part()
                self._clear()
                self._wake()
            else:
                self.end("slow")
            return
        self._queue.extend(batches)
        self._queued_events, self._queued_bytes = events, size_bytes
        self._moved = False
        self._wake()

    def stalled(self) -> bool:
        """Whether what it took was not written since this was last asked."""
        stalled = self._writing and self._turn == self._turn_seen
        self._turn_seen = self._turn
        return stalled

    def expire(self) -> None:
        """End when its token does."""
        if self.who.expires_at_ms is None or self.ended is not None:
            return
        left_ms = self.who.expires_at_ms - self._feed.clock.now_ms()
        if left_ms <= 0:
            self.end("token")
        else:
            if self._expiring is not None:
                self._expiring.cancel()
            later_s = min(left_ms, self._feed.settings.events_ping_ms) / 1_000
            self._expiring = asyncio.get_running_loop().call_later(later_s, self.expire)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────

    def _join(self) -> None:
        self.live = True
        self.group.followers.add(self)

    def _part(self) -> None:
        self.live = False
        self.group.followers.discard(self)

    def _clear(self) -> None:
        self._queue.clear()
        self._queued_events = self._queued_bytes = 0

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _wait(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _next(self) -> list[Batch]:
        """What was queued, as much as is written at once."""
        if not self._queue:
            return []
        taken: list[Batch] = []
        size_bytes = 0
        while self._queue and size_bytes < BATCH_BYTES:
            batch = self._queue.popleft()
            if batch.events[0].type not in NOTICES:
                self._queued_events -= len(batch.events)
                self._queued_bytes -= batch.size_bytes
            if fresh := self._fresh(batch):
                taken.append(fresh)
                size_bytes += fresh.size_bytes
        return taken

    def _fresh(self, batch: Batch) -> Batch | None:
        """Without what it got already: of that there is some just after it joined."""
        first = batch.events[0]
        if first.type == "reset":
            self.at, self._resets = first.n, self._feed.resets
            return batch
        if first.n <= self.at and first.type != "ping":
            left = tuple(event for event in batch.events if event.n > self.at)
            if not left:
                return None
            batch = Batch(left)
        if batch.events[-1].n < self.at:
            return None
        self.at = batch.events[-1].n
        return batch

    async def _read_on(self) -> list[Batch]:
        """The next page of the log. Once that is the last, what happens meanwhile is queued behind it."""
        feed = self._feed
        if self._resets != feed.resets:
            self._resets = feed.resets
            return [self._reset(feed.last)]
        if feed.last - self.at <= PAGE_EVENTS:
            self._join()
        resets = feed.resets
        self._reading = asyncio.create_task(feed.read(self.at))
        try:
            page = await self._reading
        except asyncio.CancelledError:
            if self.ended is None or not self._reading.cancelled():
                self._reading.cancel()
                raise
            return []
        finally:
            self._reading = None
        if self.ended is not None or resets != feed.resets:
            return []
        if page.torn(self.at):
            return [self._reset(page.last)]
        told = []
        for n, event, line in page.events:
            self.at = n
            if self.group.wants(event):
                told.append(Event(n, event["type"], line))
        return batches_of(told)

    def _reset(self, end: int) -> Batch:
        came, self.at = self.at, end
        return self._feed.made("reset", end, after=came)


class Feed:
    """All followers of one namespace in this process, and the one listener that hears for them."""

    def __init__(self, room: Following, namespace: str) -> None:
        self.settings: Settings = room.settings
        self.clock: Clock = room.clock
        self.behind_max = room.settings.events_behind_max
        self.behind_bytes_max = room.settings.events_behind_bytes_max
        self.followers: set[Follower] = set()
        self.last = 0
        """The number of the last event passed on."""
        self.resets = 0
        """How often the log did not go on from there."""
        self._room = room
        self._store: Store = room.store
        self._namespace = namespace
        self._groups: dict[tuple[Want, str | None], Group] = {}
        self._by_task: defaultdict[str | None, set[Group]] = defaultdict(set)
        self._due: set[Group] = set()
        self._giving: deque[tuple[Follower, list[Batch], int, int]] = deque()
        self._line: bytes | None = None  # the last event itself, as far as it is known
        self._heard: int | None = None  # the last number the subscription brought, since it began
        self._opening: asyncio.Task[None] | None = None
        self._opened = False
        self._behind = False
        self._doubt = False  # the log must be looked at before anything is passed on
        self._filling: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._round: asyncio.Handle | None = None
        self._beat: asyncio.TimerHandle | None = None

    # ── beginning and end ────────────────────────────────────────────────────────────────────────────────

    async def open(self) -> None:
        """Listen, then see where the log ends: nothing falls between the two."""
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        try:
            await self._room.waiting.add_listener(self._namespace, self)
            last, _ = await self._store.run("follow", self._namespace, after=0, limit=0)
        except BaseException:
            self._drop()
            raise
        if not self.followers:  # they all went meanwhile
            self._drop()
            return
        self.last = int(last)
        self._opened = True
        self._beat = self._later(self.settings.events_ping_ms, self._tick)
        if self._behind:
            self.look()

    def group_of(self, want: Want, own: str | None) -> Group:
        if (found := self._groups.get((want, own))) is None:
            found = self._groups[want, own] = Group(want, own)
            for task in want.tasks or (None,):
                self._by_task[task].add(found)
        return found

    def add(self, follower: Follower) -> None:
        self.followers.add(follower)
        follower.group.members += 1

    def forget(self, follower: Follower) -> None:
        if follower not in self.followers:
            return
        self.followers.discard(follower)
        group = follower.group
        group.members -= 1
        if not group.members:
            del self._groups[group.want, group.own]
            self._due.discard(group)
            for task in group.want.tasks or (None,):
                self._by_task[task].discard(group)
                if not self._by_task[task]:
                    del self._by_task[task]
        if not self.followers:
            self._drop()

    def cut_off(self) -> None:
        self._room.cut_off += 1

    def _drop(self) -> None:
        if self._room.feeds.get(self._namespace) is self:
            del self._room.feeds[self._namespace]
        self._room.waiting.remove_listener(self._namespace, self)
        self._quieten()

    def _quieten(self) -> None:
        for running in (self._filling, self._checking, self._round, self._beat):
            if running is not None:
                running.cancel()
        self._round = self._beat = None

    # ── the listener ─────────────────────────────────────────────────────────────────────────────────────

    def heard(self, events: list[tuple[dict[str, Any], bytes]]) -> None:
        if not self._opened:
            self._behind = True
            return
        for event, line in events:
            n: int = event["id"]
            before, self._heard = self._heard, n
            if before is not None and n <= before:
                self._line = b""  # the numbers begin anew: whatever the log has there now is another event
                self._doubt = True
            # The first number heard may be an old one that came late, or of a log that begins anew: the log knows.
            if self._doubt or n > self.last + 1 or (before is None and n <= self.last):
                self.look()
            elif n == self.last + 1:
                self._pass_on(n, event, line)

    def missed(self) -> None:
        self._heard = None
        self._doubt = True
        self.look()

    def closed(self) -> None:
        self.tell()
        for follower in tuple(self.followers):
            follower.end("stopping")
        self._quieten()

    # ── the log ──────────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> None:
        """Compare with the log, and pass on what was missed."""
        self._behind = True
        if self._opened and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._fill())

    async def _fill(self) -> None:
        try:
            await self._fill_up()
        except InboxdError as problem:
            log.error("the log of %s could not be read: %s", self._namespace, problem.message)

    async def _fill_up(self) -> None:
        more = True
        while self._behind or more:
            self._behind = False
            known = self._line
            after, resets = self.last, self.resets
            page = await self.read(after)
            more = len(page.events) >= PAGE_EVENTS
            if resets != self.resets:
                continue
            if page.torn(after) or (known is not None and page.same is not None and known != page.same):
                self._tear(page.last)
                continue
            self._doubt = False
            for n, event, line in page.events:
                if n == self.last + 1:  # the subscription may have been quicker
                    self._pass_on(n, event, line)

    async def read(self, after: int) -> Page:
        """The log behind a number. A store that does not answer is waited out; whoever follows is told, and comes back when it does."""
        known, resets = self.last, self.resets
        while True:
            try:
                last, lines = await self._store.run("follow", self._namespace, after=after, limit=PAGE_EVENTS + 1)
            except StoreUnavailable:
                for follower in tuple(self.followers):
                    follower.end("store")
                await asyncio.sleep(RETRY_MS / 1_000)
            else:
                break
        events = [(event["id"], event, line) for event, line in ((from_json(line), line) for line in lines)]
        same = events.pop(0)[2] if events and events[0][0] == after else None
        page = Page(int(last), same, events)
        if page.last < known and resets == self.resets:
            self._tear(page.last)
        return page

    def _tear(self, end: int) -> None:
        """What was told does not lead to what the log says: everybody has to look anew."""
        self.tell()
        came, self.last, self._line, self._heard, self._doubt = self.last, end, None, None, False
        self.resets += 1
        reset = [self.made("reset", end, after=came)]
        for follower in tuple(self.followers):
            follower.give(reset, 0, 0)

    def made(self, kind: str, n: int, **more: object) -> Batch:
        """A notice of the feed's own."""
        line = to_json({"id": n, "type": kind, "at_ms": self.clock.now_ms(), **more})
        return Batch((Event(n, kind, line),))

    # ── passing on ───────────────────────────────────────────────────────────────────────────────────────

    def _pass_on(self, n: int, event: dict[str, Any], line: bytes) -> None:
        self.last, self._line = n, line
        told = Event(n, event["type"], line)
        for group in self._asked(event):
            if group.followers and group.wants(event):
                group.untold.append(told)
                self._due.add(group)
        if told.type == "token_revoked":
            self._revoked(event["token_id"])
        if self._due and self._round is None:
            self._round = asyncio.get_running_loop().call_soon(self._begin_round)

    def _asked(self, event: Mapping[str, Any]) -> Iterable[Group]:
        """The groups that may want it: those that asked for its tasks, and those that did not ask for any."""
        agents = event.get("agents", ())
        if "*" in agents:
            return tuple(self._groups.values())
        found = set(self._by_task.get(None, ()))
        for task in (event.get("task"), *agents):
            found |= self._by_task.get(task, set())
        return found

    def tell(self) -> None:
        """Give everybody what there is for them."""
        self._gather()
        self._give(len(self._giving))

    def _gather(self) -> None:
        due, self._due = self._due, set()
        for group in due:
            events, group.untold = group.untold, []
            batches = batches_of(events)
            size_bytes = sum(batch.size_bytes for batch in batches)
            self._giving.extend((follower, batches, len(events), size_bytes) for follower in group.followers)

    def _give(self, most: int) -> None:
        for _ in range(min(most, len(self._giving))):
            follower, batches, events, size_bytes = self._giving.popleft()
            follower.give(batches, events, size_bytes)

    def _begin_round(self) -> None:
        """Tell everybody, some at a time so that nobody else waits long; then rest for as long as that took. What happens meanwhile
        is told together, and half of the process's time is left for everything else, however many follow."""
        self._gather()
        self._go_round(time.thread_time(), HOPS)

    def _go_round(self, began_s: float, hops: int) -> None:
        loop = asyncio.get_running_loop()
        if self._giving:
            self._give(TOLD_AT_ONCE)
            self._round = loop.call_soon(self._go_round, began_s, HOPS)
        elif hops:
            self._round = loop.call_soon(self._go_round, began_s, hops - 1)
        else:
            self._round = loop.call_later(time.thread_time() - began_s, self._rested)

    def _rested(self) -> None:
        self._round = None
        if self._due or self._giving:
            self._begin_round()

    # ── signs of life ────────────────────────────────────────────────────────────────────────────────────

    def _tick(self) -> None:
        self._beat = self._later(self.settings.events_ping_ms, self._tick)
        for follower in tuple(self.followers):
            if follower.stalled():
                follower.end("slow")
        self._gather()
        ping = [self.made("ping", self.last)]
        self._giving.extend((follower, ping, 0, 0) for follower in self.followers)
        if self._round is None:
            self._begin_round()
        self.look()
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check_tokens())

    async def _check_tokens(self) -> None:
        """The tokens that no event took away: the log may have lost it, or never have had it."""
        ids = {follower.who.token_id for follower in self.followers if is_token_id(follower.who.token_id)}
        try:
            known = await self._store.known_tokens(self._namespace, ids)
        except StoreUnavailable:
            return
        for token_id in ids - known:
            self._revoked(token_id)

    def _revoked(self, token_id: str) -> None:
        for follower in tuple(self.followers):
            if follower.who.token_id == token_id:
                follower.end("token")

    def _later(self, delay_ms: int, what: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_ms / 1_000, what)


def batches_of(events: list[Event]) -> list[Batch]:
    found, begun, size_bytes = [], 0, 0
    for i, event in enumerate(events):
        size_bytes += len(event.line) + EVENT_BYTES
        if size_bytes >= BATCH_BYTES or i == len(events) - 1:
            found.append(Batch(tuple(events[begun : i + 1])))
            begun, size_bytes = i + 1, 0
    return found


class Following(Room):
    waiting: Waiting

    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        super().__init__(store, settings, clock)
        self.feeds: dict[str, Feed] = {}
        self.cut_off = 0
        """How many readers were too slow so far."""

    async def follow(self, who: Identity, want: Want = Want(), after: int | None = None) -> Follower:  # noqa: B008
        """The events of the caller's namespace, from now on or from behind a number; an agent's only as far as they are its own.

        Whoever follows must `leave`.
        """
        self._refuse_if_closing()
        feed = self.feeds.get(who.namespace)
        if feed is None:
            feed = self.feeds[who.namespace] = Feed(self, who.namespace)
        follower = Follower(feed, who, want)
        feed.add(follower)
        try:
            await feed.open()
            self._refuse_if_closing()
            follower.start(after)
            # Asked behind the start: from there on, the feed hears of a revocation.
            ids = {who.token_id} if is_token_id(who.token_id) else set()
            if ids != await self.store.known_tokens(who.namespace, ids):
                raise TokenInvalid
        except BaseException:
            follower.leave()
            raise
        return follower

    def _refuse_if_closing(self) -> None:
        if self.waiting.closing:
            raise StoreUnavailable("inboxd is shutting down.")

    def following(self) -> int:
        """How many follow now."""
        return sum(len(feed.followers) for feed in self.feeds.values())
