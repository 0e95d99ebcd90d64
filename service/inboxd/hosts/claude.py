"""Claude Code: every boundary there is, and the only host seen to pass a refusal's reason on to the model (the urgent gate).

Its context is cut at 10,000 UTF-16 units and arrives without tags on current models, within `<system-reminder>` on older ones.
Eight continuations in a row are obeyed and the ninth is ignored, so we stop at seven. SessionEnd and Notification hear nobody.
"""

from __future__ import annotations

from typing import Any, Final

from inboxd.hosts.boundary import Boundary, HookInput
from inboxd.hosts.host import Host
from inboxd.hosts.plan import Wish, shared_server
from inboxd.model import PlanEdit

WAKE_S: Final = 12 * 3_600
"""How long an idle session can be woken. The host ends what runs longer."""


class Claude(Host):
    def boundary_of(self, given: HookInput) -> Boundary:
        # Internal agents end without a type; what is said to them reaches nobody.
        if given.event == "SubagentStop" and not given.agent_type:
            return Boundary.NONE
        return super().boundary_of(given)

    def _continuation(self, event: str, text: str) -> dict[str, Any]:
        # The reason of a blocked Stop is shown to the model twice (seen in 2.1.327). Context keeps the turn going just as well,
        # under the same cap, and is shown once.
        return self._context(event, text) if event == "Stop" else super()._continuation(event, text)

    def _server_edit(self, wish: Wish) -> PlanEdit:
        return shared_server(wish)

    def _wake_hooks(self, wish: Wish) -> dict[str, list[dict[str, Any]]]:
        waits = {
            "type": "command",
            "command": wish.run("wake", self.name),
            "asyncRewake": True,
            "timeout": WAKE_S,
        }
        # When the person speaks, the session is awake: mail comes with its steps again.
        ends = {"type": "command", "command": wish.run("wake", self.name, "--end"), "timeout": self.timeout}
        return {
            "Stop": [{"hooks": [waits]}],
            "UserPromptSubmit": [{"hooks": [ends]}],
            "SessionEnd": [{"hooks": [ends]}],
        }


HOST = Claude(
    name="claude",
    events={
        "SessionStart": Boundary.START,
        "UserPromptSubmit": Boundary.PROMPT,
        "PreToolUse": Boundary.BEFORE_TOOL,
        "PostToolUse": Boundary.AFTER_TOOL,
        "PostToolUseFailure": Boundary.AFTER_TOOL,
        "PostToolBatch": Boundary.AFTER_TOOL,
        "SubagentStart": Boundary.SUBAGENT_START,
        "SubagentStop": Boundary.SUBAGENT_END,
        "Stop": Boundary.TURN_END,
        "Notification": Boundary.WAITS_FOR_PERSON,
        "SessionEnd": Boundary.END,
    },
    # Not PostToolBatch: it follows the tools' own events, and would only ask a second time.
    hooked={
        "SessionStart": None,
        "UserPromptSubmit": None,
        "PreToolUse": "*",
        "PostToolUse": "*",
        "PostToolUseFailure": "*",
        "SubagentStart": None,
        "SubagentStop": None,
        "Stop": None,
        "Notification": None,
        "SessionEnd": None,
    },
    settings_files=("~/.claude/settings.json", ".claude/settings.json"),
    program="claude",
    signs=(".claude",),
    hooks_file=".claude/settings.local.json",
    instruction_file="CLAUDE.md",
    skills_folder=".claude/skills",
    timeout_unit="s",
    context_chars_max=9_000,
    reason_chars_max=9_000,
    continuations_max=7,
    gates=True,
    notice="Claude Code asks once, in its terminal, whether to use the MCP server inbox of .mcp.json.",
)
