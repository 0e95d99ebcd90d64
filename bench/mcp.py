"""Two hundred agents that call check_inbox over MCP at the same moment: one process, one message for each, a token each.

Both protocols, and the same calls let through to the SDK instead of being answered in front of it. Every message is counted: each
agent gets its own, once.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.memory import resident_mb
from bench.rig import Line, RunningBroker, broker, loader, store

AGENTS = 200
ROUNDS = 20
REST_S = 0.2
"""Between filling the inboxes and the calls: what is measured is the calls, not what sending left to do."""
OLD, NEW = "2025-11-25", "2026-07-28"


class Agents:
    """Two hundred of them, a connection each, in one client that uses little of this machine."""

    def __init__(self, loader: Path, port: int, tokens: dict[str, str]) -> None:
        self._tokens = tokens
        self._calls = 0
        self._client = subprocess.Popen(
            [str(loader), "burst", f"-address=127.0.0.1:{port}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Agents:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._client.stdin is not None
        self._client.stdin.close()
        self._client.wait(10)

    def check(self, version: str, *, by_sdk: bool = False) -> tuple[list[float], dict[str, list[str]]]:
        """All of them call at once: how long each call took, and the bodies each agent was given."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        requests = [self._request(token, version, by_sdk) for token in self._tokens.values()]
        self._client.stdin.write(json.dumps(requests) + "\n")
        self._client.stdin.flush()
        said = json.loads(self._client.stdout.readline())
        given = {}
        for task, answer in zip(self._tokens, said["answers"], strict=True):
            # The SDK answers as a stream of one event.
            text = answer.split("data: ", 1)[1].splitlines()[0] if answer.startswith("event:") else answer
            try:
                given[task] = [one["body"] for one in json.loads(text)["result"]["structuredContent"]["messages"]]
            except (ValueError, KeyError) as problem:
                raise RuntimeError(f"{task} was answered {answer}") from problem
        return said["took_ms"], given

    def _request(self, token: str, version: str, by_sdk: bool) -> str:
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
        body = json.dumps({"jsonrpc": "2.0", "id": self._calls, "method": "tools/call", "params": params})
        return (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nAccept: {accept}\r\n"
            f"Mcp-Protocol-Version: {version}\r\n{more}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )


class Sender:
    """Whoever puts a message into each inbox, between the rounds."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, path: str, body: dict[str, object]) -> Any:
        self._connection.request("POST", path, json.dumps(body), self._headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status != 201:
            raise RuntimeError(said.decode())
        return json.loads(said)


def measure(running: RunningBroker, load: Path) -> dict[str, list[float]]:
    sender = Sender(running.port, running.token("--role", "operator"))
    tokens = {}
    for number in range(AGENTS):
        task = f"agent-{number}"
        sender.post("/v1/tasks", {"task": task})
        tokens[task] = str(sender.post("/v1/tokens", {"role": "agent", "task": task})["token"])
    ways = {
        f"{version}{', by the SDK' if by_sdk else ''}": (version, by_sdk)
        for by_sdk in (False, True)
        for version in (NEW, OLD)
    }
    took: dict[str, list[float]] = {way: [] for way in ways} | {"no mail": []}
    with Agents(load, running.port, tokens) as agents:
        # The first call of all loads the SDK, and each agent's first looks its token up.
        agents.check(NEW, by_sdk=True)
        for round_ in range(ROUNDS + 1):
            for way, (version, by_sdk) in ways.items():
                for task in tokens:
                    sender.post(f"/v1/tasks/{task}/messages", {"body": f"{way} {round_} {task}"})
                time.sleep(REST_S)
                times, given = agents.check(version, by_sdk=by_sdk)
                if wrong := {task: got for task, got in given.items() if got != [f"{way} {round_} {task}"]}:
                    raise RuntimeError(f"not what was sent: {wrong}")
                if round_:
                    took[way] += times
            time.sleep(REST_S)
            times, _ = agents.check(NEW)
            if round_:
                took["no mail"] += times
    return took


def run() -> Iterator[Line]:
    with ExitStack() as stack:
        binary = loader(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        running = stack.enter_context(broker(stack.enter_context(store())))
        before = resident_mb(running.pid)
        for way, values in measure(running, binary).items():
            values.sort()
            at_once = f"{AGENTS} check_inbox at once, {way}"
            yield Line(f"{at_once}, median", values[len(values) // 2], "ms")
            bound = None if "SDK" in way else ("<=", 100.0)
            yield Line(f"{at_once}, p99", values[int(len(values) * 0.99)], "ms", bound)
        yield Line("inboxd, resident, before anybody spoke MCP", before, "MB")
        yield Line("the same after all that", resident_mb(running.pid), "MB")
        yield Line("load of this machine", os.getloadavg()[0])
