"""`inbox init`: from nothing to a broker that answers and an agent that is known, and nothing done twice or against anybody's word."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import STOP_MS_MAX, RunningBroker, running_broker
from tests.support.inbox import Inbox
from tests.support.servers import free_port, poll_until

pytestmark = pytest.mark.xdist_group("inbox-init")


class Newcomer(Inbox):
    """Somebody on a machine where no broker ever ran, with `inboxd` on the PATH."""

    @property
    def environment(self) -> dict[str, str]:
        kept = super().environment
        return {
            **kept,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}",
            "INBOXD_PORT": "0",
            **self.more,
        }

    @property
    def data_dir(self) -> Path:
        return self.home / ".local" / "share" / "inboxd"

    @property
    def runtime(self) -> dict[str, str | int]:
        found: dict[str, str | int] = json.loads((self.data_dir / "runtime.json").read_text())
        return found


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path("/proc/self").exists() else True


@pytest.fixture
def newcomer(inbox_binary: Path, tmp_path: Path) -> Iterator[Newcomer]:
    """Gone with the broker that was started for it."""
    someone = Newcomer(inbox_binary, tmp_path / "h")
    yield someone
    if (someone.data_dir / "runtime.json").exists():
        pid = int(someone.runtime["pid"])
        if is_there(pid):
            os.kill(pid, signal.SIGTERM)
            poll_until(lambda: not is_there(pid), what="the end of the broker", limit_ms=STOP_MS_MAX)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


def test_a_first_use_gets_a_broker_and_a_task_and_is_told_how_to_go_on(newcomer: Newcomer) -> None:
    ran = newcomer.ok("init", "--agent", "backend")
    lines = ran.stdout.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [
        ["✓", name] for name in ("configuration", "broker", "token", "agent")
    ]
    pid, url = newcomer.runtime["pid"], newcomer.runtime["url"]
    log = newcomer.data_dir / "serve.log"
    assert f"answers at {url}: started as process {pid}, with its log in {log}" in lines[1]
    assert "backend is declared now" in lines[3]
    assert "  export INBOX_TASK=backend" in lines
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    for line in lines[lines.index("Ready. To go on:") + 2 :]:
        assert line.startswith("  inbox ")
    opened = newcomer.said("send", "--to", "backend", "--subject", "A first task", "--body", "Say hello.")
    assert newcomer.said("fetch", "--agent", "backend")["threads"][0]["thread_id"] == opened["thread"]["thread_id"]
    again = newcomer.said("init", "--agent", "backend")
    assert (again["command"], again["started"], again["url"], again["agent"]) == ("init", False, url, "backend")
    assert {check["state"] for check in again["checks"]} == {"ok"}
    assert newcomer.runtime["pid"] == pid
    nobody = newcomer.said("init")
    assert (nobody["agent"], nobody["checks"][-1]["state"]) == (None, "skipped")


def test_a_broker_that_stopped_is_started_again_where_the_account_knows_it(newcomer: Newcomer) -> None:
    port = free_port()
    newcomer.more["INBOXD_PORT"] = str(port)
    newcomer.ok("init")
    own = newcomer.home / ".config" / "inbox" / "config.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"url": newcomer.runtime["url"], "token": newcomer.runtime["token"]}))
    pid = int(newcomer.runtime["pid"])
    os.kill(pid, signal.SIGTERM)
    poll_until(lambda: not is_there(pid), what="the end of the broker", limit_ms=STOP_MS_MAX)
    newcomer.more["INBOXD_PORT"] = "0"
    assert newcomer.said("init", "--agent", "backend")["url"] == f"http://127.0.0.1:{port}"
    assert newcomer.runtime["pid"] != pid


def test_two_that_begin_at_once_get_one_broker(newcomer: Newcomer) -> None:
    both = [newcomer.start("init", "--agent", name, "--json") for name in ("one", "two")]
    answers = []
    for one in both:
        printed, said = one.communicate(timeout=60)
        assert (one.returncode, said) == (0, ""), printed
        answers.append(json.loads(printed))
    assert sorted(answer["started"] for answer in answers) == [False, True]
    assert {answer["url"] for answer in answers} == {newcomer.runtime["url"]}


def test_nothing_is_started_against_anybodys_word(newcomer: Newcomer) -> None:
    for arguments, hint in (
        (["init", "--no-start"], "Start one with `inboxd serve`"),
        (["init", "--url", f"http://127.0.0.1:{free_port()}"], "Is `inboxd serve` running?"),
    ):
        ran = newcomer.run(*arguments)
        assert (ran.code, "Not ready yet: broker." in ran.stdout, hint in ran.stdout) == (50, True, True), ran
        told = newcomer.run(*arguments, "--json")
        assert (told.code, told.error["code"]) == (50, "BROKER_UNREACHABLE")
        assert hint in told.error["hint"]
    assert newcomer.run("init", env={"INBOX_URL": f"http://127.0.0.1:{free_port()}"}).code == 50
    assert not newcomer.data_dir.exists()


def test_without_inboxd_it_says_what_to_install(newcomer: Newcomer) -> None:
    newcomer.more["PATH"] = "/nowhere"
    ran = newcomer.run("init", "--json")
    assert (ran.code, ran.error["code"]) == (50, "BROKER_UNREACHABLE")
    assert "Install inboxd beside inbox" in ran.error["hint"]


def test_a_broker_that_does_not_start_says_why(newcomer: Newcomer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        newcomer.more["INBOXD_PORT"] = str(taken.getsockname()[1])
        ran = newcomer.run("init", "--json")
    assert (ran.code, ran.error["code"]) == (50, "START_PROBLEM")
    assert "cannot be had" in ran.error["message"]


def test_what_is_missing_is_named_with_its_exit_code(newcomer: Newcomer, running: RunningBroker) -> None:
    newcomer.url, newcomer.token = running.url, running.token[:-4] + "AAAA"
    wrong = newcomer.run("init", "--agent", "backend", "--json")
    assert (wrong.code, wrong.error["code"], bool(wrong.error["hint"])) == (60, "TOKEN_INVALID", True)
    assert "✗ token" in newcomer.run("init", "--agent", "backend").stdout
    with running.client() as client:
        client.post("/v1/tasks", json={"task": "mine"})
        newcomer.token = client.post("/v1/tokens", json={"role": "agent", "task": "mine"}).json()["token"]
    assert newcomer.said("init")["agent"] == "mine"
    other = newcomer.run("init", "--agent", "nobody-yet", "--json")
    assert (other.code, other.error["code"], bool(other.error["hint"])) == (60, "FORBIDDEN", True)
    (newcomer.folder / ".inbox").mkdir()
    (newcomer.folder / ".inbox" / "config.json").write_text("{broken")
    broken = newcomer.run("init", "--json")
    assert (broken.code, broken.error["code"]) == (30, "CONFIG_BROKEN")
    assert "✗ configuration" in newcomer.run("init").stdout
