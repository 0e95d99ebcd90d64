"""What a broker writes to stderr: JSON lines for programs, readable lines for a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.servers import poll_until


@pytest.mark.xdist_group("shared-broker")
def test_without_a_terminal_every_line_is_json_and_names_its_request(shared_broker: RunningBroker) -> None:
    broker = shared_broker
    with broker.client() as client:
        answers = [
            client.get("/v1/tasks/nowhere/pending"),
            client.get("/v1/whoami"),
            client.get("/a%0Ab", headers={"x-request-id": "mine"}),
        ]
        ids = [answer.headers["x-request-id"] for answer in answers]
        poll_until(lambda: ids[-1] in broker.stderr.read_text(), what="the last line")
        assert broker.token not in broker.stderr.read_text()
    lines = [json.loads(line) for line in broker.stderr.read_text().splitlines()]
    of_requests = [line for line in lines if line["event"] == "request"][-3:]
    assert [line["request_id"] for line in of_requests] == ids
    assert [(line["method"], line["path"], line["status"]) for line in of_requests] == [
        ("GET", "/v1/tasks/nowhere/pending", 404),
        ("GET", "/v1/whoami", 200),
        ("GET", "/a\nb", 404),
    ]
    assert all(line["at_ms"] > 0 and line["level"] for line in lines)


def test_on_a_terminal_lines_are_readable(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        with running_broker(tmp_path, stderr_fd=theirs) as broker, broker.client() as client:
            client.get("/v1/whoami", headers={"x-request-id": "mine"}).raise_for_status()
            seen = b""

            def told() -> bool:
                nonlocal seen
                seen += os.read(ours, 65_536)
                return b"mine" in seen

            poll_until(told, what="the line")
    finally:
        os.close(ours)
        os.close(theirs)
    line = next(line for line in seen.decode().splitlines() if "mine" in line)
    assert re.fullmatch(r"\d\d:\d\d:\d\d 200 GET /v1/whoami \d+\.\d ms  mine", line)
