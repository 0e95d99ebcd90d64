"""Threads over HTTP: the worker's and the leader's verbs. Each answers `{"ok": true, "command": …}`, as the binary prints it.

wait-reply is a hot route: thousands may wait at once, and each should cost little.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic_core import to_json

from inboxd import model
from inboxd.broker.threads import SaidInThread
from inboxd.edges.auth import Caller
from inboxd.edges.http_api import Answer, Call, HotRoute, messages_json
from inboxd.edges.http_views import Cursor, Limit, StrictRoute, broker_of, json_answer
from inboxd.errors import InvalidRequest

threads = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["threads"])

ThreadPath = Annotated[str, Path(pattern=model.STORED_ID_GRAMMAR)]
AgentQuery = Annotated[str | None, Query(pattern=model.TASK_GRAMMAR, description="by itself the token's own task")]
StatusQuery = Annotated[str, Query(pattern=r"^[a-z_]*(,[a-z_]+)*$", max_length=200, description="a list with commas")]
SenderQuery = Annotated[str | None, Query(pattern=r"^(task:)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


def _statuses(given: str) -> list[model.Status]:
    named = [one for one in given.split(",") if one]
    for one in named:
        if one not in model.STATUSES:
            raise InvalidRequest(f"status: {one} is none.", hint=f"There are {', '.join(model.STATUSES)}.")
    return [one for one in model.STATUSES if one in named]


def _thread(command: str, thread: model.Thread) -> model.ThreadAnswer:
    return model.ThreadAnswer(command=command, thread=thread)


def _said(command: str, said: SaidInThread, status: int = 200) -> Response:
    return json_answer(
        b'{"ok":true,"command":"%b","thread":%b,"message":%b,"duplicate":%b}'
        % (command.encode(), to_json(said.thread), said.message.as_json(), to_json(said.duplicate)),
        status,
    )


@threads.post("/threads", status_code=201, response_model=model.SaidAnswer)
async def open_thread(request: Request, who: Caller, new: model.NewThread) -> Response:
    """Open a thread: work with a status. With `to` it is also mail in that inbox; without, anybody may claim it."""
    return _said("send", await broker_of(request).open_thread(who, new), 201)


@threads.get("/threads")
async def list_threads(
    request: Request,
    who: Caller,
    agent: AgentQuery = None,
    status: StatusQuery = "",
    created_by: SenderQuery = None,
    assigned_to: AgentQuery = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> model.ThreadPage:
    """All threads, newest first, whatever their status; an agent's token sees those it has a part in."""
    found = await broker_of(request).list_threads(
        who,
        agent=agent,
        statuses=_statuses(status),
        created_by=created_by,
        assigned_to=assigned_to,
        limit=limit,
        cursor=cursor,
    )
    return model.ThreadPage(
        command="list", threads=found.threads, next_event_id=found.next_event_id, next_cursor=found.next_cursor
    )


@threads.get("/threads/fetch")
async def fetch(
    request: Request,
    who: Caller,
    agent: AgentQuery = None,
    status: StatusQuery = "",
    limit: Limit = 20,
    unread: Annotated[bool, Query(description="only those with words of others not yet marked read")] = False,
) -> model.ThreadList:
    """The work there is for an agent, most urgent first: its own, the pool's, and what others let go. Grants nothing: claim does."""
    found = await broker_of(request).fetch(who, agent=agent, statuses=_statuses(status), limit=limit, unread=unread)
    return model.ThreadList(command="fetch", threads=found.threads, next_event_id=found.next_event_id)


@threads.get("/threads/{thread_id}", response_model=model.ThreadHistory)
async def show_thread(
    request: Request,
    who: Caller,
    thread_id: ThreadPath,
    agent: AgentQuery = None,
    limit: Limit = 200,
    cursor: Cursor = None,
) -> Response:
    """A thread and its whole history, oldest first. Looking moves no read cursor."""
    found = await broker_of(request).show_thread(who, thread_id, agent=agent, limit=limit, cursor=cursor)
    return json_answer(
        b'{"ok":true,"command":"show","thread":%b,"messages":%b,"next_cursor":%b}'
        % (to_json(found.thread), messages_json(found.messages), to_json(found.next_cursor))
    )


@threads.post("/threads/{thread_id}/mark-read")
async def mark_read(
    request: Request, who: Caller, thread_id: ThreadPath, read: model.MarkReadRequest
) -> model.ThreadAnswer:
    """Move your read cursor: the one thing that makes a thread read."""
    return _thread("mark-read", await broker_of(request).mark_read(who, thread_id, read))


@threads.post("/threads/{thread_id}/claim")
async def claim(request: Request, who: Caller, thread_id: ThreadPath, want: model.ClaimRequest) -> model.ThreadAnswer:
    """Own a thread for a while; the answer's lease has the fencing token that every later write carries."""
    return _thread("claim", await broker_of(request).claim(who, thread_id, want))


@threads.post("/threads/{thread_id}/renew")
async def renew(request: Request, who: Caller, thread_id: ThreadPath, want: model.RenewRequest) -> model.ThreadAnswer:
    """Keep a lease for longer, before it runs out."""
    return _thread("renew", await broker_of(request).renew(who, thread_id, want))


@threads.post("/threads/{thread_id}/update", response_model=model.SaidAnswer)
async def update(request: Request, who: Caller, thread_id: ThreadPath, said: model.UpdateRequest) -> Response:
    """Say how it goes; blocked: ask what is missing, which is mail to whoever opened the thread."""
    return _said("update", await broker_of(request).update(who, thread_id, said))


@threads.post("/threads/{thread_id}/done", response_model=model.SaidAnswer)
async def done(request: Request, who: Caller, thread_id: ThreadPath, said: model.FinishRequest) -> Response:
    """Finish with a result, which is mail to whoever opened the thread."""
    return _said("done", await broker_of(request).done(who, thread_id, said))


@threads.post("/threads/{thread_id}/fail", response_model=model.SaidAnswer)
async def fail(request: Request, who: Caller, thread_id: ThreadPath, said: model.FinishRequest) -> Response:
    """Give up, and say why."""
    return _said("fail", await broker_of(request).fail(who, thread_id, said))


@threads.post("/threads/{thread_id}/reply", response_model=model.SaidAnswer)
async def reply(request: Request, who: Caller, thread_id: ThreadPath, said: model.ReplyRequest) -> Response:
    """A word in a thread: an answer wakes whoever waits for it. Changes no status."""
    return _said("reply", await broker_of(request).reply(who, thread_id, said))


@threads.post("/threads/{thread_id}/cancel", response_model=model.SaidAnswer)
async def cancel(request: Request, who: Caller, thread_id: ThreadPath, said: model.CancelRequest) -> Response:
    """No longer wanted: whoever works on it is told."""
    return _said("cancel", await broker_of(request).cancel(who, thread_id, said))


async def wait_reply(call: Call) -> Answer:
    """The next reply to you in a thread. With `wait_ms` it waits; give `next_event_id` back, and nothing between two calls is missed."""
    who = await call.caller()
    if not model.is_stored_id(call.place):
        raise InvalidRequest("A thread's id has letters, digits, `.`, `_`, `:` and `-`.")
    want = await call.read(model.WaitReplyRequest)
    waiting = call.broker.wait_reply(who, call.place, want)
    found = await (call.while_connected(waiting) if want.wait_ms else waiting)
    return 200, b'{"ok":true,"command":"wait-reply","woke":%b,"next_event_id":%d,"message":%b,"receipt":%b}' % (
        b"true" if found.message else b"false",
        found.next_event_id,
        found.message.as_json() if found.message else b"null",
        to_json(found.receipt),
    )


async def watch(call: Call) -> Answer:
    """What happened to threads since an event; with `wait_ms`, waits for the first thing to happen."""
    who = await call.caller()
    want = await call.read(model.WatchRequest)
    waiting = call.broker.watch(who, want)
    found = await (call.while_connected(waiting) if want.wait_ms else waiting)
    return 200, b'{"ok":true,"command":"watch","woke":%b,"next_event_id":%d,"events":[%b],"reset":%b}' % (
        b"true" if found.events or found.reset else b"false",
        found.next_event_id,
        b",".join(found.events),
        to_json(found.reset),
    )


WAIT_REPLY = HotRoute("/v1/threads/{thread_id}/wait-reply", wait_reply)
WATCH = HotRoute("/v1/threads/watch", watch)


def hot_route(rest: str) -> tuple[HotRoute | None, str]:
    """Of a POST: the hot route behind `/v1/threads/`, if it is one, and the thread it names."""
    if rest == "watch":
        return WATCH, ""
    thread_id, _, verb = rest.partition("/")
    return (WAIT_REPLY if verb == "wait-reply" else None), thread_id
