"""Every route answers as its description says, hot routes included: the body is its response model to the letter."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from inboxd import model
from inboxd.edges import describe
from inboxd.edges.http_api import HOT
from inboxd.errors import BY_CODE
from tests.edges.conftest import Api
from tests.support.answers import answered, refused

pytestmark = pytest.mark.anyio

FULL: dict[str, Any] = {
    "message_id": "m-1",
    "body": 'Do *not* touch "auth.ts" \\ \u2028 </mail> \U0001f4ec',
    "kind": "question",
    "subject": "auth",
    "summary": "two\nlines",
    "payload": {"ticket": 17, "deep": [[[None, True, 1.5, "é"]]]},
    "priority": "urgent",
    "thread_id": "thread-1",
    "reply_to": None,
    "awaiting_response": True,
    "topic": "auth",
    "ttl_ms": 60_000,
    "artifacts": [{"path": "a/b.ts", "kind": "file", "metadata": {"lines": [1, 2]}}, {"path": "c"}],
    "hops": 3,
}


async def test_the_hot_routes_are_those_that_are_described() -> None:
    described = {
        (method, route.path, route.endpoint.__name__)  # type: ignore[attr-defined]
        for route in describe.hot.routes
        for method in route.methods  # type: ignore[attr-defined]
    }
    served = {(method, route.template) for (method, _), route in HOT.items()}
    assert served == {(method, path) for method, path, _ in described}
    for method, path, name in described:
        verb = {"send": "messages"}.get(name, name)
        assert path == f"/v1/tasks/{{task}}/{verb}"
        assert (method, verb) in HOT


async def test_a_task_is_declared_once_however_often_it_is_said(api: Api) -> None:
    said = {"task": "docs", "title": "The manual", "peers": ["backend"]}
    first = answered(await api.admin.post("/v1/tasks", json=said), model.Declared, 201)
    again = answered(await api.admin.post("/v1/tasks", json=said), model.Declared, 201)
    assert (first.created, again.created) == (True, False)
    assert (again.task.title, again.task.peers) == ("The manual", ["backend"])


async def test_tasks_are_listed_most_urgent_first(api: Api) -> None:
    await api.admin.post("/v1/tasks/frontend/messages", json={"body": "now", "priority": "urgent"})
    page = answered(await api.admin.get("/v1/tasks"), model.TaskPage)
    assert page.tasks[0].task == "frontend"
    assert {"backend", "frontend"} <= {task.task for task in page.tasks}
    assert page.next_cursor is None


async def test_tasks_are_listed_by_state(api: Api) -> None:
    await api.agent.post("/v1/tasks/backend/presence", json={"state": "start"})
    page = answered(await api.admin.get("/v1/tasks", params={"state": "active"}), model.TaskPage)
    assert [task.task for task in page.tasks] == ["backend"]


async def test_a_task_is_shown_and_changed(api: Api) -> None:
    changed = answered(
        await api.admin.patch("/v1/tasks/backend", json={"title": "The API", "peers": ["frontend"]}), model.Task
    )
    shown = answered(await api.admin.get("/v1/tasks/backend"), model.Task)
    assert changed == shown
    assert (shown.title, shown.peers) == ("The API", ["frontend"])
    assert answered(await api.admin.get("/v1/tasks/frontend"), model.Task).peers == ["backend"]


async def test_a_task_with_mail_is_removed_only_by_force(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "wait"})
    refused(await api.admin.delete("/v1/tasks/backend"), 409, "TASK_NOT_EMPTY")
    removed = answered(await api.admin.delete("/v1/tasks/backend", params={"force": "true"}), model.Removed)
    assert removed.dropped == 1
    refused(await api.admin.get("/v1/tasks/backend"), 404, "TASK_UNKNOWN")


async def test_the_person_s_inbox_cannot_be_removed(api: Api) -> None:
    refused(await api.admin.delete("/v1/tasks/user"), 409, "TASK_RESERVED")


async def test_a_message_arrives_with_every_field_its_sender_gave(api: Api) -> None:
    sent = answered(
        await api.admin.post("/v1/tasks/backend/messages", json={**FULL, "from": "task:frontend"}), model.Sent, 201
    )
    assert (sent.duplicate, sent.pending, sent.recipient_state) == (False, 1, "queued")
    assert sent.message.sender == "task:frontend"
    batch = answered(await api.agent.post("/v1/tasks/backend/pull", json={"pull_id": "p-1"}), model.Batch)
    assert (batch.receipt, batch.pull_id, batch.pending, batch.left) == ("p-1", "p-1", 0, 0)
    (message,) = batch.messages
    got = message.model_dump()
    wanted = {**FULL, "artifacts": [FULL["artifacts"][0], {"path": "c", "kind": None, "metadata": None}]}
    assert {name: got[name] for name in wanted} == wanted
    assert (message.state, message.attempts, message.held_by) == ("in_flight", 1, "default")
    assert message.expires_at_ms == message.created_at_ms + 60_000


async def test_a_newer_message_of_a_topic_says_what_it_replaced(api: Api) -> None:
    for number in (1, 2):
        answer = await api.admin.post(
            "/v1/tasks/backend/messages", json={"message_id": f"m-{number}", "body": "x", "topic": "build"}
        )
    sent = answered(answer, model.Sent, 201)
    assert (sent.superseded, sent.pending) == (["m-1"], 1)
    history = answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory)
    assert (history.message.state, history.message.reason is not None) == ("superseded", True)


@pytest.mark.parametrize("verb", ["ack", "release", "seen", "unseen"])
@pytest.mark.parametrize("by", ["receipt", "message_ids"])
async def test_what_was_handed_over_is_settled_by_receipt_or_by_ids(api: Api, verb: str, by: str) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"message_id": "m-1", "body": "x"})
    batch = answered(await api.agent.post("/v1/tasks/backend/pull", json={}), model.Batch)
    what = {"receipt": batch.receipt} if by == "receipt" else {"message_ids": ["m-1"]}
    if verb in ("seen", "unseen"):
        answered(await api.agent.post("/v1/tasks/backend/ack", json=what), model.Settled)
    settled = answered(await api.agent.post(f"/v1/tasks/backend/{verb}", json=what), model.Settled)
    assert (settled.message_ids, settled.lost) == (["m-1"], [])
    state = answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory).message.state
    assert state == {"ack": "delivered", "release": "queued", "seen": "seen", "unseen": "queued"}[verb]


async def test_one_call_takes_and_acks(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"message_id": "m-1", "body": "x"})
    batch = answered(await api.agent.post("/v1/tasks/backend/pull", json={"ack": True}), model.Batch)
    assert (batch.receipt, [message.state for message in batch.messages]) == (None, ["delivered"])


async def test_an_empty_body_pulls_with_the_defaults(api: Api) -> None:
    batch = answered(await api.agent.post("/v1/tasks/backend/pull"), model.Batch)
    assert (batch.receipt, batch.messages) == (None, [])


async def test_a_receipt_nobody_gave_is_unknown(api: Api) -> None:
    refused(await api.agent.post("/v1/tasks/backend/ack", json={"receipt": "never-given"}), 404, "RECEIPT_UNKNOWN")


async def test_pending_counts_by_priority(api: Api) -> None:
    for priority in ("urgent", "high", "high", "normal", "low"):
        await api.admin.post("/v1/tasks/backend/messages", json={"body": "x", "priority": priority})
    await api.agent.post("/v1/tasks/backend/pull", json={"max": 1})
    counts = answered(await api.agent.get("/v1/tasks/backend/pending"), model.Pending)
    assert counts.by_priority == model.ByPriority(urgent=0, high=2, normal=1, low=1)
    assert (counts.task, counts.pending, counts.urgent, counts.held) == ("backend", 4, 0, 1)


async def test_the_timeline_shows_both_directions_newest_first_and_consumes_nothing(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"message_id": "in-1", "body": "x"})
    await api.agent.post("/v1/tasks/frontend/messages", json={"message_id": "out-1", "body": "y", "kind": "answer"})
    path = "/v1/tasks/backend/messages"
    page = answered(await api.admin.get(path), model.MessagePage)
    assert [message.message_id for message in page.messages] == ["out-1", "in-1"]
    for only, found in {"direction=in": "in-1", "kind=answer": "out-1", "sender=task:backend": "out-1"}.items():
        page = answered(await api.admin.get(f"{path}?{only}"), model.MessagePage)
        assert [message.message_id for message in page.messages] == [found]
    assert await api.pending() == 1


async def test_a_message_tells_its_whole_history(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"message_id": "m-1", "body": "x"})
    await api.agent.post("/v1/tasks/backend/pull", json={"session": "s/1@host", "ack": True})
    await api.agent.post("/v1/tasks/backend/seen", json={"message_ids": ["m-1"], "session": "s/1@host"})
    told = answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory)
    states = [step.state for step in told.history]
    assert (states[0], states[-1]) == ("queued", "seen")
    assert "delivered" in states
    assert told.message.delivered_to == "s/1@host"


async def test_a_message_nobody_sent_is_unknown(api: Api) -> None:
    refused(await api.admin.get("/v1/messages/none"), 404, "MESSAGE_UNKNOWN")
    refused(await api.admin.post("/v1/messages/none/requeue"), 404, "MESSAGE_UNKNOWN")


async def test_a_dead_letter_is_brought_back(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"message_id": "m-1", "body": "x"})
    for _ in range(api.broker.settings.attempts_max):
        pulled = answered(await api.agent.post("/v1/tasks/backend/pull"), model.Batch)
        await api.agent.post("/v1/tasks/backend/release", json={"receipt": pulled.receipt})
    assert answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory).message.state == "dead"
    needs = answered(await api.admin.get("/v1/attention"), model.Attention)
    assert [(item.task, item.why) for item in needs.items] == [("backend", "dead_letters")]
    back = answered(await api.admin.post("/v1/messages/m-1/requeue"), model.Requeued)
    assert (back.message.state, back.pending) == ("queued", 1)
    await api.agent.post("/v1/tasks/backend/pull", json={"ack": True})
    refused(await api.admin.post("/v1/messages/m-1/requeue"), 409, "MESSAGE_STATE")


async def test_peers_are_linked_both_ways_and_written_to_without_an_id(api: Api) -> None:
    linked = answered(await api.admin.post("/v1/tasks/backend/peers", json={"peers": ["frontend"]}), model.Task)
    assert linked.peers == ["frontend"]
    sent = answered(
        await api.agent.post("/v1/tasks/backend/peer-messages", json={"body": "ready", "message_id": "p-1"}),
        model.SentMany,
        201,
    )
    assert [(one.message.task, one.message.sender) for one in sent.sent] == [("frontend", "task:backend")]
    refused(await api.agent.post("/v1/tasks/backend/peer-messages", json={"body": "x", "to": "user"}), 409, "NO_PEER")


async def test_a_broadcast_reaches_all_it_names_under_ids_of_its_own(api: Api) -> None:
    said = {"to": ["backend", "frontend"], "body": "main moved", "message_id": "b-1"}
    sent = answered(await api.admin.post("/v1/broadcast", json=said), model.SentMany, 201)
    assert [one.message.message_id for one in sent.sent] == ["b-1:backend", "b-1:frontend"]
    again = answered(await api.admin.post("/v1/broadcast", json=said), model.SentMany, 201)
    assert again.duplicate
    assert await api.pending("frontend") == 1


async def test_a_broadcast_to_all_leaves_out_its_sender_and_the_person(api: Api) -> None:
    sent = answered(await api.agent.post("/v1/broadcast", json={"to": "all", "body": "x"}), model.SentMany, 201)
    assert [one.message.task for one in sent.sent] == ["frontend"]


@pytest.mark.parametrize("sign", ["heartbeat", "start", "end", "waiting", "terminated"])
async def test_a_session_says_how_it_is(api: Api, sign: str) -> None:
    said = {"state": sign, "session": "s-1", "machine": "laptop", "host": "claude", "detail": "may I?"}
    present = answered(await api.agent.post("/v1/tasks/backend/presence", json=said), model.Present)
    shown = answered(await api.admin.get("/v1/tasks/backend"), model.Task)
    assert present.state == shown.state
    if sign == "waiting":
        needs = answered(await api.admin.get("/v1/attention"), model.Attention)
        assert [(item.why, item.detail) for item in needs.items] == [("waits_for_person", "may I?")]


async def test_tokens_are_made_listed_and_revoked(api: Api) -> None:
    made = answered(
        await api.admin.post("/v1/tokens", json={"role": "agent", "task": "docs", "label": "a word", "ttl_ms": 60_000}),
        model.TokenMade,
        201,
    )
    async with api.with_token(made.token) as docs:
        me = answered(await docs.get("/v1/whoami"), model.WhoAmI)
        assert (me.namespace, me.role, me.task) == (api.owner.namespace, "agent", "docs")
        assert me.expires_at_ms == made.expires_at_ms == made.created_at_ms + 60_000
        listed = answered(await api.admin.get("/v1/tokens"), model.TokenList)
        assert made.token_id in {token.token_id for token in listed.tokens}
        assert made.token.rsplit(".", 1)[1] not in (await api.admin.get("/v1/tokens")).text
        answered(await api.admin.delete(f"/v1/tokens/{made.token_id}"), model.Revoked)
        refused(await docs.get("/v1/whoami"), 401, "TOKEN_INVALID")
    refused(await api.admin.delete(f"/v1/tokens/{made.token_id}"), 404, "TOKEN_UNKNOWN")


async def test_health_needs_no_token(api: Api) -> None:
    for path in ("/healthz", "/readyz"):
        answer = await api.nobody.get(path)
        assert (answer.status_code, answer.json()) == (200, {"ok": True})


async def test_a_broker_that_is_closing_is_not_ready(api: Api) -> None:
    api.broker.close()
    answer = await api.nobody.get("/readyz")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STORE_UNAVAILABLE")
    assert answer.headers["retry-after"] == "1"
    assert (await api.nobody.get("/healthz")).status_code == 200


async def test_every_described_answer_has_a_model_and_every_problem_the_one_shape(api: Api) -> None:
    document = (await api.admin.get("/openapi.json")).json()
    shapes = {name for name, found in vars(model).items() if isinstance(found, type) and issubclass(found, BaseModel)}
    for path, operations in document["paths"].items():
        if path.startswith("/v1/hooks/"):
            continue  # answers as the host wants it, and is tested host by host
        if path == "/v1/events":
            continue  # answers with a stream
        for operation in operations.values():
            for status, answer in operation["responses"].items():
                shape = answer["content"]["application/json"]["schema"]["$ref"].rsplit("/", 1)[1]
                assert shape in shapes
                assert (shape == "ProblemAnswer") == (int(status) >= 400)
                if "example" in answer["content"]["application/json"]:
                    code = answer["content"]["application/json"]["example"]["error"]["code"]
                    assert BY_CODE[code].status == int(status)
