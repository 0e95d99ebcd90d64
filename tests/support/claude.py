"""Claude Code as `inbox hook` meets it: it runs the hook, takes in what a finished hook printed, and writes a transcript.

What stands in the transcript is what the model got, so it is also what is counted: a message was shown as often as its words stand
there. `take_in` is the host's part; a test that kills a hook, or lets the host throw its output away, leaves it out.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.brokers import clean_environment

WITHIN_S = 30
_words_of = re.compile(r"\| the words of (\S+)").findall


def words(message_id: str) -> str:
    """A body by which a showing of the message is known."""
    return f"the words of {message_id}"


@dataclass
class Ended:
    """A hook that ended by itself."""

    code: int
    stdout: bytes
    stderr: bytes
    ms: float

    @property
    def silent(self) -> bool:
        return (self.code, self.stdout, self.stderr) == (0, b"", b"")

    @property
    def said(self) -> str:
        """The context it hands to the model."""
        assert (self.code, self.stderr) == (0, b""), self
        return str(json.loads(self.stdout)["hookSpecificOutput"]["additionalContext"])


@dataclass
class Claude:
    """One session, on an account of its own."""

    binary: Path
    home: Path
    url: str
    token: str
    session: str = "5c1e0b52-6d0b-4c39-9f0e-0a5f0e6f2b11"
    results: bool = True
    """Whether the transcript has the tools' results too, as the real one does."""
    _tools: int = field(init=False, default=0)
    _answers: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.folder = self.home / "work"
        self.folder.mkdir(parents=True)
        self.transcript = self.home / "transcript.jsonl"
        self.env = {
            name: value for name, value in clean_environment().items() if not name.startswith(("XDG_", "CLAUDE"))
        } | {"HOME": str(self.home), "INBOX_URL": self.url, "INBOX_TOKEN": self.token}
        self.write({"type": "user", "message": {"role": "user", "content": "Go on."}})
        self.answers()

    # What the host tells its hooks

    def event(self, name: str = "PostToolUse", **more: Any) -> dict[str, Any]:
        given = {
            "session_id": self.session,
            "transcript_path": str(self.transcript),
            "cwd": str(self.folder),
            "prompt_id": "8a52",
            "permission_mode": "default",
            "hook_event_name": name,
        }
        if "ToolUse" in name:
            self._tools += 1
            given |= {"tool_name": "Bash", "tool_use_id": f"toolu_{self._tools}", "tool_input": {"command": "make"}}
        if name == "PostToolUse":
            given |= {"tool_response": {"stdout": "ok\n" * 20, "stderr": "", "interrupted": False}, "duration_ms": 12}
        return {**given, **more}

    def start(
        self, given: dict[str, Any] | None = None, *flags: str, host: str = "claude", stdout: int = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        """A hook that runs, its input given."""
        running = subprocess.Popen(
            [self.binary, "hook", *([host] if host else []), *flags],
            stdin=subprocess.PIPE,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=self.folder,
        )
        assert running.stdin is not None
        running.stdin.write(json.dumps(self.event() if given is None else given).encode())
        running.stdin.close()
        running.stdin = None
        return running

    def run(self, given: dict[str, Any] | None = None, *flags: str, host: str = "claude") -> Ended:
        began = time.monotonic()
        running = self.start(given, *flags, host=host)
        stdout, stderr = running.communicate(timeout=WITHIN_S)
        return Ended(running.returncode, stdout, stderr, (time.monotonic() - began) * 1_000)

    # What the host writes down

    def write(self, *lines: dict[str, Any]) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self.transcript.open("a") as file:
            for line in lines:
                file.write(json.dumps({**line, "timestamp": stamp}, separators=(",", ":")) + "\n")

    def takes_result(self, given: dict[str, Any]) -> None:
        """The result of the tool call after which a hook ran."""
        if self.results and "tool_use_id" in given:
            content = [{"tool_use_id": given["tool_use_id"], "type": "tool_result", "content": "ok"}]
            self.write({"type": "user", "message": {"role": "user", "content": content}})

    def takes_in(self, stdout: bytes) -> None:
        """What a hook printed becomes context. That it was printed is written down too, which says nothing of the model."""
        if stdout:
            printed = {"type": "hook_success", "content": "", "stdout": stdout.decode(), "exitCode": 0}
            text = json.loads(stdout)["hookSpecificOutput"]["additionalContext"]
            told = {"type": "hook_additional_context", "content": [text]}
            self.write(*({"type": "attachment", "attachment": one} for one in (printed, told)))

    def answers(self) -> None:
        """The model speaks: it has got whatever stands before this."""
        self._answers += 1
        content = [{"type": "text", "text": "On it."}]
        message = {"id": f"msg_{self._answers}", "type": "message", "role": "assistant", "content": content}
        self.write({"type": "assistant", "message": message, "requestId": f"req_{self._answers}"})

    def step(self, given: dict[str, Any] | None = None, *flags: str) -> Ended:
        """One tool call: the hook, its words taken in, the model's next answer."""
        given = self.event() if given is None else given
        ended = self.run(given, *flags)
        self.takes_result(given)
        self.takes_in(ended.stdout)
        self.answers()
        return ended

    def shown(self, from_byte: int = 0) -> Counter[str]:
        """How often each message came before the model, from the line on that is next behind this place."""
        found: Counter[str] = Counter()
        with self.transcript.open("rb") as file:
            file.seek(from_byte)
            if from_byte:
                file.readline()
            for line in map(json.loads, file):
                if line["type"] == "attachment" and line["attachment"]["type"] == "hook_additional_context":
                    found.update(_words_of(line["attachment"]["content"][0]))
        return found

    def notes(self) -> list[Path]:
        """What hooks left for the next one."""
        return sorted(self.home.glob("**/inbox/sessions/*/*.json"))

    def breakers(self) -> list[Path]:
        return sorted(self.home.glob("**/inbox/breakers/*"))


def full_pipe() -> tuple[int, int]:
    """A pipe with no room left: whoever writes into it waits until somebody reads."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    try:
        while True:
            os.write(into, b"\n" * 4_096)
    except BlockingIOError:
        os.set_blocking(into, True)
    return out, into
