"""Sending: one message stored once, however often it is tried."""

from __future__ import annotations

import pytest

from inboxd.broker import Broker
from inboxd.errors import MessageIdReused, TaskUnknown
from inboxd.model import Identity, NewMessage, NewTask, PullRequest

pytestmark = pytest.mark.anyio


async def test_a_retry_stores_nothing_and_says_so(broker: Broker, admin: Identity) -> None:
    await broker.declare(admin, NewTask(task="backend"))
    new = NewMessage(body="hello", message_id="m-1")
    first = await broker.send(admin, "backend", new)
    again = await broker.send(admin, "backend", new)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert again.message == first.message
    assert again.pending == 1


async def test_the_same_id_with_other_words_is_refused(broker: Broker, admin: Identity) -> None:
    await broker.declare(admin, NewTask(task="backend"))
    await broker.send(admin, "backend", NewMessage(body="hello", message_id="m-1"))
    with pytest.raises(MessageIdReused):
        await broker.send(admin, "backend", NewMessage(body="goodbye", message_id="m-1"))
    batch = await broker.pull(admin, "backend", PullRequest())
    assert [b"hello" in message.doc for message in batch.messages] == [True]


async def test_an_unknown_recipient_bounces_with_the_nearest_names(broker: Broker, admin: Identity) -> None:
    await broker.declare(admin, NewTask(task="backend"))
    with pytest.raises(TaskUnknown) as refusal:
        await broker.send(admin, "bakend", NewMessage(body="hello"))
    assert "backend" in (refusal.value.hint or "")
