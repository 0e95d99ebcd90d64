"""Copilot CLI: context stands at the top of the answer, not inside `hookSpecificOutput`, and the hooks have a file of their own.

It also runs the hooks of a trusted repository's .claude/settings.json, so one moment may be told twice, once in Claude's name;
`recognise` sees through that. Eight continuations in a row are obeyed; ending with status 2 is not.
"""

from __future__ import annotations

from typing import Any

from inboxd.hosts.boundary import Boundary
from inboxd.hosts.host import Host


class Copilot(Host):
    def _context(self, event: str, text: str) -> dict[str, Any]:
        del event
        return {"additionalContext": text}

    def settings_entry(self, command: str) -> dict[str, Any]:
        entry = {"type": "command", "bash": command, "powershell": command, "timeoutSec": self.timeout}
        return {"version": 1, "hooks": {event: [dict(entry)] for event in self.hooked}}


HOST = Copilot(
    name="copilot",
    events={
        "SessionStart": Boundary.START,
        "UserPromptSubmit": Boundary.PROMPT,
        "PostToolUse": Boundary.AFTER_TOOL,
        "Stop": Boundary.TURN_END,
        "SessionEnd": Boundary.END,
    },
    hooked={"SessionStart": None, "UserPromptSubmit": None, "PostToolUse": None, "Stop": None},
    settings_files=("~/.copilot/hooks/inboxd.json",),
    timeout_unit="s",
    continuations_max=7,
    prompt_refires=True,
)
