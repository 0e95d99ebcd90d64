"""Whether fetch, list, claim and show cost the same with none and with a hundred thousand finished threads in the namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import uvloop

from bench.rig import TOGETHER, Line, each_of, median, store
from inboxd.broker import Broker, owner
from inboxd.model import ClaimRequest, FinishRequest, Identity, NewThread, NewToken
from inboxd.settings import Settings
from inboxd.store.connection import connect
from inboxd.store.store import Store

MANY = 100_000
OPEN = 200
"""Threads that are not finished, on both sides."""
TIMES = 1_000
AT_ONCE = 200


async def finish(broker: Broker, who: Identity, thread_id: str) -> None:
    await broker.open_thread(who, NewThread(message_id=thread_id, subject="x", sender="leader", to="backend"))
    claimed = await broker.claim(who, thread_id, ClaimRequest(agent="backend"))
    assert claimed.lease is not None
    assert claimed.lease.fencing_token is not None
    done = FinishRequest(agent="backend", fencing_token=claimed.lease.fencing_token, summary="done")
    await broker.done(who, thread_id, done)


async def fill(broker: Broker, who: Identity, finished: int) -> None:
    for start in range(0, finished, AT_ONCE):
        await asyncio.gather(*(finish(broker, who, f"old-{start + number}") for number in range(AT_ONCE)))
    for number in range(OPEN):
        to = "backend" if number % 2 else None
        await broker.open_thread(who, NewThread(message_id=f"open-{number}", subject="x", sender="leader", to=to))
    for number in range(TIMES):
        await broker.open_thread(who, NewThread(message_id=f"new-{number}", subject="x", sender="leader", to="other"))


async def measure() -> list[Line]:
    lines = []
    with store("everysec") as none_port, store("everysec") as many_port:
        settings = Settings()
        brokers = []
        who = owner("bench")
        for port, finished in ((none_port, 0), (many_port, MANY)):
            broker = Broker(Store(await connect(f"redis://127.0.0.1:{port}/0", wait_ms=60_000), settings), settings)
            for task in ("backend", "leader", "other"):
                await broker.create_token(who, NewToken(role="agent", task=task))
            await fill(broker, who, finished)
            brokers.append(broker)

        operations: dict[str, Callable[[Broker, int], Awaitable[object]]] = {
            "fetch": lambda broker, _: broker.fetch(who, agent="backend", statuses=[], limit=20, unread=False),
            "list, the newest": lambda broker, _: broker.list_threads(who, limit=20),
            "list, the open ones": lambda broker, _: broker.list_threads(
                who, statuses=["pending", "blocked"], limit=20
            ),
            "claim": lambda broker, number: broker.claim(who, f"new-{number}", ClaimRequest(agent="other")),
            "show": lambda broker, number: broker.show_thread(who, f"open-{number % OPEN}", limit=20),
        }
        for name, operation in operations.items():
            took: list[list[float]] = [[], []]
            for first in range(0, TIMES, TOGETHER):
                for side, broker in enumerate(brokers):
                    took[side].append(await each_of(operation(broker, first + i) for i in range(TOGETHER)))
            lines.append(Line(f"{name}, each of {TOGETHER} at once, median", median(took[0]) * 1000, "ms"))
            ratio = median(took[1]) / median(took[0])
            lines.append(Line(f"{name}, with {MANY:,} finished threads over with none", ratio, "x", ("<=", 1.3)))
        for broker in brokers:
            broker.close()
            await broker.store.connection.close()
    return lines


def run() -> Iterator[Line]:
    yield from uvloop.run(measure())
