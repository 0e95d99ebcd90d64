"""Redis Cluster behind the one door: a slot map, a lane per master, a subscription per master listened to.

The map is only a guess that the nodes correct: MOVED and ASK are followed, and a node that is lost or in
doubt makes the map be read again from any node that answers. Commands of a node that left go to its heir.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import RedisError

from inboxd.errors import StoreUnavailable
from inboxd.store.address import Access, Endpoint
from inboxd.store.door import Connection
from inboxd.store.lane import WAIT_MS_MIN, Lane
from inboxd.store.subscription import Channel, Subscription
from inboxd.store.wire import Command, Wire, dial, pack, reason_of, refuse

log = logging.getLogger(__name__)

REFRESH_EVERY_MS = 100  # the least time between two readings of the slot map
ASKING = pack(("ASKING",))

# (first slot, last slot, its master)
Range = tuple[int, int, Endpoint]


async def read_slots(wire: Wire, asked: Endpoint) -> list[Range]:
    """The slot map as one node sees it."""
    return [
        (first, last, Endpoint(host=_host(master[0], asked), port=master[1]))
        for first, last, master, *_replicas in await wire.ask("CLUSTER", "SLOTS")
    ]


def _host(announced: bytes | None, asked: Endpoint) -> str:
    # A node that does not know its own address announces none (or "?"): it is where it was asked.
    host = (announced or b"").decode()
    return asked.host if host in ("", "?") else host


class ClusterConnection(Connection):
    def __init__(self, seeds: tuple[Endpoint, ...], access: Access, wait_ms: int, ranges: list[Range]) -> None:
        self._loop = asyncio.get_running_loop()
        self._seeds = seeds
        self._access = access
        self._wait_ms = wait_ms
        self._lanes: dict[Endpoint, Lane] = {}
        self._subscriptions: dict[Endpoint, Subscription] = {}
        self._channels: dict[bytes, tuple[Channel, Endpoint]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._closed = False
        self._slots: list[Lane] = []
        self._owners: list[Endpoint] = []
        self._redraw(ranges)

    def call(self, key: str, *command: str | bytes | int) -> asyncio.Future[Any]:
        return self._slots[key_slot(key.encode())].send(key, command)

    async def subscribe(self, channel: str, on_message: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        name = channel.encode()
        if name in self._channels:
            raise ValueError(f"{channel} already has a listener")
        listener = Channel(name, on_message, on_gap)
        owner = self._owners[key_slot(name)]
        self._channels[name] = (listener, owner)
        self._subscription(owner).add(listener)
        try:
            await listener.wait_live(self._wait_ms)
        except BaseException:
            await self.unsubscribe(channel)
            raise

    async def unsubscribe(self, channel: str) -> None:
        found = self._channels.pop(channel.encode(), None)
        if found is not None and found[1] in self._subscriptions:
            self._subscriptions[found[1]].remove(channel.encode())

    def subscribed(self, channel: str) -> bool:
        found = self._channels.get(channel.encode())
        return found is not None and found[0].live

    async def close(self) -> None:
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.wait({self._refreshing})
        for lane in self._lanes.values():
            await lane.close()
        for subscription in self._subscriptions.values():
            await subscription.close()
        if self._retiring:
            await asyncio.wait(self._retiring)

    # ── the map ──────────────────────────────────────────────────────────────────────────────────────────

    def _redraw(self, ranges: list[Range]) -> None:
        if not ranges:
            return
        masters = {master for _, _, master in ranges}
        # A slot nobody owns goes to any node, which answers CLUSTERDOWN until somebody does.
        anyone = ranges[0][2]
        owners = [anyone] * REDIS_CLUSTER_HASH_SLOTS
        for first, last, master in ranges:
            owners[first : last + 1] = [master] * (last - first + 1)
        self._owners = owners
        lanes = {master: self._lane(master) for master in masters}
        self._slots = [lanes[owner] for owner in owners]
        stranded: list[Command] = []
        for node, lane in list(self._lanes.items()):
            if node not in masters:
                stranded += self._lanes.pop(node).withdraw()
                self._retire(lane)
            elif not lane.connected:
                # It may have lost only some of its slots: whoever waits for those must not wait here.
                stranded += lane.take()
        for command in stranded:
            self._slots[key_slot(command[3].encode())].resend([command])
        for name, (channel, home) in list(self._channels.items()):
            owner = owners[key_slot(name)]
            if owner != home:
                self._subscriptions[home].remove(name)
                channel.ended()
                self._channels[name] = (channel, owner)
                self._subscription(owner).add(channel)
        for gone in self._subscriptions.keys() - masters:
            self._retire(self._subscriptions.pop(gone))

    def _lane(self, endpoint: Endpoint) -> Lane:
        lane = self._lanes.get(endpoint)
        if lane is None:
            lane = self._lanes[endpoint] = Lane(
                lambda: dial(endpoint, self._access, resp=2, limit_ms=self._wait_ms),
                name=str(endpoint),
                wait_ms=self._wait_ms,
                explain=self._explain,
                on_redirect=lambda command, text: self._redirect(endpoint, command, text),
                on_trouble=self._refresh_soon,
            )
            lane.reconnect()
        return lane

    def _subscription(self, endpoint: Endpoint) -> Subscription:
        subscription = self._subscriptions.get(endpoint)
        if subscription is None:
            subscription = self._subscriptions[endpoint] = Subscription(
                lambda: dial(endpoint, self._access, resp=3, limit_ms=self._wait_ms),
                name=str(endpoint),
                wait_ms=self._wait_ms,
                explain=self._explain,
                on_homeless=self._refresh_soon,
            )
        return subscription

    def _retire(self, part: Lane | Subscription) -> None:
        task = self._loop.create_task(part.close())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def _explain(self, problem: BaseException | None) -> str:
        return reason_of(problem, self._access)

    # ── corrections ──────────────────────────────────────────────────────────────────────────────────────

    def _redirect(self, asked: Endpoint, command: Command, text: str) -> None:
        """Follow `MOVED slot host:port` or `ASK slot host:port`."""
        if int(self._loop.time() * 1_000) - command[2] > max(self._wait_ms, WAIT_MS_MIN):
            # Two nodes that each point at the other would otherwise keep a command for ever.
            refuse(command, StoreUnavailable())
            return
        word, slot, where = text.split(" ")[:3]
        host, _, port = where.rpartition(":")
        endpoint = Endpoint(host=_host(host.strip("[]").encode(), asked), port=int(port))
        lane = self._lane(endpoint)
        if word == "ASK":
            asking: asyncio.Future[Any] = self._loop.create_future()
            lane.resend([(asking, ASKING, command[2], command[3]), command])
        else:
            self._slots[int(slot)] = lane
            self._owners[int(slot)] = endpoint
            lane.resend([command])
            self._refresh_soon()

    def _refresh_soon(self) -> None:
        if self._refreshing is None and not self._closed:
            self._refreshing = self._loop.create_task(self._refresh())

    async def _refresh(self) -> None:
        nodes = list(self._lanes)
        random.shuffle(nodes)
        # Nodes that answer now first: the one in doubt is the likeliest to have an old view, or none.
        nodes.sort(key=lambda node: not self._lanes[node].connected)
        try:
            for node in dict.fromkeys((*nodes, *self._seeds)):
                try:
                    ranges = await self._ask(node)
                except (OSError, RedisError, ValueError, TypeError) as problem:
                    log.debug("no slot map from %s: %s", node, self._explain(problem))
                    continue
                self._redraw(ranges)
                break
            await asyncio.sleep(REFRESH_EVERY_MS / 1_000)
        finally:
            self._refreshing = None

    async def _ask(self, node: Endpoint) -> list[Range]:
        async with asyncio.timeout(min(self._wait_ms, 1_000) / 1_000):
            wire = await dial(node, self._access, resp=2, limit_ms=self._wait_ms)
            try:
                return await read_slots(wire, node)
            finally:
                wire.drop()
