"""The tools of work in threads: open, claim, tell of it, finish, wait. Parse and render; the broker decides.

A claim's fencing token is handed to the model, and every later write of its carries it: kept here instead, a write that comes after the
lease went to another would look as good as any.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from inboxd import model
from inboxd.broker.asking import message_id_of
from inboxd.broker.threads import SaidInThread
from inboxd.edges import mcp_words as words
from inboxd.edges.mcp_tool import WAIT_S, Args, Limit, Tool, ToolCall, WaitS, one_message, tool
from inboxd.edges.mcp_words import Said

Id = model.StoredId
Fence = Annotated[int, Field(description="from claim")]
LeaseS = Annotated[int, Field(ge=1, le=86_400)]
Statuses = list[model.Status]


class OpenThread(Args):
    subject: Annotated[model.Line, StringConstraints(min_length=1)]
    body: model.Text = ""
    to: model.TaskId | None = Field(None, description="by itself anybody may claim it")
    priority: model.Priority = "normal"


class Fetch(Args):
    status: Statuses = Field([], description="by itself what you could work on")
    limit: Limit = 10


class Claim(Args):
    thread_id: Id
    lease_s: LeaseS | None = None


class Renew(Claim):
    fencing_token: Fence


class Update(Args):
    thread_id: Id
    fencing_token: Fence
    summary: Annotated[model.Text, StringConstraints(max_length=4000)]
    status: Literal["in_progress", "blocked"] = "in_progress"
    body: model.Text = ""


class Finish(Args):
    thread_id: Id
    fencing_token: Fence
    summary: Annotated[model.Text, StringConstraints(min_length=1, max_length=4000)]
    body: model.Text = ""
    artifacts: list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]] = Field([], description="paths")


class Cancel(Args):
    thread_id: Id
    reason: Annotated[model.Text, StringConstraints(max_length=4000)] = ""


class ListThreads(Args):
    status: Statuses = Field([], description="by itself any")
    limit: Limit = 20
    cursor: str | None = None


class Watch(Args):
    after_event: model.EventNumber | None = None
    wait_s: WaitS = WAIT_S


class WaitReply(Watch):
    thread_id: Id


@tool(OpenThread, "Open a thread: work for another agent, with a status and an owner. You get its result as mail.")
async def open_thread(call: ToolCall, new: OpenThread) -> Said:
    said = await call.broker.open_thread(
        call.who,
        model.NewThread(
            message_id=call.call_id,
            subject=new.subject,
            body=new.body,
            to=new.to,
            priority=new.priority,
            sender=call.sender,
        ),
    )
    return _in_thread(call, said)


@tool(Fetch, "The work there is for you, most urgent first. Grants nothing: claim does.", reads=True)
async def fetch(call: ToolCall, want: Fetch) -> Said:
    found = await call.broker.fetch(call.who, agent=call.own, statuses=want.status, limit=want.limit, unread=False)
    return _threads(call, found.threads, next_event_id=found.next_event_id)


@tool(Claim, "Own a thread for a while, so that nobody else works on it. Keep the fencing_token: your writes need it.")
async def claim(call: ToolCall, want: Claim) -> Said:
    lease_ms = want.lease_s and want.lease_s * 1_000
    request = model.ClaimRequest(agent=call.own, lease_ms=lease_ms, claim_id=call.call_id)
    return _thread(call, await call.broker.claim(call.who, want.thread_id, request))


@tool(Renew, "Keep a thread for longer, before its lease ends.")
async def renew(call: ToolCall, want: Renew) -> Said:
    request = model.RenewRequest(
        agent=call.own,
        fencing_token=want.fencing_token,
        lease_ms=want.lease_s and want.lease_s * 1_000,
        renew_id=call.call_id,
    )
    return _thread(call, await call.broker.renew(call.who, want.thread_id, request))


@tool(Update, "Say how it goes; blocked: ask in summary what is missing, then wait_reply.")
async def update(call: ToolCall, said: Update) -> Said:
    request = model.UpdateRequest(
        message_id=call.call_id,
        agent=call.own,
        fencing_token=said.fencing_token,
        summary=said.summary,
        body=said.body,
        status=said.status,
    )
    return _in_thread(call, await call.broker.update(call.who, said.thread_id, request))


@tool(Finish, "Finish a thread with its result.")
async def done(call: ToolCall, said: Finish) -> Said:
    return _in_thread(call, await call.broker.done(call.who, said.thread_id, _finish(call, said)))


@tool(Finish, "Give a thread up, and say why.")
async def fail(call: ToolCall, said: Finish) -> Said:
    return _in_thread(call, await call.broker.fail(call.who, said.thread_id, _finish(call, said)))


@tool(Cancel, "Call a thread off that you opened.")
async def cancel(call: ToolCall, said: Cancel) -> Said:
    request = model.CancelRequest(message_id=call.call_id, reason=said.reason, sender=call.sender)
    return _in_thread(call, await call.broker.cancel(call.who, said.thread_id, request))


@tool(ListThreads, "Threads you have a part in, newest first.", reads=True)
async def list_(call: ToolCall, want: ListThreads) -> Said:
    found = await call.broker.list_threads(
        call.who, agent=call.task, statuses=want.status, limit=want.limit, cursor=want.cursor
    )
    return _threads(call, found.threads, next_event_id=found.next_event_id, next_cursor=found.next_cursor)


@tool(
    Watch,
    "Wait for something to happen to threads. Give next_event_id back as after_event and nothing is missed.",
    reads=True,
)
async def watch(call: ToolCall, want: Watch) -> Said:
    request = model.WatchRequest(agent=call.task, after_event=want.after_event, wait_ms=want.wait_s * 1_000)
    found = await call.waited(call.broker.watch(call.who, request), "something to happen", want.wait_s)
    events = [words.event(line) for line in found.events]
    told = {"events": events, "next_event_id": found.next_event_id, **words.lean(reset=found.reset)}
    lines = [words.event_line(one) for one in events] or ["Nothing happened."]
    return Said(told, "\n".join([*lines, f"next_event_id {found.next_event_id}"]))


@tool(WaitReply, "Wait for a reply to you in a thread.")
async def wait_reply(call: ToolCall, want: WaitReply) -> Said:
    request = model.WaitReplyRequest(
        agent=call.own, after_event=want.after_event, wait_ms=want.wait_s * 1_000, session=call.session, ack=False
    )
    waiting = call.broker.wait_reply(call.who, want.thread_id, request)
    found = await call.waited(waiting, "a reply", want.wait_s)
    told = {"answered": found.message is not None, "next_event_id": found.next_event_id}
    if found.message is None:
        return Said(told, f"No reply yet. Call again with after_event {found.next_event_id}.")
    await call.hand_on(found.message, found.receipt)
    one = one_message(call, "message", found.message)
    return Said({**told, **one.structured}, f"{one.text}\n\nnext_event_id {found.next_event_id}")


TOOLS: Final[tuple[Tool, ...]] = (
    open_thread,
    fetch,
    claim,
    renew,
    update,
    done,
    fail,
    cancel,
    list_,
    watch,
    wait_reply,
)


def _thread(call: ToolCall, thread: model.Thread) -> Said:
    shown = words.thread(thread, call.now_ms)
    return Said({"thread": shown}, words.thread_line(shown))


def _threads(call: ToolCall, threads: list[model.Thread], **more: Any) -> Said:
    shown = [words.thread(one, call.now_ms) for one in threads]
    lines = "\n".join(words.thread_line(one) for one in shown) or "There is no such thread."
    return Said({"threads": shown, **words.lean(**more)}, lines)


def _in_thread(call: ToolCall, said: SaidInThread) -> Said:
    shown = words.thread(said.thread, call.now_ms)
    told = {"thread": shown, "message_id": message_id_of(said.message), **words.lean(duplicate=said.duplicate)}
    return Said(told, words.thread_line(shown))


def _finish(call: ToolCall, said: Finish) -> model.FinishRequest:
    return model.FinishRequest(
        message_id=call.call_id,
        agent=call.own,
        fencing_token=said.fencing_token,
        summary=said.summary,
        body=said.body,
        artifacts=[model.Artifact(path=path) for path in said.artifacts],
    )
