"""Killed without a word: the embedded store, or the broker itself. Nothing that was answered for is gone."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.brokers import RunningBroker, running_broker
from tests.support.servers import poll_until


def kill_store(broker: RunningBroker) -> int:
    pid = broker.store_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_requests_wait_for_a_killed_store_and_it_comes_back_with_its_data(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as client, ThreadPoolExecutor() as callers:
        client.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        for number in range(10):
            said = {"body": "x", "message_id": f"before-{number}"}
            client.post("/v1/tasks/backend/messages", json=said).raise_for_status()
        client.post("/v1/tasks", json={"task": "frontend"}).raise_for_status()
        waiting = callers.submit(client.post, "/v1/tasks/frontend/pull", json={"wait_ms": 20_000})
        poll_until(lambda: "inboxd_waiters 1.0" in client.get("/metrics").text, what="a waiting caller")

        killed = kill_store(broker)
        meanwhile = [
            client.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": f"meanwhile-{number}"})
            for number in range(5)
        ]
        for answer in meanwhile:
            assert answer.status_code in (201, 503)
            if answer.status_code == 503:
                assert answer.json()["error"]["code"] == "STORE_UNAVAILABLE"
                assert int(answer.headers["retry-after"]) >= 1
        poll_until(lambda: broker.store_pid not in (None, killed), what="another store")
        poll_until(lambda: client.get("/readyz").status_code == 200, what="a ready broker")

        for number in range(5):  # a retry with the same id is harmless, whatever became of the first try
            said = {"body": "x", "message_id": f"meanwhile-{number}"}
            client.post("/v1/tasks/backend/messages", json=said).raise_for_status()
        got = client.post("/v1/tasks/backend/pull", json={"max": 100}).json()["messages"]
        expected = [f"before-{n}" for n in range(10)] + [f"meanwhile-{n}" for n in range(5)]
        assert [message["message_id"] for message in got] == expected

        # Somebody who waited all the while still hears what comes afterwards.
        client.post("/v1/tasks/frontend/messages", json={"body": "x", "message_id": "after"}).raise_for_status()
        assert [message["message_id"] for message in waiting.result(10).json()["messages"]] == ["after"]
        assert "Traceback" not in broker.stderr.read_text()


def test_a_killed_broker_starts_again_with_all_it_had_answered_for(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        with broker.client() as client:
            token = broker.token
            for number in range(20):
                said = {"body": "x", "message_id": f"m-{number}", "create": True}
                client.post("/v1/tasks/backend/messages", json=said).raise_for_status()
            client.post("/v1/tasks/backend/pull", json={"max": 5, "pull_id": "p-1"}).raise_for_status()
            client.post("/v1/tasks/backend/ack", json={"message_ids": ["m-0", "m-1"]}).raise_for_status()
        broker.kill()
    with running_broker(tmp_path) as broker, broker.client() as client:
        assert broker.token == token
        counts = client.get("/v1/tasks/backend/pending").json()
        assert (counts["pending"], counts["held"]) == (15, 3)
        again = client.post("/v1/tasks/backend/pull", json={"max": 5, "pull_id": "p-1"}).json()
        assert [message["message_id"] for message in again["messages"]] == ["m-2", "m-3", "m-4"]
        sent = client.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": "m-7"}).json()
        assert sent["duplicate"] is True
