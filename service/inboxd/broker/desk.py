"""The desk: what a person does with mail at a screen: see all tasks, take back what nobody got, mark as read, search.

And the session such a screen has: a token of its own with an end, so that the person's token is never kept in a browser.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from pydantic_core import from_json, to_json

from inboxd.broker.cursors import read_cursor, write_cursor
from inboxd.broker.permission import may_act_for, may_read_all, may_take_back
from inboxd.broker.tasks import TASKS_MAX, urgency
from inboxd.broker.tokens import Tokens
from inboxd.errors import Forbidden, InvalidRequest, TaskUnknown
from inboxd.model import USER, Identity, NewToken, Role, StoredMessage, Task, TokenMade

DESK: Final = "dashboard"
"""The session that what a person read was delivered to."""
SESSION_LABEL: Final = "dashboard session"
SCANNED_AT_ONCE: Final = 2_000
"""Messages one script looks at, so that a search never blocks the store for long."""
SCANNED_CHARS: Final = 4_000_000
ASCII_ENOUGH: Final = 3
SCANNED_MAX: Final = 20_000
"""Messages one search looks at; then it answers with what it has, and a cursor."""


class Desk(Tokens):
    async def overview(self, who: Identity, names: list[str] | None = None) -> list[Task]:
        """All tasks, or those named that are there, most urgent first, in one reading."""
        if names is None:
            names = await self.store.task_ids(who.namespace, TASKS_MAX)
        return sorted(await self._read(who.namespace, names), key=urgency)

    async def last_event(self, who: Identity) -> int:
        """The number of the newest event: what is read after this is not older than that."""
        return await self.store.last_event(who.namespace)

    async def log(
        self, who: Identity, *, after: int = 0, before: int | None = None, limit: int = 100
    ) -> list[dict[str, Any]]:
        """The namespace's events between two of them, newest first."""
        if not may_read_all(who):
            raise Forbidden("An agent follows only its own mail.")
        lines = await self.store.events_back(who.namespace, before, after, min(limit, self.settings.page_max))
        return [from_json(line) for line in lines]

    async def take_back(self, who: Identity, message_id: str) -> tuple[StoredMessage, int]:
        """A message that nobody got, or a dead letter, is no longer meant."""
        sender, spared = may_take_back(who)
        pending, row = await self.store.run(
            "take_back",
            who.namespace,
            now_ms=self.clock.for_scripts,
            message_id=message_id,
            sender=sender,
            spared=spared,
        )
        return StoredMessage(*row), pending

    async def accept(self, who: Identity, message_ids: list[str]) -> tuple[list[str], list[str]]:
        """The person has read these: delivered and seen, wherever in the queue they stood. Returns those, and the ones that were not."""
        may_act_for(who, USER)
        try:
            done, lost, *delivered = await self.store.run(
                "accept",
                who.namespace,
                now_ms=self.clock.for_scripts,
                task_id=USER,
                session=DESK,
                ids=json.dumps(message_ids),
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, USER, refusal) from None
        self._tally(who.namespace, 0, *delivered)
        return [found.decode() for found in done], [found.decode() for found in lost]

    async def search(
        self,
        who: Identity,
        *,
        text: str = "",
        sender: str = "",
        task: str | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> tuple[list[StoredMessage], str | None]:
        """Messages that say something, newest first. An agent searches its own mail.

        A page may be short, even empty, with a cursor: it took long enough, and there is more to look through.
        """
        before = str(read_cursor(cursor, "search", [int])[0]) if cursor is not None else ""
        names = await self._searched(who, task)
        limit = min(limit, self.settings.page_max)
        wanted = text.casefold()
        found: list[StoredMessage] = []
        looked_at = 0
        while True:
            last, scanned, rows = await self.store.run(
                "search",
                who.namespace,
                names=json.dumps(names),
                before=before,
                needles=json.dumps(_needles(text)),
                senders=sender,
                from_ms=from_ms,
                to_ms=to_ms,
                limit=limit - len(found),
                scan_max=SCANNED_AT_ONCE,
                chars_max=SCANNED_CHARS,
            )
            found += [
                message for message in (StoredMessage(*row) for row in rows) if not wanted or _says(message, wanted)
            ]
            before = last.decode()
            looked_at += scanned
            if not before or len(found) >= limit or looked_at >= SCANNED_MAX:
                return found, write_cursor("search", [int(before)]) if before else None

    async def _searched(self, who: Identity, task: str | None) -> list[str]:
        """The tasks whose timelines are looked through."""
        if who.role == "agent":
            if task not in (None, who.task):
                raise Forbidden("An agent searches only its own mail.")
            assert who.task is not None
            return [who.task]
        if task is None:
            return await self.store.task_ids(who.namespace, TASKS_MAX)
        await self._known(who.namespace, task)
        return [task]

    async def open_session(self, who: Identity) -> TokenMade:
        """A token for a browser: as strong as its caller's, but with an end and a name of its own."""
        if who.role == "agent":
            raise Forbidden("An agent has no dashboard.", hint="Use a token of role user, or observer to look on.")
        return await self._session(who.namespace, who.role)

    async def open_session_by_code(self, code: str) -> TokenMade:
        """The same for a login code."""
        namespace, role = await self._redeem(code)
        return await self._session(namespace, role)

    async def _session(self, namespace: str, role: Role) -> TokenMade:
        return await self._make_token(
            namespace, NewToken(role=role, label=SESSION_LABEL, ttl_ms=self.settings.session_ms)
        )

    async def close_session(self, who: Identity) -> None:
        """The caller's own token opens nothing any more. Only a session's: others are revoked by whoever may make them."""
        record = await self.store.token(who.namespace, who.token_id)
        if record is not None and json.loads(record)["label"] != SESSION_LABEL:
            raise InvalidRequest("This token is not of a dashboard's session.", hint="`inboxd token revoke` ends it.")
        if record is not None:
            await self._revoke(who.namespace, who.token_id)

    async def close_sessions(self, who: Identity) -> int:
        """Every dashboard's session of the caller's role ends, this one too. Returns how many there were."""
        if who.role == "agent":
            raise Forbidden("An agent has no dashboard.")
        ended = 0
        for token_id, record in (await self.store.tokens(who.namespace)).items():
            known = json.loads(record)
            if known["label"] == SESSION_LABEL and known["role"] == who.role:
                await self._revoke(who.namespace, token_id)
                ended += 1
        return ended


def _needles(text: str) -> list[str]:
    """What a stored document has in it if it may say `text`: as JSON writes it, in small letters.

    The store knows small letters of ASCII only. So it looks for the longest part that is ASCII, and where there is hardly any for
    the whole text in small letters, in large ones, and as it was typed.
    """
    if not text:
        return []
    plain = max(re.findall(r"[\x00-\x7f]+", text), key=len, default="")
    if len(plain) >= ASCII_ENOUGH:
        spelt = {plain.lower()}
    else:
        spelt = {_ascii_lower(one) for one in (text, text.lower(), text.upper(), text.capitalize())}
    return sorted(to_json(one)[1:-1].decode() for one in spelt)


def _ascii_lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _says(message: StoredMessage, wanted: str) -> bool:
    content = from_json(message.doc)
    return any(wanted in (content.get(field) or "").casefold() for field in ("body", "subject", "summary"))
