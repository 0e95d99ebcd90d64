"""History: the timeline of a task, one message with all that happened to it, and bringing a dead letter back."""

from __future__ import annotations

from typing import NamedTuple

from inboxd.broker.cursors import read_cursor, write_cursor
from inboxd.broker.permission import may_manage, may_read_mail
from inboxd.broker.room import MINUTE_MS
from inboxd.broker.tasks import Tasks
from inboxd.errors import TaskUnknown
from inboxd.model import USER, Identity, Minute, StoredMessage

SCAN_MAX = 2_000
"""Rows one page of a filtered timeline looks at, at most."""


class Filters(NamedTuple):
    """What of a timeline is wanted; lists are comma-separated, empty is everything."""

    state: str = ""
    sender: str = ""
    kind: str = ""
    priority: str = ""
    direction: str = ""
    thread_id: str = ""


class History(Tasks):
    async def timeline(
        self,
        who: Identity,
        task: str,
        *,
        limit: int,
        cursor: str | None = None,
        only: Filters = Filters(),  # noqa: B008
    ) -> tuple[list[StoredMessage], str | None]:
        """Newest first, both directions. Never consumes."""
        may_read_mail(who, task)
        before = str(read_cursor(cursor, "timeline", [int])[0]) if cursor is not None else ""
        try:
            last, rows = await self.store.run(
                "timeline",
                who.namespace,
                task_id=task,
                before=before,
                limit=min(limit, self.settings.page_max),
                scan_max=SCAN_MAX,
                states=only.state,
                senders=only.sender,
                kinds=only.kind,
                priority=only.priority,
                direction=only.direction,
                thread_id=only.thread_id,
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, task, refusal) from None
        return [StoredMessage(*row) for row in rows], write_cursor("timeline", [int(last)]) if last else None

    async def show(self, who: Identity, message_id: str) -> tuple[StoredMessage, list[tuple[int, str, str]]]:
        """One message, and every step it took: when, into which state, by or for whom."""
        row, history, sender, task = await self.store.run("show", who.namespace, message_id=message_id)
        kind, _, sender_task = sender.decode().partition(":")
        # A sender without `task:` is a role, and a task may have the name of one.
        may_read_mail(who, task.decode(), *([sender_task] if kind == "task" else []))
        steps = []
        for line in history.decode().splitlines():
            at_ms, state, detail = line.split(" ", 2)
            steps.append((int(at_ms), state, detail))
        return StoredMessage(*row), steps

    async def stats(self, who: Identity, minutes: int = 60) -> list[Minute]:
        """How much was sent and delivered in each of the last minutes, oldest first; the last one is not over yet."""
        may_read_mail(who)
        await self._write_tallies(who.namespace)
        this, rows = await self.store.run("read_stats", who.namespace, now_ms=self.clock.for_scripts, minutes=minutes)
        found = []
        for minute, row in enumerate(rows, start=int(this) - minutes + 1):
            queued, delivered, waited_ms, pending = (int(value or 0) for value in row)
            found.append(
                Minute(
                    at_ms=minute * MINUTE_MS,
                    queued=queued,
                    delivered=delivered,
                    waited_ms=waited_ms // delivered if delivered else 0,
                    pending=pending,
                )
            )
        return found

    async def requeue(self, who: Identity, message_id: str) -> tuple[StoredMessage, int]:
        may_manage(who)
        by = {"user": USER, "agent": f"task:{who.task}"}.get(who.role, "operator")
        pending, row = await self.store.run(
            "requeue", who.namespace, now_ms=self.clock.for_scripts, message_id=message_id, by=by
        )
        return StoredMessage(*row), pending
