"""History: both ways, newest first, and looking never consumes."""

from __future__ import annotations

import pytest

from inboxd.broker.history import Filters
from inboxd.errors import CursorInvalid, MessageState, MessageUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.mail import Mail, ids
from tests.support.state import snapshot

pytestmark = pytest.mark.anyio


async def pages(mail: Mail, task: str = "backend", *, limit: int = 3, only: Filters | None = None) -> list[list[str]]:
    found, cursor = [], None
    while True:
        rows, cursor = await mail.broker.timeline(mail.who, task, limit=limit, cursor=cursor, only=only or Filters())
        found.append(ids(rows))
        if cursor is None:
            return found


async def some(mail: Mail, **only: str) -> list[str]:
    return [one for page in await pages(mail, only=Filters(**only)) for one in page]


async def test_a_timeline_shows_what_came_and_what_went_newest_first(mail: Mail, backend: Mail) -> None:
    await mail.send("in-1")
    await backend.send("out-1", task="frontend")
    await mail.send("in-2")
    await backend.send("to-itself")
    assert await some(mail) == ["to-itself", "in-2", "out-1", "in-1"]
    assert (await pages(mail, "frontend")) == [["out-1"]]


async def test_pages_show_every_message_once_while_new_ones_arrive(mail: Mail) -> None:
    await mail.send_all(*(f"m-{number}" for number in range(8)))
    rows, cursor = await mail.broker.timeline(mail.who, "backend", limit=3)
    seen = ids(rows)
    await mail.send_all("new-1", "new-2")
    while cursor is not None:
        rows, cursor = await mail.broker.timeline(mail.who, "backend", limit=3, cursor=cursor)
        seen += ids(rows)
    assert seen == [f"m-{number}" for number in range(7, -1, -1)]


async def test_looking_never_consumes(mail: Mail, backend: Mail) -> None:
    await mail.send_all("m-1", "m-2", "m-3")
    await mail.pull(max=1)
    before = await snapshot(mail.broker.store.connection, mail.who.namespace)
    for who in (mail, backend):
        await pages(who)
        await who.show("m-1")
        await who.pending()
        await who.task()
        await who.broker.list_tasks(who.who, limit=10)
        await who.broker.attention(who.who)
    assert await snapshot(mail.broker.store.connection, mail.who.namespace) == before


async def test_filters_choose(mail: Mail, backend: Mail) -> None:
    await mail.send("plain")
    await mail.send("urgent", priority="urgent", kind="control")
    await mail.send("user", sender="user", kind="question", thread_id="t-1")
    await backend.send("out", task="frontend", kind="answer", thread_id="t-1")
    await mail.settle("ack", await mail.pull(max=1))
    assert await some(mail, state="delivered") == ["urgent"]
    assert await some(mail, state="queued,delivered", sender="operator") == ["urgent", "plain"]
    assert await some(mail, kind="question,answer") == ["out", "user"]
    assert await some(mail, priority="urgent") == ["urgent"]
    assert await some(mail, direction="in") == ["user", "urgent", "plain"]
    assert await some(mail, direction="out") == ["out"]
    assert await some(mail, thread_id="t-1") == ["out", "user"]
    assert await some(mail, sender="user", state="seen") == []
    assert await pages(mail, "user", only=Filters(direction="out")) == [["user"]]


async def test_a_filter_matches_whole_words(mail: Mail) -> None:
    await mail.send("m-1")
    assert await some(mail, sender="operat") == []
    assert await some(mail, sender="oper.tor") == []


async def test_a_foreign_cursor_is_refused(mail: Mail) -> None:
    for number in range(4):
        await mail.send(f"m-{number}")
    of_tasks = (await mail.broker.list_tasks(mail.who, limit=1)).next_cursor
    for cursor in ("x", "", of_tasks):
        with pytest.raises(CursorInvalid):
            await mail.broker.timeline(mail.who, "backend", limit=1, cursor=cursor)


async def test_a_message_tells_every_step_it_took(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    clock.pass_ms(10)
    await mail.pull()
    clock.pass_ms(30_000)
    await mail.broker.sweep(mail.who.namespace)
    await mail.pull("s-2", pull_id="p-2", ack=True)
    clock.pass_ms(5)
    await mail.settle("seen", "m-1", session="s-2")
    message, steps = await mail.broker.show(mail.who, "m-1")
    assert steps == [
        (START_MS, "queued", "operator"),
        (START_MS + 10, "in_flight", "s-1"),
        (START_MS + 30_010, "queued", "hold_ran_out"),
        (START_MS + 30_010, "in_flight", "s-2"),
        (START_MS + 30_010, "delivered", "s-2"),
        (START_MS + 30_015, "seen", "s-2"),
    ]
    assert message.state == b"seen"


async def test_an_unknown_message_is_refused(mail: Mail) -> None:
    with pytest.raises(MessageUnknown):
        await mail.show("nothing")
    with pytest.raises(MessageUnknown):
        await mail.broker.requeue(mail.who, "nothing")


async def test_only_a_dead_letter_is_requeued(mail: Mail) -> None:
    await mail.send("m-1")
    await mail.settle("ack", await mail.pull())
    with pytest.raises(MessageState):
        await mail.broker.requeue(mail.who, "m-1")


async def test_a_settled_message_stays_readable_for_its_time(mail: Mail) -> None:
    await mail.send("m-1")
    await mail.settle("ack", await mail.pull())
    rows, _ = await mail.broker.timeline(mail.who, "backend", limit=5)
    assert ids(rows) == ["m-1"]
