"""/mcp: the door for models. Who comes in, whether from a page that has no business here, and which way an answer takes.

What is as usual is answered in front of the SDK (mcp_usual.py); everything else by it (mcp_server.py), loaded when it is first needed.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
from types import ModuleType
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from inboxd.broker import Broker
from inboxd.broker.naming import mint_id
from inboxd.broker.permission import may_act_for
from inboxd.edges import mcp_usual
from inboxd.edges.auth import bearer
from inboxd.edges.http_api import JSON, Answer, Call, HotRoute
from inboxd.edges.mcp_caller import IN_SCOPE, McpCaller
from inboxd.edges.mcp_news import News
from inboxd.edges.mcp_usual import NEW
from inboxd.edges.origin import Names
from inboxd.errors import CrossSite, InvalidRequest, MethodNotAllowed
from inboxd.model import USER, Identity, is_task_id

GREETING: Final = "inboxd.mcp_greeting"


class Unusual(Exception):
    """A request that is not answered in front of the SDK."""


class McpDoor:
    """An ASGI application, and, for whoever counts requests, the route that leads to it. What is posted is tried by `usual` first."""

    path = "/mcp"

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.usual = HotRoute(self.path, self._usual)
        self._names = Names(broker.settings)
        self._sdk: ModuleType | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self
        if scope["method"] == "POST":
            sdk = await self._loaded()
            await sdk.serve(scope[IN_SCOPE], scope, receive, _with_session(send) if scope[GREETING] else send)
            return
        said: dict[bytes, bytes] = dict(scope["headers"])
        if b"origin" in said or b"sec-fetch-site" in said:
            self._check_origin(Request(scope))
        caller = await self._caller(scope, said, scope["request_id"])
        match scope["method"]:
            case "GET" if said.get(b"mcp-protocol-version") != NEW.encode():
                await self._stream(caller, receive, send)
            case "DELETE":
                # A session is a name and nothing else: there is nothing to end.
                await _answer(send, 200, b"{}")
            case _:
                raise MethodNotAllowed("MCP is spoken here with POST.")

    def _check_origin(self, request: Request) -> None:
        """Refuse what a page made a browser send: one of another site, or of another name that leads to us.

        No browser is needed to speak MCP, and what is none says nothing of an origin; such a client may call us by any name.
        """
        self._names.check(request)
        origin = request.headers.get("origin")
        site = request.headers.get("sec-fetch-site", "same-origin")
        own = origin is None or _place(origin) == request.headers.get("host", "").lower()
        if not own or site not in ("same-origin", "none"):
            raise CrossSite(
                "This request comes from another site's page.", hint="Connect from a program, not from a page."
            )

    async def _usual(self, call: Call) -> Answer:
        """What is posted, if it is as usual; otherwise Unusual, and its body can be read once more."""
        scope = call.scope
        said: dict[bytes, bytes] = dict(scope["headers"])
        if b"origin" in said or b"sec-fetch-site" in said:
            self._check_origin(Request(scope))
        caller = await self._caller(scope, said, call.request_id.decode())
        body = await call.body()
        try:
            asked = from_json(body)
        except ValueError:
            asked = None
        await _heed(caller, asked)
        # A header that is there twice is as odd as any: two readers might choose differently.
        answer = await mcp_usual.answer(caller, asked) if len(said) == len(scope["headers"]) else None
        greeting = isinstance(asked, dict) and asked.get("method") == "initialize"
        if answer is None:
            scope[IN_SCOPE], scope[GREETING] = caller, greeting
            call.receive = _replayed(body, call.receive)
            raise Unusual
        if greeting:
            call.headers = (*call.headers, _session())
        return 200 if answer else 202, answer

    async def _caller(self, scope: Scope, said: dict[bytes, bytes], request_id: str) -> McpCaller:
        token = bearer(scope["headers"])
        who = self._broker.recall(token) or await self._broker.identify(token)
        asked, mail_only = _asked(scope["query_string"]) if scope["query_string"] else (None, False)
        if asked is None and b"inbox-task" in said:
            asked = said[b"inbox-task"].decode("latin-1")
        return McpCaller(
            broker=self._broker,
            who=who,
            token=token,
            task=_task(who, asked),
            mail_only=mail_only,
            said=said,
            request_id=request_id,
        )

    async def _loaded(self) -> ModuleType:
        if self._sdk is None:
            async with self._loading:
                if self._sdk is None:
                    # In a thread: it takes about a second, and hooks must not wait for it.
                    self._sdk = await asyncio.to_thread(importlib.import_module, "inboxd.edges.mcp_server")
                    gc.freeze()
        return self._sdk

    async def _stream(self, caller: McpCaller, receive: Receive, send: Send) -> None:
        """2025: a stream of what the server has to say, which is that mail came. (The newer protocol asks for one by a request.)"""
        if b"text/event-stream" not in caller.said.get(b"accept", b""):
            raise InvalidRequest("A stream is asked for with `Accept: text/event-stream`.")
        notice = to_json({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": caller.uri}})
        gone = asyncio.create_task(_hang_up(receive))
        try:
            async with News(caller) as news:
                head = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")]
                await send({"type": "http.response.start", "status": 200, "headers": head})
                await send({"type": "http.response.body", "body": b": listening\n\n", "more_body": True})
                telling = asyncio.create_task(_tell(news, send, b"event: message\ndata: %b\n\n" % notice))
                try:
                    await asyncio.wait({gone, telling}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    telling.cancel()
                    await asyncio.gather(telling, return_exceptions=True)
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()


def _place(origin: str) -> str:
    """Name and port of an origin; empty for what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def _heed(caller: McpCaller, said: Any) -> None:
    """2025: a client calls off a request of its session. It may wait at another replica. (Later, it hangs up instead.)"""
    match said:
        case {"method": "notifications/cancelled", "params": {"requestId": number}}:
            call_hash = caller.call_hash(number)
            if call_hash is not None:
                await caller.broker.call_off(caller.who, call_hash)


def _asked(query: bytes) -> tuple[str | None, bool]:
    """What the address asks for: a task, and which tools."""
    task, mail_only = None, False
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name == "task" and is_task_id(value):
            task = value
        elif name == "tools" and value in ("mail", "all"):
            mail_only = value == "mail"
        else:
            raise InvalidRequest(
                f"{name[:80]}: this address takes `tools=mail` and `task=TASK`.", hint="Leave the rest out."
            )
    return task, mail_only


def _task(who: Identity, asked: str | None) -> str | None:
    """Whose inbox it is about: a token's own, or one that it may act for."""
    if asked is None:
        return who.task or (USER if who.role == "user" else None)
    if not is_task_id(asked):
        raise InvalidRequest("A task's name has letters, digits, `.`, `_` and `-`, 64 at most.")
    may_act_for(who, asked)
    return asked


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The request's body once more, and then whatever else comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _session() -> tuple[bytes, bytes]:
    """A name for the session that begins. We keep none of it: it only tells one client's calls from another's."""
    return b"mcp-session-id", mint_id().encode()


def _with_session(send: Send) -> Send:
    """The SDK's answer to a greeting, with a name for the session."""

    async def named(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            message["headers"] = [*message["headers"], _session()]
        await send(message)

    return named


async def _tell(news: News, send: Send, notice: bytes) -> None:
    async for there_is_mail in news:
        await send(
            {"type": "http.response.body", "body": notice if there_is_mail else b": quiet\n\n", "more_body": True}
        )


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, status: int, body: bytes) -> None:
    head = [*JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})
