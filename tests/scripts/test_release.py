"""release: back into its old place, and the receipt is spent."""

from __future__ import annotations

import pytest

from inboxd.errors import ReceiptLost, ReceiptUnknown, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene, send_arguments

pytestmark = pytest.mark.anyio


async def test_a_message_goes_back_to_its_place(scene: Scene) -> None:
    await scene.send("m-1", ttl_ms=60_000)
    await scene.send("m-2")
    await scene.pull(max=1)
    change = await scene.act("release", receipt="p-1")
    assert change.answer == [[b"m-1"], []]
    _before, inbox = change.keys.pop("inbox:backend:normal")
    assert [entry for entry, _ in inbox["stream"]] == ["4-0"]
    assert inbox["groups"]["readers"]["pending"] == []
    history = f"{START_MS} queued operator\n{START_MS} in_flight s-1\n"
    assert change.keys == {
        "due": {"backend": (START_MS + 30_000, START_MS + 60_000)},
        "holds:backend": {"m-1": (START_MS + 30_000, None)},
        "msg:m-1": {
            "fence": ("1", "2"),
            "history": (history, f"{history}{START_MS} queued released\n"),
            "holder": ("s-1", ""),
            "returned": (None, "1"),
            "state": ("in_flight", "queued"),
        },
        "returned:backend:normal": {"m-1": (None, 3)},
        "task:backend": {
            "due_ms": (str(START_MS + 30_000), str(START_MS + 60_000)),
            "held": ("1", "0"),
            "queued:normal": ("1", "2"),
            "returned:normal": (None, "1"),
        },
        "ttls:backend": {"m-1": (None, START_MS + 60_000)},
    }
    assert [(event["type"], event["pending"], event["reason"]) for event in change.events] == [
        ("task_message_returned", 2, "released")
    ]


async def test_a_second_release_and_a_late_ack_change_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    await scene.run("release", receipt="p-1")
    assert await scene.unchanged("release", receipt="p-1") == [[], [b"m-1"]]
    await scene.refused("ack", ReceiptLost, receipt="p-1")
    await scene.refused("ack", ReceiptLost, ids='["m-1"]')


async def test_a_former_holder_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull(hold_ms=1_000)
    clock.pass_ms(1_000)
    await scene.pull(session="s-2", pull_id="p-2")
    assert await scene.unchanged("release", receipt="p-1") == [[], [b"m-1"]]
    assert await scene.unchanged("release", ids='["m-1"]') == [[], [b"m-1"]]


async def test_what_was_delivered_is_not_released(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    await scene.run("ack", receipt="p-1")
    assert await scene.unchanged("release", receipt="p-1") == [[], [b"m-1"]]


async def test_naming_a_message_twice_returns_it_once(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    change = await scene.act("release", ids='["m-1","m-1"]')
    assert change.answer == [[b"m-1"], []]
    assert change.after["task:backend"]["hash"]["held"] == "0"
    assert change.after["task:backend"]["hash"]["queued:normal"] == "1"
    assert len(change.events) == 1


async def test_after_too_many_hand_overs_it_is_a_dead_letter(scene: Scene) -> None:
    await scene.send("m-1", ttl_ms=60_000)
    for number in range(4):
        assert await scene.pull(pull_id=f"p-{number}") == ["m-1"]
        await scene.run("release", receipt=f"p-{number}")
    await scene.pull(pull_id="last")
    change = await scene.act("release", receipt="last")
    assert change.keys["msg:m-1"]["state"] == ("in_flight", "dead")
    assert change.keys["msg:m-1"]["reason"] == (None, "released")
    assert change.keys["dead:backend"] == {"m-1": (None, 3)}
    assert change.keys["task:backend"] == {
        "dead": (None, "1"), "due_ms": (str(START_MS + 30_000), None), "held": ("1", "0"),
    }  # fmt: skip
    assert "ttls:backend" not in change.after
    assert [(event["type"], event["pending"]) for event in change.events] == [("task_message_dead", 0)]


async def test_a_message_that_came_back_is_still_superseded_by_a_newer_word_on_its_topic(scene: Scene) -> None:
    await scene.send("m-1", topic="build")
    await scene.pull()
    await scene.run("release", receipt="p-1")
    change = await scene.act("send", **send_arguments("m-2", topic="build"))
    assert change.answer[4] == [b"m-1"]
    assert await scene.pull(pull_id="p-2") == ["m-2"]


async def test_a_message_that_came_back_does_not_speak_for_its_topic_over_a_newer_one(scene: Scene) -> None:
    await scene.send("m-1", topic="build")
    await scene.pull()
    await scene.send("m-2", topic="build")
    change = await scene.act("release", receipt="p-1")
    assert "topics:backend" not in change.keys
    superseding = await scene.act("send", **send_arguments("m-3", topic="build"))
    assert superseding.answer[4] == [b"m-2"]


async def test_a_refusal_changes_nothing(scene: Scene) -> None:
    await scene.refused("release", ReceiptUnknown, receipt="p-1")
    await scene.refused("release", TaskUnknown, task_id="ghost", ids='["m-1"]')
