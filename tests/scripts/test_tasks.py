"""declare, change, remove and read_tasks: what a task leaves in the store, and that a removed one leaves nothing."""

from __future__ import annotations

import json

import pytest

from inboxd.errors import TaskNotEmpty, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene, send_arguments

pytestmark = pytest.mark.anyio


async def test_a_new_task_is_queued(scene: Scene) -> None:
    change = await scene.act("declare", task_id="new", title="Anew")
    assert change.answer == 1
    assert change.keys == {
        "task:new": {
            "created_at_ms": (None, str(START_MS)), "state": (None, "queued"), "title": (None, "Anew"),
        },
        "tasks": {"new": (None, START_MS)},
    }  # fmt: skip
    assert change.events == [{"type": "task_declared", "task": "new", "state": "queued", "pending": 0}]


async def test_declaring_again_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await scene.run("declare", title="Back", wanted_peers='["frontend"]')
    clock.pass_ms(1_000)
    assert await scene.unchanged("declare", title="Back", wanted_peers='["frontend"]') == 0
    assert await scene.unchanged("declare") == 0


async def test_declaring_again_changes_only_what_is_said(scene: Scene) -> None:
    await scene.run("declare", title="Back")
    change = await scene.act("declare", title="Backend")
    assert change.keys == {"task:backend": {"title": ("Back", "Backend")}}
    assert change.events == [{"type": "task_changed", "task": "backend", "pending": 0}]


async def test_peers_know_each_other_and_come_into_being(scene: Scene) -> None:
    change = await scene.act("declare", wanted_peers='["frontend","new"]')
    assert change.keys["peers:backend"] == (None, {"set": ["frontend", "new"]})
    assert change.keys["peers:frontend"] == (None, {"set": ["backend"]})
    assert change.keys["peers:new"] == (None, {"set": ["backend"]})
    assert change.keys.keys() == {"peers:backend", "peers:frontend", "peers:new", "task:new", "tasks"}
    assert [event["type"] for event in change.events] == ["task_linked", "task_declared", "task_linked"]


async def test_change_sets_a_title_and_replaces_the_peers(scene: Scene) -> None:
    await scene.run("declare", title="Back", wanted_peers='["frontend"]')
    change = await scene.act("change", set_title="1", title="", wanted_peers='["new"]')
    assert change.keys.keys() == {"peers:backend", "peers:frontend", "peers:new", "task:backend", "task:new", "tasks"}
    assert change.keys["peers:backend"] == ({"set": ["frontend"]}, {"set": ["new"]})
    assert change.keys["peers:frontend"] == ({"set": ["backend"]}, None)
    assert change.keys["task:backend"] == {"title": ("Back", "")}
    assert [event["type"] for event in change.events] == [
        "task_declared", "task_linked", "task_unlinked", "task_changed",
    ]  # fmt: skip


async def test_a_change_to_what_is_there_already_changes_nothing(scene: Scene) -> None:
    await scene.run("declare", title="Back", wanted_peers='["frontend"]')
    await scene.unchanged("change", set_title="1", title="Back", wanted_peers='["frontend"]')
    await scene.unchanged("change")
    await scene.refused("change", TaskUnknown, task_id="ghost", set_title="1", title="x")


async def test_a_removed_task_leaves_only_its_messages(scene: Scene, clock: FixedClock) -> None:
    await scene.run("declare", wanted_peers='["frontend"]')
    await scene.send("q", sender="task:backend", sender_task="backend", task_id="frontend", awaiting="1")
    for priority in ("urgent", "high", "normal", "low"):
        await scene.send(f"old-{priority}", priority=priority)
        await scene.send(f"new-{priority}", priority=priority, topic=priority, ttl_ms=60_000)
    await scene.pull(max=4)
    await scene.run("release", ids='["old-urgent"]')
    await scene.pull(max=1, pull_id="p-2")
    await scene.run("ack", receipt="p-2")
    await scene.run("presence", sign="start")
    await scene.refused("remove", TaskNotEmpty)
    before = await scene.look()
    change = await scene.act("remove", force="1")
    assert change.answer == [7, 1]
    left = {name for name in change.after if "backend" in name}
    assert left == {"pull:backend:p-1", "pull:backend:p-2"}
    for name, value in change.after.items():
        if name.startswith("msg:") and value["hash"]["task"] == "backend":
            delivered = name == "msg:old-urgent"
            assert (value["hash"]["state"], value["ttl"]) == ("delivered" if delivered else "expired", True)
            assert delivered == (value == before[name])
    assert change.after["tasks"]["zset"] == {"frontend": START_MS}
    assert "due" not in change.after
    assert change.after["msg:q"] == before["msg:q"]
    assert [event["pending"] for event in change.events[:-1]] == [4, 4, 4, 3, 2, 1, 0]
    assert change.events[-1] == {"type": "task_removed", "task": "backend", "pending": 0}


async def test_removing_goes_in_parts_and_counts_each_message_once(scene: Scene) -> None:
    for number in range(5):
        await scene.send(f"m-{number}")
    await scene.pull(max=2)
    dropped, calls = 0, 0
    gone = 0
    while not gone:
        part, gone = await scene.run("remove", force="1", limit=2)
        dropped, calls = dropped + part, calls + 1
    assert dropped == 5
    assert calls >= 3
    await scene.refused("remove", TaskUnknown, force="1")


async def test_a_sender_no_longer_waits_for_a_task_that_was_removed(scene: Scene) -> None:
    await scene.send("q", sender="task:frontend", sender_task="frontend", awaiting="1")
    change = await scene.act("remove", force="1")
    assert change.keys["awaits:frontend"] == ({"set": ["q"]}, None)


async def test_dead_letters_keep_a_task_from_being_removed(scene: Scene) -> None:
    await scene.send("m-1")
    for number in range(5):
        await scene.pull(pull_id=f"p-{number}")
        await scene.run("release", receipt=f"p-{number}")
    await scene.refused("remove", TaskNotEmpty)
    assert await scene.run("remove", force="1") == [1, 1]


async def test_reading_tasks_changes_nothing_and_shows_absent_ones_as_absent(scene: Scene) -> None:
    await scene.act("send", **send_arguments("q", sender="task:frontend", sender_task="frontend", awaiting="1"))
    rows = await scene.unchanged("read_tasks", names=json.dumps(["frontend", "ghost"]))
    assert rows[0][2] == [b"q"]
    assert rows[1] == []
