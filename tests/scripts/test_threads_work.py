"""update: what a worker's word does to a thread, and that only its holder's does."""

from __future__ import annotations

import pytest

from inboxd.errors import HopsExceeded, LeaseLost, MessageIdReused, ThreadFull, ThreadState, ThreadUnknown
from inboxd.settings import Settings
from inboxd.store.store import Store
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene
from tests.support.work import LEASE_MS, at_work, claim, moved, open_thread, reply, said, told, update

pytestmark = pytest.mark.anyio

RETENTION_MS = Settings().retention_ms


def working(message_id: str, **given: object) -> dict[str, object]:
    return said("update", message_id, **given)


async def test_progress_is_noted_in_the_thread_and_is_nobodys_mail(scene: Scene) -> None:
    await at_work(scene)
    change = await scene.act("update", **working("p-1"))
    assert change.keys["msg:p-1"]["state"] == (None, "noted")
    assert change.keys["msg:p-1"]["task"] == (None, "")
    assert change.keys["thread:t-1"] == {
        "last_n": ("3", "8"),
        "last_sender": ("task:frontend", "task:backend"),
        "latest_message_id": ("t-1", "p-1"),
        "messages": ("1", "2"),
        "prev_n": (None, "3"),
        "said:task:backend": (None, "8"),
        "status": ("claimed", "in_progress"),
        "summary": (None, "So far."),
    }
    entry = {"message_id": "p-1", "kind": "progress", "sender": "task:backend", "to": ""}
    assert change.keys["thread_log:t-1"][1]["stream"][-1] == ("8-0", entry)
    lists = moved("t-1", 3, "claimed", "in_progress", "backend", "frontend")
    assert {name: change.keys[name] for name in lists} == lists
    assert change.keys.keys() == lists.keys() | {"msg:p-1", "thread:t-1", "thread_log:t-1", "timeline:backend"}
    assert [(event["type"], event["status"], event["message_id"]) for event in change.events] == [
        ("thread_updated", "in_progress", "p-1")
    ]


async def test_a_question_is_mail_to_who_opened_it_and_the_worker_waits(scene: Scene) -> None:
    await at_work(scene)
    change = await scene.act("update", **working("q-1", status="blocked", kind="question", awaiting="1"))
    assert change.keys["msg:q-1"]["task"] == (None, "frontend")
    assert change.keys["msg:q-1"]["state"] == (None, "queued")
    assert change.keys["awaits:backend"] == (None, {"set": ["q-1"]})
    assert change.keys["thread:t-1"]["question_id"] == (None, "q-1")
    lists = moved("t-1", 3, "claimed", "blocked", "backend", "frontend")
    assert change.keys.keys() == lists.keys() | {
        "awaits:backend", "inbox:frontend:normal", "msg:q-1", "task:frontend", "thread:t-1", "thread_log:t-1",
        "timeline:backend", "timeline:frontend",
    }  # fmt: skip
    assert told(change) == ["task_message_queued", "task_waiting_changed", "thread_blocked"]


async def test_a_newer_question_takes_the_place_of_the_older(scene: Scene) -> None:
    await at_work(scene, asked=True)
    change = await scene.act("update", **working("q-2", status="blocked", kind="question", awaiting="1"))
    assert change.keys["thread:t-1"]["question_id"] == ("q-1", "q-2")
    assert change.keys["awaits:backend"] == ({"set": ["q-1"]}, {"set": ["q-2"]})


async def test_who_goes_on_asks_no_more(scene: Scene) -> None:
    await at_work(scene, asked=True)
    change = await scene.act("update", **working("p-1", summary=""))
    assert change.keys["thread:t-1"]["question_id"] == ("q-1", None)
    assert change.keys["awaits:backend"] == ({"set": ["q-1"]}, None)
    assert "summary" not in change.keys["thread:t-1"], "silence is no summary"


@pytest.mark.parametrize("status", ["done", "failed"])
async def test_the_end_gives_the_lease_up_and_is_mail_to_who_opened_it(scene: Scene, status: str) -> None:
    await open_thread(scene, awaiting="1")
    await claim(scene)
    await update(scene, "p-1")
    await update(scene, "q-1", "blocked")
    await reply(scene, "a-1")
    await scene.take(pull_id="p-1")
    change = await scene.act("update", **working("d-1", status=status, kind="result", summary="Fixed."))
    assert change.keys["thread:t-1"] == {
        "closed_at_ms": (None, str(START_MS)),
        "last_n": ("14", "20"),
        "last_sender": ("task:frontend", "task:backend"),
        "latest_message_id": ("a-1", "d-1"),
        "lease_released_at_ms": (None, str(START_MS)),
        "messages": ("4", "5"),
        "prev_n": ("10", "14"),
        "said:task:backend": ("10", "20"),
        "status": ("blocked", status),
        "summary": ("So far.", "Fixed."),
    }
    assert change.keys["leases"] == {"t-1": (START_MS + LEASE_MS, None)}
    assert change.keys["closed_threads"] == {"t-1": (None, START_MS + RETENTION_MS)}
    assert change.keys["awaits:frontend"] == ({"set": ["t-1"]}, None)
    for settled in ("p-1", "t-1", "a-1"):
        assert change.keys[f"msg:{settled}"] == {"(ttl)": (False, True)}
    assert "msg:q-1" not in change.keys, "nobody got it yet"
    assert change.keys["msg:d-1"]["state"] == (None, "queued")
    assert told(change) == ["task_message_queued", f"thread_{status}", "task_waiting_changed"]


async def test_a_repeat_changes_nothing_even_when_the_lease_is_lost_or_the_thread_over(
    scene: Scene, clock: FixedClock
) -> None:
    await at_work(scene, asked=True)
    asked = working("q-1", status="blocked", kind="question", awaiting="1")
    assert (await scene.unchanged("update", **asked))[0] == 1
    clock.pass_ms(LEASE_MS)
    assert (await scene.unchanged("update", **asked))[0] == 1
    await claim(scene, agent="frontend")
    assert (await scene.unchanged("update", **asked))[0] == 1
    ended = working("d-1", status="done", kind="result", agent="frontend", fencing_token=2, sender="task:frontend")
    await scene.run("update", **ended)
    assert (await scene.unchanged("update", **ended))[0] == 1
    assert (await scene.unchanged("update", **asked))[0] == 1


async def test_a_write_without_the_lease_changes_nothing(scene: Scene, clock: FixedClock) -> None:
    await scene.refused("update", ThreadUnknown, **working("p-1"))
    await open_thread(scene)
    await scene.refused("update", LeaseLost, **working("p-1"))
    await scene.refused("update", LeaseLost, **working("p-1", fencing_token=0))
    await claim(scene)
    for status in ("in_progress", "blocked", "done", "failed"):
        await scene.refused("update", LeaseLost, **working("p-1", status=status, fencing_token=2))
        await scene.refused("update", LeaseLost, **working("p-1", status=status, agent="frontend"))
    clock.pass_ms(LEASE_MS)
    await scene.refused("update", LeaseLost, **working("p-1", status="done"))
    await claim(scene, claim_id="c-2")
    await scene.refused("update", LeaseLost, **working("p-1", status="done"))
    await update(scene, "d-1", "done", fencing_token=2)
    for status in ("in_progress", "blocked", "done", "failed"):
        await scene.refused("update", ThreadState, **working("p-1", status=status, fencing_token=2))


async def test_other_refusals_change_nothing(scene: Scene) -> None:
    await at_work(scene)
    await update(scene, "p-1")
    await scene.refused("update", MessageIdReused, **working("p-1", body="other"))
    await scene.refused("update", MessageIdReused, **working("t-1"))
    await scene.refused("update", HopsExceeded, **working("p-2", hops=21))


async def test_a_full_thread_takes_its_end_and_nothing_else(scene: Scene, clock: FixedClock) -> None:
    small = Scene(Store(scene.store.connection, Settings(thread_messages_max=10)), scene.namespace, clock)
    await at_work(small)
    for number in range(9):
        await update(small, f"p-{number}")
    await small.refused("update", ThreadFull, **working("p-9"))
    await small.refused("update", ThreadFull, **working("p-9", status="blocked"))
    await small.refused("reply", ThreadFull, **said("reply", "a-1"))
    change = await small.act("update", **working("d-1", status="done", kind="result"))
    assert change.after["thread:t-1"]["hash"]["messages"] == "11"


async def test_what_its_creator_cannot_get_is_only_noted(scene: Scene) -> None:
    await open_thread(scene, sender="operator", sender_task="")
    await open_thread(scene, "t-2")
    await open_thread(scene, "t-3", sender="task:backend", sender_task="backend")
    for number in (1, 2, 3):
        await claim(scene, f"t-{number}")
    await scene.run("remove", task_id="frontend", force="1")
    for number in (1, 2, 3):
        change = await scene.act(
            "update", **working(f"d-{number}", thread_id=f"t-{number}", status="done", kind="result")
        )
        assert change.keys[f"msg:d-{number}"]["state"] == (None, "noted")
        assert change.after[f"msg:d-{number}"]["ttl"]
