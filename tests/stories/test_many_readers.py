"""Many senders that retry everything, many readers on many processes, two brokers, one inbox: each message once, in order."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.support.brokers import running_broker
from tests.support.crowd import crowd
from tests.support.patient import Patient
from tests.support.servers import find_server_binary, private_server

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

SENDERS = 32
READER_PROCESSES = 4
READERS_EACH = 4
HOLD_MS = 60_000  # nothing may come back in this story, however slow the machine is


@pytest.mark.timeout(600)
async def test_every_message_of_many_retrying_senders_reaches_one_of_many_readers_once_and_in_order(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    each = 150 if request.config.getoption("--long") else 8
    with (
        private_server(find_server_binary()) as store,
        running_broker(tmp_path / "one", "--redis-url", store.url) as one,
        running_broker(tmp_path / "two", "--redis-url", store.url) as two,
        crowd(tmp_path) as people,
    ):
        runtimes = [one.runtime_file, two.runtime_file]
        async with Patient(runtimes[0]) as left, Patient(runtimes[1]) as right:
            await left.post("/v1/tasks", {"task": people.task})
            for number in range(READER_PROCESSES):
                people.start_reader(
                    runtimes[number % 2], "--readers", str(READERS_EACH), "--hold-ms", str(HOLD_MS), "--max", "7"
                )

            async def speak(sender: int) -> None:
                chance = random.Random(f"{people.seed} {sender}")
                for number in range(each):
                    answers = await people.send([left, right], f"s{sender}-{number}", chance, tries=3)
                    assert [answer["duplicate"] for answer in answers].count(False) == 1, answers

            await asyncio.gather(*map(speak, range(SENDERS)))
            await people.drained(left, within_ms=120_000)
            counted = people.finish()
            print(counted)

            assert (counted.sent, counted.handed_over) == (SENDERS * each, SENDERS * each)
            assert (counted.lost, counted.twice, counted.again, counted.strange) == ([], [], 0, [])
            assert people.ledger.disorder() == []
            assert len(people.ledger.acked_ns) == SENDERS * each

            stored = await right.timeline(people.task)
            assert sorted(row["message_id"] for row in stored) == sorted(people.ledger.sent)
            assert {(row["state"], row["attempts"]) for row in stored} == {("delivered", 1)}
            readers = {handed.session for handed in people.ledger.handovers}
            assert len(readers) > READERS_EACH, "one process took everything: nothing was shared"
            for patient in (left, right):
                assert (await patient.get(f"/v1/tasks/{people.task}/pending"))["pending"] == 0
