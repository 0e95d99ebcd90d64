"""The log: whatever is written is told, numbered without a hole, with the count a badge shows."""

from __future__ import annotations

import random

import pytest

from inboxd.settings import Settings
from inboxd.store.connection import Connection
from inboxd.store.store import Store
from tests.conftest import FixedClock
from tests.support.scene import Scene
from tests.support.state import State, events_of

pytestmark = pytest.mark.anyio

PRIORITIES = ("low", "normal", "high", "urgent")


def waiting_of(state: State, task: str) -> int:
    fields = state[f"task:{task}"]["hash"]
    return sum(int(fields.get(f"queued:{priority}", 0)) for priority in PRIORITIES)


async def step(scene: Scene, clock: FixedClock, choose: random.Random, number: int) -> None:
    task, session, receipt = choose.choice(("backend", "frontend")), choose.choice("ab"), f"p-{choose.randrange(20)}"
    what = choose.choice(("send", "send", "send", "pull", "pull", "settle", "settle", "presence", "time", "change"))
    if what == "send":
        await scene.send(
            f"m-{number}", task_id=task, priority=choose.choice(PRIORITIES), topic=choose.choice(("", "t")),
            ttl_ms=choose.choice(("", 5_000)), sender="task:frontend", sender_task="frontend",
            awaiting=choose.choice(("", "1")), reply_to=choose.choice(("", f"m-{number - 1}")),
        )  # fmt: skip
    elif what == "pull":
        await scene.pull(
            task_id=task, session=session, pull_id=f"p-{number}", max=2, ack=choose.choice(("", "1")), heard="1"
        )
    elif what == "settle":
        verb = choose.choice(("release", "seen", "unseen"))
        ids = f'["m-{choose.randrange(number + 1)}"]'
        await scene.run(verb, task_id=task, session=session, ids=ids)
    elif what == "presence":
        await scene.run(
            "presence", task_id=task, session=session, sign=choose.choice(("start", "waiting", "end", "terminated"))
        )
    elif what == "time":
        clock.pass_ms(choose.choice((1, 6_000, 40_000)))
        await scene.run("sweep", task_id=task)
    else:
        await scene.run("declare", task_id=task, title=receipt, wanted_peers='["other"]')


async def test_events_are_numbered_without_a_hole_and_count_what_waits(scene: Scene, clock: FixedClock) -> None:
    choose = random.Random(7)
    for number in range(150):
        await step(scene, clock, choose, number)
        state = await scene.look()
        events = events_of(state)  # checks the numbers
        assert all("pending" in event for event in events if "task" in event)
        for task in ("backend", "frontend"):
            told = [event for event in events if event["task"] == task and "pending" in event]
            assert told[-1]["pending"] == waiting_of(state, task), f"after step {number}: {told[-1]}"
    kinds = {event["type"].removeprefix("task_") for event in events_of(state)}
    assert kinds >= {
        "declared", "message_queued", "message_in_flight", "message_delivered", "message_seen", "message_returned",
        "message_expired", "message_superseded", "waiting_changed", "state_changed", "session_started",
        "session_ended", "changed", "linked",
    }  # fmt: skip


async def test_every_message_event_tells_the_count_as_it_was_then(scene: Scene, clock: FixedClock) -> None:
    """Played back from the log alone, the counts add up."""
    choose = random.Random(11)
    for number in range(200):
        await step(scene, clock, choose, number)
    waiting: dict[str, set[str]] = {}
    for event in events_of(await scene.look()):
        if not event["type"].startswith("task_message_"):
            continue
        mine = waiting.setdefault(event["task"], set())
        if event["type"] in ("task_message_queued", "task_message_returned"):
            mine.add(event["message_id"])
        else:
            mine.discard(event["message_id"])
        assert event["pending"] == len(mine), event


async def test_the_log_keeps_about_as_many_events_as_it_may(
    connection: Connection, namespace: str, clock: FixedClock
) -> None:
    scene = Scene(Store(connection, Settings(events_max=100)), namespace, clock)
    await scene.declare("backend", "frontend")
    for number in range(400):
        await scene.run("declare", title=f"t-{number}")
    events = events_of(await scene.look())
    assert 100 <= len(events) <= 300
    assert events[-1]["id"] == 402
