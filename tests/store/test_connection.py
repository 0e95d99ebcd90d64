"""The wire against real servers: pipelining, order, loss and return, hangs, failover, Cluster, TLS, channels.

Every server is private to this file and killed at its end. Nothing sleeps: waits are for a reply, a callback
or a state. One thing here is no real server: the answer of an old Redis, which no installed server gives.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.crc import key_slot
from redis.exceptions import ResponseError

from inboxd.errors import StartProblem, StoreUnavailable
from inboxd.store.connection import Connection, connect, shown
from inboxd.store.lane import WRITTEN_AT_ONCE
from tests.support.servers import (
    PrivateServer,
    find_server_binary,
    find_system_binary,
    free_port,
    poll_until,
    private_server,
    wait_cluster_ok,
)
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

UVLOOP = ("asyncio", {"use_uvloop": True})
PLAIN = ("asyncio", {"use_uvloop": False})
both_loops = pytest.mark.parametrize("anyio_backend", [UVLOOP, PLAIN], ids=["uvloop", "asyncio"])

BINARY = find_server_binary()
WAIT_MS = 5_000
SECRET = "s3cr3t-w0rd"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return UVLOOP


@pytest.fixture(scope="module")
def server() -> Iterator[PrivateServer]:
    """For tests that leave the server as it was."""
    with private_server(BINARY) as found:
        yield found


@pytest.fixture
def own_server() -> Iterator[PrivateServer]:
    """For tests that kill it, stop it or fill it."""
    with private_server(BINARY) as found:
        yield found


@contextlib.asynccontextmanager
async def connected(url: str, wait_ms: int = WAIT_MS) -> AsyncIterator[Connection]:
    connection = await connect(url, wait_ms=wait_ms)
    try:
        yield connection
    finally:
        await connection.close()


def fresh_name() -> str:
    return f"test:{{{uuid.uuid4().hex}}}"


async def reads_processed(connection: Connection) -> int:
    stats: bytes = await connection.call("", "INFO", "stats")
    found = next(line for line in stats.splitlines() if line.startswith(b"total_reads_processed"))
    return int(found.split(b":")[1])


class Listener:
    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.gaps = 0

    def gap(self) -> None:
        self.gaps += 1


# ── commands ───────────────────────────────────────────────────────────────────────────────────────────────


@both_loops
async def test_commands_of_one_tick_travel_in_few_writes_and_are_answered_in_order(
    server: PrivateServer,
) -> None:
    async with connected(server.url) as connection:
        before = await reads_processed(connection)
        await asyncio.gather(*[connection.call("", "ECHO", number) for number in range(WRITTEN_AT_ONCE)])
        between = await reads_processed(connection)
        replies = await asyncio.gather(*[connection.call("", "ECHO", number) for number in range(200)])
        after = await reads_processed(connection)
    assert between - before == 2, "one read for the group, one for asking"
    assert after - between <= 200 / WRITTEN_AT_ONCE + 1
    assert replies == [str(number).encode() for number in range(200)]


async def test_replies_are_plain_and_undecoded(server: PrivateServer) -> None:
    key = fresh_name()
    async with connected(server.unix_url) as connection:
        script = "return {'text', 7, false, {KEYS[1]}}"
        assert await connection.call(key, "EVAL", script, 1, key) == [b"text", 7, None, [key.encode()]]
        assert await connection.call(key, "SET", key, b"\x00\xff\r\n") == b"OK"
        assert await connection.call(key, "GET", key) == b"\x00\xff\r\n"
        assert await connection.call(key, "GET", key + ":none") is None
        assert await connection.call("", "CLIENT", "GETNAME") == b"inboxd"
        await connection.call(key, "DEL", key)


async def test_an_error_reply_is_the_servers_whole_text_and_disturbs_nobody(server: PrivateServer) -> None:
    async with connected(server.url) as connection:
        script = "return redis.error_reply('TASK_UNKNOWN no task named x')"
        before = connection.call("", "ECHO", "a")
        refused = connection.call("", "EVAL", script, 0)
        unknown = connection.call("", "EVALSHA", "0" * 40, 0)
        after = connection.call("", "ECHO", "b")
        with pytest.raises(ResponseError, match=r"^TASK_UNKNOWN no task named x$"):
            await refused
        with pytest.raises(ResponseError, match=r"^NOSCRIPT "):
            await unknown
        assert (await before, await after) == (b"a", b"b")


async def test_a_caller_that_went_away_does_not_shift_the_replies_of_others(server: PrivateServer) -> None:
    async with connected(server.url) as connection:
        calls = [connection.call("", "ECHO", number) for number in range(30)]
        for gone_before_it_was_sent in calls[::3]:
            gone_before_it_was_sent.cancel()
        await asyncio.sleep(0)
        for gone_while_in_flight in calls[1::3]:
            gone_while_in_flight.cancel()
        assert await asyncio.gather(*calls[2::3]) == [str(number).encode() for number in range(2, 30, 3)]
        assert await connection.call("", "ECHO", "next") == b"next"


async def test_more_than_the_socket_takes_is_kept_and_sent_when_it_can(server: PrivateServer) -> None:
    async with connected(server.url) as connection:
        body = b"x" * 65_536
        calls = []
        for _ in range(10):
            calls += [connection.call("", "ECHO", body) for _ in range(20)]
            await asyncio.sleep(0)
        assert all(reply == body for reply in await asyncio.gather(*calls))


async def test_a_database_in_the_url_is_selected(server: PrivateServer) -> None:
    key = fresh_name()
    async with connected(f"{server.url}/3") as third, connected(server.url) as first:
        await third.call(key, "SET", key, "here")
        assert await first.call(key, "GET", key) is None
        await third.call(key, "DEL", key)


async def test_closing_fails_what_still_waits_and_what_comes_after(own_server: PrivateServer) -> None:
    connection = await connect(own_server.url, wait_ms=WAIT_MS)
    own_server.pause()
    waiting = connection.call("", "PING")
    await asyncio.sleep(0)
    await connection.close()
    for call in (waiting, connection.call("", "PING")):
        with pytest.raises(StoreUnavailable):
            await call


# ── loss and return ────────────────────────────────────────────────────────────────────────────────────────


@both_loops
async def test_a_server_killed_under_load_and_started_again_costs_no_call(own_server: PrivateServer) -> None:
    async with connected(own_server.url) as connection:
        answered = 0

        async def write_and_read(writer: int) -> None:
            nonlocal answered
            for number in range(200):
                key = f"{writer}:{number}"
                wrote, read = connection.call(key, "SET", key, number), connection.call(key, "GET", key)
                assert await wrote == b"OK"
                assert await read in (str(number).encode(), None), "None: lost with the memory of the killed one"
                answered += 1

        load = asyncio.gather(*[write_and_read(writer) for writer in range(20)])
        await wait_until(lambda: answered > 500, within_ms=5_000)
        await asyncio.to_thread(own_server.kill)
        await asyncio.to_thread(own_server.start)
        await load
        assert answered == 20 * 200


async def test_unanswered_commands_are_sent_again_in_their_order(own_server: PrivateServer) -> None:
    async with connected(own_server.url) as connection:
        own_server.pause()
        sent = [connection.call("list", "RPUSH", "list", number) for number in range(50)]
        await asyncio.sleep(0)
        await asyncio.to_thread(own_server.kill)
        late = [connection.call("list", "RPUSH", "list", number) for number in range(50, 100)]
        await asyncio.to_thread(own_server.start)
        assert await asyncio.gather(*sent, *late) == list(range(1, 101))
        assert await connection.call("list", "LRANGE", "list", 0, -1) == [b"%d" % n for n in range(100)]


async def test_a_dead_server_fails_a_call_after_wait_ms_and_can_be_tried_again(
    own_server: PrivateServer,
) -> None:
    async with connected(own_server.url, wait_ms=300) as connection:
        await asyncio.to_thread(own_server.kill)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable) as caught:
            await connection.call("", "PING")
        assert 0.25 < time.monotonic() - began < 1.5
        assert caught.value.retryable
        await asyncio.to_thread(own_server.start)

        async def healed() -> bool:
            with contextlib.suppress(StoreUnavailable):
                return bool(await connection.call("", "PING") == b"PONG")
            return False

        await wait_until(healed, within_ms=5_000)


@both_loops
async def test_a_hung_server_is_noticed_within_wait_ms_and_heals(own_server: PrivateServer) -> None:
    async with connected(own_server.url, wait_ms=300) as connection:
        assert await connection.call("", "PING") == b"PONG"
        own_server.pause()
        began = time.monotonic()
        calls = [connection.call("", "PING") for _ in range(100)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert 0.25 < time.monotonic() - began < 1.5
        assert {type(reply) for reply in done} == {StoreUnavailable}
        own_server.resume()

        async def healed() -> bool:
            with contextlib.suppress(StoreUnavailable):
                return bool(await connection.call("", "ECHO", "back") == b"back")
            return False

        await wait_until(healed, within_ms=5_000)


@pytest.mark.parametrize(
    ("serve_stale", "command", "word"),
    [("yes", ("SET", "k", "v"), "READONLY"), ("no", ("GET", "k"), "MASTERDOWN")],
)
async def test_a_server_in_failover_is_tried_until_it_serves_again(
    own_server: PrivateServer, serve_stale: str, command: tuple[str, ...], word: str
) -> None:
    own_server.ask("CONFIG", "SET", "replica-serve-stale-data", serve_stale)
    own_server.ask("REPLICAOF", "127.0.0.1", free_port())
    async with connected(own_server.url) as connection:
        call = connection.call("k", *command)

        def turned_away() -> bool:
            return f"errorstat_{word}" in str(own_server.ask("INFO", "errorstats"))

        await wait_until(lambda: asyncio.to_thread(turned_away), within_ms=3_000)
        assert not call.done()
        await asyncio.to_thread(own_server.ask, "REPLICAOF", "NO", "ONE")
        assert await call in (b"OK", None)
    own_server.ask("REPLICAOF", "127.0.0.1", free_port())
    async with connected(own_server.url, wait_ms=200) as connection:
        with pytest.raises(StoreUnavailable):
            await connection.call("k", *command)


async def test_a_full_store_is_told_as_it_is(own_server: PrivateServer) -> None:
    own_server.ask("CONFIG", "SET", "maxmemory", "1")
    async with connected(own_server.url) as connection:
        with pytest.raises(ResponseError, match=r"^OOM "):
            await connection.call("k", "SET", "k", "v")


# ── the start ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "not a Redis URL"),
        ("localhost:6379", "not a Redis URL"),
        (f"http://:{SECRET}@localhost", "not a Redis URL"),
        (f"redis://:{SECRET}@", "HOST:PORT"),
        (f"redis://:{SECRET}@h:port", "HOST:PORT"),
        (f"redis://:{SECRET}@h:99999", "HOST:PORT"),
        (f"redis://:{SECRET}@h:1/db", "database number"),
        (f"redis://:{SECRET}@h:1,h:2/0", "several hosts"),
        (f"redis://h:1?password={SECRET}&colour=blue", "colour"),
        (f"redis://h:1?db=x&password={SECRET}", "cannot be read"),
        (f"redis://:{SECRET}/more@h:1", "HOST:PORT"),
        ("unix://", "socket"),
        ("unix://relative/path", "socket"),
        (f"redis+sentinel://:{SECRET}@h:1", "names no master"),
        (f"redis+cluster://:{SECRET}@h:1/2", "only database 0"),
        (f"rediss://:{SECRET}@h:1?ssl_ca_certs=/no/such/file", "TLS options"),
        (f"rediss://:{SECRET}@h:1?ssl_cert_reqs=maybe", "TLS options"),
    ],
)
async def test_a_bad_url_is_refused_in_a_sentence_without_its_password(url: str, said: str) -> None:
    with pytest.raises(StartProblem) as caught:
        await connect(url, wait_ms=WAIT_MS)
    assert said in caught.value.message
    assert caught.value.message.endswith(".")
    assert caught.value.hint
    assert SECRET not in caught.value.message + caught.value.hint


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h:1/0", "redis://h:1/0"),
        ("redis://user:word@h:1/0", "redis://user:***@h:1/0"),
        ("redis://:wo/rd@x@h:1", "redis://:***@h:1"),
        ("redis://word@h:1", "redis://***@h:1"),
        ("redis+sentinel://a:1,b:2/m?password=word&db=1", "redis+sentinel://a:1,b:2/m?password=***&db=1"),
        ("redis+sentinel://a:1/m?sentinel_password=word", "redis+sentinel://a:1/m?sentinel_password=***"),
    ],
)
async def test_a_url_is_shown_without_its_password(url: str, expected: str) -> None:
    assert shown(url) == expected


@pytest.mark.parametrize("scheme", ["redis", "redis+cluster", "redis+sentinel"])
async def test_an_unreachable_redis_is_told_with_its_address_and_the_reason(scheme: str) -> None:
    port = free_port()
    began = time.monotonic()
    with pytest.raises(StartProblem) as caught:
        await connect(f"{scheme}://:{SECRET}@127.0.0.1:{port}/{'m' if 'sentinel' in scheme else ''}", wait_ms=WAIT_MS)
    assert time.monotonic() - began < 3.5
    assert f"127.0.0.1:{port}" in caught.value.message
    assert SECRET not in caught.value.message
    if "sentinel" not in scheme:
        assert "does not answer" in caught.value.message


async def test_a_wrong_or_missing_password_is_told_as_such_and_the_right_one_works() -> None:
    with private_server(BINARY, password=SECRET) as locked:
        for url, said in (
            (f"redis://:{SECRET}x@127.0.0.1:{locked.port}", "does not accept"),
            (f"redis://nobody:{SECRET}@127.0.0.1:{locked.port}", "does not accept"),
            (f"redis://127.0.0.1:{locked.port}", "wants a password"),
        ):
            with pytest.raises(StartProblem, match=said) as caught:
                await connect(url, wait_ms=WAIT_MS)
            assert SECRET not in caught.value.message
        async with connected(locked.url) as connection:
            assert await connection.call("", "PING") == b"PONG"
        async with connected(f"redis://127.0.0.1:{locked.port}?password={SECRET}") as connection:
            assert await connection.call("", "PING") == b"PONG"


@pytest.mark.parametrize(
    "answer",
    [
        b"*4\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n6.2.14\r\n",
        b"-ERR unknown command `HELLO`, with args beginning with: `2`, `AUTH`, `default`, `%s`\r\n" % SECRET.encode(),
    ],
    ids=["six", "five"],
)
async def test_a_server_older_than_seven_is_refused(answer: bytes) -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1_000)
        writer.write(answer)
        await reader.read()
        writer.close()

    async with await asyncio.start_server(old, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(StartProblem, match="too old") as caught:
            await connect(f"redis://:{SECRET}@127.0.0.1:{port}", wait_ms=WAIT_MS)
    assert SECRET not in caught.value.message
    assert "Redis 7" in (caught.value.hint or "")


async def test_a_plain_server_is_no_cluster(server: PrivateServer) -> None:
    with pytest.raises(StartProblem, match="no cluster"):
        await connect(server.url.replace("redis://", "redis+cluster://"), wait_ms=WAIT_MS)


# ── TLS ────────────────────────────────────────────────────────────────────────────────────────────────────


def openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=inboxd test CA",
            "-addext", "keyUsage=critical,keyCertSign", "-keyout", folder / "ca.key",
            "-out", folder / "ca.crt")  # fmt: skip
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-keyout", folder / "server.key", "-out", folder / "server.csr")  # fmt: skip
    openssl("x509", "-req", "-days", "2", "-in", folder / "server.csr", "-CA", folder / "ca.crt",
            "-CAkey", folder / "ca.key", "-CAcreateserial", "-copy_extensions", "copy",
            "-out", folder / "server.crt")  # fmt: skip
    return folder


async def test_tls_is_spoken_and_the_certificate_is_checked(certificates: Path) -> None:
    tls_port = free_port()
    options = ("--tls-port", str(tls_port), "--tls-ca-cert-file", str(certificates / "ca.crt"),
               "--tls-cert-file", str(certificates / "server.crt"),
               "--tls-key-file", str(certificates / "server.key"), "--tls-auth-clients", "no")  # fmt: skip
    with contextlib.ExitStack() as stack:
        for binary in filter(None, (BINARY, find_system_binary())):
            with contextlib.suppress(RuntimeError):  # this one was built without TLS
                stack.enter_context(private_server(binary, *options))
                break
        else:
            pytest.skip("no installed server was built with TLS")
        url = f"rediss://127.0.0.1:{tls_port}"
        async with connected(f"{url}?ssl_ca_certs={certificates / 'ca.crt'}") as connection:
            replies = await asyncio.gather(*[connection.call("", "ECHO", number) for number in range(100)])
            assert replies == [str(number).encode() for number in range(100)]
        async with connected(f"{url}?ssl_cert_reqs=none") as connection:
            assert await connection.call("", "PING") == b"PONG"
        with pytest.raises(StartProblem, match="certificate is not accepted"):
            await connect(url, wait_ms=WAIT_MS)


# ── channels ───────────────────────────────────────────────────────────────────────────────────────────────


@both_loops
async def test_a_message_reaches_its_channel_until_it_is_unsubscribed(server: PrivateServer) -> None:
    async with connected(server.url) as connection:
        name, heard = fresh_name(), Listener()
        assert not connection.subscribed(name)
        await connection.subscribe(name, heard.messages.append, heard.gap)
        assert connection.subscribed(name)
        assert await connection.call(name, "SPUBLISH", name, b"one\xff") == 1
        await wait_until(lambda: heard.messages == [b"one\xff"], within_ms=2_000)
        await connection.unsubscribe(name)
        assert not connection.subscribed(name)

        async def nobody_listens() -> bool:
            return bool(await connection.call(name, "SPUBLISH", name, "two") == 0)

        await wait_until(nobody_listens, within_ms=2_000)
        assert (heard.messages, heard.gaps) == ([b"one\xff"], 0)
        await connection.subscribe(name, heard.messages.append, heard.gap)
        await connection.call(name, "SPUBLISH", name, "three")
        await wait_until(lambda: heard.messages[1:] == [b"three"], within_ms=2_000)


async def test_many_channels_share_one_connection_and_a_failing_listener_harms_no_other(
    own_server: PrivateServer,
) -> None:
    async with connected(own_server.url) as connection:
        listeners = {fresh_name(): Listener() for _ in range(200)}
        names = list(listeners)

        def fail(_message: bytes) -> None:
            raise ZeroDivisionError

        await connection.subscribe("fails", fail, fail)  # type: ignore[arg-type]
        await asyncio.gather(
            *[connection.subscribe(name, heard.messages.append, heard.gap) for name, heard in listeners.items()]
        )
        clients = await connection.call("", "CLIENT", "LIST")
        assert clients.count(b"name=inboxd") == 2, "one for commands, one for channels"
        await connection.call("fails", "SPUBLISH", "fails", "x")
        for name in names:
            connection.call(name, "SPUBLISH", name, name)
        await wait_until(
            lambda: all(heard.messages == [name.encode()] for name, heard in listeners.items()),
            within_ms=3_000,
        )
        with pytest.raises(ValueError, match="already has a listener"):
            await connection.subscribe(names[0], fail, fail)  # type: ignore[arg-type]


async def test_a_lost_connection_is_a_gap_and_the_channel_comes_back_by_itself(
    own_server: PrivateServer,
) -> None:
    async with connected(own_server.url) as connection:
        name, heard = fresh_name(), Listener()
        await connection.subscribe(name, heard.messages.append, heard.gap)
        await asyncio.to_thread(own_server.kill)
        await wait_until(lambda: not connection.subscribed(name), within_ms=2_000)
        assert heard.gaps == 1
        await asyncio.to_thread(own_server.start)
        await wait_until(lambda: connection.subscribed(name), within_ms=3_000)
        assert heard.gaps == 2
        assert await connection.call(name, "SPUBLISH", name, "again") == 1
        await wait_until(lambda: heard.messages == [b"again"], within_ms=2_000)


async def test_a_hung_server_is_a_gap_too_and_a_new_channel_cannot_begin(own_server: PrivateServer) -> None:
    async with connected(own_server.url, wait_ms=400) as connection:
        name, heard = fresh_name(), Listener()
        await connection.subscribe(name, heard.messages.append, heard.gap)
        own_server.pause()
        with pytest.raises(StoreUnavailable):
            await connection.subscribe("other", heard.messages.append, heard.gap)
        assert not connection.subscribed("other")
        await wait_until(lambda: heard.gaps == 1, within_ms=2_000)
        own_server.resume()
        await wait_until(lambda: connection.subscribed(name) and heard.gaps == 2, within_ms=4_000)


# ── Cluster ────────────────────────────────────────────────────────────────────────────────────────────────


class ThreeMasters:
    """A cluster of three masters and the means to move a slot by hand."""

    def __init__(self, nodes: list[PrivateServer]) -> None:
        self.nodes = nodes
        self.ids = [str(node.ask("CLUSTER", "MYID")) for node in nodes]
        third = 16384 // 3
        for number, node in enumerate(nodes):
            last = 16383 if number == 2 else (number + 1) * third - 1
            node.ask("CLUSTER", "ADDSLOTSRANGE", number * third, last)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for other in nodes[1:]:
            nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", other.port)
        for node in nodes:
            wait_cluster_ok(node)
            poll_until(partial(self._whole, node), what="the whole map")
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes[:2])

    @staticmethod
    def _whole(node: PrivateServer) -> bool:
        return len(node.ask("CLUSTER", "SLOTS")) == 3

    def owner(self, slot: int) -> int:
        for first, last, master, *_ in self.nodes[0].ask("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(number for number, node in enumerate(self.nodes) if node.port == master[1])
        raise LookupError(slot)

    def begin_move(self, slot: int, source: int, target: int) -> None:
        self.nodes[target].ask("CLUSTER", "SETSLOT", slot, "IMPORTING", self.ids[source])
        self.nodes[source].ask("CLUSTER", "SETSLOT", slot, "MIGRATING", self.ids[target])

    def end_move(self, slot: int, target: int) -> None:
        # The target first: from then on it claims the slot with a higher epoch.
        for number in (target, *(other for other in range(3) if other != target)):
            self.nodes[number].ask("CLUSTER", "SETSLOT", slot, "NODE", self.ids[target])


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreeMasters]:
    with contextlib.ExitStack() as stack:
        nodes = [
            stack.enter_context(
                private_server(BINARY, "--cluster-require-full-coverage", "no", cluster=True, all_slots=False)
            )
            for _ in range(3)
        ]
        yield ThreeMasters(nodes)


async def test_a_cluster_of_one_node_that_announces_no_host_works() -> None:
    with private_server(BINARY, cluster=True) as node:
        async with connected(f"redis+cluster://127.0.0.1:{node.port}") as connection:
            assert await connection.call("k", "SET", "k", "v") == b"OK"
        async with connected(node.url) as connection:
            assert await connection.call("k", "GET", "k") == b"v"


async def test_a_call_goes_to_the_node_of_its_key(cluster: ThreeMasters) -> None:
    async with connected(cluster.url) as connection:
        keys = [fresh_name() for _ in range(60)]
        assert {cluster.owner(key_slot(key.encode())) for key in keys} == {0, 1, 2}
        await asyncio.gather(*[connection.call(key, "SET", key, key) for key in keys])
        replies = await asyncio.gather(*[connection.call(key, "GET", key) for key in keys])
        assert replies == [key.encode() for key in keys]


async def test_a_slot_on_the_move_is_followed_by_ask_and_then_by_moved(cluster: ThreeMasters) -> None:
    key, channel = "{moves}:key", "{moves}:channel"
    slot = key_slot(key.encode())
    source = cluster.owner(slot)
    target = (source + 1) % 3
    async with connected(cluster.url) as connection:
        heard = Listener()
        await connection.subscribe(channel, heard.messages.append, heard.gap)
        await asyncio.to_thread(cluster.begin_move, slot, source, target)
        calls = [connection.call(key, "INCR", key) for _ in range(10)]
        assert await asyncio.gather(*calls) == list(range(1, 11)), "each asked for at the target, in order"
        await asyncio.to_thread(cluster.end_move, slot, target)
        assert await connection.call(key, "INCR", key) == 11
        assert await asyncio.to_thread(cluster.nodes[target].ask, "GET", key) == "11"

        await wait_until(lambda: heard.gaps == 2 and connection.subscribed(channel), within_ms=5_000)
        assert await connection.call(channel, "SPUBLISH", channel, "moved too") == 1
        await wait_until(lambda: heard.messages == [b"moved too"], within_ms=2_000)


async def test_calls_for_a_lost_node_go_to_whoever_takes_its_slot(cluster: ThreeMasters) -> None:
    key, channel = "{orphan}:key", "{orphan}:channel"
    slot = key_slot(key.encode())
    lost = cluster.owner(slot)
    heir = (lost + 1) % 3
    async with connected(cluster.url) as connection:
        heard = Listener()
        await connection.subscribe(channel, heard.messages.append, heard.gap)
        assert await connection.call(key, "SET", key, "1") == b"OK"
        await asyncio.to_thread(cluster.nodes[lost].kill)
        waiting = connection.call(key, "SET", key, "2")
        for survivor in (heir, (lost + 2) % 3):
            await asyncio.to_thread(cluster.nodes[survivor].ask, "CLUSTER", "SETSLOT", slot, "NODE", cluster.ids[heir])
        assert await waiting == b"OK"
        assert await asyncio.to_thread(cluster.nodes[heir].ask, "GET", key) == "2"
        await wait_until(lambda: connection.subscribed(channel), within_ms=5_000)
        assert heard.gaps == 2


# ── Sentinel ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_sentinels_master_is_found_and_followed_through_a_failover() -> None:
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(private_server(BINARY))
        replica = stack.enter_context(private_server(BINARY, "--repl-diskless-sync-delay", "0"))
        master.ask("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        replica.ask("REPLICAOF", "127.0.0.1", master.port)
        poll_until(lambda: "state=online" in str(master.ask("INFO", "replication")), what="an online replica")
        watching = stack.enter_context(private_server(BINARY, sentinel=True))
        watching.ask("SENTINEL", "MONITOR", "letters", "127.0.0.1", master.port, 1)
        watching.ask("SENTINEL", "SET", "letters", "down-after-milliseconds", 500)
        url = f"redis+sentinel://127.0.0.1:{watching.port}"

        with pytest.raises(StartProblem, match="none of them knows"):
            await connect(f"{url}/nobody", wait_ms=WAIT_MS)
        async with connected(f"{url}/letters", wait_ms=10_000) as connection:
            heard = Listener()
            await connection.subscribe("news", heard.messages.append, heard.gap)
            assert await connection.call("k", "SET", "k", "old") == b"OK"
            assert await connection.call("", "WAIT", 1, 5_000) == 1
            poll_until(
                lambda: watching.ask("SENTINEL", "REPLICAS", "letters"),
                what="the sentinel seeing the replica",
            )
            await asyncio.to_thread(watching.ask, "SENTINEL", "FAILOVER", "letters")

            async def follows() -> bool:
                # A fresh value each time: only one that never passed through the old master counts.
                value = uuid.uuid4().hex
                await connection.call("k", "SET", "k", value)
                return await asyncio.to_thread(probe, "GET", "k") == value and is_master()

            def is_master() -> bool:
                return "role:master" in str(probe("INFO", "replication"))

            def probe(*command: str) -> Any:
                # The sentinel throws every client of a new master out once, this one too.
                with contextlib.suppress(redis.ConnectionError):
                    return replica.ask(*command)

            await wait_until(is_master, within_ms=10_000)
            await wait_until(follows, within_ms=5_000)
            await wait_until(lambda: probe("PUBSUB", "SHARDNUMSUB", "news") == ["news", 1], within_ms=5_000)
            await wait_until(lambda: connection.subscribed("news"), within_ms=2_000)
            assert heard.gaps >= 2
