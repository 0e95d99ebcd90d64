"""Searching: what a person typed into the search form, as a question to the broker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import NamedTuple
from urllib.parse import urlencode

from inboxd import model
from inboxd.broker import Broker
from inboxd.edges.dashboard.reading import PAGE_ROWS, MessageView, views
from inboxd.edges.sessions import Session
from inboxd.errors import InboxdError, InvalidRequest

ROLES = ("user", "operator", "system")


class Wanted(NamedTuple):
    """The form as it was filled in. Times are those of a clock `tz` minutes ahead of UTC: at both, or at `since,until`."""

    q: str
    sender: str
    task: str
    since: str
    until: str
    tz: str

    @property
    def anything(self) -> bool:
        return any(self[:-1])

    @property
    def narrowed(self) -> bool:
        """Whether more than words are given: the form then shows the rest of itself."""
        return any(self[1:-1])

    def query(self, **more: str) -> str:
        given = {name: value for name, value in {**self._asdict(), **more}.items() if value}
        return urlencode(given)


@dataclass
class Found:
    messages: list[MessageView]
    more: str | None
    problem: str


async def search(broker: Broker, session: Session, wanted: Wanted, cursor: str | None) -> Found:
    """One page of what was found; a form that cannot be understood says why, in its place."""
    sender = wanted.sender
    if sender and sender not in ROLES and ":" not in sender:
        sender = f"task:{sender}"
    try:
        if wanted.task and not model.is_task_id(wanted.task):
            raise InvalidRequest(f"{wanted.task!r} is no name of a task.")
        if "," in sender:
            raise InvalidRequest("One sender at a time, please.")
        found, more = await broker.search(
            session.who,
            text=wanted.q,
            sender=sender,
            task=wanted.task or None,
            from_ms=_time_ms(wanted.since, wanted.tz.partition(",")[0]),
            to_ms=_time_ms(wanted.until, wanted.tz.rpartition(",")[2]),
            limit=PAGE_ROWS,
            cursor=cursor,
        )
    except InboxdError as problem:
        if problem.status >= 500:
            raise
        return Found([], None, f"{problem.message} {problem.hint or ''}".strip())
    return Found(await views(session, found), more, "")


def _time_ms(given: str, tz: str) -> int | None:
    if not given:
        return None
    try:
        at = datetime.fromisoformat(given)
        ahead = timedelta(minutes=int(tz or 0))
        if at.tzinfo is None:
            at = at.replace(tzinfo=timezone(ahead))
    except ValueError:
        raise InvalidRequest(f"{given!r} is no time.", hint="Write 2026-01-31 or 2026-01-31T12:00.") from None
    return max(0, int(at.timestamp() * 1000))
