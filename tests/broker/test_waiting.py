"""Waiting: blocked callers wake by event, look again, and never miss what came in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from inboxd.broker import Broker
from inboxd.settings import Settings
from inboxd.store.connection import connect
from inboxd.store.store import Store
from tests.conftest import FixedClock
from tests.support.mail import Mail, ids
from tests.support.servers import PrivateServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

LONG_MS = 30_000
SOON_S = 10


@pytest.fixture
async def far(server: PrivateServer, settings: Settings, clock: FixedClock, mail: Mail) -> AsyncIterator[Mail]:
    """The same caller at another inboxd, which shares nothing but the store."""
    connection = await connect(server.url, wait_ms=5_000)
    made = Mail(Broker(Store(connection, settings), settings, clock), mail.who)
    yield made
    made.broker.close()
    await connection.close()


async def waiting(mail: Mail, callers: int = 1) -> None:
    """Until so many callers wait, heard by the store."""
    listening = mail.broker.store.subscribed
    await wait_until(
        lambda: mail.broker.waiting.count() == callers and listening("events", mail.who.namespace), within_ms=5_000
    )


async def test_a_waiting_pull_wakes_when_mail_is_sent_from_elsewhere(mail: Mail, far: Mail) -> None:
    async with asyncio.timeout(SOON_S):
        pulling = asyncio.create_task(mail.pull(wait_ms=LONG_MS))
        await waiting(mail)
        await far.send("m-1")
        assert ids(await pulling) == ["m-1"]
    assert mail.broker.waiting.count() == 0


async def test_a_pull_with_mail_there_does_not_wait(mail: Mail) -> None:
    await mail.send("m-1")
    async with asyncio.timeout(SOON_S):
        assert ids(await mail.pull(wait_ms=LONG_MS)) == ["m-1"]


async def test_a_pull_whose_time_is_up_comes_back_empty(mail: Mail) -> None:
    batch = await mail.pull(wait_ms=50)
    assert (batch.messages, batch.receipt) == ([], None)


async def test_mail_for_another_task_or_too_low_wakes_nobody_for_good(mail: Mail, far: Mail) -> None:
    async with asyncio.timeout(SOON_S):
        pulling = asyncio.create_task(mail.pull(wait_ms=LONG_MS, min_priority="urgent"))
        await waiting(mail)
        await far.send("other", task="frontend")
        await far.send("low")
        await far.send("urgent", priority="urgent")
        assert ids(await pulling) == ["urgent"]


async def test_each_message_goes_to_one_of_many_that_wait(mail: Mail, far: Mail) -> None:
    async with asyncio.timeout(SOON_S):
        pulls = [asyncio.create_task(mail.pull(f"s-{number}", wait_ms=LONG_MS, max=1)) for number in range(5)]
        await waiting(mail, 5)
        for number in range(5):
            await far.send(f"m-{number}")
        got = [ids(batch) for batch in await asyncio.gather(*pulls)]
    assert sorted(got) == [[f"m-{number}"] for number in range(5)]


async def test_a_pull_wakes_when_a_hold_is_swept_back(mail: Mail, far: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    await far.pull("s-far")
    async with asyncio.timeout(SOON_S):
        pulling = asyncio.create_task(mail.pull(wait_ms=LONG_MS))
        await waiting(mail)
        clock.pass_ms(30_000)
        assert await far.broker.sweep(mail.who.namespace) >= 1
        assert ids(await pulling) == ["m-1"]


async def test_a_pull_wakes_on_release_and_on_requeue(mail: Mail, far: Mail) -> None:
    await mail.send("m-1")
    for number in range(4):
        await far.settle("release", await far.pull("s-far", pull_id=f"p-{number}"))
    held = await far.pull("s-far")
    async with asyncio.timeout(SOON_S):
        pulling = asyncio.create_task(mail.pull(wait_ms=LONG_MS))
        await waiting(mail)
        await far.settle("release", held)
        assert await mail.state_of("m-1") == "dead"
        await far.broker.requeue(far.who, "m-1")
        assert ids(await pulling) == ["m-1"]


async def test_a_waiting_count_wakes_when_mail_comes(mail: Mail, far: Mail) -> None:
    async with asyncio.timeout(SOON_S):
        counting = asyncio.create_task(mail.broker.pending(mail.who, "backend", wait_ms=LONG_MS))
        await waiting(mail)
        await far.send("m-1")
        assert (await counting).pending == 1
    assert (await mail.broker.pending(mail.who, "frontend", wait_ms=50)).pending == 0


async def test_closing_lets_every_waiter_go(mail: Mail) -> None:
    async with asyncio.timeout(SOON_S):
        pulls = [asyncio.create_task(mail.pull(f"s-{number}", wait_ms=LONG_MS)) for number in range(3)]
        await waiting(mail, 3)
        mail.broker.close()
        assert [batch.messages for batch in await asyncio.gather(*pulls)] == [[], [], []]
        assert (await mail.pull(wait_ms=LONG_MS)).messages == []


async def test_a_cancelled_waiter_leaves_nothing_behind_and_takes_nothing(mail: Mail, far: Mail) -> None:
    async with asyncio.timeout(SOON_S):
        pulling = asyncio.create_task(mail.pull(wait_ms=LONG_MS))
        await waiting(mail)
        pulling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pulling
        assert mail.broker.waiting.count() == 0
        await far.send("m-1")
        assert await far.pulled() == ["m-1"]


async def test_a_lost_subscription_wakes_whoever_waits_and_is_made_again(
    server: PrivateServer, mail: Mail, far: Mail
) -> None:
    async with asyncio.timeout(SOON_S):
        for number in range(3):
            pulling = asyncio.create_task(mail.pull(wait_ms=LONG_MS))
            await waiting(mail)
            server.ask("CLIENT", "KILL", "TYPE", "pubsub")
            await far.send(f"m-{number}")
            assert ids(await pulling) == [f"m-{number}"]


async def test_a_wait_is_no_longer_than_the_broker_allows(mail: Mail) -> None:
    short = Mail(Broker(mail.broker.store, Settings(wait_ms_max=30), mail.broker.clock), mail.who)
    async with asyncio.timeout(SOON_S):
        assert (await short.pull(wait_ms=3_600_000)).messages == []
    short.broker.close()
