"""The moments at which a host lets us speak, and what a host tells of such a moment. Pure; knows no host by name.

Hook input comes from programs that change under us: reading it never fails. A field that is absent, or of a type it should
not have, is None, and whoever needs it does without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Boundary(StrEnum):
    START = "start"
    PROMPT = "prompt"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    TURN_END = "turn_end"
    SUBAGENT_START = "subagent_start"
    SUBAGENT_END = "subagent_end"
    WAITS_FOR_PERSON = "waits_for_person"
    END = "end"
    NONE = "none"
    """Nothing may be said and no mail taken: note that the session lives, and no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookInput:
    """The few fields of a hook's stdin that anybody here looks at; never a tool's input or output."""

    session_id: str | None = None
    event: str | None = None
    """The host's own name of the moment (`hook_event_name`)."""
    transcript_path: str | None = None
    cwd: str | None = None
    tool_name: str | None = None
    agent_id: str | None = None
    """Set while a subagent runs; `session_id` stays its parent's."""
    agent_type: str | None = None
    stop_hook_active: bool = False
    """This turn already goes on because a hook asked for it."""
    last_assistant_message: str | None = None
    source: str | None = None
    """At the start: startup, resume, clear, compact or fork."""
    reason: str | None = None
    """At the end: why."""
    turn_id: str | None = None
    timestamp: str | int | None = None
    prompt: str | None = None
    message: str | None = None
    """While the person is waited for: what the host asks them."""

    @property
    def in_subagent(self) -> bool:
        return bool(self.agent_id)


def read_input(given: Mapping[str, Any]) -> HookInput:
    """Whatever can be understood of a hook's input; never raises."""
    timestamp = given.get("timestamp")
    if isinstance(timestamp, float):
        timestamp = int(timestamp) if abs(timestamp) < 1e18 else None
    return HookInput(
        session_id=_text(given, "session_id"),
        event=_text(given, "hook_event_name"),
        transcript_path=_text(given, "transcript_path"),
        cwd=_text(given, "cwd"),
        tool_name=_text(given, "tool_name"),
        agent_id=_text(given, "agent_id"),
        agent_type=_text(given, "agent_type"),
        stop_hook_active=given.get("stop_hook_active") is True,
        last_assistant_message=_text(given, "last_assistant_message"),
        source=_text(given, "source"),
        reason=_text(given, "reason"),
        turn_id=_text(given, "turn_id"),
        timestamp=timestamp if isinstance(timestamp, (str, int)) and not isinstance(timestamp, bool) else None,
        prompt=_text(given, "prompt"),
        message=_text(given, "message"),
    )


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    return value if isinstance(value, str) else None
