"""A person's terminal with an agent's program in it: a home, a worktree and an environment of its own, and nothing of this machine's.

The programs are looked for, never installed and never shipped. They speak to the scripted model with a key that opens nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from inboxd.hosts import HOSTS
from tests.agents.scripted_model import ScriptedModel
from tests.support.brokers import RunningBroker
from tests.support.servers import poll_until

AGENTS_DIR = "AGENTS_DIR"
"""Names a folder in which npm installed agents' programs, where they are not on PATH."""
WITHIN_MS = 19_000
NOWHERE = "http://127.0.0.1:9"
PACKAGES = {"claude": "@anthropic-ai/claude-code", "codex": "@openai/codex"}
TASK = "backend"


def find_program(name: str) -> str | None:
    folder = os.environ.get(AGENTS_DIR)
    places = [str(Path(folder) / "node_modules" / ".bin")] if folder else []
    return shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))


def program(name: str) -> str:
    """Where the program is; without it the test is skipped, loudly."""
    found = find_program(name)
    if found is None:
        pytest.skip(f"NOT TESTED: {name} is not installed (npm install -g {PACKAGES[name]})")
    return found


@dataclass
class Terminal:
    """What the two kinds share; `host` is the name by which inboxd knows the program."""

    host: str
    program: str
    home: Path
    inbox: Path
    broker: RunningBroker
    model: ScriptedModel
    task: str = TASK
    resumes: bool = False
    """Whether the next start goes on with the last session."""
    running: subprocess.Popen[bytes] | None = field(init=False, default=None)

    sessions: ClassVar[str]
    """Where the program keeps what was said."""

    def __post_init__(self) -> None:
        self.worktree = self.home / "worktree"
        self.worktree.mkdir(parents=True)
        self.log = self.home / "hooks.log"
        self.attach()
        self.set_up()

    # what the person does

    def attach(self) -> None:
        """What the hooks need to find the broker, in the worktree."""
        with self.broker.client() as operator:
            operator.post("/v1/tasks", json={"task": self.task}).raise_for_status()
            made = operator.post("/v1/tokens", json={"role": "agent", "task": self.task})
        token = made.raise_for_status().json()["token"]
        config = self.worktree / ".inbox" / "config.json"
        config.parent.mkdir()
        config.touch(0o600)
        self.token = token
        config.write_text(json.dumps({"url": self.broker.url, "token": token, "task": self.task}))

    def set_up(self) -> None:
        raise NotImplementedError

    def command(self, prompt: str) -> list[str]:
        raise NotImplementedError

    def hooks(self, command: str | None = None) -> dict[str, Any]:
        return HOSTS[self.host].settings_entry(command or f"{self.inbox} hook {self.host} --log {self.log}")

    def environment(self) -> dict[str, str]:
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), NOWHERE)
        direct = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **proxies, **direct}

    def start(self, prompt: str) -> None:
        with (self.home / "stdout").open("wb") as stdout, (self.home / "stderr").open("wb") as stderr:
            self.running = subprocess.Popen(
                self.command(prompt),
                cwd=self.worktree,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    def finish(self) -> None:
        """Until the program has ended by itself, having said all that was written for it."""
        assert self.running is not None
        try:
            code = self.running.wait(WITHIN_MS / 1_000)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.host} did not end\n{self.told()}")
        assert code == 0, self.told()
        assert self.model.faults == [], self.told()
        assert self.model.left() == 0, self.told()

    def run(self, prompt: str) -> None:
        self.start(prompt)
        self.finish()

    def kill(self) -> None:
        """The power fails: it ends in the middle of what it does, and goes on when it is started the next time."""
        assert self.running is not None
        os.killpg(self.running.pid, signal.SIGKILL)
        self.running.wait()
        self.resumes = True

    def close(self) -> None:
        """Nothing it started outlives the test: neither its process group, nor a tool that was not let go, which has its own."""
        for here in self.worktree.glob("*.here"):
            here.with_suffix(".go").touch()
        if self.running is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()

    def told(self) -> str:
        parts = [(self.home / name).read_text()[-3_000:] for name in ("stdout", "stderr")]
        hooks = self.log.read_text() if self.log.exists() else "(no hook ran)"
        asked = [request.conversation for request in self.model.requests]
        return "\n".join([*parts, hooks, f"requests: {asked}"])

    # the rest of the world

    def until(self, true: Callable[[], object], what: str) -> None:
        def asked() -> object:
            assert self.running is None or self.running.poll() is None or true(), self.told()
            return true()

        poll_until(asked, what=what, limit_ms=WITHIN_MS)

    def mail(self, body: str, **fields: Any) -> str:
        """Somebody sends the agent a message; its id."""
        message_id = f"m-{uuid.uuid4().hex[:12]}"
        with self.broker.client() as operator:
            new = {"message_id": message_id, "body": body, **fields}
            operator.post(f"/v1/tasks/{self.task}/messages", json=new).raise_for_status()
        return message_id

    def message(self, message_id: str) -> dict[str, Any]:
        """The message with its history, as the broker knows it."""
        with self.broker.client() as operator:
            found: dict[str, Any] = operator.get(f"/v1/messages/{message_id}").raise_for_status().json()
        return found

    def transcript(self) -> str:
        """What the program has written down so far."""
        return "".join(file.read_text() for file in self.home.glob(f".{self.host}/{self.sessions}"))

    def hooked(self, event: str) -> list[str]:
        """The log's lines of one event."""
        return [line for line in self.log.read_text().splitlines() if line.split()[2] == event]


class ClaudeTerminal(Terminal):
    sessions = "projects/*/*.jsonl"

    def set_up(self) -> None:
        self.settings(self.hooks())

    def settings(self, hooks: dict[str, Any]) -> None:
        folder = self.home / ".claude"
        folder.mkdir(exist_ok=True)
        allowed = {"permissions": {"allow": ["Bash", "Read", "Edit", "Write", "Task", "Agent"]}}
        (folder / "settings.json").write_text(json.dumps({**allowed, **hooks}))

    def command(self, prompt: str) -> list[str]:
        session = ["--continue"] if self.resumes else []
        return [self.program, "-p", prompt, *session, "--output-format", "stream-json", "--verbose"]

    def environment(self) -> dict[str, str]:
        quiet = (
            "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER", "DISABLE_BUG_COMMAND",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
        )  # fmt: skip
        key = {"ANTHROPIC_BASE_URL": self.model.url, "ANTHROPIC_API_KEY": "opens-nothing"}
        return {**super().environment(), **dict.fromkeys(quiet, "1"), **key}


class CodexTerminal(Terminal):
    sessions = "sessions/**/*.jsonl"
    trusted = True
    """Whether the person has looked at the hooks and trusts them."""

    def set_up(self) -> None:
        folder = self.home / ".codex"
        folder.mkdir()
        (folder / "hooks.json").write_text(json.dumps(self.hooks()))
        (folder / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "scripted"\n'
            f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{self.model.url}/v1"\n'
            'wire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
        )

    def command(self, prompt: str) -> list[str]:
        flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json"]
        trust = ["--dangerously-bypass-hook-trust"] if self.trusted else []
        session = ["resume", "--last"] if self.resumes else []
        return [self.program, "exec", *flags, *trust, *session, prompt]

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "SCRIPTED_KEY": "opens-nothing"}


def holding(folder: Path, name: str) -> tuple[str, Callable[[], bool], Callable[[], None]]:
    """A shell command that runs until it is let go: the command, whether it runs, and the letting go."""
    here, go = folder / f"{name}.here", folder / f"{name}.go"
    return f"touch {here}; until test -e {go}; do sleep 0.02; done; echo {name} done", here.exists, go.touch


def counts(terminal: Terminal, conversation: str, words: str) -> list[int]:
    """How often the words stand in each request of a conversation, oldest first."""
    return [request.count(words) for request in terminal.model.of(conversation)]


def states(terminal: Terminal, message_id: str) -> list[str]:
    """What became of a message, step by step."""
    return [step["state"] for step in terminal.message(message_id)["history"]]
