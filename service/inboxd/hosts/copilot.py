"""Copilot CLI: context stands at the top of the answer, not inside `hookSpecificOutput`, and the hooks have a file of their own.

Of a repository it reads .github/hooks and .mcp.json, once the person trusts the folder. It also runs the hooks of a trusted
repository's .claude settings, so one moment may be told twice, once in Claude's name;
`recognise` sees through that. Eight continuations in a row are obeyed; ending with status 2 is not.
"""

from __future__ import annotations

from typing import Any

from inboxd.hosts.boundary import Boundary
from inboxd.hosts.host import Host
from inboxd.hosts.plan import Wish, shared_server, whole_json
from inboxd.model import PlanEdit


class Copilot(Host):
    def _context(self, event: str, text: str) -> dict[str, Any]:
        del event
        return {"additionalContext": text}

    def settings_entry(self, command: str) -> dict[str, Any]:
        entry = {"type": "command", "bash": command, "powershell": command, "timeoutSec": self.timeout}
        return {"version": 1, "hooks": {event: [dict(entry)] for event in self.hooked}}

    def _hooks_edit(self, wish: Wish) -> PlanEdit:
        words = wish.hook_words(self.name)
        entry = self.settings_entry(wish.run(*words))
        for hook in (hook for hooks in entry["hooks"].values() for hook in hooks):
            hook["powershell"] = wish.run_in_powershell(*words)
        return PlanEdit(what="hooks", file=self.hooks_file, form="whole", personal=True, text=whole_json(entry))

    def _server_edit(self, wish: Wish) -> PlanEdit:
        return shared_server(wish)


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
    settings_files=("~/.copilot/hooks/inboxd.json", ".github/hooks/inboxd.json"),
    program="copilot",
    signs=(".github/copilot", ".github/copilot-instructions.md"),
    hooks_file=".github/hooks/inboxd.json",
    instruction_file=".github/copilot-instructions.md",
    skills_folder=".agents/skills",
    timeout_unit="s",
    continuations_max=7,
    prompt_refires=True,
    notice="Copilot CLI runs the hooks of a folder only once you trust it: it asks when it is started here.",
)
