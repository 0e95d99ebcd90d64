"""take_back, accept and search: what a person does with mail at a screen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inboxd.errors import MessageState, MessageUnknown, SenderForbidden, TaskUnknown
from tests.conftest import START_MS, FixedClock
from tests.scripts.test_requeue import kill
from tests.support.scene import Scene, ids_of

pytestmark = pytest.mark.anyio


def taking_back(message_id: str, *, sender: str = "", spared: str = "") -> dict[str, Any]:
    return {"message_id": message_id, "sender": sender, "spared": spared}


def accepting(*message_ids: str, **given: Any) -> dict[str, Any]:
    return {"session": "dashboard", "ids": json.dumps(message_ids), **given}


async def test_a_queued_message_taken_back_is_superseded_and_never_handed_over(scene: Scene) -> None:
    await scene.send("m-1", ttl_ms=60_000, topic="build")
    await scene.send("m-2")
    change = await scene.act("take_back", **taking_back("m-1"))
    assert change.answer[0] == 1
    history = change.keys["msg:m-1"].pop("history")
    assert history[1] == f"{history[0]}{START_MS} superseded taken_back\n"
    inbox = change.keys.pop("inbox:backend:normal")[1]
    assert [fields["message_id"] for _, fields in inbox["stream"]] == ["m-2"]
    assert change.keys == {
        "due": {"backend": (START_MS + 60_000, None)},
        "msg:m-1": {"(ttl)": (False, True), "reason": (None, "taken_back"), "state": ("queued", "superseded")},
        "task:backend": {"due_ms": (str(START_MS + 60_000), None), "queued:normal": ("2", "1")},
        "topics:backend": {"operator build": ("m-1", None)},
        "ttls:backend": {"m-1": (START_MS + 60_000, None)},
    }
    assert [(event["type"], event["reason"], event["pending"]) for event in change.events] == [
        ("task_message_superseded", "taken_back", 1)
    ]
    assert await scene.pull() == ["m-2"]


async def test_a_dead_letter_taken_back_is_no_longer_listed(scene: Scene) -> None:
    await scene.send("m-1")
    await kill(scene, "m-1")
    change = await scene.act("take_back", **taking_back("m-1"))
    assert change.keys["dead:backend"] == {"m-1": (3, None)}
    assert change.keys["task:backend"] == {"dead": ("1", "0")}


async def test_a_sender_who_waited_for_an_answer_waits_no_longer(scene: Scene) -> None:
    await scene.send("m-1", sender="task:frontend", sender_task="frontend", awaiting="1")
    change = await scene.act("take_back", **taking_back("m-1", sender="task:frontend"))
    assert change.keys["awaits:frontend"] == ({"set": ["m-1"]}, None)


async def test_a_second_take_back_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.run("take_back", **taking_back("m-1"))
    assert (await scene.unchanged("take_back", **taking_back("m-1")))[0] == 0


async def test_a_refused_take_back_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1", sender="user", sender_task="user")
    await scene.refused("take_back", MessageUnknown, **taking_back("nothing"))
    await scene.refused("take_back", SenderForbidden, **taking_back("m-1", sender="task:backend"))
    await scene.refused("take_back", SenderForbidden, **taking_back("m-1", spared="user"))
    await scene.pull()
    await scene.refused("take_back", MessageState, **taking_back("m-1"))
    await scene.run("ack", receipt="p-1")
    await scene.refused("take_back", MessageState, **taking_back("m-1"))


async def test_accepting_delivers_and_proves_exactly_the_message_named(scene: Scene) -> None:
    for number in range(3):
        await scene.send(f"m-{number}", priority="urgent" if number == 2 else "normal")
    change = await scene.act("accept", **accepting("m-1"))
    assert change.answer == [[b"m-1"], [], 1, 0]
    history = change.keys["msg:m-1"].pop("history")
    assert history[1] == f"{history[0]}{START_MS} delivered dashboard\n{START_MS} seen dashboard\n"
    assert change.keys.pop("inbox:backend:normal")
    change.keys.pop("stats:30000000", None)  # counted for the charts
    assert change.keys == {
        "msg:m-1": {
            "(ttl)": (False, True), "attempts": ("0", "1"), "delivered_at_ms": (None, str(START_MS)),
            "delivered_to": (None, "dashboard"), "fence": ("0", "1"), "holder": (None, ""),
            "seen_at_ms": (None, str(START_MS)), "state": ("queued", "seen"),
        },
        "task:backend": {"queued:normal": ("2", "1")},
    }  # fmt: skip
    assert [(event["type"], event["session"], event["pending"]) for event in change.events] == [
        ("task_message_delivered", "dashboard", 2),
        ("task_message_seen", "dashboard", 2),
    ]
    assert await scene.pull() == ["m-2", "m-0"]


async def test_accepting_again_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.run("accept", **accepting("m-1"))
    assert await scene.unchanged("accept", **accepting("m-1", "m-1")) == [[b"m-1"], [], 0, 0]


async def test_what_was_delivered_elsewhere_becomes_seen_and_dead_letters_are_read_too(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.take()
    await scene.send("m-2")
    await kill(scene, "m-2")
    change = await scene.act("accept", **accepting("m-1", "m-2"))
    assert change.answer[:2] == [[b"m-1", b"m-2"], []]
    assert {change.after[f"msg:{one}"]["hash"]["state"] for one in ("m-1", "m-2")} == {"seen"}
    assert change.keys["dead:backend"]
    assert "reason" not in change.after["msg:m-2"]["hash"]


async def test_a_message_in_somebody_s_hands_or_in_another_inbox_is_not_accepted(scene: Scene) -> None:
    await scene.send("held")
    await scene.pull()
    await scene.send("elsewhere", task_id="frontend")
    answer = await scene.unchanged("accept", **accepting("held", "elsewhere", "nothing"))
    assert answer == [[], [b"held", b"elsewhere", b"nothing"], 0, 0]
    await scene.refused("accept", TaskUnknown, **accepting("held", task_id="ghost"))


async def test_a_former_holder_cannot_bring_back_what_was_accepted(scene: Scene, clock: FixedClock) -> None:
    await scene.send("m-1")
    await scene.pull()
    clock.pass_ms(30_000)
    await scene.run("sweep")
    await scene.run("accept", **accepting("m-1"))
    assert await scene.unchanged("unseen", receipt="p-1") == [[], [b"m-1"]]


async def find(scene: Scene, **given: Any) -> tuple[list[str], str]:
    given = {
        "names": json.dumps(["backend", "frontend"]),
        "needles": "[]",
        "from_ms": "",
        "to_ms": "",
        "chars_max": 10_000,
    } | given
    given["needles"] = given["needles"] if isinstance(given["needles"], str) else json.dumps(given["needles"])
    last, _scanned, rows = await scene.unchanged("search", **given)
    return ids_of(rows), last.decode()


async def test_timelines_are_merged_newest_first_and_each_message_comes_once(scene: Scene) -> None:
    for number in range(9):
        to, of = ("backend", "frontend") if number % 2 else ("frontend", "backend")
        await scene.send(f"m-{number}", task_id=to, sender=f"task:{of}", sender_task=of)
    everything = [f"m-{number}" for number in range(8, -1, -1)]
    assert await find(scene) == (everything, "")
    seen, last = await find(scene, limit=4)
    more, _ = await find(scene, limit=10, before=last)
    assert seen + more == everything
    assert (await find(scene, names='["backend"]'))[0] == everything


async def test_a_search_looks_for_any_of_the_spellings_and_at_a_bounded_number(scene: Scene) -> None:
    for number in range(6):
        await scene.send(f"m-{number}", body="Deploy NOW" if number in (0, 4) else "nothing")
    assert (await find(scene, needles=["deploy now"]))[0] == ["m-4", "m-0"]
    assert (await find(scene, needles=["deploy never", "deploy n"]))[0] == ["m-4", "m-0"]
    ids, last = await find(scene, needles=["deploy now"], scan_max=3)
    assert ids == ["m-4"]
    assert (await find(scene, needles=["deploy now"], before=last))[0] == ["m-0"]
    ids, last = await find(scene, chars_max=1)
    assert (ids, last != "") == (["m-5"], True)


async def test_a_search_is_narrowed_by_sender_and_time(scene: Scene, clock: FixedClock) -> None:
    for number in range(4):
        await scene.send(f"m-{number}", sender="operator" if number % 2 else "user")
        clock.pass_ms(1_000)
    assert (await find(scene, senders="user"))[0] == ["m-2", "m-0"]
    assert (await find(scene, from_ms=START_MS + 2_000))[0] == ["m-3", "m-2"]
    assert (await find(scene, to_ms=START_MS + 1_000))[0] == ["m-1", "m-0"]


async def test_a_long_timeline_is_read_piece_by_piece(scene: Scene) -> None:
    for number in range(30):
        await scene.send(f"m-{number}", task_id="backend" if number % 3 else "frontend")
    assert (await find(scene, scan_max=2))[0] == ["m-29", "m-28"]
    seen: list[str] = []
    last = ""
    while True:
        ids, last = await find(scene, scan_max=7, before=last)
        seen += ids
        if not last:
            break
    assert seen == [f"m-{number}" for number in range(29, -1, -1)]
