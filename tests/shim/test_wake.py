"""`inbox wake`: a process in the background that waits for mail, wakes its session once, and gives way to whoever comes after it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.inbox import Inbox
from tests.support.servers import poll_until

pytestmark = pytest.mark.xdist_group("inbox-attach")

WITHIN_S = 30


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


class Host:
    """A program whose session sleeps in an attached worktree."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.task = f"t-{uuid.uuid4().hex[:10]}"
        self.session = uuid.uuid4().hex
        inbox.ok("attach", "--task", self.task, "--host", "claude")

    @property
    def given(self) -> bytes:
        said = {"session_id": self.session, "hook_event_name": "Stop", "cwd": str(self.inbox.folder)}
        return json.dumps(said).encode()

    def starts(self, *words: str) -> subprocess.Popen[bytes]:
        running = subprocess.Popen(
            [self.inbox.binary, "wake", *words],
            cwd="/",
            env=self.inbox.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert running.stdin is not None
        running.stdin.write(self.given)
        running.stdin.close()
        running.stdin = None
        return running

    def turn(self) -> str:
        """Whose turn it is to wait."""
        files = list(self.inbox.home.glob(".cache/inbox/sessions/*/wake"))
        return files[0].read_text() if files else ""


@pytest.fixture
def host(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Host:
    return Host(Inbox(inbox_binary, tmp_path / "home", more={"INBOXD_DATA_DIR": str(running.data_dir)}))


def test_mail_is_said_on_stderr_with_the_exit_code_that_wakes(host: Host) -> None:
    waiting = host.starts("claude")
    poll_until(host.turn, what="the wait", limit_ms=10_000)
    host.inbox.ok("send", host.task, "wake up")
    stdout, stderr = waiting.communicate(timeout=WITHIN_S)
    assert (waiting.returncode, stdout) == (2, b"")
    assert stderr.count(b"| wake up") == 1
    assert host.inbox.run("pending", host.task).code == 10


def test_a_command_is_run_for_the_session_and_the_mail_stays(host: Host, tmp_path: Path) -> None:
    waiting = host.starts("codex", "--", "/bin/sh", "-c", f'echo "$0 $PWD" > {tmp_path}/ran', "{session}")
    poll_until(host.turn, what="the wait", limit_ms=10_000)
    host.inbox.ok("send", host.task, "wake up")
    assert waiting.communicate(timeout=WITHIN_S) == (b"", b"")
    assert waiting.returncode == 0
    assert (tmp_path / "ran").read_text() == f"{host.session} {host.inbox.folder}\n"
    assert host.inbox.said("pending", host.task)["pending"] == 1


def test_the_next_one_takes_over_and_the_person_ends_it(host: Host) -> None:
    first = host.starts("claude")
    poll_until(host.turn, what="the first wait", limit_ms=10_000)
    turn = host.turn()
    second = host.starts("claude")
    poll_until(lambda: host.turn() != turn, what="the second wait", limit_ms=10_000)
    assert first.wait(WITHIN_S) == 0
    assert second.poll() is None
    assert host.starts("claude", "--end").communicate(timeout=WITHIN_S) == (b"", b"")
    assert second.wait(WITHIN_S) == 0
    host.inbox.ok("send", host.task, "for the hooks")
    assert host.inbox.said("pending", host.task)["pending"] == 1
    for ended in (first, second):
        assert ended.communicate() == (b"", b"")


@pytest.mark.skipif(sys.platform != "linux", reason="NOT TESTED: only Linux tells who started a shell")
def test_it_ends_with_the_program_whose_shell_it_runs_in(host: Host, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    line = f"{host.inbox.binary} wake claude; echo $? > {ended}"
    runs_hook = "import subprocess, sys; subprocess.run(['/bin/sh', '-c', sys.argv[1]], input=sys.argv[2].encode())"
    program = subprocess.Popen([sys.executable, "-c", runs_hook, line, host.given.decode()], env=host.inbox.environment)
    poll_until(host.turn, what="the wait", limit_ms=10_000)
    program.kill()
    program.wait(WITHIN_S)
    poll_until(ended.exists, what="the end of the wait", limit_ms=10_000)
    host.inbox.ok("send", host.task, "for the next session")
    assert host.inbox.said("pending", host.task)["pending"] == 1


def test_it_never_fails(host: Host) -> None:
    for words, given in (
        (("claude",), b"no json"),
        ((), b""),
        (("claude",), b'{"session_id": ""}'),
        (("--odd", "x y"), b"[]"),
    ):
        ran = subprocess.run(
            [host.inbox.binary, "wake", *words],
            input=given,
            env=host.inbox.environment,
            capture_output=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
