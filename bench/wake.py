"""How long a blocked pull takes to return once somebody sends, over HTTP: the same process, and two processes on one store."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import uvloop

from bench.rig import Line, RunningBroker, broker, median, store

TIMES = 300


class Client:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader, self._writer, self._token = reader, writer, token

    @classmethod
    async def open(cls, port: int, token: str) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port), token)

    async def post(self, path: str, **body: object) -> dict[str, object]:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\nContent-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        top = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(top.split(b"content-length:")[1].split(b"\r\n")[0])
        answer: dict[str, object] = json.loads(await self._reader.readexactly(length))
        return answer

    def close(self) -> None:
        self._writer.close()


async def measure(sender: RunningBroker, waiter: RunningBroker, token: str, waiting_token: str) -> list[float]:
    send, pull = await Client.open(sender.port, token), await Client.open(waiter.port, waiting_token)
    took = []
    for _ in range(TIMES):
        blocked = asyncio.create_task(pull.post("/v1/tasks/backend/pull", wait_ms=5000))
        await asyncio.sleep(0.005)
        before = time.perf_counter()
        await asyncio.gather(send.post("/v1/tasks/backend/messages", body="wake up"), blocked)
        took.append((time.perf_counter() - before) * 1000)
        assert len(blocked.result()["messages"]) == 1  # type: ignore[arg-type]
        await pull.post("/v1/tasks/backend/ack", receipt=blocked.result()["receipt"])
    send.close()
    pull.close()
    return took


def run() -> Iterator[Line]:
    with ExitStack() as stack:
        redis_port = stack.enter_context(store())
        first = stack.enter_context(broker(redis_port))
        second = stack.enter_context(broker(redis_port))
        agent = first.token("--role", "agent", "--task", "backend")
        user = first.token("--role", "user")
        same = uvloop.run(measure(first, first, user, agent))
        yield Line("send to a blocked pull's answer, same process, median", median(same), "ms", ("<=", 3))
        across = uvloop.run(measure(first, second, user, agent))
        yield Line("the same with sender and waiter on two processes", median(across), "ms", ("<=", 3))
