"""Without a good token nothing answers but health, and it says so in the one shape, before it looks at anything else."""

from __future__ import annotations

import base64

import httpx2
import pytest

from inboxd.broker import Broker
from inboxd.model import NewToken
from inboxd.store import keys
from tests.conftest import FixedClock
from tests.edges.conftest import Api
from tests.support.answers import refused

pytestmark = pytest.mark.anyio

PAGES = [("GET", "/docs"), ("GET", "/openapi.json"), ("GET", "/metrics")]
OPEN = {"/v1/login"}
"""Routes that take a credential of another kind, in their body."""
NAMES = {"{task}": "backend", "{host}": "claude", "{message_id}": "m-1", "{thread_id}": "t-1", "{token_id}": "0" * 12}


async def every_route(api: Api) -> list[tuple[str, str]]:
    document = (await api.admin.get("/openapi.json")).json()
    found = list(PAGES)
    for template, operations in document["paths"].items():
        path = template
        for name, value in NAMES.items():
            path = path.replace(name, value)
        assert "{" not in path
        if path not in OPEN:
            found += [(method.upper(), path) for method in operations]
    assert len(found) > 20
    return found


async def test_no_route_answers_without_a_token(api: Api) -> None:
    for method, path in await every_route(api):
        refused(await api.nobody.request(method, path), 401, "TOKEN_MISSING")


async def test_no_route_answers_a_token_of_nobody(api: Api) -> None:
    stranger = f"ibx_{api.owner.namespace}.{'0' * 12}.{'x' * 43}"
    async with api.with_token(stranger) as client:
        for method, path in await every_route(api):
            refused(await client.request(method, path), 401, "TOKEN_INVALID")


@pytest.mark.parametrize(
    "sent",
    [
        {"content": b"{not json"},
        {"content": b"x" * 2_000_000},
        {"content": b"\xff\xfe"},
        {"json": {"unknown": 1}},
        {"params": {"unknown": "1"}},
    ],
    ids=["malformed", "too-large", "no-utf-8", "unknown-field", "unknown-parameter"],
)
async def test_a_stranger_learns_nothing_from_what_is_wrong_with_the_request(api: Api, sent: dict[str, bytes]) -> None:
    for method, path in await every_route(api):
        if method in ("POST", "PATCH") or "params" in sent:
            headers = {"content-type": "application/json"}
            refused(await api.nobody.request(method, path, headers=headers, **sent), 401)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer  ",
        b"Basic dXNlcjpwYXNz",
        b"bearer garbled",
        b"Bearer ibx_default.000000000000",
        b"Bearer ibx_default.000000000000." + b"x" * 10_000,
        b"Bearer ibx_{x}.000000000000." + b"x" * 43,
        b"Bearer \xff\xfe\xc3\xa9",
        b"Bearer ibx_no-such-namespace.000000000000." + b"x" * 43,
        b"Token ibx",
    ],
    ids=repr,
)
@pytest.mark.parametrize("path", ["/v1/tasks/backend/pending", "/v1/whoami", "/metrics"])
async def test_a_garbled_token_is_refused(api: Api, path: str, header: bytes) -> None:
    refused(await api.nobody.get(path, headers=[(b"authorization", header)]), 401)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/v1/tasks/backend/pending", "/v1/whoami"])
async def test_a_token_changed_in_any_part_opens_nothing(api: Api, path: str) -> None:
    token = api.tokens["admin"].token
    other = api.tokens["user"].token
    await api.admin.get(path)  # the good one is known by now; its neighbours must not be
    head, token_id, secret = token.split(".")
    swapped = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for wrong in (
        f"{head}.{token_id}.{swapped}",
        f"{head}.{token_id}.{other.split('.')[2]}",
        f"{head}x.{token_id}.{secret}",
        f"{head}.{other.split('.')[1]}.{secret}",
        token + "=",
        token[:-1],
        token.upper(),
        f"{token}\n{token}",
    ):
        async with api.with_token(None) as client:
            answer = await client.get(path, headers={"authorization": f"Bearer {wrong}".replace("\n", " ")})
        refused(answer, 401, "TOKEN_INVALID")


@pytest.mark.parametrize("path", ["/v1/tasks/backend/pending", "/v1/whoami", "/docs"])
async def test_a_revoked_token_is_refused_at_once(api: Api, path: str) -> None:
    user = api.as_role("user")
    assert (await user.get(path)).status_code == 200
    await api.broker.revoke_token(api.owner, api.tokens["user"].token_id)
    refused(await user.get(path), 401, "TOKEN_INVALID")


@pytest.mark.parametrize("path", ["/v1/tasks/backend/pending", "/v1/whoami"])
async def test_an_expired_token_is_refused(api: Api, path: str) -> None:
    past = FixedClock(api.broker.clock.now_ms() - 60_000)
    long_ago = Broker(api.broker.store, api.broker.settings, past)
    made = await long_ago.create_token(api.owner, NewToken(role="admin", ttl_ms=1_000))
    async with api.with_token(made.token) as client:
        refused(await client.get(path), 401, "TOKEN_INVALID")


async def test_a_token_that_is_known_still_expires(api: Api) -> None:
    clock = FixedClock(api.broker.clock.now_ms())
    made = await api.broker.create_token(api.owner, NewToken(role="admin", ttl_ms=60_000))
    api.broker.clock = clock
    async with api.with_token(made.token) as client:
        assert (await client.get("/v1/tasks/backend/pending")).status_code == 200
        assert api.broker.recall(made.token)
        clock.pass_ms(61_000)
        refused(await client.get("/v1/tasks/backend/pending"), 401, "TOKEN_INVALID")
        refused(await client.get("/v1/whoami"), 401, "TOKEN_INVALID")


async def test_a_token_opens_only_its_own_namespace(api: Api) -> None:
    from inboxd.broker import owner

    other = owner(api.owner.namespace[:-1] + "z")
    made = await api.broker.create_token(other, NewToken(role="admin"))
    try:
        await api.admin.post("/v1/tasks/backend/messages", json={"message_id": "m-1", "body": "x"})
        async with api.with_token(made.token) as client:
            refused(await client.get("/v1/tasks/backend/pending"), 404, "TASK_UNKNOWN")
            refused(await client.get("/v1/messages/m-1"), 404, "MESSAGE_UNKNOWN")
            refused(await client.delete(f"/v1/tokens/{api.tokens['user'].token_id}"), 404, "TOKEN_UNKNOWN")
    finally:
        call = api.broker.store.connection.call
        await call(keys.NAMESPACES, "SREM", keys.NAMESPACES, other.namespace)


async def test_only_pages_that_show_something_take_a_token_as_a_password(api: Api) -> None:
    token = api.tokens["observer"].token
    basic = base64.b64encode(f"anybody:{token}".encode()).decode()
    headers = {"authorization": f"Basic {basic}"}
    for _, path in PAGES:
        assert (await api.nobody.get(path, headers=headers)).status_code == 200
    for method, path in await every_route(api):
        if path.startswith("/v1"):
            refused(await api.nobody.request(method, path, headers=headers), 401, "TOKEN_MISSING")


@pytest.mark.parametrize("given", ["", "%%%", "é", base64.b64encode(b"\xff:\xff").decode(), "YWJj"])
async def test_a_garbled_password_is_refused(api: Api, given: str) -> None:
    header = (b"authorization", b"Basic " + given.encode())
    refused(await api.nobody.get("/docs", headers=[header]), 401)  # type: ignore[arg-type]


async def test_a_browser_is_asked_for_the_token_on_pages_it_opens(api: Api) -> None:
    answer = await api.nobody.get("/docs", headers={"accept": "text/html"})
    refused(answer, 401)
    assert "basic" in answer.headers["www-authenticate"].lower()


async def test_unknown_routes_and_wrong_methods_have_the_one_shape(api: Api) -> None:
    wrong: list[tuple[str, str, int]] = [
        ("GET", "/nowhere", 404),
        ("GET", "/v1", 404),
        ("GET", "/v1/tasks/backend/nowhere", 404),
        ("GET", "/v1/tasks/a/b/pending", 404),
        ("POST", "/v1/tasks//pull", 422),
        ("GET", "/v1/tasks/", 404),
        ("POST", "/v1/tasks/backend/pull/", 404),
        ("GET", "/healthz/", 404),
        ("PUT", "/v1/tasks", 405),
        ("PUT", "/v1/tasks/backend", 405),
        ("GET", "/v1/tasks/backend/pull", 405),
        ("DELETE", "/v1/tasks/backend/pull", 405),
        ("POST", "/v1/tasks/backend/pending", 405),
        ("PUT", "/v1/tasks/backend/messages", 405),
        ("POST", "/healthz", 405),
        ("DELETE", "/metrics", 405),
        ("BREW", "/v1/tasks", 405),
    ]
    for method, path, status in wrong:
        answer: httpx2.Response = await api.admin.request(method, path)
        assert (method, path, answer.status_code) == (method, path, status), answer.text
        refused(answer, status)
