"""Real broker processes for tests: `inboxd serve` with a folder and a free port of its own, gone when the block ends.

Only the processes started here are ever signalled. Nothing sleeps a fixed time: the greeting says when a broker is ready and at
which address, and a broker that ends before it greets fails the test with what it said.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import redis

from inboxd.broker import Broker, owner
from inboxd.model import NewToken, Role
from inboxd.settings import Settings
from inboxd.store.connection import connect
from inboxd.store.embedded import running_url
from inboxd.store.store import Store
from tests.support.servers import poll_until

READY_MS_MAX = 15_000
STOP_MS_MAX = 12_000
NO_TLS: Final[dict[str, Any]] = {"verify": False, "trust_env": False}
"""For clients on the loopback: reading the certificates of the world takes 0.2 s a client."""
INBOXD = [sys.executable, "-m", "inboxd"]
_ready_at = re.compile(r"is ready at (\S+)\n(?:.*\n)*?  stop ").search


def clean_environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment without anything inboxd would read, and with what the test says."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("INBOXD_", "INBOX_")) and name not in ("REDIS_URL", "PORT")
    }
    return {**kept, **(env or {})}


def run_inboxd(
    *arguments: str, env: Mapping[str, str] | None = None, within_ms: int = READY_MS_MAX
) -> subprocess.CompletedProcess[str]:
    """One `inboxd` command, run to its end."""
    return subprocess.run(
        [*INBOXD, *arguments],
        env=clean_environment(env),
        capture_output=True,
        text=True,
        timeout=within_ms / 1_000,
        check=False,
    )


@dataclass
class RunningBroker:
    """One `inboxd serve` that has greeted."""

    command: list[str]
    data_dir: Path
    stdout: Path
    stderr: Path
    environment: dict[str, str]
    stderr_fd: int | None = None
    url: str = field(init=False, default="")
    ready_ms: float = field(init=False, default=0.0)
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def greeting(self) -> str:
        return self.stdout.read_text()

    @property
    def runtime_file(self) -> Path:
        return self.data_dir / "runtime.json"

    @property
    def token(self) -> str:
        """The machine's operator token."""
        return str(json.loads(self.runtime_file.read_text())["token"])

    @property
    def store_pid(self) -> int | None:
        """The process of the embedded store, if it answers."""
        url = running_url(self.data_dir)
        if url is None:
            return None
        try:
            with redis.Redis.from_url(url, socket_timeout=2) as asking:
                return int(asking.info("server")["process_id"])
        except redis.RedisError:
            return None

    def mint(self, role: Role, task: str | None = None, namespace: str = "default") -> str:
        """A new token. Made here and not by `inboxd token create`, which has tests of its own and takes a second."""

        async def make() -> str:
            url = running_url(self.data_dir)
            assert url is not None
            connection = await connect(url, wait_ms=5_000)
            broker = Broker(Store(connection, Settings()), Settings())
            made = await broker.create_token(owner(namespace), NewToken(role=role, task=task))
            broker.close()
            await connection.close()
            return made.token

        # In a thread: the test that asks may have a loop of its own.
        with ThreadPoolExecutor(1) as aside:
            return aside.submit(asyncio.run, make()).result()

    def start(self) -> None:
        began = time.monotonic()
        with self.stdout.open("wb") as stdout, self.stderr.open("ab") as stderr:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr if self.stderr_fd is None else self.stderr_fd,
                env=self.environment,
            )
        poll_until(self._greeted, what="the greeting", limit_ms=READY_MS_MAX)
        # The port is open before anybody serves it: this answer comes as soon as somebody does.
        with httpx2.Client(timeout=READY_MS_MAX / 1_000, **NO_TLS) as client:
            client.get(f"{self.url}/healthz").raise_for_status()
        self.ready_ms = (time.monotonic() - began) * 1_000

    def client(self, token: str | None = None, **options: Any) -> httpx2.Client:
        """A client with this token; the machine's own if none is given."""
        return httpx2.Client(base_url=self.url, headers=self._bearer(token), timeout=20, **{**NO_TLS, **options})

    def async_client(self, token: str | None = None, **options: Any) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.url, headers=self._bearer(token), timeout=20, **{**NO_TLS, **options})

    def stop(self) -> int:
        """SIGTERM, and wait for its end; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_MS_MAX / 1_000)

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def _bearer(self, token: str | None) -> dict[str, str]:
        return {"authorization": f"Bearer {token or self.token}"}

    def _greeted(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"inboxd ended with {self.process.returncode}:\n{self.stderr.read_text()}")
        found = _ready_at(self.greeting)
        if found:
            self.url = found[1]
        return found is not None


@contextmanager
def running_broker(
    folder: Path, *flags: str, env: Mapping[str, str] | None = None, stderr_fd: int | None = None
) -> Iterator[RunningBroker]:
    """`inboxd serve` with its data, greeting and log in `folder`; stopped by SIGTERM at the end, and it must end well.

    A flag given here wins over the ones every test wants (a data directory in the folder, a free port). Start it twice on one
    folder, one after the other, and the second finds the data of the first. A test may stop or kill it itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data_dir = Path(flags[flags.index("--data-dir") + 1]) if "--data-dir" in flags else folder / "data"
    asked = {*flags} | {f"--{name.lower().replace('_', '-').removeprefix('inboxd-')}" for name in env or {}}
    usual = [] if "--data-dir" in asked else ["--data-dir", str(data_dir)]
    usual += [] if "--port" in asked else ["--port", "0"]
    broker = RunningBroker(
        [*INBOXD, "serve", *usual, *flags],
        data_dir,
        folder / "stdout",
        folder / "stderr",
        clean_environment(env),
        stderr_fd,
    )
    try:
        broker.start()
        yield broker
        if broker.process.poll() is None:
            code = broker.stop()
            assert code == 0, f"inboxd ended with {code}:\n{broker.stderr.read_text()}"
    finally:
        if hasattr(broker, "process") and broker.process.poll() is None:
            broker.kill()
