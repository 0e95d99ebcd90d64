"""`inbox hook` between a host and a real broker: what is printed, what becomes of the mail, and what does not happen when a hook is
killed at the worst moments.

A transcript stands for the model, as in test_hook_chaos.py. Between hook and broker stands a gate that can stop the traffic at a
named place, so that a kill hits exactly there.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.claude import WITHIN_S, Claude, Ended, full_pipe, words
from tests.support.servers import free_port, poll_until

pytestmark = pytest.mark.xdist_group("inbox-hooks")

HOLD_MS = 3_000
DEADLINE_MS = 1_000
"""Of one hook, by default."""
SLACK_MS = 1_500
"""Starting a process on a busy machine takes its time."""


class Gate:
    """A way to the broker that stops where it is told: `<before|behind> <path>`, before a request is passed on, or behind it, when
    the broker has done its work and the answer is not passed back."""

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream)
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self.stop_at = ""
        self.stopped = threading.Event()
        self.when_asked: Callable[[str], None] = lambda path: None
        """Called with the path of each request, before it is passed on."""
        self.requests: list[str] = []
        self.answers: list[bytes] = []
        """Bodies."""

    def __enter__(self) -> Gate:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for one in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: Callable[..., None], *given: Any) -> None:
        thread = threading.Thread(target=target, args=given)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._sockets.append(connection)
                self._start(self._serve, connection)

    def _serve(self, hook: socket.socket) -> None:
        assert self._upstream.port is not None
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._upstream.port)) as broker:
            self._sockets.append(broker)
            requests, answers = hook.makefile("rb"), broker.makefile("rb")
            while found := _message(requests):
                path = found[0].split(b" ", 2)[1].decode()
                self.requests.append(path)
                self.when_asked(path)
                if self._stops("before", path):
                    return
                broker.sendall(found[0] + found[1])
                head, body = _message(answers)
                self.answers.append(body)
                if self._stops("behind", path):
                    return
                hook.sendall(head + body)

    def _stops(self, side: str, path: str) -> bool:
        """Stopping is saying nothing more, with the connection open."""
        where, _, part = self.stop_at.partition(" ")
        if where != side or part not in path:
            return False
        self.stop_at = ""
        self.stopped.set()
        return True


def _message(stream: Any) -> tuple[bytes, bytes] | tuple[()]:
    """One request or answer: everything before its body, and its body."""
    head, length = b"", 0
    while line := stream.readline():
        head += line
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if line == b"\r\n":
            return head, stream.read(length)
    return ()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker"), "--hook-hold-ms", str(HOLD_MS)) as running:
        yield running


@pytest.fixture
def gate(broker: RunningBroker) -> Iterator[Gate]:
    with Gate(broker.url) as standing:
        yield standing


class Mailbox:
    """The sending side: a task that no other test knows, and what became of its mail."""

    def __init__(self, broker: RunningBroker) -> None:
        self.client = broker.client()
        self.task = f"t-{uuid.uuid4().hex[:10]}"
        self.post("/v1/tasks", task=self.task)

    def post(self, path: str, **body: Any) -> Any:
        return self.client.post(path, json=body).raise_for_status().json()

    def get(self, path: str) -> Any:
        return self.client.get(path).raise_for_status().json()

    def send(self, name: str = "m", *, more_words: str = "", **more: Any) -> str:
        message_id = f"{name}-{self.task}"
        body = words(message_id) + more_words
        self.post(f"/v1/tasks/{self.task}/messages", message_id=message_id, body=body, **more)
        return message_id

    def life(self, message_id: str) -> list[str]:
        """The states a message went through."""
        return [step["state"] for step in self.get(f"/v1/messages/{message_id}")["history"]]

    def token(self) -> str:
        return str(self.post("/v1/tokens", role="agent", task=self.task)["token"])


@pytest.fixture
def mail(broker: RunningBroker) -> Iterator[Mailbox]:
    made = Mailbox(broker)
    yield made
    made.client.close()


@pytest.fixture
def claude(inbox_binary: Path, gate: Gate, mail: Mailbox, tmp_path: Path) -> Claude:
    return Claude(inbox_binary, tmp_path / "home", gate.url, mail.token())


# The good days


def test_with_no_mail_a_hook_asks_once_and_says_nothing(claude: Claude, gate: Gate) -> None:
    for event in ("PostToolUse", "UserPromptSubmit", "PreToolUse", "Stop", "Notification", "SomethingNew"):
        gate.requests.clear()
        assert claude.run(claude.event(event)).silent
        assert gate.requests == ["/v1/hooks/claude"]
    assert claude.notes() == []


def test_mail_is_printed_to_the_byte_delivered_by_one_hook_and_seen_by_the_next(
    claude: Claude, gate: Gate, mail: Mailbox
) -> None:
    message = mail.send(subject='Grüße, "quoted" \\ and 🙂')
    assert mail.life(message) == ["queued"]
    first = claude.step()
    assert first.stdout == gate.answers[0]
    assert first.stdout.startswith(b'{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"')
    assert first.said.endswith(f"\n| {words(message)}")
    assert gate.requests == ["/v1/hooks/claude", f"/v1/tasks/{mail.task}/ack"]
    assert mail.life(message) == ["queued", "in_flight", "delivered"]
    assert claude.step().silent
    assert mail.life(message) == ["queued", "in_flight", "delivered", "seen"]
    assert claude.notes() == []
    assert claude.step().silent
    assert claude.shown() == {message: 1}


def test_a_session_that_starts_is_told_who_it_is(claude: Claude, mail: Mailbox) -> None:
    message = mail.send()
    said = claude.step(claude.event("SessionStart", source="startup")).said
    assert f"task {mail.task}" in said
    assert words(message) in said
    task = mail.get(f"/v1/tasks/{mail.task}")
    assert (task["state"], task["host"], task["machine"]) == ("active", "claude", socket.gethostname())


def test_reminding_says_that_mail_waits_and_takes_none(claude: Claude, mail: Mailbox) -> None:
    assert claude.run(None, "--remind").silent
    message = mail.send()
    for _ in range(2):
        said = claude.run(None, "--remind").said
        assert "1 message waits" in said
        assert words(message) not in said
    assert mail.life(message) == ["queued"]
    assert claude.notes() == []


def test_urgent_mail_stops_the_next_tool_call_once(claude: Claude, mail: Mailbox) -> None:
    mail.send("calm")
    assert claude.run(claude.event("PreToolUse")).silent
    message = mail.send(priority="urgent")
    call = claude.event("PreToolUse")
    ended = claude.run(call)
    output = json.loads(ended.stdout)["hookSpecificOutput"]
    assert (ended.code, output["hookEventName"], output["permissionDecision"]) == (0, "PreToolUse", "deny")
    assert words(message) in output["permissionDecisionReason"]
    refusal = {"type": "tool_result", "tool_use_id": call["tool_use_id"], "is_error": True}
    refusal["content"] = output["permissionDecisionReason"]
    claude.write({"type": "user", "message": {"role": "user", "content": [refusal]}})
    claude.answers()
    assert claude.run(claude.event("PreToolUse")).silent
    assert mail.life(message)[-1] == "seen"


def test_a_turn_that_ends_lingers_and_goes_on_when_mail_comes(claude: Claude, gate: Gate, mail: Mailbox) -> None:
    began = time.monotonic()
    assert claude.run(claude.event("Stop", stop_hook_active=False), "--linger", "300").silent
    assert 0.3 <= time.monotonic() - began < 0.3 + SLACK_MS / 1_000
    gate.requests.clear()
    lingering = claude.start(claude.event("Stop", stop_hook_active=False), "--linger", "20000")
    poll_until(lambda: gate.requests, what="the request", limit_ms=5_000)
    with pytest.raises(subprocess.TimeoutExpired):
        lingering.wait(
            HOLD_MS / 1_000 + 0.5
        )  # longer than a hook waits that does not linger, and than mail is held for one
    message = mail.send()
    sent = time.monotonic()
    stdout, _ = lingering.communicate(timeout=WITHIN_S)
    assert time.monotonic() - sent < SLACK_MS / 1_000
    assert stdout == gate.answers[-2]  # in front of the ack's
    assert words(message) in stdout.decode()
    assert mail.life(message) == ["queued", "in_flight", "delivered"]


def test_a_hook_that_lingers_in_the_background_wakes_its_session(claude: Claude, gate: Gate, mail: Mailbox) -> None:
    waiting = claude.start(claude.event("Stop"), "--wake", "--linger", "20000")
    poll_until(lambda: gate.requests, what="the request", limit_ms=5_000)
    message = mail.send()
    stdout, stderr = waiting.communicate(timeout=WITHIN_S)
    assert (waiting.returncode, stdout) == (2, b"")
    assert words(message) in stderr.decode()
    assert mail.life(message)[-1] == "delivered"


STAMP = "2026-11-18T12:00:00.000Z"
DIALECTS: dict[str, tuple[dict[str, Any], Callable[[Any], str]]] = {
    "claude": (
        {"hook_event_name": "PostToolUse", "transcript_path": "/nowhere/t.jsonl"},
        lambda said: said.pop("hookSpecificOutput")["additionalContext"],
    ),
    "codex": (
        {"hook_event_name": "PostToolUse", "turn_id": "turn-1", "transcript_path": None},
        lambda said: said.pop("hookSpecificOutput")["additionalContext"],
    ),
    "gemini": (
        {"hook_event_name": "AfterTool", "timestamp": STAMP, "transcript_path": "/nowhere/.gemini/t.json"},
        lambda said: said.pop("hookSpecificOutput")["additionalContext"],
    ),
    "qwen": (
        {"hook_event_name": "PostToolUse", "timestamp": STAMP, "transcript_path": "/nowhere/.qwen/t.jsonl"},
        lambda said: said.pop("hookSpecificOutput")["additionalContext"],
    ),
    "copilot": ({"hook_event_name": "PostToolUse", "timestamp": STAMP}, lambda said: said.pop("additionalContext")),
}


@pytest.mark.parametrize("named", ["", "claude"], ids=["unnamed", "in another's name"])
@pytest.mark.parametrize("host", DIALECTS)
def test_each_host_is_known_by_its_words_and_answered_in_its_own(
    host: str, named: str, claude: Claude, gate: Gate, mail: Mailbox
) -> None:
    given, context = DIALECTS[host]
    given = {"session_id": "s-1", "cwd": str(claude.folder), "tool_name": "Shell", **given}
    message = mail.send()
    ended = claude.run(given, host=named)
    assert gate.requests[0] == f"/v1/hooks/{named or 'auto'}"
    said = json.loads(ended.stdout)
    assert words(message) in context(said)
    assert (ended.code, said) == (0, {})
    assert mail.life(message)[-1] == "delivered"
    # Urgent mail is refused a way before the tool everywhere but in Claude Code.
    mail.send("now", priority="urgent")
    before = {**given, "hook_event_name": "BeforeTool" if host == "gemini" else "PreToolUse"}
    assert bool(claude.run(before, host=named).stdout) == (host == "claude")


def test_a_host_that_calls_http_hooks_itself_needs_no_binary(
    claude: Claude, mail: Mailbox, broker: RunningBroker
) -> None:
    message = mail.send()
    with broker.client(claude.token) as asking:
        answer = asking.post("/v1/hooks/claude?ack=now", json=claude.event())
        assert answer.status_code == 200
        assert words(message) in answer.json()["hookSpecificOutput"]["additionalContext"]
        assert "inbox-receipt" not in answer.headers
        assert mail.life(message) == ["queued", "in_flight", "delivered"]
        again = asking.post("/v1/hooks/claude?ack=now", json=claude.event())
        assert (again.status_code, again.content) == (204, b"")


def test_a_huge_transcript_is_judged_in_time(claude: Claude, mail: Mailbox) -> None:
    with claude.transcript.open("r+b") as file:
        file.truncate(500 << 20)  # a hole: it costs no disk, and is read as zeros
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    claude.answers()
    message = mail.send()
    took = [claude.step().ms, claude.step().ms]
    assert claude.shown(500 << 20) == {message: 1}
    assert mail.life(message)[-1] == "seen"
    # The same again, with all of it between the mail and the answer.
    late = mail.send("late")
    given = claude.event()
    took.append(claude.run(given).ms)
    with claude.transcript.open("r+b") as file:
        file.truncate(claude.transcript.stat().st_size + (500 << 20))
    took += [claude.run().ms for _ in range(5)]
    assert max(took) < DEADLINE_MS + SLACK_MS
    assert mail.life(late)[-1] == "delivered"


# The bad days


def wait_stopped(gate: Gate) -> None:
    assert gate.stopped.wait(10)


def kill(hook: subprocess.Popen[bytes]) -> bytes:
    hook.kill()
    stdout, _ = hook.communicate(timeout=WITHIN_S)
    assert hook.returncode < 0
    return stdout


def goes_on_until_settled(claude: Claude, mail: Mailbox, message: str) -> None:
    """Tool call after tool call, until the transcript has settled everything."""
    give_up_at = time.monotonic() + 3 * HOLD_MS / 1_000
    while mail.life(message)[-1] != "seen":
        assert time.monotonic() < give_up_at, (mail.life(message), claude.shown())
        claude.step()
        time.sleep(0.02)
    for _ in range(3):
        assert claude.step().silent
    assert claude.notes() == []
    assert claude.shown() == {message: 1}
    left = mail.get(f"/v1/tasks/{mail.task}/pending")
    assert (left["pending"], left["held"]) == (0, 0)


KILLS = ["before /v1/hooks/", "behind /v1/hooks/", "before /ack", "behind /ack"]


@pytest.mark.parametrize("results", [True, False], ids=["full transcript", "answers and context only"])
@pytest.mark.parametrize("where", KILLS)
def test_a_hook_that_is_killed_here_and_whose_words_were_thrown_away_loses_nothing(
    where: str, results: bool, claude: Claude, gate: Gate, mail: Mailbox
) -> None:
    claude.results = results
    message = mail.send()
    gate.stop_at = where
    given = claude.event()
    hook = claude.start(given)
    wait_stopped(gate)
    assert bool(kill(hook)) == where.endswith("/ack")
    claude.takes_result(given)
    claude.answers()
    before = mail.life(message)[-1]
    assert before == {"before /v1/hooks/": "queued", "behind /ack": "delivered"}.get(where, "in_flight")
    goes_on_until_settled(claude, mail, message)


@pytest.mark.parametrize("where", ["before /ack", "behind /ack"])
def test_a_hook_that_is_killed_behind_its_words_shows_nothing_twice(
    where: str, claude: Claude, gate: Gate, mail: Mailbox
) -> None:
    message = mail.send()
    gate.stop_at = where
    given = claude.event()
    hook = claude.start(given)
    wait_stopped(gate)
    claude.takes_result(given)
    claude.takes_in(kill(hook))
    for _ in range(3):  # tools that run side by side: no answer yet, nothing is known
        assert claude.run().silent
    claude.answers()
    assert claude.step().silent
    assert mail.life(message)[-2:] == ["delivered", "seen"]
    goes_on_until_settled(claude, mail, message)


@pytest.mark.parametrize("part", ["nothing", "a part"])
def test_a_hook_that_is_killed_while_it_prints_loses_nothing(
    part: str, claude: Claude, gate: Gate, mail: Mailbox
) -> None:
    message = mail.send(more_words="\n" + "x" * 6_000)
    given = claude.event()
    out, into = full_pipe()
    if part == "a part":
        os.read(out, 4_096)  # room for less than the whole
    try:
        hook = claude.start(given, stdout=into)
        poll_until(claude.notes, what="the note for the next hook", limit_ms=5_000)
        kill(hook)
    finally:
        os.close(into)
        os.close(out)
    assert not any(path.endswith("/ack") for path in gate.requests)
    claude.takes_result(given)
    claude.answers()
    goes_on_until_settled(claude, mail, message)


def test_a_host_that_does_not_read_is_left_and_gets_its_mail_later(claude: Claude, gate: Gate, mail: Mailbox) -> None:
    message = mail.send()
    given = claude.event()
    out, into = full_pipe()
    began = time.monotonic()
    hook = claude.start(given, stdout=into)
    assert hook.communicate(timeout=WITHIN_S)[1] == b""
    assert hook.returncode == 0
    assert time.monotonic() - began < DEADLINE_MS / 1_000 + SLACK_MS / 1_000
    os.close(into)
    os.close(out)
    claude.takes_result(given)
    claude.answers()
    goes_on_until_settled(claude, mail, message)


def test_without_a_transcript_what_is_in_doubt_comes_again_and_says_so(
    claude: Claude, gate: Gate, mail: Mailbox
) -> None:
    message = mail.send()
    gate.stop_at = "before /ack"
    hook = claude.start(claude.event(transcript_path=""))
    wait_stopped(gate)
    kill(hook)

    def again() -> Ended | None:
        ended = claude.run(claude.event(transcript_path=""))
        return ended if ended.stdout else None

    found: list[Ended] = []
    poll_until(lambda: found.extend(filter(None, [again()])) or found, what="the mail", limit_ms=3 * HOLD_MS)
    assert words(message) in found[0].said
    assert "redelivered" in found[0].said


def asleep_with_mail(claude: Claude, gate: Gate, mail: Mailbox, message: str) -> subprocess.Popen[bytes]:
    """A hook that was stopped when its answer was on the way, and sleeps until its mail is held for it no longer."""
    hooks: list[subprocess.Popen[bytes]] = []
    started = threading.Event()

    def stop(path: str) -> None:
        gate.when_asked = lambda path: None
        started.wait(10)
        hooks[0].send_signal(signal.SIGSTOP)

    gate.when_asked = stop
    hooks.append(claude.start(None, "--deadline-ms", "60000"))
    started.set()
    poll_until(lambda: mail.life(message) == ["queued", "in_flight", "queued"], what="its return", limit_ms=4 * HOLD_MS)
    assert len(gate.answers) == 1
    return hooks[0]


def wakes(hook: subprocess.Popen[bytes]) -> Ended:
    hook.send_signal(signal.SIGCONT)
    stdout, stderr = hook.communicate(timeout=WITHIN_S)
    return Ended(hook.returncode, stdout, stderr, 0)


def test_a_hook_that_slept_longer_than_its_mail_is_held_does_not_print_it(
    claude: Claude, gate: Gate, mail: Mailbox
) -> None:
    message = mail.send()
    hook = asleep_with_mail(claude, gate, mail, message)
    assert wakes(hook).silent
    assert words(message).encode() in gate.answers[0]
    assert claude.notes() == []
    goes_on_until_settled(claude, mail, message)


@pytest.mark.parametrize("session", ["the same", "another"])
def test_mail_that_was_shown_while_a_hook_slept_is_not_shown_again_by_it(
    session: str, claude: Claude, gate: Gate, mail: Mailbox, tmp_path: Path
) -> None:
    message = mail.send()
    hook = asleep_with_mail(claude, gate, mail, message)
    awake = claude
    if session == "another":
        awake = Claude(claude.binary, tmp_path / "other", gate.url, claude.token, session="another")
    assert words(message) in awake.step().said
    assert wakes(hook).silent
    goes_on_until_settled(awake, mail, message)


def test_mail_stays_with_one_session_while_it_is_in_doubt(
    claude: Claude, gate: Gate, mail: Mailbox, tmp_path: Path
) -> None:
    message = mail.send()
    gate.stop_at = "before /ack"
    hook = claude.start()
    wait_stopped(gate)
    claude.takes_in(kill(hook))
    other = Claude(claude.binary, tmp_path / "other", gate.url, claude.token, session="another")
    until = time.monotonic() + 1.5 * HOLD_MS / 1_000
    while time.monotonic() < until:
        assert claude.run().silent
        assert other.step().silent
        time.sleep(0.05)
    claude.answers()
    assert claude.step().silent
    assert claude.shown() == {message: 1}
    assert mail.life(message)[-1] == "seen"


def test_a_broker_that_is_down_is_left_alone_and_found_again(inbox_binary: Path, tmp_path: Path) -> None:
    flags = ["--port", str(free_port())]
    with running_broker(tmp_path / "broker", *flags) as running:
        mail = Mailbox(running)
        message = mail.send()
        claude = Claude(inbox_binary, tmp_path / "home", running.url, mail.token())
        mail.client.close()
    first, second = claude.run(), claude.run()
    assert first.silent
    assert second.silent
    (noted,) = claude.breakers()
    until_ms, fails = noted.read_text().split()
    assert fails == "1"
    with running_broker(tmp_path / "broker", *flags):
        if int(until_ms) > time.time() * 1_000 + 500:
            assert claude.run().silent  # still left alone
        noted.write_text(f"{int(time.time() * 1_000) - 1} 1\n")
        assert words(message) in claude.run().said
        assert claude.breakers() == []


@pytest.mark.parametrize(
    "wrong",
    [{"INBOX_TOKEN": "ibx_no.such.token"}, {"INBOX_TOKEN": ""}, {"INBOX_TASK": "another"}, {"INBOX_TASK": "no task"}],
    ids=str,
)
def test_a_refusal_is_no_failure(wrong: dict[str, str], claude: Claude, mail: Mailbox) -> None:
    message = mail.send()
    claude.env |= wrong
    assert claude.run().silent
    assert claude.breakers() == []
    assert mail.life(message) == ["queued"]
