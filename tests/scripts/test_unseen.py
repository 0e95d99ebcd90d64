"""unseen: the transcript does not have it, so it comes again."""

from __future__ import annotations

import pytest

from inboxd.errors import ReceiptLost, ReceiptUnknown, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio


async def test_a_delivered_message_goes_back_to_its_place(scene: Scene) -> None:
    await scene.send("m-1", ttl_ms=60_000)
    await scene.take()
    change = await scene.act("unseen", receipt="p-1")
    assert change.answer == [[b"m-1"], []]
    steps = f"{START_MS} queued operator\n{START_MS} in_flight s-1\n{START_MS} delivered s-1\n"
    assert change.keys == {
        "due": {"backend": (START_MS + 30_000, START_MS + 60_000)},
        "msg:m-1": {
            "(ttl)": (True, False),
            "delivered_at_ms": (str(START_MS), None),
            "delivered_to": ("s-1", None),
            "fence": ("1", "2"),
            "history": (steps, f"{steps}{START_MS} queued unseen\n"),
            "returned": (None, "1"),
            "state": ("delivered", "queued"),
        },
        "returned:backend:normal": {"m-1": (None, 3)},
        "task:backend": {
            "due_ms": (str(START_MS + 30_000), str(START_MS + 60_000)), "queued:normal": ("0", "1"), "returned:normal": (None, "1"),
        },
        "ttls:backend": {"m-1": (None, START_MS + 60_000)},
    }  # fmt: skip
    assert [(event["type"], event["pending"], event["reason"]) for event in change.events] == [
        ("task_message_returned", 1, "unseen")
    ]


async def test_a_second_unseen_and_a_late_ack_change_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.take()
    await scene.run("unseen", receipt="p-1")
    assert await scene.unchanged("unseen", receipt="p-1") == [[], [b"m-1"]]
    assert await scene.unchanged("unseen", ids='["m-1"]') == [[], [b"m-1"]]
    await scene.refused("ack", ReceiptLost, receipt="p-1")
    assert await scene.unchanged("pull", ack="1") == [1, 1, [], b"ack"]


async def test_a_message_in_flight_goes_back_too(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    change = await scene.act("unseen", ids='["m-1","m-1"]')
    assert change.answer == [[b"m-1"], []]
    assert change.keys["msg:m-1"]["state"] == ("in_flight", "queued")
    assert change.after["task:backend"]["hash"]["held"] == "0"
    assert change.after["task:backend"]["hash"]["queued:normal"] == "1"
    assert change.after["inbox:backend:normal"]["stream"] == []


async def test_what_was_seen_stays_seen(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    await scene.run("seen", receipt="p-1")
    assert await scene.unchanged("unseen", receipt="p-1") == [[], [b"m-1"]]


async def test_a_session_that_it_was_not_delivered_to_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull(hold_ms=1_000)
    clock.pass_ms(1_000)
    await scene.take(session="s-2", pull_id="p-2")
    assert await scene.unchanged("unseen", receipt="p-1") == [[], [b"m-1"]]
    assert await scene.unchanged("unseen", ids='["m-1"]') == [[], [b"m-1"]]


async def test_a_message_the_model_never_got_in_all_its_tries_is_a_dead_letter(scene: Scene) -> None:
    await scene.send("m-1")
    for number in range(5):
        await scene.take(pull_id=f"p-{number}")
        change = await scene.act("unseen", receipt=f"p-{number}")
    assert change.keys["msg:m-1"]["state"] == ("delivered", "dead")
    assert change.keys["msg:m-1"]["(ttl)"] == (True, False)
    assert change.after["task:backend"]["hash"]["dead"] == "1"


async def test_a_refusal_changes_nothing(scene: Scene) -> None:
    await scene.refused("unseen", ReceiptUnknown, receipt="p-1")
    await scene.refused("unseen", TaskUnknown, task_id="ghost", ids='["m-1"]')
