"""The data version: a newer store is refused, an older one is brought up to date step by step, anything else is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from inboxd.errors import StartProblem
from inboxd.store import keys
from inboxd.store.connection import Connection, connect
from inboxd.store.versions import DATA_VERSION, STEPS, settle_version
from tests.support.servers import PrivateServer, find_server_binary, private_server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def own_server() -> Iterator[PrivateServer]:
    """Of its own: the version is one key for a whole store."""
    with private_server(find_server_binary()) as server:
        yield server


@pytest.fixture
async def fresh(own_server: PrivateServer) -> AsyncIterator[Connection]:
    own_server.ask("DEL", keys.VERSION)
    opened = await connect(own_server.url, wait_ms=5_000)
    yield opened
    await opened.close()


async def version(connection: Connection) -> bytes:
    found: bytes = await connection.call(keys.VERSION, "GET", keys.VERSION)
    return found


async def test_a_fresh_store_gets_this_version(fresh: Connection) -> None:
    await settle_version(fresh)
    assert await version(fresh) == b"%d" % DATA_VERSION
    await settle_version(fresh)


async def test_every_version_before_this_one_has_a_step(fresh: Connection) -> None:
    assert sorted(STEPS) == list(range(1, DATA_VERSION))


async def test_an_older_store_is_brought_up_to_date_step_by_step(fresh: Connection) -> None:
    done: list[tuple[int, bytes]] = []

    async def from_one(connection: Connection) -> None:
        done.append((1, await version(connection)))

    async def from_two(connection: Connection) -> None:
        done.append((2, await version(connection)))

    await settle_version(fresh, wanted=1, steps={})
    await settle_version(fresh, wanted=3, steps={1: from_one, 2: from_two})
    assert done == [(1, b"1"), (2, b"2")]
    assert await version(fresh) == b"3"


async def test_a_step_that_failed_is_done_again_at_the_next_start(fresh: Connection) -> None:
    tries = 0

    async def fails_once(_: Connection) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise ConnectionError

    await settle_version(fresh, wanted=1, steps={})
    with pytest.raises(ConnectionError):
        await settle_version(fresh, wanted=2, steps={1: fails_once})
    assert await version(fresh) == b"1"
    await settle_version(fresh, wanted=2, steps={1: fails_once})
    assert (tries, await version(fresh)) == (2, b"2")


async def test_a_missing_step_is_refused_before_anything_changes(fresh: Connection) -> None:
    await settle_version(fresh, wanted=1, steps={})
    with pytest.raises(StartProblem):
        await settle_version(fresh, wanted=2, steps={})
    assert await version(fresh) == b"1"


@pytest.mark.parametrize("found", ["2", "999999999999999999999", "banana", "", "-1", "1.0", "\u00b2"])
async def test_a_newer_store_and_one_that_is_none_of_ours_are_refused_and_left_alone(
    fresh: Connection, found: str
) -> None:
    await fresh.call(keys.VERSION, "SET", keys.VERSION, found)
    with pytest.raises(StartProblem):
        await settle_version(fresh, wanted=1, steps={})
    assert await version(fresh) == found.encode()
