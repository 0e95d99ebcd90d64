"""`inbox hook` as a host runs it: the real binary, against a broker that may do anything.

Whatever happens: exit 0, in time, and not a byte on stdout that the broker did not mean for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.shim.scripted import FINE, NOTHING, Request, ScriptedBroker, mail, says

ALLOWED = {
    "hook_event_name", "session_id", "transcript_path", "cwd", "tool_name", "tool_use_id", "agent_id", "agent_type",
    "stop_hook_active", "last_assistant_message", "source", "reason", "turn_id", "timestamp", "permission_mode",
    "message", "notification_type", "inbox",
}  # fmt: skip
SPOKEN = b'{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"mail: \xc3\xa9\\n m-1"}}'
SLACK_MS = 1_500
"""Starting a process on a busy machine takes its time; a hook that waits for ever takes longer than that."""
TOKEN = "ibx_test.0123456789ab.secretsecret"


@dataclass
class Ended:
    code: int
    stdout: bytes
    stderr: bytes
    ms: float


class Host:
    """An agent's program: it runs the hook with an account folder of its own."""

    def __init__(self, binary: Path, home: Path, url: str) -> None:
        self.binary, self.home = binary, home
        self.cwd = home / "work"
        self.cwd.mkdir()
        self.env = {"HOME": str(home), "INBOX_URL": url, "INBOX_TOKEN": TOKEN, "PATH": os.environ["PATH"]}

    def run(self, given: bytes | dict[str, Any], *flags: str, stdout: int = subprocess.PIPE) -> Ended:
        if isinstance(given, dict):
            given = json.dumps(given).encode()
        began = time.monotonic()
        ran = subprocess.run(
            [self.binary, "hook", "claude", *flags],
            check=False,
            input=given,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env=self.env,
            cwd=self.cwd,
            timeout=30,
        )
        return Ended(ran.returncode, ran.stdout or b"", ran.stderr, (time.monotonic() - began) * 1000)

    def event(self, **more: Any) -> dict[str, Any]:
        return {
            "session_id": "5c1e",
            "transcript_path": str(self.home / "transcript.jsonl"),
            "cwd": str(self.cwd),
            "permission_mode": "default",
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_use_id": "toolu_1",
            **more,
        }

    @property
    def cache(self) -> Path:
        under = "Library/Caches" if sys.platform == "darwin" else ".cache"
        return self.home / under / "inbox"

    def batches(self) -> list[Path]:
        return sorted(self.cache.glob("sessions/*/*.json"))


@pytest.fixture
def host(inbox_binary: Path, tmp_path: Path, broker: ScriptedBroker) -> Host:
    return Host(inbox_binary, tmp_path, broker.url)


def is_silent(ended: Ended) -> bool:
    return (ended.code, ended.stdout, ended.stderr) == (0, b"", b"")


def test_with_no_mail_there_is_one_request_and_no_output(host: Host, broker: ScriptedBroker) -> None:
    assert is_silent(host.run(host.event()))
    (request,) = broker.requests
    assert (request.method, request.path) == ("POST", "/v1/hooks/claude")
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json"
    assert request.json["tool_use_id"] == "toolu_1"
    inbox = request.json["inbox"]
    assert len(inbox["pull_id"]) == 32
    assert inbox["machine"] == socket.gethostname()
    assert set(inbox) == {"pull_id", "machine"}
    assert host.batches() == []


def test_every_call_has_a_pull_id_of_its_own(host: Host, broker: ScriptedBroker) -> None:
    for _ in range(3):
        host.run(host.event())
    assert len({request.json["inbox"]["pull_id"] for request in broker.requests}) == 3


def test_an_answer_is_printed_byte_for_byte_and_acked_on_the_same_connection(
    host: Host, broker: ScriptedBroker
) -> None:
    broker.hook = says(mail(SPOKEN))
    ended = host.run(host.event())
    assert (ended.code, ended.stdout, ended.stderr) == (0, SPOKEN, b"")
    asked, acked = broker.requests
    assert acked.path == "/v1/tasks/backend/ack"
    assert acked.json == {"receipt": "r-1"}
    assert acked.headers["authorization"] == f"Bearer {TOKEN}"
    assert acked.connection == asked.connection


def test_the_ack_is_sent_after_the_print_and_after_the_note_for_the_next_hook(
    host: Host, broker: ScriptedBroker
) -> None:
    out, into = os.pipe()
    found: list[Any] = []

    def settle(connection: socket.socket, request: Request) -> None:
        found.append((os.read(out, 1 << 16), len(host.batches())))
        connection.sendall(FINE)

    broker.hook, broker.settle = says(mail(SPOKEN)), settle
    try:
        assert host.run(host.event(), stdout=into).code == 0
    finally:
        os.close(into)
        os.close(out)
    assert found == [(SPOKEN, 1)]


def test_an_answer_in_chunks_is_an_answer(host: Host, broker: ScriptedBroker) -> None:
    half = len(SPOKEN) // 2
    chunks = b"%x\r\n%b\r\n%x;x=1\r\n%b\r\n0\r\n\r\n" % (half, SPOKEN[:half], len(SPOKEN) - half, SPOKEN[half:])
    broker.hook = says(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nInbox-Receipt: r-1\r\nInbox-Task: a\r\n\r\n" + chunks
    )
    assert host.run(host.event()).stdout == SPOKEN
    assert broker.requests[1].path == "/v1/tasks/a/ack"


def test_the_ack_finds_a_new_connection_when_the_broker_closed_the_first(host: Host, broker: ScriptedBroker) -> None:
    def once(connection: socket.socket, request: Request) -> None:
        connection.sendall(mail(SPOKEN, more=b"Connection: close\r\n"))
        connection.shutdown(socket.SHUT_RDWR)

    broker.hook = once
    assert host.run(host.event()).stdout == SPOKEN
    assert [request.connection for request in broker.requests] == [1, 2]


def test_an_answer_without_a_receipt_is_printed_and_nothing_is_acked(host: Host, broker: ScriptedBroker) -> None:
    broker.hook = says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nInbox-Task: backend\r\n\r\n{}")
    assert host.run(host.event()).stdout == b"{}"
    assert len(broker.requests) == 1


def test_a_host_is_woken_by_exit_2_and_stderr_when_the_broker_says_so(host: Host, broker: ScriptedBroker) -> None:
    broker.hook = says(mail(b"wake up", more=b"Inbox-Exit: 2\r\nInbox-Stream: stderr\r\n"))
    ended = host.run(host.event())
    assert (ended.code, ended.stdout, ended.stderr) == (2, b"", b"wake up")
    assert len(broker.requests) == 2


def test_reminding_lingering_and_the_task_are_passed_on(host: Host, broker: ScriptedBroker) -> None:
    host.run(host.event(), "--remind", "--linger", "1500", "--task", "T4")
    inbox = broker.requests[0].json["inbox"]
    assert (inbox["mode"], inbox["linger_ms"], inbox["task"]) == ("remind", 1500, "T4")


def test_without_a_host_the_broker_finds_out(host: Host, broker: ScriptedBroker) -> None:
    subprocess.run([host.binary, "hook"], input=b"{}", env=host.env, cwd=host.cwd, check=True)
    assert broker.requests[0].path == "/v1/hooks/auto"


def test_a_lingering_hook_waits_longer_than_its_deadline(host: Host, broker: ScriptedBroker) -> None:
    def late(connection: socket.socket, request: Request) -> None:
        broker.stopping.wait(0.6)
        connection.sendall(mail(SPOKEN))

    broker.hook = late
    assert host.run(host.event(), "--deadline-ms", "300").stdout == b""
    (host.cache / "breakers").rename(host.home / "forgotten")
    assert host.run(host.event(), "--deadline-ms", "300", "--linger", "3000").stdout == SPOKEN


def test_only_the_allowed_fields_leave_and_a_huge_tool_response_is_never_kept(
    host: Host, broker: ScriptedBroker
) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("NOT TESTED: how much memory a process used is read from /proc")
    used_kb: list[int] = []
    started: list[subprocess.Popen[bytes]] = []

    def measure(connection: socket.socket, request: Request) -> None:
        status = Path(f"/proc/{started[0].pid}/status").read_text()
        used_kb.append(int(status.split("VmHWM:")[1].split()[0]))
        connection.sendall(NOTHING)

    broker.hook = measure
    started.append(
        subprocess.Popen(
            [host.binary, "hook", "claude", "--deadline-ms", "10000"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=host.env,
            cwd=host.cwd,
        )
    )
    head = json.dumps(host.event(tool_input={"secret": "s3cret", "session_id": "not this"}, prompt="also s3cret"))
    filler = json.dumps({"stdout": 'line "quoted" \\ \n' * 1000 + "s3cret", "nested": [[{"a": [1, 2, {}]}]]})
    stdin = started[0].stdin
    assert stdin is not None
    stdin.write(head[:-1].encode() + b', "tool_response": [')
    for _ in range(50_000_000 // len(filler)):
        stdin.write(filler.encode() + b",")
    stdin.write(b'0], "agent_id": "a-7"}')
    stdout, _ = started[0].communicate(timeout=30)
    assert (started[0].returncode, stdout) == (0, b"")
    (request,) = broker.requests
    assert set(request.json) <= ALLOWED
    assert request.json["agent_id"] == "a-7"
    assert request.json["session_id"] == "5c1e"
    assert b"s3cret" not in request.body
    assert used_kb[0] < 15_000


def test_a_long_last_message_is_cut_to_its_end_and_stays_valid(host: Host, broker: ScriptedBroker) -> None:
    said = "start " + 'é"\\\n\U0001f600' * 5_000 + " the end"
    event = host.event(hook_event_name="Stop", last_assistant_message=said, message="m" * 5_000)
    host.run(json.dumps(event, ensure_ascii=False).encode())
    sent = broker.requests[0].json
    assert said.endswith(sent["last_assistant_message"])
    assert 7_900 < len(json.dumps(sent["last_assistant_message"], ensure_ascii=False).encode()) <= 8_192
    assert sent["message"] == "m" * 1_022


def test_half_an_emoji_and_bytes_that_are_no_text_are_made_harmless(host: Host, broker: ScriptedBroker) -> None:
    host.run(b'{"last_assistant_message":"a\\ud83d b\\udc00 \\u0000 \xff\xc3 \\ud83d\\ude00","session_id":"s"}')
    assert broker.requests[0].json["last_assistant_message"] == "a\ufffd b\ufffd \ufffd \ufffd\ufffd \U0001f600"


BAD_INPUT = [
    b"", b" ", b"null", b"[]", b'"text"', b"{", b'{"a"', b'{"a":}', b'{"session_id":"x', b'{"session_id":tru}',
    b"\xff\xfe\x00", b"{" * 100_000, b'{"a":' * 50_000, b'{"session_id":"\\x"}', b"not json at all", b"\x00" * 1000,
]  # fmt: skip


@pytest.mark.parametrize("given", BAD_INPUT, ids=range(len(BAD_INPUT)))
def test_input_that_is_no_object_is_silently_let_be(host: Host, broker: ScriptedBroker, given: bytes) -> None:
    assert is_silent(host.run(given))
    assert broker.requests == []


def test_random_bytes_do_no_harm(host: Host, broker: ScriptedBroker) -> None:
    dice = random.Random(20)
    good = json.dumps(host.event(tool_response={"a": ["\U0001f600", 1.5e3, None]}), ensure_ascii=False).encode()
    for _ in range(60):
        broken = bytearray(good)
        for _ in range(dice.randrange(1, 6)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        assert is_silent(host.run(bytes(broken[: dice.randrange(1, len(broken) + 1)])))
    for request in broker.requests:
        assert set(request.json) <= ALLOWED


def test_a_host_that_does_not_finish_its_input_is_not_waited_for(host: Host, broker: ScriptedBroker) -> None:
    reading, writing = os.pipe()
    os.write(writing, b'{"session_id": "x", ')
    began = time.monotonic()
    ran = subprocess.run(
        [host.binary, "hook"], stdin=reading, capture_output=True, env=host.env, timeout=20, check=False
    )
    os.close(reading)
    os.close(writing)
    assert (ran.returncode, ran.stdout) == (0, b"")
    assert time.monotonic() - began < 1 + SLACK_MS / 1000


def test_input_that_comes_late_leaves_the_broker_less_time_and_no_blame(host: Host, broker: ScriptedBroker) -> None:
    broker.hook = broker.hang
    reading, writing = os.pipe()
    began = time.monotonic()
    with subprocess.Popen([host.binary, "hook"], stdin=reading, stdout=subprocess.PIPE, env=host.env) as hook:
        os.close(reading)
        with contextlib.suppress(subprocess.TimeoutExpired):
            hook.wait(0.7)
        os.write(writing, json.dumps(host.event()).encode())
        os.close(writing)
        assert hook.communicate(timeout=20) == (b"", None)
    assert hook.returncode == 0
    assert time.monotonic() - began < 1 + SLACK_MS / 1000
    assert list(host.cache.glob("breakers/*")) == []


def test_an_open_stdin_is_no_reason_to_wait_once_the_object_is_whole(host: Host, broker: ScriptedBroker) -> None:
    reading, writing = os.pipe()
    os.write(writing, json.dumps(host.event()).encode())
    began = time.monotonic()
    subprocess.run([host.binary, "hook"], stdin=reading, env=host.env, timeout=20, check=True)
    os.close(reading)
    os.close(writing)
    assert len(broker.requests) == 1
    assert time.monotonic() - began < SLACK_MS / 1000


BAD_ANSWERS = {
    "garbage": b"\x00\xff" * 5_000,
    "another protocol": b"220 mail.example.org ESMTP ready\r\n\r\n",
    "an error": b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\noops",
    "a refusal": b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}",
    "a redirect": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\ncontent-length: 2\r\n\r\n{}",
    "no length": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\n\r\n{}",
    "too long a length": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ncontent-length: 200000000\r\n\r\n" + b"x" * 100_000,
    "a length below nothing": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ncontent-length: -1\r\n\r\n{}",
    "two lengths": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "more than announced": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ncontent-length: 2\r\n\r\n{}{}",
    "half an object": b'HTTP/1.1 200 OK\r\nInbox-Task: t\r\ncontent-length: 8\r\n\r\n{"a":"bc',
    "two objects": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ncontent-length: 4\r\n\r\n{}{}",
    "endless chunks": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ntransfer-encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 65_536 + b"\r\n",
    "a strange chunk": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n\r\n",
    "packed": b"HTTP/1.1 200 OK\r\nInbox-Task: t\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    "a receipt that is a path": mail(b"{}", receipt="../../x"),
    "a task that is a path": mail(b"{}", task="../admin"),
    "ids that are none": mail(b"{}", messages="m-1,\x01"),
    "an exit code of its own": mail(b"{}", more=b"Inbox-Exit: 3\r\n"),
    "a nothing with something": b"HTTP/1.1 204 No Content\r\nInbox-Task: t\r\ncontent-length: 2\r\n\r\n{}",
    "another program's page": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 19\r\n\r\n<html>Log in</html>",
    "another program's JSON": b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"ok":true}',
    "a task that is none": mail(b"{}", task="", receipt=""),
    "endless headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000,
}  # fmt: skip


@pytest.mark.parametrize("answer", BAD_ANSWERS.values(), ids=list(BAD_ANSWERS))
def test_an_answer_that_cannot_be_trusted_is_not_printed(host: Host, broker: ScriptedBroker, answer: bytes) -> None:
    broker.hook = says(answer)
    ended = host.run(host.event(), "--deadline-ms", "500")
    assert is_silent(ended)
    assert ended.ms < 500 + SLACK_MS
    assert len(broker.requests) == 1
    assert host.batches() == []


def test_a_broker_that_hangs_up_drips_or_sends_without_end_is_left_in_time(host: Host, broker: ScriptedBroker) -> None:
    def hang_up(connection: socket.socket, request: Request) -> None:
        connection.sendall(mail(SPOKEN)[:-5])
        connection.shutdown(socket.SHUT_RDWR)

    def flood(connection: socket.socket, request: Request) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(2_000):
            connection.sendall(b"186a0\r\n" + b"x" * 100_000 + b"\r\n")

    for script in (hang_up, flood, broker.drip):
        broker.hook = script
        ended = host.run(host.event(), "--deadline-ms", "400")
        assert is_silent(ended)
        assert ended.ms < 400 + SLACK_MS


def test_a_broker_that_hangs_is_left_after_a_second_and_then_left_alone(host: Host, broker: ScriptedBroker) -> None:
    broker.hook = broker.hang
    ended = host.run(host.event())
    assert is_silent(ended)
    assert 900 < ended.ms < 1_000 + SLACK_MS
    assert is_silent(host.run(host.event()))
    assert len(broker.requests) == 1


def test_a_broker_that_is_down_is_not_tried_again_until_the_breaker_closes(host: Host, broker: ScriptedBroker) -> None:
    with socket.socket() as reserved:  # bound and not listening: refuses, and stays ours
        reserved.bind(("127.0.0.1", 0))
        host.env["INBOX_URL"] = f"http://127.0.0.1:{reserved.getsockname()[1]}"
        assert is_silent(host.run(host.event()))
        (noted,) = host.cache.glob("breakers/*")
        until_ms, fails = map(int, noted.read_text().split())
        assert fails == 1
        assert 3_000 < until_ms - time.time() * 1000 <= 5_000
        before = noted.stat().st_mtime_ns
        assert is_silent(host.run(host.event()))
        assert noted.stat().st_mtime_ns == before  # it did not even try
        for fails, open_ms in ((2, 10_000), (3, 20_000), (4, 40_000), (5, 60_000), (6, 60_000)):
            noted.write_text(f"{int(time.time() * 1000) - 1} {fails - 1}\n")
            assert is_silent(host.run(host.event()))
            until_ms, counted = map(int, noted.read_text().split())
            assert counted == fails
            assert open_ms - 2_000 < until_ms - time.time() * 1000 <= open_ms


def test_an_answer_closes_the_breaker(host: Host, broker: ScriptedBroker) -> None:
    broker.hook = broker.hang
    host.run(host.event(), "--deadline-ms", "200")
    (noted,) = host.cache.glob("breakers/*")
    noted.write_text(f"{int(time.time() * 1000) - 1} 3\n")
    broker.hook = says(NOTHING)
    host.run(host.event())
    assert not noted.exists()
    assert len(broker.requests) == 2


def test_a_host_that_went_away_gets_its_mail_later(host: Host, broker: ScriptedBroker) -> None:
    out, into = os.pipe()
    os.close(out)
    broker.hook = says(mail(SPOKEN))
    ended = host.run(host.event(), stdout=into)
    os.close(into)
    assert (ended.code, ended.stderr) == (0, b"")
    assert broker.requests[1].path == "/v1/tasks/backend/release"
    assert host.batches() == []


def test_the_log_says_what_came_of_it_and_no_secret(host: Host, broker: ScriptedBroker) -> None:
    log = host.home / "hook.log"
    host.run(host.event(), "--log", str(log))
    broker.hook = says(mail(SPOKEN))
    host.run(host.event(hook_event_name="Stop\n  forged line"), "--log", str(log))
    host.run(b"nonsense", "--log", str(log))
    lines = log.read_text().splitlines()
    assert [line.split(" ")[1:-1] for line in lines] == [
        ["claude", "PostToolUse", "204"],
        ["claude", "Stopforgedline", "printed"],
        ["claude", "-", "no", "input"],
    ]
    assert TOKEN not in log.read_text()
    assert "m-1" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_what_a_hook_remembers_is_for_its_account_only(host: Host, broker: ScriptedBroker) -> None:
    broker.hook = says(mail(SPOKEN))
    host.run(host.event())
    (batch,) = host.batches()
    assert batch.name == "r-1.json"
    assert batch.stat().st_mode & 0o777 == 0o600
    assert batch.parent.stat().st_mode & 0o777 == 0o700
    assert b"mail" not in batch.read_bytes()


def test_flags_that_make_no_sense_do_not_make_it_fail(host: Host, broker: ScriptedBroker) -> None:
    assert is_silent(host.run(host.event(), "--linger", "soon", "--unknown", "--deadline-ms"))
    assert is_silent(host.run(host.event(), "--url"))


def test_with_no_broker_known_nothing_happens(host: Host) -> None:
    del host.env["INBOX_URL"]
    assert is_silent(host.run(host.event()))


def test_a_worktree_cannot_send_the_account_s_token_elsewhere(host: Host, broker: ScriptedBroker) -> None:
    (host.cwd / ".inbox").mkdir()
    (host.cwd / ".inbox" / "config.json").write_text(json.dumps({"url": broker.url, "task": "T4"}))
    del host.env["INBOX_URL"]
    host.run(host.event())
    assert "authorization" not in broker.requests[0].headers
    assert broker.requests[0].json["inbox"]["task"] == "T4"


def test_starting_costs_next_to_nothing(host: Host, inbox_binary: Path) -> None:
    """An agent waits for this after every tool call: no package of ours may compute anything before main runs."""
    ran = subprocess.run(
        [inbox_binary, "hook"], input=b"", env={**host.env, "GODEBUG": "inittrace=1"}, capture_output=True, check=True
    )
    (ours,) = [line for line in ran.stderr.decode().splitlines() if line.startswith("init main ")]
    assert int(ours.split(" allocs")[0].split()[-1]) < 200, ours


# The transcript check


class Transcript:
    """A host's transcript, as Claude Code writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, *lines: dict[str, Any]) -> Transcript:
        with self.path.open("a") as file:
            for line in lines:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        return self


def answer(number: int, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "on it"}]
    return {"message": {"id": f"msg_{number}", "role": "assistant", "content": content}, "type": "assistant", **more}


def result(tool: str = "toolu_1", text: str = "done") -> dict[str, Any]:
    content = [{"tool_use_id": tool, "type": "tool_result", "content": text}]
    return {"type": "user", "message": {"role": "user", "content": content}}


def context(text: str, kind: str = "hook_additional_context") -> dict[str, Any]:
    return {"type": "attachment", "attachment": {"type": kind, "content": [text]}}


@pytest.fixture
def transcript(host: Host) -> Transcript:
    return Transcript(host.home / "transcript.jsonl").add({"type": "user", "message": {"content": "go"}}, answer(1))


@pytest.fixture
def told(host: Host, broker: ScriptedBroker, transcript: Transcript) -> Host:
    """A host that was told m-1 and m-2 after a tool call."""
    broker.hook = says(mail(SPOKEN, messages="m-1,m-2"))
    assert host.run(host.event()).stdout == SPOKEN
    broker.hook = says(NOTHING)
    broker.requests.clear()
    return host


def reported(host: Host, broker: ScriptedBroker) -> dict[str, Any]:
    host.run(host.event())
    inbox: dict[str, Any] = broker.requests[-1].json["inbox"]
    return {name: inbox[name] for name in ("seen", "unseen", "doubt") if name in inbox}


BOTH = [{"receipt": "r-1", "message_ids": ["m-1", "m-2"]}]


def test_ids_before_the_model_s_next_answer_were_seen(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.add(result(), context("mail\nm-1 and <m-2>"), answer(2))
    assert reported(told, broker) == {"seen": BOTH}
    assert told.batches() == []
    assert reported(told, broker) == {}


def test_an_answer_without_the_ids_before_it_means_unseen(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.add(result(), answer(2), context("too late: m-1 m-2"))
    assert reported(told, broker) == {"unseen": BOTH}


@pytest.mark.parametrize("answer_of", ["another program's page", "an error", "half an object"])
def test_what_was_told_to_no_broker_is_told_again(
    told: Host, broker: ScriptedBroker, transcript: Transcript, answer_of: str
) -> None:
    transcript.add(result(), answer(2))
    broker.hook = says(BAD_ANSWERS[answer_of])
    assert reported(told, broker) == {"unseen": BOTH}
    broker.hook = says(NOTHING)
    assert reported(told, broker) == {"unseen": BOTH}
    assert reported(told, broker) == {}


def test_no_answer_yet_means_doubt_until_there_is_one(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    assert reported(told, broker) == {"doubt": ["r-1"]}
    transcript.add(result(), context("m-1 m-2"))
    assert reported(told, broker) == {"doubt": ["r-1"]}
    transcript.add(answer(2))
    assert reported(told, broker) == {"seen": BOTH}


def test_each_id_is_judged_for_itself_and_m_1_is_not_m_10(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.add(result(), context("m-10 am-1 m-1:x x.m-1 m-2."), answer(2))
    assert reported(told, broker) == {
        "seen": [{"receipt": "r-1", "message_ids": ["m-2"]}],
        "unseen": [{"receipt": "r-1", "message_ids": ["m-1"]}],
    }


def test_more_lines_of_the_answer_that_called_the_tool_are_no_new_answer(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.add(answer(1), result("toolu_0"), answer(1))
    assert reported(told, broker) == {"doubt": ["r-1"]}


def test_lines_that_the_host_wrote_late_are_no_new_answer(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.add(answer(2), result(), answer(2))
    assert reported(told, broker) == {"doubt": ["r-1"]}


def test_subagents_failed_requests_and_cancelled_hooks_prove_nothing(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.add(result(), answer(2, isSidechain=True), answer(3, isApiErrorMessage=True))
    assert reported(told, broker) == {"doubt": ["r-1"]}
    transcript.add(context("m-1 m-2", "hook_cancelled"), {**answer(4), "text": "m-1 m-2"})
    assert reported(told, broker) == {"unseen": BOTH}


def test_a_hook_s_words_in_lines_that_the_model_is_not_told_prove_nothing(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    printed = {"type": "hook_success", "hookEvent": "PostToolUse", "content": "", "stdout": SPOKEN.decode() + " m-2"}
    transcript.add(
        {"type": "queue-operation", "operation": "enqueue", "content": "m-1 m-2"},
        {"type": "attachment", "attachment": printed},
        result("toolu_1", "the agent listed its mail: m-1 m-2"),
        context("m-1 m-2", "hook_system_message"),
        {"type": "system", "subtype": "stop_hook_summary", "hookErrors": ["m-1 m-2"]},
        answer(2),
    )
    assert reported(told, broker) == {"unseen": BOTH}


@pytest.mark.parametrize(
    "line",
    [
        context("m-1 m-2"),
        {"type": "attachment", "attachment": {"type": "hook_blocking_error", "blockingError": {"a": "m-1 m-2"}}},
        {"type": "user", "isMeta": True, "message": {"role": "user", "content": "Stop hook feedback:\nm-1 m-2"}},
    ],
    ids=["context", "a reason", "a reason to go on"],
)
def test_a_hook_s_words_in_lines_that_the_model_is_told_were_seen(
    told: Host, broker: ScriptedBroker, transcript: Transcript, line: dict[str, Any]
) -> None:
    transcript.add(result(), line, answer(2))
    assert reported(told, broker) == {"seen": BOTH}


def test_the_reason_why_a_tool_was_stopped_is_its_result(
    host: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    broker.hook = says(mail(SPOKEN, messages="m-1,m-2"))
    assert host.run(host.event(hook_event_name="PreToolUse")).stdout == SPOKEN
    broker.hook = says(NOTHING)
    transcript.add(result("toolu_1", "stopped: m-1 m-2"), answer(2))
    assert reported(host, broker) == {"seen": BOTH}


def test_verdicts_are_kept_until_the_broker_has_them(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.add(result(), context("m-1 m-2"), answer(2))
    broker.hook = says(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")
    assert reported(told, broker) == {"seen": BOTH}
    broker.hook = says(NOTHING)
    assert reported(told, broker) == {"seen": BOTH}
    assert reported(told, broker) == {}


def test_a_huge_transcript_is_read_piece_by_piece(told: Host, broker: ScriptedBroker, transcript: Transcript) -> None:
    with transcript.path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(b'{"type":"user","x":"')
        file.seek(20 << 20, os.SEEK_CUR)  # one line of 20 MB, with a hole in it
        file.write(b'"}\n')
    transcript.add(result(), context("m-1 m-2"), answer(2))
    assert reported(told, broker) == {"doubt": ["r-1"]}
    assert reported(told, broker) == {"doubt": ["r-1"]}
    assert reported(told, broker) == {"seen": BOTH}


def test_only_what_was_added_is_read(host: Host, broker: ScriptedBroker, transcript: Transcript) -> None:
    with transcript.path.open("r+b") as file:
        file.truncate(500 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"\n")
    broker.hook = says(mail(SPOKEN, messages="m-1,m-2"))
    host.run(host.event())
    broker.hook = says(NOTHING)
    transcript.add(result(), context("m-1 m-2"), answer(2))
    assert reported(host, broker) == {"seen": BOTH}


def test_a_transcript_that_began_anew_is_read_from_its_start(
    told: Host, broker: ScriptedBroker, transcript: Transcript
) -> None:
    transcript.path.write_text("")
    transcript.add(result(), context("m-1 m-2"), answer(2))
    transcript.path.write_bytes(transcript.path.read_bytes())
    state = told.batches()[0]
    state.write_text(state.read_text().replace('"offset":', '"offset":9'))
    assert reported(told, broker) == {"seen": BOTH}


def test_a_torn_last_line_waits_for_its_rest(told: Host, broker: ScriptedBroker, transcript: Transcript) -> None:
    transcript.add(result(), context("m-1 m-2"))
    with transcript.path.open("a") as file:
        file.write(json.dumps(answer(2), separators=(",", ":"))[:40])
    assert reported(told, broker) == {"doubt": ["r-1"]}
    with transcript.path.open("a") as file:
        file.write(json.dumps(answer(2), separators=(",", ":"))[40:] + "\n")
    assert reported(told, broker) == {"seen": BOTH}


@pytest.mark.parametrize("kind", ["absent", "other", "pipe"])
def test_without_a_transcript_of_the_known_kind_the_question_is_dropped_after_a_minute(
    told: Host, broker: ScriptedBroker, transcript: Transcript, kind: str
) -> None:
    transcript.path.unlink()
    if kind == "other":
        transcript.path.write_text("# a chat in markdown\n\nassistant: m-1\n" * 50)
    elif kind == "pipe":
        os.mkfifo(transcript.path)
    assert reported(told, broker) == {}
    (state,) = told.batches()
    at_ms = json.loads(state.read_text())["at_ms"]
    state.write_text(state.read_text().replace(str(at_ms), str(at_ms - 61_000)))
    assert reported(told, broker) == {}
    assert told.batches() == []


def test_broken_notes_are_swept_away(told: Host, broker: ScriptedBroker) -> None:
    (state,) = told.batches()
    state.write_bytes(b'{"receipt":"r-1", "mess\x00')
    assert reported(told, broker) == {}
    assert told.batches() == []


def test_hooks_of_one_session_may_run_side_by_side(told: Host, broker: ScriptedBroker, transcript: Transcript) -> None:
    transcript.add(result(), context("m-1 m-2"), answer(2))
    running = [
        subprocess.Popen(
            [told.binary, "hook", "claude"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=told.env, cwd=told.cwd
        )
        for _ in range(6)
    ]
    for one in running:
        assert one.communicate(json.dumps(told.event()).encode(), timeout=30)[0] == b""
        assert one.returncode == 0
    assert told.batches() == []
    assert any("seen" in request.json["inbox"] for request in broker.requests)
