"""The examples do what they say: a badge that follows a task's mail, in Python and in JavaScript, across a restart of the broker."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker, clean_environment, running_broker
from tests.support.servers import free_port, poll_until

EXAMPLES = Path(__file__).parents[2] / "examples"
NODE = shutil.which("node")
COMMANDS = [
    pytest.param([sys.executable, str(EXAMPLES / "badge.py")], id="Python"),
    pytest.param(
        [NODE or "node", str(EXAMPLES / "badge.mjs")],
        id="JavaScript",
        marks=pytest.mark.skipif(NODE is None, reason="NOT TESTED: there is no node here"),
    ),
]


@contextmanager
def badge(command: list[str], broker: RunningBroker, output: Path, token: str | None = None) -> Iterator[None]:
    given = {"INBOX_URL": broker.url, "INBOX_TOKEN": token or broker.token}
    with output.open("wb") as said:
        running = subprocess.Popen([*command, "backend"], env=clean_environment(given), stdout=said, stderr=said)
    try:
        yield
    finally:
        running.kill()
        running.wait()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_badge_shows_what_waits_and_goes_on_after_a_restart(tmp_path: Path, command: list[str]) -> None:
    output = tmp_path / "badge"
    port = str(free_port())

    def shows(*counts: int) -> None:
        poll_until(lambda: output.read_text().splitlines()[-1:] == [f"backend: {counts[-1]}"], what=f"{counts[-1]}")
        shown = [int(line.split()[1]) for line in output.read_text().splitlines()]
        assert [now for before, now in zip([-1, *shown], shown, strict=False) if now != before] == [*counts]

    with running_broker(tmp_path, "--port", port) as broker, broker.client() as client:
        client.post("/v1/tasks/backend/messages", json={"body": "x", "create": True}).raise_for_status()
        with badge(command, broker, output):
            shows(1)
            client.post("/v1/tasks/backend/messages", json={"body": "x"}).raise_for_status()
            shows(1, 2)
            client.post("/v1/tasks/other/messages", json={"body": "x", "create": True}).raise_for_status()
            client.post("/v1/tasks/backend/pull", json={"ack": True}).raise_for_status()
            shows(1, 2, 1, 0)
            broker.stop()
            with running_broker(tmp_path, "--port", port) as again, again.client() as later:
                later.post("/v1/tasks/backend/messages", json={"body": "x"}).raise_for_status()
                shows(1, 2, 1, 0, 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_badge_without_a_good_token_says_so(tmp_path: Path, command: list[str]) -> None:
    output = tmp_path / "badge"
    with running_broker(tmp_path) as broker, badge(command, broker, output, "ibx_default.0"):
        poll_until(lambda: "A token looks like" in output.read_text() or "unknown" in output.read_text(), what="why")
