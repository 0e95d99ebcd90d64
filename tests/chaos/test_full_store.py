"""A store whose memory is full refuses new mail, and nothing but new mail: what is there can be read, pulled and acked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from inboxd.model import Batch, ProblemAnswer, Sent, Settled, ThreadAnswer, WaitReplyAnswer
from tests.support.answers import answered
from tests.support.brokers import running_broker
from tests.support.servers import find_server_binary, poll_until, private_server

pytestmark = pytest.mark.chaos

ROOM_BYTES = 1_500_000
BODY = "x" * 16_000
INBOX = "/v1/tasks/backend"
AGAIN_MS_MAX = 15_000


def send(client: httpx2.Client, message_id: str) -> httpx2.Response:
    return client.post(f"{INBOX}/messages", json={"message_id": message_id, "body": BODY})


def test_a_full_store_refuses_new_mail_gives_out_what_it_has_and_takes_mail_again(tmp_path: Path) -> None:
    # Delivered mail is kept for a while; here for a second, so that its memory is free again soon.
    env = {"INBOXD_RETENTION_MS": "1000", "INBOXD_PULL_RECORD_MS": "1000", "INBOXD_TIDY_EVERY_MS": "200"}
    with (
        private_server(find_server_binary(), "--maxmemory-policy", "noeviction") as store,
        running_broker(tmp_path / "broker", "--redis-url", store.url, env=env) as broker,
        broker.client(trust_env=False) as client,
    ):
        client.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        used_bytes = int(
            next(line for line in str(store.ask("INFO", "memory")).splitlines() if "used_memory:" in line)[12:]
        )
        store.ask("CONFIG", "SET", "maxmemory", used_bytes + ROOM_BYTES)

        sent: list[str] = []
        while (response := send(client, f"m{len(sent)}")).status_code == 201:
            sent.append(answered(response, Sent, 201).message.message_id)
            assert len(sent) < 2 * ROOM_BYTES / len(BODY), "it never was full"
        refused = f"m{len(sent)}"
        assert len(sent) > 10
        assert answered(response, ProblemAnswer, 507).error.code == "STORE_FULL"
        assert answered(send(client, refused), ProblemAnswer, 507).error.code == "STORE_FULL"

        assert client.get("/healthz").status_code == 200
        assert client.get(f"{INBOX}/pending").json()["pending"] == len(sent)
        assert client.get(f"{INBOX}/messages").status_code == 200

        given_back = answered(client.post(f"{INBOX}/pull", json={"pull_id": "back", "max": 2}), Batch)
        released = answered(client.post(f"{INBOX}/release", json={"receipt": "back"}), Settled)
        assert released.message_ids == [message.message_id for message in given_back.messages] == sent[:2]

        got: list[str] = []
        while batch := answered(client.post(f"{INBOX}/pull", json={"max": 5}), Batch).model_dump():
            if not batch["messages"]:
                break
            acked = answered(client.post(f"{INBOX}/ack", json={"receipt": batch["receipt"]}), Settled)
            got += acked.message_ids
        assert got == sent

        poll_until(lambda: send(client, refused).status_code == 201, what="a send that is taken", limit_ms=AGAIN_MS_MAX)
        last = answered(client.post(f"{INBOX}/pull", json={"ack": True}), Batch)
        assert [(message.message_id, message.attempts) for message in last.messages] == [(refused, 1)]


def test_a_full_store_takes_nothing_new_in_a_thread_but_lets_a_worker_keep_and_read_it(tmp_path: Path) -> None:
    with (
        private_server(find_server_binary(), "--maxmemory-policy", "noeviction") as store,
        running_broker(tmp_path / "broker", "--redis-url", store.url) as broker,
        broker.client(trust_env=False) as client,
    ):
        for task in ("backend", "leader"):
            client.post("/v1/tasks", json={"task": task}).raise_for_status()

        def ask(thread: str, verb: str, **said: Any) -> httpx2.Response:
            return client.post(f"/v1/threads/{thread}/{verb}", json=said)

        def open_thread(thread: str) -> httpx2.Response:
            return client.post(
                "/v1/threads", json={"message_id": thread, "subject": "x", "to": "backend", "from": "leader"}
            )

        for thread in ("held", "free"):
            open_thread(thread).raise_for_status()
        worker = {"agent": "backend", "fencing_token": 1}
        ask("held", "claim", agent="backend").raise_for_status()
        ask("held", "update", **worker, status="blocked", body="Which?").raise_for_status()
        ask("held", "reply", body="That.", **{"from": "leader"}).raise_for_status()
        store.ask("CONFIG", "SET", "maxmemory", 1)
        before = client.get("/v1/threads").json()["threads"]
        refused = [
            open_thread("new"),
            ask("free", "claim", agent="backend"),
            ask("held", "update", **worker, summary="x"),
            ask("held", "done", **worker, summary="x"),
            ask("held", "fail", **worker, summary="x"),
            ask("held", "reply", body="y", **{"from": "leader"}),
            ask("held", "cancel"),
        ]
        for response in refused:
            assert answered(response, ProblemAnswer, 507).error.code == "STORE_FULL"
        assert client.get("/v1/threads").json()["threads"] == before

        assert answered(ask("held", "renew", **worker), ThreadAnswer).thread.status == "blocked"
        waited = answered(ask("held", "wait-reply", agent="backend"), WaitReplyAnswer)
        assert (waited.message and waited.message.body, waited.message and waited.message.state) == (
            "That.",
            "delivered",
        )
        assert not answered(ask("held", "mark-read", agent="backend"), ThreadAnswer).thread.unread
        fetched = client.get("/v1/threads/fetch", params={"agent": "backend"}).json()["threads"]
        assert {thread["thread_id"] for thread in fetched} == {"held", "free"}

        store.ask("CONFIG", "SET", "maxmemory", 0)
        assert ask("held", "done", **worker, summary="x").status_code == 200
        assert ask("free", "claim", agent="backend").status_code == 200
