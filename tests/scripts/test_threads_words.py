"""reply and cancel: whose mail a word is, what it answers, and who may say it."""

from __future__ import annotations

import json

import pytest

from inboxd.errors import (
    HopsExceeded,
    LeaseLost,
    MessageIdReused,
    TaskUnknown,
    ThreadForbidden,
    ThreadState,
    ThreadUnknown,
)
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene
from tests.support.work import LEASE_MS, at_work, cancel, claim, moved, open_thread, reply, said, told, update

pytestmark = pytest.mark.anyio

WORKER = {"sender": "task:backend", "sender_task": "backend"}
OPERATOR = {"sender": "operator", "sender_task": "", "any": "1"}


def replying(message_id: str = "a-1", **given: object) -> dict[str, object]:
    return said("reply", message_id, **given)


def cancelling(message_id: str = "x-1", **given: object) -> dict[str, object]:
    return said("cancel", message_id, **given)


async def test_an_answer_is_mail_to_the_worker_and_ends_its_question(scene: Scene) -> None:
    await at_work(scene, asked=True)
    change = await scene.act("reply", **replying())
    assert json.loads(change.after["msg:a-1"]["hash"]["doc"])["reply_to"] == "q-1"
    assert change.keys["msg:a-1"]["task"] == (None, "backend")
    assert change.keys["msg:a-1"]["hops"] == (None, "1")
    assert change.keys["awaits:backend"] == ({"set": ["q-1"]}, None)
    assert change.keys["thread:t-1"] == {
        "last_n": ("8", "12"),
        "last_sender": ("task:backend", "task:frontend"),
        "latest_message_id": ("q-1", "a-1"),
        "messages": ("2", "3"),
        "prev_n": ("3", "8"),
        "question_id": ("q-1", None),
        "said:task:frontend": ("3", "12"),
    }
    assert change.keys.keys() == {
        "awaits:backend", "inbox:backend:normal", "msg:a-1", "task:backend", "thread:t-1", "thread_log:t-1",
        "timeline:backend", "timeline:frontend",
    }  # fmt: skip
    assert told(change) == ["task_waiting_changed", "task_message_queued", "thread_replied"]
    assert change.events[-1]["status"] == "blocked"


async def test_a_repeated_reply_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    await reply(scene, "a-1")
    by_worker = replying("a-2", fencing_token=1, **WORKER)
    await scene.run("reply", **by_worker)
    clock.pass_ms(LEASE_MS)
    await cancel(scene)
    for again in (replying(), by_worker):
        assert (await scene.unchanged("reply", **again))[0] == 1


@pytest.mark.parametrize(
    ("given", "to"),
    [
        ({}, "backend"),
        (OPERATOR, "backend"),
        ({"sender": "user", "sender_task": "user", "any": "1"}, "backend"),
        ({"fencing_token": 1, **WORKER}, "frontend"),
        ({"to": "frontend"}, "frontend"),
        ({"to": "third"}, "third"),
    ],
)
async def test_a_word_goes_to_the_worker_the_workers_own_to_who_opened_it(
    scene: Scene, given: dict[str, object], to: str
) -> None:
    await scene.declare("third")
    await at_work(scene)
    change = await scene.act("reply", **replying(**given))
    assert change.keys["msg:a-1"]["task"] == (None, to)
    assert to in change.after["thread:t-1"]["hash"]["agents"].split(",")


async def test_a_word_that_nobody_can_get_is_only_noted(scene: Scene) -> None:
    await open_thread(scene, to="")
    change = await scene.act("reply", **replying())
    assert change.keys["msg:a-1"]["state"] == (None, "noted")
    await open_thread(scene, "t-2", to="backend", sender="operator", sender_task="")
    await scene.run("remove", task_id="backend", force="1")
    change = await scene.act("reply", **replying("a-2", thread_id="t-2", **OPERATOR))
    assert change.keys["msg:a-2"]["state"] == (None, "noted")


async def test_before_it_is_claimed_a_word_goes_to_whom_it_is_assigned_and_its_own_back(scene: Scene) -> None:
    await open_thread(scene)
    assert (await scene.act("reply", **replying())).keys["msg:a-1"]["task"] == (None, "backend")
    assert (await scene.act("reply", **replying("a-2", **WORKER))).keys["msg:a-2"]["task"] == (None, "frontend")


async def test_after_a_takeover_the_answer_goes_to_who_works_on_it_now(scene: Scene, clock: FixedClock) -> None:
    await scene.declare("third")
    await at_work(scene, asked=True)
    clock.pass_ms(LEASE_MS)
    await claim(scene, agent="third")
    change = await scene.act("reply", **replying())
    assert change.keys["msg:a-1"]["task"] == (None, "third")
    assert json.loads(change.after["msg:a-1"]["hash"]["doc"])["reply_to"] == "q-1"
    assert change.keys["awaits:backend"] == ({"set": ["q-1"]}, None), "who asked waits no more"


async def test_a_question_to_the_worker_does_not_end_the_workers_own(scene: Scene) -> None:
    await scene.declare("third")
    await at_work(scene, asked=True)
    asked = {"kind": "question", "awaiting": "1"}
    change = await scene.act("reply", **replying("c-1", **asked))
    assert change.keys["thread:t-1"]["asked_id"] == (None, "c-1")
    assert "question_id" not in change.keys["thread:t-1"]
    # A newer one takes the place of the older, whoever asks it.
    change = await scene.act("reply", **replying("c-2", sender="task:third", sender_task="third", any="1", **asked))
    assert change.keys["thread:t-1"]["asked_id"] == ("c-1", "c-2")
    assert change.keys["awaits:frontend"] == ({"set": ["c-1"]}, None)
    # The worker's answer goes to who asked; the answer to the worker to its own question.
    change = await scene.act("reply", **replying("a-1", fencing_token=1, **WORKER))
    assert change.keys["msg:a-1"]["task"] == (None, "third")
    assert change.keys["thread:t-1"]["asked_id"] == ("c-2", None)
    assert change.keys["awaits:third"] == ({"set": ["c-2"]}, None)
    change = await scene.act("reply", **replying("a-2"))
    assert change.keys["msg:a-2"]["task"] == (None, "backend")
    assert change.keys["awaits:backend"] == ({"set": ["q-1"]}, None)
    assert change.keys["thread:t-1"]["question_id"] == ("q-1", None)


async def test_who_asked_does_not_answer_itself(scene: Scene) -> None:
    await at_work(scene, asked=True)
    change = await scene.act("reply", **replying("a-1", reply_to="q-1", fencing_token=1, **WORKER))
    assert "question_id" not in change.keys["thread:t-1"]
    assert "awaits:backend" not in change.keys
    await open_thread(scene, "t-2", to="")
    await reply(scene, "c-1", thread_id="t-2", kind="question", awaiting="1")
    await claim(scene, "t-2", agent="frontend")
    change = await scene.act("reply", **replying("a-2", thread_id="t-2", fencing_token=1))
    assert json.loads(change.after["msg:a-2"]["hash"]["doc"])["reply_to"] is None


async def test_a_worker_may_ask_without_being_blocked(scene: Scene) -> None:
    await at_work(scene)
    change = await scene.act("reply", **replying("q-1", kind="question", awaiting="1", fencing_token=1, **WORKER))
    assert change.keys["thread:t-1"]["question_id"] == (None, "q-1")
    assert "status" not in change.keys["thread:t-1"]
    change = await scene.act("reply", **replying("q-2", kind="question", awaiting="1", fencing_token=1, **WORKER))
    assert change.keys["awaits:backend"] == ({"set": ["q-1"]}, {"set": ["q-2"]})


async def test_who_once_held_it_writes_only_under_its_lease(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    await scene.refused("reply", LeaseLost, **replying(**WORKER))
    await scene.refused("reply", LeaseLost, **replying(fencing_token=2, **WORKER))
    await scene.refused("reply", LeaseLost, **replying(fencing_token=1))
    clock.pass_ms(LEASE_MS)
    await scene.refused("reply", LeaseLost, **replying(fencing_token=1, **WORKER))
    await claim(scene, agent="frontend")
    await scene.refused("reply", LeaseLost, **replying(fencing_token=1, **WORKER))
    await scene.refused("reply", LeaseLost, **replying(**WORKER))
    assert (await scene.act("reply", **replying())).answer[0] == 0, "who opened it needs no lease"


async def test_a_refused_reply_changes_nothing(scene: Scene) -> None:
    await scene.declare("third")
    await at_work(scene)
    await scene.refused("reply", ThreadUnknown, **replying(thread_id="nothing"))
    await scene.refused("reply", ThreadForbidden, **replying(sender="task:third", sender_task="third"))
    await scene.refused("reply", TaskUnknown, **replying(to="ghost"))
    await scene.refused("reply", MessageIdReused, **replying("t-1"))
    await scene.refused("reply", HopsExceeded, **replying(hops=21))
    await cancel(scene)
    await scene.refused("reply", ThreadState, **replying())
    await scene.refused("reply", ThreadState, **replying(**OPERATOR))


async def test_an_unknown_recipient_is_declared_when_asked_for(scene: Scene) -> None:
    await at_work(scene)
    change = await scene.act("reply", **replying(to="new", create="1"))
    assert told(change)[0] == "task_declared"
    assert change.keys["msg:a-1"]["task"] == (None, "new")


async def test_a_cancel_tells_the_holder_and_ends_everything(scene: Scene) -> None:
    await at_work(scene, asked=True)
    change = await scene.act("cancel", **cancelling())
    assert change.keys["msg:x-1"]["task"] == (None, "backend")
    assert change.keys["msg:x-1"]["kind"] == (None, "control")
    assert json.loads(change.after["msg:x-1"]["hash"]["doc"])["reply_to"] == "t-1"
    assert change.keys["thread:t-1"] == {
        "closed_at_ms": (None, str(START_MS)),
        "last_n": ("8", "11"),
        "last_sender": ("task:backend", "task:frontend"),
        "latest_message_id": ("q-1", "x-1"),
        "lease_released_at_ms": (None, str(START_MS)),
        "messages": ("2", "3"),
        "prev_n": ("3", "8"),
        "question_id": ("q-1", None),
        "said:task:frontend": ("3", "11"),
        "status": ("blocked", "cancelled"),
        "summary": ("So far.", "Not needed."),
    }
    lists = moved("t-1", 3, "blocked", "cancelled", "backend", "frontend")
    assert {name: change.keys[name] for name in lists} == lists
    assert change.keys.keys() == lists.keys() | {
        "awaits:backend", "closed_threads", "inbox:backend:high", "leases", "msg:x-1", "task:backend", "thread:t-1",
        "thread_log:t-1", "timeline:backend", "timeline:frontend",
    }  # fmt: skip
    assert told(change) == ["task_message_queued", "thread_cancelled", "task_waiting_changed"]


async def test_what_nobody_got_is_taken_back_instead(scene: Scene) -> None:
    await open_thread(scene, awaiting="1")
    await reply(scene, "a-1", kind="control")
    await reply(scene, "a-2", kind="control", to="frontend", **OPERATOR)
    change = await scene.act("cancel", **cancelling())
    for one in ("t-1", "a-1"):
        assert change.keys[f"msg:{one}"]["state"] == ("queued", "superseded")
        assert change.keys[f"msg:{one}"]["(ttl)"] == (False, True)
    assert "msg:a-2" not in change.keys
    assert change.keys["msg:x-1"]["state"] == (None, "noted")
    assert change.keys["task:backend"] == {"queued:normal": ("2", "0")}
    assert change.keys["awaits:frontend"] == ({"set": ["t-1"]}, None)


@pytest.mark.parametrize("got", ["in flight", "delivered", "came back"])
async def test_who_got_any_of_it_is_told(scene: Scene, got: str) -> None:
    await open_thread(scene)
    await reply(scene, "a-1", kind="control")
    await scene.pull(max=1)
    if got != "in flight":
        await scene.run("ack" if got == "delivered" else "release", receipt="p-1")
    change = await scene.act("cancel", **cancelling())
    assert change.keys["msg:x-1"]["task"] == (None, "backend")
    assert "msg:a-1" not in change.keys


async def test_a_cancel_of_what_was_taken_back_or_is_in_the_pool_tells_nobody(scene: Scene) -> None:
    await open_thread(scene)
    await scene.run("take_back", message_id="t-1", sender="", spared="")
    await open_thread(scene, "t-2", to="")
    await open_thread(scene, "t-3", to="frontend")
    for number in (1, 2, 3):
        change = await scene.act("cancel", **cancelling(f"x-{number}", thread_id=f"t-{number}"))
        assert change.keys[f"msg:x-{number}"]["state"] == (None, "noted")


async def test_a_lost_lease_is_told_of_too(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    clock.pass_ms(LEASE_MS)
    await scene.run("expire_leases")
    change = await scene.act("cancel", **cancelling())
    assert change.keys["msg:x-1"]["task"] == (None, "backend")
    assert change.keys["thread:t-1"]["agents"] == ("frontend,backend,*", "frontend,backend")
    assert change.keys["agent_threads:*:claimed"] == {"t-1": (2 * 2**50 + 3, None)}
    assert "agent_threads:*:cancelled" not in change.after


async def test_a_repeated_cancel_changes_nothing(scene: Scene) -> None:
    await at_work(scene)
    await cancel(scene)
    assert (await scene.unchanged("cancel", **cancelling()))[0] == 1
    await scene.refused("cancel", ThreadState, **cancelling("x-2"))


async def test_a_refused_cancel_changes_nothing(scene: Scene) -> None:
    await at_work(scene)
    await scene.refused("cancel", ThreadUnknown, **cancelling(thread_id="nothing"))
    await scene.refused("cancel", ThreadForbidden, **cancelling(**WORKER))
    await scene.refused("cancel", ThreadForbidden, **cancelling(sender="operator", sender_task=""))
    await scene.refused("cancel", ThreadForbidden, **cancelling(spared="task:frontend", **OPERATOR))
    await scene.refused("cancel", MessageIdReused, **cancelling("t-1"))
    await scene.refused("cancel", HopsExceeded, **cancelling(hops=21))
    await update(scene, "d-1", "done", kind="result")
    await scene.refused("cancel", ThreadState, **cancelling())
    await scene.refused("cancel", ThreadState, **cancelling(**OPERATOR))
