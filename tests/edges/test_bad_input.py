"""Bad input: always a 4xx in the one shape, nothing stored, never a 500; on hot routes and on the others alike."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inboxd import model
from inboxd.store.connection import Connection
from tests.edges.conftest import Api
from tests.support.answers import answered, refused
from tests.support.state import State, snapshot

pytestmark = pytest.mark.anyio

WRITES: list[tuple[str, str]] = [
    ("POST", "/v1/tasks/backend/messages"),
    ("POST", "/v1/tasks/backend/pull"),
    ("POST", "/v1/tasks/backend/ack"),
    ("POST", "/v1/tasks/backend/release"),
    ("POST", "/v1/tasks/backend/seen"),
    ("POST", "/v1/tasks/backend/unseen"),
    ("POST", "/v1/tasks"),
    ("PATCH", "/v1/tasks/backend"),
    ("POST", "/v1/tasks/backend/peers"),
    ("POST", "/v1/tasks/backend/presence"),
    ("POST", "/v1/tasks/backend/peer-messages"),
    ("POST", "/v1/broadcast"),
    ("POST", "/v1/tokens"),
]
OF_A_TASK: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("PATCH", "", {"title": "x"}),
    ("DELETE", "", None),
    ("GET", "/messages", None),
    ("POST", "/messages", {"body": "x", "create": True}),
    ("GET", "/pending", None),
    ("POST", "/pull", {}),
    ("POST", "/ack", {"message_ids": ["m-1"]}),
    ("POST", "/peers", {"peers": ["frontend"]}),
    ("POST", "/presence", {}),
    ("POST", "/peer-messages", {"body": "x"}),
]
BAD_NAMES = {
    "nul": "%00",
    "nul-inside": "back%00end",
    "slash": "%2F",
    "slash-inside": "back%2Fend",
    "dots": "%2E%2E",
    "newline-behind": "backend%0A",
    "newline-before": "%0Abackend",
    "space": "%20",
    "space-behind": "backend%20",
    "accent": "caf%C3%A9",
    "han": "%E6%97%A5%E6%9C%AC",
    "no-utf-8": "%FF%FE",
    "surrogate": "%ED%A0%80",
    "65-characters": "a" * 65,
    "very-long": "a" * 5_000,
    "dash-first": "-a",
    "colon": "a:b",
    "braces": "a%7Bb%7D",
    "star": "%2A",
    "question-mark": "a%3Fb",
    "fullwidth": "%EF%BC%A1",
    "quote": "%22",
}
MALFORMED = {
    "open": b"{",
    "single-quotes": b"{'body': 'x'}",
    "trailing-comma": b'{"body": "x",}',
    "two-values": b'{"body": "x"} {"body": "y"}',
    "no-utf-8": b'{"body": "\xff\xfe"}',
    "overlong-utf-8": b'{"body": "\xc0\xaf"}',
    "utf-8-surrogate": b'{"body": "\xed\xa0\x80"}',
    "utf-16": '{"body": "x"}'.encode("utf-16"),
    "lone-high-surrogate": b'{"body": "\\ud800"}',
    "lone-low-surrogate": b'{"body": "\\udc00x"}',
    "surrogate-key": b'{"\\ud800": 1}',
    "raw-control": b'{"body": "\x01"}',
    "raw-nul": b"\x00",
    "nul-behind": b'{"body": "x"}\x00',
    "deep-arrays": b'{"body": "x", "payload": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep-objects": b'{"payload": ' * 50_000 + b"1" + b"}" * 50_000,
    "comment": b'{"body": "x" /* y */}',
    "form": b"body=x",
    "xml": b"<body>x</body>",
}
MISFITS = {
    "nan": b'{"body": "x", "payload": NaN}',
    "infinity": b'{"body": "x", "payload": Infinity}',
    "minus-infinity": b'{"body": "x", "payload": [-Infinity]}',
    "array": b"[]",
    "array-of-objects": b'[{"body": "x"}]',
    "null": b"null",
    "true": b"true",
    "text": b'"text"',
    "number": b"1",
    "unknown-field": b'{"no_such_field": 1}',
    "unknown-nested-name": b'{"": 1}',
    "huge-integer": b'{"no_such_field": ' + b"9" * 5_000 + b"}",
}


async def everything(api: Api, connection: Connection) -> State:
    """All that is stored in the namespace, to be compared."""
    return await snapshot(connection, api.owner.namespace)


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_json_is_refused_on_every_route(api: Api, connection: Connection, body: bytes) -> None:
    before = await everything(api, connection)
    for method, path in WRITES:
        answer = await api.admin.request(method, path, content=body, headers={"content-type": "application/json"})
        assert (path, answer.status_code) == (path, 400), answer.text
        refused(answer, 400, "MALFORMED_JSON")
    assert await everything(api, connection) == before


@pytest.mark.parametrize("body", MISFITS.values(), ids=MISFITS.keys())
async def test_json_of_another_shape_is_refused_on_every_route(api: Api, connection: Connection, body: bytes) -> None:
    before = await everything(api, connection)
    for method, path in WRITES:
        refused(await api.admin.request(method, path, content=body))
    assert await everything(api, connection) == before


@pytest.mark.parametrize("content_type", [None, "application/json", "application/x-www-form-urlencoded", "a/b/c", ""])
async def test_the_content_type_changes_nothing(api: Api, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    for path, body in (
        ("/v1/tasks/backend/messages", b'{"body": "x"}'),
        ("/v1/tasks", b'{"task": "backend"}'),
        ("/v1/broadcast", b'{"to": ["backend"], "body": "x"}'),
    ):
        answer = await api.admin.post(path, content=body, headers=headers)
        assert (path, answer.status_code) == (path, 201), answer.text


async def test_an_empty_body_is_an_empty_object_on_every_route(api: Api) -> None:
    for method, path in WRITES:
        empty = await api.admin.request(method, path, content=b"")
        braces = await api.admin.request(method, path, content=b"{}")
        assert (path, empty.status_code) == (path, braces.status_code)
        assert empty.status_code == 200 or refused(empty, 422) == refused(braces, 422)


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES.keys())
async def test_a_bad_task_name_is_refused_on_every_route(api: Api, connection: Connection, name: str) -> None:
    before = await everything(api, connection)
    for method, rest, body in OF_A_TASK:
        answer = await api.admin.request(method, f"/v1/tasks/{name}{rest}", json=body)
        assert (method, rest, answer.status_code in (404, 405, 422)) == (method, rest, True), answer.text
        refused(answer)
    for path in (f"/v1/messages/{name}x%20", f"/v1/tokens/{name}"):
        refused(await api.admin.request("DELETE" if "tokens" in path else "GET", path))
    assert await everything(api, connection) == before


@pytest.mark.parametrize("name", ["", "é", "a b", "a\n", "a\u0000", "a" * 65, "../x", "a/b", "a:b", None, 1, [], {}])
async def test_a_bad_task_name_in_a_body_is_refused(api: Api, connection: Connection, name: Any) -> None:
    before = await everything(api, connection)
    for path, body in (
        ("/v1/tasks", {"task": name}),
        ("/v1/tasks", {"task": "new", "peers": [name]}),
        ("/v1/tasks/backend/peers", {"peers": [name]}),
        ("/v1/broadcast", {"to": [name], "body": "x", "create": True}),
        ("/v1/tokens", {"role": "agent", "task": name}),
    ):
        refused(await api.admin.post(path, json=body), 422, "INVALID_REQUEST")
    assert await everything(api, connection) == before


WRONG_FIELDS: list[tuple[str, Any]] = [
    ("body", None),
    ("body", 1),
    ("body", ["x"]),
    ("body", "a\u0000b"),
    ("kind", "gossip"),
    ("kind", None),
    ("subject", "two\nlines"),
    ("subject", "x" * 301),
    ("summary", "x" * 4_001),
    ("summary", "\u0000"),
    ("priority", "URGENT"),
    ("priority", 3),
    ("priority", None),
    ("thread_id", "a b"),
    ("reply_to", "x" * 194),
    ("reply_to", "é"),
    ("awaiting_response", 1),
    ("awaiting_response", "true"),
    ("awaiting_response", None),
    ("topic", ""),
    ("topic", "x" * 201),
    ("ttl_ms", 0),
    ("ttl_ms", -1),
    ("ttl_ms", 1.0),
    ("ttl_ms", "1"),
    ("ttl_ms", False),
    ("ttl_ms", True),
    ("ttl_ms", 31_536_000_001),
    ("ttl_ms", 10**30),
    ("hops", -1),
    ("hops", False),
    ("hops", "1"),
    ("hops", 1.0),
    ("hops", None),
    ("hops", 2**63),
    ("artifacts", {}),
    ("artifacts", [{}]),
    ("artifacts", [{"path": ""}]),
    ("artifacts", [{"path": "a\u0000"}]),
    ("artifacts", [{"path": "a", "size": 1}]),
    ("artifacts", [{"path": "a", "metadata": []}]),
    ("artifacts", [{"path": "a", "metadata": {"x": "y" * 17_000}}]),
    ("artifacts", [{"path": "a"}] * 65),
    ("artifacts", None),
    ("message_id", ""),
    ("message_id", "a b"),
    ("message_id", "a\n"),
    ("message_id", "x" * 129),
    ("message_id", 17),
    ("supersedes", "a/b"),
    ("create", 1),
    ("create", "yes"),
    ("from", 1),
    ("from", "a\nb"),
    ("from", "x" * 81),
]


@pytest.mark.parametrize("path", ["/v1/tasks/backend/messages", "/v1/broadcast", "/v1/tasks/backend/peer-messages"])
async def test_a_message_with_one_wrong_field_is_refused(api: Api, connection: Connection, path: str) -> None:
    await api.admin.post("/v1/tasks/backend/peers", json={"peers": ["frontend"]})
    before = await everything(api, connection)
    to = {"to": ["frontend"]} if path == "/v1/broadcast" else {}
    for field, value in WRONG_FIELDS:
        answer = await api.admin.post(path, json={"body": "x", **to, field: value})
        assert (field, value, answer.status_code) == (field, value, 422), answer.text
        assert field.split(".", maxsplit=1)[0] in refused(answer, 422, "INVALID_REQUEST").error.message
    assert await everything(api, connection) == before


@pytest.mark.parametrize(
    "payload",
    [b"1e999", b"-1e999", b'{"x": [1e400]}', b"9" * 5_000, b'{"x": ' + b"1" * 5_000 + b"}"],
    ids=["1e999", "-1e999", "1e400-inside", "5000-digits", "5000-digits-inside"],
)
async def test_a_number_that_json_cannot_carry_back_is_refused(
    api: Api, connection: Connection, payload: bytes
) -> None:
    before = await everything(api, connection)
    refused(await api.admin.post("/v1/tasks/backend/messages", content=b'{"payload": %b}' % payload))
    refused(await api.admin.post("/v1/broadcast", content=b'{"to": "all", "payload": %b}' % payload))
    inside = b'{"body": "x", "artifacts": [{"path": "a", "metadata": {"n": %b}}]}' % payload
    refused(await api.admin.post("/v1/tasks/backend/messages", content=inside))
    refused(await api.admin.post("/v1/broadcast", content=b'{"to": "all", ' + inside[1:]))
    assert await everything(api, connection) == before


@pytest.mark.parametrize(
    "payload",
    [
        0,
        False,
        "",
        [],
        {},
        {"\u0000": "\u0000"},
        {"": {"é\u2028": "\U0010ffff"}},
        10**300,
        -(2**63),
        1e308,
        5e-324,
        0.1,
        [[[[[[[[[[1]]]]]]]]]],
        '"}],"state":"seen","x":[{"',
    ],
    ids=repr,
)
async def test_any_json_value_arrives_as_it_was_sent(api: Api, payload: Any) -> None:
    metadata = {"given": payload}
    said = {"payload": payload, "artifacts": [{"path": "a", "kind": None, "metadata": metadata}]}
    answered(await api.admin.post("/v1/tasks/backend/messages", json=said), model.Sent, 201)
    answered(await api.admin.post("/v1/broadcast", json={**said, "to": ["backend"]}), model.SentMany, 201)
    batch = answered(await api.agent.post("/v1/tasks/backend/pull"), model.Batch)
    for message in batch.messages:
        assert json.dumps(message.payload) == json.dumps(payload)
        assert json.dumps(message.artifacts[0].metadata) == json.dumps(metadata)
    assert len(batch.messages) == 2


async def test_a_payload_as_deep_as_is_taken_is_shown_again_by_every_route(api: Api) -> None:
    depth = 1
    while depth < 1_000:
        nested = b"[" * depth + b"]" * depth
        sent = await api.admin.post(
            "/v1/tasks/backend/messages", content=b'{"message_id": "d-%d", "payload": %b}' % (depth, nested)
        )
        if sent.status_code != 201:
            refused(sent)
            break
        for shown in (
            sent,
            await api.admin.get(f"/v1/messages/d-{depth}"),
            await api.admin.get("/v1/tasks/backend/messages"),
            await api.agent.post("/v1/tasks/backend/pull"),
        ):
            assert shown.status_code < 300
            assert nested in shown.content
        depth += 20
    assert 20 < depth < 1_000


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("pull", {"max": 0}),
        ("pull", {"max": 1_001}),
        ("pull", {"max": False}),
        ("pull", {"max": "1"}),
        ("pull", {"max": 1.0}),
        ("pull", {"max": None}),
        ("pull", {"max_chars": 0}),
        ("pull", {"max_chars": True}),
        ("pull", {"wait_ms": -1}),
        ("pull", {"wait_ms": 3_600_001}),
        ("pull", {"wait_ms": 1e3}),
        ("pull", {"hold_ms": 99}),
        ("pull", {"hold_ms": 10**20}),
        ("pull", {"min_priority": "some"}),
        ("pull", {"session": ""}),
        ("pull", {"session": "a b"}),
        ("pull", {"session": "nobody\n"}),
        ("pull", {"pull_id": "a b"}),
        ("pull", {"pull_id": "\u0000"}),
        ("pull", {"ack": 1}),
        ("ack", {}),
        ("ack", {"message_ids": []}),
        ("ack", {"message_ids": ["a b"]}),
        ("ack", {"message_ids": ["m"] * 1_001}),
        ("ack", {"message_ids": "m"}),
        ("ack", {"message_ids": [1]}),
        ("ack", {"receipt": 1}),
        ("ack", {"receipt": None}),
        ("presence", {"state": "asleep"}),
        ("presence", {"machine": "a\nb"}),
        ("presence", {"host": "x" * 65}),
        ("presence", {"detail": "\u0000"}),
        ("peers", {"peers": []}),
        ("peers", {"peers": "frontend"}),
        ("peers", {"peers": ["backend"]}),
        ("peers", {"peers": [f"t{n}" for n in range(101)]}),
    ],
    ids=repr,
)
async def test_a_request_about_an_inbox_with_one_wrong_field_is_refused(
    api: Api, connection: Connection, path: str, body: dict[str, Any]
) -> None:
    before = await everything(api, connection)
    refused(await api.admin.post(f"/v1/tasks/backend/{path}", json=body), 422, "INVALID_REQUEST")
    assert await everything(api, connection) == before


@pytest.mark.parametrize(
    "query",
    [
        "pending?wait_ms=",
        "pending?wait_ms=-1",
        "pending?wait_ms=1.5",
        "pending?wait_ms=1e3",
        "pending?wait_ms=abc",
        "pending?wait_ms=%201",
        "pending?wait_ms=%EF%BC%91",
        "pending?wait_ms=99999999",
        "pending?wait_ms=%00",
        "pending?wait_ms=0&wait_ms=x",
        "pending?wait_ms",
        "pending?wait=1",
        "pending?%FF=%FF",
        "pending?&a=b",
        "messages?limit=0",
        "messages?limit=-1",
        "messages?limit=1001",
        "messages?limit=abc",
        "messages?limit=1.5",
        "messages?limit=",
        "messages?direction=sideways",
        "messages?state=a%20b",
        "messages?sender=%00",
        "messages?kind=%C3%A9",
        "messages?cursor=" + "a" * 501,
        "messages?unknown=1",
        "messages?thread_id=%0A",
        "?unknown=1",
    ],
)
async def test_a_bad_parameter_is_refused(api: Api, query: str) -> None:
    refused(await api.admin.get(f"/v1/tasks/backend/{query}".replace("/?", "?")), 422)


@pytest.mark.parametrize("query", ["state=asleep", "limit=0", "unknown", "cursor=", "force=true"])
async def test_a_bad_parameter_of_the_list_of_tasks_is_refused(api: Api, query: str) -> None:
    refused(await api.admin.get(f"/v1/tasks?{query}"), 422)


async def test_a_task_is_not_removed_by_a_misspelt_force(api: Api) -> None:
    await api.admin.post("/v1/tasks/backend/messages", json={"body": "x"})
    for query in ("force=maybe", "Force=true", "forced=true", "force="):
        refused(await api.admin.delete(f"/v1/tasks/backend?{query}"), 422)
    assert await api.pending() == 1


async def in_parts(content: bytes, size: int = 50_000) -> AsyncIterator[bytes]:
    """A body without a content length."""
    for start in range(0, len(content), size):
        yield content[start : start + size]


@pytest.mark.parametrize("chunked", [False, True], ids=["with-length", "chunked"])
async def test_what_is_too_large_is_refused(api: Api, connection: Connection, chunked: bool) -> None:
    settings = api.broker.settings
    before = await everything(api, connection)
    body_max, payload_max, request_max = (
        settings.body_bytes_max,
        settings.payload_bytes_max,
        settings.request_bytes_max,
    )
    for path, said in [
        ("/v1/tasks/backend/messages", {"body": "x" * (body_max + 1)}),
        ("/v1/tasks/backend/messages", {"body": "é" * (body_max // 2 + 1)}),
        ("/v1/tasks/backend/messages", {"payload": "x" * payload_max}),
        ("/v1/tasks/backend/messages", {"body": "x" * request_max}),
        ("/v1/broadcast", {"to": "all", "body": "x" * (body_max + 1)}),
        ("/v1/broadcast", {"to": "all", "payload": "x" * payload_max}),
        ("/v1/broadcast", {"to": "all", "body": "x" * request_max}),
        ("/v1/tasks", {"task": "new", "title": "x" * request_max}),
        ("/v1/tasks/backend/pull", {"session": "x" * request_max}),
        ("/v1/tokens", {"role": "user", "label": "x" * request_max}),
    ]:
        content = json.dumps(said, ensure_ascii=False).encode()
        answer = await api.admin.post(path, content=in_parts(content) if chunked else content)
        assert (path, answer.status_code) == (path, 413), answer.text
        refused(answer, 413, "BODY_TOO_LARGE")
    assert await everything(api, connection) == before


@pytest.mark.parametrize("chunked", [False, True], ids=["with-length", "chunked"])
async def test_what_is_as_large_as_may_be_is_taken(api: Api, chunked: bool) -> None:
    settings = api.broker.settings
    for path, said in [
        ("/v1/tasks/backend/messages", {"body": "x" * settings.body_bytes_max}),
        ("/v1/tasks/backend/messages", {"body": "é" * (settings.body_bytes_max // 2)}),
        ("/v1/tasks/backend/messages", {"payload": "x" * (settings.payload_bytes_max - 2)}),
        ("/v1/broadcast", {"to": ["backend"], "body": "x" * settings.body_bytes_max}),
    ]:
        content = json.dumps(said, ensure_ascii=False).encode()
        content += b" " * (settings.request_bytes_max - len(content))
        answer = await api.admin.post(path, content=in_parts(content) if chunked else content)
        assert (path, answer.status_code) == (path, 201), answer.text
