"""What every request leaves behind: an id, a log line, two numbers; and the page that explains it all."""

from __future__ import annotations

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from inboxd.edges import assets
from inboxd.edges.app import build
from inboxd.edges.observe import RequestLog
from tests.edges.conftest import Api
from tests.support.answers import refused

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/v1/tasks/backend/pending", "/v1/tasks/backend", "/healthz", "/nowhere"])
async def test_a_request_id_is_echoed(api: Api, path: str) -> None:
    answer = await api.admin.get(path, headers={"x-request-id": "trace:1.a_b-C"})
    assert answer.headers.get_list("x-request-id") == ["trace:1.a_b-C"]


@pytest.mark.parametrize("given", [None, "", "a b", "x" * 65, "é", 'a"b', "a\tb", "{}"])
@pytest.mark.parametrize("path", ["/v1/tasks/backend/pending", "/v1/tasks/backend", "/nowhere"])
async def test_a_request_without_a_plain_id_is_given_one_of_its_own(api: Api, path: str, given: str | None) -> None:
    headers = [] if given is None else [(b"x-request-id", given.encode("latin-1"))]
    first = await api.admin.get(path, headers=headers)  # type: ignore[arg-type]
    again = await api.admin.get(path, headers=headers)  # type: ignore[arg-type]
    ids = [answer.headers["x-request-id"] for answer in (first, again)]
    assert all(re.fullmatch(r"[0-9a-f]+-[0-9a-f]+", found) for found in ids)
    assert ids[0] != ids[1]


async def test_metrics_are_labelled_by_route_and_never_by_what_somebody_typed(api: Api) -> None:
    await api.admin.get("/v1/tasks/backend/pending")
    await api.admin.post("/v1/tasks/backend/pull")
    await api.admin.get("/v1/tasks/backend")
    await api.admin.get("/v1/tasks/backend/messages")
    await api.admin.get("/v1/messages/secret-message-id")
    await api.admin.get("/v1/tasks/secret-task/pending")
    await api.admin.get("/v1/tasks/secret-task")
    await api.admin.get("/secret/path")
    await api.admin.put("/v1/tasks/secret-task/pull")
    await api.nobody.get("/v1/whoami")
    answer = await api.admin.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "secret" not in answer.text
    assert "backend" not in answer.text
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    counts = {
        (row.labels["route"], row.labels["method"], row.labels["status"]): row.value
        for row in families["inboxd_requests"].samples
    }
    assert counts["/v1/tasks/{task}/pending", "GET", "200"] == 1
    assert counts["/v1/tasks/{task}/pending", "GET", "404"] == 1
    assert counts["/v1/tasks/{task}/pull", "POST", "200"] == 1
    assert counts["/v1/tasks/{task}", "GET", "200"] == 1
    assert counts["/v1/tasks/{task}", "GET", "404"] == 1
    assert counts["/v1/tasks/{task}/messages", "GET", "200"] == 1
    assert counts["/v1/messages/{message_id}", "GET", "404"] == 1
    assert counts["/v1/whoami", "GET", "401"] == 1
    assert counts["unknown", "GET", "404"] == 1
    rows = families["inboxd_request_seconds"].samples
    for route in {route for route, _, _ in counts}:
        of_route = [row for row in rows if row.labels["route"] == route]
        buckets = [row.value for row in of_route if row.name.endswith("_bucket")]
        assert buckets == sorted(buckets)
        total = sum(count for (named, _, _), count in counts.items() if named == route)
        assert buckets[-1] == total == next(row.value for row in of_route if row.name.endswith("_count"))
    assert families["inboxd_requests_running"].samples[0].value == 1
    assert families["inboxd_waiters"].samples[0].value == 0
    assert set(families["inboxd_build_info"].samples[0].labels) == {"version"}


async def test_the_docs_load_nothing_from_elsewhere(api: Api) -> None:
    page = await api.admin.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    for outside in ("http:", "https:", "//cdn", '"//', "<script", "style=", "onload", "javascript:"):
        assert outside not in page.text
    linked = set(re.findall(r'(?:href|src)="([^"#]+)', page.text))
    assert linked == {"/", "/openapi.json", *(assets.url_of(name) for name in ("app.css", "docs.css", "icon.svg"))}
    for path in linked - {"/"}:
        assert (await api.admin.get(path)).status_code == 200
    for name in ("app.css", "docs.css"):
        style = (await api.admin.get(assets.url_of(name))).text
        assert "@import" not in style
        assert "url(" not in style


async def test_the_docs_show_every_described_route_and_every_code(api: Api) -> None:
    from inboxd.errors import BY_CODE

    page = (await api.admin.get("/docs")).text
    document = (await api.admin.get("/openapi.json")).json()
    for path, operations in document["paths"].items():
        assert path in page
        for operation in operations.values():
            assert f'id="{operation["operationId"]}"' in page
            assert operation["description"]
    for code in BY_CODE.keys() - {"START_PROBLEM"}:
        assert code in page
    assert "`" not in re.sub(r"<pre.*?</pre>|<code>.*?</code>", "", page, flags=re.DOTALL)


async def test_each_request_is_one_line_of_json_whatever_its_path(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    log = RequestLog(True, "info")
    loud = build(api.broker, log)
    api.app = loud
    async with api.with_token(api.tokens["admin"].token) as client:
        paths = ["/v1/tasks/backend/pending", "/v1/whoami", "/a%0Ab%22%5C%00%E2%80%A8", "/%FF"]
        ids = [(await client.get(path)).headers["x-request-id"] for path in paths]
    log.flush()
    lines = capsys.readouterr().err.splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["request_id"] for row in rows] == ids
    assert [row["status"] for row in rows] == [200, 200, 404, 404]
    assert rows[2]["path"] == '/a\nb"\\\x00\u2028'
    assert api.tokens["admin"].token not in "".join(lines)


async def test_a_readable_line_cannot_be_broken_by_a_path(api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    log = RequestLog(False, "info")
    api.app = build(api.broker, log)
    async with api.with_token(api.tokens["admin"].token) as client:
        refused(await client.get("/a%0A12:00:00 200 GET /forged%1B%5B2J"), 404)
    log.flush()
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "\x1b" not in said


@pytest.mark.parametrize(("level", "lines"), [("info", 3), ("warning", 2), ("error", 1)])
async def test_a_level_keeps_what_is_worth_it(
    api: Api, capsys: pytest.CaptureFixture[str], level: str, lines: int
) -> None:
    log = RequestLog(True, level)
    for status in (200, 404, 500):
        log.note(b"id", "GET", "/", status, 0.001, "127.0.0.1")
    log.flush()
    assert len(capsys.readouterr().err.splitlines()) == lines


async def test_a_bug_of_ours_is_a_500_in_the_one_shape_with_its_trace_in_the_log(
    api: Api, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(api.broker.store, "run", broken)
    for answer in (await api.admin.post("/v1/tasks/backend/pull"), await api.admin.get("/v1/tasks/backend")):
        assert answer.status_code == 500
        problem = answer.json()
        assert (problem["ok"], problem["error"]["code"]) == (False, "INTERNAL")
        assert "secret detail" not in answer.text
        assert answer.headers["x-request-id"] in problem["error"]["hint"]
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [ZeroDivisionError] * 2
