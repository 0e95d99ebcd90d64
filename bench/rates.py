"""Requests per second beside a bare FastAPI route and webdis: one process, one store, 32 connections, token check on."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.rig import Line, broker, free_port, load, loader, median, process, store, wait_for

ROUNDS = 5
SECONDS = 2


def run() -> Iterator[Line]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        binary = loader(folder)
        redis_port = stack.enter_context(store())
        ours = stack.enter_context(broker(redis_port))
        bare_port = free_port()
        bare = [sys.executable, "-m", "uvicorn", "bench.bare:app", "--port", str(bare_port), "--no-access-log"]
        stack.enter_context(process(*bare, BARE_REDIS_URL=ours.redis_url))
        wait_for(bare_port)
        webdis_port = _webdis(stack, folder, redis_port)
        auth = f"Authorization: Bearer {ours.token('--role', 'agent', '--task', 'backend')}"
        watcher = ours.token("--role", "observer")

        rates: dict[str, list[float]] = {"pending": [], "bare pending": [], "webdis": [], "send": [], "bare send": []}
        for round_ in range(ROUNDS):
            rates["bare pending"].append(load(binary, bare_port, path="/pending", seconds=SECONDS)["per_second"])
            mine = load(binary, ours.port, path="/v1/tasks/backend/pending", header=auth, seconds=SECONDS)
            rates["pending"].append(mine["per_second"])
            if webdis_port:
                path = "/HMGET/bare:task/created_at_ms/queued:urgent/queued:high/queued:normal/queued:low/held/due_ms"
                rates["webdis"].append(load(binary, webdis_port, path=path, seconds=SECONDS)["per_second"])
            body = '{"body":"hello {id}"}'
            rates["bare send"].append(
                load(binary, bare_port, method="POST", path="/send", body=body, seconds=SECONDS)["per_second"]
            )
            body = f'{{"message_id":"r{round_}-{{id}}","body":"hello {{id}}"}}'
            sent = load(
                binary,
                ours.port,
                method="POST",
                path="/v1/tasks/backend/messages",
                header=auth,
                body=body,
                seconds=SECONDS,
            )
            rates["send"].append(sent["per_second"])

        for name, values in rates.items():
            if values:
                yield Line(f"{name}, requests per second", median(values))
        yield Line(
            "pending, times a bare FastAPI route with one HMGET",
            _ratio(rates, "pending", "bare pending"),
            "x",
            (">=", 3),
        )
        yield Line("send, times a bare FastAPI route with one XADD", _ratio(rates, "send", "bare send"), "x", (">=", 2))
        if webdis_port:
            yield Line("pending, of webdis doing the same HMGET", _ratio(rates, "pending", "webdis"), "x", (">=", 0.45))
        pauses = re.search(
            r'inboxd_collector_pause_seconds{quantile="0.99"} (\S+)', ours.get("/metrics", watcher).decode()
        )
        assert pauses is not None
        yield Line("garbage collector's pause, p99, after all that", float(pauses[1]) * 1000, "ms", ("<=", 10))


def _ratio(rates: dict[str, list[float]], ours: str, theirs: str) -> float:
    return median([mine / other for mine, other in zip(rates[ours], rates[theirs], strict=True)])


def _webdis(stack: ExitStack, folder: Path, redis_port: int) -> int | None:
    """webdis, where it is installed."""
    binary = shutil.which("webdis")
    if binary is None:
        return None
    port = free_port()
    settings = {
        "redis_host": "127.0.0.1", "redis_port": redis_port, "http_host": "127.0.0.1", "http_port": port, "threads": 1,
        "daemonize": False, "verbosity": 0, "logfile": str(folder / "webdis.log"), "acl": [{"enabled": ["HMGET"]}],
    }  # fmt: skip
    (folder / "webdis.json").write_text(json.dumps(settings))
    stack.enter_context(process(binary, str(folder / "webdis.json")))
    wait_for(port)
    return port
