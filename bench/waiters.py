"""Two thousand wait-reply calls on one broker: how soon each wakes for its own reply, whether any wakes for another's, and what one costs."""

from __future__ import annotations

import asyncio
import json
import random
import re
import resource
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import cast

import uvloop

from bench.memory import resident_mb
from bench.rig import Line, RunningBroker, broker, median, store
from bench.wake import Client

WAITERS = 2_000
AT_ONCE = 50
WAIT_MS = 60_000


class Waiter(asyncio.Protocol):
    """One call that waits in one thread, on a connection of its own; made light, because there are so many on this side too."""

    def __init__(self, number: int, token: str) -> None:
        self.number = number
        self._token = token
        self._got = b""
        self.woken_at = 0.0
        self.asked_at = 0.0
        self.answer: dict[str, object] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)

    def wait(self) -> None:
        content = json.dumps({"agent": f"w-{self.number}", "wait_ms": WAIT_MS}).encode()
        head = (
            f"POST /v1/threads/t-{self.number}/wait-reply HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Length: {len(content)}\r\n\r\n"
        )
        self.transport.write(head.encode() + content)

    def data_received(self, data: bytes) -> None:
        self._got += data
        top, _, body = self._got.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", top.lower())
        if found and len(body) >= int(found[1]):
            self.woken_at = time.perf_counter()
            self.answer = json.loads(body)
            self._got = b""


async def fill(at: RunningBroker, token: str) -> None:
    """A thread for each waiter, assigned to an agent of its own."""
    clients = [await Client.open(at.port, token) for _ in range(AT_ONCE)]
    for start in range(0, WAITERS, AT_ONCE):
        await asyncio.gather(
            *(
                client.post(
                    "/v1/threads", message_id=f"t-{start + place}", subject="x", to=f"w-{start + place}", create=True
                )
                for place, client in enumerate(clients)
            )
        )
    for client in clients:
        client.close()


def waiting(at: RunningBroker, token: str) -> int:
    found = re.search(rb"^inboxd_waiters (\d+)", at.get("/metrics", token), re.MULTILINE)
    assert found is not None
    return int(found[1])


async def measure(at: RunningBroker, token: str) -> list[Line]:
    sender = await Client.open(at.port, token)
    await fill(at, token)
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1)
    before_mb = resident_mb(at.pid)
    waiters: list[Waiter] = []
    for number in range(WAITERS):
        _, waiter = await loop.create_connection(lambda number=number: Waiter(number, token), "127.0.0.1", at.port)
        waiter.wait()
        waiters.append(waiter)
    while waiting(at, token) < WAITERS:
        await asyncio.sleep(0.05)
    each_kb = (resident_mb(at.pid) - before_mb) * 1024 / WAITERS

    too_early = 0
    order = waiters.copy()
    random.Random(17).shuffle(order)
    for waiter in order:
        too_early += waiter.woken_at > 0
        waiter.asked_at = time.perf_counter()
        await sender.post(f"/v1/threads/t-{waiter.number}/reply", kind="answer", body=f"for {waiter.number}")
    give_up = time.perf_counter() + 10
    while any(waiter.woken_at == 0 for waiter in waiters) and time.perf_counter() < give_up:
        await asyncio.sleep(0.01)
    took = sorted((waiter.woken_at - waiter.asked_at) * 1000 for waiter in waiters if waiter.woken_at)
    own = sum(
        waiter.answer.get("woke") is True and waiter.answer["message"]["body"] == f"for {waiter.number}"  # type: ignore[index]
        for waiter in waiters
    )
    for waiter in waiters:
        waiter.transport.close()
    sender.close()
    return [
        Line(f"{WAITERS:,} waiters, of which got their own reply", own, "", (">=", WAITERS)),
        Line("of which woke before it, for another's", too_early, "", ("<=", 0)),
        Line("from the reply being sent to its waiter's answer, median", median(took), "ms"),
        Line("the same, p99", took[len(took) * 99 // 100], "ms", ("<=", 50)),
        Line("memory of the broker for each waiter, connection included", each_kb, "KB", ("<=", 64)),
    ]


def run() -> Iterator[Line]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with ExitStack() as stack:
        redis_port = stack.enter_context(store("everysec"))
        ours = stack.enter_context(broker(redis_port))
        yield from uvloop.run(measure(ours, ours.token("--role", "admin")))
