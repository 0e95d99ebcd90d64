"""drop_threads and let_go: what becomes of a thread and its messages when it is over. sample, read_stats: the minute's tallies."""

from __future__ import annotations

import pytest

from inboxd.settings import Settings
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene
from tests.support.state import changes
from tests.support.work import LEASE_MS, at_work, cancel, claim, open_thread, place, reply, said, update

pytestmark = pytest.mark.anyio

RETENTION_MS = Settings().retention_ms
MINUTE = START_MS // 60_000


async def test_a_finished_thread_is_dropped_when_its_time_is_up_and_no_other(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene, asked=True)
    await update(scene, "d-1", "done", kind="result")
    clock.pass_ms(1)
    await open_thread(scene, "t-2", to="")
    await cancel(scene, thread_id="t-2")
    await open_thread(scene, "t-3")
    clock.pass_ms(RETENTION_MS - 2)
    assert await scene.unchanged("drop_threads") == 0
    clock.pass_ms(1)
    change = await scene.act("drop_threads")
    assert change.answer == 1
    gone = {"threads:done", "agent_threads:backend:done", "agent_threads:frontend:done"}
    assert change.keys.keys() == gone | {"closed_threads", "thread:t-1", "thread_log:t-1"}
    assert not gone & change.after.keys()
    assert {"thread:t-1", "thread_log:t-1"}.isdisjoint(change.after)
    assert change.events == []
    clock.pass_ms(1)
    assert [await scene.run("drop_threads") for _ in range(2)] == [1, 0]
    assert "thread:t-3" in await scene.look()


async def test_no_more_than_the_limit_are_dropped_at_once(scene: Scene, clock: FixedClock) -> None:
    for number in range(3):
        await open_thread(scene, f"t-{number}", to="")
        await cancel(scene, f"x-{number}", thread_id=f"t-{number}")
    clock.pass_ms(RETENTION_MS)
    assert [await scene.run("drop_threads", limit=2) for _ in range(3)] == [2, 1, 0]


async def test_a_message_delivered_in_an_open_thread_stays_and_one_after_its_end_does_not(scene: Scene) -> None:
    await at_work(scene)
    await scene.take()
    assert "ttl" not in (await scene.look())["msg:t-1"]
    await update(scene, "d-1", "done", kind="result")
    assert (await scene.look())["msg:t-1"]["ttl"]
    await scene.run("pull", task_id="frontend", pull_id="p-2")
    assert "ttl" not in (await scene.look())["msg:d-1"]
    await scene.run("ack", task_id="frontend", receipt="p-2")
    assert (await scene.look())["msg:d-1"]["ttl"]


async def test_mail_of_a_thread_that_is_gone_still_ends(scene: Scene, clock: FixedClock) -> None:
    await at_work(scene)
    await update(scene, "d-1", "done", kind="result")
    clock.pass_ms(RETENTION_MS)
    await scene.run("drop_threads")
    await scene.take()
    assert (await scene.look())["msg:t-1"]["ttl"]


async def test_a_message_that_only_names_a_thread_ends_like_any_other(scene: Scene) -> None:
    await scene.send("before", thread_id="t-1")
    await at_work(scene)
    await scene.send("beside", thread_id="t-1")
    await scene.take()
    after = await scene.look()
    assert (after["msg:before"].get("ttl"), after["msg:beside"].get("ttl"), after["msg:t-1"].get("ttl")) == (
        True,
        True,
        None,
    )


async def test_nobody_waits_for_an_answer_in_a_thread_that_is_over(scene: Scene) -> None:
    await at_work(scene)
    for number in (1, 2):
        await reply(scene, f"q-{number}", kind="question", awaiting="1", to="backend")
        await reply(scene, f"c-{number}", kind="question", awaiting="1", to="frontend", reply_to="t-1",
                    fencing_token=1, sender="task:backend", sender_task="backend")  # fmt: skip
    before = await scene.look()
    assert {name for name in before if name.startswith("awaits")} == {"awaits:backend", "awaits:frontend"}
    await cancel(scene)
    after = await scene.look()
    assert not {name for name in after if name.startswith("awaits")}
    assert not {"question_id", "asked_id"} & after["thread:t-1"]["hash"].keys()


async def test_a_taken_over_thread_leaves_nothing_behind_when_it_ends(scene: Scene, clock: FixedClock) -> None:
    await open_thread(scene, to="")
    await claim(scene, agent="frontend")
    clock.pass_ms(LEASE_MS)
    await scene.run("expire_leases")
    await claim(scene, agent="backend")
    await update(scene, "d-1", "failed", kind="result", fencing_token=2)
    state = await scene.look()
    lists = {name: value["zset"] for name, value in state.items() if "threads:" in name}
    assert lists == {
        "agent_threads:backend:failed": {"t-1": place(3)},
        "agent_threads:frontend:failed": {"t-1": place(3)},
        "threads:failed": {"t-1": place(3)},
    }
    assert "leases" not in state


async def test_a_minute_is_tallied(scene: Scene, clock: FixedClock) -> None:
    before = await scene.look()
    for number in range(3):
        await scene.send(f"m-{number}")
    clock.pass_ms(100)
    await scene.pull(max=2)
    *_, delivered, waited_ms = await scene.run("ack", receipt="p-1")
    assert (delivered, waited_ms) == (2, 200)
    assert f"stats:{MINUTE}" not in changes(before, await scene.look()), "nobody who sends or acks pays for it"
    for queued in (1, 2):
        await scene.run("add_stats", minute=MINUTE, queued=queued, delivered=1, waited_ms=100)
    stats = (await scene.look())[f"stats:{MINUTE}"]
    assert stats == {"hash": {"delivered": "2", "queued": "3", "waited_ms": "200"}, "ttl": True}
    assert await scene.run("sample") == 1
    this, rows = await scene.unchanged("read_stats", minutes=2)
    assert (int(this), rows) == (MINUTE, [[None] * 4, [b"3", b"2", b"200", b"1"]])
    clock.pass_ms(60_000)
    this, rows = await scene.unchanged("read_stats", minutes=2)
    assert (int(this), rows) == (MINUTE + 1, [[b"3", b"2", b"200", b"1"], [None] * 4])


async def test_a_sample_is_taken_once_a_minute_and_only_where_something_waits(scene: Scene) -> None:
    assert await scene.unchanged("sample") == 0
    await scene.send("m-1")
    await scene.run("sample")
    await scene.send("m-2")
    assert await scene.run("sample") == 2
    state = await scene.look()
    assert (state[f"stats:{MINUTE}"]["hash"]["pending"], state[f"stats:{MINUTE}"]["ttl"]) == ("1", True)


async def test_looking_at_no_thread_at_all_changes_nothing(scene: Scene) -> None:
    for script in ("expire_leases", "drop_threads"):
        assert await scene.unchanged(script) == 0
    assert (await scene.unchanged("list_threads", **said("list_threads")))[2] == []
    assert (await scene.unchanged("fetch", **said("fetch")))[2] == []
