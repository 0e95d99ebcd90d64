"""GET /v1/events: the events of a namespace as they happen, as text/event-stream. It renders and writes; the broker decides.

    : inboxd                     first, what it is, and where the stream begins
    retry: 2000
    id: 41
    event: ready
    data: {"id":41,"type":"ready","at_ms":1800000000000}

    id: 42                       then each event as the log has it
    event: task_message_queued
    data: {"id":42,"type":"task_message_queued","task":"backend","pending":1,…}

`ping` comes now and then, a comment that keeps proxies open and the number of the last event there was, wanted or not: whoever asked
for little still comes back to where it left. `reset` says that the log does not reach back to where the reader was: what it knows is to be asked for anew. `closing`
is last, and says why. These four are in no log and can be left out of account; their ids cannot. An id without an event would do for
the letter of the standard, but not every reader takes one over that way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import StringConstraints
from pydantic_core import to_json
from starlette.types import Receive, Scope, Send

from inboxd.broker import Broker
from inboxd.broker.following import Batch, Event, Follower, Want
from inboxd.edges.auth import Caller
from inboxd.edges.http_views import StrictRoute, broker_of
from inboxd.errors import InvalidRequest
from inboxd.model import Identity

__all__ = ["EVERYTHING", "Want", "live", "stream"]

EVERYTHING: Final = Want()

RETRY_MS: Final = 2_000
"""How long a browser waits before it comes back."""
END_MS: Final = 300
"""How long a reader may take for what is left once its stream has ended; then the connection is dropped."""
NUMBER_MAX: Final = 10**15
NUMBER_DIGITS: Final = len(str(NUMBER_MAX))
HEADERS: Final = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",  # a proxy that gathers an answer would never pass this one on
    "connection": "close",  # the end of the stream is the end of the connection
}
EXAMPLE: Final = (
    'id: 42\nevent: task_message_queued\ndata: {"id":42,"type":"task_message_queued","at_ms":1800000000000,'
    '"task":"backend","message_id":"b7e1","sender":"user","kind":"message","priority":"urgent","pending":1}\n\n'
)

live = APIRouter(prefix="/v1", route_class=StrictRoute)

Names = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._,-]*$", max_length=4_000)]
Types = Annotated[str, StringConstraints(pattern=r"^[a-z_*,]*$", max_length=1_000)]
Threads = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:,-]*$", max_length=4_000)]


@live.get(
    "/events",
    tags=["events"],
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": EXAMPLE}}}},
)
async def events(
    request: Request,
    who: Caller,
    task: Annotated[
        Sequence[Names], Query(description="only of these tasks: with commas, or given more than once")
    ] = (),
    type: Annotated[  # noqa: A002
        Sequence[Types],
        Query(description="only these types, likewise; `thread_*` fits all of a kind"),
    ] = (),
    thread: Annotated[Sequence[Threads], Query(description="only of these threads, likewise")] = (),
    after: Annotated[
        int | None,
        Query(ge=0, le=NUMBER_MAX, description="the number of the last event you have; none: from now on"),
    ] = None,
    last_event_id: Annotated[  # noqa: ARG001 - read by `stream`, described here
        str | None, Header(description="the same, as browsers send it when they come back; it wins over `after`")
    ] = None,
) -> Response:
    """Follow: every event as it happens (text/event-stream), with its task's `pending`; an agent hears its own.

    The stream begins with `ready`. `reset` says that the log no longer reaches back to your number: ask anew for what you show.
    `ping` keeps the connection open and the number near; `closing` is the last, with the reason (`stopping`, `store`, `token`, `slow`).
    A reader that takes nothing is cut off: come back with the last `id` and nothing is missed.
    """
    return await stream(request, who, Want.of(*map(",".join, (task, type, thread))), after)


async def stream(request: Request, who: Identity, want: Want, after: int | None) -> Response:
    """The answer to whoever wants to be told: from behind `after`, or from where a browser says it was."""
    given = request.headers.get("last-event-id") or None
    if given is not None:
        # By length first: Python refuses to read a number of thousands of digits.
        if not (given.isascii() and given.isdigit()) or len(given) > NUMBER_DIGITS or int(given) > NUMBER_MAX:
            raise InvalidRequest("Last-Event-ID: the number of an event is wanted.")
        after = int(given)
    return Stream(broker_of(request), who, want, after)


class Stream(Response):
    media_type = "text/event-stream"

    def __init__(self, broker: Broker, who: Identity, want: Want, after: int | None) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._broker = broker
        self._asked = (who, want, after)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        follower = await self._broker.follow(*self._asked)
        follower.on_end = partial(_drop_later, scope)
        hanging_up = asyncio.create_task(_hang_up(receive, follower))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            begin = b": inboxd\nretry: %d\n" % RETRY_MS + self._own("ready", follower.at)
            await send({"type": "http.response.body", "body": begin, "more_body": True})
            while batches := await follower.take():
                await send({"type": "http.response.body", "body": rendered(batches), "more_body": True})
            last = self._own("closing", follower.at, reason=follower.ended)
            await send({"type": "http.response.body", "body": last})
        finally:
            follower.leave()
            hanging_up.cancel()

    def _own(self, kind: str, n: int, **more: Any) -> bytes:
        line = to_json({"id": n, "type": kind, "at_ms": self._broker.clock.now_ms(), **more})
        return frame(Event(n, kind, line))


def _drop_later(scope: Scope) -> None:
    """Whoever takes nothing would keep its connection, and the broker from stopping, for as long as it likes."""
    abort: Callable[[], None] | None = scope.get("state", {}).get("abort")
    if abort is not None:
        asyncio.get_running_loop().call_later(END_MS / 1_000, abort)


async def _hang_up(receive: Receive, follower: Follower) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    follower.leave()


def frame(event: Event) -> bytes:
    # JSON has no line break of its own, so a line of the log is a line here.
    comment = b": ping\n" if event.type == "ping" else b""
    return comment + b"id: %d\nevent: %b\ndata: %b\n\n" % (event.n, event.type.encode(), event.line)


def rendered(batches: list[Batch]) -> bytes:
    """Each batch is written out once, whoever comes first, and used by all."""
    for batch in batches:
        if batch.rendered is None:
            batch.rendered = b"".join(map(frame, batch.events))
    return b"".join([batch.rendered for batch in batches if batch.rendered is not None])
