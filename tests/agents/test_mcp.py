"""Real hosts that speak MCP to the broker: by its address, and by `inbox mcp`. What their model read is asked of its requests.

Neither host shows a model both forms of a result, so what is looked for is whichever it chose. A message is counted in the last
request, which holds the whole conversation: hooks, tools and the host's own socket together show it once.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.scripted_model import Call, ScriptedModel, Turn, turn
from tests.agents.terminal import ClaudeTerminal, CodexTerminal, Terminal, counts, holding, states
from tests.support.brokers import RunningBroker

MAIN = "begin-the-main-work"
OTHER = "begin-the-other-work"
BODY = "The cobalt heron flies at noon."
NOTICE = "for you in your inbox"
SOCKET_SINCE = (2, 1, 224)
WAYS = ["http", "stdio"]


def claude_calls(tool: str, **given: Any) -> Call:
    return Call(f"mcp__inbox__{tool}", given)


def codex_calls(tool: str, **given: Any) -> Call:
    return Call(tool, given, "mcp__inbox")


def bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "as it was written"})


class ClaudeWithTools(ClaudeTerminal):
    """Claude Code with the broker as a server of tools, and with our hooks or without."""

    way = "http"
    hooked_up = True
    idles = False
    """Whether it stays when its turn is over, as it does in a person's terminal."""

    def equip(self, *, way: str = "http", hooks: bool = True, idles: bool = False) -> None:
        self.way, self.hooked_up, self.idles = way, hooks, idles
        folder = self.home / ".claude"
        allowed = {"permissions": {"allow": ["Bash", "Read", "mcp__inbox"]}}
        (folder / "settings.json").write_text(json.dumps({**allowed, **(self.hooks() if hooks else {})}))
        by_address = {
            "type": "http",
            "url": f"{self.broker.url}/mcp",
            "headers": {"Authorization": f"Bearer {self.token}"},
        }
        by_program = {"type": "stdio", "command": str(self.inbox), "args": ["mcp"]}
        server = {**(by_address if way == "http" else by_program), "alwaysLoad": True}
        self.servers = self.home / "mcp.json"
        self.servers.write_text(json.dumps({"mcpServers": {"inbox": server}}))

    def command(self, prompt: str) -> list[str]:
        spoken = ["--input-format", "stream-json"] if self.idles else []
        said = [self.program, "-p", *([] if self.idles else [prompt])]
        return [*said, *spoken, "--output-format", "stream-json", "--verbose", "--mcp-config", str(self.servers)]

    def start(self, prompt: str) -> None:
        if not self.idles:
            super().start(prompt)
            return
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
        line = {"type": "user", "message": {"role": "user", "content": prompt}}
        assert self.running.stdin is not None
        self.running.stdin.write(json.dumps(line).encode() + b"\n")
        self.running.stdin.flush()

    def until_idle(self) -> None:
        """Its turn is over, and it waits for the person."""
        self.until(lambda: b'"type":"result"' in (self.home / "stdout").read_bytes(), "the end of its turn")

    def hang_up(self) -> None:
        """The person leaves."""
        assert self.running is not None
        assert self.running.stdin is not None
        self.running.stdin.close()
        self.finish()


class CodexWithTools(CodexTerminal):
    def equip(self, *, way: str = "http", hooks: bool = True) -> None:
        folder = self.home / ".codex"
        if not hooks:
            (folder / "hooks.json").unlink()
        by_address = f'url = "{self.broker.url}/mcp"\nbearer_token_env_var = "INBOX_TOKEN_OF_TEST"\n'
        by_program = f'command = "{self.inbox}"\nargs = ["mcp"]\n'
        with (folder / "config.toml").open("a") as config:
            config.write("[mcp_servers.inbox]\n" + (by_address if way == "http" else by_program))

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "INBOX_TOKEN_OF_TEST": self.token}


Claudes = Callable[[str], ClaudeWithTools]


@pytest.fixture
def claudes(
    claude_program: str, inbox_binary: Path, tmp_path: Path, broker: RunningBroker, model: ScriptedModel
) -> Iterator[Claudes]:
    """As many sessions of Claude Code as a test wants, one for each task."""
    made: list[Terminal] = []

    def one(task: str) -> ClaudeWithTools:
        terminal = ClaudeWithTools("claude", claude_program, tmp_path / task, inbox_binary, broker, model, task)
        made.append(terminal)
        return terminal

    yield one
    for terminal in made:
        terminal.close()


@pytest.fixture
def codex(
    codex_program: str, inbox_binary: Path, tmp_path: Path, broker: RunningBroker, model: ScriptedModel
) -> Iterator[CodexWithTools]:
    terminal = CodexWithTools("codex", codex_program, tmp_path / "home", inbox_binary, broker, model)
    yield terminal
    terminal.close()


def with_socket(claude: ClaudeWithTools) -> None:
    """Skips, loudly, where the host gives the programs it starts no way to speak to it."""
    said = subprocess.run([claude.program, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", said)
    assert found is not None
    if tuple(map(int, found.groups())) < SOCKET_SINCE:
        pytest.skip(f"NOT TESTED: Claude Code {found[0]} gives its servers no socket (from 2.1.224 on)")


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_calls_check_inbox_reads_its_mail_once(claudes: Claudes, way: str) -> None:
    claude = claudes("backend")
    claude.equip(way=way, hooks=False)
    message_id = claude.mail(BODY)
    claude.model.script(MAIN, turn(claude_calls("check_inbox")), turn(claude_calls("check_inbox")), turn("Done."))
    claude.run(MAIN)
    assert counts(claude, MAIN, BODY) == [0, 1, 1]
    assert counts(claude, MAIN, message_id) == [0, 1, 1]
    assert counts(claude, MAIN, "Your mailbox.") == [1, 1, 1]
    assert states(claude, message_id) == ["queued", "in_flight", "delivered"]


@pytest.mark.parametrize("way", WAYS)
def test_codex_too(codex: CodexWithTools, way: str) -> None:
    codex.equip(way=way, hooks=False)
    message_id = codex.mail(BODY)
    codex.model.script(MAIN, turn(codex_calls("check_inbox")), turn(codex_calls("check_inbox")), turn("Done."))
    codex.run(MAIN)
    assert counts(codex, MAIN, BODY) == [0, 1, 1]
    assert states(codex, message_id) == ["queued", "in_flight", "delivered"]
    # It says in each call which session it is: the one that its hooks are known by.
    assert codex.message(message_id)["message"]["delivered_to"] in (codex.home / "stdout").read_text()


@pytest.mark.parametrize("way", WAYS)
def test_what_a_hook_has_shown_comes_neither_by_check_inbox_nor_by_the_socket(claudes: Claudes, way: str) -> None:
    claude = claudes("backend")
    claude.equip(way=way)
    command, runs, let_go = holding(claude.worktree, "long")
    claude.model.script(
        MAIN, turn(bash(command)), turn(claude_calls("check_inbox")), turn(bash("sleep 3")), turn("Done.")
    )
    claude.start(MAIN)
    claude.until(runs, "the tool's run")
    message_id = claude.mail(BODY)
    let_go()
    claude.finish()
    assert counts(claude, MAIN, BODY) == [0, 1, 1, 1]
    assert counts(claude, MAIN, NOTICE)[-1] == 0
    assert states(claude, message_id)[:3] == ["queued", "in_flight", "delivered"]
    assert states(claude, message_id).count("delivered") == 1


def test_in_codex_what_a_hook_has_shown_does_not_come_by_check_inbox(codex: CodexWithTools) -> None:
    codex.equip()
    message_id = codex.mail(BODY)
    codex.model.script(MAIN, turn(codex_calls("check_inbox")), turn("Done."))
    codex.run(MAIN)
    assert counts(codex, MAIN, BODY) == [1, 1]
    assert states(codex, message_id) == ["queued", "in_flight", "delivered"]


def test_what_one_session_sends_to_its_peer_is_read_in_the_other_once(claudes: Claudes, codex: CodexWithTools) -> None:
    """The sender calls a tool; the reader's own hook shows it."""
    front = claudes("frontend")
    front.equip()
    codex.equip()
    with front.broker.client() as operator:
        operator.post("/v1/tasks/frontend/peers", json={"peers": ["backend"]}).raise_for_status()
    command, runs, let_go = holding(codex.worktree, "long")
    front.model.script(MAIN, turn(Call("exec_command", {"cmd": command})), turn("Done."))
    front.model.script(OTHER, turn(claude_calls("send_to_peer", body=BODY)), turn("Done."))
    codex.start(MAIN)
    codex.until(runs, "the tool's run")
    # Two programs, one model: each is finished by itself.
    front.start(OTHER)
    front.until(lambda: len(front.model.of(OTHER)) == 2, "the sender's last answer")
    let_go()
    codex.finish()
    front.finish()
    assert counts(codex, MAIN, BODY) == [0, 1]
    assert counts(codex, MAIN, "the agent of task frontend") == [0, 1]
    assert counts(codex, MAIN, "carry no authority") == [0, 1]


def woken(*turns: Turn) -> tuple[Turn, ...]:
    return (turn("Done for now."), *turns)


def test_an_idle_session_is_woken_and_its_hook_shows_the_mail_once(claudes: Claudes) -> None:
    claude = claudes("backend")
    with_socket(claude)
    claude.equip(way="stdio", idles=True)
    claude.model.script(MAIN, *woken(turn(claude_calls("check_inbox")), turn("Done.")))
    claude.start(MAIN)
    claude.until_idle()
    message_id = claude.mail(BODY)
    claude.until(lambda: len(claude.model.of(MAIN)) == 3, "what the woken session asks")
    claude.hang_up()
    # It came with the very words that woke the session, and check_inbox had none left.
    assert counts(claude, MAIN, BODY) == [0, 1, 1]
    assert counts(claude, MAIN, NOTICE) == [0, 1, 1]
    assert states(claude, message_id)[:3] == ["queued", "in_flight", "delivered"]
    assert states(claude, message_id).count("delivered") == 1


def test_without_hooks_a_woken_session_reads_its_mail_by_check_inbox(claudes: Claudes) -> None:
    claude = claudes("backend")
    with_socket(claude)
    claude.equip(way="stdio", hooks=False, idles=True)
    claude.model.script(MAIN, *woken(turn(claude_calls("check_inbox")), turn("Done.")))
    claude.start(MAIN)
    claude.until_idle()
    message_id = claude.mail(BODY)
    claude.until(lambda: len(claude.model.of(MAIN)) == 3, "what the woken session asks")
    claude.hang_up()
    assert counts(claude, MAIN, NOTICE) == [0, 1, 1]
    assert counts(claude, MAIN, BODY) == [0, 0, 1]
    assert states(claude, message_id) == ["queued", "in_flight", "delivered"]


def test_told_not_to_it_leaves_an_idle_session_alone(claudes: Claudes) -> None:
    claude = claudes("backend")
    with_socket(claude)
    claude.equip(way="stdio", hooks=False, idles=True)
    servers = json.loads(claude.servers.read_text())
    servers["mcpServers"]["inbox"]["env"] = {"INBOX_MCP_PUSH": "off"}
    claude.servers.write_text(json.dumps(servers))
    claude.model.script(MAIN, turn("Done for now."))
    claude.start(MAIN)
    claude.until_idle()
    message_id = claude.mail(BODY)
    with claude.broker.client() as operator:
        # As long as the other would have needed to be told, and longer.
        operator.get(f"/v1/tasks/{claude.task}/pending").raise_for_status()
        operator.post("/v1/tasks", json={"task": "nobody"}).raise_for_status()
        operator.get("/v1/tasks/nobody/pending?wait_ms=4000").raise_for_status()
    claude.hang_up()
    assert counts(claude, MAIN, NOTICE) == [0]
    assert states(claude, message_id) == ["queued"]
