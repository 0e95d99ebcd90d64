"""Two hundred agents that call check_inbox over MCP at the same moment: one process, one message for each, a token each.

Both protocols, and the same calls let through to the SDK instead of being answered in front of it. Every message is counted: each
agent gets its own, once.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench.hook import Skipped
from bench.rig import Line, RunningBroker, broker, store

AGENTS = 200
ROUNDS = 20
OLD, NEW = "2025-11-25", "2026-07-28"


class Agent:
    """One agent's connection."""

    def __init__(self, number: int, token: str) -> None:
        self.task = f"agent-{number}"
        self._token = token
        self._calls = 0

    async def connect(self, port: int) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)

    async def check(self, version: str, *, by_sdk: bool = False) -> tuple[float, dict[str, object]]:
        """One call: how long it took, and what it said."""
        request = self._request(version, by_sdk)
        began = time.perf_counter()
        self._writer.write(request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        if b" 200 " not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(head.decode())
        if b"content-length:" in head:
            body = await self._reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
        else:
            body = await self._chunks()
        took = (time.perf_counter() - began) * 1_000
        if b"text/event-stream" in head:
            body = body.split(b"data: ")[1].split(b"\r\n")[0]
        return took, json.loads(body)["result"]

    async def _chunks(self) -> bytes:
        body = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            body += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return body

    def _request(self, version: str, by_sdk: bool) -> bytes:
        self._calls += 1
        params: dict[str, object] = {"name": "check_inbox", "arguments": {}}
        more = ""
        if version == NEW:
            meta = {
                "protocolVersion": version,
                "clientCapabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            }
            params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
            more = "Mcp-Method: tools/call\r\nMcp-Name: check_inbox\r\n"
        # A quality in Accept is unusual enough to be left to the SDK.
        accept = "application/json, text/event-stream" + (";q=0.9" if by_sdk else "")
        body = json.dumps({"jsonrpc": "2.0", "id": self._calls, "method": "tools/call", "params": params}).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\nAccept: {accept}\r\n"
            f"Mcp-Protocol-Version: {version}\r\n{more}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def close(self) -> None:
        self._writer.close()


class Sender:
    """Whoever puts a message into each inbox, between the rounds."""

    async def connect(self, port: int, token: str) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._token = token

    async def post(self, path: str, body: dict[str, object]) -> dict[str, object]:
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._token}\r\nContent-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        top = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        answer: dict[str, object] = json.loads(
            await self._reader.readexactly(int(top.split(b"content-length:")[1].split(b"\r\n")[0]))
        )
        if b" 201 " not in top.split(b"\r\n", 1)[0]:
            raise RuntimeError(str(answer))
        return answer

    def close(self) -> None:
        self._writer.close()


async def measure(running: RunningBroker, operator: str) -> dict[str, list[float]]:
    sender = Sender()
    await sender.connect(running.port, operator)
    agents = []
    for number in range(AGENTS):
        await sender.post("/v1/tasks", {"task": f"agent-{number}"})
        made = await sender.post("/v1/tokens", {"role": "agent", "task": f"agent-{number}"})
        agents.append(Agent(number, str(made["token"])))
        await agents[-1].connect(running.port)
    # The first call of all loads the SDK, and each agent's first looks its token up.
    await asyncio.gather(*(agent.check(NEW, by_sdk=True) for agent in agents))
    ways = {
        f"{version}{', by the SDK' if by_sdk else ''}": (version, by_sdk)
        for by_sdk in (False, True)
        for version in (NEW, OLD)
    }
    took: dict[str, list[float]] = {way: [] for way in ways} | {"no mail": []}
    for round_ in range(ROUNDS + 1):
        for way, (version, by_sdk) in ways.items():
            for agent in agents:
                await sender.post(f"/v1/tasks/{agent.task}/messages", {"body": f"{way} {round_} {agent.task}"})
            answers = await asyncio.gather(*(agent.check(version, by_sdk=by_sdk) for agent in agents))
            for agent, (_, result) in zip(agents, answers, strict=True):
                bodies = [message["body"] for message in result["structuredContent"]["messages"]]  # type: ignore[index]
                if bodies != [f"{way} {round_} {agent.task}"]:
                    raise RuntimeError(f"{agent.task} was given {bodies}")
            if round_:
                took[way] += [ms for ms, _ in answers]
        answers = await asyncio.gather(*(agent.check(NEW) for agent in agents))
        if round_:
            took["no mail"] += [ms for ms, _ in answers]
    for agent in agents:
        agent.close()
    sender.close()
    return took


def resident_mb(pid: int) -> float | None:
    status = Path(f"/proc/{pid}/status")
    return int(status.read_text().split("VmRSS:")[1].split()[0]) / 1024 if status.exists() else None


def run() -> Iterator[Line]:
    with ExitStack() as stack:
        running = stack.enter_context(broker(stack.enter_context(store())))
        before = resident_mb(running.pid)
        took = uvloop.run(measure(running, running.token("--role", "operator")))
        for way, values in took.items():
            values.sort()
            at_once = f"{AGENTS} check_inbox at once, {way}"
            yield Line(f"{at_once}, median", values[len(values) // 2], "ms")
            bound = None if "SDK" in way else ("<=", 100.0)
            yield Line(f"{at_once}, p99", values[int(len(values) * 0.99)], "ms", bound)
        after = resident_mb(running.pid)
        if before is None or after is None:
            yield Skipped("how much it holds was not measured: there is no /proc here")
        else:
            yield Line("inboxd, resident, before anybody spoke MCP", before, "MB")
            yield Line("the same after all that", after, "MB")
        yield Line("load of this machine", os.getloadavg()[0])
