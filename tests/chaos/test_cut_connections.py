"""The connection is cut around each operation, on either side of the broker: whoever tries again with the same ids gets what
the first try would have got, and nothing happens twice."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import running_broker
from tests.support.fault_proxy import CUTS, Cut, FaultProxy, fault_proxy
from tests.support.patient import Answer, Patient
from tests.support.servers import find_server_binary, private_server

pytestmark = [pytest.mark.anyio, pytest.mark.chaos, pytest.mark.parametrize("cut", CUTS)]

CUTS_OF_CLIENT = 2  # the first retry is cut as well
CUTS_OF_STORE = 1  # the broker waits longer each time the store hangs up on it
HOLD_MS = 60_000  # nothing comes back by itself in these tests


@pytest.fixture(scope="module", params=["between client and broker", "between broker and store"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[FaultProxy, str, Path]]:
    """A broker, the proxy on one side of it, the address that clients use."""
    folder = tmp_path_factory.mktemp("broker")
    with private_server(find_server_binary()) as store:
        if request.param == "between broker and store":
            with (
                fault_proxy(store.port) as proxy,
                running_broker(folder, "--redis-url", f"redis://127.0.0.1:{proxy.port}") as broker,
            ):
                yield proxy, broker.url, broker.runtime_file
        else:
            with (
                running_broker(folder, "--redis-url", store.url) as broker,
                fault_proxy(int(broker.url.rpartition(":")[2])) as proxy,
            ):
                yield proxy, f"http://127.0.0.1:{proxy.port}", broker.runtime_file


@dataclass
class Scene:
    """A task of its own in the broker behind the proxy."""

    proxy: FaultProxy
    patient: Patient
    task: str
    times: int

    async def post(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self.patient.post(f"/v1/tasks/{self.task}/{verb}", body)
        assert answer.ok, answer
        return answer.body

    async def cut(self, cut: Cut, word: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """The same request until it is answered, while the connection that carries it is cut."""
        self.proxy.arm(cut, word, times=self.times)
        answer = await self.post(verb, body)
        assert self.proxy.cuts == self.times, "the connection was not cut where it should have been"
        return answer

    async def send(self, *names: str) -> list[str]:
        ids = [f"{self.task}-{name}" for name in names]
        for message_id in ids:
            await self.post("messages", {"message_id": message_id, "body": "hello"})
        return ids

    async def pull(self, session: str, **given: Any) -> list[tuple[str, int]]:
        """What is handed over to this session, and how often each was by now."""
        batch = await self.post(
            "pull", {"pull_id": self.pull_id(session), "session": session, "hold_ms": HOLD_MS, **given}
        )
        return [(message["message_id"], message["attempts"]) for message in batch["messages"]]

    def pull_id(self, session: str) -> str:
        return f"{self.task}-by-{session}"

    async def states(self, message_id: str) -> list[str]:
        return [state for state, _ in await self.patient.history(message_id)]

    async def waits(self) -> tuple[int, int]:
        found = await self.patient.get(f"/v1/tasks/{self.task}/pending")
        return found["pending"], found["held"]


@pytest.fixture
async def scene(place: tuple[FaultProxy, str, Path]) -> AsyncIterator[Scene]:
    proxy, url, runtime_file = place
    async with Patient(runtime_file, url=url) as patient:
        times = CUTS_OF_CLIENT if url.endswith(f":{proxy.port}") else CUTS_OF_STORE
        made = Scene(proxy, patient, f"t-{uuid.uuid4().hex[:12]}", times)
        declared: Answer = await patient.post("/v1/tasks", {"task": made.task})
        assert declared.ok, declared
        # Every script is known to the store by now: what is cut below is the operation itself.
        (warm,) = await made.send("warm")
        await made.pull("warm")
        await made.post("release", {"receipt": made.pull_id("warm")})
        assert await made.pull("warmer", ack=True) == [(warm, 2)]
        await made.post("ack", {"receipt": made.pull_id("warmer")})
        yield made


async def test_a_cut_send_stores_one_message(scene: Scene, cut: Cut) -> None:
    message_id = f"{scene.task}-x"
    answer = await scene.cut(cut, message_id, "messages", {"message_id": message_id, "body": "hello"})
    assert answer["message"]["message_id"] == message_id
    assert len([row for row in await scene.patient.timeline(scene.task) if row["message_id"] == message_id]) == 1
    assert await scene.waits() == (1, 0)
    assert await scene.pull("a") == [(message_id, 1)]
    assert await scene.pull("b") == []


async def test_a_cut_pull_hands_the_same_batch_to_the_same_reader_once(scene: Scene, cut: Cut) -> None:
    first, second, third = await scene.send("x", "y", "z")
    want = {"pull_id": scene.pull_id("a"), "session": "a", "max": 2, "hold_ms": HOLD_MS}
    batch = await scene.cut(cut, scene.pull_id("a"), "pull", want)
    assert [(found["message_id"], found["attempts"]) for found in batch["messages"]] == [(first, 1), (second, 1)]
    assert batch["receipt"] == scene.pull_id("a")
    assert await scene.waits() == (1, 2)
    assert await scene.pull("b") == [(third, 1)]
    assert (await scene.post("ack", {"receipt": batch["receipt"]}))["message_ids"] == [first, second]
    for message_id in (first, second):
        assert await scene.states(message_id) == ["queued", "in_flight", "delivered"]


async def test_a_cut_pull_that_waits_gets_what_comes_meanwhile_once(scene: Scene, cut: Cut) -> None:
    (message_id,) = await scene.send("x")
    want = {"pull_id": scene.pull_id("a"), "session": "a", "wait_ms": 5_000, "hold_ms": HOLD_MS}
    batch = await scene.cut(cut, scene.pull_id("a"), "pull", want)
    assert [(found["message_id"], found["attempts"]) for found in batch["messages"]] == [(message_id, 1)]
    assert await scene.pull("b") == []
    assert await scene.waits() == (0, 1)


async def test_a_cut_pull_that_acks_at_once_delivers_the_same_batch_once(scene: Scene, cut: Cut) -> None:
    first, second, third = await scene.send("x", "y", "z")
    want = {"pull_id": scene.pull_id("a"), "session": "a", "max": 2, "ack": True}
    batch = await scene.cut(cut, scene.pull_id("a"), "pull", want)
    shown = [(found["message_id"], found["attempts"], found["state"]) for found in batch["messages"]]
    assert shown == [(first, 1, "delivered"), (second, 1, "delivered")]
    assert await scene.waits() == (1, 0)
    assert await scene.pull("b", ack=True) == [(third, 1)]
    for message_id in (first, second, third):
        assert await scene.states(message_id) == ["queued", "in_flight", "delivered"]


async def test_a_cut_ack_delivers_once_and_says_so_each_time(scene: Scene, cut: Cut) -> None:
    ids = await scene.send("x", "y")
    await scene.pull("a")
    acked = await scene.cut(cut, scene.pull_id("a"), "ack", {"receipt": scene.pull_id("a")})
    again = await scene.post("ack", {"receipt": scene.pull_id("a")})
    assert acked == again == {"ok": True, "message_ids": ids, "lost": []}
    assert await scene.waits() == (0, 0)
    assert await scene.pull("b") == []
    for message_id in ids:
        assert await scene.states(message_id) == ["queued", "in_flight", "delivered"]


async def test_a_cut_release_gives_back_once(scene: Scene, cut: Cut) -> None:
    ids = await scene.send("x", "y")
    await scene.pull("a")
    released = await scene.cut(cut, scene.pull_id("a"), "release", {"receipt": scene.pull_id("a")})
    # A retry finds the receipt spent; either way the messages are back, and nothing else happened.
    assert sorted(released["message_ids"] + released["lost"]) == sorted(ids)
    assert await scene.waits() == (2, 0)
    assert await scene.pull("b") == [(message_id, 2) for message_id in ids]
    late = await scene.post("release", {"receipt": scene.pull_id("a")})
    assert (late["message_ids"], late["lost"]) == ([], ids)
    assert (await scene.post("ack", {"receipt": scene.pull_id("b")}))["message_ids"] == ids
    for message_id in ids:
        assert await scene.states(message_id) == ["queued", "in_flight", "queued", "in_flight", "delivered"]
