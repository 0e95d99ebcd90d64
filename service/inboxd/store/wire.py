"""One socket to one Redis: bytes out, replies matched to commands in the order they were sent.

A Wire knows nothing of reconnecting, deadlines or meaning; whoever owns it (a lane, a subscription) sets its
three callbacks and takes back `in_flight` when the wire is lost.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import hiredis
from redis.exceptions import ResponseError

from inboxd.store.address import Access, Endpoint

# (the caller's future, the packed command, when it was issued in loop milliseconds, the key that routes it).
# A bare tuple: this is allocated once per command of the whole service.
Command = tuple[asyncio.Future[Any], bytes, int, str]

HANDSHAKE_MS_MAX = 2_000
KEEPALIVE_IDLE_S = 15  # the kernel's unit: silence before it probes a peer that may be gone
OLDEST_SERVER = 7  # sharded channels and scripts with a shebang both came with Redis 7

# hiredis's own type hint names a tuple of one.
pack = cast("Callable[[tuple[str | bytes | int, ...]], bytes]", hiredis.pack_command)

_MORE = object()


class TooOldError(ResponseError):
    """The server answers, but is older than Redis 7."""


class NotMasterError(ConnectionError):
    """The server is a replica where a master was expected."""


class Wire(asyncio.Protocol):
    def __init__(self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint) -> None:
        self._loop = loop
        self.endpoint = endpoint
        self._reader = hiredis.Reader(replyError=ResponseError, notEnoughData=_MORE)
        self.transport: asyncio.Transport
        self.in_flight: deque[Command] = deque()
        self.paused = False
        self.dead = False
        self.heard_ms = int(loop.time() * 1_000)  # the last time a byte arrived
        self.on_error: Callable[[Command, ResponseError], None] = refuse
        self.on_push: Callable[[list[Any]], None] = lambda _push: None
        self.on_lost: Callable[[Exception | None], None] = lambda _reason: None
        self.on_resume: Callable[[], None] = lambda: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        found = transport.get_extra_info("socket")
        if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if hasattr(socket, "TCP_KEEPIDLE"):
                found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)

    def data_received(self, data: bytes) -> None:
        if self.dead:
            return
        self.heard_ms = int(self._loop.time() * 1_000)
        reader = self._reader
        reader.feed(data)
        gets = reader.gets
        popleft = self.in_flight.popleft
        try:
            while (reply := gets()) is not _MORE:
                found = reply.__class__
                if found is ResponseError:
                    self.on_error(popleft(), reply)
                    if self.dead:
                        return
                elif found is hiredis.PushNotification:
                    self.on_push(reply)
                else:
                    # Faster than asking done() first; the caller of a done future has gone away.
                    try:  # noqa: SIM105 - suppress() costs more than the rest of this loop
                        popleft()[0].set_result(reply)
                    except asyncio.InvalidStateError:
                        pass
        except (hiredis.ProtocolError, IndexError) as problem:
            # Replies can no longer be told apart: nothing on this wire may be trusted from here on.
            self.lose(ConnectionError(f"the reply stream broke: {problem}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose(exc)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        self.on_resume()

    def write(self, commands: list[Command]) -> None:
        self.in_flight.extend(commands)
        self.transport.write(b"".join([command[1] for command in commands]))

    def ask(self, *command: str | bytes | int) -> asyncio.Future[Any]:
        """One command outside any lane: handshakes, heartbeats, the slot map."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.dead:
            future.set_exception(ConnectionError("the connection is closed"))
        else:
            self.write([(future, pack(command), int(self._loop.time() * 1_000), "")])
        return future

    def drop(self) -> None:
        """Forget this socket at once, without on_lost: the owner decided it and takes `in_flight` itself."""
        self.dead = True
        self.transport.abort()

    def lose(self, reason: Exception | None) -> None:
        if not self.dead:
            self.drop()
            self.on_lost(reason)


def refuse(command: Command, error: Exception) -> None:
    if not command[0].done():
        command[0].set_exception(error)


def resolve(future: asyncio.Future[Any], result: object) -> None:
    if not future.done():
        future.set_result(result)


async def dial(endpoint: Endpoint, access: Access, *, resp: int, limit_ms: int, master_only: bool = False) -> Wire:
    """A wire that has said who it is and chosen its database. Raises OSError or ResponseError."""
    loop = asyncio.get_running_loop()
    wire: Wire | None = None
    try:
        async with asyncio.timeout(min(limit_ms, HANDSHAKE_MS_MAX) / 1_000):
            if endpoint.path:
                _, wire = await loop.create_unix_connection(lambda: Wire(loop, endpoint), endpoint.path)
            else:
                _, wire = await loop.create_connection(
                    lambda: Wire(loop, endpoint),
                    endpoint.host,
                    endpoint.port,
                    ssl=access.tls,
                    server_hostname=endpoint.host if access.tls else None,
                )
            await _greet(wire, access, resp, master_only)
    except BaseException as problem:
        if wire is not None:
            wire.drop()
        if isinstance(problem, TimeoutError):
            raise TimeoutError(f"no answer within {min(limit_ms, HANDSHAKE_MS_MAX)} ms") from None
        raise
    return wire


async def _greet(wire: Wire, access: Access, resp: int, master_only: bool) -> None:
    lost: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    wire.on_lost = partial(resolve, lost)
    credentials = ["AUTH", access.username or "default", access.password] if access.password else []
    hello = wire.ask("HELLO", resp, *credentials, "SETNAME", "inboxd")
    selected = wire.ask("SELECT", access.db) if access.db else None
    try:
        # A server that closes without an answer would otherwise cost the whole limit.
        await asyncio.wait({hello, lost}, return_when=asyncio.FIRST_COMPLETED)
        if not hello.done():
            raise ConnectionResetError("it closed the connection")
        greeting = _pairs(hello.result())
        if int(greeting.get(b"version", b"0").split(b".")[0]) < OLDEST_SERVER:
            raise TooOldError(f"it is version {greeting.get(b'version', b'?').decode()}")
        if master_only and greeting.get(b"role") != b"master":
            raise NotMasterError("it is a replica, not the master")
        if selected is not None:
            await asyncio.wait({selected, lost}, return_when=asyncio.FIRST_COMPLETED)
            if not selected.done():
                raise ConnectionResetError("it closed the connection")
            selected.result()
    finally:
        for asked in (hello, selected):
            if asked is not None and not asked.cancel() and not asked.cancelled():
                asked.exception()  # seen: otherwise asyncio reports it when it is collected


def _pairs(reply: Any) -> dict[Any, Any]:
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def reason_of(problem: BaseException | None, access: Access) -> str:
    """Why a socket failed, in a few words and without the password."""
    if problem is None:
        return "it closed the connection"
    text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    verify = getattr(problem, "verify_message", "")
    return access.redacted(f"its certificate is not accepted: {verify}" if verify else text or type(problem).__name__)
