"""Waiting for events: one subscription per process and namespace, many waiters, none of them in Redis.

A waiter is registered before it looks, so that nothing that happens in between is missed; woken, it looks again. A lost
subscription wakes everybody: whoever looks again cannot have missed anything. A namespace nobody waits in is not listened
to (after a while), so that sending costs nothing for it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from types import TracebackType
from typing import Final

from pydantic_core import from_json

from inboxd.store.store import Store

LISTEN_ON_MS: Final = 30_000
"""How long a namespace is still listened to after its last waiter left."""
MAIL: Final = frozenset({"task_message_queued", "task_message_returned"})
"""The events that put mail into an inbox."""


class MailWait:
    """One caller that waits for mail in one inbox, until its time is up."""

    def __init__(self, waiting: Waiting, namespace: str, task: str, wait_ms: int) -> None:
        self._waiting = waiting
        self._place = (namespace, task)
        self._deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        self._news = asyncio.Event()

    async def __aenter__(self) -> MailWait:
        self._waiting.places[self._place].add(self._news)
        self._waiting.waiters[self._place[0]] += 1
        try:
            await self._waiting.listen(self._place[0])
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        waiters = self._waiting.places[self._place]
        waiters.discard(self._news)
        if not waiters:
            del self._waiting.places[self._place]
        self._waiting.waiters[self._place[0]] -= 1
        self._waiting.left(self._place[0])

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
        self.places: defaultdict[tuple[str, str], set[asyncio.Event]] = defaultdict(set)
        self.waiters: Counter[str] = Counter()
        """How many wait in each namespace."""
        self._listening: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, asyncio.TimerHandle] = {}
        self._unsubscribing: dict[str, asyncio.Task[None]] = {}

    def for_mail(self, namespace: str, task: str, wait_ms: int) -> MailWait:
        return MailWait(self, namespace, task, wait_ms)

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
        for line in lines.split(b"\n"):
            event = from_json(line)
            if event["type"] in MAIL:
                for news in self.places.get((namespace, event["task"]), ()):
                    news.set()

    def _wake_all(self, namespace: str) -> None:
        for (place, _task), waiters in self.places.items():
            if place == namespace:
                for news in waiters:
                    news.set()

    def count(self) -> int:
        """How many callers wait now."""
        return self.waiters.total()

    def close(self) -> None:
        """Let every waiter go with what it has."""
        self.closing = True
        for waiters in self.places.values():
            for news in waiters:
                news.set()
        for timer in self._leaving.values():
            timer.cancel()
