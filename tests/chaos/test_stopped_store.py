"""A store that stands still for a while: callers are told to try again, or get their answer late. Nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import pytest

from inboxd.model import ProblemAnswer
from tests.support.answers import answered
from tests.support.brokers import RunningBroker, running_broker
from tests.support.crowd import Crowd, crowd
from tests.support.patient import Patient
from tests.support.servers import PrivateServer, find_server_binary, private_server
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

SENDERS = 6
HOLD_MS = 800
STORE_WAIT_MS = 300
STEADY_STORE_WAIT_MS = 20_000
THINK_MS_MAX = 15
PROGRESS_MS_MAX = 20_000


class Place(NamedTuple):
    """One store, and two brokers on it that wait for it differently long."""

    store: PrivateServer
    hasty: RunningBroker
    steady: RunningBroker


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("brokers")
    with private_server(find_server_binary()) as store:
        flags = ("--redis-url", store.url, "--attempts-max", "1000", "--store-wait-ms")
        with (
            running_broker(folder / "hasty", *flags, str(STORE_WAIT_MS)) as hasty,
            running_broker(folder / "steady", *flags, str(STEADY_STORE_WAIT_MS)) as steady,
        ):
            yield Place(store, hasty, steady)


def refused_as_unavailable(response: httpx2.Response) -> None:
    found = answered(response, ProblemAnswer, 503)
    assert found.error.code == "STORE_UNAVAILABLE"
    assert found.error.retry_after_ms is not None
    assert found.error.retry_after_ms > 0
    assert int(response.headers["retry-after"]) >= 1


async def speak(people: Crowd, patient: Patient, sender: int, hushed: asyncio.Event) -> None:
    chance = random.Random(f"{people.seed} {sender}")
    number = 0
    while not hushed.is_set():
        number += 1
        await people.send([patient], f"{sender}-{number}", chance, tries=chance.choice((1, 1, 3)))
        await asyncio.sleep(chance.random() * THINK_MS_MAX / 1_000)


@pytest.mark.timeout(600)
async def test_a_store_that_stands_still_under_load_loses_and_doubles_nothing(
    place: Place, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stops = 20 if request.config.getoption("--long") else 2
    store, broker, _ = place
    with crowd(tmp_path) as people:
        chance = random.Random(people.seed)
        hushed = asyncio.Event()
        async with Patient(broker.runtime_file) as patient, broker.async_client(trust_env=False) as probe:
            await patient.post("/v1/tasks", {"task": people.task})
            for _ in range(2):
                people.start_reader(broker.runtime_file, "--hold-ms", str(HOLD_MS))
            async with asyncio.TaskGroup() as senders:
                for sender in range(SENDERS):
                    senders.create_task(speak(people, patient, sender, hushed))
                for stop in range(stops):
                    goal = len(people.ledger.sent) + chance.randint(10, 60)
                    read = sum(reader.lines() for reader in people.readers) + 4
                    await wait_until(
                        lambda goal=goal, read=read: (
                            len(people.ledger.sent) >= goal and sum(one.lines() for one in people.readers) >= read
                        ),
                        within_ms=PROGRESS_MS_MAX,
                    )
                    store.pause()
                    try:
                        body = {"message_id": f"probe-{stop}", "body": f"the body of probe-{stop}"}
                        people.ledger.tried[body["message_id"]] = body["body"]
                        inbox = f"/v1/tasks/{people.task}"
                        began = time.monotonic()
                        for response in (
                            await probe.post(f"{inbox}/messages", json=body),
                            await probe.post(f"{inbox}/pull", json={"session": "probe", "hold_ms": HOLD_MS}),
                            await probe.get(f"{inbox}/pending"),
                        ):
                            refused_as_unavailable(response)
                        assert time.monotonic() - began > STORE_WAIT_MS / 1_000, "it gave up at once"
                    finally:
                        store.resume()
                hushed.set()
            await people.drained(patient)
            counted = people.finish()
            print(f"the store stood still {stops} times: {counted}")

            # A send or pull that was refused as unavailable may have happened after all; the promise is that it is harmless.
            assert (counted.lost, counted.twice, counted.strange) == ([], [], [])
            stored = {row["message_id"]: row["state"] for row in await patient.timeline(people.task)}
            assert set(stored.values()) == {"delivered"}
            assert people.ledger.sent <= stored.keys() <= people.ledger.tried.keys()
            assert stored.keys() == {handed.message_id for handed in people.ledger.handovers}


async def test_a_request_that_can_wait_is_answered_late_and_a_hasty_one_is_told_to_try_again(place: Place) -> None:
    store, hasty, steady = place
    inbox = "/v1/tasks/late"
    async with hasty.async_client(trust_env=False) as one, steady.async_client(trust_env=False) as two:
        for client in (one, two):
            (await client.post("/v1/tasks", json={"task": "late"})).raise_for_status()
        store.pause()
        try:
            late = asyncio.create_task(two.post(f"{inbox}/messages", json={"message_id": "late", "body": "x"}))
            # Its refusal is also the clock: by then the other has waited as long, and waits on.
            refused_as_unavailable(await one.post(f"{inbox}/messages", json={"message_id": "early", "body": "x"}))
            assert not late.done()
        finally:
            store.resume()
        assert (await late).status_code == 201

        async def sent_again() -> httpx2.Response | None:
            again = await one.post(f"{inbox}/messages", json={"message_id": "early", "body": "x"})
            return again if again.status_code == 201 else None

        await wait_until(sent_again, within_ms=PROGRESS_MS_MAX)
        batch = (await two.post(f"{inbox}/pull", json={})).json()
        assert sorted(message["message_id"] for message in batch["messages"]) == ["early", "late"]
        assert (await one.get(f"{inbox}/pending")).json()["pending"] == 0
