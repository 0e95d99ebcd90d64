"""requeue: a dead letter comes back to its place."""

from __future__ import annotations

import pytest

from inboxd.errors import MessageState, MessageUnknown, TaskUnknown
from tests.conftest import START_MS
from tests.support.scene import Scene, send_arguments

pytestmark = pytest.mark.anyio


async def kill(scene: Scene, message_id: str) -> None:
    for number in range(5):
        await scene.pull(pull_id=f"{message_id}-{number}", max=1)
        await scene.run("release", receipt=f"{message_id}-{number}")


async def test_a_dead_letter_waits_again_with_its_hand_overs_counted_from_nothing(scene: Scene) -> None:
    await scene.send("m-1", ttl_ms=60_000)
    await kill(scene, "m-1")
    await scene.send("m-2")
    change = await scene.act("requeue", message_id="m-1")
    assert change.answer[0] == 2
    history = change.keys["msg:m-1"].pop("history")
    assert history[1] == f"{history[0]}{START_MS} queued requeued by operator\n"
    assert change.keys == {
        "dead:backend": {"m-1": (3, None)},
        "due": {"backend": (None, START_MS + 60_000)},
        "msg:m-1": {
            "attempts": ("5", "0"), "fence": ("10", "11"), "reason": ("released", None), "state": ("dead", "queued"),
        },
        "returned:backend:normal": {"m-1": (None, 3)},
        "task:backend": {
            "dead": ("1", "0"), "due_ms": (None, str(START_MS + 60_000)), "queued:normal": ("1", "2"),
            "returned:normal": ("0", "1"),
        },
        "ttls:backend": {"m-1": (None, START_MS + 60_000)},
    }  # fmt: skip
    assert [(event["type"], event["pending"], event["requeued"]) for event in change.events] == [
        ("task_message_queued", 2, True)
    ]
    assert await scene.pull() == ["m-1", "m-2"]


async def test_a_second_requeue_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await kill(scene, "m-1")
    await scene.run("requeue", message_id="m-1")
    assert (await scene.unchanged("requeue", message_id="m-1"))[0] == 1


async def test_a_requeued_message_is_superseded_by_a_newer_word_on_its_topic(scene: Scene) -> None:
    await scene.send("m-1", topic="build")
    await kill(scene, "m-1")
    await scene.run("requeue", message_id="m-1")
    change = await scene.act("send", **send_arguments("m-2", topic="build"))
    assert change.answer[4] == [b"m-1"]


async def test_a_refusal_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    await scene.refused("requeue", MessageUnknown, message_id="nothing")
    await scene.refused("requeue", MessageState, message_id="m-1")
    await scene.run("ack", receipt="p-1")
    await scene.refused("requeue", MessageState, message_id="m-1")
    await scene.run("remove")
    await scene.refused("requeue", TaskUnknown, message_id="m-1")
