"""A thousand streams of events on one process, a hundred events a second: order, delay, memory."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from bench.memory import resident_mb
from bench.rig import Line, broker, loader, store

STREAMS = 1_000
RATE = 100
SECONDS = 10


def run() -> Iterator[Line]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        binary = loader(folder)
        ours = stack.enter_context(broker(stack.enter_context(store())))
        observer = f"Authorization: Bearer {ours.token('--role', 'observer')}"
        agent = f"Authorization: Bearer {ours.token('--role', 'agent', '--task', 'backend')}"
        given = [f"-address=127.0.0.1:{ours.port}", f"-header={observer}", f"-sender={agent}"]

        def follow(streams: int, seconds: float) -> tuple[float, float, dict[str, float]]:
            """What inboxd holds with so many streams open and after they were used, in MB, and how it went."""
            flags = [f"-name={streams}", f"-streams={streams}", f"-rate={RATE}", f"-seconds={seconds}"]
            command = [str(binary), "streams", *given, *flags]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reading:
                assert reading.stdin is not None
                assert reading.stdout is not None
                if not reading.stdout.readline():
                    raise RuntimeError("the streams did not open")
                opened = resident_mb(ours.pid)
                reading.stdin.write("go\n")
                reading.stdin.flush()
                went = json.loads(reading.stdout.readline())
                used = resident_mb(ours.pid)
                reading.stdin.write("end\n")
            return opened, used, went

        _, before, _ = follow(1, 1)  # what the first one loads is nobody's share
        opened, used, went = follow(STREAMS, SECONDS)
        yield Line(f"events read by {STREAMS} streams", went["read"])
        yield Line("events that one of them missed", went["missing"], "", ("<=", 0))
        yield Line("events out of order or doubled", went["holes"], "", ("<=", 0))
        yield Line("from sending a message to its event being read, median", went["p50_ms"], "ms")
        yield Line("the same, p99", went["p99_ms"], "ms", ("<=", 250))
        yield Line("a stream's memory, opened", (opened - before) * 1024 / STREAMS, "KB")
        yield Line("the same after the events", (used - before) * 1024 / STREAMS, "KB", ("<=", 100))
