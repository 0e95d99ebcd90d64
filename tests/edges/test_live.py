"""The stream of events over HTTP: what it looks like, where it begins, who is told what, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inboxd.edges import live
from inboxd.settings import Settings
from tests.edges.conftest import ROLES, Api
from tests.support.answers import refused
from tests.support.sse import Frame, Parser, numbers
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

LONG_MS = 5_000


@pytest.fixture
def settings() -> Settings:
    return Settings(attempts_max=5, events_ping_ms=100, events_behind_max=50)


class Listener:
    """One stream, spoken in ASGI itself: httpx would wait for its end."""

    def __init__(self, api: Api, query: str = "", *, role: str = "admin", token: str = "", **headers: str) -> None:
        self.head: dict[str, Any] = {}
        self.body = b""
        self.chunks: list[bytes] = []
        self.frames: list[Frame] = []
        self.ended = False
        self.aborted = 0
        self.reads = asyncio.Event()
        self.reads.set()
        self._parser = Parser()
        self._hung_up = asyncio.Event()
        given = {"authorization": f"Bearer {token or api.tokens[role].token}"} | headers
        scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "http_version": "1.1",
            "path": "/v1/events",
            "raw_path": b"/v1/events",
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("inboxd.test", 80),
            "state": {"abort": self._abort},
        }
        self.answering = asyncio.ensure_future(api.app(scope, self._receive, self._send))  # type: ignore[arg-type]

    async def _receive(self) -> dict[str, Any]:
        await self._hung_up.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.head = {name.decode(): value.decode() for name, value in message["headers"]} | {
                "status": message["status"]
            }
            return
        self.chunks.append(message["body"])
        self.body += message["body"]
        self.ended = not message.get("more_body", False)
        if self.head["status"] == 200:
            self.frames += self._parser.feed(message["body"])

    def _abort(self) -> None:
        """As a transport would: whoever waits to write is let go, and the caller is gone."""
        self.aborted += 1
        self._hung_up.set()
        self.reads.set()

    async def hang_up(self) -> None:
        self._hung_up.set()
        self.reads.set()
        await asyncio.wait_for(self.answering, LONG_MS / 1_000)

    @property
    def types(self) -> list[str]:
        return [frame.type for frame in self.frames if frame.type != "ping"]

    async def until(self, last: int) -> list[int]:
        """The log's numbers it was told, once it has come to this one."""
        await wait_until(lambda: self.frames and self.frames[-1].id >= last, within_ms=LONG_MS)
        return numbers(self.frames)


@asynccontextmanager
async def listening(api: Api, query: str = "", **given: str) -> AsyncIterator[Listener]:
    listener = Listener(api, query, **given)  # type: ignore[arg-type]
    await wait_until(lambda: listener.body or listener.answering.done(), within_ms=LONG_MS)
    try:
        yield listener
    finally:
        await listener.hang_up()


async def send(api: Api, *names: str, task: str = "backend", role: str = "admin") -> None:
    for name in names:
        sent = await api.as_role(role).post(f"/v1/tasks/{task}/messages", json={"message_id": name, "body": "x"})
        assert sent.status_code == 201


async def last_of(api: Api) -> int:
    async with listening(api) as listener:
        return listener.frames[0].id


async def test_a_stream_begins_with_where_it_is_and_tells_each_event_as_the_log_has_it(api: Api) -> None:
    async with listening(api) as listener:
        assert listener.head["status"] == 200
        assert listener.head["content-type"].startswith("text/event-stream")
        assert listener.head["cache-control"] == "no-store"
        assert listener.head["x-accel-buffering"] == "no"
        assert listener.head["x-request-id"]
        assert "content-length" not in listener.head
        began = listener.frames[0]
        assert (began.type, set(began.data)) == ("ready", {"id", "type", "at_ms"})
        assert listener.chunks[0].startswith(b": inboxd\nretry: 2000\n")
        await send(api, "m-1")
        assert await listener.until(began.id + 1) == [began.id + 1]
        told = next(frame for frame in listener.frames if frame.type == "task_message_queued")
        assert told.data["pending"] == 1
        assert b'id: %d\nevent: task_message_queued\ndata: {"' % told.id in listener.body


async def test_a_connection_that_broke_before_any_event_came_can_be_resumed(api: Api) -> None:
    async with listening(api) as listener:
        last = listener.frames[-1].id
    await send(api, "m-1", "m-2")
    async with listening(api, last_event_id=str(last)) as again:
        assert await again.until(last + 2) == [last + 1, last + 2]


async def test_after_and_last_event_id_resume_and_the_header_wins(api: Api) -> None:
    last = await last_of(api)
    await send(api, "m-1", "m-2", "m-3")
    async with (
        listening(api, f"after={last}") as by_query,
        listening(api, "after=0", last_event_id=str(last + 2)) as by_header,
        listening(api, f"after={last + 1}", last_event_id="") as by_neither,
    ):
        assert await by_query.until(last + 3) == [last + 1, last + 2, last + 3]
        assert await by_header.until(last + 3) == [last + 3]
        assert await by_neither.until(last + 3) == [last + 2, last + 3]


async def test_a_number_the_log_does_not_have_is_a_reset_with_the_present_end(api: Api) -> None:
    last = await last_of(api)
    async with listening(api, f"after={last + 50}") as listener:
        await wait_until(lambda: len(listener.frames) > 1, within_ms=LONG_MS)
        reset = listener.frames[1]
        assert (reset.type, reset.id, reset.data["after"]) == ("reset", last, last + 50)
        await send(api, "m-1")
        assert await listener.until(last + 1) == [last + 1]


async def test_filters_leave_out_and_pings_still_carry_the_number_on(api: Api) -> None:
    async with (
        listening(api, "task=frontend&type=task_message_queued,thread_*") as one,
        listening(api, "thread=th-1") as other,
    ):
        began = one.frames[0].id
        await send(api, "m-1", "m-2")
        await send(api, "m-3", task="frontend")
        await api.admin.patch("/v1/tasks/backend", json={"title": "another"})
        assert await one.until(began + 4) == [began + 3]
        assert await other.until(began + 4) == []
        assert {frame.type for frame in other.frames} == {"ready", "ping"}
        assert other.body.count(b"\n\n: ping\nid: ") == len(other.frames) - 1


async def test_a_filter_that_is_given_twice_lets_both_through(api: Api) -> None:
    last = await last_of(api)
    await send(api, "m-1")
    await send(api, "m-2", task="frontend")
    query = f"after={last}&type=task_message_queued&type=task_declared"
    async with listening(api, f"{query}&task=backend&task=frontend") as listener:
        await wait_until(lambda: len(listener.frames) > 2, within_ms=LONG_MS)
        assert [frame.data["message_id"] for frame in listener.frames[1:3]] == ["m-1", "m-2"]


@pytest.mark.parametrize("role", ROLES)
async def test_an_agent_hears_its_own_and_everybody_else_hears_all(api: Api, role: str) -> None:
    async with listening(api, role=role) as listener:
        began = listener.frames[0].id
        await send(api, "to-it")
        await send(api, "not-its", task="frontend")
        told = await listener.until(began + 2)
        assert told == ([began + 1] if role == "agent" else [began + 1, began + 2])
        assert (b"not-its" in listener.body) == (role != "agent")


@pytest.mark.parametrize(
    ("query", "header"),
    [
        ("after=x", ""),
        ("after=-1", ""),
        ("after=10000000000000000", ""),
        ("unknown=1", ""),
        ("task=a b", ""),
        ("type=TASK", ""),
        ("thread=%22", ""),
        ("", "x"),
        ("", "-1"),
        ("", "1.5"),
        ("", "9" * 30),
        ("", "9" * 5_000),
        ("", "٣"),
    ],
)
async def test_what_is_no_wish_and_no_number_is_refused(api: Api, query: str, header: str) -> None:
    headers = [(b"last-event-id", header.encode())] if header else []
    refused(await api.admin.get(f"/v1/events?{query}", headers=headers), 422, "INVALID_REQUEST")  # type: ignore[arg-type]
    assert api.broker.feeds == {}


async def test_a_caller_that_hangs_up_is_forgotten_at_once(api: Api) -> None:
    for query in ("", "after=0", "task=backend"):
        async with listening(api, query) as listener:
            assert api.broker.following() == 1
            assert await open_streams(api) == 1
        assert api.broker.feeds == {}
        assert not listener.ended
    assert await open_streams(api) == 0


async def open_streams(api: Api) -> float:
    text = (await api.admin.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return float(families["inboxd_streams"].samples[0].value)


async def test_a_stream_is_no_caller_that_waits_for_mail(api: Api) -> None:
    async with listening(api):
        assert "inboxd_waiters 0.0" in (await api.admin.get("/metrics")).text


async def test_a_closing_broker_says_so_and_ends_every_stream(api: Api) -> None:
    async with listening(api) as one, listening(api, "after=0&type=thread_*") as other:
        await send(api, "m-1")
        await one.until(one.frames[0].id + 1)
        api.broker.close()
        await asyncio.wait_for(asyncio.gather(one.answering, other.answering), 1)
        for listener in (one, other):
            assert listener.ended
            assert (listener.types[-1], listener.frames[-1].data["reason"]) == ("closing", "stopping")
        refusal = await api.admin.get("/v1/events")
        assert (refusal.status_code, refusal.json()["error"]["code"]) == (503, "STORE_UNAVAILABLE")


async def test_a_revoked_token_ends_its_stream_at_once(api: Api) -> None:
    async with listening(api, role="observer") as listener, listening(api) as other:
        await api.admin.delete(f"/v1/tokens/{api.tokens['observer'].token_id}")
        await send(api, "secret")
        await asyncio.wait_for(listener.answering, 1)
        assert (listener.types[-1], listener.frames[-1].data["reason"]) == ("closing", "token")
        assert b"secret" not in listener.body
        assert len(await other.until(other.frames[0].id + 2)) == 2
    refused(await api.as_role("observer").get("/v1/events"), 401)


async def test_a_token_that_expires_ends_its_stream(api: Api) -> None:
    made = (await api.admin.post("/v1/tokens", json={"role": "observer", "ttl_ms": 1_000})).json()
    async with listening(api, token=made["token"]) as listener:
        await asyncio.wait_for(listener.answering, 5)
        assert (listener.types, listener.frames[-1].data["reason"]) == (["ready", "closing"], "token")


async def test_a_reader_that_takes_nothing_is_cut_off_and_comes_back_without_a_gap(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "END_MS", 20)
    async with listening(api) as stuck:
        stuck.reads.clear()
        began = stuck.frames[0].id
        await send(api, *(f"m-{number}" for number in range(80)))
        await asyncio.wait_for(stuck.answering, 5)
        assert stuck.aborted == 1
        assert "inboxd_streams_cut_off_total 1.0" in (await api.admin.get("/metrics")).text
        got = numbers(stuck.frames)
    async with listening(api, last_event_id=str(stuck.frames[-1].id)) as again:
        got += await again.until(began + 80)
    assert got == list(range(began + 1, began + 81))


async def test_whoever_asks_for_the_same_is_written_the_same_bytes(api: Api) -> None:
    api.broker.settings = Settings(events_ping_ms=60_000)
    async with listening(api) as one, listening(api, role="user") as other, listening(api, "type=*") as third:
        began = one.frames[0].id
        await send(api, "m-1")
        for listener in (one, other, third):
            await listener.until(began + 1)
        assert one.chunks[1] is other.chunks[1]
        assert one.chunks[1] == third.chunks[1]


async def test_the_description_says_what_a_stream_is(api: Api) -> None:
    described = (await api.admin.get("/openapi.json")).json()["paths"]["/v1/events"]["get"]
    assert list(described["responses"]["200"]["content"]) == ["text/event-stream"]
    assert {one["name"] for one in described["parameters"]} == {"task", "type", "thread", "after", "last-event-id"}
    page = (await api.admin.get("/docs")).text
    assert "text/event-stream" in page
