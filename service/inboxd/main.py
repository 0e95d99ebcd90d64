"""The composition root: settings → store → broker → edges, and how a broker starts, serves and stops.

With one worker everything runs in this process. With several, this process keeps the store and the port and starts that
many serving processes; one that dies is started again.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import uvicorn

from inboxd import __version__
from inboxd.broker import Broker, owner
from inboxd.edges import app as application
from inboxd.edges.observe import RequestLog, set_up_logging, watch_collector
from inboxd.edges.protocol import OneWriteProtocol
from inboxd.errors import InboxdError, StartProblem
from inboxd.model import NewToken
from inboxd.settings import Settings
from inboxd.store.connection import Connection, connect, shown
from inboxd.store.embedded import EmbeddedStore, default_data_dir, server_binary
from inboxd.store.store import Store
from inboxd.store.versions import settle_version

log = logging.getLogger("inboxd")

NAMESPACE = "default"
RUNTIME_FILE = "runtime.json"
SOCKET_FD = "INBOXD_WORKER_FD"
STOP_MS_MAX = 10_000
"""How long running requests may take to finish once we are told to stop."""
WORKER_PAUSE_MS = 500
"""Between two starts of a worker that keeps dying."""


def data_dir_of(settings: Settings) -> Path:
    return settings.data_dir or default_data_dir()


@contextlib.asynccontextmanager
async def store_for(settings: Settings) -> AsyncIterator[str]:
    """The URL of the store to use; the embedded one lives as long as this does."""
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    embedded = EmbeddedStore(
        data_dir_of(settings),
        fsync=settings.store_fsync,
        binary=server_binary(settings.store_binary),
        log=logging.getLogger("inboxd.store"),
    )
    try:
        yield await embedded.start()
    finally:
        await embedded.stop()


@contextlib.asynccontextmanager
async def connected(url: str, settings: Settings) -> AsyncIterator[Connection]:
    """A connection to a store of a version we know."""
    connection = await connect(url, wait_ms=settings.store_wait_ms)
    try:
        await settle_version(connection)
        yield connection
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def broker_for(url: str, settings: Settings) -> AsyncIterator[Broker]:
    async with connected(url, settings) as connection:
        broker = Broker(Store(connection, settings), settings)
        try:
            yield broker
        finally:
            broker.close()


class Server(uvicorn.Server):
    """A server that stops politely: long polls are let go first, so that nothing has to be cut off."""

    def __init__(self, config: uvicorn.Config, broker: Broker) -> None:
        super().__init__(config)
        self._broker = broker

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ours: uvicorn's own raises the signal again at the end, before the store could be shut down."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def handle_exit(self, sig: int, frame: Any) -> None:
        self._broker.close()
        super().handle_exit(sig, frame)


async def serve_here(settings: Settings, url: str, listener: socket.socket, ready: Any = None) -> None:
    """Serve in this process until told to stop."""
    as_json = _logs_json(settings)
    async with broker_for(url, settings) as broker:
        request_log = RequestLog(as_json, settings.log_level)
        server = Server(
            uvicorn.Config(
                application.build(broker, request_log),
                loop="uvloop",
                http=OneWriteProtocol,
                lifespan="off",
                access_log=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=STOP_MS_MAX // 1000,
            ),
            broker,
        )
        sweeping = asyncio.create_task(broker.keep_swept())
        if ready is not None:
            await ready(broker)
        _calm_collector()
        try:
            await server.serve(sockets=[listener])
        finally:
            sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeping
            request_log.flush()


def _calm_collector() -> None:
    """What lives now lives for ever: the collector need not look at it, nor at every few hundred allocations."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    watch_collector()


async def serve(settings: Settings) -> None:
    """`inboxd serve`"""
    set_up_logging(_logs_json(settings), settings.log_level)
    listener = listen(settings.host, settings.port)
    address = address_of(settings.host, listener)
    with contextlib.closing(listener):
        async with store_for(settings) as url:

            async def ready(broker: Broker) -> None:
                runtime = await machine_token(broker, data_dir_of(settings), address)
                greet(settings, address, runtime, await broker.offer_login(NAMESPACE))

            if settings.workers == 1:
                await serve_here(settings, url, listener, ready)
                return
            async with broker_for(url, settings) as broker:
                await ready(broker)
            await keep_workers(settings, url, listener)


async def serve_worker(settings: Settings) -> None:
    """One of several serving processes; its parent has opened the port and runs the store."""
    set_up_logging(_logs_json(settings), settings.log_level)
    assert settings.redis_url is not None
    _leave_with_parent()
    with socket.socket(fileno=int(os.environ[SOCKET_FD])) as listener:
        await serve_here(settings, settings.redis_url, listener)


def _leave_with_parent() -> None:
    """Stop when the parent is gone, however it went: a worker left behind would keep the port from its successor.

    Standard input is a pipe that the parent holds open and never writes to.
    """
    loop = asyncio.get_running_loop()
    pipe = sys.stdin.fileno()

    def parent_is_gone() -> None:
        loop.remove_reader(pipe)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(pipe, parent_is_gone)


async def keep_workers(settings: Settings, url: str, listener: socket.socket) -> None:
    """Keep `settings.workers` serving processes alive until told to stop."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    given = {
        f"INBOXD_{name.upper()}": str(value)
        for name, value in settings.model_copy(update={"redis_url": url}).model_dump(exclude_none=True).items()
    }
    environment = {**os.environ, **given, SOCKET_FD: str(listener.fileno())}

    async def keep_one() -> None:
        while True:
            worker = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "inboxd",
                "worker",
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                pass_fds=[listener.fileno()],
                start_new_session=True,
            )
            try:
                code = await worker.wait()
            except asyncio.CancelledError:
                with contextlib.suppress(ProcessLookupError):
                    worker.terminate()
                await worker.wait()
                raise
            log.warning("worker %d ended with %d; starting another", worker.pid, code)
            await asyncio.sleep(WORKER_PAUSE_MS / 1000)

    workers = [asyncio.create_task(keep_one()) for _ in range(settings.workers)]
    try:
        await stop.wait()
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)


def listen(host: str, port: int) -> socket.socket:
    """Open the port before anything else, so that a taken one is the first thing said."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise StartProblem(f"{host} is no address of this machine.", hint="Try --host 127.0.0.1.") from None
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Inherited by every accepted connection; without it, plain asyncio answers 40 ms late on a pre-bound socket.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        listener.bind(address)
        listener.listen(2048)
    except PermissionError:
        listener.close()
        raise StartProblem(f"Port {port} needs more rights than this account has.", hint="Try --port 8420.") from None
    except OSError as refusal:
        listener.close()
        raise StartProblem(
            f"Port {port} on {host} cannot be had: {refusal.strerror or refusal}.",
            hint="Is inboxd running already? Choose another with --port, or --port 0 for any free one.",
        ) from None
    listener.setblocking(False)
    return listener


def address_of(host: str, listener: socket.socket) -> str:
    """How this machine reaches the broker."""
    port = listener.getsockname()[1]
    if host in ("0.0.0.0", "::", ""):
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def machine_token(broker: Broker, data_dir: Path, address: str) -> Path:
    """The runtime file, for this account only: where the broker is and the operator token of this machine."""
    runtime = data_dir / RUNTIME_FILE
    token = None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, InboxdError):
        token = json.loads(runtime.read_text())["token"]
        await broker.identify(token)
    try:
        known = token is not None and broker.recall(token) is not None
    except TypeError:
        known = False
    if not known:
        made = await broker.create_token(
            owner(NAMESPACE), NewToken(role="operator", label=f"machine {socket.gethostname()[:200]}")
        )
        token = made.token
    content = json.dumps({"url": address, "token": token, "pid": os.getpid()}, indent=2)
    fresh = runtime.with_suffix(f".{os.getpid()}")
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            fresh.unlink()
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(content + "\n")
        fresh.replace(runtime)
    except OSError as refusal:
        raise StartProblem(
            f"{runtime} cannot be written: {refusal.strerror or refusal}.",
            hint="Name a folder of yours with --data-dir.",
        ) from None
    return runtime


def running_address(settings: Settings) -> str | None:
    """Where the broker of this folder was last reached, if it ever ran."""
    try:
        return str(json.loads((data_dir_of(settings) / RUNTIME_FILE).read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def login_link(address: str, code: str) -> str:
    """Where a person with this code comes in."""
    return f"{address}/login?code={code}"


def greet(settings: Settings, address: str, runtime: Path, login_code: str) -> None:
    """What a person wants to know once it runs."""
    store = shown(settings.redis_url) if settings.redis_url else f"embedded, in {data_dir_of(settings)}"
    print(
        f"inboxd {__version__} is ready at {address}\n"
        f"  store   {store}\n"
        f"  token   this machine's operator token is in {runtime}\n"
        f"  you     {login_link(address, login_code)}\n"
        f"          opens your dashboard, once, within a quarter of an hour; `inbox login {login_code}` makes a shell yours instead\n"
        f"  docs    {address}/docs\n"
        f"  agents  inboxd token create --role agent --task backend\n"
        f"  stop    Ctrl-C",
        flush=True,
    )


def _logs_json(settings: Settings) -> bool:
    return settings.log_format == "json" or (settings.log_format == "auto" and not sys.stderr.isatty())
