"""seen: the transcript has it."""

from __future__ import annotations

import pytest

from inboxd.errors import ReceiptUnknown, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio


async def test_a_delivered_message_becomes_seen_and_nothing_else_changes(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.take()
    clock.pass_ms(9)
    change = await scene.act("seen", ids='["m-1"]')
    assert change.answer[:2] == [[b"m-1"], []]
    steps = f"{START_MS} queued operator\n{START_MS} in_flight s-1\n{START_MS} delivered s-1\n"
    assert change.keys == {
        "msg:m-1": {
            "history": (steps, f"{steps}{START_MS + 9} seen s-1\n"),
            "seen_at_ms": (None, str(START_MS + 9)),
            "state": ("delivered", "seen"),
        }
    }
    assert [(event["type"], event["pending"]) for event in change.events] == [("task_message_seen", 0)]


async def test_seeing_it_again_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.take()
    first = await scene.run("seen", ids='["m-1"]')
    assert await scene.unchanged("seen", ids='["m-1","m-1"]') == first
    assert await scene.unchanged("ack", receipt="p-1") == first
    assert await scene.unchanged("release", receipt="p-1") == [[], [b"m-1"]]
    assert await scene.unchanged("unseen", receipt="p-1") == [[], [b"m-1"]]


async def test_a_message_still_in_flight_is_delivered_and_seen_at_once(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    change = await scene.act("seen", receipt="p-1")
    assert change.keys["msg:m-1"]["state"] == ("in_flight", "seen")
    assert change.after["msg:m-1"]["hash"]["delivered_to"] == "s-1"
    assert change.after["msg:m-1"]["ttl"]
    assert change.after["task:backend"]["hash"]["held"] == "0"
    assert [event["type"] for event in change.events] == ["task_message_delivered", "task_message_seen"]


async def test_naming_a_message_twice_delivers_it_once(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    change = await scene.act("seen", ids='["m-1","m-1"]')
    assert change.answer[:2] == [[b"m-1"], []]
    assert change.after["task:backend"]["hash"]["held"] == "0"
    assert len(change.events) == 2


async def test_a_message_back_in_the_queue_is_seen_while_nobody_else_took_it(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull(hold_ms=1_000)
    clock.pass_ms(1_000)
    await scene.run("sweep")
    change = await scene.act("seen", ids='["m-1"]')
    assert change.keys["msg:m-1"]["state"] == ("queued", "seen")
    assert change.keys["task:backend"] == {"queued:normal": ("1", "0"), "returned:normal": ("1", "0")}


async def test_a_former_holder_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull(hold_ms=1_000)
    clock.pass_ms(1_000)
    await scene.pull(session="s-2", pull_id="p-2")
    assert await scene.unchanged("seen", receipt="p-1") == [[], [b"m-1"], 0, 0]
    assert await scene.unchanged("seen", ids='["m-1","nothing"]') == [[], [b"m-1", b"nothing"], 0, 0]


async def test_a_refusal_changes_nothing(scene: Scene) -> None:
    await scene.refused("seen", ReceiptUnknown, receipt="p-1")
    await scene.refused("seen", TaskUnknown, task_id="ghost", ids='["m-1"]')
