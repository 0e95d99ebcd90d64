"""presence: who is there, and what a session that is gone gives back."""

from __future__ import annotations

import pytest

from inboxd.errors import ReceiptLost, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio


async def test_a_session_that_starts_makes_the_task_active(scene: Scene) -> None:
    change = await scene.act("presence", sign="start", machine="laptop", host="claude")
    assert change.answer == [b"active", 0]
    assert change.keys == {
        "due": {"backend": (None, START_MS + 300_000)},
        "task:backend": {
            "due_ms": (None, str(START_MS + 300_000)),
            "host": (None, "claude"),
            "last_heard_ms": (None, str(START_MS)),
            "machine": (None, "laptop"),
            "session": (None, "s-1"),
            "started_at_ms": (None, str(START_MS)),
            "state": ("queued", "active"),
        },
    }
    assert [event["type"] for event in change.events] == ["task_state_changed", "task_session_started"]


async def test_a_heartbeat_soon_after_another_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await scene.run("presence")
    clock.pass_ms(4_999)
    assert await scene.unchanged("presence") == [b"active", 0]
    clock.pass_ms(1)
    change = await scene.act("presence")
    assert change.keys["task:backend"]["last_heard_ms"] == (str(START_MS), str(START_MS + 5_000))
    assert change.events == []


async def test_a_question_to_the_person_is_kept_until_the_session_is_heard_again(scene: Scene) -> None:
    await scene.run("presence", sign="start")
    change = await scene.act("presence", sign="waiting", detail="May I delete it?")
    assert change.keys == {"task:backend": {"waits_for_person": (None, "May I delete it?")}}
    assert [(event["type"], event["state"]) for event in change.events] == [("task_state_changed", "waiting")]
    change = await scene.act("presence")
    assert change.keys == {"task:backend": {"waits_for_person": ("May I delete it?", None)}}
    assert [(event["type"], event["state"]) for event in change.events] == [("task_state_changed", "active")]


async def test_a_session_that_ends_gives_back_what_it_held_and_only_that(scene: Scene) -> None:
    for number in range(1, 4):
        await scene.send(f"m-{number}")
    await scene.pull(max=2, heard="1")
    await scene.pull(session="s-2", pull_id="p-2")
    await scene.run("presence", session="s-1", sign="heartbeat")
    change = await scene.act("presence", sign="end")
    assert change.answer == [b"idle", 2]
    assert {name for name in change.keys if name.startswith("msg:")} == {"msg:m-1", "msg:m-2"}
    assert change.keys["msg:m-1"]["fence"] == ("1", "2")
    assert change.keys["holds:backend"].keys() == {"m-1", "m-2"}
    assert change.after["inbox:backend:normal"]["groups"]["readers"] == {
        "last": "5-0", "pending": [("5-0", "s-2")], "readers": ["s-2"],
    }  # fmt: skip
    assert change.keys["task:backend"]["held"] == ("3", "1")
    assert [(event["type"], event["pending"]) for event in change.events] == [
        ("task_message_returned", 1),
        ("task_message_returned", 2),
        ("task_state_changed", 2),
        ("task_session_ended", 2),
    ]
    await scene.refused("ack", ReceiptLost, receipt="p-1")
    assert await scene.pull(session="s-3", pull_id="p-3") == ["m-1", "m-2"]


async def test_the_end_of_another_session_does_not_make_the_task_idle(scene: Scene) -> None:
    await scene.run("presence", sign="start", session="s-2")
    assert await scene.unchanged("presence", sign="end", session="s-1") == [b"active", 0]


async def test_a_terminated_task_gives_back_what_any_session_held(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.send("m-2")
    await scene.pull(max=1)
    await scene.pull(session="s-2", pull_id="p-2")
    change = await scene.act("presence", sign="terminated", session="s-3")
    assert change.answer == [b"terminated", 2]
    assert change.after["task:backend"]["hash"]["terminated_at_ms"] == str(START_MS)
    assert change.after["task:backend"]["hash"]["queued:normal"] == "2"
    assert "due" not in change.after
    assert change.events[-1]["state"] == "terminated"


async def test_an_unknown_task_is_refused(scene: Scene) -> None:
    for sign in ("heartbeat", "start", "waiting", "end", "terminated"):
        await scene.refused("presence", TaskUnknown, task_id="ghost", sign=sign)
