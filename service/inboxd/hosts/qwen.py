"""Qwen Code: the events of Claude Code, the time-outs in milliseconds and the escaped angles of Gemini CLI.

The prompt event fires again with every tool result, not only when the person typed. Eight continuations in a row are obeyed.
"""

from __future__ import annotations

from inboxd.hosts.boundary import Boundary
from inboxd.hosts.host import Host

HOST = Host(
    name="qwen",
    events={
        "SessionStart": Boundary.START,
        "UserPromptSubmit": Boundary.PROMPT,
        "PostToolUse": Boundary.AFTER_TOOL,
        "PostToolUseFailure": Boundary.AFTER_TOOL,
        "Stop": Boundary.TURN_END,
        "SessionEnd": Boundary.END,
    },
    hooked={
        "SessionStart": None,
        "UserPromptSubmit": None,
        "PostToolUse": None,
        "PostToolUseFailure": None,
        "Stop": None,
    },
    settings_files=("~/.qwen/settings.json", ".qwen/settings.json"),
    program="qwen",
    signs=(".qwen",),
    hooks_file=".qwen/settings.json",
    instruction_file="QWEN.md",
    skills_folder=".qwen/skills",
    takes_comments=True,
    timeout_unit="ms",
    continuations_max=7,
    escapes_angles=True,
    prompt_refires=True,
)
