"""ack: delivered once; whoever no longer holds a message changes nothing."""

from __future__ import annotations

import pytest

from inboxd.errors import ReceiptLost, ReceiptUnknown, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio


async def test_a_batch_becomes_delivered_and_leaves_every_queue(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1", ttl_ms=60_000, topic="t")
    await scene.pull()
    clock.pass_ms(7)
    change = await scene.act("ack", receipt="p-1")
    assert change.answer[:2] == [[b"m-1"], []]
    _before, inbox = change.keys.pop("inbox:backend:normal")
    assert inbox == {"stream": [], "groups": {"readers": {"last": "3-0", "pending": [], "readers": ["s-1"]}}}
    history = f"{START_MS} queued operator\n{START_MS} in_flight s-1\n"
    assert change.keys == {
        "holds:backend": {"m-1": (START_MS + 30_000, None)},
        "msg:m-1": {
            "(ttl)": (False, True),
            "delivered_at_ms": (None, str(START_MS + 7)),
            "delivered_to": (None, "s-1"),
            "history": (history, f"{history}{START_MS + 7} delivered s-1\n"),
            "holder": ("s-1", ""),
            "state": ("in_flight", "delivered"),
        },
        "task:backend": {"held": ("1", "0")},
        "topics:backend": {"operator t": ("m-1", None)},
    }
    assert change.events == [
        {"type": "task_message_delivered", "task": "backend", "message_id": "m-1", "sender": "operator",
         "kind": "message", "priority": "normal", "pending": 0, "session": "s-1"}
    ]  # fmt: skip


async def test_a_second_ack_changes_nothing_and_says_the_same(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    first = await scene.run("ack", receipt="p-1")
    assert first == [[b"m-1"], [], 1, 0]
    assert await scene.unchanged("ack", receipt="p-1") == [[b"m-1"], [], 0, 0]
    assert await scene.unchanged("ack", ids='["m-1"]') == [[b"m-1"], [], 0, 0]


async def test_naming_a_message_twice_settles_it_once(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.send("m-2")
    await scene.pull()
    change = await scene.act("ack", ids='["m-1","m-1"]')
    assert change.answer[:2] == [[b"m-1"], []]
    assert change.keys["task:backend"] == {"held": ("2", "1")}
    assert len(change.events) == 1


async def test_a_refusal_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.refused("ack", ReceiptUnknown, receipt="p-1")
    await scene.pull()
    await scene.refused("ack", TaskUnknown, task_id="ghost", receipt="p-1")
    await scene.refused("ack", ReceiptUnknown, task_id="frontend", receipt="p-1")
    await scene.refused("ack", ReceiptLost, session="s-2", ids='["m-1"]')
    await scene.refused("ack", ReceiptLost, task_id="frontend", ids='["m-1"]')
    await scene.refused("ack", ReceiptLost, ids='["nothing"]')


async def test_a_former_holder_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull(hold_ms=1_000)
    clock.pass_ms(1_000)
    assert await scene.pull(session="s-2", pull_id="p-2") == ["m-1"]
    await scene.refused("ack", ReceiptLost, receipt="p-1")
    await scene.refused("ack", ReceiptLost, ids='["m-1"]')
    await scene.run("ack", receipt="p-2")
    await scene.refused("ack", ReceiptLost, receipt="p-1")
    await scene.refused("ack", ReceiptLost, ids='["m-1"]')


async def test_a_late_ack_is_taken_while_nobody_else_has_the_message(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull(hold_ms=1_000)
    clock.pass_ms(1_000)
    await scene.run("sweep")
    change = await scene.act("ack", receipt="p-1")
    assert change.answer[:2] == [[b"m-1"], []]
    assert change.keys["returned:backend:normal"] == {"m-1": (3, None)}
    assert change.keys["task:backend"] == {"queued:normal": ("1", "0"), "returned:normal": ("1", "0")}
    assert change.keys["msg:m-1"]["state"] == ("queued", "delivered")


async def test_of_a_batch_half_lost_the_other_half_is_delivered(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.send("m-2")
    await scene.pull()
    await scene.run("release", ids='["m-1"]')
    change = await scene.act("ack", receipt="p-1")
    assert change.answer[:2] == [[b"m-2"], [b"m-1"]]
    assert "msg:m-1" not in change.keys
