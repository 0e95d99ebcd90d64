"""kill -9 at random moments under load: of the broker, of its store, of both, of a reader. Whatever was promised is kept.

What a sender had a 2xx answer for is handed over, what a reader had a 2xx answer for when it acked is never handed over again,
and nothing turns up that nobody sent. A message handed over whose ack had not succeeded may come again; it is counted apart.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.crowd import Crowd, crowd
from tests.support.patient import Patient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

SENDERS = 6
READER_PROCESSES = 2
HOLD_MS = 800  # shorter than a restart takes: holds do run out while the broker is away
THINK_MS_MAX = 15  # a sender's pause, so that the load lasts as long as the killing
ABANDONED = 0.1  # of all messages: tried once, and never asked about again
BETWEEN_BLOWS = (10, 60)  # messages sent from one blow to the next: at least, at most
BLOWS = {"the broker": 2, "the store": 3, "the broker and the store": 2, "a reader": 3}
BLOWS_LONG = {"the broker": 25, "the store": 20, "the broker and the store": 25, "a reader": 40}
PROGRESS_MS_MAX = 40_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """With its embedded store. Each test finds it running and leaves it running."""
    env = {"INBOXD_ATTEMPTS_MAX": "1000"}
    with running_broker(tmp_path_factory.mktemp("broker"), env=env) as running:
        yield running


def children_of(pid: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    return [int(child) for child, parent in (line.split() for line in listed.splitlines()) if int(parent) == pid]


async def store_of(broker: RunningBroker) -> int:
    """The embedded store's process: the broker's only child."""
    (found,) = await wait_until(lambda: children_of(broker.pid), within_ms=PROGRESS_MS_MAX)
    return int(found)


async def strike(what: str, broker: RunningBroker, people: Crowd, chance: random.Random) -> None:
    if what == "a reader":
        chance.choice([reader for reader in people.readers if reader.process.poll() is None]).kill()
        people.start_reader(broker.runtime_file, "--hold-ms", str(HOLD_MS))
        return
    store = await store_of(broker)
    if "store" in what:
        os.kill(store, signal.SIGKILL)
    if "broker" in what:
        broker.kill()
        await asyncio.to_thread(broker.start)


async def speak(people: Crowd, patient: Patient, sender: int, hushed: asyncio.Event) -> None:
    chance = random.Random(f"{people.seed} {sender}")
    number = 0
    while not hushed.is_set():
        number += 1
        message_id = f"{people.task}-{sender}-{number}"
        if chance.random() < ABANDONED:
            await people.abandon(patient, message_id)
        else:
            await people.send([patient], message_id, chance, tries=chance.choice((1, 1, 3)))
        await asyncio.sleep(chance.random() * THINK_MS_MAX / 1_000)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", BLOWS)
async def test_nothing_is_lost_or_handed_over_after_its_ack_when_this_is_killed_again_and_again(
    what: str, broker: RunningBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    blows = (BLOWS_LONG if request.config.getoption("--long") else BLOWS)[what]
    with crowd(tmp_path, what.replace(" ", "-")) as people:
        chance = random.Random(people.seed)
        hushed = asyncio.Event()
        async with Patient(broker.runtime_file) as patient:
            declared = await patient.post("/v1/tasks", {"task": people.task})
            assert declared.ok, declared
            for _ in range(READER_PROCESSES):
                people.start_reader(broker.runtime_file, "--hold-ms", str(HOLD_MS))
            async with asyncio.TaskGroup() as senders:
                for sender in range(SENDERS):
                    senders.create_task(speak(people, patient, sender, hushed))
                for _ in range(blows):
                    # Not before the readers read: a blow at an idle inbox would show little.
                    goal = len(people.ledger.sent) + chance.randint(*BETWEEN_BLOWS)
                    read = sum(reader.lines() for reader in people.readers) + chance.randint(1, 10)
                    await wait_until(
                        lambda goal=goal, read=read: (
                            len(people.ledger.sent) >= goal and sum(one.lines() for one in people.readers) >= read
                        ),
                        within_ms=PROGRESS_MS_MAX,
                    )
                    await strike(what, broker, people, chance)
                hushed.set()
            await people.drained(patient)
            counted = people.finish()
            print(f"{what} killed {blows} times: {counted}")

            assert (counted.lost, counted.twice, counted.strange) == ([], [], [])
            assert counted.sent > blows * BETWEEN_BLOWS[0]
            assert counted.handed_over >= counted.sent
            stored = {row["message_id"]: row["state"] for row in await patient.timeline(people.task)}
            assert set(stored.values()) == {"delivered"}
            assert people.ledger.sent <= stored.keys() <= people.ledger.tried.keys()
            assert stored.keys() == {handed.message_id for handed in people.ledger.handovers}
