"""Streams of events from real processes: resumed across their ends, cut, slow, many; no event missed, none told twice."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import pytest
import redis

from tests.support.brokers import RunningBroker, running_broker
from tests.support.fault_proxy import fault_proxy
from tests.support.servers import PrivateServer, find_server_binary, free_port, private_server
from tests.support.sse import Comeback, Frame, Parser, coming_back, numbers
from tests.support.waiting import crowded, wait_until

pytestmark = pytest.mark.anyio

SOON_MS = 30_000
STOP_WITHIN_S = 1.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@pytest.fixture
def store() -> Iterator[PrivateServer]:
    with private_server(find_server_binary()) as server:
        yield server


def log_of(server: PrivateServer) -> list[int]:
    """The numbers the log has."""
    with redis.Redis.from_url(server.url) as asking:
        return [int(entry.split(b"-")[0]) for entry, _ in asking.xrange("inboxd:{default}:events")]


async def send(client: httpx2.AsyncClient, *names: str, task: str = "backend") -> None:
    for name in names:
        said = {"message_id": name, "body": "x", "create": True}
        (await client.post(f"/v1/tasks/{task}/messages", json=said)).raise_for_status()


async def metric(client: httpx2.AsyncClient, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", (await client.get("/metrics")).text, re.MULTILINE)
    assert found is not None
    return float(found[1])


def whole(reader: Comeback, last: int) -> Callable[[], bool]:
    """Whether a reader has come to this event."""
    return lambda: bool(reader.numbers) and reader.numbers[-1] >= last


def unbroken(reader: Comeback) -> None:
    told = reader.numbers
    assert told == list(range(told[0], told[0] + len(told)))
    assert "reset" not in reader.types


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
async def test_readers_of_a_broker_that_ends_and_starts_again_miss_nothing(
    tmp_path: Path, store: PrivateServer, end: signal.Signals
) -> None:
    port = str(free_port())
    with running_broker(tmp_path / "other", "--redis-url", store.url) as other:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(other.async_client())
            await send(client, "before")
            readers = [Comeback(f"http://127.0.0.1:{port}", other.token) for _ in range(5)]
            readers.append(Comeback(f"http://127.0.0.1:{port}", other.token, "?task=frontend"))
            for turn in range(3):
                with running_broker(tmp_path / "one", "--redis-url", store.url, "--port", port) as one:
                    if turn == 0:
                        await stack.enter_async_context(coming_back(*readers))
                    await wait_until(
                        lambda turn=turn: all(reader.opened > turn for reader in readers), within_ms=SOON_MS
                    )
                    await send(client, f"open-{turn}")
                    one.process.send_signal(end)
                    await send(client, f"ending-{turn}", f"closed-{turn}")
                    one.process.wait(10)
                    await send(client, f"gone-{turn}")
                    await send(client, f"seen-{turn}", task="frontend")
                if end == signal.SIGTERM:
                    await wait_until(lambda: readers[0].types[-1] == "closing", within_ms=SOON_MS)
            with running_broker(tmp_path / "one", "--redis-url", store.url, "--port", port):
                await send(client, "last")
                await send(client, "last-seen", task="frontend")
                last = log_of(store)[-1]
                await wait_until(lambda: all(whole(one, last)() for one in readers), within_ms=SOON_MS)
        for reader in readers[:-1]:
            unbroken(reader)
        narrow = [frame.data["message_id"] for frame in readers[-1].frames if frame.type == "task_message_queued"]
        assert narrow == ["seen-0", "seen-1", "seen-2", "last-seen"]


@linux
async def test_readers_of_two_workers_are_told_the_same(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--workers", "2") as broker:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(broker.async_client())
            await send(client, "first")
            readers: list[Comeback] = []
            while len({one.served_by for one in readers}) < 2:
                assert len(readers) < 100
                readers.append(Comeback(broker.url, broker.token, "?after=0"))
                await stack.enter_async_context(coming_back(readers[-1]))
                await wait_until(lambda: readers[-1].served_by, within_ms=SOON_MS)
            senders = [await stack.enter_async_context(broker.async_client()) for _ in range(4)]
            await asyncio.gather(
                *(send(one, *(f"m-{i}-{number}" for number in range(25))) for i, one in enumerate(senders))
            )
            last = (await client.get("/v1/tasks/backend/messages?limit=1")).json()["messages"][0]["n"]
            await wait_until(lambda: all(whole(one, last)() for one in readers), within_ms=SOON_MS)
            for reader in readers:
                unbroken(reader)
                assert reader.numbers[0] == 1
                assert reader.frames[1 : last + 1] == readers[0].frames[1 : last + 1]


async def test_a_process_subscribes_once_however_many_follow(tmp_path: Path, store: PrivateServer) -> None:
    with ExitStack() as brokers:
        two = [brokers.enter_context(running_broker(tmp_path / name, "--redis-url", store.url)) for name in "ab"]
        readers = [Comeback(broker.url, broker.token) for broker in two for _ in range(10)]
        async with coming_back(*readers):
            await wait_until(lambda: all(reader.opened for reader in readers), within_ms=SOON_MS)
            assert store.ask("PUBSUB", "SHARDNUMSUB", "inboxd:{default}:events") == ["inboxd:{default}:events", 2]


async def test_a_subscription_that_is_cut_again_and_again_costs_no_event(tmp_path: Path, store: PrivateServer) -> None:
    with (
        fault_proxy(store.port) as proxy,
        running_broker(
            tmp_path / "one", "--redis-url", f"redis://127.0.0.1:{proxy.port}", "--store-wait-ms", "300"
        ) as one,
        running_broker(tmp_path / "other", "--redis-url", store.url) as other,
    ):
        async with other.async_client() as client:
            reader = Comeback(one.url, one.token)
            async with coming_back(reader):
                await wait_until(lambda: reader.opened, within_ms=SOON_MS)
                number = 0
                for _ in range(4):
                    # Its sign of life is what passes on that connection by itself.
                    proxy.arm("before the answer", "PING", times=1)
                    while not proxy.cuts:
                        await send(client, f"m-{number}")
                        number += 1
                await send(client, "last")
                await wait_until(whole(reader, log_of(store)[-1]), within_ms=SOON_MS)
            unbroken(reader)
            assert (reader.opened, number > 10) == (1, True)


async def test_readers_are_told_that_the_store_is_gone_and_miss_nothing_of_what_follows(
    tmp_path: Path, store: PrivateServer
) -> None:
    with running_broker(
        tmp_path, "--redis-url", store.url, "--store-wait-ms", "300", "--events-ping-ms", "1000"
    ) as broker:
        async with broker.async_client() as client:
            reader = Comeback(broker.url, broker.token)
            async with coming_back(reader):
                await wait_until(lambda: reader.opened, within_ms=SOON_MS)
                await send(client, "m-1")
                await wait_until(whole(reader, log_of(store)[-1]), within_ms=SOON_MS)
                store.pause()
                try:
                    await wait_until(lambda: "closing" in reader.types, within_ms=SOON_MS)
                    assert reader.frames[-1].data["reason"] == "store"
                finally:
                    store.resume()
                await wait_until(lambda: reader.opened == 2, within_ms=SOON_MS)
                await send(client, "m-2")
                await wait_until(whole(reader, log_of(store)[-1]), within_ms=SOON_MS)
            unbroken(reader)


async def test_a_store_that_was_emptied_is_told_as_a_reset(tmp_path: Path, store: PrivateServer) -> None:
    with running_broker(tmp_path, "--redis-url", store.url) as broker:
        async with broker.async_client() as client:
            await send(client, "m-1", "m-2")
            reader = Comeback(broker.url, broker.token)
            async with coming_back(reader):
                await wait_until(lambda: reader.opened, within_ms=SOON_MS)
                tokens = store.ask("HGETALL", "inboxd:{default}:tokens")
                store.ask("FLUSHALL")
                for name, value in tokens.items():
                    store.ask("HSET", "inboxd:{default}:tokens", name, value)
                await send(client, "m-3")
                await wait_until(lambda: "reset" in reader.types, within_ms=SOON_MS)
                await send(client, "m-4")
                await wait_until(whole(reader, log_of(store)[-1]), within_ms=SOON_MS)
            assert reader.opened == 1


async def test_no_event_is_missed_or_doubled_under_load_by_readers_that_come_and_go(
    tmp_path: Path, store: PrivateServer
) -> None:
    chance = random.Random(11)
    with (
        running_broker(tmp_path / "a", "--redis-url", store.url) as one,
        running_broker(tmp_path / "b", "--redis-url", store.url) as other,
    ):
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(broker.async_client()) for broker in (one, other) * 3]
            await send(clients[0], "first")
            readers = [
                Comeback(broker.url, one.token, "?after=0", chance if number % 2 else None)
                for number, broker in enumerate((one, other) * 10)
            ]
            async with coming_back(*readers):
                await wait_until(lambda: all(reader.opened for reader in readers), within_ms=SOON_MS)

                async def work(number: int, client: httpx2.AsyncClient) -> None:
                    task = f"task-{number}"
                    for each in range(40):
                        await send(client, f"m-{number}-{each}", task=task)
                        if each % 5 == 4:
                            pull = {"session": "s", "ack": True, "max": 100}
                            (await client.post(f"/v1/tasks/{task}/pull", json=pull)).raise_for_status()
                        store.ask("CLIENT", "KILL", "TYPE", "pubsub") if each % 20 == 10 else None

                await asyncio.gather(*(work(number, client) for number, client in enumerate(clients)))
                logged = log_of(store)
                await wait_until(lambda: all(whole(reader, logged[-1])() for reader in readers), within_ms=SOON_MS)
            for reader in readers:
                assert reader.numbers == logged
                assert "reset" not in reader.types
            assert max(reader.opened for reader in readers) > 5
            assert len(logged) > 600


# ── readers that do not read ─────────────────────────────────────────────────────────────────────────────────


@contextmanager
def stuck_stream(broker: RunningBroker) -> Iterator[socket.socket]:
    """A stream that nobody reads from, once it is open."""
    host, port = broker.url.removeprefix("http://").split(":")
    with socket.socket() as caller:
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        caller.settimeout(10)
        caller.connect((host, int(port)))
        caller.sendall(f"GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {broker.token}\r\n\r\n".encode())
        assert caller.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200"
        yield caller


def rest_of(caller: socket.socket) -> list[Frame]:
    """The whole frames that still come, up to the end of the connection, however it ends."""
    said = b""
    with suppress(ConnectionError):
        while part := caller.recv(65_536):
            said += part
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    parser, frames = Parser(), []
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        frames += parser.feed(body[:length])
        body = body[length + 2 :]
    return frames


async def flood(client: httpx2.AsyncClient, until: Callable[[], Awaitable[bool]]) -> None:
    """Events of half a kilobyte, a hundred at a time, until something is so: sockets alone hold some megabytes."""
    tasks = [f"task-{number}" for number in range(100)]
    for number in range(300):
        said = {"to": tasks, "body": "x", "create": True, "message_id": f"{number}-{'x' * 100}"}
        (await client.post("/v1/broadcast", json=said)).raise_for_status()
        if await until():
            return
    raise AssertionError("30,000 events were not enough")


def resident_bytes(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1_024


@linux
async def test_readers_that_do_not_read_are_cut_off_and_cost_a_bounded_amount_of_memory(
    tmp_path: Path, store: PrivateServer
) -> None:
    stuck = 20
    with (
        running_broker(tmp_path, "--redis-url", store.url, "--events-max", "100000") as broker,
        ExitStack() as stack,
    ):
        callers = [stack.enter_context(stuck_stream(broker)) for _ in range(stuck)]
        reader = Comeback(broker.url, broker.token)
        async with broker.async_client() as client, coming_back(reader):
            await wait_until(lambda: reader.opened, within_ms=SOON_MS)
            before = resident_bytes(broker.pid)
            await flood(client, lambda: metric_is(client, "inboxd_streams_cut_off_total", stuck))
            last = log_of(store)[-1]
            await wait_until(whole(reader, last), within_ms=SOON_MS)
            # For each what may wait for it (256 KB) and what its connection holds, and room for the broker's own work.
            assert resident_bytes(broker.pid) - before < stuck * 500_000 + 10_000_000
            await wait_until(lambda: metric_is(client, "inboxd_streams", 1), within_ms=SOON_MS)
            unbroken(reader)
            assert reader.opened == 1
            # What it has is whole, and the rest can be had.
            frames = rest_of(callers[0])
            told = numbers(frames)
            again = Comeback(broker.url, broker.token, last=frames[-1].id)
            async with coming_back(again):
                await wait_until(whole(again, last), within_ms=SOON_MS)
            assert told + again.numbers == list(range(told[0], last + 1))
    assert "Traceback" not in broker.stderr.read_text()


async def logged_more_than(server: PrivateServer, count: int) -> bool:
    return len(log_of(server)) > count


async def metric_is(client: httpx2.AsyncClient, name: str, value: float) -> bool:
    return await metric(client, name) == value


# ── the end ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_broker_with_a_hundred_streams_open_says_so_and_stops_within_a_second(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        # They share the machine with the broker, and are not to keep it busy while it stops.
        readers = [Comeback(broker.url, broker.token, pause_ms=60_000) for _ in range(100)]
        async with coming_back(*readers), broker.async_client() as client:
            await wait_until(lambda: all(reader.opened for reader in readers), within_ms=SOON_MS)
            await send(client, "m-1")
            began = time.monotonic()
            broker.process.send_signal(signal.SIGTERM)
            code = await asyncio.to_thread(broker.process.wait, 10)
            took = time.monotonic() - began
            assert (code, took < STOP_WITHIN_S * crowded()) == (0, True), took
            await wait_until(lambda: all(reader.types[-1] == "closing" for reader in readers), within_ms=SOON_MS)
            assert {reader.frames[-1].data["reason"] for reader in readers} == {"stopping"}
            assert all("task_message_queued" in reader.types for reader in readers)
    assert "Traceback" not in broker.stderr.read_text()


@linux
async def test_a_reader_that_does_not_read_keeps_no_broker_from_stopping(tmp_path: Path, store: PrivateServer) -> None:
    behind = ("--events-behind-max", "1000000", "--events-behind-bytes-max", "1000000000")
    patience = (*behind, "--events-ping-ms", "600000")
    with (
        running_broker(tmp_path, "--redis-url", store.url, "--events-max", "100000", *patience) as broker,
        stuck_stream(broker),
    ):
        async with broker.async_client() as client:
            await flood(client, lambda: logged_more_than(store, 14_000))
            assert await metric(client, "inboxd_streams") == 1
        began = time.monotonic()
        assert broker.stop() == 0
        assert time.monotonic() - began < STOP_WITHIN_S * crowded()
    assert "Traceback" not in broker.stderr.read_text()


async def test_a_reader_that_hangs_up_is_forgotten(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        async with broker.async_client() as client:
            readers = [Comeback(broker.url, broker.token) for _ in range(20)]
            async with coming_back(*readers):
                await wait_until(lambda: metric_is(client, "inboxd_streams", 20), within_ms=SOON_MS)
            await wait_until(lambda: metric_is(client, "inboxd_streams", 0), within_ms=2_000)
            assert await metric(client, "inboxd_requests_running") == 1


async def test_a_token_revoked_at_one_broker_ends_its_streams_at_another(tmp_path: Path, store: PrivateServer) -> None:
    with (
        running_broker(tmp_path / "a", "--redis-url", store.url) as one,
        running_broker(tmp_path / "b", "--redis-url", store.url) as other,
    ):
        async with one.async_client() as client:
            made = (await client.post("/v1/tokens", json={"role": "agent", "task": "backend"})).json()
            reader = Comeback(other.url, made["token"])
            async with coming_back(reader):
                await wait_until(lambda: reader.opened, within_ms=SOON_MS)
                await client.delete(f"/v1/tokens/{made['token_id']}")
                await send(client, "secret")
                await wait_until(lambda: reader.types[-1] == "closing", within_ms=2_000)
                assert reader.frames[-1].data["reason"] == "token"
                assert reader.types.count("task_message_queued") == 0
