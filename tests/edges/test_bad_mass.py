"""An inbox nobody has read for a long time: a hundred thousand messages, and everything still right, in order and quick."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from inboxd import model
from inboxd.model import NewMessage
from inboxd.store import keys
from tests.edges.conftest import Api
from tests.support.answers import answered

MANY = 100_000
AT_ONCE = 1_000
QUICK_S = 1.0
"""Many times what one request needs, and a small part of what one needs that looks at every message."""

# On one kind of server only: what is measured is the shape of the scripts, not the server.
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("server", ["valkey"], indirect=True)]


def name(number: int) -> str:
    return f"m-{number:06d}"


async def quickly(asking: Any) -> Any:
    began = time.monotonic()
    answer = await asking
    assert time.monotonic() - began < QUICK_S
    return answer


@pytest.mark.xdist_group("valkey")
async def test_a_hundred_thousand_waiting_messages_are_counted_read_and_handed_over_in_order(api: Api) -> None:
    for start in range(0, MANY, AT_ONCE):
        await asyncio.gather(
            *(
                api.broker.send(api.owner, "backend", NewMessage(body="x", message_id=name(number)))
                for number in range(start, start + AT_ONCE)
            )
        )
    counts = answered(await quickly(api.agent.get("/v1/tasks/backend/pending")), model.Pending)
    assert (counts.pending, counts.by_priority.normal, counts.held) == (MANY, MANY, 0)

    await api.admin.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "now", "priority": "urgent"})
    first = answered(await quickly(api.agent.post("/v1/tasks/backend/pull", json={"max": 1_000})), model.Batch)
    size = api.broker.settings.pull_max
    assert [one.message_id for one in first.messages] == ["now", *(name(number) for number in range(size - 1))]
    assert (first.pending, first.left) == (MANY - size + 1, MANY - size + 1)

    released = await quickly(api.agent.post("/v1/tasks/backend/release", json={"receipt": first.receipt}))
    assert len(answered(released, model.Settled).message_ids) == size
    again = answered(await quickly(api.agent.post("/v1/tasks/backend/pull", json={"max": 1_000})), model.Batch)
    assert [one.message_id for one in again.messages] == [one.message_id for one in first.messages]
    await quickly(api.agent.post("/v1/tasks/backend/ack", json={"receipt": again.receipt}))

    page = answered(await quickly(api.admin.get("/v1/tasks/backend/messages?limit=200")), model.MessagePage)
    assert [one.message_id for one in page.messages[:3]] == ["now", name(MANY - 1), name(MANY - 2)]
    behind = await quickly(api.admin.get(f"/v1/tasks/backend/messages?limit=1&cursor={page.next_cursor}"))
    assert answered(behind, model.MessagePage).messages[0].message_id == name(MANY - 200)
    none_of_these = await quickly(api.admin.get("/v1/tasks/backend/messages?state=dead"))
    assert answered(none_of_these, model.MessagePage).messages == []

    shown = answered(await quickly(api.admin.get("/v1/tasks")), model.TaskPage)
    assert (shown.tasks[0].task, shown.tasks[0].pending) == ("backend", MANY - size + 1)
    began = time.monotonic()
    removed = answered(await api.admin.delete("/v1/tasks/backend?force=true"), model.Removed)
    assert removed.dropped == MANY - size + 1
    assert time.monotonic() - began < 60
    # Most of the records are taken away, so that the leak checker need not look at each of them.
    for start in range(AT_ONCE, MANY, AT_ONCE):
        gone = [keys.key(api.owner.namespace, "msg", message_id=name(n)) for n in range(start, start + AT_ONCE)]
        await api.broker.store.connection.call(gone[0], "UNLINK", *gone)
