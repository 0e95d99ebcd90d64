"""create_token and revoke_token: one field each, and the namespace they open."""

from __future__ import annotations

import pytest

from inboxd.errors import TokenUnknown
from inboxd.store.store import Store
from tests.conftest import START_MS, FixedClock
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio


async def test_the_first_token_opens_the_namespace(store: Store, namespace: str, clock: FixedClock) -> None:
    scene = Scene(store, namespace, clock)
    await scene.run("create_token", token_id="0123456789ab", record="{}", task_id="")
    state = await scene.look()
    assert state.pop("events")
    assert state == {
        "meta": {"hash": {"created_at_ms": str(START_MS), "seq": "2"}},
        "task:user": {"hash": {"created_at_ms": str(START_MS), "state": "queued", "title": ""}},
        "tasks": {"zset": {"user": START_MS}},
        "tokens": {"hash": {"0123456789ab": "{}"}},
    }


async def test_an_agents_token_declares_its_task(scene: Scene) -> None:
    await scene.run("create_token", token_id="a", record="{}", task_id="")
    change = await scene.act("create_token", token_id="b", record="{}", task_id="new")
    assert change.keys.keys() == {"task:new", "tasks", "tokens"}
    assert [event["type"] for event in change.events] == ["task_declared", "token_created"]
    record = '{"role":"agent","task":"new","label":"ci"}'
    change = await scene.act("create_token", token_id="c", record=record, task_id="new")
    assert change.keys == {"tokens": {"c": (None, record)}}
    assert change.events == [{"type": "token_created", "token_id": "c", "role": "agent", "agent": "new", "label": "ci"}]


async def test_a_revoked_token_is_gone_and_a_second_time_is_refused(scene: Scene) -> None:
    for token_id in ("a", "b"):
        await scene.run("create_token", token_id=token_id, record="{}", task_id="")
    change = await scene.act("revoke_token", token_id="a")
    assert change.keys == {"tokens": {"a": ("{}", None)}}
    assert change.events == [{"type": "token_revoked", "token_id": "a"}]
    await scene.refused("revoke_token", TokenUnknown, token_id="a")
