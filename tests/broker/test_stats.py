"""The charts' numbers: what was queued and delivered in each minute, counted by the broker and written down when it sweeps."""

from __future__ import annotations

import pytest

from inboxd.model import NewBroadcast
from tests.conftest import FixedClock
from tests.support.mail import Mail
from tests.support.worker import Worker

pytestmark = pytest.mark.anyio


async def last(mail: Mail, minutes: int = 2) -> list[tuple[int, int, int, int]]:
    rows = await mail.broker.stats(mail.who, minutes)
    return [(row.queued, row.delivered, row.waited_ms, row.pending) for row in rows]


async def test_a_minute_says_what_was_queued_delivered_and_how_long_it_waited(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("m-1", "m-2", "m-2", "m-3")
    await mail.broker.broadcast(mail.who, NewBroadcast(message_id="b", to=["backend", "frontend"], body="x"))
    clock.pass_ms(100)
    batch = await mail.pull(max=2)
    for _ in range(2):
        await mail.settle("ack", batch)
    await mail.broker.sweep(mail.who.namespace)
    assert await last(mail) == [(0, 0, 0, 0), (5, 2, 100, 3)]
    assert await last(mail) == [(0, 0, 0, 0), (5, 2, 100, 3)], "looking adds nothing"
    clock.pass_ms(60_000)
    await mail.send("m-4")
    await mail.settle("seen", await mail.pull(max=1))
    assert await last(mail) == [(5, 2, 100, 3), (1, 1, 60_100, 0)]


async def test_words_of_threads_count_when_they_are_mail(mail: Mail, leader: Worker, worker: Worker) -> None:
    for _ in range(2):
        await leader.open()
    await worker.claim()
    await worker.update()
    await worker.ask("?")
    await worker.mail()
    assert (await last(mail))[1][:2] == (2, 1)


async def test_what_two_brokers_counted_is_added_up(mail: Mail) -> None:
    from inboxd.broker import Broker

    twin = Mail(Broker(mail.broker.store, mail.broker.settings, mail.broker.clock), mail.who)
    await mail.send("m-1")
    await twin.send("m-2")
    await twin.broker.sweep(mail.who.namespace)
    assert (await last(mail))[1][0] == 2
