"""The `inbox` command as a person or an agent runs it: a real process with a home, a folder and an environment of its own.

Every run is checked for the one thing that must never happen: a token's secret in what is printed.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.brokers import clean_environment

WITHIN_S = 30
STRAYS = ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "NO_COLOR", "COLUMNS", "CLAUDE_PROJECT_DIR")


@dataclass
class Ran:
    """One command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def error(self) -> dict[str, Any]:
        said = self.json
        assert said["ok"] is False
        assert {*said["error"]} == {"code", "message", "hint", "retry_after_ms"}
        return dict(said["error"])


@dataclass
class Inbox:
    """Somebody at a shell: a home, a folder, and what the environment says of the broker."""

    binary: Path
    home: Path
    url: str = ""
    token: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.home / "work"
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in clean_environment().items() if name not in STRAYS}
        path = f"{self.binary.parent}{os.pathsep}{kept['PATH']}"
        given = {"INBOX_URL": self.url, "INBOX_TOKEN": self.token}
        named = {name: value for name, value in given.items() if value}
        return {**kept, "HOME": str(self.home), "PATH": path, "TERM": "xterm", **named, **self.more}

    @property
    def spool(self) -> Path:
        return self.home / ".cache" / "inbox" / "spool"

    def kept(self) -> list[Path]:
        return sorted(self.spool.glob("*.json"))

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.binary, *arguments],
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Ran:
        done = subprocess.run(
            [self.binary, *arguments],
            cwd=self.folder,
            env={**self.environment, **(env or {})},
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=WITHIN_S,
            check=False,
        )
        return self.checked(Ran(done.returncode, done.stdout.decode(), done.stderr.decode()))

    def ok(self, *arguments: str, stdin: str | bytes | None = None, env: Mapping[str, str] | None = None) -> Ran:
        ran = self.run(*arguments, stdin=stdin, env=env)
        assert ran.code == 0, ran
        return ran

    def said(self, *arguments: str, stdin: str | bytes | None = None) -> Any:
        """The JSON of a command that went well."""
        ran = self.ok(*arguments, "--json", stdin=stdin)
        assert ran.json["ok"] is True
        return ran.json

    def on_terminal(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """What a command prints where stdout is a terminal."""
        ours, its = pty.openpty()
        try:
            done = subprocess.Popen(
                [self.binary, *arguments],
                cwd=self.folder,
                env={**self.environment, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=its,
                stderr=subprocess.PIPE,
            )
            os.close(its)
            printed = b""
            while select.select([ours], [], [], WITHIN_S)[0]:
                try:
                    some = os.read(ours, 65_536)
                except OSError:
                    break
                if not some:
                    break
                printed += some
            done.communicate(timeout=WITHIN_S)
        finally:
            os.close(ours)
        return printed.decode()

    def checked(self, ran: Ran) -> Ran:
        secret = self.token.rpartition(".")[2]
        if len(secret) > 20:
            assert secret not in ran.stdout + ran.stderr
        return ran
