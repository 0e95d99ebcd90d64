"""Tasks: declared, listed, linked, changed, removed; and who is there."""

from __future__ import annotations

import asyncio

import pytest

from inboxd.errors import CursorInvalid, InvalidRequest, TaskNotEmpty, TaskReserved, TaskUnknown
from inboxd.model import NewTask, TaskChange
from tests.conftest import FixedClock
from tests.support.mail import Mail

pytestmark = pytest.mark.anyio

IDLE_MS = 300_000


async def names(mail: Mail, **how: object) -> list[str]:
    page = await mail.broker.list_tasks(mail.who, limit=100, **how)  # type: ignore[arg-type]
    return [task.task for task in page.tasks]


async def test_declaring_again_finds_the_same_task(mail: Mail, clock: FixedClock) -> None:
    first, created = await mail.broker.declare(mail.who, NewTask(task="api", title="The API"))
    clock.pass_ms(1_000)
    again, created_again = await mail.broker.declare(mail.who, NewTask(task="api"))
    assert (created, created_again) == (True, False)
    assert again == first


async def test_declaring_keeps_mail_and_state(mail: Mail) -> None:
    await mail.send("m-1")
    await mail.presence("start")
    task, _ = await mail.broker.declare(mail.who, NewTask(task="backend", title="New title"))
    assert (task.title, task.pending, task.state) == ("New title", 1, "active")


async def test_the_person_has_an_inbox_from_the_start(mail: Mail) -> None:
    assert "user" in await names(mail)
    await mail.send("m-1", task="user")
    assert await mail.pulled(task="user") == ["m-1"]


async def test_peers_know_each_other(mail: Mail) -> None:
    await mail.broker.declare(mail.who, NewTask(task="backend", peers=["frontend"]))
    await mail.broker.link(mail.who, "backend", ["new"])
    assert (await mail.task()).peers == ["frontend", "new"]
    assert (await mail.task("frontend")).peers == ["backend"]
    assert (await mail.task("new")).peers == ["backend"]


async def test_changing_peers_replaces_the_whole_list_on_both_sides(mail: Mail) -> None:
    await mail.broker.link(mail.who, "backend", ["frontend", "a"])
    changed = await mail.broker.change(mail.who, "backend", TaskChange(peers=["a", "b"]))
    assert changed.peers == ["a", "b"]
    assert (await mail.task("frontend")).peers == []
    assert (await mail.task("b")).peers == ["backend"]
    assert (await mail.broker.change(mail.who, "backend", TaskChange(peers=[]))).peers == []
    assert (await mail.task("a")).peers == []


async def test_a_change_leaves_what_it_does_not_name(mail: Mail) -> None:
    await mail.broker.declare(mail.who, NewTask(task="backend", title="Old", peers=["frontend"]))
    assert (await mail.broker.change(mail.who, "backend", TaskChange(title="New"))).peers == ["frontend"]
    assert (await mail.broker.change(mail.who, "backend", TaskChange(peers=[]))).title == "New"
    assert (await mail.broker.change(mail.who, "backend", TaskChange(title=""))).title == ""


async def test_nobody_is_its_own_peer(mail: Mail) -> None:
    for attempt in (
        mail.broker.declare(mail.who, NewTask(task="backend", peers=["backend"])),
        mail.broker.change(mail.who, "backend", TaskChange(peers=["backend"])),
        mail.broker.link(mail.who, "backend", ["backend"]),
    ):
        with pytest.raises(InvalidRequest):
            await attempt


async def test_an_unknown_task_bounces_everywhere_with_the_nearest_names(mail: Mail) -> None:
    for attempt in (
        mail.broker.show_task(mail.who, "backed"),
        mail.broker.change(mail.who, "backed", TaskChange(title="x")),
        mail.broker.link(mail.who, "backed", ["frontend"]),
        mail.broker.remove(mail.who, "backed", force=True),
        mail.presence("heartbeat", task="backed"),
        mail.broker.timeline(mail.who, "backed", limit=1),
        mail.pull(task="backed"),
    ):
        with pytest.raises(TaskUnknown) as refusal:
            await attempt
        assert "backend" in (refusal.value.hint or "")


async def test_the_list_is_sorted_by_urgency(mail: Mail, clock: FixedClock) -> None:
    await mail.declare("asks", "urgent", "dead", "waits", "much", "little", "silent", "over")
    await mail.presence("waiting", task="asks", detail="May I?")
    await mail.send("u", task="urgent", priority="urgent")
    await mail.send("w", task="backend", sender="task:waits", awaiting_response=True)
    await mail.settle("ack", await mail.pull())
    await mail.send("d", task="dead")
    for _ in range(mail.broker.settings.attempts_max):
        await mail.settle("release", await mail.pull(task="dead"), task="dead")
    await mail.send_all("m-1", "m-2", task="much")
    await mail.send("l", task="little")
    await mail.send("o", task="over", priority="urgent")
    await mail.presence("terminated", task="over")
    assert [name for name in await names(mail) if name not in ("backend", "frontend", "user")] == [
        "asks", "urgent", "dead", "waits", "much", "little", "silent", "over",
    ]  # fmt: skip


async def test_a_list_can_be_of_one_state(mail: Mail) -> None:
    await mail.presence("start")
    await mail.presence("terminated", task="frontend")
    assert await names(mail, state="active") == ["backend"]
    assert await names(mail, state="terminated") == ["frontend"]
    assert await names(mail, state="queued") == ["user"]


async def test_pages_show_every_task_once(mail: Mail) -> None:
    await mail.declare(*(f"t-{number:02}" for number in range(23)))
    for number in range(0, 23, 3):
        await mail.send(f"m-{number}", task=f"t-{number:02}")
    seen: list[str] = []
    cursor = None
    while True:
        page = await mail.broker.list_tasks(mail.who, limit=4, cursor=cursor)
        assert len(page.tasks) <= 4
        seen += [task.task for task in page.tasks]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == await names(mail)


async def test_pages_go_on_while_things_change(mail: Mail) -> None:
    """What stands still is shown exactly once, though the row the last page ended with was removed and others moved."""
    await mail.declare(*(f"t-{number:02}" for number in range(12)))
    seen: list[str] = []
    cursor = None
    for number in range(20):
        page = await mail.broker.list_tasks(mail.who, limit=3, cursor=cursor)
        seen += [task.task for task in page.tasks]
        cursor = page.next_cursor
        if cursor is None:
            break
        if number == 1:
            await mail.broker.remove(mail.who, seen[-1], force=False)
            await mail.send("m-1", task=seen[0])
            await mail.declare("zz-new")
    assert len(seen) == len(set(seen))
    assert set(seen) >= {f"t-{number:02}" for number in range(12)}
    assert "zz-new" in seen


@pytest.mark.parametrize("cursor", ["", "nonsense", "é", "W10", "WyJ0aW1lbGluZSIsM10", "A" * 5_000])
async def test_a_cursor_of_another_making_is_refused(mail: Mail, cursor: str) -> None:
    with pytest.raises(CursorInvalid):
        await mail.broker.list_tasks(mail.who, limit=3, cursor=cursor)


async def test_a_task_with_mail_is_removed_only_by_force(mail: Mail) -> None:
    await mail.send_all("queued", "held")
    await mail.pull(max=1)
    with pytest.raises(TaskNotEmpty):
        await mail.broker.remove(mail.who, "backend", force=False)
    assert (await mail.pending()).pending == 1
    assert (await mail.broker.remove(mail.who, "backend", force=True)).dropped == 2
    gone = await mail.show("held")
    assert (gone["state"], gone["reason"]) == ("expired", "task_removed")
    with pytest.raises(TaskUnknown):
        await mail.task()


async def test_an_empty_task_is_removed_and_its_messages_stay_readable(mail: Mail) -> None:
    await mail.broker.link(mail.who, "backend", ["frontend"])
    await mail.send("m-1")
    await mail.settle("ack", await mail.pull())
    assert (await mail.broker.remove(mail.who, "backend", force=False)).dropped == 0
    assert await mail.state_of("m-1") == "delivered"
    assert (await mail.task("frontend")).peers == []


async def test_a_task_with_very_much_mail_is_removed_in_one_call(mail: Mail) -> None:
    await asyncio.gather(*(mail.send(f"m-{number}") for number in range(1_100)))
    await mail.pull(max=100)
    assert (await mail.broker.remove(mail.who, "backend", force=True)).dropped == 1_100
    assert "backend" not in await names(mail)


async def test_a_task_that_comes_again_starts_empty(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2", topic="t")
    await mail.broker.remove(mail.who, "backend", force=True)
    await mail.declare("backend")
    task = await mail.task()
    assert (task.pending, task.held, task.state) == (0, 0, "queued")
    await mail.send("m-3", topic="t")
    assert await mail.pulled() == ["m-3"]


async def test_the_person_cannot_be_removed_or_terminated(mail: Mail) -> None:
    with pytest.raises(TaskReserved):
        await mail.broker.remove(mail.who, "user", force=True)
    with pytest.raises(TaskReserved):
        await mail.presence("terminated", task="user")


async def test_a_task_is_queued_then_active_then_idle_then_active_again(mail: Mail, clock: FixedClock) -> None:
    assert (await mail.task()).state == "queued"
    assert (await mail.presence("start")).state == "active"
    clock.pass_ms(IDLE_MS - 1)
    assert (await mail.task()).state == "active"
    clock.pass_ms(1)
    assert (await mail.task()).state == "idle"
    await mail.broker.sweep(mail.who.namespace)
    assert (await mail.task()).state == "idle"
    await mail.pull()
    assert (await mail.task()).state == "active"


async def test_a_sign_of_life_is_a_pull_a_send_or_a_heartbeat(mail: Mail, backend: Mail, clock: FixedClock) -> None:
    for act in (
        mail.pull,
        lambda: backend.send(f"m-{clock.now_ms()}", task="frontend"),
        lambda: mail.presence("heartbeat"),
    ):
        clock.pass_ms(IDLE_MS)
        assert (await mail.task()).state in ("queued", "idle")
        await act()
        task = await mail.task()
        assert (task.state, task.last_heard_ms) == ("active", clock.now_ms())


async def test_looking_is_no_sign_of_life(mail: Mail) -> None:
    await mail.pending()
    await mail.broker.timeline(mail.who, "backend", limit=5)
    await mail.send("m-1")
    assert (await mail.task()).last_heard_ms is None


async def test_a_session_that_ends_leaves_its_task_idle(mail: Mail) -> None:
    await mail.presence("start", machine="laptop", host="claude")
    task = await mail.task()
    assert (task.session, task.machine, task.host) == ("s-1", "laptop", "claude")
    assert (await mail.presence("end", "another")).state == "active"
    assert (await mail.presence("end")).state == "idle"


async def test_a_task_that_asks_its_person_is_waiting_until_it_is_heard_again(mail: Mail) -> None:
    await mail.presence("start")
    assert (await mail.presence("waiting", detail="Delete it?")).state == "waiting"
    asked = await mail.task()
    assert (asked.state, asked.waits_for_person) == ("waiting", "Delete it?")
    await mail.pull()
    assert ((await mail.task()).state, (await mail.task()).waits_for_person) == ("active", None)
    await mail.presence("waiting")
    assert (await mail.task()).waits_for_person == "waits for the person"


async def test_a_terminated_task_is_so_until_it_starts_again(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    await mail.pull()
    over = await mail.presence("terminated")
    assert (over.state, over.given_back) == ("terminated", 1)
    clock.pass_ms(IDLE_MS)
    await mail.broker.sweep(mail.who.namespace)
    task = await mail.task()
    assert (task.state, task.pending, task.terminated_at_ms) == ("terminated", 1, clock.now_ms() - IDLE_MS)
    assert (await mail.presence("start", "s-2")).state == "active"
    assert (await mail.task()).terminated_at_ms is None
    assert await mail.pulled("s-2") == ["m-1"]


async def test_attention_names_what_needs_a_person_most_urgent_first(mail: Mail, frontend: Mail) -> None:
    assert (await mail.broker.attention(mail.who)).items == []
    await mail.send("poison", task="frontend")
    for _ in range(5):
        await mail.settle("release", await mail.pull(task="frontend"), task="frontend")
    await frontend.send("q-1", awaiting_response=True)
    await mail.send("now", priority="urgent")
    await mail.presence("waiting", detail="May I?")
    items = (await mail.broker.attention(mail.who)).items
    assert [(item.why, item.task, item.count) for item in items] == [
        ("waits_for_person", "backend", 1),
        ("urgent_unread", "backend", 1),
        ("dead_letters", "frontend", 1),
        ("waiting_for_answer", "frontend", 1),
    ]
    assert items[0].detail == "May I?"
