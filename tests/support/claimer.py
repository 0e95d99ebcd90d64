"""A worker as a process of its own, with nothing but the standard library, so that many of them start quickly.

    python -m tests.support.claimer --runtime FILE --agent NAME claim          claims whatever it is shown until there is nothing left
    python -m tests.support.claimer --runtime FILE --agent NAME write THREAD   claims it, then writes to it when told to

`claim` prints one line of JSON at its end. `write` reads commands from stdin, one a line: `all` writes in every way a worker can;
`begin VERB` sends the first half of such a request and says `halfway`, and the next line, whatever it is, sends the rest.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

WRITES: dict[str, dict[str, Any]] = {
    "renew": {},
    "update": {"summary": "still at it"},
    "done": {"summary": "finished"},
    "fail": {"summary": "given up"},
    "reply": {"body": "one more thing", "kind": "message"},
}


class Client:
    """One keep-alive connection, as the machine's own token."""

    def __init__(self, runtime: Path) -> None:
        found = json.loads(runtime.read_text())
        where = urlsplit(found["url"])
        assert where.hostname
        self._http = http.client.HTTPConnection(where.hostname, where.port or 80, timeout=60)
        self._headers = {"Authorization": f"Bearer {found['token']}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        self._http.request(method, path, None if body is None else json.dumps(body), self._headers)
        return self.answer()

    def begin(self, path: str, body: dict[str, Any]) -> bytes:
        """Send all of a request but the second half of its body, and return that."""
        content = json.dumps(body).encode()
        self._http.putrequest("POST", path)
        for name, value in {**self._headers, "Content-Length": str(len(content))}.items():
            self._http.putheader(name, value)
        half = len(content) // 2
        self._http.endheaders(content[:half])
        return content[half:]

    def end(self, rest: bytes) -> tuple[int, dict[str, Any]]:
        self._http.send(rest)
        return self.answer()

    def answer(self) -> tuple[int, dict[str, Any]]:
        answer = self._http.getresponse()
        return answer.status, json.loads(answer.read())


def say(**line: Any) -> None:
    print(json.dumps(line), flush=True)


def claim_all(client: Client, agent: str) -> None:
    """Everybody is shown the same work, and each begins somewhere in it: they want the same threads, but not all the same one."""
    won, lost, slowest_ms, codes = [], 0, 0.0, set()
    dice = random.Random(agent)
    while True:
        _, shown = client.ask("GET", f"/v1/threads/fetch?agent={agent}&limit=20")
        if not shown["threads"]:
            break
        for thread in dice.sample(shown["threads"], min(5, len(shown["threads"]))):
            began = time.perf_counter()
            status, answer = client.ask(
                "POST", f"/v1/threads/{thread['thread_id']}/claim", {"agent": agent, "lease_ms": 3_600_000}
            )
            if status == 200:
                won.append((thread["thread_id"], answer["thread"]["lease"]["fencing_token"]))
                continue
            lost += 1
            codes.add(f"{status} {answer['error']['code']}")
            slowest_ms = max(slowest_ms, (time.perf_counter() - began) * 1_000)
    say(agent=agent, won=won, lost=lost, codes=sorted(codes), slowest_ms=slowest_ms)


def write_on_demand(client: Client, agent: str, thread: str, lease_ms: int) -> None:
    _, answer = client.ask("POST", f"/v1/threads/{thread}/claim", {"agent": agent, "lease_ms": lease_ms})
    token = answer["thread"]["lease"]["fencing_token"]
    say(claimed=thread, fencing_token=token)
    own: dict[str, dict[str, Any]] = {verb: {"agent": agent} for verb in WRITES}
    own["reply"] = {"from": agent}
    for line in sys.stdin:
        command, _, verb = line.strip().partition(" ")
        wanted = list(WRITES) if command == "all" else [verb]
        answers = {}
        for one in wanted:
            path, body = f"/v1/threads/{thread}/{one}", {"fencing_token": token, **own[one], **WRITES[one]}
            if command == "begin":
                rest = client.begin(path, body)
                say(halfway=one)
                sys.stdin.readline()
                status, found = client.end(rest)
            else:
                status, found = client.ask("POST", path, body)
            answers[one] = f"{status} {found['error']['code']}" if "error" in found else f"{status}"
        say(answers=answers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--agent", required=True)
    parser.add_argument("--lease-ms", type=int, default=60_000)
    parser.add_argument("verb", choices=["claim", "write"])
    parser.add_argument("thread", nargs="?")
    given = parser.parse_args()
    client = Client(given.runtime)
    if given.verb == "claim":
        claim_all(client, given.agent)
    else:
        write_on_demand(client, given.agent, given.thread, given.lease_ms)


if __name__ == "__main__":
    main()
