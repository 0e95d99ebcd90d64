"""Who may do what, over HTTP: the key cases of the table of roles. The whole table is tested beside the broker."""

from __future__ import annotations

from typing import Any

import pytest

from inboxd import model
from tests.edges.conftest import ROLES, Api
from tests.support.answers import answered, refused

pytestmark = pytest.mark.anyio

WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/tasks", {"task": "new"}),
    ("PATCH", "/v1/tasks/frontend", {"title": "x"}),
    ("DELETE", "/v1/tasks/frontend", {}),
    ("POST", "/v1/tasks/frontend/peers", {"peers": ["backend"]}),
    ("POST", "/v1/tasks/frontend/presence", {"state": "start"}),
    ("POST", "/v1/tasks/frontend/messages", {"body": "x"}),
    ("POST", "/v1/tasks/frontend/peer-messages", {"body": "x"}),
    ("POST", "/v1/broadcast", {"to": "all", "body": "x"}),
    ("POST", "/v1/tasks/frontend/pull", {}),
    ("POST", "/v1/tasks/frontend/ack", {"message_ids": ["m-1"]}),
    ("POST", "/v1/tasks/frontend/release", {"message_ids": ["m-1"]}),
    ("POST", "/v1/tasks/frontend/seen", {"message_ids": ["m-1"]}),
    ("POST", "/v1/tasks/frontend/unseen", {"message_ids": ["m-1"]}),
    ("POST", "/v1/messages/m-1/requeue", {}),
    ("POST", "/v1/tokens", {"role": "user"}),
    ("DELETE", f"/v1/tokens/{'0' * 12}", {}),
]
READS = [
    "/v1/tasks",
    "/v1/tasks/frontend",
    "/v1/tasks/frontend/pending",
    "/v1/tasks/frontend/messages",
    "/v1/messages/m-1",
    "/v1/attention",
    "/v1/whoami",
    "/docs",
    "/metrics",
]
OWN_SENDER = {"admin": "operator", "user": "user", "operator": "operator", "agent": "task:backend"}


async def test_an_observer_reads_everything_and_changes_nothing(api: Api) -> None:
    await api.admin.post("/v1/tasks/frontend/messages", json={"message_id": "m-1", "body": "x"})
    observer = api.as_role("observer")
    for method, path, body in WRITES:
        answer = await observer.request(method, path, json=body or None)
        assert (method, path, answer.status_code) == (method, path, 403), answer.text
        refused(answer, 403, "FORBIDDEN")
    for path in READS:
        assert (path, (await observer.get(path)).status_code) == (path, 200)
    assert await api.pending("frontend") == 1
    assert answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory).message.state == "queued"


async def test_an_agent_opens_no_inbox_but_its_own(api: Api) -> None:
    await api.admin.post("/v1/tasks/frontend/messages", json={"message_id": "m-1", "body": "x"})
    await api.admin.post("/v1/tasks/frontend/pull", json={"pull_id": "p-1", "session": "default"})
    for verb, body in {
        "pull": {"pull_id": "p-1"},
        "ack": {"receipt": "p-1"},
        "release": {"receipt": "p-1"},
        "seen": {"receipt": "p-1"},
        "unseen": {"receipt": "p-1"},
        "presence": {"state": "end"},
        "peer-messages": {"body": "x"},
    }.items():
        for task in ("frontend", "user"):
            refused(await api.agent.post(f"/v1/tasks/{task}/{verb}", json=body), 403, "FORBIDDEN")
    refused(await api.agent.get("/v1/tasks/frontend/messages"), 403, "FORBIDDEN")
    refused(await api.agent.get("/v1/messages/m-1"), 403, "FORBIDDEN")
    refused(await api.agent.delete("/v1/tasks/backend"), 403, "FORBIDDEN")
    refused(await api.agent.patch("/v1/tasks/frontend", json={"title": "mine"}), 403, "FORBIDDEN")
    refused(await api.agent.get("/v1/tokens"), 403, "FORBIDDEN")
    assert answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory).message.state == "in_flight"


async def test_an_agent_reads_what_it_sent_and_what_it_got(api: Api) -> None:
    await api.agent.post("/v1/tasks/frontend/messages", json={"message_id": "out", "body": "x"})
    await api.admin.post("/v1/tasks/backend/messages", json={"message_id": "in", "body": "x"})
    for message_id in ("out", "in"):
        answered(await api.agent.get(f"/v1/messages/{message_id}"), model.MessageHistory)
    answered(await api.agent.patch("/v1/tasks/backend", json={"title": "me"}), model.Task)


@pytest.mark.parametrize("role", OWN_SENDER)
async def test_the_broker_sets_the_sender_from_the_token(api: Api, role: str) -> None:
    sent = answered(await api.as_role(role).post("/v1/tasks/frontend/messages", json={"body": "x"}), model.Sent, 201)
    assert sent.message.sender == OWN_SENDER[role]
    cast = {"to": ["frontend"], "body": "x"}
    many = answered(await api.as_role(role).post("/v1/broadcast", json=cast), model.SentMany, 201)
    assert many.sent[0].message.sender == OWN_SENDER[role]


@pytest.mark.parametrize("role", ROLES)
async def test_nobody_speaks_in_a_name_their_token_does_not_allow(api: Api, role: str) -> None:
    allowed = {
        "admin": {"user", "operator", "system", "task:backend", "task:frontend"},
        "operator": {"operator", "task:backend", "task:frontend"},
        "user": {"user"},
        "agent": {"task:backend"},
        "observer": set(),
    }[role]
    names = ["user", "operator", "system", "task:backend", "task:frontend", "task:user", "task:", "USER", "admin", "x"]
    for name in names:
        for path, body in (
            ("/v1/tasks/frontend/messages", {"body": "x"}),
            ("/v1/broadcast", {"to": ["frontend"], "body": "x"}),
        ):
            answer = await api.as_role(role).post(path, json={**body, "from": name})
            if name in allowed:
                assert (name, answer.status_code) == (name, 201), answer.text
            else:
                assert (name, answer.status_code) == (name, 403), answer.text
                refused(answer, 403, "FORBIDDEN" if role == "observer" else "SENDER_FORBIDDEN")
    assert await api.pending("frontend") == 2 * len(allowed)


async def test_an_operator_neither_opens_the_person_s_inbox_nor_speaks_as_the_person(api: Api) -> None:
    await api.agent.post("/v1/tasks/user/messages", json={"message_id": "m-1", "body": "for you alone"})
    operator = api.as_role("operator")
    refused(await operator.post("/v1/tasks/user/pull", json={}), 403, "FORBIDDEN")
    refused(await operator.post("/v1/tasks/user/ack", json={"message_ids": ["m-1"]}), 403, "FORBIDDEN")
    refused(await operator.post("/v1/tasks/user/presence", json={}), 403, "FORBIDDEN")
    refused(await operator.post("/v1/tasks/user/peer-messages", json={"body": "x"}), 403, "FORBIDDEN")
    refused(
        await operator.post("/v1/tasks/backend/messages", json={"body": "x", "from": "user"}), 403, "SENDER_FORBIDDEN"
    )
    batch = answered(await api.as_role("user").post("/v1/tasks/user/pull", json={}), model.Batch)
    assert [message.message_id for message in batch.messages] == ["m-1"]


async def test_an_operator_mints_agents_and_nothing_stronger(api: Api) -> None:
    operator = api.as_role("operator")
    answered(await operator.post("/v1/tokens", json={"role": "agent", "task": "docs"}), model.TokenMade, 201)
    for role in ("admin", "user", "operator", "observer"):
        refused(await operator.post("/v1/tokens", json={"role": role}), 403, "FORBIDDEN")
    refused(await operator.delete(f"/v1/tokens/{api.tokens['user'].token_id}"), 403, "FORBIDDEN")
    answered(await operator.delete(f"/v1/tokens/{api.tokens['agent'].token_id}"), model.Revoked)


async def test_an_agent_s_token_is_never_the_person_s(api: Api) -> None:
    refused(await api.admin.post("/v1/tokens", json={"role": "agent", "task": "user"}), 422, "INVALID_REQUEST")
    refused(await api.admin.post("/v1/tokens", json={"role": "agent"}), 422, "INVALID_REQUEST")
    refused(await api.admin.post("/v1/tokens", json={"role": "user", "task": "backend"}), 422, "INVALID_REQUEST")
