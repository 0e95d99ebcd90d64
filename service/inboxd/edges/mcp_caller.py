"""Who speaks MCP to us: the token's identity, the task it acts for, and what names its session and its calls. No MCP in here.

A call that is made again must be known as the same call. A request's number does not do: clients count from nought again after every
start, and two of them may share a token. So a call is named by, in this order: what the host itself calls it (`_meta`); an
`Idempotency-Key`; its number in a session that we gave a name (`Mcp-Session-Id`). Without any of these every call is a new one.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import to_json

from inboxd.broker import Broker
from inboxd.broker.history import Filters
from inboxd.edges import mcp_words as words
from inboxd.edges.mcp_tool import ToolCall
from inboxd.model import Identity

IN_SCOPE: Final = "inboxd.mcp_caller"
_session_fits = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}\Z").match


@dataclass(slots=True)
class McpCaller:
    broker: Broker
    who: Identity
    token: str
    task: str | None
    mail_only: bool
    said: dict[bytes, bytes]
    """The request's headers."""
    request_id: str

    @property
    def uri(self) -> str:
        return f"inbox://{self.task}"

    def header(self, name: bytes) -> str | None:
        value = self.said.get(name)
        return None if value is None else value.decode("latin-1")

    def call(self, name: str, given: dict[str, Any], meta: Any, number: Any) -> ToolCall:
        meta = meta if isinstance(meta, dict) else {}
        session = self._session(meta)
        return ToolCall(
            broker=self.broker,
            who=self.who,
            task=self.task,
            session=session,
            call_id=self._call_id(session, name, given, meta, number),
            call_hash=self.call_hash(number),
            request_id=self.request_id,
        )

    def call_hash(self, number: Any) -> str | None:
        """The name of a request of this session, by which another may call it off."""
        named = _named("session", self.header(b"mcp-session-id"), number)
        return hashlib.sha256(to_json([self.who.token_id, named])).hexdigest()[:40] if named else None

    async def headers(self, most: int) -> dict[str, Any]:
        """What waits, without taking it."""
        assert self.task is not None
        counts = await self.broker.pending(self.who, self.task)
        rows, _ = await self.broker.timeline(
            self.who, self.task, limit=most, only=Filters(state="queued", direction="in")
        )
        now_ms = self.broker.clock.now_ms()
        heads = []
        for row in rows:
            head = words.header(row, now_ms)
            del head["preview"]
            heads.append(head)
        return {"task": self.task, "pending": counts.pending, "urgent": counts.urgent, "messages": heads}

    def _session(self, meta: dict[str, Any]) -> str:
        """The reader that mail is handed to: the host's own session where it says which, so that hooks and tools are one reader."""
        for named in (self.header(b"inbox-session"), meta.get("sessionId")):
            if isinstance(named, str) and _session_fits(named):
                return named
        return f"mcp-{self.who.token_id}"

    def _call_id(self, session: str, name: str, given: dict[str, Any], meta: dict[str, Any], number: Any) -> str | None:
        named = (
            _named("claude", meta.get("claudecode/toolUseId"))
            or _named("codex", meta.get("sessionId"), meta.get("callId"))
            or _named("key", self.header(b"idempotency-key"))
            or _named("session", self.header(b"mcp-session-id"), number)
        )
        if named is None:
            return None
        # What it asks for is part of its name: a host that gives one name to two different calls is told what it asked for.
        try:
            whole = to_json([self.who.token_id, self.task, session, named, name, given])
        except ValueError:
            return None  # half a character, which the SDK lets in: the tool says what is wrong with it
        return f"mcp-{hashlib.sha256(whole).hexdigest()[:40]}"


def _named(how: str, *parts: Any) -> list[Any] | None:
    for part in parts:
        if not isinstance(part, (str, int)) or part == "":
            return None
    return [how, *parts]
