"""The dashboard over HTTP: who gets in and how, what another site cannot do, and that every view shows what the broker has."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import quote

import httpx2
import pytest

from inboxd.edges import assets
from inboxd.edges.app import build
from inboxd.edges.observe import RequestLog
from inboxd.model import ClaimRequest, NewMessage, NewThread, PresenceRequest, PullRequest, SettleRequest, UpdateRequest
from inboxd.settings import Settings
from tests.edges.conftest import Api
from tests.support.answers import refused

pytestmark = pytest.mark.anyio

HOME = "http://127.0.0.1:8420"
SAME = {"origin": HOME, "sec-fetch-site": "same-origin"}
VIEWS = ["/", "/inbox", "/attention", "/threads", "/activity", "/activity?q=x", "/tasks/backend"]
PARTS = [
    "/ui/rows/tasks?id=backend",
    "/ui/rows/messages?id=m-1",
    "/ui/rows/inbox?id=m-1",
    "/ui/rows/attention",
    "/ui/rows/threads?id=t-1",
    "/ui/rows/events",
    "/ui/tasks/backend/older",
    "/ui/tasks/backend/about",
    "/ui/messages/m-1/about",
    "/ui/charts",
    "/ui/counts",
    "/ui/icon.svg?n=3",
    "/ui/search?q=x",
]
ACTIONS = [
    "/ui/tasks/backend/send",
    "/ui/messages/m-1/reply",
    "/ui/messages/m-1/take-back",
    "/ui/messages/m-1/requeue",
    "/ui/inbox/accept",
    "/ui/threads/t-1/reply",
    "/ui/threads/t-1/cancel",
    "/ui/tasks",
    "/logout",
]


@dataclass
class Browser:
    """A browser at the dashboard: it keeps cookies, and sends what browsers send with a request of its own page."""

    client: httpx2.AsyncClient

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.client.get(path, headers={"sec-fetch-site": "same-origin", **headers})

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx2.Response:
        return await self.client.post(path, data=fields, headers={**SAME, **headers})

    async def log_in(self, token: str) -> httpx2.Response:
        return await self.post("/login", {"token": token})

    async def form_token(self) -> str:
        found = re.search(r'name="form_token" value="([0-9a-f]{40})"', (await self.get("/inbox")).text)
        assert found
        return found[1]

    async def act(self, path: str, **fields: str) -> httpx2.Response:
        """As the page's own script does it."""
        return await self.post(path, {"form_token": await self.form_token(), **fields}, accept="application/json")


def browser_at(api: Api, home: str = HOME) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(api.app), base_url=home)  # type: ignore[arg-type]


@pytest.fixture
async def stranger(api: Api) -> AsyncIterator[Browser]:
    async with browser_at(api) as client:
        yield Browser(client)


@pytest.fixture
async def person(api: Api, stranger: Browser) -> Browser:
    assert (await stranger.log_in(api.tokens["user"].token)).status_code == 303
    return stranger


def cookie_of(answer: httpx2.Response) -> str:
    return str(answer.headers["set-cookie"])


async def test_whoever_is_not_signed_in_is_sent_to_the_login_and_back(api: Api, stranger: Browser) -> None:
    for path in VIEWS:
        answer = await stranger.get(path)
        assert (answer.status_code, answer.text) == (303, "")
        onward = "" if path == "/" else f"?next={quote(path, safe='')}"
        assert answer.headers["location"] == f"/login{onward}"
    answer = await stranger.post("/login", {"token": api.tokens["user"].token, "next": "/tasks/backend"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/tasks/backend")


async def test_parts_and_actions_say_401_to_whoever_is_not_signed_in(stranger: Browser) -> None:
    for path in [*PARTS, "/ui/events"]:
        refused(await stranger.get(path), 401, "TOKEN_MISSING")
    for path in ACTIONS[:-1]:
        refused(await stranger.post(path, {}), 401, "TOKEN_MISSING")


async def test_a_login_link_is_used_up_by_its_button_and_not_by_opening_it(api: Api, stranger: Browser) -> None:
    code = await api.broker.offer_login(api.owner.namespace)
    for _ in range(3):  # whatever looks at links before people do
        shown = await stranger.get(f"/login?code={code}")
        assert shown.status_code == 200
        assert f'value="{code}"' in shown.text
    assert (await stranger.post("/login", {"code": code})).status_code == 303
    assert (await stranger.get("/")).status_code == 200
    stranger.client.cookies.clear()
    again = await stranger.post("/login", {"code": code})
    assert again.status_code == 401
    assert "used" in again.text


async def test_one_code_is_good_for_a_shell_or_a_browser_once(api: Api, stranger: Browser) -> None:
    code = await api.broker.offer_login(api.owner.namespace)
    assert (await api.nobody.post("/v1/login", json={"code": code})).status_code == 201
    assert (await stranger.post("/login", {"code": code})).status_code == 401


@pytest.mark.parametrize("role", ["user", "admin", "operator", "observer"])
async def test_every_role_but_an_agent_s_opens_every_view(api: Api, stranger: Browser, role: str) -> None:
    assert (await stranger.log_in(api.tokens[role].token)).status_code == 303
    for path in VIEWS:
        answer = await stranger.get(path)
        assert (path, answer.status_code) == (path, 200)


async def test_an_agent_has_no_dashboard(api: Api, stranger: Browser) -> None:
    answer = await stranger.log_in(api.tokens["agent"].token)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert (await stranger.get("/")).status_code == 303


@pytest.mark.parametrize("token", ["", "no-token-of-ours", "ibx_default.000000000000." + "x" * 43, "\u202e", "ü" * 400])
async def test_a_wrong_token_opens_nothing_and_is_not_shown_again(stranger: Browser, token: str) -> None:
    answer = await stranger.log_in(token)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert not token or token not in answer.text


async def test_the_cookie_holds_a_session_of_its_own_that_no_script_reads(api: Api, stranger: Browser) -> None:
    answer = await stranger.log_in(api.tokens["user"].token)
    cookie = cookie_of(answer)
    assert cookie.startswith(f"inboxd_8420=ibx_{api.owner.namespace}.")
    assert {"httponly", "path=/", "samesite=strict"} <= {part.strip().lower() for part in cookie.split(";")}
    assert "domain" not in cookie.lower()
    assert "secure" not in cookie.lower()
    assert api.tokens["user"].token not in cookie
    token = cookie.split("=", 1)[1].split(";")[0]
    who = await api.broker.identify(token)
    assert who.token_id != api.tokens["user"].token_id
    assert who.expires_at_ms is not None


async def test_behind_tls_the_cookie_is_secure_and_bound_to_its_host(api: Api) -> None:
    api.broker.settings = Settings(allowed_hosts="https://mail.example.org")
    app = build(api.broker, RequestLog(True, "error"))
    home = "http://mail.example.org"
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=home) as client:  # type: ignore[arg-type]
        headers = {"origin": "https://mail.example.org", "sec-fetch-site": "same-origin"}
        answer = await client.post("/login", data={"token": api.tokens["user"].token}, headers=headers)
        assert answer.status_code == 303
        assert cookie_of(answer).startswith("__Host-inboxd=")
        assert "secure" in cookie_of(answer).lower()
        # A header that anybody can send makes nothing secure.
        forged = await client.post(
            "/login", data={"token": api.tokens["user"].token},
            headers={"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80", "x-forwarded-proto": "https"},
        )  # fmt: skip
        assert "secure" not in cookie_of(forged).lower()


async def test_the_cookie_opens_the_dashboard_and_never_the_api(api: Api, person: Browser) -> None:
    assert (await person.get("/")).status_code == 200
    for path in ("/v1/tasks", "/v1/whoami", "/v1/tasks/backend/pending"):
        refused(await person.get(path), 401, "TOKEN_MISSING")
    refused(await person.client.post("/v1/tasks/backend/messages", json={"body": "x"}), 401, "TOKEN_MISSING")
    assert (await person.get("/docs")).status_code == 200


async def test_signing_out_ends_the_session_itself(person: Browser) -> None:
    token = next(iter(person.client.cookies.jar)).value
    answer = await person.post("/logout", {"form_token": await person.form_token()})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert 'inboxd_8420=""' in cookie_of(answer)
    person.client.cookies.set("inboxd_8420", str(token))
    assert (await person.get("/")).status_code == 303


async def test_signing_out_everywhere_ends_the_others_too(api: Api, person: Browser) -> None:
    async with browser_at(api) as client:
        other = Browser(client)
        await other.log_in(api.tokens["user"].token)
        await person.post("/logout", {"form_token": await person.form_token(), "everywhere": "1"})
        assert (await other.get("/")).status_code == 303
    assert (await api.as_role("user").get("/v1/whoami")).status_code == 200


async def test_a_revoked_session_is_refused_at_once(api: Api, person: Browser) -> None:
    who = await api.broker.identify(str(next(iter(person.client.cookies.jar)).value))
    await api.broker.revoke_token(api.owner, who.token_id)
    assert (await person.get("/")).status_code == 303
    refused(await person.get("/ui/counts"), 401, "TOKEN_INVALID")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://evil.example", "sec-fetch-site": "cross-site"},
        {"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin", "origin": "http://evil.example"},
        {},
    ],
    ids=str,
)
async def test_a_post_of_another_site_changes_nothing(api: Api, person: Browser, headers: dict[str, str]) -> None:
    form_token = await person.form_token()
    for path in ACTIONS:
        fields = {"form_token": form_token, "body": "x", "task": "made-by-evil"}
        answer = await person.client.post(path, data=fields, headers={"accept": "application/json", **headers})
        assert (path, answer.status_code) == (path, 403)
    assert (await person.get("/")).status_code == 200
    assert await api.pending("backend") == 0
    answer = await person.client.post("/login", data={"token": api.tokens["observer"].token}, headers=headers)
    assert answer.status_code == 403


async def test_a_form_without_the_session_s_own_token_changes_nothing(api: Api, person: Browser) -> None:
    for path in ACTIONS:
        for token in ("", "0" * 40, api.tokens["user"].token):
            answer = await person.post(
                path, {"form_token": token, "body": "x", "task": "new"}, accept="application/json"
            )
            assert (path, answer.status_code) == (path, 403)
    assert await api.pending("backend") == 0


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost.evil", "", "[", "a b"]
)
async def test_a_name_that_is_not_ours_is_refused(api: Api, person: Browser, host: str) -> None:
    for path in [*VIEWS, "/login", *PARTS]:
        answer = await person.get(path, host=host)
        assert (path, answer.status_code) == (path, 403)
        assert "HOST_UNKNOWN" in answer.text
    answer = await person.client.post(
        "/login", data={"token": api.tokens["user"].token}, headers={**SAME, "host": host}
    )
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8420", "localhost:8420", "[::1]:8420", "192.168.1.7", "inbox.localhost", "LOCALHOST."]
)
async def test_loopback_and_addresses_are_ours(stranger: Browser, host: str) -> None:
    assert (await stranger.get("/login", host=host)).status_code == 200


async def test_a_name_in_the_settings_is_ours(api: Api) -> None:
    api.broker.settings = Settings(allowed_hosts="desk.example.org, https://mail.example.org")
    app = build(api.broker, RequestLog(True, "error"))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://desk.example.org:99") as client:  # type: ignore[arg-type]
        assert (await client.get("/login")).status_code == 200
        assert (await client.get("/login", headers={"host": "mail.example.org"})).status_code == 200
        assert (await client.get("/login", headers={"host": "example.org"})).status_code == 403


@pytest.mark.parametrize(
    "onward",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "evil", "/a\\b", "/\n/x"],
)
async def test_the_login_leads_nowhere_else(api: Api, stranger: Browser, onward: str) -> None:
    answer = await stranger.post("/login", {"token": api.tokens["user"].token, "next": onward})
    assert answer.headers["location"] == "/"
    shown = await stranger.client.get("/login", params={"next": onward, "code": "x"})
    assert f'name="next" value="/"' in shown.text  # noqa: F541


async def test_a_link_on_another_site_finds_a_person_who_is_signed_in(person: Browser) -> None:
    """SameSite=Strict leaves the cookie out of such a visit; the page then opens itself once more."""
    async with browser_at_again(person) as stranger:
        answer = await stranger.get(
            "/tasks/backend", headers={"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
        )
    assert answer.status_code == 200
    assert 'http-equiv="refresh" content="0; url=/login?next=%2Ftasks%2Fbackend"' in answer.text
    sent_on = await person.get("/login?next=%2Ftasks%2Fbackend")
    assert (sent_on.status_code, sent_on.headers["location"]) == (303, "/tasks/backend")


def browser_at_again(person: Browser) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=person.client._transport, base_url=HOME)


async def test_every_page_and_part_has_the_headers_that_keep_it_safe(person: Browser, stranger: Browser) -> None:
    for path in [*VIEWS, "/login?code=x", "/tasks/ghost", *PARTS]:
        answer = await person.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy
        assert "form-action 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "no-store" in answer.headers["cache-control"] or "icon.svg" in path


async def test_a_refusal_has_the_same_headers(person: Browser) -> None:
    for answer in (
        await person.get("/ui/rows/tasks"),
        await person.get("/ui/tasks/ghost/about"),
        await person.act("/ui/tasks/ghost/send", body="x"),
    ):
        assert answer.headers["content-type"] == "application/json"
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"


async def test_a_page_s_headers_can_be_asked_for_alone(person: Browser) -> None:
    for path in VIEWS:
        answer = await person.client.head(path)
        assert (path, answer.status_code) == (path, 200)
        assert "default-src 'self'" in answer.headers["content-security-policy"]


async def test_no_page_has_a_script_or_a_style_inside(api: Api, person: Browser) -> None:
    await fill(api)
    for path in [*VIEWS, "/login", "/threads/t-1", "/messages/m-1", "/tasks/ghost"]:
        text = (await person.get(path)).text
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", text), path
        assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", text)), path
        assert not re.search(r'(?:src|href|action)="(?:https?:)?//(?!git\.example)', text), path


async def test_assets_are_found_by_name_alone_and_kept_for_ever(stranger: Browser) -> None:
    for name in assets.assets():
        answer = await stranger.get(assets.url_of(name))
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        again = await stranger.get(assets.url_of(name), **{"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        old = await stranger.get(f"/static/000000000000/{name}")
        assert (old.status_code, old.headers["cache-control"]) == (200, "no-cache")
    for name in ("ghost.js", "..", "../app.css", "%2e%2e%2fapp.css", "..%2f..%2fsettings.py", "app.css/", "app.css%00"):
        assert (await stranger.get(f"/static/{assets.version()}/{name}")).status_code == 404
    assert (await stranger.get("/favicon.ico")).headers["content-type"] == "image/svg+xml"


async def fill(api: Api) -> None:
    """A little of everything."""
    broker, who = api.broker, api.owner
    backend = who._replace(role="agent", task="backend")
    await broker.presence(
        backend, "backend", PresenceRequest(state="start", session="s-1", machine="laptop", host="claude")
    )
    await broker.send(who._replace(role="user"), "backend", NewMessage(message_id="m-1", body="**bold** <b>not</b>"))
    await broker.send(
        backend, "user", NewMessage(message_id="q-1", body="May I?", kind="question", awaiting_response=True)
    )
    await broker.open_thread(who._replace(role="user"), NewThread(message_id="t-1", subject="Fix it", to="backend"))
    thread = await broker.claim(backend, "t-1", ClaimRequest())
    assert thread.lease is not None
    fence = thread.lease.fencing_token
    assert fence is not None
    await broker.update(backend, "t-1", UpdateRequest(fencing_token=fence, status="blocked", body="Which one?"))


async def test_every_view_shows_what_the_broker_has(api: Api, person: Browser) -> None:
    await fill(api)
    tasks = (await person.get("/")).text
    assert "claude on laptop" in tasks
    assert 'href="/tasks/backend"' in tasks
    task = (await person.get("/tasks/backend")).text
    assert "<strong>bold</strong> &lt;b&gt;not&lt;/b&gt;" in task
    assert "Take back" in task
    inbox = (await person.get("/inbox")).text
    assert "May I?" in inbox
    assert "Mark read" in inbox
    attention = (await person.get("/attention")).text
    assert "is blocked" in attention
    assert "Which one?" in attention
    assert "waits for an answer" in attention
    assert attention.count("Which one?") == 1
    assert "Fix it" in (await person.get("/threads")).text
    assert "Which one?" in (await person.get("/threads/t-1")).text
    assert "asked" in (await person.get("/activity")).text
    found = (await person.get("/activity?q=may%20i")).text
    assert "May I?" in found
    assert "Which one?" not in found
    assert "queued" in (await person.get("/messages/m-1")).text


async def test_the_last_hour_is_drawn_and_said_in_words(api: Api, person: Browser) -> None:
    page = (await person.get("/ui/charts")).text
    assert page.count("No message was delivered in the last hour.") == 1
    for body in ("one", "two", "three"):
        (await api.admin.post("/v1/tasks/backend/messages", json={"body": body})).raise_for_status()
    (await api.agent.post("/v1/tasks/backend/pull", json={"session": "s-1", "ack": True, "max": 1})).raise_for_status()
    page = (await person.get("/ui/charts")).text
    assert page.count("<svg") == page.count('class="spark-line" d="M') == 3
    assert "3 messages were sent in the last hour, at most " in page
    assert "2 messages wait now; at most " in page
    assert "1 messages were delivered in the last hour" in page
    assert "3 messages were sent in the last hour" in (await person.get("/")).text


async def test_what_is_not_there_is_said_on_a_page(person: Browser) -> None:
    for path in ("/tasks/ghost", "/messages/ghost", "/threads/ghost"):
        answer = await person.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert (await person.get("/tasks/no%20name")).status_code == 422
    assert (await person.get("/tasks/backend?cursor=x")).status_code == 422
    assert (await person.get("/activity?since=yesterday")).status_code == 200


async def test_a_message_sent_twice_under_one_id_is_stored_once(api: Api, person: Browser) -> None:
    for duplicate in (False, True):
        answer = await person.act(
            "/ui/tasks/backend/send", message_id="page-1", body="hello\r\nthere", priority="urgent"
        )
        assert answer.status_code == 200
        assert ("already" in answer.json()["note"]) == duplicate
    assert await api.pending("backend") == 1
    stored, _ = await api.broker.show(api.owner, "page-1")
    assert b'"sender":"user"' in stored.doc
    assert rb'"body":"hello\nthere"' in stored.doc


async def test_a_form_without_a_script_leads_back_to_its_page(api: Api, person: Browser) -> None:
    fields = {"form_token": await person.form_token(), "body": "hi", "next": "/tasks/backend"}
    answer = await person.post("/ui/tasks/backend/send", fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/tasks/backend")
    assert await api.pending("backend") == 1


async def test_a_form_that_fails_without_a_script_leads_to_a_page(api: Api, person: Browser) -> None:
    accept = "text/html,application/xhtml+xml,*/*;q=0.8"
    fields = {"form_token": await person.form_token(), "body": "hi"}
    answer = await person.post("/ui/tasks/ghost/send", fields, accept=accept)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "No task ghost was declared." in answer.text
    foreign = await person.client.post("/ui/tasks/backend/send", data=fields, headers={"accept": accept})
    assert (foreign.status_code, foreign.headers["content-type"]) == (403, "text/html; charset=utf-8")
    await api.broker.close_sessions(await api.broker.identify(api.tokens["user"].token))
    for path in ("/ui/tasks/backend/send", "/logout"):
        answer = await person.post(path, fields, accept=accept)
        assert (path, answer.status_code, answer.headers["location"]) == (path, 303, "/login")
    assert await api.pending("backend") == 0


async def test_a_refused_send_says_why(person: Browser) -> None:
    refused(await person.act("/ui/tasks/backend/send", body="  \n "), 422, "INVALID_REQUEST")
    refused(await person.act("/ui/tasks/ghost/send", body="x"), 404, "TASK_UNKNOWN")
    refused(await person.act("/ui/tasks/backend/send", body="x", priority="deafening"), 422, "INVALID_REQUEST")
    refused(await person.act("/ui/tasks/backend/send", body="x" * 300_000), 413, "BODY_TOO_LARGE")


async def test_a_reply_goes_to_whoever_asked_and_marks_the_question_as_read(api: Api, person: Browser) -> None:
    await fill(api)
    assert (await person.act("/ui/messages/q-1/reply", message_id="a-1", body="Yes.")).status_code == 200
    answer, _ = await api.broker.show(api.owner, "a-1")
    assert b'"task":"backend"' in answer.doc
    assert b'"reply_to":"q-1"' in answer.doc
    question, _ = await api.broker.show(api.owner, "q-1")
    assert question.state == b"seen"
    assert "q-1" not in (await api.broker.show_task(api.owner, "backend")).waiting_for


async def test_a_reply_to_a_thread_s_question_stands_in_the_thread(api: Api, person: Browser) -> None:
    await fill(api)
    question = (await api.broker.show_thread(api.owner, "t-1", limit=9)).thread.question_id
    assert question
    assert (
        await person.act(f"/ui/messages/{question}/reply", message_id="a-2", body="The left one.")
    ).status_code == 200
    shown = await api.broker.show_thread(api.owner, "t-1", limit=9)
    assert "a-2" in shown.messages[-1].doc.decode()
    assert shown.thread.question_id is None


async def test_what_can_be_done_in_place_is_done(api: Api, person: Browser) -> None:
    await fill(api)
    assert (await person.act("/ui/messages/m-1/take-back")).status_code == 200
    assert (await api.broker.show(api.owner, "m-1"))[0].state == b"superseded"
    assert (await person.act("/ui/inbox/accept", id="q-1")).json()["done"] == ["q-1"]
    assert (await person.act("/ui/threads/t-1/reply", body="The left one.", answers="1")).status_code == 200
    assert (await person.act("/ui/threads/t-1/cancel", reason="No longer.")).status_code == 200
    assert (await api.broker.show_thread(api.owner, "t-1", limit=1)).thread.status == "cancelled"
    assert (await person.act("/ui/tasks", task="fresh")).status_code == 200
    refused(await person.act("/ui/tasks", task="no name"), 422)
    refused(await person.act("/ui/inbox/accept"), 422)


async def test_a_dead_letter_is_requeued_from_the_page(api: Api, person: Browser) -> None:
    await api.broker.send(api.owner, "frontend", NewMessage(message_id="dead", body="x"))
    for attempt in range(api.broker.settings.attempts_max):
        await api.broker.pull(api.owner, "frontend", PullRequest(pull_id=f"p-{attempt}"))
        await api.broker.release(api.owner, "frontend", SettleRequest(receipt=f"p-{attempt}"))
    assert "Requeue" in (await person.get("/attention")).text
    assert (await person.act("/ui/messages/dead/requeue")).status_code == 200
    assert await api.pending("frontend") == 1


async def test_an_observer_looks_on(api: Api, stranger: Browser) -> None:
    await fill(api)
    await stranger.log_in(api.tokens["observer"].token)
    assert "Send to session" not in (await stranger.get("/tasks/backend")).text
    assert "Mark read" not in (await stranger.get("/inbox")).text
    for path in ("/ui/tasks/backend/send", "/ui/messages/m-1/take-back", "/ui/inbox/accept", "/ui/tasks"):
        refused(await stranger.act(path, body="x", id="q-1", task="new"), 403)


async def test_an_operator_reads_the_person_s_inbox_but_not_away(api: Api, stranger: Browser) -> None:
    await fill(api)
    await stranger.log_in(api.tokens["operator"].token)
    inbox = (await stranger.get("/inbox")).text
    assert "May I?" in inbox
    assert "Mark read" not in inbox
    refused(await stranger.act("/ui/inbox/accept", id="q-1"), 403, "FORBIDDEN")


@pytest.mark.parametrize(("role", "word"), [("user", "you"), ("operator", "user"), ("observer", "user")])
async def test_the_person_is_you_to_the_person_alone(api: Api, stranger: Browser, role: str, word: str) -> None:
    await fill(api)
    await stranger.log_in(api.tokens[role].token)
    assert f'<b class="from">{word}</b>' in (await stranger.get("/messages/m-1")).text


async def test_looking_consumes_nothing(api: Api, person: Browser) -> None:
    await fill(api)
    for path in [*VIEWS, *PARTS, "/messages/q-1", "/threads/t-1"]:
        await person.get(path)
    assert (await api.broker.show(api.owner, "q-1"))[0].state == b"queued"
    assert (await api.broker.show(api.owner, "m-1"))[0].state == b"queued"


async def test_reordering_characters_are_shown_by_number_wherever_they_stand(api: Api, person: Browser) -> None:
    evil = "pay\u202eevil\u2066x\u2069"
    await api.broker.send(api.owner, "backend", NewMessage(message_id="m-1", body=evil, subject=evil, summary=evil))
    for path in ("/tasks/backend", "/messages/m-1", "/activity?q=pay", "/ui/rows/messages?id=m-1"):
        text = (await person.get(path)).text
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", text)
        assert "[U+202E]" in text


async def test_a_long_body_is_folded_and_its_rest_comes_when_asked_for(api: Api, person: Browser) -> None:
    body = "start " + "x" * 100_000 + " end"
    await api.broker.send(api.owner, "backend", NewMessage(message_id="long", body=body))
    page = await person.get("/tasks/backend")
    assert len(page.text) < 30_000
    assert "Show all 100 k characters" in page.text
    assert " end" not in page.text
    whole = await person.get("/ui/messages/long/body")
    assert " end" in whole.text


async def test_a_body_of_many_lines_is_folded_too(api: Api, person: Browser) -> None:
    body = "\n".join(f"line-{number}." for number in range(60))
    await api.broker.send(api.owner, "backend", NewMessage(message_id="short", body=body))
    assert "line-59." in (await person.get("/tasks/backend")).text
    await api.broker.send(api.owner, "backend", NewMessage(message_id="many", body=f"{body}\nthe last"))
    text = (await person.get("/ui/rows/messages?id=many")).text
    assert "line-29. …" in text
    assert "line-30." not in text
    assert "Show all" in text
    assert "the last" in (await person.get("/ui/messages/many/body")).text


async def test_the_timeline_is_paged(api: Api, person: Browser) -> None:
    for number in range(70):
        await api.broker.send(api.owner, "backend", NewMessage(message_id=f"m-{number}", body="x"))
    seen: list[str] = []
    path: str | None = "/tasks/backend"
    while path:
        text = (await person.get(path)).text
        seen += re.findall(r'<li class="msg [^"]*" data-id="([^"]+)"', text)
        more = re.search(r'data-older="([^"]+)"', text)
        path = f"/ui/tasks/backend/older?cursor={more[1]}" if more else None
    assert seen == [f"m-{number}" for number in range(69, -1, -1)]
