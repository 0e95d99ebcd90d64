"""Codex: the strict one. One key it does not know, or `hookSpecificOutput` at Stop, and the whole answer is dropped.

More than about 2,500 tokens of output are cut and spilled into a file that everybody can read. It counts four bytes of UTF-8 as
a token, so characters alone are no measure: text that is not Latin also has to stay under a number of bytes. It was seen to go
on after any number of continuations: the cap is ours. SessionStart comes with the first prompt, not at launch.

It reads .codex only in projects that the person trusts, and runs only hooks that the person has looked at; both are written down in
its own config.toml. In a linked worktree it takes the hooks of the main checkout and everything else from the worktree (seen in
0.169): one hooks file serves all worktrees of a repository, and each session's folder says whose mail it takes.
"""

from __future__ import annotations

import json
from typing import Any, Final

from inboxd.hosts.boundary import Boundary
from inboxd.hosts.host import Host
from inboxd.hosts.plan import SERVER, TOML_MARKS, Wish
from inboxd.model import PlanEdit, TrustNote

WAKE_S: Final = 12 * 3_600


class Codex(Host):
    def _hooks_edit(self, wish: Wish) -> PlanEdit:
        return super()._hooks_edit(wish).model_copy(update={"base": "repository"})

    def _trust(self, wish: Wish) -> list[TrustNote]:
        return [
            TrustNote(
                what="project",
                folder="~/.codex",
                folder_env="CODEX_HOME",
                file="config.toml",
                any_of=['[projects."{worktree}"]', '[projects."{repository}"]'],
                hint="Start codex here once and trust the folder, or run `codex exec --trust`.",
            ),
            TrustNote(
                what="hooks",
                folder="~/.codex",
                folder_env="CODEX_HOME",
                file="config.toml",
                any_of=['"{repository}/.codex/hooks.json:'],
                least=len(self._hooks_edit(wish).additions),
                hint="Start codex here once, read the hooks it shows, and trust them.",
            ),
        ]

    def _wake_hooks(self, wish: Wish) -> dict[str, list[dict[str, Any]]]:
        queue = ["codex", "queue", "--thread", "{session}", "--message", "'Mail has come.'"]
        waits = {
            "type": "command",
            "command": wish.run("wake", self.name, "--", *queue),
            "async": True,
            "timeout": WAKE_S,
        }
        ends = {"type": "command", "command": wish.run("wake", self.name, "--end"), "timeout": self.timeout}
        return {"Stop": [{"hooks": [waits]}], "UserPromptSubmit": [{"hooks": [ends]}]}

    def _server_edit(self, wish: Wish) -> PlanEdit:
        table = f"mcp_servers.{SERVER}"
        # A JSON string of one line is a TOML string too.
        command = json.dumps(wish.binary, ensure_ascii=False)
        text = f'[{table}]\ncommand = {command}\nargs = ["mcp"]\n'
        return PlanEdit(
            what="mcp",
            file=".codex/config.toml",
            form="toml",
            personal=True,
            text=text,
            marks=TOML_MARKS,
            table=table,
        )


HOST = Codex(
    name="codex",
    events={
        "SessionStart": Boundary.START,
        "UserPromptSubmit": Boundary.PROMPT,
        "PostToolUse": Boundary.AFTER_TOOL,
        "Stop": Boundary.TURN_END,
        "SessionEnd": Boundary.END,
    },
    hooked={"SessionStart": None, "UserPromptSubmit": None, "PostToolUse": None, "Stop": None},
    settings_files=("~/.codex/hooks.json", ".codex/hooks.json"),
    program="codex",
    signs=(".codex",),
    hooks_file=".codex/hooks.json",
    instruction_file="AGENTS.md",
    skills_folder=".agents/skills",
    timeout_unit="s",
    context_chars_max=8_000,
    reason_chars_max=8_000,
    bytes_max=9_600,
    continuations_max=10,
    notice="Codex silently skips hooks that nobody trusted: start codex here once, trust the folder and the new hooks.",
)
