"""After `inbox attach` and nothing else, real programs take their mail: in a plain folder, in a linked worktree, and from sleep.

What the person still does is theirs: allowing tools, trusting a folder and its hooks. It is given here as each program takes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.scripted_model import Call, ScriptedModel, turn
from tests.agents.terminal import TASK, ClaudeTerminal, CodexTerminal, Terminal, counts, holding, states
from tests.agents.test_claude import bash, until_written
from tests.support.brokers import RunningBroker
from tests.support.worktree import git, repository, tree

MAIN = "begin-the-main-work"
BODY = "The cobalt heron flies at noon."
LATER = "The amber heron sleeps at dusk."
PLUGIN = Path(__file__).parents[2] / "deploy" / "claude-plugin"


class Attached(Terminal):
    """A worktree in which nobody did anything but `inbox attach`."""

    flags: tuple[str, ...] = ()

    def attach(self) -> None:
        self.prepare()
        self.inbox_command("attach", "--task", TASK, "--host", self.host, *self.flags)

    def prepare(self) -> None:
        """What the worktree is, before."""

    def inbox_command(self, *words: str) -> str:
        environment = {**Terminal.environment(self), "INBOXD_DATA_DIR": str(self.broker.data_dir)}
        done = subprocess.run(
            [self.inbox, *words], cwd=self.worktree, env=environment, capture_output=True, text=True, timeout=30, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


class AttachedClaude(Attached, ClaudeTerminal):
    def set_up(self) -> None:
        self.settings({})


class AttachedCodex(Attached, CodexTerminal):
    def set_up(self) -> None:
        super().set_up()
        (self.home / ".codex" / "hooks.json").unlink()
        with (self.home / ".codex" / "config.toml").open("a") as config:
            config.write(f'[projects."{self.project()}"]\ntrust_level = "trusted"\n')

    def project(self) -> Path:
        """The folder that the person is asked to trust."""
        return self.worktree


class PluggedClaude(ClaudeTerminal):
    """The plugin instead: the worktree only says whose it is."""

    def set_up(self) -> None:
        self.settings({})

    def command(self, prompt: str) -> list[str]:
        return [*super().command(prompt), "--plugin-dir", str(PLUGIN)]

    def environment(self) -> dict[str, str]:
        found = super().environment()
        return {**found, "PATH": f"{self.inbox.parent}{os.pathsep}{found['PATH']}"}


class Linked(Attached):
    """A linked worktree, as `inbox new` makes them."""

    def prepare(self) -> None:
        self.worktree.rmdir()
        git(repository(self.home / "main"), "worktree", "add", "--quiet", str(self.worktree), "-b", "side")


class LinkedClaude(Linked, AttachedClaude):
    pass


class LinkedCodex(Linked, AttachedCodex):
    def project(self) -> Path:
        return self.home / "main"


class Sleeping(AttachedClaude):
    """A session that stays when its turn is over, and is spoken to through a pipe."""

    flags = ("--wake",)

    def command(self, prompt: str) -> list[str]:
        return [self.program, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]

    def start(self, prompt: str) -> None:
        with (self.home / "stdout").open("wb") as stdout, (self.home / "stderr").open("wb") as stderr:
            self.running = subprocess.Popen(
                self.command(prompt),
                cwd=self.worktree,
                env=self.environment(),
                stdin=subprocess.PIPE,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.say(prompt)

    def say(self, prompt: str) -> None:
        assert self.running is not None
        assert self.running.stdin is not None
        line = {"type": "user", "message": {"role": "user", "content": prompt}}
        self.running.stdin.write(json.dumps(line).encode() + b"\n")
        self.running.stdin.flush()

    def close(self) -> None:
        super().close()
        if self.running is not None and self.running.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.running.stdin.close()

    def waits(self) -> bool:
        """Whether somebody in the background waits for mail."""
        return any((self.home / ".cache" / "inbox" / "sessions").glob("*/wake"))


Makes = Callable[[type[Terminal]], Any]


@pytest.fixture
def at(
    request: pytest.FixtureRequest, inbox_binary: Path, tmp_path: Path, broker: RunningBroker, model: ScriptedModel
) -> Iterator[Makes]:
    made: list[Terminal] = []

    def make(kind: type[Terminal]) -> Terminal:
        host = "claude" if issubclass(kind, ClaudeTerminal) else "codex"
        program = request.getfixturevalue(f"{host}_program")
        made.append(kind(host, program, tmp_path / "home", inbox_binary, broker, model))
        return made[-1]

    yield make
    for terminal in made:
        terminal.close()


def tool(terminal: Terminal, command: str) -> Call:
    return bash(command) if isinstance(terminal, ClaudeTerminal) else Call("exec_command", {"cmd": command})


@pytest.mark.parametrize("kind", [AttachedClaude, AttachedCodex, LinkedClaude, LinkedCodex, PluggedClaude])
def test_mail_sent_while_a_tool_runs_is_read_at_the_next_step_once(at: Makes, kind: type[Terminal]) -> None:
    terminal = at(kind)
    command, runs, let_go = holding(terminal.worktree, "long")
    last = until_written() if isinstance(terminal, ClaudeTerminal) else tool(terminal, "true")
    terminal.model.script(MAIN, turn(tool(terminal, command)), turn(last), turn("Done."))
    terminal.start(MAIN)
    terminal.until(runs, "the tool's run")
    message_id = terminal.mail(BODY)
    let_go()
    terminal.finish()
    assert counts(terminal, MAIN, BODY) == [0, 1, 1]
    assert counts(terminal, MAIN, "you are the agent of task backend") == [1, 1, 1]
    if kind is not PluggedClaude:
        assert counts(terminal, MAIN, "## Mail while you work") == [1, 1, 1]
    assert all(count > 0 for count in counts(terminal, MAIN, "shared work as threads"))
    assert states(terminal, message_id)[:3] == ["queued", "in_flight", "delivered"]


@pytest.mark.parametrize("kind", [AttachedClaude, AttachedCodex])
def test_a_session_that_is_resumed_after_a_kill_reads_what_it_had_not_and_nothing_twice(
    at: Makes, kind: type[Terminal]
) -> None:
    terminal = at(kind)
    first, first_runs, let_first_go = holding(terminal.worktree, "first")
    second, second_runs, _ = holding(terminal.worktree, "second")
    calls = (tool(terminal, command) for command in (first, second, "true"))
    terminal.model.script(MAIN, *map(turn, calls), turn("Done."))
    terminal.start(MAIN)
    terminal.until(first_runs, "the first tool's run")
    terminal.mail(BODY)
    let_first_go()
    terminal.until(second_runs, "the second tool's run")
    assert counts(terminal, MAIN, BODY) == [0, 1]
    terminal.until(lambda: BODY in terminal.transcript(), "the first message in what the program keeps")
    terminal.mail(LATER)
    terminal.kill()
    terminal.run("Go on, please.")
    assert counts(terminal, MAIN, BODY) == [0, 1, 1, 1]
    assert counts(terminal, MAIN, LATER) == [0, 0, 1, 1]


@pytest.mark.parametrize("kind", [AttachedClaude, AttachedCodex])
def test_after_detach_no_hook_runs_and_no_mail_is_taken(at: Makes, kind: type[Attached]) -> None:
    terminal = at(kind)
    terminal.inbox_command("detach")
    assert tree(terminal.worktree) == {}
    message_id = terminal.mail(BODY)
    terminal.model.script(MAIN, turn(tool(terminal, "true")), turn("Done."))
    terminal.run(MAIN)
    assert counts(terminal, MAIN, BODY) == [0, 0]
    assert states(terminal, message_id) == ["queued"]


def test_codex_says_nothing_of_hooks_that_nobody_trusts_and_status_does(at: Makes) -> None:
    codex = at(AttachedCodex)
    codex.trusted = False
    message_id = codex.mail(BODY)
    codex.model.script(MAIN, turn(tool(codex, "true")), turn("Done."))
    codex.run(MAIN)
    assert states(codex, message_id) == ["queued"]
    with pytest.raises(AssertionError):
        codex.inbox_command("attach", "--status")


def test_a_session_that_sleeps_is_woken_by_its_mail_and_reads_it_once(at: Makes) -> None:
    claude = at(Sleeping)
    claude.model.script(MAIN, turn("Done."), turn(until_written()), turn("Done with the mail."))
    claude.start(MAIN)
    claude.until(lambda: len(claude.model.of(MAIN)) == 1 and claude.waits(), "the wait in the background")
    message_id = claude.mail(BODY)
    claude.until(lambda: len(claude.model.of(MAIN)) == 3, "the turn after the mail")
    assert counts(claude, MAIN, BODY) == [0, 1, 1]
    claude.until(lambda: states(claude, message_id)[-1] in ("delivered", "seen"), "the message's delivery")
    assert states(claude, message_id).count("in_flight") == 1
