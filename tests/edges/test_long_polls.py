"""Long polls over HTTP: they wake at once on news, and mail is never handed to somebody who has hung up."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from inboxd import model
from tests.edges.conftest import Api
from tests.support.answers import answered, refused
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

LONG_MS = 30_000


class Caller:
    """One request spoken in ASGI itself, so that the caller can hang up in the middle."""

    def __init__(
        self, api: Api, method: str, path: str, *parts: bytes, query: str = "", hangs_up: bool = False
    ) -> None:
        self.sent: list[dict[str, Any]] = []
        self._hung_up = asyncio.Event()
        if hangs_up:
            self._hung_up.set()
        more = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        if more and not hangs_up:
            more[-1]["more_body"] = False
        self._parts = iter(more)
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "http_version": "1.1",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"authorization", f"Bearer {api.tokens['agent'].token}".encode())],
            "client": ("127.0.0.1", 1),
            "server": ("inboxd.test", 80),
        }
        self.answering = asyncio.ensure_future(api.app(scope, self._receive, self._send))  # type: ignore[arg-type]

    async def _receive(self) -> dict[str, Any]:
        if part := next(self._parts, None):
            return part
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def hang_up(self) -> None:
        self._hung_up.set()
        await self.answering


async def waiting_calls(api: Api, count: int) -> None:
    await wait_until(lambda: api.broker.waiting.count() == count, within_ms=2_000)


async def test_a_pull_wakes_when_mail_comes(api: Api) -> None:
    pulling = asyncio.ensure_future(api.agent.post("/v1/tasks/backend/pull", json={"wait_ms": LONG_MS}))
    await waiting_calls(api, 1)
    began = time.monotonic()
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "now", "message_id": "m-1"})
    batch = answered(await pulling, model.Batch)
    assert [message.message_id for message in batch.messages] == ["m-1"]
    assert time.monotonic() - began < 2


async def test_pending_wakes_when_mail_comes(api: Api) -> None:
    asking = asyncio.ensure_future(api.agent.get("/v1/tasks/backend/pending", params={"wait_ms": LONG_MS // 10}))
    await waiting_calls(api, 1)
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "now"})
    assert answered(await asking, model.Pending).pending == 1


async def test_mail_that_is_there_already_is_not_waited_for(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "x"})
    began = time.monotonic()
    assert answered(await api.agent.get(f"/v1/tasks/backend/pending?wait_ms={LONG_MS}"), model.Pending).pending == 1
    answered(await api.agent.post("/v1/tasks/backend/pull", json={"wait_ms": LONG_MS}), model.Batch)
    assert time.monotonic() - began < 2


async def test_mail_of_a_lower_priority_wakes_nobody_who_waits_for_urgent_mail(api: Api) -> None:
    want = {"wait_ms": LONG_MS, "min_priority": "urgent"}
    pulling = asyncio.ensure_future(api.agent.post("/v1/tasks/backend/pull", json=want))
    await waiting_calls(api, 1)
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "m-1"})
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "m-2", "priority": "urgent"})
    batch = answered(await pulling, model.Batch)
    assert [message.message_id for message in batch.messages] == ["m-2"]
    assert batch.pending == 1


async def test_a_wait_that_brings_nothing_ends_with_an_empty_answer(api: Api) -> None:
    batch = answered(await api.agent.post("/v1/tasks/backend/pull", json={"wait_ms": 20}), model.Batch)
    assert (batch.receipt, batch.messages, batch.pending) == (None, [], 0)
    assert answered(await api.agent.get("/v1/tasks/backend/pending?wait_ms=20"), model.Pending).pending == 0
    assert api.broker.waiting.count() == 0


async def test_waiting_at_an_unknown_inbox_is_refused_at_once(api: Api) -> None:
    refused(await api.admin.post("/v1/tasks/nowhere/pull", json={"wait_ms": LONG_MS}), 404, "TASK_UNKNOWN")
    refused(await api.admin.get(f"/v1/tasks/nowhere/pending?wait_ms={LONG_MS}"), 404, "TASK_UNKNOWN")


async def test_of_many_waiting_readers_each_message_goes_to_one(api: Api) -> None:
    pulls = [
        asyncio.ensure_future(
            api.agent.post("/v1/tasks/backend/pull", json={"wait_ms": LONG_MS, "max": 1, "session": f"s-{number}"})
        )
        for number in range(5)
    ]
    await waiting_calls(api, 5)
    for number in range(5):
        await api.admin.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": f"m-{number}"})
    batches = [answered(await pull, model.Batch) for pull in pulls]
    assert sorted(one.message_id for batch in batches for one in batch.messages) == [f"m-{n}" for n in range(5)]


async def test_a_closing_broker_lets_every_waiting_caller_go_with_an_empty_answer(api: Api) -> None:
    pulling = asyncio.ensure_future(api.agent.post("/v1/tasks/backend/pull", json={"wait_ms": LONG_MS}))
    asking = asyncio.ensure_future(api.agent.get(f"/v1/tasks/backend/pending?wait_ms={LONG_MS}"))
    await waiting_calls(api, 2)
    api.broker.close()
    assert answered(await pulling, model.Batch).messages == []
    assert answered(await asking, model.Pending).pending == 0


@pytest.mark.parametrize("ack", [False, True])
async def test_a_caller_that_hung_up_while_waiting_is_handed_no_mail(api: Api, ack: bool) -> None:
    want = json.dumps({"wait_ms": LONG_MS, "ack": ack}).encode()
    caller = Caller(api, "POST", "/v1/tasks/backend/pull", want)
    await waiting_calls(api, 1)
    await caller.hang_up()
    await waiting_calls(api, 0)
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "m-1"})
    shown = answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory)
    assert (shown.message.state, shown.message.attempts, caller.sent) == ("queued", 0, [])


async def test_a_caller_that_hung_up_while_asking_is_forgotten(api: Api) -> None:
    caller = Caller(api, "GET", "/v1/tasks/backend/pending", b"", query=f"wait_ms={LONG_MS}")
    await waiting_calls(api, 1)
    await caller.hang_up()
    await waiting_calls(api, 0)
    assert caller.sent == []


@pytest.mark.parametrize("parts", [(), (b'{"to": ["backend"], ',), (b'{"to": ["backend"], "body": "x"}',)], ids=len)
@pytest.mark.parametrize("path", ["/v1/tasks/backend/messages", "/v1/broadcast"])
async def test_a_caller_that_hung_up_before_its_body_was_whole_sends_nothing(
    api: Api, path: str, parts: tuple[bytes, ...]
) -> None:
    if "tasks" in path:
        parts = tuple(part.replace(b'"to": ["backend"], ', b"") for part in parts)
    caller = Caller(api, "POST", path, *parts, hangs_up=True)
    await caller.answering
    assert await api.pending() == 0
    assert caller.sent == []
