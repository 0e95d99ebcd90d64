"""What an idle broker and its embedded store hold in memory, a minute's worth of requests behind them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.rig import Line, free_port, process, wait_for


def resident_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def run() -> Iterator[Line]:
    if not Path("/proc/self/status").exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        started = time.perf_counter()
        with process(sys.executable, "-m", "inboxd", "serve", "--port", str(port), "--data-dir", folder) as running:
            wait_for(port)
            _ready(port)
            yield Line("from the command to ready", (time.perf_counter() - started) * 1000, "ms", ("<=", 2000))
            token = json.loads((Path(folder) / "runtime.json").read_text())["token"]
            for _ in range(500):
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}/v1/tasks", headers={"Authorization": f"Bearer {token}"}
                )
                urllib.request.urlopen(request, timeout=5).read()
            children = subprocess.run(
                ["ps", "-o", "pid=", "--ppid", str(running.pid)], capture_output=True, text=True, check=True
            )
            ours, theirs = resident_mb(running.pid), sum(resident_mb(int(pid)) for pid in children.stdout.split())
            yield Line("inboxd, resident", ours, "MB")
            yield Line("its store, resident", theirs, "MB")
            yield Line("together", ours + theirs, "MB", ("<=", 120))


def _ready(port: int) -> None:
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5).read()
        except OSError:
            time.sleep(0.01)
        else:
            return
