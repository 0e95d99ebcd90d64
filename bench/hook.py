"""What a hook adds to every tool call: `inbox hook` beside curl, a Python hook and hcom, each a process from start to end."""

from __future__ import annotations

import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import hatch_build

from bench.rig import Line, RunningBroker, broker, median, store

ROUNDS = 150
WARM_UP = 15
"""Rounds that are run first and not counted."""
WITH_MAIL = "inbox hook, one message shown and acked"
HCOM = "hcom post, an attached session"
PYTHON_HOOK = """
import json, os, sys, urllib.request
given = json.load(sys.stdin)
request = urllib.request.Request(
    os.environ["INBOX_URL"] + "/v1/hooks/claude",
    json.dumps(given).encode(),
    {"Authorization": "Bearer " + os.environ["INBOX_TOKEN"], "Content-Type": "application/json"},
)
with urllib.request.urlopen(request, timeout=1) as answer:
    sys.stdout.buffer.write(answer.read())
"""


class Skipped(Line):
    """A comparison that could not be made here."""

    def __init__(self, what: str) -> None:
        super().__init__(what, 0.0)

    def text(self) -> str:
        return self.what


@dataclass
class Bench:
    """One machine's worth of a host: a home, a session with a transcript, and the input a host gives after a tool call."""

    folder: Path
    running: RunningBroker
    inbox: Path

    def __post_init__(self) -> None:
        self.url = f"http://127.0.0.1:{self.running.port}"
        self.token = self.running.token("--role", "agent", "--task", "backend")
        self._sender = http.client.HTTPConnection("127.0.0.1", self.running.port, timeout=10)
        self._sending = {"Authorization": f"Bearer {self.running.token('--role', 'user')}"}
        self.env = {
            "HOME": str(self.folder),
            "PATH": os.environ["PATH"],
            "INBOX_URL": self.url,
            "INBOX_TOKEN": self.token,
        }
        self.transcript = self.folder / "transcript.jsonl"
        self.output = self.folder / "output"
        self._answers = 0
        self.answers()
        for session in ("quiet", "mail"):
            self.input(session).write_text(json.dumps(self.event(session)))

    def input(self, session: str) -> Path:
        return self.folder / f"{session}.json"

    def event(self, session: str) -> dict[str, object]:
        return {
            "session_id": f"5c1e0b52-6d0b-4c39-9f0e-{session}",
            "transcript_path": str(self.transcript),
            "cwd": str(self.folder),
            "prompt_id": "0f8e8b0c-6c1f-4d52-8c62-4b53b6d2f3ab",
            "permission_mode": "default",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "make test", "description": "Run the tests"},
            "tool_response": {"stdout": "tests/test_auth.py ....... [ 12%]\n" * 60, "stderr": "", "interrupted": False},
            "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
            "duration_ms": 1284,
        }

    def time(self, *command: str, session: str = "quiet", env: dict[str, str] | None = None) -> float:
        """From starting the process to its end, in milliseconds."""
        doing = [
            (os.POSIX_SPAWN_OPEN, 0, str(self.input(session)), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self.output), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        ]
        began = time.perf_counter()
        pid = os.posix_spawn(command[0], command, env or self.env, file_actions=doing)
        _, status, _ = os.wait4(pid, 0)
        took = time.perf_counter() - began
        if status != 0:
            raise RuntimeError(f"{command[0]} ended with {status}")
        return took * 1_000

    def send(self) -> None:
        self._sender.request(
            "POST", "/v1/tasks/backend/messages", b'{"body":"Do not touch auth.ts, I am in it."}', self._sending
        )
        answer = self._sender.getresponse()
        answer.read()
        if answer.status != 201:
            raise RuntimeError(f"a message was refused: {answer.status}")

    def answers(self, context: str = "") -> None:
        """The host writes down what it was told, and the model's next answer."""
        self._answers += 1
        with self.transcript.open("a") as file:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime())
            lines: list[dict[str, object]] = [
                {"type": "assistant", "message": {"id": f"msg_{self._answers}"}, "timestamp": stamp}
            ]
            if context:
                attachment = {"type": "hook_additional_context", "content": [context]}
                lines.insert(0, {"type": "attachment", "attachment": attachment, "timestamp": stamp})
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def time_with_mail(self) -> float:
        """A hook with one message waiting: it asks, prints, and acks. That the model saw it is told by the next one, not timed."""
        self.send()
        took = self.time(str(self.inbox), "hook", "claude", session="mail")
        said = json.loads(self.output.read_bytes())["hookSpecificOutput"]["additionalContext"]
        if "| Do not touch auth.ts" not in said:
            raise RuntimeError(f"not the mail: {said}")
        self.answers(said)
        self.time(str(self.inbox), "hook", "claude", session="mail")
        if self.output.stat().st_size:
            raise RuntimeError("the mail came twice")
        return took

    def resident_mb(self) -> float:
        """The most it ever held, mail printed and not yet acked: nobody reads its output, so there it stands."""
        self.send()
        out, into = os.pipe()
        os.set_blocking(into, False)
        try:
            while True:
                os.write(into, b" " * 4_096)
        except BlockingIOError:
            os.set_blocking(into, True)
        doing = [
            (os.POSIX_SPAWN_OPEN, 0, str(self.input("mail")), os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, into, 1),
        ]
        pid = os.posix_spawn(str(self.inbox), [str(self.inbox), "hook", "claude"], self.env, file_actions=doing)
        time.sleep(0.3)  # it waits a second for its reader
        # Not wait4's ru_maxrss: that begins with what the process that spawned it held.
        status = Path(f"/proc/{pid}/status").read_text()
        os.close(out)
        os.close(into)
        os.waitpid(pid, 0)
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def close(self) -> None:
        self._sender.close()


class NotAttached(Exception):
    """This hcom could not be brought to know a session, so there is nothing to compare with."""


class Hcom:
    """A Claude Code session that hcom started and that its hooks know: hcom has a stand-in to start, which only stays alive."""

    def __init__(self, bench: Bench, program: str) -> None:
        self.program = program
        self._bench = bench
        noted = bench.folder / "hcom-claude.env"
        stand_in = bench.folder / "hcom-bin" / "claude"
        stand_in.parent.mkdir()
        stand_in.write_text(f"#!/bin/sh\nenv -0 > {noted}.part && mv {noted}.part {noted}\nexec sleep 3600\n")
        stand_in.chmod(0o700)
        self.env = {"HOME": str(bench.folder), "PATH": f"{stand_in.parent}:{Path(program).parent}:/usr/bin:/bin"}
        self._run("claude", "-p", "wait")
        until = time.monotonic() + 10
        while not noted.exists():
            if time.monotonic() > until:
                raise NotAttached("it started no session")
            time.sleep(0.05)
        self.env = dict(pair.split("=", 1) for pair in noted.read_text().split("\0") if pair)
        self.name = self.env.get("HCOM_INSTANCE_NAME", "")
        started = {**bench.event("quiet"), "hook_event_name": "SessionStart", "source": "startup"}
        self._run("sessionstart", given=json.dumps(started))
        self.check()

    def check(self) -> None:
        """Its hook hands over a message, once: it does its whole work when it is timed."""
        self._run("send", f"@{self.name}", "--from", "bench", "--", "is anybody there")
        said = [self._run("post", given=self._bench.input("quiet").read_text()) for _ in range(2)]
        if "is anybody there" not in said[0] or said[1]:
            raise NotAttached("its hook did not hand over a message once")

    def end(self) -> None:
        self._run("kill", self.name)

    def _run(self, *words: str, given: str = "") -> str:
        done = subprocess.run(
            [self.program, *words], env=self.env, cwd=self._bench.folder, input=given, text=True,
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        if done.returncode:
            raise NotAttached(f"`hcom {words[0]}` ended with {done.returncode}")
        return done.stdout


def attach(bench: Bench, stack: ExitStack) -> Hcom | Skipped:
    program = shutil.which("hcom")
    if program is None:
        return Skipped("not compared with hcom: there is none here")
    try:
        attached = Hcom(bench, program)
    except NotAttached as reason:
        return Skipped(f"not compared with hcom: {reason}")
    stack.callback(attached.end)
    return attached


def run() -> Iterator[Line]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        inbox = folder / "inbox"
        hatch_build.build_binary(inbox, "bench")
        bench = Bench(folder, stack.enter_context(broker(stack.enter_context(store()))), inbox)
        stack.callback(bench.close)
        script = folder / "hook.py"
        script.write_text(PYTHON_HOOK)
        python = getattr(sys, "_base_executable", sys.executable)
        commands = {
            "inbox hook, no mail": [str(inbox), "hook", "claude"],
            "a Python hook (urllib), no mail": [python, str(script)],
        }
        curl = shutil.which("curl")
        if curl:
            commands["curl, the same request"] = [
                curl, "-s", "-X", "POST", "-H", f"Authorization: Bearer {bench.token}",
                "-H", "Content-Type: application/json", "--data-binary", "@-", f"{bench.url}/v1/hooks/claude",
            ]  # fmt: skip
        environments: dict[str, dict[str, str]] = {}
        hcom = attach(bench, stack)
        if isinstance(hcom, Hcom):
            commands[HCOM] = [hcom.program, "post"]
            environments[HCOM] = hcom.env
        took = _rounds(bench, commands, environments)
        if isinstance(hcom, Hcom):
            hcom.check()

        for name, values in took.items():
            yield Line(f"{name}, median", median(values), "ms")
        mine = took["inbox hook, no mail"]
        if curl:
            theirs = took["curl, the same request"]
            yield Line("inbox hook, no mail, of curl", _ratio(mine, theirs), "x", ("<=", 0.45))
        else:
            yield Skipped("not compared with curl: there is none here")
        theirs = took["a Python hook (urllib), no mail"]
        yield Line("inbox hook, no mail, of a Python hook", _ratio(mine, theirs), "x", ("<=", 0.125))
        if isinstance(hcom, Hcom):
            yield Line("inbox hook, no mail, of hcom post", _ratio(mine, took[HCOM]), "x", ("<", 1))
        else:
            yield hcom
        if curl:
            ratio = _ratio(took[WITH_MAIL], took["curl, the same request"])
            yield Line("inbox hook, one message shown and acked, of curl's one request", ratio, "x", ("<=", 0.8))
        if Path("/proc/self/status").exists():
            yield Line("inbox hook, resident at most", bench.resident_mb(), "MB", ("<=", 15))
        else:
            yield Skipped("how much it holds was not measured: there is no /proc here")


def _rounds(
    bench: Bench, commands: dict[str, list[str]], environments: dict[str, dict[str, str]]
) -> dict[str, list[float]]:
    """Every command once a round, in an order that changes, so that nobody always runs behind the same neighbour."""
    took: dict[str, list[float]] = {name: [] for name in [*commands, WITH_MAIL]}
    order = list(took)
    dice = random.Random(1)
    for round_ in range(WARM_UP + ROUNDS):
        dice.shuffle(order)
        for name in order:
            command = commands.get(name)
            ms = bench.time(*command, env=environments.get(name)) if command else bench.time_with_mail()
            if round_ >= WARM_UP:
                took[name].append(ms)
    return took


def _ratio(mine: list[float], theirs: list[float]) -> float:
    return median([one / other for one, other in zip(mine, theirs, strict=True)])
