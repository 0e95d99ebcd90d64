"""sweep: deadlines that passed, and only those."""

from __future__ import annotations

import pytest

from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio


async def test_before_its_time_nothing_changes(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1", ttl_ms=40_000)
    await scene.send("m-2")
    await scene.pull(max=1, heard="1")
    clock.pass_ms(29_999)
    assert await scene.unchanged("sweep") == 0


async def test_a_hold_that_ran_out_goes_back_and_keeps_its_holder_in_mind(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull()
    clock.pass_ms(30_000)
    change = await scene.act("sweep")
    assert change.keys["msg:m-1"].keys() == {"history", "returned", "state"}
    assert change.keys["msg:m-1"]["state"] == ("in_flight", "queued")
    assert change.keys["holds:backend"] == {"m-1": (START_MS + 30_000, None)}
    assert change.keys["returned:backend:normal"] == {"m-1": (None, 3)}
    assert change.keys["due"] == {"backend": (START_MS + 30_000, None)}
    assert change.keys["task:backend"] == {
        "due_ms": (str(START_MS + 30_000), None), "held": ("1", "0"), "queued:normal": ("0", "1"),
        "returned:normal": (None, "1"),
    }  # fmt: skip
    assert change.keys.keys() == {
        "due", "holds:backend", "inbox:backend:normal", "msg:m-1", "returned:backend:normal", "task:backend",
    }  # fmt: skip
    assert [(event["type"], event["pending"], event["reason"]) for event in change.events] == [
        ("task_message_returned", 1, "hold_ran_out")
    ]
    assert await scene.unchanged("sweep") == 0


async def test_a_hold_that_ran_out_too_often_is_a_dead_letter(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    for number in range(5):
        await scene.pull(pull_id=f"p-{number}")
        clock.pass_ms(30_000)
        change = await scene.act("sweep")
    assert change.keys["msg:m-1"]["state"] == ("in_flight", "dead")
    assert change.keys["msg:m-1"]["reason"] == (None, "hold_ran_out")
    assert change.keys["dead:backend"] == {"m-1": (None, 3)}


async def test_undelivered_mail_expires_and_its_sender_waits_no_more(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1", ttl_ms=5_000, topic="t", awaiting="1", sender="task:frontend", sender_task="frontend")
    clock.pass_ms(5_000)
    change = await scene.act("sweep")
    assert change.keys["msg:m-1"]["state"] == ("queued", "expired")
    assert change.keys["msg:m-1"]["reason"] == (None, "ttl")
    assert change.keys["msg:m-1"]["(ttl)"] == (False, True)
    assert change.keys["topics:backend"] == {"task:frontend t": ("m-1", None)}
    assert change.keys["awaits:frontend"] == ({"set": ["m-1"]}, None)
    assert change.after["inbox:backend:normal"]["stream"] == []
    assert [(event["type"], event["task"]) for event in change.events] == [
        ("task_message_expired", "backend"),
        ("task_waiting_changed", "frontend"),
    ]


async def test_mail_in_flight_does_not_expire_but_does_when_it_comes_back_too_late(
    scene: Scene, clock: FixedClock
) -> None:
    await scene.send("m-1", ttl_ms=5_000)
    await scene.pull()
    clock.pass_ms(5_000)
    change = await scene.act("sweep")
    assert change.keys == {
        "due": {"backend": (START_MS + 5_000, START_MS + 30_000)},
        "task:backend": {"due_ms": (str(START_MS + 5_000), str(START_MS + 30_000))},
    }
    assert change.events == []
    clock.pass_ms(25_000)
    change = await scene.act("sweep")
    assert change.keys["msg:m-1"]["state"] == ("in_flight", "expired")
    assert [(event["type"], event["pending"]) for event in change.events] == [
        ("task_message_returned", 1),
        ("task_message_expired", 0),
    ]


async def test_a_silent_task_falls_idle(scene: Scene, clock: FixedClock) -> None:
    await scene.run("pull", heard="1")
    clock.pass_ms(300_000)
    change = await scene.act("sweep")
    assert change.keys == {
        "due": {"backend": (START_MS + 300_000, None)},
        "task:backend": {"due_ms": (str(START_MS + 300_000), None), "state": ("active", "idle")},
    }
    assert change.events == [{"type": "task_state_changed", "task": "backend", "state": "idle", "pending": 0}]


async def test_it_does_a_bounded_part_and_says_that_more_is_left(scene: Scene, clock: FixedClock) -> None:
    for number in range(3):
        await scene.send(f"m-{number}", ttl_ms=1_000 + number)
    clock.pass_ms(2_000)
    change = await scene.act("sweep", limit=2)
    assert change.answer == 1
    assert len(change.events) == 2
    assert change.keys["due"] == {"backend": (START_MS + 1_000, START_MS + 1_002)}
    assert await scene.run("sweep", limit=2) == 0


async def test_a_task_that_is_gone_is_only_taken_off_the_list(scene: Scene) -> None:
    assert await scene.unchanged("sweep", task_id="ghost") == 0


async def test_the_overdue_are_told_most_overdue_first_and_looking_changes_nothing(
    scene: Scene, clock: FixedClock
) -> None:
    await scene.send("m-1", task_id="frontend", ttl_ms=2_000)
    await scene.send("m-2", ttl_ms=3_000)
    assert await scene.unchanged("overdue") == [str(START_MS).encode(), []]
    clock.pass_ms(2_000)
    assert await scene.unchanged("overdue") == [str(START_MS + 2_000).encode(), [b"frontend"]]
    clock.pass_ms(1_000)
    assert await scene.unchanged("overdue") == [str(START_MS + 3_000).encode(), [b"frontend", b"backend"]]
    assert (await scene.unchanged("overdue", limit=1))[1] == [b"frontend"]
