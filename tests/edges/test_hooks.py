"""POST /v1/hooks/{host} and POST /v1/login over HTTP."""

from __future__ import annotations

import pytest

from inboxd import model
from tests.edges.conftest import Api
from tests.support.answers import answered, refused

pytestmark = pytest.mark.anyio

HOOK = "/v1/hooks/claude"
AFTER_TOOL = {"hook_event_name": "PostToolUse", "session_id": "s-1", "tool_name": "Bash"}


async def test_with_nothing_to_say_the_answer_has_no_body(api: Api) -> None:
    answer = await api.agent.post(HOOK, json=AFTER_TOOL)
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-length" not in answer.headers


async def test_mail_is_the_body_and_its_receipt_a_header(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "hello", "message_id": "m-1"})
    answer = await api.agent.post(HOOK, json={**AFTER_TOOL, "inbox": {"pull_id": "p-1"}})
    assert answer.status_code == 200
    assert "| hello" in answer.json()["hookSpecificOutput"]["additionalContext"]
    named = {name: value for name, value in answer.headers.items() if name.startswith("inbox-")}
    assert named == {
        "inbox-receipt": "p-1",
        "inbox-task": "backend",
        "inbox-messages": "m-1",
        "inbox-print-within-ms": "12500",
    }
    settled = await api.agent.post("/v1/tasks/backend/ack", json={"receipt": named["inbox-receipt"]})
    assert answered(settled, model.Settled).message_ids == ["m-1"]


async def test_a_host_that_calls_by_itself_acks_by_asking(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "hello", "message_id": "m-1"})
    answer = await api.agent.post(f"{HOOK}?ack=now", json=AFTER_TOOL)
    assert answer.status_code == 200
    assert "inbox-receipt" not in answer.headers
    shown = answered(await api.admin.get("/v1/messages/m-1"), model.MessageHistory)
    assert shown.message.state == "delivered"


async def test_the_dialect_is_that_of_whoever_speaks(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "hello"})
    given = {"hook_event_name": "PostToolUse", "session_id": "s-1", "timestamp": "2026-01-01T00:00:00Z"}
    answer = await api.agent.post("/v1/hooks/auto", json=given)
    assert list(answer.json()) == ["additionalContext"]


@pytest.mark.parametrize(
    "given",
    [b"", b"[]", b"nonsense", b"\xff", b'"text"', b"null", b"{", b'{"inbox": []}', b'{"inbox": {"pull_id": 1}}'],
)
async def test_input_that_is_none_is_refused(api: Api, given: bytes) -> None:
    refused(await api.agent.post(HOOK, content=given))


@pytest.mark.parametrize(
    "odd",
    [{}, {"session_id": 7}, {"hook_event_name": None}, {"hook_event_name": "X", "agent_id": []}, {"inbox": {"new": 1}}],
)
async def test_a_host_that_says_odd_things_gets_no_answer_and_no_error(api: Api, odd: dict[str, object]) -> None:
    assert (await api.agent.post(HOOK, json=odd)).status_code == 204


async def test_an_unknown_host_is_named(api: Api) -> None:
    answer = refused(await api.agent.post("/v1/hooks/emacs", json=AFTER_TOOL), 422)
    assert "claude" in (answer.error.hint or "")


async def test_a_hook_opens_only_its_own_inbox(api: Api) -> None:
    refused(await api.agent.post(HOOK, json={**AFTER_TOOL, "inbox": {"task": "frontend"}}), 403, "FORBIDDEN")
    refused(
        await api.as_role("observer").post(HOOK, json={**AFTER_TOOL, "inbox": {"task": "backend"}}), 403, "FORBIDDEN"
    )
    refused(await api.nobody.post(HOOK, json=AFTER_TOOL), 401, "TOKEN_MISSING")


async def test_a_login_code_makes_a_user_once(api: Api) -> None:
    code = await api.broker.offer_login(api.owner.namespace)
    made = answered(await api.nobody.post("/v1/login", json={"code": code}), model.TokenMade, 201)
    assert made.role == "user"
    async with api.with_token(made.token) as me:
        assert answered(await me.get("/v1/whoami"), model.WhoAmI).namespace == api.owner.namespace
    refused(await api.nobody.post("/v1/login", json={"code": code}), 401, "TOKEN_INVALID")


@pytest.mark.parametrize("code", ["", "x", "default-", "-", "0" * 20, "no space", "ü", 7, None])
async def test_a_made_up_login_code_opens_nothing(api: Api, code: object) -> None:
    refused(await api.nobody.post("/v1/login", json={"code": code}))
