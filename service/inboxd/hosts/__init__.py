"""All that inboxd knows of the programs agents run in, one room each, and the framing they share. Pure: no I/O, no clock.

Imports nothing of ours but the vocabulary. A host that changes its dialect is mended here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from inboxd.errors import InvalidRequest
from inboxd.hosts import claude, codex, copilot, gemini, qwen
from inboxd.hosts.boundary import Boundary, HookInput, read_input
from inboxd.hosts.host import AnswerKind, Hold, Host
from inboxd.hosts.plan import Wish
from inboxd.hosts.teaching import skill_text

__all__ = [
    "HOSTS",
    "AnswerKind",
    "Boundary",
    "Hold",
    "HookInput",
    "Host",
    "Wish",
    "read_input",
    "recognise",
    "skill_text",
]

HOSTS: Final[dict[str, Host]] = {
    host.name: host for host in (claude.HOST, codex.HOST, gemini.HOST, qwen.HOST, copilot.HOST)
}


def recognise(named: str | None, given: Mapping[str, Any]) -> Host:
    """The host that speaks: the one named, unless its own words prove another; unnamed and unproven, Claude Code.

    One host may run another's hooks, under the other's name. An answer in the wrong dialect is dropped, so what the input
    proves outweighs the name.
    """
    if named is not None and named not in HOSTS:
        raise InvalidRequest(f"No host is called {named!r}.", hint=f"Known hosts: {', '.join(HOSTS)}.")
    return HOSTS[_proven(given) or named or "claude"]


def _proven(given: Mapping[str, Any]) -> str | None:
    read = read_input(given)
    if read.event is not None and read.event.startswith(("Before", "After")):
        return "gemini"
    if read.turn_id:
        return "codex"
    if read.timestamp is None or read.timestamp == "":
        return None
    if read.transcript_path is None:
        return "copilot"
    # An empty path is a host that has transcripts and no file yet: it proves nothing.
    return "qwen" if ".qwen" in read.transcript_path.replace("\\", "/").split("/") else None
