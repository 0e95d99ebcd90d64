"""Parts: what a page that is open asks for when something happened: single rows, a folded body's rest, counts, and the stream that tells it.

A row is rendered by the template that rendered it first, so a page that was open all day looks like one just loaded.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from inboxd.broker.history import Filters
from inboxd.broker.naming import mint_id
from inboxd.edges import live
from inboxd.edges.dashboard import reading
from inboxd.edges.dashboard.attending import rows_of
from inboxd.edges.dashboard.charts import charts
from inboxd.edges.dashboard.pages import IdPath, TaskPath
from inboxd.edges.dashboard.rendering import fragment
from inboxd.edges.dashboard.routing import Cursor, Visitor, names_in, parts
from inboxd.edges.dashboard.searching import Wanted, search
from inboxd.edges.dashboard.telling import tell
from inboxd.edges.sessions import broker_of
from inboxd.errors import ThreadUnknown
from inboxd.model import USER

ROWS_MAX = 100
"""Rows of one answer; whoever wants more asks again."""

Ids = Annotated[str, Query(pattern=r"^[A-Za-z0-9._:,-]*$", max_length=25_000)]
Place = Annotated[str, Query(max_length=80)]
EventNumber = Annotated[int, Query(ge=0, le=10**15)]


@parts.get("/rows/tasks")
async def task_rows(request: Request, session: Visitor, id: Ids) -> Response:  # noqa: A002
    found = await broker_of(request).overview(session.who, names_in(id, most=ROWS_MAX))
    tasks = [task for task in found if task.task != USER]
    return fragment(request, session, "rows/tasks.html", tasks=tasks, order_of=reading.order_of)


@parts.get("/rows/messages")
async def message_rows(request: Request, session: Visitor, id: Ids, on: Place = "") -> Response:  # noqa: A002
    found = await reading.named_messages(broker_of(request), session, id.split(",")[:ROWS_MAX])
    return fragment(request, session, "rows/messages.html", messages=found, on=on, older=None)


@parts.get("/rows/inbox")
async def inbox_rows(request: Request, session: Visitor, id: Ids) -> Response:  # noqa: A002
    found = await reading.named_messages(broker_of(request), session, id.split(",")[:ROWS_MAX])
    mine = [message for message in found if message.m.task == USER]
    return fragment(request, session, "rows/inbox.html", messages=mine, mint=mint_id, older=None)


@parts.get("/tasks/{task}/older")
async def older_messages(request: Request, session: Visitor, task: TaskPath, cursor: Cursor = None) -> Response:
    found, older = await broker_of(request).timeline(session.who, task, limit=reading.PAGE_ROWS, cursor=cursor)
    return fragment(
        request,
        session,
        "rows/messages.html",
        messages=await reading.views(session, found),
        on=f"task:{task}",
        older=older,
    )


@parts.get("/inbox/older")
async def older_mail(request: Request, session: Visitor, cursor: Cursor = None) -> Response:
    found, older = await broker_of(request).timeline(
        session.who,
        USER,
        limit=reading.PAGE_ROWS,
        cursor=cursor,
        only=Filters(state="delivered,seen,expired,superseded", direction="in"),
    )
    rows = await reading.views(session, found)
    return fragment(request, session, "rows/inbox.html", messages=rows, mint=mint_id, older=older)


@parts.get("/tasks/{task}/about")
async def about_task(request: Request, session: Visitor, task: TaskPath) -> Response:
    shown = await broker_of(request).show_task(session.who, task)
    return fragment(request, session, "rows/about.html", task=shown)


@parts.get("/messages/{message_id}/body")
async def whole_body(request: Request, session: Visitor, message_id: IdPath) -> Response:
    stored, _ = await broker_of(request).show(session.who, message_id)
    return fragment(request, session, "rows/body.html", message=await reading.view(session, stored, whole=True))


@parts.get("/messages/{message_id}/about")
async def about_message(request: Request, session: Visitor, message_id: IdPath) -> Response:
    stored, history = await broker_of(request).show(session.who, message_id)
    message = await reading.view(session, stored)
    return fragment(request, session, "rows/about_message.html", message=message, history=history)


@parts.get("/rows/attention")
async def attention_rows(request: Request, session: Visitor) -> Response:
    rows = await rows_of(broker_of(request), session)
    return fragment(request, session, "rows/attention.html", rows=rows, mint=mint_id)


@parts.get("/rows/threads")
async def thread_rows(request: Request, session: Visitor, id: Ids) -> Response:  # noqa: A002
    broker = broker_of(request)
    found = []
    for thread_id in id.split(",")[:ROWS_MAX]:
        try:
            found.append((await broker.show_thread(session.who, thread_id, limit=1)).thread)
        except ThreadUnknown:
            continue
    return fragment(request, session, "rows/threads.html", threads=found)


@parts.get("/threads/{thread_id}/about")
async def about_thread(request: Request, session: Visitor, thread_id: IdPath) -> Response:
    thread = (await broker_of(request).show_thread(session.who, thread_id, limit=1)).thread
    return fragment(request, session, "rows/about_thread.html", thread=thread)


@parts.get("/rows/events")
async def event_rows(
    request: Request, session: Visitor, after: EventNumber = 0, before: EventNumber | None = None
) -> Response:
    events = await broker_of(request).log(session.who, after=after, before=before, limit=ROWS_MAX)
    return fragment(request, session, "rows/events.html", events=[(event, tell(event)) for event in events])


@parts.get("/search")
async def more_found(
    request: Request,
    session: Visitor,
    q: str = "",
    sender: str = "",
    task: str = "",
    since: str = "",
    until: str = "",
    tz: str = "",
    cursor: Cursor = None,
) -> Response:
    wanted = Wanted(q, sender, task, since, until, tz)
    found = await search(broker_of(request), session, wanted, cursor)
    return fragment(request, session, "rows/found.html", found=found, wanted=wanted)


@parts.get("/charts")
async def chart_row(request: Request, session: Visitor) -> Response:
    broker = broker_of(request)
    pending = sum(task.pending for task in await broker.overview(session.who))
    return fragment(request, session, "rows/charts.html", charts=charts(await broker.stats(session.who), pending))


@parts.get("/counts")
async def counted(request: Request, session: Visitor) -> Response:
    found = await reading.counts(broker_of(request), session)
    return JSONResponse({"inbox": found.inbox, "urgent": found.inbox_urgent, "attention": found.attention})


@parts.get("/events")
async def events(request: Request, session: Visitor, after: EventNumber | None = None) -> Response:
    return await live.stream(request, session.who, live.EVERYTHING, after)


@parts.get("/icon.svg")
async def icon(request: Request, session: Visitor, n: Annotated[int, Query(ge=0, le=999)] = 0) -> Response:
    """The tab's icon with a number on it."""
    response = fragment(request, session, "icon.svg", number=n)
    response.headers["content-type"] = "image/svg+xml"
    response.headers["cache-control"] = "private, max-age=86400"
    return response
