"""open_thread: what a thread is made of, and that nothing else writes one."""

from __future__ import annotations

import pytest

from inboxd.errors import HopsExceeded, MessageIdReused, TaskUnknown, ThreadUnknown
from inboxd.store import keys
from tests.conftest import START_MS
from tests.support.scene import Scene, ids_of, send_arguments
from tests.support.work import at_work, claim, drop_message, fields_of, open_thread, place, said, told, update

pytestmark = pytest.mark.anyio


def opening(thread_id: str = "t-1", **given: object) -> dict[str, object]:
    return said("open_thread", thread_id, thread_id, **given)


async def test_a_thread_is_stored_listed_and_mail_to_whom_it_is_assigned(scene: Scene) -> None:
    change = await scene.act("open_thread", **opening(run_id="r-1", task_label="T4", priority="high"))
    duplicate, row, message = change.answer
    assert (duplicate, ids_of([message])) == (0, ["t-1"])
    assert fields_of(row) == {
        "agents": "frontend,backend",
        "assigned_to": "backend",
        "created_at_ms": str(START_MS),
        "created_by": "task:frontend",
        "creator": "frontend",
        "fence": "0",
        "last_n": "3",
        "last_sender": "task:frontend",
        "latest_message_id": "t-1",
        "messages": "1",
        "n": "3",
        "opening_id": "t-1",
        "priority": "high",
        "run_id": "r-1",
        "said:task:frontend": "3",
        "status": "pending",
        "subject": "Log-in",
        "task_id": "T4",
        "updated_at_ms": str(START_MS),
    }
    entry = {"message_id": "t-1", "kind": "task", "sender": "task:frontend", "to": "backend"}
    assert change.keys["thread_log:t-1"] == (None, {"stream": [("3-0", entry)]})
    for name in ("threads:pending", "agent_threads:frontend:pending", "agent_threads:backend:pending"):
        assert change.keys[name] == {"t-1": (None, place(3, "high"))}
    assert change.keys["msg:t-1"]["state"] == (None, "queued")
    assert change.keys["msg:t-1"]["thread_id"] == (None, "t-1")
    assert change.keys["task:backend"]["queued:high"] == (None, "1")
    assert change.keys.keys() == {
        "agent_threads:backend:pending", "agent_threads:frontend:pending", "due", "inbox:backend:high", "msg:t-1",
        "task:backend", "task:frontend", "thread:t-1", "thread_log:t-1", "threads:pending", "timeline:backend", "timeline:frontend",
    }  # fmt: skip
    assert told(change) == ["task_message_queued", "task_state_changed", "thread_opened"]
    assert change.events[-1] == {
        "type": "thread_opened", "thread_id": "t-1", "status": "pending", "subject": "Log-in", "created_by": "task:frontend",
        "sender": "task:frontend", "agents": ["frontend", "backend"], "assigned_to": "backend", "task": "backend", "pending": 1,
        "priority": "high", "message_id": "t-1", "kind": "task",
    }  # fmt: skip


async def test_without_an_assignee_it_is_nobodys_mail_and_stands_in_the_pool(scene: Scene) -> None:
    change = await scene.act("open_thread", **opening(to="", sender="operator", sender_task=""))
    assert change.keys["msg:t-1"]["state"] == (None, "noted")
    assert change.keys["thread:t-1"]["agents"] == (None, "*")
    assert change.keys["agent_threads:*:pending"] == {"t-1": (None, place(3))}
    assert change.keys.keys() == {
        "agent_threads:*:pending",
        "msg:t-1",
        "thread:t-1",
        "thread_log:t-1",
        "threads:pending",
    }
    assert told(change) == ["thread_opened"]
    assert change.events[0]["agents"] == ["*"]


async def test_who_opens_a_thread_for_itself_has_one_part_in_it(scene: Scene) -> None:
    change = await scene.act("open_thread", **opening(to="frontend"))
    assert change.keys["thread:t-1"]["agents"] == (None, "frontend")
    assert change.keys["agent_threads:frontend:pending"] == {"t-1": (None, place(3))}


async def test_a_repeat_changes_nothing_whatever_became_of_the_thread(scene: Scene) -> None:
    await at_work(scene)
    again = opening()
    assert (await scene.unchanged("open_thread", **again))[0] == 1
    await update(scene, "d-1", "done", kind="result")
    duplicate, row, _ = await scene.unchanged("open_thread", **again)
    assert (duplicate, fields_of(row)["status"]) == (1, "done")


async def test_a_refusal_changes_nothing(scene: Scene) -> None:
    await open_thread(scene)
    await scene.send("m-1", hops=20)
    await scene.refused("open_thread", MessageIdReused, **opening(body="other"))
    await scene.refused("open_thread", MessageIdReused, **opening("m-1"))
    await scene.refused("open_thread", TaskUnknown, **opening("t-2", to="ghost"))
    await scene.refused("open_thread", HopsExceeded, **opening("t-2", hops=21))
    await scene.refused("send", MessageIdReused, **send_arguments("t-1"))


async def test_an_unknown_assignee_is_declared_when_asked_for(scene: Scene) -> None:
    change = await scene.act("open_thread", **opening(to="new", create="1"))
    assert told(change)[:2] == ["task_declared", "task_message_queued"]
    assert change.keys["agent_threads:new:pending"] == {"t-1": (None, place(3))}


async def test_whoever_opens_a_thread_has_an_inbox_for_what_becomes_of_it(scene: Scene) -> None:
    change = await scene.act("open_thread", **opening(sender="task:new", sender_task="new"))
    assert told(change) == ["task_declared", "task_message_queued", "task_state_changed", "thread_opened"]
    await claim(scene)
    asked = await scene.act("update", **said("update", "q-1", status="blocked", kind="question", awaiting="1"))
    assert asked.keys["task:new"]["queued:normal"] == (None, "1")


async def test_an_id_of_a_thread_that_is_not_gone_yet_is_not_used_again(scene: Scene) -> None:
    await at_work(scene)
    await update(scene, "d-1", "done", kind="result")
    await drop_message(scene, "t-1")
    await scene.refused("open_thread", MessageIdReused, **opening())
    await scene.refused("open_thread", MessageIdReused, **opening(body="other"))


async def test_a_repeat_after_the_thread_is_gone_opens_no_other(scene: Scene) -> None:
    await at_work(scene)
    await update(scene, "d-1", "done", kind="result")
    for row in ("thread", "thread_log"):
        name = keys.key(scene.namespace, row, thread_id="t-1")
        await scene.store.connection.call(name, "DEL", name)
    await scene.refused("open_thread", ThreadUnknown, **opening())
    for name in ("threads:done", "agent_threads:backend:done", "agent_threads:frontend:done", "closed_threads"):
        await scene.store.connection.call(name, "DEL", keys.prefix(scene.namespace) + name)


async def test_an_id_may_have_every_letter_an_id_has(scene: Scene) -> None:
    odd = "0:a.b_c-D:" + "x" * 118
    await open_thread(scene, odd)
    assert fields_of(await claim(scene, odd))["status"] == "claimed"
