"""Codex: the strict one. One key it does not know, or `hookSpecificOutput` at Stop, and the whole answer is dropped.

More than about 2,500 tokens of output are cut and spilled into a file that everybody can read. It counts four bytes of UTF-8 as
a token, so characters alone are no measure: text that is not Latin also has to stay under a number of bytes. It was seen to go
on after any number of continuations: the cap is ours. SessionStart comes with the first prompt, not at launch.
"""

from __future__ import annotations

from inboxd.hosts.boundary import Boundary
from inboxd.hosts.host import Host

HOST = Host(
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
    timeout_unit="s",
    context_chars_max=8_000,
    reason_chars_max=8_000,
    bytes_max=9_600,
    continuations_max=10,
    notice="Codex silently skips hooks that nobody trusted: start codex once and trust the new hooks.",
)
