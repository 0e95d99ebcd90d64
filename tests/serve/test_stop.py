"""Stopping: long polls are let go, running requests finish, and a caller that has gone is handed nothing."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.brokers import NO_TLS, RunningBroker, running_broker
from tests.support.servers import find_server_binary, poll_until, private_server
from tests.support.waiting import crowded

STOP_WITHIN_S = 1.0
shared = pytest.mark.xdist_group("shared-broker")


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def metric(client: httpx2.Client, name: str) -> float:
    families = {family.name: family for family in text_string_to_metric_families(client.get("/metrics").text)}
    return float(families[name].samples[0].value)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_long_polls_get_their_empty_answer_and_the_broker_ends_within_a_second(
    tmp_path: Path, callers: ThreadPoolExecutor, number: signal.Signals
) -> None:
    with running_broker(tmp_path) as broker, broker.client() as client:
        client.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        waits = {"json": {"wait_ms": 60_000}}
        pulls = [callers.submit(client.post, "/v1/tasks/backend/pull", **waits) for _ in range(3)]
        asking = callers.submit(client.get, "/v1/tasks/backend/pending?wait_ms=60000")
        poll_until(lambda: metric(client, "inboxd_waiters") == 4, what="four waiting callers")
        began = time.monotonic()
        broker.process.send_signal(number)
        for pull in pulls:
            answer = pull.result(5)
            assert (answer.status_code, answer.json()["messages"]) == (200, [])
        assert asking.result(5).json()["pending"] == 0
        assert broker.process.wait(10) == 0
        assert time.monotonic() - began < STOP_WITHIN_S * crowded()
        assert broker.store_pid is None
        assert "Traceback" not in broker.stderr.read_text()


def test_a_running_request_finishes_before_the_broker_ends(tmp_path: Path, callers: ThreadPoolExecutor) -> None:
    with (
        private_server(find_server_binary()) as server,
        running_broker(tmp_path, "--redis-url", server.url) as broker,
        broker.client() as client,
    ):
        client.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        server.pause()
        try:
            sending = callers.submit(client.post, "/v1/tasks/backend/messages", json={"body": "x"})
            poll_until(
                lambda: metric(client, "inboxd_requests_running") == 2, what="a request that waits for the store"
            )
            broker.process.send_signal(signal.SIGTERM)
            # It has heard: nobody new is let in.
            poll_until(lambda: not answers(broker), what="a closed port")
            assert broker.process.poll() is None
        finally:
            server.resume()
        answer = sending.result(10)
        assert (answer.status_code, answer.json()["pending"]) == (201, 1)
        assert broker.process.wait(10) == 0


def answers(broker: RunningBroker) -> bool:
    try:
        return httpx2.get(f"{broker.url}/healthz", timeout=5, **NO_TLS).status_code == 200
    except httpx2.HTTPError:
        return False


@shared
def test_a_caller_that_hangs_up_is_handed_no_mail(shared_broker: RunningBroker) -> None:
    broker = shared_broker
    with broker.client() as client:
        client.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        host, port = broker.url.removeprefix("http://").split(":")
        body = json.dumps({"wait_ms": 60_000}).encode()
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(
                b"POST /v1/tasks/backend/pull HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b"
                % (broker.token.encode(), len(body), body)
            )
            poll_until(lambda: metric(client, "inboxd_waiters") == 1, what="a waiting caller")
        poll_until(lambda: metric(client, "inboxd_waiters") == 0, what="its end")
        client.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "m-1"}).raise_for_status()
        shown = client.get("/v1/messages/m-1").json()["message"]
        assert (shown["state"], shown["attempts"]) == ("queued", 0)


@shared
def test_a_caller_that_sends_too_much_is_told_so(shared_broker: RunningBroker) -> None:
    with shared_broker.client() as client:
        for path in ("/v1/tasks/backend/messages", "/v1/tasks"):
            answer = client.post(path, content=b'{"body": "' + b"x" * 3_000_000)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "BODY_TOO_LARGE")
        assert client.get("/readyz").status_code == 200


@shared
@pytest.mark.parametrize(
    "said",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET /v1/tasks/\xff\xfe/pending HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/tasks HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET http://[ HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
    ids=["binary", "raw-bytes-in-path", "version", "negative-length", "bad-chunk", "bad-url"],
)
def test_what_is_no_http_harms_nobody(shared_broker: RunningBroker, said: bytes) -> None:
    host, port = shared_broker.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as caller:
        caller.sendall(said)
        caller.shutdown(socket.SHUT_WR)
        answer = b""
        while part := caller.recv(65_536):
            answer += part
    assert not answer or answer.split()[1].startswith(b"4")
    with shared_broker.client() as client:
        assert client.get("/v1/whoami").status_code == 200
    assert "Traceback" not in shared_broker.stderr.read_text()
