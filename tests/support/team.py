"""A leader and two workers at a broker, each at a shell of its own: a name that no other test knows, a token, a home."""

from __future__ import annotations

import fcntl
import re
import struct
import termios
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.support.brokers import RunningBroker
from tests.support.inbox import Inbox, Ran

LONG_LEASE_S = "600"
_sentence_and_hint = re.compile(r"inbox: \S.*[.?] \S").match


class Team:
    def __init__(self, binary: Path, running: RunningBroker, folder: Path, client: httpx2.Client) -> None:
        self.binary, self.running, self.folder, self.client = binary, running, folder, client
        self.mark = uuid.uuid4().hex[:8]
        self.leader, self.worker, self.other = (self.member(part) for part in ("leader", "worker", "other"))

    def name(self, part: str) -> str:
        return f"{part}-{self.mark}"

    def member(self, part: str, **more: str) -> Inbox:
        """An agent, declared, with a token of its own."""
        name = self.name(part)
        self.client.post("/v1/tasks", json={"task": name}).raise_for_status()
        made = self.client.post("/v1/tokens", json={"role": "agent", "task": name})
        made.raise_for_status()
        return Inbox(
            self.binary, self.folder / name, self.running.url, made.json()["token"], {"INBOX_TASK": name, **more}
        )

    def opened(self, *flags: str, to: str | None = "worker", subject: str = "Log-in fails") -> str:
        """A new thread of the leader's; for the worker unless told otherwise."""
        meant = ["--to", self.name(to)] if to else []
        return str(self.leader.said("send", *meant, "--subject", subject, *flags)["thread"]["thread_id"])

    def claimed(self, *flags: str, lease_s: str = LONG_LEASE_S) -> str:
        """A thread that the worker holds."""
        thread = self.opened(*flags)
        self.worker.ok("claim", "--thread", thread, "--lease-seconds", lease_s)
        return thread

    def history(self, thread: str) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.shown(thread)["messages"]
        return messages

    def shown(self, thread: str) -> Any:
        answer = self.client.get(f"/v1/threads/{thread}")
        answer.raise_for_status()
        return answer.json()

    def events(self, thread: str, after: int = 0) -> list[str]:
        """What happened to a thread, in short."""
        want = {"agent": self.name("leader"), "after_event": after}
        seen = self.client.post("/v1/threads/watch", json=want).json()["events"]
        return [event["type"].removeprefix("thread_") for event in seen if event["thread_id"] == thread]

    def message(self, message_id: str) -> Any:
        return self.client.get(f"/v1/messages/{message_id}").json()["message"]


@contextmanager
def team_at(binary: Path, running: RunningBroker, folder: Path) -> Iterator[Team]:
    with running.client() as client:
        yield Team(binary, running, folder, client)


def leases(someone: Inbox) -> list[Path]:
    """The files in which somebody's fencing tokens are kept."""
    return sorted((someone.home / ".cache" / "inbox" / "leases").glob("*/*"))


def told_well(ran: Ran, code: int) -> None:
    """A refusal as people are told it: one sentence and a hint in one line of stderr, nothing on stdout."""
    assert ran.code == code, ran
    assert ran.stdout == ""
    assert ran.stderr.startswith("inbox: ")
    assert ran.stderr.count("\n") == 1
    assert _sentence_and_hint(ran.stderr), "a sentence, and a hint behind it"


def bytes_in(pipe: int) -> int:
    """How much waits in a pipe to be read."""
    (count,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(count)
