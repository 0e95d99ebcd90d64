"""Several serving processes: they share the port and the mail, and one that dies is replaced."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.servers import find_server_binary, poll_until, private_server

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


def workers_of(broker: RunningBroker) -> set[int]:
    """The serving processes this broker has started."""
    children = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
    return {int(pid) for pid in children if b"\0worker\0" in _command(int(pid))}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def served_by(answer: httpx2.Response) -> str:
    """Which process answered: the start of the ids it mints."""
    return answer.headers["x-request-id"].split("-")[0]


@contextlib.contextmanager
def one_client_per_worker(broker: RunningBroker) -> Iterator[list[httpx2.Client]]:
    """Two clients whose connections are with two different workers."""
    found: dict[str, httpx2.Client] = {}
    with contextlib.ExitStack() as stack:

        def two() -> bool:
            client = stack.enter_context(broker.client())
            found.setdefault(served_by(client.get("/v1/whoami")), client)
            return len(found) == 2

        poll_until(two, what="an answer from each of two workers")
        yield list(found.values())


@linux
def test_two_workers_share_the_mail_and_wake_each_other(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--workers", "2") as broker:
        with one_client_per_worker(broker) as (one, other), ThreadPoolExecutor() as callers:
            one.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
            pulling = callers.submit(one.post, "/v1/tasks/backend/pull", json={"wait_ms": 15_000})
            with broker.client() as waiting:

                def waits() -> bool:
                    text = waiting.get("/metrics").text
                    return "inboxd_waiters 1.0" in text or served_by(waiting.get("/healthz")) == served_by(
                        other.get("/healthz")
                    )

                poll_until(waits, what="a waiting caller")
            other.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "m-1"}).raise_for_status()
            assert [one["message_id"] for one in pulling.result(5).json()["messages"]] == ["m-1"]
        workers = workers_of(broker)
        assert broker.stop() == 0
        assert not any(_command(pid) for pid in workers)
        assert "Traceback" not in broker.stderr.read_text()


@linux
def test_a_killed_worker_is_replaced_and_the_port_answers_all_the_while(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--workers", "2") as broker:
        poll_until(lambda: len(workers_of(broker)) == 2, what="two workers")
        before = workers_of(broker)
        with one_client_per_worker(broker):
            pass
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        poll_until(lambda: victim not in workers_of(broker), what="its end")
        with broker.client() as client:
            client.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        poll_until(lambda: len(workers_of(broker) - before) == 1, what="another worker")
        with one_client_per_worker(broker) as clients:
            for client in clients:
                assert client.get("/v1/tasks/backend").status_code == 200


@linux
def test_workers_do_not_outlive_a_broker_that_was_killed(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--workers", "2") as broker:
        poll_until(lambda: len(workers_of(broker)) == 2, what="two workers")
        workers = workers_of(broker)
        broker.kill()
        try:
            poll_until(lambda: not any(b"worker" in _command(pid) for pid in workers), what="their end", limit_ms=5_000)
        finally:
            for pid in workers:
                if b"\0worker\0" in _command(pid):
                    os.kill(pid, signal.SIGKILL)
    port = broker.url.rsplit(":", 1)[1]
    with running_broker(tmp_path, "--port", port) as broker, broker.client() as client:
        assert client.get("/readyz").status_code == 200


def test_two_brokers_on_one_redis_wake_each_other_s_callers(tmp_path: Path) -> None:
    with (
        private_server(find_server_binary()) as server,
        running_broker(tmp_path / "a", "--redis-url", server.url) as one,
        running_broker(tmp_path / "b", "--redis-url", server.url) as other,
        one.client() as here,
        other.client() as there,
        ThreadPoolExecutor() as callers,
    ):
        here.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        pulling = callers.submit(here.post, "/v1/tasks/backend/pull", json={"wait_ms": 15_000})
        poll_until(lambda: "inboxd_waiters 1.0" in here.get("/metrics").text, what="a waiting caller")
        there.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "m-1"}).raise_for_status()
        assert [found["message_id"] for found in pulling.result(5).json()["messages"]] == ["m-1"]
        # A token revoked through one is refused by the other.
        made = here.post("/v1/tokens", json={"role": "agent", "task": "backend"}).json()
        with other.client(made["token"]) as agent:
            assert agent.get("/v1/tasks/backend/pending").status_code == 200
            here.delete(f"/v1/tokens/{made['token_id']}").raise_for_status()
            poll_until(
                lambda: agent.get("/v1/tasks/backend/pending").status_code == 401, what="a refusal", limit_ms=1_000
            )
