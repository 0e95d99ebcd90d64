"""A lane: one command connection that pipelines by itself, outlives its sockets and gives up on time.

Commands of one event-loop tick leave in one write, those of a busy one in a few. When the socket is lost they go out again, in order, on
the next one; what has waited longer than wait_ms in all fails with StoreUnavailable. One watchdog per lane,
never a timer per command. A lane does not know what a command means, nor (in Cluster) where else it could go:
it asks `on_redirect`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import RedisError, ResponseError

from inboxd.errors import StoreUnavailable
from inboxd.store.address import Endpoint
from inboxd.store.wire import Command, Wire, pack, refuse

log = logging.getLogger(__name__)

BACKOFF_MS_FIRST = 10
BACKOFF_MS_MAX = 500
WRITTEN_AT_ONCE = (
    8  # commands of a busy tick leave in groups of so many: the server works on one while the next is made
)
RETRY_MS = 50  # between two tries of a command that a loading or failing-over server turned away
WATCH_MS_MIN = 20  # the watchdog's grain: a command fails at most this late
STALL_MS = 100  # a watchdog this late means that our own loop stood still, not Redis
WAIT_MS_MIN = 100  # even "do not wait" leaves a healthy server this long to answer

# Said by a server that will do it soon, or by one that no longer is the right one.
RETRIED = frozenset({"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"})


class Backoff:
    """Delays between tries: none at first, then doubling; a connection that lasted starts over."""

    def __init__(self) -> None:
        self._delay_ms = 0

    def reset(self) -> None:
        self._delay_ms = 0

    async def wait(self) -> None:
        delay_ms = self._delay_ms
        self._delay_ms = min(BACKOFF_MS_MAX, max(BACKOFF_MS_FIRST, 2 * delay_ms))
        if delay_ms:
            await asyncio.sleep(delay_ms * random.uniform(0.5, 1.0) / 1_000)  # noqa: S311 - jitter, no secret


class Lane:
    def __init__(
        self,
        dial: Callable[[], Awaitable[Wire]],
        *,
        name: str,
        wait_ms: int,
        explain: Callable[[BaseException | None], str],
        on_redirect: Callable[[Command, str], None] | None = None,
        on_trouble: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._create_future = self._loop.create_future
        self._dial = dial
        self._name = name
        self._wait_ms = max(wait_ms, WAIT_MS_MIN)
        self._explain = explain
        self._on_redirect = on_redirect
        self._on_trouble = on_trouble

        self._wire: Wire | None = None
        self._fresh: list[Command] = []  # not on the wire yet
        self._later: list[Command] = []  # turned away, to be tried again in RETRY_MS
        self._flush_due = False
        self._tick_ms = 0  # the time of this tick: one clock reading for all its commands
        self._closed = False
        self._backoff = Backoff()
        self._adopted_ms = 0
        self._reconnecting: asyncio.Task[None] | None = None
        self._watchdog: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None

    def send(self, key: str, command: tuple[str | bytes | int, ...]) -> asyncio.Future[Any]:
        packed = pack(command)
        future: asyncio.Future[Any] = self._create_future()
        if not self._flush_due:
            self._schedule()
        self._fresh.append((future, packed, self._tick_ms, key))
        if len(self._fresh) == WRITTEN_AT_ONCE:
            self._write()
        return future

    def resend(self, commands: list[Command]) -> None:
        """Take over commands that another lane could not place; they keep their age."""
        if not self._flush_due:
            self._schedule()
        self._fresh.extend(commands)

    @property
    def connected(self) -> bool:
        return self._wire is not None

    def adopt(self, wire: Wire) -> None:
        """Go on with this wire: everything unanswered is sent again, in order, but for callers long gone."""
        wire.on_error = self._turned_away
        wire.on_lost = self._lost
        wire.on_resume = self._flush
        self._wire = wire
        self._adopted_ms = wire.heard_ms = self._now_ms()
        self._fresh = [command for command in self._fresh if not command[0].done()]
        if wire.dead:
            self._lost(None)
        else:
            self._flush()

    def reconnect(self) -> None:
        if self._reconnecting is None and not self._closed:
            self._reconnecting = self._loop.create_task(self._reconnect())

    def leave_for(self, master: Endpoint) -> None:
        """Drop a wire that leads anywhere else."""
        if self._wire is not None and self._wire.endpoint != master:
            self._wire.lose(ConnectionError(f"the master is now {master}"))

    def take(self) -> list[Command]:
        """Hand back, in order, what is not on the wire."""
        commands, self._fresh, self._later = [*self._later, *self._fresh], [], []
        return [command for command in commands if not command[0].done()]

    def withdraw(self) -> list[Command]:
        """Close this lane and hand back what it has not answered."""
        self._recall()
        self._closed = True
        for handle in (self._watchdog, self._retry, self._reconnecting):
            if handle is not None:
                handle.cancel()
        return self.take()

    async def close(self) -> None:
        self._refuse_all()
        if self._reconnecting is not None:
            await asyncio.wait({self._reconnecting})

    def _refuse_all(self) -> None:
        for command in self.withdraw():
            refuse(command, StoreUnavailable("inboxd is shutting down."))

    # ── out ──────────────────────────────────────────────────────────────────────────────────────────────

    def _schedule(self) -> None:
        """Once per tick with commands."""
        self._flush_due = True
        self._tick_ms = self._now_ms()
        self._loop.call_soon(self._flush)
        if self._watchdog is None and not self._closed:
            self._watch_in(self._wait_ms)

    def _flush(self) -> None:
        self._flush_due = False
        self._write()

    def _write(self) -> None:
        wire = self._wire
        if wire is None:
            if self._closed:
                self._refuse_all()
        elif self._fresh and not wire.paused:
            fresh, self._fresh = self._fresh, []
            wire.write(fresh)

    # ── in ───────────────────────────────────────────────────────────────────────────────────────────────

    def _turned_away(self, command: Command, error: ResponseError) -> None:
        text = str(error)
        word = text.partition(" ")[0]
        if word in RETRIED:
            self._later.append(command)
            if self._retry is None:
                self._retry = self._loop.call_later(RETRY_MS / 1_000, self._try_again)
            if word == "READONLY":
                # The master moved: another one has to be looked for (Sentinel, DNS or the slot map).
                self._lose(text)
            else:
                self._on_trouble()
        elif self._on_redirect is not None and word in ("MOVED", "ASK"):
            self._on_redirect(command, text)
        else:
            refuse(command, error)

    def _try_again(self) -> None:
        self._retry = None
        self._fresh, self._later = self._later + self._fresh, []
        self._flush()

    # ── lost and found ───────────────────────────────────────────────────────────────────────────────────

    def _lost(self, reason: Exception | None) -> None:
        self._lose(self._explain(reason))

    def _lose(self, why: str) -> None:
        self._recall()
        if not self._closed:
            log.warning("lost the store at %s: %s", self._name, why)
            if self._now_ms() - self._adopted_ms >= BACKOFF_MS_MAX:
                self._backoff.reset()
            self._on_trouble()
            self.reconnect()

    def _recall(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            if not wire.dead:
                wire.drop()
            self._fresh = [*wire.in_flight, *self._fresh]
            wire.in_flight.clear()

    async def _reconnect(self) -> None:
        told = ""
        while True:
            await self._backoff.wait()
            try:
                wire = await self._dial()
            except (OSError, RedisError) as problem:
                why = self._explain(problem)
                if why != told:
                    log.warning("the store at %s does not answer: %s", self._name, why)
                    told = why
                self._on_trouble()
                continue
            break
        log.info("connected to the store at %s", self._name)
        self._reconnecting = None
        self.adopt(wire)

    # ── the watchdog ─────────────────────────────────────────────────────────────────────────────────────

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)

    def _watch_in(self, delay_ms: int) -> None:
        delay_ms = max(delay_ms, WATCH_MS_MIN)
        self._watchdog = self._loop.call_later(delay_ms / 1_000, self._watch, self._now_ms() + delay_ms)

    def _watch(self, due_ms: int | None) -> None:
        now_ms = self._now_ms()
        if due_ms is not None and now_ms - due_ms > STALL_MS:
            # Replies may lie unread in the socket: let the loop read them, once, before anyone is judged.
            self._watchdog = self._loop.call_later(WATCH_MS_MIN / 1_000, self._watch, None)
            return
        self._watchdog = None
        limit_ms = now_ms - self._wait_ms
        wire = self._wire
        in_flight = wire.in_flight if wire is not None else ()
        for waiting in (in_flight, self._fresh, self._later):
            for command in waiting:
                if command[2] <= limit_ms:
                    refuse(command, StoreUnavailable())
        self._fresh = [command for command in self._fresh if not command[0].done()]
        self._later = [command for command in self._later if not command[0].done()]
        if wire is not None and in_flight and in_flight[0][2] <= limit_ms and wire.heard_ms <= limit_ms:
            # Not one byte since the oldest command: hung, not slow. A slow server keeps its connection, since
            # sending everything again would only bury it.
            self._lose(f"no answer within {self._wait_ms} ms")
            wire = None
        dues_ms = [
            command[2] + self._wait_ms
            for waiting in (in_flight, self._fresh, self._later)
            for command in waiting
            if command[2] > limit_ms
        ]
        if wire is not None and in_flight:
            # A failed command in flight keeps its place for reply matching, and the hang check alive.
            dues_ms.append(max(wire.heard_ms, in_flight[0][2]) + self._wait_ms)
        if dues_ms:
            self._watch_in(min(dues_ms) - now_ms)
