"""timeline, show and tidy: looking never consumes, tidying takes only what is gone."""

from __future__ import annotations

import pytest

from inboxd.errors import MessageUnknown, TaskUnknown
from inboxd.store import keys
from tests.conftest import START_MS
from tests.support.scene import Scene, ids_of

pytestmark = pytest.mark.anyio


async def test_a_timeline_is_newest_first_and_changes_nothing(scene: Scene) -> None:
    for number in range(5):
        await scene.send(f"m-{number}")
    await scene.pull(max=2)
    last, rows = await scene.unchanged("timeline", limit=2)
    assert (last, ids_of(rows)) == (b"6", ["m-4", "m-3"])
    last, rows = await scene.unchanged("timeline", limit=2, before=6)
    assert (last, ids_of(rows)) == (b"4", ["m-2", "m-1"])
    last, rows = await scene.unchanged("timeline", limit=2, before=4)
    assert (last, ids_of(rows)) == (b"", ["m-0"])
    await scene.refused("timeline", TaskUnknown, task_id="ghost")


async def test_a_filter_looks_at_a_bounded_number_of_rows_and_says_where_to_go_on(scene: Scene) -> None:
    await scene.send("wanted", kind="result")
    for number in range(5):
        await scene.send(f"m-{number}")
    last, rows = await scene.unchanged("timeline", limit=10, kinds="result", scan_max=3)
    assert (last, rows) == (b"6", [])
    last, rows = await scene.unchanged("timeline", limit=10, kinds="result", scan_max=3, before=6)
    assert ids_of(rows) == ["wanted"]


async def test_show_tells_the_whole_history_and_changes_nothing(scene: Scene) -> None:
    await scene.send("m-1")
    await scene.pull()
    _row, history, sender, task = await scene.unchanged("show", message_id="m-1")
    assert history.decode() == f"{START_MS} queued operator\n{START_MS} in_flight s-1\n"
    assert (sender, task) == (b"operator", b"backend")
    await scene.refused("show", MessageUnknown, message_id="nothing")


async def test_tidying_drops_rows_whose_message_is_gone(scene: Scene) -> None:
    for number in range(4):
        await scene.send(f"m-{number}", ttl_ms=1)
    await scene.take()
    for number in range(3):
        name = keys.key(scene.namespace, "msg", message_id=f"m-{number}")
        await scene.store.connection.call(name, "DEL", name)  # its retention is over
    change = await scene.act("tidy", limit=2)
    assert change.answer != b""
    assert [fields["message_id"] for _, fields in change.after["timeline:backend"]["stream"]] == ["m-2", "m-3"]
    assert change.keys.keys() == {"timeline:backend"}
    await scene.run("tidy", limit=2, after=change.answer)
    assert await scene.unchanged("tidy", limit=2) == b""


async def test_tidying_looks_behind_a_row_that_stays(scene: Scene) -> None:
    for number in range(4):
        await scene.send(f"m-{number}")
    for number in (1, 3):
        name = keys.key(scene.namespace, "msg", message_id=f"m-{number}")
        await scene.store.connection.call(name, "DEL", name)
    after = await scene.run("tidy", limit=2)
    await scene.run("tidy", limit=2, after=after)
    rows = (await scene.look())["timeline:backend"]["stream"]
    assert [fields["message_id"] for _, fields in rows] == ["m-0", "m-2"]


async def test_tidying_drops_readers_that_hold_nothing_and_no_others(scene: Scene) -> None:
    for number in range(2):
        await scene.send(f"m-{number}")
    await scene.take(max=1, session="idle")
    await scene.pull(session="busy", pull_id="p-2")
    await scene.unchanged("tidy")
    change = await scene.act("tidy", reader_idle_ms=-1)
    assert change.keys.keys() == {"inbox:backend:normal"}
    assert change.after["inbox:backend:normal"]["groups"]["readers"]["readers"] == ["busy"]


async def test_tidying_a_task_without_mail_changes_nothing(scene: Scene) -> None:
    assert await scene.unchanged("tidy") == b""
