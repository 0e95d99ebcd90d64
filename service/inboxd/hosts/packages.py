"""The same as `inbox attach` writes, as packages that a host installs by itself: Claude Code's plugin, Gemini CLI's extension. Pure.

They are for whole teams, so they name `inbox` as it is found on the PATH, hold no address and no token, and do nothing where no
task is named: each worktree says whose mail it takes (.inbox/config.json), or the environment does (INBOX_TASK).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from inboxd import __version__
from inboxd.hosts import claude, gemini
from inboxd.hosts.plan import SERVER, SKILL, Wish, server, shared_server, whole_json
from inboxd.hosts.teaching import instruction_text, skill_text

Files = dict[str, str]
"""Paths within the package, and what stands in them."""

NAME: Final = "inboxd"
DESCRIPTION: Final = "Mail for running coding agents: messages from the person and from other agents, while you work."
WISH: Final = Wish()


def claude_plugin() -> Files:
    manifest = {
        "name": NAME,
        "version": __version__,
        "description": DESCRIPTION,
        "author": {"name": "inboxd"},
        "license": "Apache-2.0",
        "keywords": ["agents", "mail", "inbox", "hooks", "mcp"],
    }
    hooks = claude.HOST.settings_entry(WISH.run(*WISH.hook_words(claude.HOST.name)))
    servers = {"mcpServers": {SERVER: shared_server(WISH).additions[0].value}}
    return {
        ".claude-plugin/plugin.json": whole_json(manifest),
        "hooks/hooks.json": whole_json({"description": "Hands mail over at every boundary.", **hooks}),
        ".mcp.json": whole_json(servers),
        f"skills/{SKILL}/SKILL.md": skill_text(),
        "README.md": _readme("claude --plugin-dir deploy/claude-plugin"),
    }


def gemini_extension() -> Files:
    manifest = {
        "name": NAME,
        "version": __version__,
        "description": DESCRIPTION,
        "contextFileName": gemini.HOST.instruction_file,
        "mcpServers": {SERVER: server(WISH)},
    }
    hooks = gemini.HOST.settings_entry(WISH.run(*WISH.hook_words(gemini.HOST.name)))
    return {
        "gemini-extension.json": whole_json(manifest),
        "hooks/hooks.json": whole_json(hooks),
        gemini.HOST.instruction_file: instruction_text(),
        f"skills/{SKILL}/SKILL.md": skill_text(),
        "README.md": _readme("gemini extensions install deploy/gemini-extension"),
    }


PACKAGES: Final[dict[str, Callable[[], Files]]] = {"claude": claude_plugin, "gemini": gemini_extension}


def _readme(install: str) -> str:
    return f"""\
# inboxd

{DESCRIPTION}

Needs `inbox` on the PATH and a broker (`inboxd serve`). Without a task nothing happens: a worktree names its own in
`.inbox/config.json` (`inbox attach` writes it), or start the agent with `INBOX_TASK=backend`.

    {install}

Written by `inboxd hooks HOST --package FOLDER`; change it there.
"""
