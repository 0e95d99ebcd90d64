"""broadcast: all or none, once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inboxd.errors import HopsExceeded, MessageIdReused, TaskUnknown
from tests.support.scene import Scene, send_arguments

pytestmark = pytest.mark.anyio


def cast(*tasks: str, **given: Any) -> dict[str, Any]:
    copies = [{"task_id": task, "message_id": f"b-1:{task}"} for task in tasks]
    return {"message_id": "b-1", "copies": json.dumps(copies), "tail": '"body":"hello"}', "hash": "h"} | given


async def test_each_task_gets_a_message_of_its_own(scene: Scene) -> None:
    change = await scene.act("broadcast", **cast("backend", "frontend"))
    assert change.answer[0] == 0
    assert [row[0] for row in change.answer[1]] == [1, 1]
    expected = {"cast:b-1"}
    for task in ("backend", "frontend"):
        expected |= {f"inbox:{task}:normal", f"msg:b-1:{task}", f"task:{task}", f"timeline:{task}"}
        assert json.loads(change.after[f"msg:b-1:{task}"]["hash"]["doc"]) == {
            "message_id": f"b-1:{task}", "task": task, "body": "hello",
        }  # fmt: skip
    assert change.keys.keys() == expected
    assert change.after["cast:b-1"]["ttl"]
    assert [(event["type"], event["task"], event["pending"]) for event in change.events] == [
        ("task_message_queued", "backend", 1),
        ("task_message_queued", "frontend", 1),
    ]


async def test_one_unknown_task_among_many_and_nobody_gets_it(scene: Scene) -> None:
    refusal = await scene.refused("broadcast", TaskUnknown, **cast("backend", "ghost", "frontend"))
    assert "ghost" in refusal.message


async def test_other_refusals_change_nothing_either(scene: Scene) -> None:
    await scene.send("b-1:frontend")
    await scene.refused("broadcast", MessageIdReused, **cast("backend", "frontend"))
    await scene.refused("broadcast", HopsExceeded, **cast("backend", hops=21))
    await scene.run("broadcast", **cast("backend"))
    await scene.refused("broadcast", MessageIdReused, **cast("backend", hash="other"))


async def test_a_repeat_changes_nothing_and_names_whom_the_first_reached(scene: Scene) -> None:
    await scene.run("broadcast", **cast("backend"))
    duplicate, rows = await scene.unchanged("broadcast", **cast("backend", "frontend"))
    assert duplicate == 1
    assert [json.loads(row[3][0])["task"] for row in rows] == ["backend"]


async def test_a_broadcast_to_nobody_is_remembered_too(scene: Scene) -> None:
    change = await scene.act("broadcast", **cast())
    assert change.answer == [0, []]
    assert change.keys.keys() == {"cast:b-1"}
    assert await scene.unchanged("broadcast", **cast("backend")) == [1, []]


async def test_a_copy_that_was_sent_before_is_not_sent_again(scene: Scene) -> None:
    await scene.run("send", **(send_arguments("b-1:backend") | {"hash": "h"}))
    change = await scene.act("broadcast", **cast("backend", "frontend"))
    assert not {"msg:b-1:backend", "inbox:backend:normal", "task:backend"} & change.keys.keys()
    assert change.after["task:frontend"]["hash"]["queued:normal"] == "1"
