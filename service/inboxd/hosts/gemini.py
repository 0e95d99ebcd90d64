"""Gemini CLI: events of its own names, time-outs in milliseconds, and no mark on what happens inside a subagent.

A subagent runs between BeforeTool and AfterTool of the tool `invoke_agent`, and its tools fire the same events as the parent's.
So `hold_of` says when that stretch begins and ends, and the caller holds the mail meanwhile; BeforeTool is hooked for that tool
only, and says nothing. It was seen to go on after any number of continuations: the cap is ours.
"""

from __future__ import annotations

from typing import Final

from inboxd.hosts.boundary import Boundary, HookInput
from inboxd.hosts.host import Hold, Host

SUBAGENT_TOOL: Final = "invoke_agent"


class Gemini(Host):
    def hold_of(self, given: HookInput) -> Hold | None:
        if given.tool_name != SUBAGENT_TOOL:
            return None
        if given.event == "BeforeTool":
            return "begins"
        return "ends" if given.event == "AfterTool" else None


HOST = Gemini(
    name="gemini",
    events={
        "SessionStart": Boundary.START,
        "BeforeAgent": Boundary.PROMPT,
        "BeforeTool": Boundary.BEFORE_TOOL,
        "AfterTool": Boundary.AFTER_TOOL,
        "AfterAgent": Boundary.TURN_END,
        "SessionEnd": Boundary.END,
    },
    hooked={
        "SessionStart": None,
        "BeforeAgent": None,
        "BeforeTool": SUBAGENT_TOOL,
        "AfterTool": None,
        "AfterAgent": None,
    },
    settings_files=("~/.gemini/settings.json", ".gemini/settings.json"),
    program="gemini",
    signs=(".gemini",),
    hooks_file=".gemini/settings.json",
    instruction_file="GEMINI.md",
    skills_folder=".agents/skills",
    takes_comments=True,
    timeout_unit="ms",
    continuations_max=10,
    escapes_angles=True,
    prompt_refires=True,
    notice="Gemini CLI reads .gemini only in a folder that you trust: it asks when it is started here.",
)
