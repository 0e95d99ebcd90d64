"""What every test stands on: a real private server, a namespace of one's own, a clock in one's hand.

The server is a single-node cluster that owns all slots: a plain client works against it, and every key that strays from its
namespace's slot fails in the ordinary run. It is started by the tests and shared by all tests of one process; nobody ever
flushes it. After each test a leak checker asks whether every key left behind is a row of keys.py, bounded as its row says.
"""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from inboxd.broker import Broker, owner
from inboxd.model import Identity, NewToken
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.connection import Connection, connect
from inboxd.store.store import Store
from tests.support.containers import ContainedServer, contained_server, engine_problem
from tests.support.leaks import leaked
from tests.support.servers import PrivateServer, find_server_binary, find_system_binary, private_server

for name in list(os.environ):
    if name.startswith(("INBOXD_", "INBOX_")) or name in ("REDIS_URL", "PORT"):
        del os.environ[name]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # A shell that starts this beside other work has Ctrl-C ignored, and whatever is started from here would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

START_MS = 1_800_000_000_000
"""When every test begins."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="chaos at full length")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was not tested stands last, where nobody overlooks it."""
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    reasons = {why[2].removeprefix("Skipped: ") for why in skipped if isinstance(why, tuple)}
    for reason in sorted(one for one in reasons if one.startswith("NOT TESTED")):
        terminalreporter.write_line(reason, red=True, bold=True)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


def _kinds() -> list[Any]:
    system = find_system_binary()
    absent = pytest.mark.skip(reason="NOT TESTED on redis-server: none is installed")
    return [
        pytest.param("valkey", marks=pytest.mark.xdist_group("valkey")),
        pytest.param("redis", marks=[pytest.mark.xdist_group("redis"), *([] if system else [absent])]),
        # Where no engine runs, tests/deploy says so once, and not each of a thousand tests.
        *([] if engine_problem() else [pytest.param("container", marks=pytest.mark.xdist_group("container"))]),
    ]


@pytest.fixture(scope="session", params=_kinds())
def server(request: pytest.FixtureRequest) -> Iterator[PrivateServer | ContainedServer]:
    """The private server; tests that use it run once for each kind there is."""
    if request.param == "container":
        with contained_server() as contained:
            yield contained
        return
    binary = find_server_binary() if request.param == "valkey" else find_system_binary()
    assert binary is not None
    with private_server(binary, cluster=True) as running:
        yield running


@dataclass
class FixedClock:
    """Time is an argument: it moves when a test says so."""

    at_ms: int = START_MS

    def now_ms(self) -> int:
        return self.at_ms

    def learn(self, store_ms: int) -> None:
        """The store is told the time, never asked."""

    @property
    def for_scripts(self) -> int:
        return self.at_ms

    def pass_ms(self, passed_ms: int) -> None:
        self.at_ms += passed_ms


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def settings() -> Settings:
    """As they come, but that a message is dead sooner: a test of it should not be long."""
    return Settings(attempts_max=5)


@pytest.fixture
async def connection(server: PrivateServer, anyio_backend: Any) -> AsyncIterator[Connection]:
    opened = await connect(server.url, wait_ms=5_000)
    yield opened
    await opened.close()


@pytest.fixture
async def namespace(connection: Connection) -> AsyncIterator[str]:
    """A namespace no other test knows; what the test leaves in it is checked against the schema."""
    name = f"t-{uuid.uuid4().hex[:16]}"
    yield name
    assert await leaked(connection, name) == []


@pytest.fixture
def store(connection: Connection, settings: Settings) -> Store:
    return Store(connection, settings)


@pytest.fixture
async def broker(store: Store, settings: Settings, clock: FixedClock) -> AsyncIterator[Broker]:
    made = Broker(store, settings, clock)
    yield made
    made.close()


@pytest.fixture
async def admin(broker: Broker, namespace: str) -> Identity:
    """Somebody who may do everything, in a namespace that is open."""
    who = owner(namespace)
    await broker.create_token(who, NewToken(role="admin"))
    await broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, namespace)
    return who


def agent_of(who: Identity, task: str) -> Identity:
    return Identity(who.namespace, "agent", task, "0" * 12, None)


@pytest.fixture
def agent(admin: Identity) -> Identity:
    """The agent of the task `backend`."""
    return agent_of(admin, "backend")
