"""The listening side: one RESP3 connection to one server for any number of sharded channels.

It reconnects and resubscribes by itself and tells each channel about the gap. It never decides what a message
means, nor (in Cluster) where a channel lives: it says through `on_homeless` that one cannot be kept here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from redis.exceptions import RedisError, ResponseError

from inboxd.errors import StoreUnavailable
from inboxd.store.address import Endpoint
from inboxd.store.lane import RETRIED, RETRY_MS, WAIT_MS_MIN, Backoff
from inboxd.store.wire import Wire, pack, resolve

log = logging.getLogger(__name__)


class Channel:
    """One listener: where its messages go, and whether they come."""

    __slots__ = ("live", "lived", "name", "on_gap", "on_message", "ready")

    def __init__(self, name: bytes, on_message: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        self.name = name
        self.on_message = on_message
        self.on_gap = on_gap
        self.live = False
        self.lived = False  # was live once: coming back is then a gap, not a beginning
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait_live(self, wait_ms: int) -> None:
        try:
            async with asyncio.timeout(max(wait_ms, WAIT_MS_MIN) / 1_000):
                await self.ready
        except TimeoutError:
            raise StoreUnavailable from None

    def began(self) -> None:
        again, self.live, self.lived = self.lived, True, True
        if again:
            self.gap()
        if not self.ready.done():
            self.ready.set_result(None)

    def ended(self) -> None:
        if self.live:
            self.live = False
            self.gap()

    def gap(self) -> None:
        # A listener's bug must not cost the other channels their messages.
        try:
            self.on_gap()
        except Exception:
            log.exception("on_gap of %r failed", self.name)

    def message(self, data: bytes) -> None:
        try:
            self.on_message(data)
        except Exception:
            log.exception("on_message of %r failed", self.name)


class Subscription:
    def __init__(
        self,
        dial: Callable[[], Awaitable[Wire]],
        *,
        name: str,
        wait_ms: int,
        explain: Callable[[BaseException | None], str],
        on_homeless: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._dial = dial
        self._name = name
        # Silence is not an answer on this connection, so it is asked for signs of life.
        self._beat_ms = max(wait_ms // 2, WAIT_MS_MIN)
        self._explain = explain
        self._on_homeless = on_homeless
        self._wire: Wire | None = None
        self._keeping: asyncio.Task[None] | None = None
        # By the future of its SSUBSCRIBE: a name alone could be that of an earlier, removed listener.
        self._asking: dict[asyncio.Future[Any], Channel] = {}
        self.channels: dict[bytes, Channel] = {}

    def add(self, channel: Channel) -> None:
        self.channels[channel.name] = channel
        if self._keeping is None:
            self._keeping = self._loop.create_task(self._keep())
        elif self._wire is not None:
            self._listen(self._wire, channel)

    def remove(self, name: bytes) -> Channel | None:
        channel = self.channels.pop(name, None)
        if channel is not None and self._wire is not None:
            asked = self._wire.ask("SUNSUBSCRIBE", name)
            asked.add_done_callback(_seen)
        return channel

    def leave_for(self, master: Endpoint) -> None:
        """Drop a wire that leads anywhere else."""
        if self._wire is not None and self._wire.endpoint != master:
            self._wire.lose(ConnectionError(f"the master is now {master}"))

    async def close(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.drop()
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.wait({self._keeping})
        for channel in self.channels.values():
            if not channel.ready.done():
                channel.ready.set_exception(StoreUnavailable("inboxd is shutting down."))
            channel.live = False

    async def _keep(self) -> None:
        backoff = Backoff()
        while True:
            await backoff.wait()
            try:
                wire = await self._dial()
            except (OSError, RedisError) as problem:
                log.debug("cannot subscribe at %s: %s", self._name, self._explain(problem))
                self._on_homeless()
                continue
            began_ms = self._loop.time() * 1_000
            why = await self._listen_on(wire)
            if self._loop.time() * 1_000 - began_ms >= self._beat_ms:
                backoff.reset()
            log.warning("lost the subscription at %s: %s", self._name, why)
            self._on_homeless()

    async def _listen_on(self, wire: Wire) -> str:
        """Listen until the wire is lost; returns why it was."""
        lost: asyncio.Future[Exception | None] = self._loop.create_future()
        wire.on_push = lambda push: self._pushed(wire, push)
        wire.on_lost = partial(resolve, lost)
        if wire.dead:
            return self._explain(None)
        self._wire = wire
        try:
            for channel in list(self.channels.values()):
                self._listen(wire, channel)
            while True:
                beat = wire.ask("PING")
                beat.add_done_callback(_seen)
                await asyncio.wait({lost}, timeout=self._beat_ms / 1_000)
                if lost.done():
                    return self._explain(lost.result())
                if not beat.done():
                    return f"no answer within {self._beat_ms} ms"
        finally:
            if not wire.dead:
                wire.drop()
            self._asking.clear()
            if self._wire is wire:
                self._wire = None
                for channel in list(self.channels.values()):
                    channel.ended()

    def _listen(self, wire: Wire, channel: Channel) -> None:
        asked = wire.ask("SSUBSCRIBE", channel.name)
        self._asking[asked] = channel
        asked.add_done_callback(lambda asked: self._refused(wire, channel, asked))

    def _refused(self, wire: Wire, channel: Channel, asked: asyncio.Future[Any]) -> None:
        self._asking.pop(asked, None)
        if asked.cancelled() or not isinstance(refusal := asked.exception(), ResponseError):
            return
        word = str(refusal).partition(" ")[0]
        if word == "MOVED":
            self._on_homeless()
        elif word not in RETRIED and not channel.ready.done():
            channel.ready.set_exception(refusal)
            return
        self._loop.call_later(RETRY_MS / 1_000, self._listen_again, wire, channel)

    def _listen_again(self, wire: Wire, channel: Channel) -> None:
        if self._wire is wire and self.channels.get(channel.name) is channel and not channel.live:
            self._listen(wire, channel)

    def _pushed(self, wire: Wire, push: list[Any]) -> None:
        kind, name, data = push[0], push[1], push[2]
        channel = self.channels.get(name)
        if kind == b"smessage":
            if channel is not None:
                channel.message(data)
        elif kind == b"ssubscribe":
            # In RESP3 the answer to SSUBSCRIBE is a push, and comes in the order of the commands.
            asked = wire.in_flight.popleft()[0]
            asked.set_result(None)
            asking = self._asking.pop(asked, None)
            if asking is not None and asking is channel and not channel.live:
                channel.began()
        elif kind == b"sunsubscribe":
            if wire.in_flight and wire.in_flight[0][1] == pack(("SUNSUBSCRIBE", name)):
                wire.in_flight.popleft()[0].set_result(None)
            elif channel is not None:
                # Unasked: the channel's slot left this node.
                channel.ended()
                self._on_homeless()
                self._loop.call_later(RETRY_MS / 1_000, self._listen_again, wire, channel)


def _seen(asked: asyncio.Future[Any]) -> None:
    """The answer does not matter, but asyncio would report an exception nobody looked at."""
    if not asked.cancelled():
        asked.exception()
