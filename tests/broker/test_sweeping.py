"""Sweeping: every deadline that passed, whoever looks, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from inboxd.broker import Broker
from inboxd.model import NewToken
from inboxd.store import keys
from tests.conftest import FixedClock
from tests.support.mail import Mail

pytestmark = pytest.mark.anyio


@dataclass
class HastyClock:
    """A machine whose clock runs ahead of the store's."""

    store: FixedClock
    ahead_ms: int

    def now_ms(self) -> int:
        return self.store.now_ms() + self.ahead_ms

    def learn(self, store_ms: int) -> None:
        self.ahead_ms = store_ms - self.store.now_ms()

    @property
    def for_scripts(self) -> int:
        return self.store.for_scripts


async def test_a_sweep_finds_every_task_with_a_deadline(mail: Mail, clock: FixedClock) -> None:
    tasks = [f"t-{number}" for number in range(120)]
    await asyncio.gather(*(mail.send(f"m-{task}", task=task, create=True, ttl_ms=1_000) for task in tasks))
    assert await mail.broker.sweep(mail.who.namespace) == 0
    clock.pass_ms(1_000)
    assert await mail.broker.sweep(mail.who.namespace) == 120
    assert {await mail.state_of(f"m-{task}") for task in tasks} == {"expired"}
    assert await mail.broker.sweep(mail.who.namespace) == 0


async def test_one_task_with_very_many_deadlines_is_swept_whole(mail: Mail, clock: FixedClock) -> None:
    await asyncio.gather(*(mail.send(f"m-{number}", ttl_ms=1_000) for number in range(1_050)))
    clock.pass_ms(1_000)
    await mail.broker.sweep(mail.who.namespace)
    assert (await mail.pending()).pending == 0


async def test_two_sweeps_at_once_do_no_harm(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("m-1", "m-2")
    await mail.pull(max=1)
    clock.pass_ms(30_000)
    await asyncio.gather(*(mail.broker.sweep(mail.who.namespace) for _ in range(5)))
    counts = await mail.pending()
    assert (counts.pending, counts.held) == (2, 0)
    assert await mail.pulled() == ["m-1", "m-2"]


async def test_a_clock_ahead_of_the_stores_ends_nothing_early_and_is_set_right(mail: Mail, clock: FixedClock) -> None:
    tasks = [f"t-{number}" for number in range(120)]
    await asyncio.gather(*(mail.send(f"m-{task}", task=task, create=True, ttl_ms=1_000) for task in tasks))
    hasty = HastyClock(clock, 60_000)
    async with asyncio.timeout(10):
        assert await Broker(mail.broker.store, mail.broker.settings, hasty).sweep(mail.who.namespace) == 0
    assert {await mail.state_of(f"m-{task}") for task in tasks} == {"queued"}
    assert hasty.now_ms() == clock.now_ms()


async def test_tidying_drops_tokens_long_expired_and_no_others(mail: Mail, clock: FixedClock) -> None:
    namespace, broker = mail.who.namespace, mail.broker
    short = await broker.create_token(mail.who, NewToken(role="observer", ttl_ms=1_000))
    clock.pass_ms(1_000 + broker.settings.retention_ms - 1)
    await broker.tidy(namespace)
    assert short.token_id in await broker.store.tokens(namespace)
    clock.pass_ms(1)
    await broker.tidy(namespace)
    left = await broker.list_tokens(mail.who)
    assert [token.role for token in left] == ["admin"]
    await broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, namespace)


async def test_tidying_drops_what_outlived_its_message(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2")
    await mail.settle("ack", await mail.pull())
    name = keys.key(mail.who.namespace, "msg", message_id="m-1")
    await mail.broker.store.connection.call(name, "DEL", name)
    await mail.broker.tidy(mail.who.namespace)
    timeline = keys.key(mail.who.namespace, "timeline", task_id="backend")
    assert await mail.broker.store.connection.call(timeline, "XLEN", timeline) == 1
