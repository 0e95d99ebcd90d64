"""Whether send, pull and pending cost the same with a thousand and with a million stored messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import uvloop

from bench.rig import TOGETHER, Line, each_of, median, store
from inboxd.broker import Broker, owner
from inboxd.model import Identity, NewMessage, NewToken, PullRequest
from inboxd.settings import Settings
from inboxd.store.connection import connect
from inboxd.store.store import Store

FEW, MANY = 1_000, 1_000_000
TIMES = 1_500
AT_ONCE = 500


async def fill(broker: Broker, who: Identity, count: int) -> None:
    """Stored: nine in ten delivered, the rest still waiting."""
    for start in range(0, count, AT_ONCE):
        await asyncio.gather(
            *(broker.send(who, "backend", NewMessage(body=f"message {i}")) for i in range(start, start + AT_ONCE))
        )
        for _ in range(AT_ONCE * 9 // 10 // 90):
            await broker.pull(who, "backend", PullRequest(max=90, ack=True))


async def measure() -> list[Line]:
    lines = []
    with store("everysec") as few_port, store("everysec") as many_port:
        settings = Settings(retention_ms=30 * 86_400_000)
        brokers = []
        for port, count in ((few_port, FEW), (many_port, MANY)):
            broker = Broker(Store(await connect(f"redis://127.0.0.1:{port}/0", wait_ms=60_000), settings), settings)
            who = owner("bench")
            await broker.create_token(who, NewToken(role="agent", task="backend"))
            await fill(broker, who, count)
            brokers.append(broker)
        who = owner("bench")

        operations: dict[str, Callable[[Broker], Awaitable[object]]] = {
            "send": lambda broker: broker.send(who, "backend", NewMessage(body="one more")),
            "pull": lambda broker: broker.pull(who, "backend", PullRequest(max=1, ack=True)),
            "pending": lambda broker: broker.pending(who, "backend"),
        }
        for name, operation in operations.items():
            took: list[list[float]] = [[], []]
            for _ in range(0, TIMES, TOGETHER):
                for side, broker in enumerate(brokers):
                    took[side].append(await each_of(operation(broker) for _ in range(TOGETHER)))
            ratio = median(took[1]) / median(took[0])
            lines.append(Line(f"{name}, with {MANY:,} stored over with {FEW:,}", ratio, "x", ("<=", 1.3)))
        for broker in brokers:
            broker.close()
            await broker.store.connection.close()
    return lines


def run() -> Iterator[Line]:
    yield from uvloop.run(measure())
