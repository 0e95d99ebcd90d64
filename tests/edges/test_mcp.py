"""/mcp as a door: who is let in, what is offered, and that a call made again is the same call. Streams are tested on a real process.

The SDK's own client speaks here too, in both protocols.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from inboxd.broker.asking import REPEAT_MS
from inboxd.edges import mcp_tool
from inboxd.edges.mcp_tools import TOOLS, listed
from inboxd.model import NewToken
from tests.edges.conftest import Api
from tests.support.answers import refused
from tests.support.mcp import META, NEW, OLD, Speaker, bodies, spoken

pytestmark = pytest.mark.anyio

MODES = ["2026-07-28", "auto", "legacy"]
MAIL_TOOLS = {
    "check_inbox", "inbox_status", "send_to_task", "send_to_peer", "ask_user", "reply", "wait_for_reply", "list_tasks",
    "timeline", "show",
}  # fmt: skip
WORK_TOOLS = {
    "open_thread", "fetch", "claim", "renew", "update", "done", "fail", "cancel", "list", "watch", "wait_reply",
}  # fmt: skip
TOKENS_MAX = 4_000
CHARS_PER_TOKEN = 3
"""Fewer than any tokenizer of today takes for such text, so what is counted here is more than what it costs."""


def client(http: httpx2.AsyncClient, mode: str, path: str = "/mcp") -> Client:
    return Client(streamable_http_client(f"http://inboxd.test{path}", http_client=http), mode=mode)


async def send(api: Api, body: str, task: str = "backend") -> str:
    answer = await api.as_role("user").post(f"/v1/tasks/{task}/messages", json={"body": body})
    return str(answer.raise_for_status().json()["message"]["message_id"])


# ---------------------------------------------------------------- what is offered


@pytest.mark.parametrize("mode", MODES)
async def test_the_sdks_own_client_lists_calls_and_reads(api: Api, mode: str) -> None:
    async with client(api.agent, mode) as speaking:
        assert speaking.session.protocol_version == (OLD if mode == "legacy" else NEW)
        assert {tool.name for tool in (await speaking.list_tools()).tools} == MAIL_TOOLS | WORK_TOOLS
        message_id = await send(api, "hello")
        read = await speaking.read_resource("inbox://backend")
        told = json.loads(read.contents[0].text)  # type: ignore[union-attr]
        assert (told["pending"], [head["message_id"] for head in told["messages"]]) == (1, [message_id])
        assert "hello" not in read.contents[0].text  # type: ignore[union-attr]
        result = await speaking.call_tool("check_inbox", {})
        assert result.structured_content is not None
        assert bodies(result.structured_content) == ["hello"]
        assert (await speaking.call_tool("check_inbox", {})).structured_content == {"messages": [], "pending": 0}
        assert (await speaking.call_tool("wait_for_reply", {"message_id": "nobody", "wait_s": 1})).is_error


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_client_that_wants_only_mail_is_offered_only_mail(api: Api, mode: str) -> None:
    async with client(api.agent, mode, "/mcp?tools=mail") as speaking:
        assert {tool.name for tool in (await speaking.list_tools()).tools} == MAIL_TOOLS
        assert (await speaking.call_tool("claim", {"thread_id": "x"})).is_error
        assert not (await speaking.call_tool("inbox_status", {})).is_error


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26"])
async def test_older_protocols_are_spoken_too(api: Api, version: str) -> None:
    speaker = Speaker(api.agent, version)
    began = await speaker.ask("initialize", {"protocolVersion": version, **ABOUT})
    said = spoken(began)["result"]
    assert said["protocolVersion"] == version
    assert "Call check_inbox at the start" in said["instructions"]
    assert began.headers["mcp-session-id"]
    await send(api, "hello")
    result = await speaker.call("check_inbox")
    assert "hello" in result["content"][0]["text"]


async def test_the_server_says_when_to_look_for_mail(api: Api) -> None:
    for path, work in (("/mcp", True), ("/mcp?tools=mail", False)):
        told = await Speaker(api.agent, NEW, path=path).result("server/discover")
        assert told["supportedVersions"] == [NEW]
        assert "after every subagent" in told["instructions"]
        assert ("fencing_token" in told["instructions"]) is work


async def test_the_list_of_tools_is_short(api: Api) -> None:
    told = await Speaker(api.agent).result("tools/list")
    as_listed = json.dumps(told["tools"], ensure_ascii=False, separators=(",", ":"))
    assert len(as_listed) / CHARS_PER_TOKEN < TOKENS_MAX
    assert told["tools"] == listed(False)
    assert set(TOOLS) == MAIL_TOOLS | WORK_TOOLS
    only_mail = json.dumps(listed(True), ensure_ascii=False, separators=(",", ":"))
    assert len(only_mail) / CHARS_PER_TOKEN < TOKENS_MAX / 2


async def test_each_tool_says_what_it_takes(api: Api) -> None:
    for tool in listed(False):
        takes = TOOLS[tool["name"]].takes
        assert set(tool["inputSchema"]["properties"]) == set(takes.model_fields)
        required = {name for name, field in takes.model_fields.items() if field.is_required()}
        assert set(tool["inputSchema"].get("required", [])) == required
        assert all("type" in one for one in tool["inputSchema"]["properties"].values()), tool


# ---------------------------------------------------------------- the two ways an answer takes


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("inbox_status", {}),
    ("check_inbox", {"again": True}),
    ("list_tasks", {"limit": 1}),
    ("timeline", {}),
    ("send_to_task", {"to": "nobody", "body": "x"}),
    ("claim", {"thread_id": "nothing"}),
    ("claim", {}),
    ("nonsense", {"x": 1}),
    ("fetch", {"status": ["pending"]}),
    ("wait_for_reply", {"message_id": "nothing", "wait_s": 0}),
]


@pytest.mark.parametrize("version", [NEW, OLD])
@pytest.mark.parametrize(("tool", "given"), CALLS, ids=[tool for tool, _ in CALLS])
async def test_a_call_is_answered_alike_before_the_sdk_and_by_it(
    api: Api, version: str, tool: str, given: dict[str, Any]
) -> None:
    before = await Speaker(api.agent, version).ask("tools/call", {"name": tool, "arguments": given}, number=7)
    by_it = await Speaker(api.agent, version, by_sdk=True).ask(
        "tools/call", {"name": tool, "arguments": given}, number=7
    )
    assert before.status_code == by_it.status_code == 200
    assert before.json() == spoken(by_it)


ABOUT = {"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


@pytest.mark.parametrize(
    ("version", "method", "params"),
    [
        *((version, method, {}) for version in (NEW, OLD, "2025-06-18") for method in ("tools/list", "resources/list")),
        (NEW, "server/discover", {}),
        *((version, "initialize", {"protocolVersion": version, **ABOUT}) for version in (OLD, "2025-06-18")),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/mcp?tools=mail"])
async def test_what_there_is_is_told_alike_before_the_sdk_and_by_it(
    api: Api, version: str, method: str, params: dict[str, Any], path: str
) -> None:
    for http in (api.agent, api.as_role("observer")):
        before = await Speaker(http, version, False, path).ask(method, params, number="a")
        by_it = await Speaker(http, version, True, path).ask(method, params, number="a")
        assert before.headers["content-type"] == "application/json"
        assert before.json() == spoken(by_it)
        assert ("mcp-session-id" in before.headers) is ("mcp-session-id" in by_it.headers) is (method == "initialize")


async def test_hosts_need_no_sdk_for_what_they_do_all_day(api: Api) -> None:
    door: Any = api.app._mcp  # type: ignore[attr-defined]
    for version in (NEW, OLD):
        speaker = Speaker(api.agent, version)
        if version == OLD:
            await speaker.ask("initialize", {"protocolVersion": OLD, **ABOUT})
            said = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            head = {"accept": "application/json, text/event-stream", "mcp-protocol-version": OLD}
            assert (await api.agent.post("/mcp", json=said, headers=head)).status_code == 202
        else:
            await speaker.result("server/discover")
        await speaker.result("tools/list")
        await speaker.result("resources/list")
        await speaker.told("check_inbox")
        await speaker.told("send_to_task", to="frontend", body="x")
    assert door._sdk is None
    await Speaker(api.agent).told("watch", wait_s=1)
    assert door._sdk is not None


@pytest.mark.parametrize(
    "odd",
    [
        {"mcp-method": "tools/list"},
        {"mcp-name": "timeline"},
        {"mcp-protocol-version": "2099-01-01"},
        {"accept": "application/json"},
    ],
    ids=["another-method", "another-name", "unknown-version", "no-stream-accepted"],
)
async def test_a_call_that_contradicts_itself_is_the_sdks_to_refuse(api: Api, odd: dict[str, str]) -> None:
    await send(api, "hello")
    speaker = Speaker(api.agent, NEW, headers=odd)
    answer = await speaker.ask("tools/call", {"name": "check_inbox", "arguments": {}})
    assert answer.status_code in (400, 406)
    assert await api.pending() == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
        b"\xff",
        b"[" * 10_000,
        b"1e999",
    ],
    ids=["empty", "text", "list", "object", "no-params", "bytes", "deep", "huge-number"],
)
@pytest.mark.parametrize("version", [NEW, OLD])
async def test_what_is_no_request_is_refused_and_breaks_nothing(api: Api, version: str, body: bytes) -> None:
    head = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": version,
    }
    answer = await api.agent.post("/mcp", content=body, headers=head)
    assert 400 <= answer.status_code < 500 or "error" in spoken(answer), answer.text
    assert (await Speaker(api.agent, version).told("inbox_status"))["pending"] == 0


@pytest.mark.parametrize("key", ["", "k-1"], ids=["unnamed", "named"])
@pytest.mark.parametrize("given", [{"to": "frontend", "body": "\ud83d"}, {"\ud83d": 1}], ids=["value", "name"])
async def test_half_a_character_is_something_a_model_can_mend(api: Api, given: dict[str, Any], key: str) -> None:
    """A host in JavaScript that cuts a text may cut a character in two, and JSON can say it. In 2025 that is no JSON to the SDK."""
    about = {"protocolVersion": NEW, "clientCapabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    meta = {META + name: value for name, value in about.items()}
    params = {"name": "send_to_task", "arguments": given, "_meta": meta}
    asked = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    head = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": NEW,
        "mcp-method": "tools/call",
        "mcp-name": "send_to_task",
        **({"idempotency-key": key} if key else {}),
    }
    said = spoken(await api.agent.post("/mcp", content=asked, headers=head))
    assert said["result"]["structuredContent"]["error"]["code"] == "INVALID_REQUEST", said
    assert await api.pending("frontend") == 0


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_client_that_wants_to_know_is_told_that_a_call_still_waits(
    api: Api, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_tool, "PROGRESS_S", 0.1)
    told: list[tuple[float, float | None, str | None]] = []

    async def hears(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async with client(api.agent, mode) as speaking:
        await speaking.call_tool("watch", {"wait_s": 1}, progress_callback=hears)
    assert len(told) >= 3
    assert {(total, message) for _, total, message in told} == {(1, "still waiting for something to happen")}
    assert [progress for progress, _, _ in told] == sorted(progress for progress, _, _ in told)


# ---------------------------------------------------------------- who is let in


async def test_without_a_good_token_nobody_is_let_in(api: Api) -> None:
    for method in ("POST", "GET", "DELETE"):
        found = refused(await api.nobody.request(method, "/mcp"), 401, "TOKEN_MISSING")
        assert found.error.message
    async with api.with_token(api.tokens["agent"].token[:-1] + "x") as stranger:
        refused(await Speaker(stranger).ask("tools/list"), 401, "TOKEN_INVALID")
    made = await api.broker.create_token(api.owner, NewToken(role="agent", task="backend"))
    async with api.with_token(made.token) as agent:
        assert (await Speaker(agent).told("inbox_status"))["pending"] == 0
        await api.broker.revoke_token(api.owner, made.token_id)
        refused(await Speaker(agent).ask("tools/list"), 401, "TOKEN_INVALID")


async def test_a_token_names_no_task_that_it_may_not_act_for(api: Api) -> None:
    for role, path in (("agent", "/mcp?task=frontend"), ("operator", "/mcp?task=user"), ("user", "/mcp?task=backend")):
        refused(await Speaker(api.as_role(role), path=path).ask("tools/list"), 403, "FORBIDDEN")
    refused(await Speaker(api.agent, headers={"inbox-task": "frontend"}).ask("tools/list"), 403, "FORBIDDEN")
    refused(await Speaker(api.agent, path="/mcp?task=..").ask("tools/list"), 422, "INVALID_REQUEST")
    refused(await Speaker(api.agent, path="/mcp?tool=mail").ask("tools/list"), 422, "INVALID_REQUEST")
    await send(api, "hello")
    acting = Speaker(api.as_role("operator"), headers={"inbox-task": "backend"})
    assert bodies(await acting.told("check_inbox")) == ["hello"]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"origin": "http://evil.test"}, "HOST_UNKNOWN"),
        ({"origin": "http://evil.test", "host": "127.0.0.1:8420"}, "CROSS_SITE"),
        ({"origin": "http://rebound.test", "host": "rebound.test"}, "HOST_UNKNOWN"),
        ({"origin": "null", "host": "localhost:8420"}, "CROSS_SITE"),
        ({"origin": "http://[", "host": "localhost:8420"}, "CROSS_SITE"),
        ({"sec-fetch-site": "cross-site", "host": "rebound.test"}, "HOST_UNKNOWN"),
        ({"origin": "http://localhost:6274", "host": "localhost:8420"}, "CROSS_SITE"),
    ],
    ids=["foreign", "foreign-at-our-address", "rebound", "null", "no-origin", "rebound-without-origin", "another-port"],
)
async def test_a_page_of_another_site_is_refused(api: Api, headers: dict[str, str], code: str) -> None:
    await send(api, "hello")
    answer = await Speaker(api.agent, headers=headers).ask("tools/call", {"name": "check_inbox", "arguments": {}})
    refused(answer, 403, code)
    assert await api.pending() == 1


async def test_a_program_may_call_us_by_any_name_and_our_own_page_may_ask(api: Api) -> None:
    for headers in ({"host": "inboxd:8420"}, {"origin": "http://localhost:8420", "host": "localhost:8420"}):
        assert (await Speaker(api.agent, headers=headers).told("inbox_status"))["pending"] == 0


async def test_a_request_that_is_too_large_is_refused(api: Api) -> None:
    answer = await Speaker(api.agent).ask(
        "tools/call", {"name": "send_to_task", "arguments": {"to": "frontend", "body": "x" * 1_100_000}}
    )
    refused(answer, 413, "BODY_TOO_LARGE")
    error = await Speaker(api.agent).refused("send_to_task", to="frontend", body="x" * 300_000)
    assert error["code"] == "BODY_TOO_LARGE"


async def test_the_newer_protocol_has_no_stream_to_open_and_no_session_to_end(api: Api) -> None:
    refused(await api.agent.get("/mcp", headers={"mcp-protocol-version": NEW}), 405, "METHOD_NOT_ALLOWED")
    refused(await api.agent.put("/mcp"), 405, "METHOD_NOT_ALLOWED")
    assert (await api.agent.delete("/mcp", headers={"mcp-session-id": "x"})).status_code == 200


async def test_nobody_reads_the_resource_of_another_inbox(api: Api) -> None:
    for mode in ("2026-07-28", "legacy"):
        async with client(api.agent, mode) as speaking:
            assert [str(one.uri) for one in (await speaking.list_resources()).resources] == ["inbox://backend"]
            for uri in ("inbox://frontend", "inbox://user", "file:///etc/passwd"):
                with pytest.raises(MCPError, match="each token has its own inbox"):
                    await speaking.read_resource(uri)
    async with client(api.as_role("observer"), "2026-07-28") as speaking:
        assert (await speaking.list_resources()).resources == []


# ---------------------------------------------------------------- a call made again

CLAUDE = {"claudecode/toolUseId": "toolu_01"}
CODEX = {"sessionId": "5c1e0b52", "callId": "call_1"}


@pytest.mark.parametrize(
    ("version", "meta", "head"),
    [
        (NEW, {}, {"idempotency_key": "k-1"}),
        (NEW, CLAUDE, {}),
        (OLD, CLAUDE, {}),
        (OLD, CODEX, {}),
        (OLD, {}, {"mcp_session_id": "s-1"}),
    ],
    ids=["key", "claude-2026", "claude-2025", "codex", "session"],
)
@pytest.mark.parametrize("by_sdk", [False, True], ids=["before", "sdk"])
async def test_after_a_lost_answer_the_same_call_gets_the_same_batch(
    api: Api, version: str, meta: dict[str, Any], head: dict[str, str], by_sdk: bool
) -> None:
    speaker = Speaker(api.agent, version, by_sdk)
    await send(api, "one")
    first = await speaker.call("check_inbox", meta=meta, head=head, number=3)
    await send(api, "two")
    again = await speaker.call("check_inbox", meta=meta, head=head, number=3)
    assert bodies(first["structuredContent"]) == bodies(again["structuredContent"]) == ["one"]
    assert first["content"][0]["text"].count("| one") == again["content"][0]["text"].count("| one") == 1
    another = {name: f"{value}x" for name, value in head.items()}
    later = await speaker.call(
        "check_inbox", meta={name: f"{value}x" for name, value in meta.items()}, head=another, number=3
    )
    assert bodies(later["structuredContent"]) == ["two"]
    assert await api.pending() == 0


async def test_a_number_alone_does_not_make_two_calls_one(api: Api) -> None:
    """Clients count from nought after every start, and two of them may share a token: each must get what is there."""
    for body in ("one", "two", "three"):
        await send(api, body)
        assert bodies((await Speaker(api.agent).call("check_inbox", number=1))["structuredContent"]) == [body]


async def test_a_name_that_comes_back_long_after_is_another_call(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    speaker = Speaker(api.agent)
    await send(api, "one")
    await speaker.call("check_inbox", meta=CLAUDE)
    sent = await speaker.told("send_to_task", to="frontend", body="x", meta=CLAUDE)
    await send(api, "two")
    real = api.broker.clock.now_ms
    monkeypatch.setattr(api.broker.clock, "now_ms", lambda: real() + REPEAT_MS + 1_000)
    assert bodies((await speaker.call("check_inbox", meta=CLAUDE))["structuredContent"]) == ["two"]
    more = await speaker.told("send_to_task", to="frontend", body="x", meta=CLAUDE)
    assert more["message_id"] != sent["message_id"]
    assert await api.pending("frontend") == 2


async def test_a_send_made_again_sends_once(api: Api) -> None:
    speaker = Speaker(api.agent)
    first = await speaker.told("send_to_task", to="frontend", body="x", meta=CLAUDE)
    again = await speaker.told("send_to_task", to="frontend", body="x", meta=CLAUDE)
    assert again == {**first, "duplicate": True}
    # The same name for other words is another call, whatever the host says.
    await speaker.told("send_to_task", to="frontend", body="y", meta=CLAUDE)
    assert await api.pending("frontend") == 2


async def test_a_model_whose_call_failed_asks_for_its_mail_again(api: Api) -> None:
    speaker = Speaker(api.agent)
    assert (await speaker.told("check_inbox", again=True))["messages"] == []
    await send(api, "old")
    await speaker.told("check_inbox")
    for body in ("one", "two"):
        await send(api, body)
    lost = await speaker.told("check_inbox")
    await send(api, "three")
    again = await speaker.told("check_inbox", again=True)
    assert bodies(again) == bodies(lost) == ["one", "two"]
    assert again["pending"] == 1
    assert bodies(await speaker.told("check_inbox")) == ["three"]


async def test_hooks_and_tools_of_one_session_are_one_reader(api: Api) -> None:
    message_id = await send(api, "hello")
    await Speaker(api.agent, OLD).call("check_inbox", meta=CODEX)
    shown = (await api.admin.get(f"/v1/messages/{message_id}")).json()["message"]
    assert shown["delivered_to"] == "5c1e0b52"
    message_id = await send(api, "hello")
    await Speaker(api.agent, headers={"inbox-session": "claude-1"}).call("check_inbox")
    shown = (await api.admin.get(f"/v1/messages/{message_id}")).json()["message"]
    assert shown["delivered_to"] == "claude-1"


async def test_a_client_may_say_more_of_itself_than_we_know(api: Api) -> None:
    meta = {
        META + "clientInfo": {"name": "x", "version": "1", "title": "X", "websiteUrl": "https://x.test"},
        "more": [1],
    }
    assert (await Speaker(api.agent).call("inbox_status", meta=meta))["isError"] is False
