"""Pages: every view of the dashboard as a whole page. What is live on them is rendered by the same templates (parts.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from inboxd import model
from inboxd.broker.cursors import read_cursor, write_cursor
from inboxd.broker.history import Filters
from inboxd.broker.naming import mint_id
from inboxd.edges.dashboard import reading
from inboxd.edges.dashboard.attending import rows_of
from inboxd.edges.dashboard.charts import charts
from inboxd.edges.dashboard.rendering import answer, theme_of
from inboxd.edges.dashboard.routing import Cursor, Visitor, pages
from inboxd.edges.dashboard.searching import Wanted, search
from inboxd.edges.dashboard.telling import tell
from inboxd.edges.sessions import Session, broker_of
from inboxd.model import USER

EVENTS_SHOWN: Final = 60
CLOSED_SHOWN: Final = 12
OPEN_SHOWN: Final = 100
MESSAGES_SHOWN: Final = 100
OPEN: Final[tuple[model.Status, ...]] = ("pending", "claimed", "in_progress", "blocked")
CLOSED: Final[tuple[model.Status, ...]] = ("done", "failed", "cancelled")

TaskPath = Annotated[str, Path(pattern=model.TASK_GRAMMAR)]
IdPath = Annotated[str, Path(pattern=model.STORED_ID_GRAMMAR)]


async def page(request: Request, session: Session, template: str, view: str, title: str, **context: Any) -> Response:
    """A whole page, with all that surrounds a view. `last_event` is asked for first: what the page shows is not older than that."""
    broker = broker_of(request)
    return answer(
        request,
        template,
        session=session,
        view=view,
        title=title,
        counts=await reading.counts(broker, session),
        theme=theme_of(request),
        **context,
    )


@pages.get("/")
async def tasks(request: Request, session: Visitor) -> Response:
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    everybody = await broker.overview(session.who)
    return await page(
        request,
        session,
        "tasks.html",
        "tasks",
        "Tasks",
        last_event=last_event,
        tasks=[task for task in everybody if task.task != USER],
        order_of=reading.order_of,
        charts=charts(await broker.stats(session.who), sum(task.pending for task in everybody)),
    )


@pages.get("/tasks/{task}")
async def one_task(request: Request, session: Visitor, task: TaskPath, cursor: Cursor = None) -> Response:
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    shown = await broker.show_task(session.who, task)
    found, older = await broker.timeline(session.who, task, limit=reading.PAGE_ROWS, cursor=cursor)
    return await page(
        request,
        session,
        "task.html",
        "tasks",
        shown.title or task,
        last_event=last_event,
        task=shown,
        messages=await reading.views(session, found),
        older=older,
        later=cursor is not None,
        message_id=mint_id(),
    )


@pages.get("/messages/{message_id}")
async def one_message(request: Request, session: Visitor, message_id: IdPath) -> Response:
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    stored, history = await broker.show(session.who, message_id)
    message = await reading.view(session, stored, whole=True)
    return await page(
        request,
        session,
        "message.html",
        "inbox" if message.m.task == USER else "tasks" if message.m.task else "threads",
        message.m.subject or "A message",
        last_event=last_event,
        message=message,
        history=history,
        message_id=mint_id(),
    )


@pages.get("/inbox")
async def inbox(request: Request, session: Visitor, cursor: Cursor = None) -> Response:
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    there = await broker.overview(session.who, [USER])
    read: list[model.StoredMessage] = []
    older = None
    if there:
        read, older = await broker.timeline(
            session.who,
            USER,
            limit=reading.PAGE_ROWS,
            cursor=cursor,
            only=Filters(state="delivered,seen,expired,superseded", direction="in"),
        )
    waiting, more = await reading.unread(broker, session) if there and cursor is None else ([], False)
    return await page(
        request,
        session,
        "inbox.html",
        "inbox",
        "Inbox",
        last_event=last_event,
        unread=waiting,
        more=more,
        read=await reading.views(session, read),
        older=older,
        later=cursor is not None,
        mint=mint_id,
    )


@pages.get("/attention")
async def attention(request: Request, session: Visitor) -> Response:
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    return await page(
        request,
        session,
        "attention.html",
        "attention",
        "Attention",
        last_event=last_event,
        rows=await rows_of(broker, session),
        mint=mint_id,
    )


@pages.get("/threads")
async def threads(
    request: Request, session: Visitor, of: Literal["open", "closed"] | None = None, cursor: Cursor = None
) -> Response:
    """The board; with `of` and a cursor, the older ones of the open or of the closed."""
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    columns = {
        status: await broker.list_threads(session.who, statuses=[status], limit=OPEN_SHOWN, cursor=cursor)
        for status in (OPEN if of != "closed" else ())
    }
    closed = None
    if of != "open":
        limit = OPEN_SHOWN if of else CLOSED_SHOWN
        closed = await broker.list_threads(session.who, statuses=list(CLOSED), limit=limit, cursor=cursor)
    # One page further for all columns: it begins where the first of them was cut, so that none is left out.
    cut = [found.next_cursor for found in columns.values() if found.next_cursor]
    return await page(
        request,
        session,
        "threads.html",
        "threads",
        "Threads",
        last_event=last_event,
        columns={status: found.threads for status, found in columns.items()},
        more={status: found.next_cursor is not None for status, found in columns.items()},
        older=max(cut, key=lambda at: read_cursor(at, "threads", [int])) if cut else None,
        closed=closed.threads if closed else [],
        closed_older=closed.next_cursor if closed else None,
        later=of is not None,
    )


@pages.get("/threads/{thread_id}")
async def one_thread(request: Request, session: Visitor, thread_id: IdPath, cursor: Cursor = None) -> Response:
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    newest = cursor is None
    found = await broker.show_thread(session.who, thread_id, limit=MESSAGES_SHOWN, cursor=cursor, newest=newest)
    return await page(
        request,
        session,
        "thread.html",
        "threads",
        found.thread.subject,
        last_event=last_event,
        thread=found.thread,
        messages=await reading.views(session, found.messages),
        start=write_cursor("thread", [0]) if newest and found.next_cursor else None,
        newest=newest,
        later=None if newest else found.next_cursor,
        message_id=mint_id(),
        cancel_id=mint_id(),
    )


@pages.get("/activity")
async def activity(
    request: Request,
    session: Visitor,
    q: Annotated[str, Query(max_length=200)] = "",
    sender: Annotated[str, Query(max_length=80)] = "",
    task: Annotated[str, Query(max_length=64)] = "",
    since: Annotated[str, Query(max_length=40)] = "",
    until: Annotated[str, Query(max_length=40)] = "",
    tz: Annotated[str, Query(max_length=13)] = "",
    cursor: Cursor = None,
) -> Response:
    broker = broker_of(request)
    last_event = await broker.last_event(session.who)
    wanted = Wanted(q.strip(), sender.strip(), task.strip(), since.strip(), until.strip(), tz)
    events: Sequence[dict[str, Any]] = []
    found = None
    if wanted.anything:
        found = await search(broker, session, wanted, cursor)
    else:
        events = await broker.log(session.who, limit=EVENTS_SHOWN)
    return await page(
        request,
        session,
        "activity.html",
        "activity",
        "Activity",
        last_event=last_event,
        wanted=wanted,
        found=found,
        events=[(event, tell(event)) for event in events],
    )
