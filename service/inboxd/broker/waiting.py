"""Waiting for events: one subscription per process and namespace, many waiters, none of them in Redis.

A waiter is registered before it looks, so that nothing that happens in between is missed; woken, it looks again. A lost
subscription wakes everybody: whoever looks again cannot have missed anything. A namespace nobody waits in is not listened
to (after a while), so that sending costs nothing for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from types import TracebackType
from typing import Any, Final, Protocol

from pydantic_core import from_json

from inboxd.store.store import Store

LISTEN_ON_MS: Final = 30_000
"""How long a namespace is still listened to after its last waiter left."""
MAIL: Final = frozenset({"task_message_queued", "task_message_returned"})
"""The events that put mail into an inbox."""


Place = tuple[str, str]
"""What a waiter waits for in its namespace: `mail` of a task, a `thread`, or the threads an `agent` has a part in."""


class Listener(Protocol):
    """Whoever wants every event of a namespace, in order, and not only to be woken."""

    def heard(self, events: list[tuple[dict[str, Any], bytes]]) -> None:
        """The events of one operation: each read, and as the line it was published as."""

    def missed(self) -> None:
        """The subscription was lost for a while: what happened meanwhile stands only in the log."""

    def closed(self) -> None:
        """The broker is closing."""


class Wait:
    """One caller that waits for something to happen in one of a few places, until its time is up."""

    def __init__(self, waiting: Waiting, namespace: str, places: list[Place], wait_ms: int) -> None:
        self._waiting = waiting
        self._namespace = namespace
        self._places = [(namespace, *place) for place in places]
        self._deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        self._news = asyncio.Event()

    async def __aenter__(self) -> Wait:
        for place in self._places:
            self._waiting.places[place].add(self._news)
        self._waiting.waiters[self._namespace] += 1
        try:
            await self._waiting.listen(self._namespace)
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        for place in self._places:
            waiters = self._waiting.places[place]
            waiters.discard(self._news)
            if not waiters:
                del self._waiting.places[place]
        self._waiting.waiters[self._namespace] -= 1
        self._waiting.left(self._namespace)

    async def comes(self) -> bool:
        """True when it is worth looking again; False when the time is up or the broker is closing."""
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0 or self._waiting.closing:
            return False
        try:
            async with asyncio.timeout(left):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return not self._waiting.closing


class Waiting:
    def __init__(self, store: Store) -> None:
        self._store = store
        self.closing = False
        self.places: defaultdict[tuple[str, str, str], set[asyncio.Event]] = defaultdict(set)
        self.listeners: defaultdict[str, set[Listener]] = defaultdict(set)
        self.waiters: Counter[str] = Counter()
        """How many wait in each namespace; a listener counts as one."""
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._unsubscribing: dict[str, asyncio.Task[None]] = {}

    def for_mail(self, namespace: str, task: str, wait_ms: int) -> Wait:
        return Wait(self, namespace, [("mail", task)], wait_ms)

    def for_thread(self, namespace: str, thread_id: str, wait_ms: int) -> Wait:
        return Wait(self, namespace, [("thread", thread_id)], wait_ms)

    def for_threads_of(self, namespace: str, agents: list[str], wait_ms: int) -> Wait:
        return Wait(self, namespace, [("agent", agent) for agent in agents], wait_ms)

    async def add_listener(self, namespace: str, listener: Listener) -> None:
        """From when this returns, the listener hears everything."""
        self.listeners[namespace].add(listener)
        self.waiters[namespace] += 1
        try:
            await self.listen(namespace)
        except BaseException:
            self.remove_listener(namespace, listener)
            raise

    def remove_listener(self, namespace: str, listener: Listener) -> None:
        listeners = self.listeners.get(namespace, set())
        if listener not in listeners:
            return
        listeners.discard(listener)
        if not listeners:
            del self.listeners[namespace]
        self.waiters[namespace] -= 1
        self.left(namespace)

    async def listen(self, namespace: str) -> None:
        """Make sure that this process hears the namespace's events."""
        if timer := self._leaving.pop(namespace, None):
            timer.cancel()
        subscribing = self._listening.get(namespace)
        if subscribing is None or (subscribing.done() and subscribing.exception() is not None):
            subscribing = asyncio.create_task(self._subscribe(namespace, self._unsubscribing.get(namespace)))
            self._listening[namespace] = subscribing
        await asyncio.shield(subscribing)

    async def _subscribe(self, namespace: str, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await before
        await self._store.subscribe(
            "events",
            namespace,
            lambda lines: self._heard(namespace, lines),
            lambda: self._wake_all(namespace),
        )

    def left(self, namespace: str) -> None:
        """A waiter left; when it was the last, stop listening after a while."""
        if self.closing or namespace in self._leaving or self.waiters[namespace]:
            return
        self._leaving[namespace] = asyncio.get_running_loop().call_later(
            LISTEN_ON_MS / 1000, self._stop_listening, namespace
        )

    def _stop_listening(self, namespace: str) -> None:
        self._leaving.pop(namespace, None)
        if self._listening.pop(namespace, None) is None:
            return
        task = asyncio.create_task(self._store.unsubscribe("events", namespace))
        self._unsubscribing[namespace] = task
        task.add_done_callback(lambda _: self._unsubscribing.pop(namespace, None))

    def _heard(self, namespace: str, lines: bytes) -> None:
        events = [(from_json(line), line) for line in lines.split(b"\n")]
        for event, _ in events:
            for place in _places_of(event):
                for news in self.places.get((namespace, *place), ()):
                    news.set()
        for listener in tuple(self.listeners.get(namespace, ())):
            listener.heard(events)

    def _wake_all(self, namespace: str) -> None:
        for (place, *_), waiters in self.places.items():
            if place == namespace:
                for news in waiters:
                    news.set()
        for listener in tuple(self.listeners.get(namespace, ())):
            listener.missed()

    def count(self) -> int:
        """How many callers wait now, listeners not counted."""
        return self.waiters.total() - sum(map(len, self.listeners.values()))

    def close(self) -> None:
        """Let every waiter go with what it has."""
        self.closing = True
        for waiters in self.places.values():
            for news in waiters:
                news.set()
        for listeners in tuple(self.listeners.values()):
            for listener in tuple(listeners):
                listener.closed()
        for timer in self._leaving.values():
            timer.cancel()


def _places_of(event: dict[str, Any]) -> list[Place]:
    """Whom an event concerns."""
    places: list[Place] = []
    if event["type"] in MAIL:
        places.append(("mail", event["task"]))
    if "thread_id" in event:
        places.append(("thread", event["thread_id"]))
    if event["type"].startswith("thread_"):
        # The agent without a name is whoever watches all of them.
        places += [("agent", agent) for agent in ("", *event.get("agents", ()))]
    return places
