"""show_thread, list_threads, fetch, wait_reply, watch: looking changes nothing. mark_read and take: what little they change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from inboxd.errors import MessageUnknown, ReceiptLost, TaskUnknown, ThreadForbidden, ThreadState, ThreadUnknown
from inboxd.store import keys
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene, ids_of
from tests.support.work import (
    LEASE_MS,
    at_work,
    cancel,
    claim,
    drop_message,
    fields_of,
    open_thread,
    reply,
    said,
    update,
)

pytestmark = pytest.mark.anyio

WORKER = {"sender": "task:backend", "sender_task": "backend"}
CREATOR = {"agent": "frontend", "sender": "task:frontend"}


async def listed(scene: Scene, **given: Any) -> tuple[list[str], str]:
    _now, _seq, rows, last = await scene.unchanged("list_threads", **said("list_threads", **given))
    return [found.decode() for found, _ in rows], last.decode()


async def fetched(scene: Scene, **given: Any) -> list[str]:
    _now, _seq, rows = await scene.unchanged("fetch", **said("fetch", **given))
    return [found.decode() for found, _ in rows]


async def found_reply(scene: Scene, **given: Any) -> str | None:
    _seq, message, n, _to = await scene.unchanged("wait_reply", **said("wait_reply", **given))
    assert (n == b"") == (message == [])
    return ids_of([message])[0] if message else None


async def watched(scene: Scene, after: int, **given: Any) -> tuple[list[tuple[str, str]], int, int]:
    last, events, reset = await scene.unchanged("watch", **said("watch", after=after, **given))
    read = [json.loads(event) for event in events]
    return [(event["type"], event["thread_id"]) for event in read], int(last), reset


async def test_a_thread_is_shown_oldest_first_page_by_page(scene: Scene) -> None:
    await at_work(scene)
    for number in range(4):
        await update(scene, f"p-{number}")
    _now, _seq, row, messages, more = await scene.unchanged("show_thread", **said("show_thread", limit=2))
    assert (fields_of(row)["status"], ids_of(messages), more) == ("in_progress", ["t-1", "p-0"], b"8")
    _now, _seq, _row, messages, more = await scene.unchanged("show_thread", **said("show_thread", limit=3, after=8))
    assert (ids_of(messages), more) == (["p-1", "p-2", "p-3"], b"")


async def test_the_newest_of_a_thread_are_shown_oldest_first_too(scene: Scene) -> None:
    await at_work(scene)
    for number in range(4):
        await update(scene, f"p-{number}", chars=60)
    *_, messages, more = await scene.unchanged("show_thread", **said("show_thread", newest=True, limit=2))
    assert (ids_of(messages), more != b"") == (["p-2", "p-3"], True)
    *_, messages, more = await scene.unchanged("show_thread", **said("show_thread", newest=True))
    assert (ids_of(messages), more) == (["t-1", "p-0", "p-1", "p-2", "p-3"], b"")
    *_, messages, more = await scene.unchanged("show_thread", **said("show_thread", newest=True, chars_max=100))
    assert (ids_of(messages), more != b"") == (["p-2", "p-3"], True)


async def test_a_page_ends_where_there_is_much_text_and_what_is_gone_is_left_out(scene: Scene) -> None:
    await at_work(scene)
    for number in range(4):
        await update(scene, f"p-{number}", chars=60)
    await drop_message(scene, "p-1")
    *_, messages, more = await scene.unchanged("show_thread", **said("show_thread", chars_max=100))
    assert (ids_of(messages), more) == (["t-1", "p-0", "p-2"], b"10")
    *_, messages, more = await scene.unchanged("show_thread", **said("show_thread", chars_max=100, after=10))
    assert (ids_of(messages), more) == (["p-3"], b"")


async def test_a_thread_is_shown_to_who_has_a_part_in_it_or_may_claim_it(scene: Scene, clock: FixedClock) -> None:
    await open_thread(scene, to="")
    for agent in ("backend", "frontend", "third"):
        await scene.unchanged("show_thread", **said("show_thread", agent=agent))
    await claim(scene)
    for script in ("show_thread", "mark_read"):
        await scene.refused(script, ThreadForbidden, **said(script, agent="third"))
        await scene.refused(script, ThreadUnknown, **said(script, thread_id="nothing"))
    await scene.unchanged("show_thread", **said("show_thread", agent="third", any="1"))
    clock.pass_ms(LEASE_MS)
    await scene.unchanged("show_thread", **said("show_thread", agent="third"))
    await scene.run("expire_leases")
    await scene.unchanged("show_thread", **said("show_thread", agent="third"))
    await cancel(scene)
    await scene.refused("show_thread", ThreadForbidden, **said("show_thread", agent="third"))


async def test_a_read_cursor_moves_forward_only_and_no_further_than_there_is(scene: Scene) -> None:
    await at_work(scene)
    await update(scene, "p-1")
    change = await scene.act("mark_read", **said("mark_read", agent="frontend", up_to=5))
    assert change.keys == {"thread:t-1": {"read:frontend": (None, "5")}}
    assert change.events == [
        {"type": "thread_read", "thread_id": "t-1", "status": "in_progress", "agents": ["frontend", "backend"],
         "agent": "frontend", "up_to": 5}
    ]  # fmt: skip
    for up_to in (0, 3, 5):
        await scene.unchanged("mark_read", **said("mark_read", agent="frontend", up_to=up_to))
    change = await scene.act("mark_read", **said("mark_read", agent="frontend", up_to=10**15))
    assert change.keys == {"thread:t-1": {"read:frontend": ("5", "8")}}
    await scene.unchanged("mark_read", **said("mark_read", agent="frontend"))
    change = await scene.act("mark_read", **said("mark_read"))
    assert change.keys == {"thread:t-1": {"read:backend": (None, "8")}}


async def test_threads_are_listed_newest_first_whatever_their_status_and_priority(scene: Scene) -> None:
    priorities = ["low", "normal", "high", "urgent"]
    for number in range(12):
        await open_thread(scene, f"t-{number}", priority=priorities[number % 4])
    for number in (1, 5, 6):
        await claim(scene, f"t-{number}")
    for number in (2, 6):
        await cancel(scene, f"x-{number}", thread_id=f"t-{number}")
    everything = [f"t-{number}" for number in range(11, -1, -1)]
    assert await listed(scene) == (everything, "")
    pages, last = [], ""
    while True:
        page, last = await listed(scene, limit=5, before=last)
        pages.append(page)
        if not last:
            break
    assert [len(page) for page in pages] == [5, 5, 2]
    assert [one for page in pages for one in page] == everything
    assert await listed(scene, statuses="cancelled,claimed") == (["t-6", "t-5", "t-2", "t-1"], "")
    assert await listed(scene, before=0) == ([], "")
    assert await listed(scene, before=10**17) == (everything, "")
    assert await listed(scene, before=-5) == ([], "")


async def test_a_long_list_is_read_piece_by_piece_and_loses_nothing(scene: Scene) -> None:
    for number in range(65):
        await open_thread(scene, f"t-{number}", priority="urgent" if number % 7 == 0 else "normal", to="")
    assert await listed(scene) == ([f"t-{number}" for number in range(64, -1, -1)], "")


async def test_lists_are_narrowed_by_agent_creator_and_assignee(scene: Scene) -> None:
    await open_thread(scene, "t-1")
    await open_thread(scene, "t-2", to="frontend", sender="task:backend", sender_task="backend")
    await open_thread(scene, "t-3", to="", sender="operator", sender_task="")
    assert (await listed(scene, agent="backend"))[0] == ["t-2", "t-1"]
    assert (await listed(scene, agent="*"))[0] == ["t-3"]
    assert (await listed(scene, created_by="operator"))[0] == ["t-3"]
    assert (await listed(scene, assigned_to="frontend"))[0] == ["t-2"]
    assert (await listed(scene, agent="backend", created_by="task:backend", assigned_to="backend"))[0] == []
    assert (await listed(scene, agent="third"))[0] == []


async def test_a_filter_looks_at_a_bounded_number_of_rows_and_says_where_to_go_on(scene: Scene) -> None:
    await open_thread(scene, "wanted", to="frontend")
    for number in range(5):
        await open_thread(scene, f"t-{number}")
    found, last = await listed(scene, assigned_to="frontend", scan_max=3)
    assert found == []
    assert last
    assert await listed(scene, assigned_to="frontend", scan_max=3, before=last) == (["wanted"], "")


async def test_work_is_fetched_most_urgent_first_then_oldest_first(scene: Scene) -> None:
    for number, priority in enumerate(["low", "normal", "urgent", "normal", "high", "urgent"]):
        await open_thread(scene, f"t-{number}", priority=priority, to="backend" if number % 2 else "")
    assert await fetched(scene) == ["t-2", "t-5", "t-4", "t-1", "t-3", "t-0"]
    assert await fetched(scene, limit=2) == ["t-2", "t-5"]
    assert await fetched(scene, agent="frontend") == ["t-2", "t-4", "t-0"], (
        "of what it opened, only the pool is its work"
    )


async def test_an_urgent_thread_is_found_behind_many_others(scene: Scene) -> None:
    for number in range(60):
        await open_thread(scene, f"t-{number}", to="")
    await open_thread(scene, "urgent", priority="urgent", to="")
    assert await fetched(scene, limit=2, scan_max=50) == ["urgent", "t-0"]


async def test_fetch_shows_what_is_pending_or_blocked_or_was_let_go(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    await open_thread(scene, "t-2")
    assert await fetched(scene) == ["t-2"]
    assert await fetched(scene, statuses="claimed") == ["t-1"]
    assert await fetched(scene, statuses="claimed", agent="frontend") == [], "another works on it"
    assert await fetched(scene, statuses="pending,claimed") == ["t-1", "t-2"]
    await update(scene, "q-1", "blocked")
    assert await fetched(scene) == ["t-1", "t-2"]
    await update(scene, "p-1")
    assert await fetched(scene) == ["t-2"]
    assert await fetched(scene, statuses="in_progress") == ["t-1"]
    clock.pass_ms(LEASE_MS)
    for _ in range(2):
        assert await fetched(scene) == ["t-1", "t-2"]
        assert await fetched(scene, agent="third") == ["t-1"]
        assert await fetched(scene, agent="third", statuses="in_progress") == ["t-1"]
        assert await fetched(scene, agent="third", statuses="pending") == []
        await scene.run("expire_leases")
    await cancel(scene)
    assert await fetched(scene, agent="third") == []
    assert await fetched(scene, statuses="cancelled") == []


async def test_fetch_of_the_unread_leaves_out_what_has_no_news(scene: Scene) -> None:
    await open_thread(scene)
    await open_thread(scene, "t-2", to="", sender="task:backend", sender_task="backend")
    assert await fetched(scene, unread="1") == ["t-1"], "its own words are no news"
    await scene.run("mark_read", **said("mark_read"))
    assert await fetched(scene, unread="1") == []
    await reply(scene, "a-1")
    assert await fetched(scene, unread="1") == ["t-1"]
    await reply(scene, "a-2", **WORKER)
    assert await fetched(scene, unread="1") == ["t-1"], "its answer reads nothing"
    await reply(scene, "a-3", thread_id="t-2", sender="operator", sender_task="", any="1")
    assert await fetched(scene, unread="1") == ["t-1", "t-2"]


async def test_the_first_reply_behind_a_place_is_found(scene: Scene) -> None:
    await at_work(scene, asked=True)
    assert await found_reply(scene) is None
    for number in (1, 2, 3):
        await reply(scene, f"a-{number}", kind="progress" if number == 2 else "answer")
    assert await found_reply(scene) == "a-1"
    assert await found_reply(scene, after_message="a-1") == "a-3"
    assert await found_reply(scene, after_message="a-1", kinds="progress") == "a-2"
    assert await found_reply(scene, after_message="a-3") is None
    n = int((await scene.look())["msg:a-1"]["hash"]["n"])
    assert await found_reply(scene, after_event=n) == "a-3"
    assert await found_reply(scene, after_event=n - 1) == "a-1"
    assert await found_reply(scene, after_event=0) == "a-1"
    assert await found_reply(scene, after_event=10**15) is None
    assert await found_reply(scene, after_event=0, after_message="a-3") is None, "the later of the two counts"
    await update(scene, "p-1")
    assert await found_reply(scene) is None, "behind its own last word"


async def test_nobody_is_given_what_was_said_to_another_or_by_itself(scene: Scene, clock: FixedClock) -> None:
    await scene.declare("third")
    await at_work(scene)
    await reply(scene, "for-third", to="third")
    await reply(scene, "for-frontend", to="frontend", fencing_token=1, **WORKER)
    assert await found_reply(scene, after_event=0) is None
    assert await found_reply(scene, after_event=0, **CREATOR) == "for-frontend"
    assert await found_reply(scene, after_event=0, agent="third", sender="task:third") == "for-third"
    await open_thread(scene, "own", to="backend", **WORKER)
    await reply(scene, "to-nobody", thread_id="own", kind="control", **WORKER)
    await reply(scene, "to-itself", thread_id="own", kind="control", to="backend", **WORKER)
    assert await found_reply(scene, thread_id="own", after_event=0) is None
    assert await found_reply(scene, thread_id="own", after_event=0, any="1", **CREATOR) == "to-nobody"
    await scene.refused("wait_reply", ThreadForbidden, **said("wait_reply", agent="fourth", sender="task:fourth"))
    assert await found_reply(scene, agent="fourth", sender="task:fourth", any="1") is None


async def test_a_reply_is_found_though_many_rows_lie_before_it(scene: Scene) -> None:
    await at_work(scene)
    for number in range(7):
        await reply(scene, f"p-{number}", kind="progress")
    await reply(scene, "a-1")
    assert await found_reply(scene, scan_max=2) == "a-1"
    assert await found_reply(scene, scan_max=8) == "a-1"


async def test_what_was_taken_back_is_no_reply(scene: Scene) -> None:
    await at_work(scene, asked=True)
    for number in (1, 2):
        await reply(scene, f"a-{number}")
    await scene.run("take_back", message_id="a-1", sender="", spared="")
    assert await found_reply(scene) == "a-2"


async def test_on_a_thread_that_is_over_the_last_reply_is_still_found_and_then_no_other_awaited(scene: Scene) -> None:
    await at_work(scene, asked=True)
    await cancel(scene)
    assert await found_reply(scene) == "x-1"
    await scene.refused("wait_reply", ThreadState, **said("wait_reply", after_message="x-1"))
    await scene.refused("wait_reply", ThreadUnknown, **said("wait_reply", thread_id="nothing"))
    await scene.refused("wait_reply", MessageUnknown, **said("wait_reply", after_message="nothing"))
    await open_thread(scene, "t-2")
    await scene.refused("wait_reply", MessageUnknown, **said("wait_reply", thread_id="t-2", after_message="x-1"))


async def test_a_reply_is_taken_out_of_its_inbox_and_held(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene, asked=True)
    await reply(scene, "a-1")
    taking = said("take", "a-1", task_id="backend", pull_id="w-1")
    change = await scene.act("take", **taking)
    assert ids_of([change.answer]) == ["a-1"]
    _, inbox = change.keys.pop("inbox:backend:normal")
    assert [fields["message_id"] for _, fields in inbox["stream"]] == ["t-1"]
    assert change.keys == {
        "due": {"backend": (START_MS + 300_000, START_MS + 30_000)},
        "holds:backend": {"a-1": (None, START_MS + 30_000)},
        "msg:a-1": {
            "attempts": ("0", "1"),
            "fence": ("0", "1"),
            "history": (
                f"{START_MS} queued task:frontend\n",
                f"{START_MS} queued task:frontend\n{START_MS} in_flight wait-reply\n",
            ),
            "holder": (None, "wait-reply"),
            "returned": (None, "1"),
            "state": ("queued", "in_flight"),
        },
        "pull:backend:w-1": (None, {"list": ["wait-reply", "hold", "1 a-1"], "ttl": True}),
        "task:backend": {
            "due_ms": (str(START_MS + 300_000), str(START_MS + 30_000)), "held": (None, "1"), "queued:normal": ("2", "1"),
        },
    }  # fmt: skip
    assert [event["type"] for event in change.events] == ["task_message_in_flight"]
    assert ids_of([await scene.unchanged("take", **taking)]) == ["a-1"], "a repeat shows it again"
    assert await scene.unchanged("take", **(taking | {"pull_id": "w-2"})) == []
    assert await scene.unchanged("take", **(taking | {"pull_id": "w-2", "again": "1", "session": "other"})) == []
    assert await scene.pull() == ["t-1"]
    await scene.run("ack", receipt="w-1")
    assert (await scene.look())["msg:a-1"]["hash"]["state"] == "delivered"
    assert await scene.unchanged("take", **(taking | {"pull_id": "w-2", "again": "1"})) == []
    await scene.refused("take", TaskUnknown, **(taking | {"task_id": "ghost"}))
    assert await scene.unchanged("take", **(taking | {"task_id": "frontend", "pull_id": "w-3"})) == []


async def test_whoever_lost_the_answer_takes_it_again_under_another_receipt(scene: Scene) -> None:
    await at_work(scene, asked=True)
    await reply(scene, "a-1")
    taking = said("take", "a-1", task_id="backend", pull_id="w-1")
    await scene.run("take", **taking)
    change = await scene.act("take", **(taking | {"pull_id": "w-2", "again": "1"}))
    assert change.keys["msg:a-1"]["fence"] == ("1", "2")
    assert "task:backend" not in change.keys, "held once"
    await scene.refused("ack", ReceiptLost, receipt="w-1")
    await scene.run("ack", receipt="w-2")


async def test_what_was_taken_and_never_acked_comes_back_before_what_nobody_had(
    scene: Scene, clock: FixedClock
) -> None:
    await at_work(scene, asked=True)
    await reply(scene, "a-1")
    await scene.run("take", **said("take", "a-1", task_id="backend", pull_id="w-1"))
    clock.pass_ms(30_000)
    change = await scene.act("sweep")
    assert [(event["type"], event["thread_id"]) for event in change.events] == [("task_message_returned", "t-1")]
    assert await scene.pull() == ["a-1", "t-1"]


async def test_a_watcher_gets_what_happened_to_threads_and_nothing_else(scene: Scene) -> None:
    await at_work(scene, asked=True)
    await scene.send("m-1")
    await scene.run("mark_read", **said("mark_read"))
    await reply(scene, "a-1")
    seq = int((await scene.look())["meta"]["hash"]["seq"])
    everything = [
        ("thread_opened", "t-1"), ("thread_claimed", "t-1"), ("thread_blocked", "t-1"), ("thread_replied", "t-1"),
    ]  # fmt: skip
    assert await watched(scene, 0) == (everything, seq, 0)
    assert await watched(scene, seq) == ([], seq, 0)
    assert await scene.unchanged("watch", **said("watch", after="")) == [str(seq).encode(), [], 0]
    assert (await watched(scene, 0, statuses="claimed,pending"))[0] == everything[:2]
    assert (await watched(scene, 0, agents="third,*"))[0] == []
    assert (await watched(scene, 0, agents="backend,*"))[0] == everything
    found, last, _ = await watched(scene, 0, limit=2)
    assert found == everything[:2]
    assert (await watched(scene, last))[0] == everything[2:]


async def test_a_watcher_goes_on_where_it_stopped_looking(scene: Scene) -> None:
    await at_work(scene)
    seen, after = [], 0
    for _ in range(20):
        found, after, reset = await watched(scene, after, scan_max=2)
        assert not reset
        seen += found
    assert [kind for kind, _ in seen] == ["thread_opened", "thread_claimed"]


async def test_a_watcher_whose_place_the_log_has_lost_is_told_to_begin_anew(scene: Scene) -> None:
    await at_work(scene)
    seq = int((await scene.look())["meta"]["hash"]["seq"])
    events = keys.key(scene.namespace, "events")
    await scene.store.connection.call(events, "XTRIM", events, "MINID", "4-0")
    last, found, reset = await scene.run("watch", **said("watch", after=2))
    assert (int(last), found, reset) == (seq, [], 1)
    last, found, reset = await scene.run("watch", **said("watch", after=3))
    assert (len(found), reset) == (2, 0)
    assert (await scene.run("watch", **said("watch", after=seq + 1)))[2] == 1
    await scene.store.connection.call(events, "XTRIM", events, "MAXLEN", 0)
    assert (await scene.run("watch", **said("watch", after=seq)))[2] == 0
    assert (await scene.run("watch", **said("watch", after=seq - 1)))[2] == 1


async def test_pool_threads_are_watched_by_whoever_may_claim_them(scene: Scene, clock: FixedClock) -> None:
    await open_thread(scene, to="")
    await claim(scene)
    clock.pass_ms(LEASE_MS)
    await scene.run("expire_leases")
    found, _, _ = await watched(scene, 0, agents="third,*")
    assert [kind for kind, _ in found] == ["thread_opened", "thread_lease_expired"]
