"""send: what one message writes, and that whatever is not a new message writes nothing."""

from __future__ import annotations

import pytest

from inboxd.errors import HopsExceeded, MessageIdReused, MessageUnknown, SenderForbidden, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene, send_arguments

pytestmark = pytest.mark.anyio


async def test_a_message_is_stored_once_counted_and_listed(scene: Scene) -> None:
    change = await scene.act("send", **send_arguments("m-1"))
    assert change.answer[:5] == [0, 1, b"queued", None, []]
    assert change.keys == {
        "inbox:backend:normal": (
            None,
            {
                "stream": [("3-0", {"message_id": "m-1", "chars": "5"})],
                "groups": {"readers": {"last": "0-0", "pending": [], "readers": []}},
            },
        ),
        "msg:m-1": {
            field: (None, value)
            for field, value in {
                "attempts": "0",
                "chars": "5",
                "created_at_ms": str(START_MS),
                "doc": '{"message_id": "m-1", "body": "hello"}',
                "fence": "0",
                "hash": 'hash of {"message_id": "m-1", "body": "hello"}',
                "history": f"{START_MS} queued operator\n",
                "hops": "0",
                "kind": "message",
                "n": "3",
                "priority": "normal",
                "sender": "operator",
                "state": "queued",
                "task": "backend",
            }.items()
        },
        "task:backend": {"group:normal": (None, "1"), "queued:normal": (None, "1")},
        "timeline:backend": (None, {"stream": [("3-0", {"message_id": "m-1"})]}),
    }
    assert change.events == [
        {"type": "task_message_queued", "task": "backend", "message_id": "m-1", "sender": "operator",
         "kind": "message", "priority": "normal", "pending": 1}
    ]  # fmt: skip


async def test_a_repeated_send_changes_nothing_whatever_became_of_the_message(scene: Scene) -> None:
    await scene.send("m-1", ttl_ms=60_000, topic="t", awaiting="1", sender="task:frontend", sender_task="frontend")
    again = send_arguments(
        "m-1", ttl_ms=60_000, topic="t", awaiting="1", sender="task:frontend", sender_task="frontend"
    )
    assert (await scene.unchanged("send", **again))[0] == 1
    await scene.pull()
    assert (await scene.unchanged("send", **again))[0] == 1
    await scene.run("ack", receipt="p-1")
    assert (await scene.unchanged("send", **again))[0] == 1


async def test_a_refusal_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1", hops=20)
    await scene.send("to-frontend", task_id="frontend")
    await scene.refused("send", MessageIdReused, **send_arguments("m-1", body="other"))
    await scene.refused("send", TaskUnknown, **send_arguments("m-2", task_id="ghost"))
    await scene.refused("send", HopsExceeded, **send_arguments("m-2", reply_to="m-1", sender="task:frontend"))
    await scene.refused("send", HopsExceeded, **send_arguments("m-2", hops=21))
    await scene.refused("send", MessageUnknown, **send_arguments("m-2", supersedes="nothing"))
    await scene.refused("send", MessageUnknown, **send_arguments("m-2", supersedes="to-frontend"))
    await scene.refused("send", SenderForbidden, **send_arguments("m-2", supersedes="m-1", sender="task:frontend"))


async def test_an_unknown_task_is_declared_when_the_sender_asks_for_it(scene: Scene) -> None:
    change = await scene.act("send", **send_arguments("m-1", task_id="new", create="1"))
    assert [event["type"] for event in change.events] == ["task_declared", "task_message_queued"]
    assert change.after["task:new"]["hash"]["state"] == "queued"
    assert change.after["tasks"]["zset"]["new"] == START_MS


async def test_a_task_that_sends_is_heard_and_keeps_its_own_timeline(scene: Scene, clock: FixedClock) -> None:
    clock.pass_ms(10)
    change = await scene.act("send", **send_arguments("m-1", sender="task:frontend", sender_task="frontend"))
    assert change.keys["timeline:frontend"] == (None, {"stream": [("3-0", {"message_id": "m-1"})]})
    assert change.keys["task:frontend"] == {
        "due_ms": (None, str(START_MS + 10 + 300_000)),
        "last_heard_ms": (None, str(START_MS + 10)),
        "state": ("queued", "active"),
    }
    assert change.keys["tasks"] == dict.fromkeys(("backend", "frontend"), (START_MS, START_MS + 10))
    assert [event["type"] for event in change.events] == ["task_message_queued", "task_state_changed"]


async def test_a_time_to_live_is_a_deadline_of_the_task(scene: Scene) -> None:
    change = await scene.act("send", **send_arguments("m-1", ttl_ms=5_000))
    assert change.keys["ttls:backend"] == {"m-1": (None, START_MS + 5_000)}
    assert change.keys["due"] == {"backend": (None, START_MS + 5_000)}
    assert change.keys["task:backend"]["due_ms"] == (None, str(START_MS + 5_000))


async def test_a_newer_word_on_a_topic_takes_the_place_of_the_queued_one(scene: Scene) -> None:
    await scene.send("m-1", topic="build")
    await scene.send("m-2", topic="other")
    await scene.send("m-3", topic="build", sender="task:frontend")
    change = await scene.act("send", **send_arguments("m-4", topic="build"))
    assert change.answer[4] == [b"m-1"]
    assert change.keys["topics:backend"] == {"operator build": ("m-1", "m-4")}
    assert change.keys["msg:m-1"] == {
        "(ttl)": (False, True),
        "history": (f"{START_MS} queued operator\n", f"{START_MS} queued operator\n{START_MS} superseded m-4\n"),
        "reason": (None, "m-4"),
        "state": ("queued", "superseded"),
    }
    waiting = [fields["message_id"] for _, fields in change.after["inbox:backend:normal"]["stream"]]
    assert waiting == ["m-2", "m-3", "m-4"]
    assert change.keys.keys() == {"inbox:backend:normal", "msg:m-1", "msg:m-4", "timeline:backend", "topics:backend"}
    assert [(event["type"], event["pending"]) for event in change.events] == [
        ("task_message_superseded", 2),
        ("task_message_queued", 3),
    ]


async def test_what_was_handed_over_is_not_superseded(scene: Scene) -> None:
    await scene.send("m-1", topic="build")
    await scene.pull()
    change = await scene.act("send", **send_arguments("m-2", topic="build", supersedes="m-1"))
    assert change.answer[4] == []
    assert "msg:m-1" not in change.keys


async def test_a_sender_waits_until_the_answer_comes(scene: Scene) -> None:
    asked = await scene.act(
        "send", **send_arguments("q-1", sender="task:frontend", sender_task="frontend", awaiting="1")
    )
    assert asked.keys["awaits:frontend"] == (None, {"set": ["q-1"]})
    told = {"type": "task_waiting_changed", "task": "frontend", "message_id": "q-1"}
    assert {**told, "waiting": 1, "pending": 0} in asked.events
    answered = await scene.act("send", **send_arguments("a-1", task_id="frontend", reply_to="q-1"))
    assert answered.keys["awaits:frontend"] == ({"set": ["q-1"]}, None)
    assert answered.events[-1] == {**told, "waiting": 0, "pending": 1}
    assert answered.after["msg:a-1"]["hash"]["hops"] == "1"


async def test_each_priority_has_a_queue_of_its_own(scene: Scene) -> None:
    for priority in ("low", "normal", "high", "urgent"):
        change = await scene.act("send", **send_arguments(f"m-{priority}", priority=priority))
        assert change.keys["task:backend"] == {f"group:{priority}": (None, "1"), f"queued:{priority}": (None, "1")}
        assert f"inbox:backend:{priority}" in change.keys


async def test_mail_sent_behind_what_a_former_life_of_the_task_left_can_be_pulled(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    await scene.run("ack", receipt="p-1")
    await scene.run("remove")
    await scene.declare("backend")
    assert await scene.run("unseen", receipt="p-1") == [[b"m-1"], []]
    await scene.send("m-2")
    assert await scene.pull(pull_id="p-2") == ["m-1", "m-2"]
