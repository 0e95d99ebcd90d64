"""Plans: what has to change in a worktree's files so that a host takes part, as edits that know no host. Pure.

`inbox attach` carries them out. It knows how to add to JSON without disturbing the rest, how to keep a block between two marks,
and how to undo all of it; what stands in them is decided here. Paths are relative, with `/`: to the worktree, or, for what a host
reads only in the main checkout of a repository, to that.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from inboxd.model import PlanAddition, PlanEdit, PlanOurs

SERVER: Final = "inbox"
"""What the MCP server is called in every host."""
SKILL: Final = "inboxd"

TEXT_MARKS: Final = ("<!-- inbox attach: begin -->", "<!-- inbox attach: end -->")
TOML_MARKS: Final = ("# inbox attach: begin", "# inbox attach: end")

_OURS_LIKE: Final = r"""(^|[\s/\\"'])inbox(\.exe)?["']?\s+(hook|wake)\b|(^|[/\\])inbox(\.exe)?$"""
"""A command of ours, whichever binary an earlier attach named: the hooks' whole command lines, the MCP server's program."""


OURS: Final = PlanOurs(names=["command", "bash", "powershell"], like=_OURS_LIKE)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What was asked of `inbox attach`."""

    binary: str = "inbox"
    windows: bool = False
    remind: bool = False
    wake: bool = False

    def hook_words(self, host: str) -> list[str]:
        return ["hook", host, *(["--remind"] if self.remind else [])]

    def run(self, *words: str) -> str:
        """The binary with these words, as a shell's command line."""
        # On Windows two kinds of shell may read it, and both take double quotes.
        binary = f'"{self.binary}"' if self.windows else shlex.quote(self.binary)
        return " ".join([binary, *words])

    def run_in_powershell(self, *words: str) -> str:
        return " ".join(["& '" + self.binary.replace("'", "''") + "'", *words])


def hook_additions(entry: Mapping[str, Any]) -> list[PlanAddition]:
    """The `hooks` member of a host's settings, as additions: ours come last, so that nobody else's place in a list changes."""
    return [
        PlanAddition(path=["hooks", event], how="append", value=group)
        for event, groups in entry["hooks"].items()
        for group in groups
    ]


def server(wish: Wish) -> dict[str, Any]:
    """The MCP server as most hosts take it. It finds token and task by itself, so that no file but ours holds them."""
    return {"command": wish.binary, "args": ["mcp"]}


def shared_server(wish: Wish) -> PlanEdit:
    """`.mcp.json`, which more than one host reads: the same for each of them."""
    # Without alwaysLoad a host may hide the tools until the model looks for them.
    value = {"type": "stdio", **server(wish), "alwaysLoad": True}
    return PlanEdit(
        what="mcp",
        file=".mcp.json",
        form="json",
        personal=True,
        additions=[PlanAddition(path=["mcpServers", SERVER], how="set", value=value)],
        ours=OURS,
    )


def instruction(file: str, text: str) -> PlanEdit:
    return PlanEdit(what="instruction", file=file, form="block", text=text, marks=TEXT_MARKS)


def skill(folder: str, text: str) -> PlanEdit:
    return PlanEdit(what="skill", file=f"{folder}/{SKILL}/SKILL.md", form="whole", text=text)


def whole_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"
