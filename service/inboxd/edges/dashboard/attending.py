"""Attending: what needs a person, each with what to do about it and the mail it is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from inboxd.broker import Broker
from inboxd.broker.history import Filters
from inboxd.edges.dashboard.reading import MessageView, named_messages, needs, views
from inboxd.edges.sessions import Session
from inboxd.errors import TaskUnknown, ThreadUnknown
from inboxd.model import AttentionItem, Task, Thread

SHOWN: Final = 5
"""Messages shown of one thing that needs a person."""


@dataclass
class NeedRow:
    item: AttentionItem
    task: Task | None
    messages: list[MessageView] = field(default_factory=list)
    thread: Thread | None = None

    @property
    def id(self) -> str:
        return f"{self.item.why}:{self.item.thread_id or self.item.task}"


async def rows_of(broker: Broker, session: Session) -> list[NeedRow]:
    items = await needs(broker, session)
    said = {item.thread_id for item in items if item.why == "blocked_thread"}
    tasks = {task.task: task for task in await broker.overview(session.who, sorted({item.task for item in items}))}
    return [await _row(broker, session, item, tasks.get(item.task), said) for item in items]


async def _row(
    broker: Broker, session: Session, item: AttentionItem, task: Task | None, said: set[str | None]
) -> NeedRow:
    row = NeedRow(item, task)
    if item.why == "waiting_for_answer" and task is not None:
        asked = await named_messages(broker, session, task.waiting_for[: SHOWN + len(said)])
        row.messages = [message for message in asked if message.m.thread_id not in said][:SHOWN]
    elif item.why in ("dead_letters", "urgent_unread"):
        only = Filters(state="dead") if item.why == "dead_letters" else Filters(state="queued", priority="urgent")
        row.messages = await _mail(broker, session, item.task, only._replace(direction="in"))
    elif item.why == "blocked_thread" and item.thread_id is not None:
        try:
            row.thread = (await broker.show_thread(session.who, item.thread_id, limit=1)).thread
        except ThreadUnknown:
            return row
        if row.thread.question_id:
            row.messages = await named_messages(broker, session, [row.thread.question_id])
    return row


async def _mail(broker: Broker, session: Session, task: str, only: Filters) -> list[MessageView]:
    try:
        found, _ = await broker.timeline(session.who, task, limit=SHOWN, only=only)
    except TaskUnknown:
        return []
    return await views(session, found)
