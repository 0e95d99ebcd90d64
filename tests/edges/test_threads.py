"""Threads over HTTP: every answer to the letter, every wrong request refused in the one shape, with nothing changed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from inboxd import model
from inboxd.edges import describe
from inboxd.edges.http_threads import WAIT_REPLY, WATCH, hot_route
from inboxd.model import NewToken
from inboxd.store.connection import Connection
from tests.edges.conftest import Api
from tests.edges.test_bad_input import BAD_NAMES, MALFORMED, MISFITS
from tests.edges.test_paging import encoded
from tests.support.answers import answered, refused
from tests.support.state import State, snapshot
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio

LONG_MS = 30_000
WRITES: dict[str, dict[str, Any]] = {
    "": {"subject": "x"},
    "/t-1/claim": {"agent": "backend"},
    "/t-1/renew": {"agent": "backend", "fencing_token": 1},
    "/t-1/update": {"agent": "backend", "fencing_token": 1},
    "/t-1/done": {"agent": "backend", "fencing_token": 1, "summary": "x"},
    "/t-1/fail": {"agent": "backend", "fencing_token": 1, "summary": "x"},
    "/t-1/reply": {"body": "x"},
    "/t-1/cancel": {},
    "/t-1/mark-read": {"agent": "backend"},
    "/t-1/wait-reply": {"agent": "backend"},
    "/watch": {},
}
"""A good request to each route that takes one."""


async def open_thread(api: Api, thread_id: str = "t-1", **given: Any) -> model.SaidAnswer:
    said = {
        "message_id": thread_id,
        "subject": "Log-in",
        "to": "backend",
        "from": "frontend",
        "body": "See #17.",
        **given,
    }
    return answered(await api.admin.post("/v1/threads", json=said), model.SaidAnswer, 201)


async def claim(api: Api, thread_id: str = "t-1") -> int:
    claimed = answered(await api.agent.post(f"/v1/threads/{thread_id}/claim", json={}), model.ThreadAnswer)
    assert claimed.thread.lease is not None
    assert claimed.thread.lease.fencing_token is not None
    return claimed.thread.lease.fencing_token


async def post(client: httpx2.AsyncClient, verb: str, **said: Any) -> httpx2.Response:
    return await client.post(f"/v1/threads/t-1/{verb}", json=said)


async def everything(api: Api, connection: Connection) -> State:
    return await snapshot(connection, api.owner.namespace)


def test_the_hot_routes_are_those_that_are_described() -> None:
    described = {route.path for route in describe.hot_threads.routes}  # type: ignore[attr-defined]
    assert described == {WAIT_REPLY.template, WATCH.template}
    assert hot_route("t-1/wait-reply") == (WAIT_REPLY, "t-1")
    assert hot_route("watch") == (WATCH, "")
    for other in ("t-1/claim", "watch/", "t-1/wait-reply/", "t-1", "", "/wait-reply/x"):
        assert hot_route(other)[0] is None


async def test_the_worker_s_way_to_the_letter(api: Api) -> None:
    opened = await open_thread(
        api, run_id="r-1", task_id="T4", priority="high", artifacts=[{"path": "a.log", "kind": "log"}]
    )
    assert (opened.ok, opened.command, opened.duplicate) == (True, "send", False)
    assert (opened.thread.thread_id, opened.thread.status, opened.thread.lease) == ("t-1", "pending", None)
    assert (opened.message.thread_id, opened.message.task, opened.message.sender) == ("t-1", "backend", "task:frontend")

    fetched = answered(await api.agent.get("/v1/threads/fetch"), model.ThreadList)
    assert (fetched.command, [one.thread_id for one in fetched.threads]) == ("fetch", ["t-1"])
    assert fetched.threads[0].unread

    claimed = answered(await post(api.agent, "claim", claim_id="c-1", lease_ms=60_000), model.ThreadAnswer)
    assert (claimed.ok, claimed.command, claimed.thread.status) == (True, "claim", "claimed")
    lease = claimed.thread.lease
    assert lease is not None
    assert (lease.agent, lease.fencing_token, lease.live, lease.released_at_ms) == ("backend", 1, True, None)
    assert lease.expires_at_ms == lease.claimed_at_ms + 60_000
    renewed = answered(await post(api.agent, "renew", fencing_token=1, lease_ms=90_000), model.ThreadAnswer)
    assert (renewed.command, renewed.thread.lease is not None) == ("renew", True)

    updated = answered(await post(api.agent, "update", fencing_token=1, summary="Reading."), model.SaidAnswer)
    assert (updated.command, updated.thread.status, updated.thread.summary) == ("update", "in_progress", "Reading.")
    assert (updated.message.kind, updated.message.task, updated.message.state) == ("progress", None, "noted")
    asked = answered(
        await post(api.agent, "update", fencing_token=1, status="blocked", body="Which?", message_id="q-1"),
        model.SaidAnswer,
    )
    assert (asked.thread.status, asked.thread.question_id, asked.message.task) == ("blocked", "q-1", "frontend")

    nothing = answered(await post(api.agent, "wait-reply"), model.WaitReplyAnswer)
    assert (nothing.woke, nothing.message, nothing.receipt) == (False, None, None)
    replied = answered(await post(api.admin, "reply", body="That.", **{"from": "frontend"}), model.SaidAnswer)
    assert (replied.command, replied.message.kind, replied.message.reply_to) == ("reply", "answer", "q-1")
    raw = await post(api.agent, "wait-reply", after_event=nothing.next_event_id)
    found = answered(raw, model.WaitReplyAnswer)
    assert list(json.loads(raw.content)) == ["ok", "command", "woke", "next_event_id", "message", "receipt"]
    assert (found.ok, found.command, found.woke, found.next_event_id) == (True, "wait-reply", True, replied.message.n)
    assert found.message is not None
    assert (found.message.body, found.message.state) == ("That.", "delivered")

    done = answered(await post(api.agent, "done", fencing_token=1, summary="Fixed."), model.SaidAnswer)
    assert (done.command, done.thread.status, done.message.kind) == ("done", "done", "result")
    shown = answered(await api.agent.get("/v1/threads/t-1"), model.ThreadHistory)
    assert (shown.command, [one.kind for one in shown.messages]) == (
        "show", ["task", "progress", "question", "answer", "result"],
    )  # fmt: skip
    assert [one.path for one in shown.messages[0].artifacts] == ["a.log"]
    read = answered(await post(api.agent, "mark-read"), model.ThreadAnswer)
    assert (read.command, read.thread.unread) == ("mark-read", False)
    listed = answered(await api.agent.get("/v1/threads", params={"status": "done"}), model.ThreadPage)
    assert (listed.command, [one.status for one in listed.threads], listed.next_cursor) == ("list", ["done"], None)


async def test_failing_and_cancelling_to_the_letter(api: Api) -> None:
    await open_thread(api)
    token = await claim(api)
    failed = answered(await post(api.agent, "fail", fencing_token=token, summary="No way."), model.SaidAnswer)
    assert (failed.command, failed.thread.status, failed.thread.summary) == ("fail", "failed", "No way.")
    await open_thread(api, "t-2")
    cancelled = answered(await api.admin.post("/v1/threads/t-2/cancel", json={"reason": "Enough."}), model.SaidAnswer)
    assert (cancelled.command, cancelled.thread.status, cancelled.message.body) == ("cancel", "cancelled", "Enough.")


async def test_a_watcher_is_answered_to_the_letter(api: Api) -> None:
    now = answered(await api.agent.post("/v1/threads/watch"), model.WatchAnswer)
    assert (now.woke, now.events, now.reset) == (False, [], False)
    watching = asyncio.ensure_future(
        api.agent.post("/v1/threads/watch", json={"after_event": now.next_event_id, "wait_ms": LONG_MS})
    )
    await wait_until(lambda: api.broker.waiting.count() == 1, within_ms=5_000)
    await open_thread(api)
    woken = answered(await watching, model.WatchAnswer)
    assert (woken.command, woken.woke, woken.reset) == ("watch", True, False)
    [event] = woken.events
    assert (event["type"], event["thread_id"], event["status"]) == ("thread_opened", "t-1", "pending")
    lost = answered(await api.agent.post("/v1/threads/watch", json={"after_event": 10**15}), model.WatchAnswer)
    assert (lost.woke, lost.reset) == (True, True)


async def test_a_waiting_call_answers_at_once_when_the_reply_lands(api: Api) -> None:
    await open_thread(api)
    await claim(api)
    calls = [asyncio.ensure_future(post(api.agent, "wait-reply", wait_ms=LONG_MS)) for _ in range(2)]
    await wait_until(lambda: api.broker.waiting.count() == 2, within_ms=5_000)
    await post(api.admin, "reply", body="That.", kind="control")
    for call in calls:
        found = answered(await call, model.WaitReplyAnswer)
        assert found.message is not None
        assert found.message.body == "That."
    assert await api.pending() == 1, "the opening message"


async def test_a_held_reply_is_acked_like_any_mail(api: Api) -> None:
    await open_thread(api)
    await claim(api)
    await post(api.admin, "reply", body="That.", kind="control", message_id="a-1")
    held = answered(await post(api.agent, "wait-reply", ack=False, session="w-1", hold_ms=5_000), model.WaitReplyAnswer)
    assert held.receipt is not None
    assert held.message is not None
    assert (held.message.state, held.message.held_by) == ("in_flight", "w-1")
    acked = answered(await api.agent.post("/v1/tasks/backend/ack", json={"receipt": held.receipt}), model.Settled)
    assert acked.message_ids == ["a-1"]


async def test_refusals_have_their_codes(api: Api) -> None:
    await open_thread(api)
    token = await claim(api)
    refused(await post(api.agent, "claim"), 409, "LEASE_CONFLICT")
    refused(await post(api.agent, "renew", fencing_token=token + 1), 409, "LEASE_LOST")
    refused(await post(api.agent, "update", fencing_token=0), 409, "LEASE_LOST")
    refused(await post(api.agent, "cancel"), 403, "THREAD_FORBIDDEN")
    refused(await post(api.admin, "claim", agent="ghost"), 409, "LEASE_CONFLICT")
    refused(await post(api.admin, "reply", body="x", to="ghost"), 404, "TASK_UNKNOWN")
    refused(await post(api.agent, "wait-reply", after_message="nothing"), 404, "MESSAGE_UNKNOWN")
    refused(
        await api.admin.post("/v1/threads", json={"message_id": "t-1", "subject": "other"}), 409, "MESSAGE_ID_REUSED"
    )
    for role in ("user", "observer"):
        refused(await post(api.as_role(role), "claim", agent="backend"), 403, "FORBIDDEN")
        refused(await post(api.as_role(role), "wait-reply", agent="backend"), 403, "FORBIDDEN")
    refused(await post(api.as_role("observer"), "reply", body="x"), 403, "FORBIDDEN")
    refused(await post(api.as_role("operator"), "reply", body="x", **{"from": "user"}), 403, "SENDER_FORBIDDEN")
    refused(await post(api.as_role("operator"), "claim"), 422, "INVALID_REQUEST")
    await post(api.agent, "done", fencing_token=token, summary="x")
    for verb, said in {
        "claim": {}, "renew": {"fencing_token": token}, "update": {"fencing_token": token},
        "done": {"fencing_token": token, "summary": "y"}, "fail": {"fencing_token": token, "summary": "y"},
        "reply": {"body": "x", "fencing_token": token}, "wait-reply": {},
    }.items():  # fmt: skip
        refused(await post(api.agent, verb, **said), 422, "THREAD_STATE")
    refused(await post(api.admin, "cancel"), 422, "THREAD_STATE")


async def test_a_stranger_among_the_agents_sees_and_changes_nothing(api: Api, connection: Connection) -> None:
    await open_thread(api)
    made = await api.broker.create_token(api.owner, NewToken(role="agent", task="third"))
    async with api.with_token(made.token) as third:
        before = await everything(api, connection)
        refused(await third.get("/v1/threads/t-1"), 403, "THREAD_FORBIDDEN")
        refused(await third.get("/v1/threads", params={"agent": "backend"}), 403, "FORBIDDEN")
        refused(await third.get("/v1/threads/fetch", params={"agent": "backend"}), 403, "FORBIDDEN")
        for verb, said in {
            "claim": {}, "reply": {"body": "x"}, "cancel": {}, "mark-read": {}, "wait-reply": {},
        }.items():  # fmt: skip
            refused(await post(third, verb, **said), 403, "THREAD_FORBIDDEN")
        refused(await post(third, "update", fencing_token=0), 409, "LEASE_LOST")
        refused(await post(third, "claim", agent="backend"), 403, "FORBIDDEN")
        assert answered(await third.get("/v1/threads"), model.ThreadPage).threads == []
        assert await everything(api, connection) == before


async def test_an_unknown_thread_is_not_found_by_any_route(api: Api, connection: Connection) -> None:
    before = await everything(api, connection)
    for rest, said in WRITES.items():
        if "t-1" in rest:
            refused(await api.admin.post(f"/v1/threads{rest}", json=said), 404, "THREAD_UNKNOWN")
    refused(await api.admin.get("/v1/threads/t-1"), 404, "THREAD_UNKNOWN")
    assert await everything(api, connection) == before


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
async def test_a_bad_id_is_refused_by_every_route(api: Api, connection: Connection, name: str) -> None:
    # What cannot be a task may be a thread.
    named = {"a:b": "a:b%20", "a" * 65: "a" * 194}.get(name, name)
    before = await everything(api, connection)
    for rest, said in WRITES.items():
        if "t-1" in rest:
            answer = await api.admin.post(f"/v1/threads{rest.replace('t-1', named)}", json=said)
            assert (rest, answer.status_code in (404, 405, 422)) == (rest, True), answer.text
            refused(answer)
    refused(await api.admin.get(f"/v1/threads/{named}"))
    assert await everything(api, connection) == before


@pytest.mark.parametrize("body", [*MALFORMED.values(), *MISFITS.values()], ids=[*MALFORMED.keys(), *MISFITS.keys()])
async def test_a_body_that_is_no_request_is_refused_by_every_route(
    api: Api, connection: Connection, body: bytes
) -> None:
    await open_thread(api)
    before = await everything(api, connection)
    for rest in WRITES:
        answer = await api.admin.post(f"/v1/threads{rest}", content=body)
        refused(answer)
        if body in MALFORMED.values():
            assert (rest, answer.status_code) == (rest, 400)
    assert await everything(api, connection) == before


async def test_an_empty_body_is_an_empty_object(api: Api) -> None:
    await open_thread(api)
    for rest in WRITES:
        empty = await api.admin.post(f"/v1/threads{rest}", content=b"")
        braces = await api.admin.post(f"/v1/threads{rest}", content=b"{}")
        if rest == "/t-1/cancel":
            assert (empty.status_code, braces.status_code) == (200, 422)
        else:
            assert (rest, empty.status_code) == (rest, braces.status_code)


WORDS: list[tuple[str, Any]] = [
    ("message_id", "a b"), ("message_id", "x" * 129), ("message_id", 17), ("message_id", "é"),
    ("summary", "x" * 4_001), ("summary", 1), ("body", None), ("body", "a\u0000b"),
    ("artifacts", [{"path": ""}]), ("artifacts", [{"path": "a"}] * 65), ("artifacts", [{"path": "a", "metadata": []}]),
]  # fmt: skip
FENCES: list[tuple[str, Any]] = [
    ("fencing_token", None), ("fencing_token", "1"), ("fencing_token", 1.0), ("fencing_token", True), ("fencing_token", -1),
    ("fencing_token", 10**16), ("agent", "a b"), ("agent", 1), ("agent", "*"),
]  # fmt: skip
WRONG: dict[str, list[tuple[str, Any]]] = {
    "": [
        *WORDS, ("subject", ""), ("subject", None), ("subject", "two\nlines"), ("subject", "x" * 301), ("to", "a b"), ("to", "*"),
        ("kind", "gossip"), ("priority", "URGENT"), ("run_id", "x" * 201), ("task_id", "\u0000"), ("awaiting_response", 1),
        ("create", "yes"), ("from", 1), ("from", "x" * 81), ("message_id", "fetch"), ("message_id", "watch"),
        ("thread_id", "t-2"), ("ttl_ms", 5),
    ],
    "/t-1/claim": [("lease_ms", 999), ("lease_ms", 86_400_001), ("lease_ms", "60000"), ("claim_id", "a b"), ("agent", "")],
    "/t-1/renew": [*FENCES, ("lease_ms", 0), ("lease_ms", 1.5), ("renew_id", "")],
    "/t-1/update": [*WORDS, *FENCES, ("status", "done"), ("status", "pending"), ("status", None), ("kind", "progress")],
    "/t-1/done": [*WORDS, *FENCES, ("summary", None), ("summary", ""), ("summary", " \n"), ("status", "done")],
    "/t-1/fail": [*WORDS, *FENCES, ("summary", None), ("summary", ""), ("reason", "x")],
    "/t-1/reply": [
        *WORDS, ("kind", "task"), ("kind", "result"), ("kind", None), ("to", "a b"), ("reply_to", "a b"), ("priority", 1),
        ("fencing_token", "1"), ("from", 1), ("body", ""),
    ],
    "/t-1/cancel": [("reason", None), ("reason", "x" * 4_001), ("message_id", ""), ("from", "x\n"), ("summary", "x")],
    "/t-1/mark-read": [("up_to", -1), ("up_to", "1"), ("up_to", 10**16), ("agent", "a b")],
    "/t-1/wait-reply": [
        ("after_event", -1), ("after_event", "1"), ("after_event", 10**16), ("after_event", 1.0), ("after_message", "a b"),
        ("kinds", []), ("kinds", ["gossip"]), ("kinds", "answer"), ("wait_ms", -1), ("wait_ms", 3_600_001), ("ack", 1),
        ("session", ""), ("session", "a b"), ("hold_ms", 99), ("timeout_seconds", 1),
    ],
    "/watch": [
        ("after_event", -1), ("after_event", 10**16), ("status", "done"), ("status", ["gone"]), ("wait_ms", "1"), ("agent", "*"),
        ("threads", []),
    ],
}  # fmt: skip


@pytest.mark.parametrize("rest", WRITES)
async def test_a_request_with_one_wrong_field_is_refused(api: Api, connection: Connection, rest: str) -> None:
    await open_thread(api)
    before = await everything(api, connection)
    for field, value in WRONG[rest]:
        answer = await api.admin.post(f"/v1/threads{rest}", json={**WRITES[rest], field: value})
        assert (field, value, answer.status_code) == (field, value, 422), answer.text
        refused(answer, 422, "INVALID_REQUEST")
    for field in WRITES[rest]:
        if field != "agent":
            missing = {name: value for name, value in WRITES[rest].items() if name != field}
            refused(await api.admin.post(f"/v1/threads{rest}", json=missing), 422, "INVALID_REQUEST")
    assert await everything(api, connection) == before


async def test_blocked_without_a_question_is_refused(api: Api, connection: Connection) -> None:
    await open_thread(api)
    token = await claim(api)
    before = await everything(api, connection)
    for said in ({}, {"body": " "}, {"payload": {"a": 1}}):
        answer = await post(api.agent, "update", fencing_token=token, status="blocked", **said)
        assert "question" in refused(answer, 422, "INVALID_REQUEST").error.message
    assert await everything(api, connection) == before


@pytest.mark.parametrize(
    "query",
    [
        "?status=gone", "?status=done,gone", "?status=DONE", "?status=%00", "?limit=0", "?limit=1001", "?limit=x", "?agent=a%20b",
        "?agent=*", "?created_by=a:b", "?created_by=%0A", "?assigned_to=", "?cursor=x", "?cursor=" + "a" * 501, "?unknown=1",
        "/fetch?status=gone", "/fetch?limit=0", "/fetch?unread=maybe", "/fetch?cursor=x", "/fetch?agent=", "/fetch",
        "/t-1?limit=0", "/t-1?cursor=x", "/t-1?agent=*", "/t-1?mark_read=true",
    ],
)  # fmt: skip
async def test_a_bad_parameter_is_refused(api: Api, query: str) -> None:
    await open_thread(api)
    refused(await api.admin.get(f"/v1/threads{query}"))


async def test_pages_hold_every_thread_once_and_a_forged_cursor_is_refused(api: Api) -> None:
    for number in range(7):
        await open_thread(api, f"t-{number}", priority=("low", "urgent")[number % 2])
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = answered(await api.admin.get("/v1/threads", params=params), model.ThreadPage)
        seen += [thread.thread_id for thread in page.threads]
        # A new one while somebody pages comes before the first page and shifts nothing.
        await open_thread(api, f"later-{len(seen)}")
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"t-{number}" for number in reversed(range(7))]
    for forged in (
        ["threads"],
        ["threads", "1"],
        ["threads", 1, 2],
        ["thread", 1],
        ["threads", 10**18],
        ["threads", None],
        5,
    ):
        refused(await api.admin.get("/v1/threads", params={"cursor": encoded(forged)}))
        if forged != ["thread", 1]:
            refused(await api.admin.get("/v1/threads/t-1", params={"cursor": encoded(forged)}))
    for place in (-(10**17), -1, 0, 10**17):
        assert (await api.admin.get("/v1/threads", params={"cursor": encoded(["threads", place])})).status_code == 200
        assert (
            await api.admin.get("/v1/threads/t-1", params={"cursor": encoded(["thread", place])})
        ).status_code == 200


async def test_words_arrive_as_they_were_said(api: Api) -> None:
    said: dict[str, Any] = {
        "body": 'Do *not* "touch" \\ \u2028 </mail> \U0001f4ec\n', "summary": "two\nlines", "payload": {"deep": [[None, 1.5, "é"]], "": 0},
        "artifacts": [{"path": "a/b.ts", "kind": "file", "metadata": {"lines": [1, 2]}}, {"path": "c", "kind": None, "metadata": None}],
    }  # fmt: skip
    await open_thread(api, **said)
    token = await claim(api)
    await post(api.agent, "update", fencing_token=token, **said)
    await post(api.agent, "update", fencing_token=token, status="blocked", **said)
    await post(api.admin, "reply", **said)
    await post(api.agent, "done", fencing_token=token, **said)
    shown = answered(await api.admin.get("/v1/threads/t-1"), model.ThreadHistory)
    assert len(shown.messages) == 5
    for message in shown.messages:
        got = message.model_dump()
        assert {name: got[name] for name in said} == said


async def test_the_last_hour_is_told_minute_by_minute(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "x"})
    await api.agent.post("/v1/tasks/backend/pull", json={"ack": True})
    stats = answered(await api.admin.get("/v1/stats"), model.Stats)
    assert len(stats.minutes) == 60
    assert sum(one.queued for one in stats.minutes) == sum(one.delivered for one in stats.minutes) == 1
    assert [one.at_ms % 60_000 for one in stats.minutes] == [0] * 60
    refused(await api.agent.get("/v1/stats"), 403, "FORBIDDEN")


async def test_a_caller_that_hung_up_while_waiting_takes_nothing(api: Api) -> None:
    from tests.edges.test_long_polls import Caller

    await open_thread(api)
    await claim(api)
    caller = Caller(api, "POST", "/v1/threads/t-1/wait-reply", json.dumps({"wait_ms": LONG_MS}).encode())
    await wait_until(lambda: api.broker.waiting.count() == 1, within_ms=5_000)
    await caller.hang_up()
    await wait_until(lambda: api.broker.waiting.count() == 0, within_ms=5_000)
    await post(api.admin, "reply", body="That.", kind="control", message_id="a-1")
    shown = answered(await api.admin.get("/v1/messages/a-1"), model.MessageHistory)
    assert (shown.message.state, caller.sent) == ("queued", [])
