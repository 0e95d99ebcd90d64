"""The only door to the Redis wire: `connect` turns a URL into a Connection, or says why inboxd cannot start.

One server and a Sentinel's master stand behind SingleConnection, a Cluster behind ClusterConnection. Redis is
reached here once, with every refusal put into words a person can act on; afterwards the lanes look after
themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from inboxd.errors import StartProblem
from inboxd.store.address import Address, Endpoint, parse, shown
from inboxd.store.cluster import ClusterConnection, Range, read_slots
from inboxd.store.door import Connection, Reply
from inboxd.store.lane import Backoff, Lane
from inboxd.store.subscription import Channel, Subscription
from inboxd.store.wire import TooOldError, Wire, dial, reason_of

__all__ = ["Connection", "Reply", "connect", "shown"]

START_MS_MAX = 2_000  # how long a start waits for a Redis that does not answer yet
SENTINEL_MS_MAX = 500  # a sentinel that takes longer is passed over for the next one

SENTINEL_EVERY_MS = 500  # how long a deposed master may go unnoticed

T = TypeVar("T")


class SingleConnection(Connection):
    """One lane and one subscription. A Sentinel's master may move: each reconnect looks for it anew."""

    def __init__(self, address: Address, wait_ms: int, first: Wire) -> None:
        name = address.master_name or str(address.endpoints[0])

        def explain(problem: BaseException | None) -> str:
            return reason_of(problem, address.access)

        self._wait_ms = wait_ms
        self._lane = Lane(lambda: _dial(address, resp=2, limit_ms=wait_ms), name=name, wait_ms=wait_ms, explain=explain)
        self._subscription = Subscription(
            lambda: _dial(address, resp=3, limit_ms=wait_ms), name=name, wait_ms=wait_ms, explain=explain
        )
        self._send = self._lane.send
        self._lane.adopt(first)
        self._following: asyncio.Task[None] | None = None
        if address.kind == "sentinel":
            self._following = asyncio.get_running_loop().create_task(self._follow(address))

    def call(self, key: str, *command: str | bytes | int) -> asyncio.Future[Any]:
        return self._send(key, command)

    async def subscribe(self, channel: str, on_message: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        name = channel.encode()
        if name in self._subscription.channels:
            raise ValueError(f"{channel} already has a listener")
        listener = Channel(name, on_message, on_gap)
        self._subscription.add(listener)
        try:
            await listener.wait_live(self._wait_ms)
        except BaseException:
            await self.unsubscribe(channel)
            raise

    async def unsubscribe(self, channel: str) -> None:
        self._subscription.remove(channel.encode())

    def subscribed(self, channel: str) -> bool:
        found = self._subscription.channels.get(channel.encode())
        return found is not None and found.live

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})
        await self._lane.close()
        await self._subscription.close()

    async def _follow(self, address: Address) -> None:
        """Leave a deposed master that still answers.

        After a failover Sentinel lets one serve for seconds before it makes it a replica (tried: more than
        five), and what is written there in the meantime is thrown away.
        """
        while True:
            await asyncio.sleep(SENTINEL_EVERY_MS / 1_000)
            with contextlib.suppress(OSError, RedisError):
                master = await _find_master(address)
                self._lane.leave_for(master)
                self._subscription.leave_for(master)


async def connect(url: str, *, wait_ms: int) -> Connection:
    """A connection to whatever the URL names, proven to answer. Raises StartProblem."""
    address = parse(url)
    if address.kind == "cluster":
        ranges = await _reach(address, lambda: _first_slots(address))
        return ClusterConnection(address.endpoints, address.access, wait_ms, ranges)
    wire = await _reach(address, lambda: _dial(address, resp=2, limit_ms=START_MS_MAX))
    return SingleConnection(address, wait_ms, wire)


async def _dial(address: Address, *, resp: int, limit_ms: int) -> Wire:
    if address.kind == "single":
        return await dial(address.endpoints[0], address.access, resp=resp, limit_ms=limit_ms)
    master = await _find_master(address)
    return await dial(master, address.access, resp=resp, limit_ms=limit_ms, master_only=True)


async def _find_master(address: Address) -> Endpoint:
    sentinel = Sentinel(  # type: ignore[no-untyped-call]
        [(endpoint.host, endpoint.port) for endpoint in address.endpoints],
        sentinel_kwargs={
            "socket_timeout": SENTINEL_MS_MAX / 1_000,
            "socket_connect_timeout": SENTINEL_MS_MAX / 1_000,
            "retry": Retry(NoBackoff(), 0),
            **address.sentinel_options,
        },
    )
    try:
        host, port = await sentinel.discover_master(address.master_name)
    finally:
        await sentinel.aclose()
    return Endpoint(host=host, port=int(port))


async def _first_slots(address: Address) -> list[Range]:
    problem: Exception = OSError("no seed was asked")
    for seed in address.endpoints:
        try:
            wire = await dial(seed, address.access, resp=2, limit_ms=START_MS_MAX)
            try:
                ranges = await read_slots(wire, seed)
            finally:
                wire.drop()
        except (OSError, RedisError) as found:
            problem = found
            continue
        if ranges:
            return ranges
        problem = OSError("no node of the cluster owns a slot yet")
    raise problem


async def _reach(address: Address, attempt: Callable[[], Awaitable[T]]) -> T:
    """The first answer within START_MS_MAX; a refusal that will not change is told at once."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + START_MS_MAX / 1_000
    backoff = Backoff()
    problem: Exception = TimeoutError(f"no answer within {START_MS_MAX} ms")
    while True:
        await backoff.wait()
        try:
            async with asyncio.timeout_at(give_up_at):
                return await attempt()
        except ResponseError as refusal:
            raise _refusal(address, refusal) from None
        except ssl.SSLError as found:
            # A certificate that is not accepted now will not be in a second either.
            raise _unreachable(address, found) from None
        except TimeoutError:
            break
        except (OSError, RedisError) as found:
            problem = found
            if loop.time() >= give_up_at:
                break
    raise _unreachable(address, problem) from None


def _where(address: Address) -> str:
    return ", ".join(map(str, address.endpoints))


def _unreachable(address: Address, problem: Exception) -> StartProblem:
    hint = "Is it running, and is the address right? Without --redis-url inboxd starts its own store."
    reason = reason_of(problem, address.access)
    if address.kind == "sentinel":
        # redis-py names each sentinel with its whole client in this message; the address says enough.
        if isinstance(problem, MasterNotFoundError):
            silent = " : " in str(problem)
            reason = "not all of them answer" if silent else "none of them knows a healthy master of that name"
        return StartProblem(
            f"The sentinels at {_where(address)} lead to no master {address.master_name!r}: {reason}.",
            hint=hint,
        )
    return StartProblem(f"Redis at {_where(address)} does not answer: {reason}.", hint=hint)


def _refusal(address: Address, refusal: ResponseError) -> StartProblem:
    where = _where(address)
    text = str(refusal)
    word = text.partition(" ")[0]
    if isinstance(refusal, TooOldError) or "unknown command" in text.lower():
        found = text if isinstance(refusal, TooOldError) else "it does not know HELLO"
        return StartProblem(
            f"Redis at {where} is too old: {found}.", hint="inboxd needs Redis 7 or newer, or any Valkey."
        )
    if word == "WRONGPASS" or "invalid password" in text.lower():
        return StartProblem(
            f"Redis at {where} does not accept this user name and password.",
            hint="Check the part before the @ in the URL; write / ? # @ and : in it as %2F %3F %23 %40 %3A.",
        )
    if word == "NOAUTH":
        return StartProblem(
            f"Redis at {where} wants a password and the URL has none.",
            hint="Write it as redis://:PASSWORD@HOST:PORT, or redis://USER:PASSWORD@HOST:PORT.",
        )
    if "cluster support disabled" in text:
        return StartProblem(f"Redis at {where} is no cluster.", hint="Write redis:// instead of redis+cluster://.")
    return StartProblem(f"Redis at {where} refuses the connection: {address.access.redacted(text).rstrip('.')}.")
