"""To peers and to many: all or none, and a retry reaches whom the first try reached."""

from __future__ import annotations

import pytest

from inboxd.broker import Broker
from inboxd.errors import BroadcastTooWide, MessageIdReused, NoPeer, TaskUnknown
from inboxd.model import NewBroadcast, NewPeerMessage
from inboxd.settings import Settings
from tests.support.mail import Mail, ids, shown

pytestmark = pytest.mark.anyio


async def cast(mail: Mail, message_id: str = "b-1", **fields: object) -> tuple[bool, list[str]]:
    new = NewBroadcast.model_validate({"message_id": message_id, "body": "hello", "to": "all", **fields})
    duplicate, answers = await mail.broker.broadcast(mail.who, new)
    return duplicate, [shown(answer.message)["task"] for answer in answers]


async def to_peers(mail: Mail, message_id: str = "p-1", **fields: object) -> tuple[bool, list[str]]:
    new = NewPeerMessage.model_validate({"message_id": message_id, "body": "hello", **fields})
    duplicate, answers = await mail.broker.send_to_peers(mail.who, "backend", new)
    return duplicate, [shown(answer.message)["task"] for answer in answers]


async def test_everyone_named_gets_a_copy_with_an_id_of_its_own(mail: Mail) -> None:
    assert await cast(mail, to=["backend", "frontend", "backend"]) == (False, ["backend", "frontend"])
    assert await mail.pulled() == ["b-1:backend"]
    assert await mail.pulled(task="frontend") == ["b-1:frontend"]


async def test_one_unknown_name_and_nobody_gets_it(mail: Mail) -> None:
    with pytest.raises(TaskUnknown) as refusal:
        await cast(mail, to=["backend", "fronted"])
    assert "frontend" in (refusal.value.hint or "")
    assert (await mail.pending()).pending == 0
    assert await cast(mail, to=["backend", "new"], create=True) == (False, ["backend", "new"])


async def test_all_is_every_task_but_the_sender_the_person_and_the_terminated(mail: Mail, backend: Mail) -> None:
    await mail.declare("third", "over")
    await mail.presence("terminated", task="over")
    assert sorted((await cast(backend))[1]) == ["frontend", "third"]
    assert sorted((await cast(mail, "b-2"))[1]) == ["backend", "frontend", "third"]


async def test_a_retry_reaches_whom_the_first_try_reached_though_tasks_have_come_and_gone(mail: Mail) -> None:
    await mail.declare("third")
    _, first = await cast(mail)
    await mail.declare("late")
    await mail.presence("terminated", task="frontend")
    duplicate, again = await cast(mail)
    assert (duplicate, sorted(again)) == (True, sorted(first))
    assert (await mail.pending("late")).pending == 0
    assert (await mail.pending()).pending == 1


async def test_a_retry_with_other_words_or_another_aim_is_refused(mail: Mail) -> None:
    await cast(mail, to=["backend", "frontend"])
    with pytest.raises(MessageIdReused):
        await cast(mail, to=["backend", "frontend"], body="goodbye")
    with pytest.raises(MessageIdReused):
        await cast(mail, to=["backend"])
    with pytest.raises(MessageIdReused):
        await cast(mail)


async def test_a_broadcast_to_nobody_reaches_nobody(mail: Mail) -> None:
    for task in ("backend", "frontend"):
        await mail.presence("terminated", task=task)
    assert await cast(mail) == (False, [])
    await mail.declare("late")
    assert await cast(mail) == (True, [])


async def test_a_broadcast_that_reaches_too_many_is_refused(mail: Mail) -> None:
    narrow = Mail(Broker(mail.broker.store, Settings(broadcast_max=2), mail.broker.clock), mail.who)
    assert sorted((await cast(narrow))[1]) == ["backend", "frontend"]
    await mail.declare("third")
    with pytest.raises(BroadcastTooWide):
        await cast(narrow, "b-2")
    with pytest.raises(BroadcastTooWide):
        await cast(narrow, "b-2", to=["backend", "frontend", "third"])


async def test_terminated_tasks_do_not_hide_others_from_a_broadcast(mail: Mail) -> None:
    narrow = Mail(Broker(mail.broker.store, Settings(broadcast_max=2), mail.broker.clock), mail.who)
    over = [f"over-{number}" for number in range(6)]
    await mail.declare(*over)
    mail.broker.clock.pass_ms(1)  # type: ignore[attr-defined]
    for task in over:
        await mail.presence("heartbeat", task=task)  # more lately active than the living
        await mail.presence("terminated", task=task)
    assert sorted((await cast(narrow))[1]) == ["backend", "frontend"]


async def test_a_message_to_the_peers_reaches_all_of_them_in_the_tasks_own_name(mail: Mail, backend: Mail) -> None:
    await mail.broker.link(mail.who, "backend", ["frontend", "not-started"])
    assert await to_peers(backend) == (False, ["frontend", "not-started"])
    batch = await mail.pull(task="not-started")
    assert ids(batch) == ["p-1:not-started"]
    assert shown(batch.messages[0])["sender"] == "task:backend"


async def test_a_message_to_one_peer_keeps_its_id(mail: Mail, backend: Mail) -> None:
    await mail.broker.link(mail.who, "backend", ["frontend", "third"])
    assert await to_peers(backend, to="frontend") == (False, ["frontend"])
    assert await mail.pulled(task="frontend") == ["p-1"]
    assert (await mail.pending("third")).pending == 0


async def test_a_peer_that_has_not_started_gets_its_mail_when_it_does(mail: Mail, backend: Mail) -> None:
    await mail.broker.link(mail.who, "backend", ["new"])
    await to_peers(backend)
    assert (await mail.task("new")).state == "queued"
    await mail.presence("start", task="new")
    assert await mail.pulled(task="new") == ["p-1"]


async def test_a_retry_to_the_peers_reaches_the_same(mail: Mail, backend: Mail) -> None:
    await mail.broker.link(mail.who, "backend", ["frontend"])
    await to_peers(backend)
    await mail.broker.link(mail.who, "backend", ["third"])
    assert await to_peers(backend) == (True, ["frontend"])
    assert (await mail.pending("third")).pending == 0


async def test_without_such_a_peer_it_is_refused(mail: Mail, backend: Mail) -> None:
    with pytest.raises(NoPeer):
        await to_peers(backend)
    await mail.broker.link(mail.who, "backend", ["third"])
    with pytest.raises(NoPeer) as refusal:
        await to_peers(backend, to="frontend")
    assert "third" in (refusal.value.hint or "")
    with pytest.raises(TaskUnknown):
        await mail.broker.send_to_peers(mail.who, "ghost", NewPeerMessage(body="x"))
