"""pull: what handing over writes, and that an empty pull writes nothing."""

from __future__ import annotations

import pytest

from inboxd.errors import PullIdReused, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene, ids_of

pytestmark = pytest.mark.anyio


async def test_a_batch_is_held_for_its_session(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.send("m-2")
    change = await scene.act("pull", max=1)
    assert (change.answer[0], change.answer[1], ids_of(change.answer[2])) == (1, 1, ["m-1"])
    inbox_before, inbox_after = change.keys.pop("inbox:backend:normal")
    assert inbox_after["stream"] == inbox_before["stream"]
    assert inbox_after["groups"]["readers"] == {"last": "3-0", "pending": [("3-0", "s-1")], "readers": ["s-1"]}
    assert change.keys == {
        "due": {"backend": (None, START_MS + 30_000)},
        "holds:backend": {"m-1": (None, START_MS + 30_000)},
        "msg:m-1": {
            "attempts": ("0", "1"),
            "fence": ("0", "1"),
            "history": (f"{START_MS} queued operator\n", f"{START_MS} queued operator\n{START_MS} in_flight s-1\n"),
            "holder": (None, "s-1"),
            "state": ("queued", "in_flight"),
        },
        "pull:backend:p-1": (None, {"list": ["s-1", "hold", "1 m-1"], "ttl": True}),
        "task:backend": {
            "due_ms": (None, str(START_MS + 30_000)), "held": (None, "1"), "queued:normal": ("2", "1"),
        },
    }  # fmt: skip
    assert change.events == [
        {"type": "task_message_in_flight", "task": "backend", "message_id": "m-1", "sender": "operator",
         "kind": "message", "priority": "normal", "pending": 1, "session": "s-1", "attempts": 1}
    ]  # fmt: skip


async def test_an_empty_pull_changes_nothing(scene: Scene) -> None:
    assert await scene.unchanged("pull") == [0, 0, [], b"hold"]
    await scene.send("m-1", priority="low")
    assert await scene.unchanged("pull", min_rank=1) == [1, 0, [], b"hold"]
    await scene.pull()
    assert await scene.unchanged("pull", pull_id="p-2") == [0, 0, [], b"hold"]


async def test_an_empty_pull_that_is_heard_writes_only_that(scene: Scene, clock: FixedClock) -> None:
    change = await scene.act("pull", heard="1")
    assert change.keys == {
        "due": {"backend": (None, START_MS + 300_000)},
        "task:backend": {
            "due_ms": (None, str(START_MS + 300_000)),
            "last_heard_ms": (None, str(START_MS)),
            "session": (None, "s-1"),
            "state": ("queued", "active"),
        },
    }
    assert [event["type"] for event in change.events] == ["task_state_changed"]
    clock.pass_ms(4_999)
    await scene.unchanged("pull", heard="1")
    clock.pass_ms(1)
    change = await scene.act("pull", heard="1")
    assert (change.keys.keys(), change.events) == ({"due", "task:backend", "tasks"}, [])


async def test_a_repeated_pull_id_changes_nothing_and_shows_the_same(scene: Scene) -> None:
    await scene.send("m-1")
    first = await scene.run("pull", heard="1")
    await scene.send("m-2")
    assert (await scene.unchanged("pull", heard="1"))[2] == first[2]
    await scene.refused("pull", PullIdReused, session="s-2")


async def test_an_unknown_task_is_refused(scene: Scene) -> None:
    await scene.refused("pull", TaskUnknown, task_id="ghost")


async def test_with_ack_a_repeat_also_shows_what_was_delivered(scene: Scene) -> None:
    await scene.send("m-1")
    change = await scene.act("pull", ack="1")
    assert change.keys["pull:backend:p-1"] == (None, {"list": ["s-1", "ack", "1 m-1"], "ttl": True})
    assert change.keys["msg:m-1"]["state"] == ("queued", "in_flight")
    await scene.run("ack", receipt="p-1")
    assert ids_of((await scene.unchanged("pull", ack="1"))[2]) == ["m-1"]


async def test_a_pull_first_takes_back_what_others_held_too_long(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull(hold_ms=1_000)
    clock.pass_ms(1_000)
    change = await scene.act("pull", session="s-2", pull_id="p-2")
    assert ids_of(change.answer[2]) == ["m-1"]
    assert change.keys["holds:backend"] == {"m-1": (START_MS + 1_000, START_MS + 31_000)}
    assert change.keys["msg:m-1"]["holder"] == ("s-1", "s-2")
    assert change.keys["msg:m-1"]["fence"] == ("1", "2")
    assert change.keys["task:backend"] == {
        "due_ms": (str(START_MS + 1_000), str(START_MS + 31_000)), "returned:normal": (None, "0"),
    }  # fmt: skip
    assert [(event["type"], event["pending"]) for event in change.events] == [
        ("task_message_returned", 1),
        ("task_message_in_flight", 0),
    ]


async def test_what_a_budget_leaves_out_is_not_touched(scene: Scene) -> None:
    await scene.send("m-1", chars=60)
    await scene.send("m-2", chars=60)
    await scene.send("m-3", chars=1)
    change = await scene.act("pull", max_chars=100)
    assert ids_of(change.answer[2]) == ["m-1"]
    assert not {"msg:m-2", "msg:m-3"} & change.keys.keys()
    assert change.after["inbox:backend:normal"]["groups"]["readers"]["last"] == "3-0"


async def test_mail_that_expired_is_never_handed_over_however_much_there_is(scene: Scene, clock: FixedClock) -> None:
    for number in range(1_005):
        await scene.send(f"m-{number}", ttl_ms=1_000)
    clock.pass_ms(1_000)
    assert await scene.pull(max=10) == []
