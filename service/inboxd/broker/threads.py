"""Threads: work with a status, one owner at a time, and a conversation around it.

A worker fetches, claims, updates, asks when it is blocked, waits for the answer, and finishes; whoever opened the thread watches,
replies and cancels. Only claim grants anything, and what it grants is a lease under a fencing token: every write of a worker carries
it, and one that comes after the lease is refused. Not a scheduler: nothing here chooses a worker or tries again.

A word addressed to somebody is also mail in that inbox: one message, one delivery, whichever way it is first taken.
"""

from __future__ import annotations

from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, get_args

from pydantic_core import from_json, to_json

from inboxd.broker.cursors import read_cursor, write_cursor
from inboxd.broker.history import History
from inboxd.broker.naming import mint_id
from inboxd.broker.permission import agent_of, may_read_all, sender_of
from inboxd.broker.sending import OR_CREATE, SendAnswer, content_hash
from inboxd.broker.tasks import LOUDEST
from inboxd.errors import Forbidden, InvalidRequest, MessageIdReused, ReceiptLost, TaskUnknown
from inboxd.model import (
    STATUSES,
    USER,
    Attention,
    AttentionItem,
    CancelRequest,
    ClaimRequest,
    Content,
    FinishRequest,
    Identity,
    Lease,
    MarkReadRequest,
    NewMessage,
    NewThread,
    RenewRequest,
    ReplyKind,
    ReplyRequest,
    Status,
    StoredMessage,
    Thread,
    UpdateRequest,
    WaitReplyRequest,
    WatchRequest,
    Words,
)

ROLES: Final = (USER, "operator", "system")
"""Senders that are no tasks, though `user` has an inbox."""
POOL: Final = "*"
"""Whoever may claim: the agent in whose list every thread stands that nobody owns."""
SCAN_MAX: Final = 2_000
"""Rows one page of a filtered list looks at, at most."""
FETCHED_MAX: Final = 1_000
"""Threads that a fetch returns, and of each list that it looks at, most urgent first."""
PAGE_CHARS: Final = 1_000_000
"""Text in one page of a thread's history, about."""
EVENTS_MAX: Final = 100
"""Events in one answer of watch."""
BLOCKED_SHOWN: Final = 200
"""Blocked threads that attention lists."""


class SaidInThread(NamedTuple):
    thread: Thread
    message: StoredMessage
    duplicate: bool


class ThreadRows(NamedTuple):
    threads: list[Thread]
    next_event_id: int
    next_cursor: str | None = None


class HistoryPage(NamedTuple):
    thread: Thread
    messages: list[StoredMessage]
    next_cursor: str | None


class Reply(NamedTuple):
    message: StoredMessage | None
    next_event_id: int
    receipt: str | None = None


class Watched(NamedTuple):
    events: list[bytes]
    next_event_id: int
    reset: bool


class Threads(History):
    def send(self, who: Identity, task: str, new: NewMessage) -> Coroutine[Any, Any, SendAnswer]:
        """As every send; a message that names a thread there is stands in that thread too."""
        return super().send(who, task, new) if new.thread_id is None else self._send_in(who, new.thread_id, task, new)

    async def _send_in(self, who: Identity, thread_id: str, task: str, new: NewMessage) -> SendAnswer:
        if not await self.store.has_thread(who.namespace, thread_id):
            return await super().send(who, task, new)
        _fits_in_a_thread(new)
        try:
            said = await self._reply(
                who,
                thread_id,
                new,
                new.message_id,
                sender=new.sender,
                to=task,
                reply_to=new.reply_to,
                create=new.create,
            )
        except MessageIdReused:
            # It may have been sent before there was this thread.
            return await super().send(who, task, new)
        shown = await self.show_task(who, task)
        return SendAnswer(said.message, said.duplicate, shown.pending, shown.state, [])

    async def open_thread(self, who: Identity, new: NewThread) -> SaidInThread:
        sender, sender_task = sender_of(who, _in_full(new.sender))
        message_id = new.message_id or mint_id()
        content = _content(new, new.kind, priority=new.priority, subject=new.subject, awaiting=new.awaiting_response)
        given = self._word(
            message_id, message_id, content, sender, sender_task, "open", new.to, new.run_id, new.task_id
        )
        try:
            duplicate, row, message = await self.store.run(
                "open_thread",
                who.namespace,
                to=new.to,
                subject=new.subject,
                run_id=new.run_id,
                task_label=new.task_id,
                reply_to=None,
                create=new.create,
                **given,
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, new.to or "", refusal, otherwise=OR_CREATE) from None
        return self._said(who, message_id, duplicate, row, message, viewer=sender_task)

    async def claim(self, who: Identity, thread_id: str, want: ClaimRequest) -> Thread:
        """Own the thread: atomically, for `lease_ms`, and at once or not at all."""
        agent = agent_of(who, want.agent)
        try:
            row = await self.store.run(
                "claim",
                who.namespace,
                now_ms=self.clock.for_scripts,
                thread_id=thread_id,
                agent=agent,
                claim_id=want.claim_id or mint_id(),
                lease_ms=want.lease_ms or self.settings.lease_ms,
                any=who.role != "agent",
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, agent, refusal) from None
        return self._thread(thread_id, row, viewer=agent, holder=agent)

    async def renew(self, who: Identity, thread_id: str, want: RenewRequest) -> Thread:
        agent = agent_of(who, want.agent)
        row = await self.store.run(
            "renew",
            who.namespace,
            now_ms=self.clock.for_scripts,
            thread_id=thread_id,
            agent=agent,
            fencing_token=want.fencing_token,
            renew_id=want.renew_id,
            lease_ms=want.lease_ms or self.settings.lease_ms,
        )
        return self._thread(thread_id, row, viewer=agent, holder=agent)

    async def update(self, who: Identity, thread_id: str, said: UpdateRequest) -> SaidInThread:
        """How it goes, or, blocked, what is missing: the question is mail to whoever opened the thread."""
        kind = "question" if said.status == "blocked" else "progress"
        return await self._work(who, thread_id, said, said.agent, said.fencing_token, said.status, kind)

    async def done(self, who: Identity, thread_id: str, said: FinishRequest) -> SaidInThread:
        return await self._work(who, thread_id, said, said.agent, said.fencing_token, "done", "result")

    async def fail(self, who: Identity, thread_id: str, said: FinishRequest) -> SaidInThread:
        return await self._work(who, thread_id, said, said.agent, said.fencing_token, "failed", "result")

    async def _work(
        self,
        who: Identity,
        thread_id: str,
        said: Words,
        asked: str | None,
        fencing_token: int,
        status: Status,
        kind: str,
    ) -> SaidInThread:
        agent = agent_of(who, asked)
        message_id = said.message_id or mint_id()
        # Progress without words is still a sign of progress.
        content = _content(said, kind, awaiting=status == "blocked", otherwise="It goes on.")
        given = self._word(thread_id, message_id, content, _sender(agent), agent, status)
        duplicate, row, message = await self.store.run(
            "update",
            who.namespace,
            agent=agent,
            fencing_token=fencing_token,
            status=status,
            summary=said.summary or _first_line(said.body),
            **given,
        )
        return self._said(who, thread_id, duplicate, row, message, viewer=agent)

    async def reply(self, who: Identity, thread_id: str, said: ReplyRequest) -> SaidInThread:
        """A word in a thread; it changes no status."""
        return await self._reply(
            who,
            thread_id,
            _content(said, said.kind, priority=said.priority),
            said.message_id,
            sender=said.sender,
            to=said.to,
            reply_to=said.reply_to,
            fencing_token=said.fencing_token,
        )

    async def _reply(
        self,
        who: Identity,
        thread_id: str,
        content: Content,
        message_id: str | None,
        *,
        sender: str | None,
        to: str | None,
        reply_to: str | None,
        fencing_token: int | None = None,
        create: bool = False,
    ) -> SaidInThread:
        sender, sender_task = sender_of(who, _in_full(sender))
        if content.kind == "question" and sender_task:
            content = content.model_copy(update={"awaiting_response": True})
        given = self._word(thread_id, message_id or mint_id(), content, sender, sender_task, "reply", to, reply_to)
        try:
            duplicate, row, message = await self.store.run(
                "reply",
                who.namespace,
                fencing_token=fencing_token,
                to=to,
                reply_to=reply_to,
                any=who.role != "agent",
                create=create,
                **given,
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, to or "", refusal) from None
        return self._said(who, thread_id, duplicate, row, message, viewer=sender_task)

    async def cancel(self, who: Identity, thread_id: str, said: CancelRequest) -> SaidInThread:
        sender, sender_task = sender_of(who, _in_full(said.sender))
        message_id = said.message_id or mint_id()
        words = Words(body=said.reason, summary=_first_line(said.reason) or None)
        content = _content(words, "control", priority="high", otherwise="The thread is cancelled: stop working on it.")
        given = self._word(thread_id, message_id, content, sender, sender_task, "cancel")
        duplicate, row, message = await self.store.run(
            "cancel",
            who.namespace,
            any=who.role != "agent",
            # The machine's own token speaks for agents, and must not silence the person.
            spared=USER if who.role == "operator" else None,
            summary=_first_line(said.reason),
            **given,
        )
        return self._said(who, thread_id, duplicate, row, message, viewer=sender_task)

    async def fetch(
        self, who: Identity, *, agent: str | None, statuses: list[Status], limit: int, unread: bool
    ) -> ThreadRows:
        """The work there is for an agent. Changes nothing and grants nothing."""
        agent = agent_of(who, agent)
        now_ms, seq, rows = await self.store.run(
            "fetch",
            who.namespace,
            now_ms=self.clock.for_scripts,
            agent=agent,
            statuses=",".join(statuses),
            # No page: there is no next one, so all that is asked for must come.
            limit=min(limit, FETCHED_MAX),
            unread=unread,
            scan_max=FETCHED_MAX,
        )
        return ThreadRows(self._threads(rows, int(now_ms), agent), int(seq))

    async def list_threads(
        self,
        who: Identity,
        *,
        agent: str | None = None,
        statuses: list[Status] | None = None,
        created_by: str | None = None,
        assigned_to: str | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> ThreadRows:
        """Threads whatever their status, newest first. Of an agent's token: those it has a part in."""
        viewer = who.task or (USER if who.role == "user" else "")
        if not may_read_all(who):
            if agent not in (None, who.task):
                raise Forbidden("An agent lists only the threads it has a part in.")
            agent = who.task
        created_by = _in_full(created_by)
        # One list fits each question: the fewer rows of others in it, the better.
        creator = created_by.removeprefix("task:") if created_by not in (None, *ROLES) or created_by == USER else None
        before = str(read_cursor(cursor, "threads", [int])[0]) if cursor is not None else ""
        now_ms, seq, rows, last = await self.store.run(
            "list_threads",
            who.namespace,
            now_ms=self.clock.for_scripts,
            agent=agent or assigned_to or creator,
            statuses=",".join(statuses or STATUSES),
            created_by=created_by,
            assigned_to=assigned_to,
            before=before,
            limit=min(limit, self.settings.page_max),
            scan_max=SCAN_MAX,
        )
        threads = self._threads(rows, int(now_ms), agent or viewer)
        return ThreadRows(threads, int(seq), write_cursor("threads", [int(last)]) if last else None)

    async def show_thread(
        self,
        who: Identity,
        thread_id: str,
        *,
        limit: int,
        agent: str | None = None,
        cursor: str | None = None,
        newest: bool = False,
    ) -> HistoryPage:
        """A thread and what was said in it, oldest first: from the cursor on, or the newest. Looking moves no read cursor."""
        viewer = agent_of(who, agent) if agent else who.task or (USER if who.role == "user" else "")
        after = max(0, read_cursor(cursor, "thread", [int])[0]) if cursor is not None else 0
        now_ms, _, row, messages, more = await self.store.run(
            "show_thread",
            who.namespace,
            now_ms=self.clock.for_scripts,
            thread_id=thread_id,
            agent=viewer,
            any=may_read_all(who),
            after=after,
            newest=newest,
            limit=min(limit, self.settings.page_max),
            chars_max=PAGE_CHARS,
        )
        thread = self._thread(thread_id, row, viewer=viewer, now_ms=int(now_ms))
        found = [StoredMessage(*message) for message in messages]
        return HistoryPage(thread, found, write_cursor("thread", [int(more)]) if more else None)

    async def mark_read(self, who: Identity, thread_id: str, read: MarkReadRequest) -> Thread:
        """Move an agent's read cursor. Nothing else ever does."""
        agent = agent_of(who, read.agent)
        await self._known(who.namespace, agent)
        row = await self.store.run(
            "mark_read",
            who.namespace,
            now_ms=self.clock.for_scripts,
            thread_id=thread_id,
            agent=agent,
            any=may_read_all(who),
            up_to=read.up_to,
        )
        return self._thread(thread_id, row, viewer=agent)

    async def wait_reply(self, who: Identity, thread_id: str, want: WaitReplyRequest) -> Reply:
        """The next reply to an agent in a thread; with `wait_ms`, waits for it. No reply between two calls is missed.

        As mail it is taken by this: its hook does not show it again.
        """
        agent = agent_of(who, want.agent)
        # A name nobody has would wait for ever.
        await self._known(who.namespace, agent)
        if not want.wait_ms:
            return await self._next_reply(who, thread_id, agent, want)
        async with self.waiting.for_thread(who.namespace, thread_id, self._bounded(want.wait_ms)) as news:
            while True:
                found = await self._next_reply(who, thread_id, agent, want)
                if found.message or not await news.comes():
                    return found

    async def _next_reply(self, who: Identity, thread_id: str, agent: str, want: WaitReplyRequest) -> Reply:
        while True:
            seq, found, n, to = await self.store.run(
                "wait_reply",
                who.namespace,
                now_ms=self.clock.for_scripts,
                thread_id=thread_id,
                agent=agent,
                sender=_sender(agent),
                any=who.role != "agent",
                after_event=want.after_event,
                after_message=want.after_message,
                kinds=",".join(want.kinds),
                scan_max=SCAN_MAX,
            )
            if not found:
                return Reply(None, int(seq))
            message = StoredMessage(*found)
            if to != agent.encode() or message.state not in (b"queued", b"in_flight"):
                return Reply(message, int(n))
            if message.state == b"in_flight" and (want.ack or message.holder != want.session.encode()):
                # In other hands: it is delivered soon, or comes back. The place stays before it.
                return Reply(None, int(n) - 1)
            if taken := await self._take_now(who, agent, want, message):
                return Reply(taken[0], int(n), taken[1])

    async def _take(self, who: Identity, agent: str, want: WaitReplyRequest, message: StoredMessage) -> str | None:
        """Take a message out of its inbox. Returns a receipt if it is still to be acked."""
        taken = await self._take_now(who, agent, want, message)
        return taken[1] if taken else None

    async def _take_now(
        self, who: Identity, agent: str, want: WaitReplyRequest, message: StoredMessage
    ) -> tuple[StoredMessage, str | None] | None:
        """Take the reply out of its inbox. Returns it as it is then, and a receipt if it is still to be acked; None: it is in other hands.

        As with pull, taking and delivering are two scripts: one that runs late, for a caller long gone, must deliver nothing.
        """
        receipt = mint_id()
        take = partial(
            self.store.run,
            "take",
            who.namespace,
            now_ms=self.clock.for_scripts,
            task_id=agent,
            session=want.session,
            pull_id=receipt,
            message_id=from_json(message.doc)["message_id"],
            again=not want.ack,
            hold_ms=want.hold_ms or self.settings.hold_ms,
        )
        taken = await take()
        if not taken:
            return None
        if not want.ack:
            return StoredMessage(*taken), receipt
        try:
            await self.ack_all(who, agent, receipt)
        except ReceiptLost:
            return None
        return StoredMessage(*await take()), None

    async def watch(self, who: Identity, want: WatchRequest) -> Watched:
        """What happened to threads since an event; with `wait_ms`, waits for the first thing to happen."""
        agent = want.agent
        if not may_read_all(who):
            agent = agent_of(who, agent)
        agents = [agent, POOL] if agent else []
        after = want.after_event
        async with self.waiting.for_threads_of(who.namespace, agents or [""], self._bounded(want.wait_ms)) as news:
            while True:
                last, events, reset = await self.store.run(
                    "watch",
                    who.namespace,
                    after=after,
                    agents=",".join(agents),
                    statuses=",".join(want.status),
                    limit=EVENTS_MAX,
                    scan_max=SCAN_MAX,
                )
                scanned_on = after is not None and int(last) >= after + SCAN_MAX
                after = int(last)
                if events or reset:
                    return Watched(events, after, bool(reset))
                if not scanned_on and not (want.wait_ms and await news.comes()):
                    return Watched([], after, False)

    async def attention(self, who: Identity) -> Attention:
        """What needs a person, most urgent first; blocked threads whose question nobody has answered among it."""
        items = (await super().attention(who)).items
        blocked = await self.list_threads(who, statuses=["blocked"], limit=BLOCKED_SHOWN)
        items += [
            AttentionItem(
                task=thread.lease.agent if thread.lease else thread.assigned_to or "",
                why="blocked_thread",
                count=1,
                detail=f"{thread.subject}: {thread.summary}" if thread.summary else thread.subject,
                since_ms=thread.updated_at_ms,
                thread_id=thread.thread_id,
            )
            for thread in blocked.threads
            if thread.question_id
        ]
        return Attention(items=sorted(items, key=lambda item: (LOUDEST.index(item.why), item.task)))

    def _word(
        self, thread_id: str, message_id: str, content: Content, sender: str, sender_task: str, *aim: str | None
    ) -> dict[str, Any]:
        """A message of a thread, as the scripts take it. `aim` is what else makes a repeat the same."""
        content = content.model_copy(update={"thread_id": thread_id})
        tail = self._checked_tail(content, sender, sender_task, None, in_thread=True)
        return {
            "now_ms": self.clock.for_scripts,
            "thread_id": thread_id,
            "message_id": message_id,
            "sender": sender,
            "sender_task": sender_task,
            "priority": content.priority,
            "kind": content.kind,
            "tail": tail,
            "hash": content_hash(to_json([thread_id, *aim]), tail),
            "chars": content.chars,
            "awaiting": content.awaiting_response,
            "hops": content.hops,
        }

    def _said(
        self, who: Identity, thread_id: str, duplicate: int, row: Any, message: list[Any], *, viewer: str
    ) -> SaidInThread:
        said = SaidInThread(self._thread(thread_id, row, viewer=viewer), StoredMessage(*message), bool(duplicate))
        if not duplicate and said.message.state == b"queued":
            self._tally(who.namespace, 1)
        return said

    def _threads(self, rows: list[Any], now_ms: int, viewer: str) -> list[Thread]:
        return [self._thread(found.decode(), row, viewer=viewer, now_ms=now_ms) for found, row in rows]

    def _thread(
        self, thread_id: str, row: Any, *, viewer: str, now_ms: int | None = None, holder: str | None = None
    ) -> Thread:
        """As it is shown to one agent. Only the holder, when it claims or renews, is told the fencing token."""
        pairs = row.items() if isinstance(row, dict) else zip(row[::2], row[1::2], strict=True)
        fields = {name.decode(): value.decode() for name, value in pairs}
        now_ms = now_ms or self.clock.now_ms()
        lease = None
        if "lease_agent" in fields:
            released = fields.get("lease_released_at_ms")
            lease = Lease(
                agent=fields["lease_agent"],
                fencing_token=int(fields["fence"]) if holder == fields["lease_agent"] else None,
                claimed_at_ms=int(fields["lease_claimed_at_ms"]),
                expires_at_ms=int(fields["lease_expires_at_ms"]),
                released_at_ms=int(released) if released else None,
                live=released is None and "lease_expired" not in fields and int(fields["lease_expires_at_ms"]) > now_ms,
            )
        by_others = fields["last_n"] if fields["last_sender"] != _sender(viewer) else fields.get("prev_n", "0")
        return Thread(
            thread_id=thread_id,
            run_id=fields["run_id"] or None,
            task_id=fields["task_id"] or None,
            subject=fields["subject"],
            created_by=fields["created_by"],
            assigned_to=fields["assigned_to"] or None,
            status=fields["status"],
            priority=fields["priority"],
            summary=fields.get("summary") or None,
            question_id=fields.get("question_id"),
            opening_message_id=fields["opening_id"],
            latest_message_id=fields["latest_message_id"],
            messages=int(fields["messages"]),
            unread=viewer != "" and int(by_others) > int(fields.get(f"read:{viewer}", 0)),
            created_at_ms=int(fields["created_at_ms"]),
            updated_at_ms=int(fields["updated_at_ms"]),
            closed_at_ms=int(fields["closed_at_ms"]) if "closed_at_ms" in fields else None,
            lease=lease,
        )


def _in_full(name: str | None) -> str | None:
    """A sender as it is written: in threads a task may be named without its `task:`."""
    return name if name is None or name in ROLES or ":" in name else f"task:{name}"


def _fits_in_a_thread(new: NewMessage) -> None:
    if new.kind not in get_args(ReplyKind):
        raise InvalidRequest(f"A message of kind {new.kind} is not said inside a thread.")
    for name in ("topic", "ttl_ms", "supersedes"):
        if getattr(new, name) is not None:
            raise InvalidRequest(f"{name}: a message of a thread has none.", hint="Leave it out, or `thread_id`.")


def _sender(agent: str) -> str:
    return USER if agent == USER else f"task:{agent}"


def _content(
    words: Words,
    kind: str,
    *,
    priority: str = "normal",
    subject: str | None = None,
    awaiting: bool = False,
    otherwise: str = "",
) -> Content:
    """What a message of a thread says; `otherwise` where it says nothing."""
    silent = not (words.body or words.summary or words.artifacts) and words.payload is None
    return Content.model_validate(
        {
            "body": otherwise if silent else words.body,
            "kind": kind,
            "subject": subject,
            "summary": words.summary,
            "payload": words.payload,
            "priority": priority,
            "awaiting_response": awaiting,
            "artifacts": words.artifacts,
        }
    )


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:300]
