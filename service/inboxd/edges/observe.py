"""Observing: what every request leaves behind: an id, a log line, two numbers. Cheap, because it runs for every hook of every agent.

Counts are kept in plain dictionaries; metrics.py tells them when somebody scrapes. Log lines are gathered and written a few times
a second, not one by one.
"""

from __future__ import annotations

import asyncio
import bisect
import gc
import itertools
import json
import logging
import os
import re
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final

BUCKETS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
LOG_EVERY_MS: Final = 200
PAUSES_KEPT: Final = 1_000
_plain_path = re.compile(r"[A-Za-z0-9/._~-]*\Z").match
_given_id = re.compile(rb"[A-Za-z0-9._:-]{1,64}\Z").match


class RequestIds:
    """A request's id: the caller's own if it is a plain word, else one of ours."""

    def __init__(self) -> None:
        self._start = f"{os.getpid():x}{time.time_ns() // 1_000_000:x}-"
        self._count = itertools.count(1)

    def of(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        for name, value in headers:
            if name == b"x-request-id" and _given_id(value):
                return value
        return f"{self._start}{next(self._count):x}".encode()


collector_pauses_s: deque[float] = deque(maxlen=PAUSES_KEPT)


def watch_collector() -> None:
    """From now on, note how long the garbage collector stops the process. (The collections of the start stop nobody.)"""
    began = 0.0

    def ran(phase: str, _info: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            collector_pauses_s.append(time.perf_counter() - began)

    gc.callbacks.append(ran)


class Requests:
    """Requests by route, method and status, and how long they took."""

    def __init__(self) -> None:
        self.counts: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self.buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS_S) + 1))
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.running = 0
        self.waiters: Callable[[], int] = lambda: 0
        self.streams: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Open now, and cut off so far."""

    def note(self, route: str, method: str, status: int, seconds: float) -> None:
        self.counts[route, method, status] += 1
        self.buckets[route][bisect.bisect_left(BUCKETS_S, seconds)] += 1
        self.seconds[route] += seconds


class RequestLog:
    """One line per request, gathered and written together."""

    def __init__(self, as_json: bool, level: str) -> None:
        self._as_json = as_json
        self._floor = {"debug": 0, "info": 0, "warning": 400, "error": 500}[level]
        self._lines: list[str] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self, request_id: bytes, method: str, path: str, status: int, seconds: float, client: str) -> None:
        if status < self._floor:
            return
        at = time.time()
        if self._as_json:
            quoted = f'"{path}"' if _plain_path(path) else json.dumps(path)
            line = (
                f'{{"at_ms":{int(at * 1000)},"level":"info","event":"request","request_id":"{request_id.decode()}",'
                f'"method":"{method}","path":{quoted},"status":{status},"ms":{seconds * 1000:.2f},"client":"{client}"}}\n'
            )
        else:
            clock = time.strftime("%H:%M:%S", time.localtime(at))
            shown = path if path.isprintable() else json.dumps(path)
            line = f"{clock} {status} {method} {shown} {seconds * 1000:.1f} ms  {request_id.decode()}\n"
        self._lines.append(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOG_EVERY_MS / 1000, self.flush)

    def flush(self) -> None:
        self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            try:
                sys.stderr.write("".join(lines))
                sys.stderr.flush()
            except OSError:
                # Whoever read our log is gone; serving goes on.
                pass


class JsonLines(logging.Formatter):
    """Every other log record as one JSON line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at_ms": int(record.created * 1000),
            "level": record.levelname.lower(),
            "event": "log",
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := getattr(record, "request_id", None):
            line["request_id"] = request_id
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logging(as_json: bool, level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonLines() if as_json else logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S")
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.getLogger("asyncio").setLevel("WARNING")
