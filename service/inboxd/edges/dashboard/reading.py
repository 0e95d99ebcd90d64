"""Reading: what the templates are given. Asks the broker, decides nothing; a page and its live parts are read by the same functions."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from inboxd.broker import Broker
from inboxd.broker.asking import message_id_of
from inboxd.broker.cursors import write_cursor
from inboxd.broker.history import Filters
from inboxd.broker.tasks import urgency
from inboxd.edges.markdown import render
from inboxd.edges.sessions import Session
from inboxd.errors import MessageUnknown
from inboxd.model import USER, AttentionItem, Message, StoredMessage, Task

FOLD_CHARS: Final = 2_000
FOLD_LINES: Final = 60
"""A longer body is folded: the page gets its start, the rest comes when asked for."""
FOLDED_CHARS: Final = 1_200
FOLDED_LINES: Final = 30
PAGE_ROWS: Final = 30
UNREAD_MAX: Final = 200
UNREAD_ROUNDS: Final = 20
"""Pieces of a timeline looked through for unread mail."""
MANAGERS: Final = ("admin", "user", "operator")


@dataclass
class MessageView:
    """One message, as this session sees it."""

    m: Message
    body: Markup
    folded: int
    """Characters of the whole body, if only its start is shown."""
    cursor: str
    can_take_back: bool
    can_requeue: bool
    can_accept: bool
    answers_go_to: str | None

    @property
    def unread(self) -> bool:
        return self.m.state in ("queued", "in_flight", "dead")

    @property
    def outcome(self) -> str:
        """What became of it, if it was not delivered."""
        if self.m.state == "superseded":
            return "taken back" if self.m.reason == "taken_back" else "replaced by a newer one"
        if self.m.state == "dead":
            why = {
                "hold_ran_out": "no session acknowledged it",
                "released": "every session handed it back",
                "session_ended": "its sessions ended first",
                "unseen": "the model never saw it",
            }.get(self.m.reason or "", self.m.reason or "it could not be delivered")
            return f"dead letter after {self.m.attempts} tries: {why}"
        return {"expired": "expired before anybody took it", "noted": "said in its thread"}.get(self.m.state, "")


def fold(text: str) -> tuple[str, int]:
    """The part of a body to show, and the size of the whole if that is not all."""
    if len(text) <= FOLD_CHARS and text.count("\n") < FOLD_LINES:
        return text, 0
    start = "\n".join(text.split("\n", FOLDED_LINES)[:FOLDED_LINES])
    if len(start) > FOLDED_CHARS:
        cut = start.rfind("\n", FOLDED_CHARS // 2, FOLDED_CHARS)
        start = start[: cut if cut > 0 else FOLDED_CHARS]
    return start.rstrip() + " …", len(text)


def message_of(stored: StoredMessage) -> Message:
    return Message.model_validate_json(stored.as_json())


async def view(session: Session, stored: StoredMessage, *, whole: bool = False) -> MessageView:
    message = message_of(stored)
    text, folded = (message.body, 0) if whole else fold(message.body)
    body = render(text)
    # Rendering is work; mail that others wait for comes between two messages.
    await asyncio.sleep(0)
    role = session.who.role
    mine_to_take_back = role in ("admin", "user") or (role == "operator" and message.sender != USER)
    sender = USER if message.sender == USER else message.sender.removeprefix("task:") if ":" in message.sender else None
    return MessageView(
        m=message,
        body=body,
        folded=folded,
        cursor=write_cursor("timeline", [message.n]),
        can_take_back=mine_to_take_back and message.state in ("queued", "dead") and message.task != USER,
        can_requeue=role in MANAGERS and message.state == "dead",
        can_accept=session.is_person and message.task == USER and message.state in ("queued", "delivered", "dead"),
        answers_go_to=sender if session.speaks and sender != USER else None,
    )


async def views(session: Session, found: list[StoredMessage]) -> list[MessageView]:
    return [await view(session, stored) for stored in found]


async def named_messages(broker: Broker, session: Session, ids: list[str]) -> list[MessageView]:
    """These messages, newest first; those that are gone are left out."""
    found = []
    for message_id in ids:
        try:
            stored, _ = await broker.show(session.who, message_id)
        except MessageUnknown:
            continue
        found.append(await view(session, stored))
    return sorted(found, key=lambda one: -one.m.n)


async def unread(broker: Broker, session: Session) -> tuple[list[MessageView], bool]:
    """The person's mail that was not read yet, most urgent first, newest first within; and whether there is more."""
    found, more = await _unread(broker, session)
    if more:
        # What is loud is shown before newer mail that is not, however old it is.
        loud, _ = await _unread(broker, session, priority="urgent,high")
        known = {message_id_of(stored) for stored in loud}
        found = [*loud, *(stored for stored in found if message_id_of(stored) not in known)]
    rows = await views(session, found[:UNREAD_MAX])
    ranks = {"urgent": 0, "high": 1, "normal": 2, "low": 3}
    rows.sort(key=lambda one: (ranks[one.m.priority], -one.m.n))
    return rows, more


async def _unread(broker: Broker, session: Session, *, priority: str = "") -> tuple[list[StoredMessage], bool]:
    found: list[StoredMessage] = []
    cursor = None
    only = Filters(state="queued,in_flight,dead", direction="in", priority=priority)
    for _ in range(UNREAD_ROUNDS):
        page, cursor = await broker.timeline(session.who, USER, limit=UNREAD_MAX, cursor=cursor, only=only)
        found += page
        if cursor is None or len(found) >= UNREAD_MAX:
            break
    return found, len(found) > UNREAD_MAX or (len(found) == UNREAD_MAX and cursor is not None)


def order_of(task: Task) -> str:
    """A task's place in the list as text that sorts the same way, for a page that moves single rows."""
    over, loud, less_pending, less_heard, name = urgency(task)
    return f"{over}{loud}{10**9 + less_pending:010d}{10**15 + less_heard:016d}{name}"


async def needs(broker: Broker, session: Session) -> list[AttentionItem]:
    """What needs a person. What the person waits for is not among it, and a blocked thread's question is said once."""
    items = (await broker.attention(session.who)).items
    blocked = Counter(item.task for item in items if item.why == "blocked_thread")
    found = []
    for item in items:
        if item.why == "waiting_for_answer":
            left = 0 if item.task == USER else item.count - blocked[item.task]
            if left <= 0:
                continue
            item = item.model_copy(update={"count": left})  # noqa: PLW2901
        found.append(item)
    return found


@dataclass
class Counts:
    """The numbers beside the names of the views."""

    inbox: int
    inbox_urgent: int
    attention: int


async def counts(broker: Broker, session: Session) -> Counts:
    mine = await broker.overview(session.who, [USER])
    return Counts(
        inbox=mine[0].pending if mine else 0,
        inbox_urgent=mine[0].urgent if mine else 0,
        attention=len(await needs(broker, session)),
    )
