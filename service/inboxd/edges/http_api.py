"""The hot routes: send, pull, settle and pending, as plain ASGI, because an agent's hook calls them after every tool.

A handler takes a `Call` and returns status and body. It parses and renders; the broker decides. The rest of the API is in
http_views.py; both are described in one OpenAPI document (describe.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.types import Receive, Scope

from inboxd import model
from inboxd.broker import Broker
from inboxd.broker.delivery import PendingAnswer
from inboxd.broker.sending import SendAnswer
from inboxd.edges.auth import bearer
from inboxd.errors import BodyTooLarge, InvalidRequest
from inboxd.model import Identity, NewMessage, PullRequest, SettleRequest, StoredMessage

Model = TypeVar("Model", bound=BaseModel)
Answer = tuple[int, bytes]
JSON: Final = ((b"content-type", b"application/json"),)


class ClientGone(Exception):
    """The caller hung up while it was waited for: there is nobody to answer."""


class Call:
    """One request to a hot route. `place` is what its path names: a task, or a host."""

    __slots__ = ("broker", "headers", "place", "receive", "request_id", "scope")

    def __init__(self, broker: Broker, scope: Scope, receive: Receive, place: str, request_id: bytes) -> None:
        self.broker = broker
        self.request_id = request_id
        self.scope = scope
        self.receive = receive
        self.place = place
        self.headers: tuple[tuple[bytes, bytes], ...] = JSON
        """Of the answer."""

    async def caller(self) -> Identity:
        return await self.broker.identify(bearer(self.scope["headers"]))

    async def who(self) -> Identity:
        """The caller, of a route whose path names a task."""
        token = bearer(self.scope["headers"])
        who = self.broker.recall(token) or await self.broker.identify(token)
        if not model.is_task_id(self.place):
            raise InvalidRequest("A task's name has letters, digits, `.`, `_` and `-`, 64 at most.")
        return who

    def header(self, wanted: bytes) -> str | None:
        for name, value in self.scope["headers"]:
            if name == wanted:
                return str(value.decode("latin-1"))
        return None

    async def read(self, kind: type[Model]) -> Model:
        """The request's body, checked. An empty one stands for `{}`."""
        return kind.__pydantic_validator__.validate_json(await self.body() or b"{}")  # type: ignore[no-any-return]

    async def body(self) -> bytes:
        limit = self.broker.settings.request_bytes_max
        message = await self.receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            message = await self.receive()
            body += message.get("body", b"")
            if len(body) > limit:
                break
        if message["type"] == "http.disconnect":
            raise ClientGone
        if len(body) > limit:
            raise BodyTooLarge(f"The request is larger than {limit} bytes.")
        return body

    async def while_connected(self, work: Awaitable[Any]) -> Any:
        """Wait for something slow, but not for a caller that has hung up: mail must not be handed to nobody."""
        working = asyncio.ensure_future(work)
        hang_up = asyncio.ensure_future(self._hang_up())
        try:
            await asyncio.wait((working, hang_up), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGone
            return working.result()
        finally:
            hang_up.cancel()
            working.cancel()

    async def _hang_up(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


async def send(call: Call) -> Answer:
    who = await call.who()
    new = await call.read(NewMessage)
    key = call.header(b"idempotency-key")
    if key is not None and new.message_id != key:
        if new.message_id is not None:
            raise InvalidRequest("Idempotency-Key and message_id differ.", hint="Give one of them, or the same twice.")
        # Checked again as a message_id: the header has the same grammar.
        new = NewMessage.model_validate({**new.model_dump(), "message_id": key})
    return 201, sent_json(await call.broker.send(who, call.place, new))


async def pull(call: Call) -> Answer:
    who = await call.who()
    want = await call.read(PullRequest)
    pulling = call.broker.pull(who, call.place, want)
    found = await (call.while_connected(pulling) if want.wait_ms else pulling)
    receipt = b'"%b"' % found.receipt.encode() if found.receipt else b"null"
    return 200, b'{"receipt":%b,"pull_id":"%b","messages":%b,"pending":%d,"left":%d}' % (
        receipt,
        found.pull_id.encode(),
        messages_json(found.messages),
        found.pending,
        found.left,
    )


async def pending(call: Call) -> Answer:
    who = await call.who()
    wait_ms = _wait_ms(call.scope["query_string"])
    asking = call.broker.pending(who, call.place, wait_ms)
    return 200, pending_json(call.place, await (call.while_connected(asking) if wait_ms else asking))


def _settling(verb: str) -> Callable[[Call], Awaitable[Answer]]:
    async def settle(call: Call) -> Answer:
        who = await call.who()
        what = await call.read(SettleRequest)
        done = await call.broker.settle(who, verb, call.place, what)
        ids, lost = (",".join(f'"{one}"' for one in some).encode() for some in done)
        return 200, b'{"ok":true,"message_ids":[%b],"lost":[%b]}' % (ids, lost)

    return settle


class HotRoute(NamedTuple):
    """One hot route; method and verb find it, the rest describes it."""

    template: str
    handle: Callable[[Call], Awaitable[Answer]]


def _at(verb: str) -> str:
    return "/v1/tasks/{task}/" + verb


HOT: Final[dict[tuple[str, str], HotRoute]] = {
    ("POST", "messages"): HotRoute(_at("messages"), send),
    ("POST", "pull"): HotRoute(_at("pull"), pull),
    ("GET", "pending"): HotRoute(_at("pending"), pending),
    ("POST", "ack"): HotRoute(_at("ack"), _settling("ack")),
    ("POST", "release"): HotRoute(_at("release"), _settling("release")),
    ("POST", "seen"): HotRoute(_at("seen"), _settling("seen")),
    ("POST", "unseen"): HotRoute(_at("unseen"), _settling("unseen")),
}


def messages_json(messages: list[StoredMessage]) -> bytes:
    return b"[%b]" % b",".join([message.as_json() for message in messages])


def sent_json(sent: SendAnswer) -> bytes:
    return b'{"message":%b,"duplicate":%b,"pending":%d,"recipient_state":"%b","superseded":[%b]}' % (
        sent.message.as_json(),
        b"true" if sent.duplicate else b"false",
        sent.pending,
        sent.recipient_state.encode(),
        ",".join(f'"{one}"' for one in sent.superseded).encode(),
    )


def pending_json(task: str, counts: PendingAnswer) -> bytes:
    urgent, high, normal, low, held = counts
    return (
        b'{"task":"%b","pending":%d,"urgent":%d,"by_priority":{"urgent":%d,"high":%d,"normal":%d,"low":%d},"held":%d}'
        % (task.encode(), counts.pending, urgent, urgent, high, normal, low, held)
    )


def _wait_ms(query: bytes) -> int:
    if not query:
        return 0
    given = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    wait_ms = 0
    for name, value in given:
        if name != "wait_ms":
            raise InvalidRequest(f"{name[:80]} is not a parameter of this route.", hint="It takes `wait_ms`.")
        if not (value.isascii() and value.isdigit() and len(value) < 8):
            raise InvalidRequest("wait_ms: a whole number of milliseconds is wanted.")
        wait_ms = int(value)
    return wait_ms
