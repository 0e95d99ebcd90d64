"""A reader that dies between pull and ack: its mail comes again to others, once, and nobody else notices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.crowd import Crowd, crowd
from tests.support.patient import Patient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

HOLD_MS = 700
LONG_HOLD_MS = 60_000
START_MS_MAX = 10_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


async def pull(patient: Patient, inbox: str, session: str, **given: Any) -> list[dict[str, Any]]:
    want = {"pull_id": f"of-{session}", "session": session, "hold_ms": LONG_HOLD_MS, **given}
    answer = await patient.post(f"{inbox}/pull", want)
    assert answer.ok, answer
    messages: list[dict[str, Any]] = answer.body["messages"]
    return messages


def ids_of(messages: list[dict[str, Any]]) -> list[str]:
    return [message["message_id"] for message in messages]


async def send_six(patient: Patient, task: str) -> list[str]:
    await patient.post("/v1/tasks", {"task": task})
    ids = [f"{task}-{number}" for number in range(6)]
    for message_id in ids:
        sent = await patient.post(f"/v1/tasks/{task}/messages", {"message_id": message_id, "body": "hello"})
        assert sent.status == 201
    return ids


async def die_holding(people: Crowd, runtime_file: Path, ids: list[str]) -> tuple[str, str]:
    """A reader process is handed these messages and killed before it acks; its session and its receipt."""
    reader = people.start_reader(
        runtime_file, "--readers", "1", "--max", str(len(ids)), "--hold-ms", str(HOLD_MS), "--never-ack"
    )
    await wait_until(reader.lines, within_ms=START_MS_MAX)
    reader.kill()
    people.ledger.read(reader.journal)
    assert [handed.message_id for handed in people.ledger.handovers] == ids
    return people.ledger.handovers[0].session, people.ledger.handovers[0].pull_id


async def test_what_a_killed_reader_held_comes_once_more_to_another_and_nobody_elses_mail_moves(
    tmp_path: Path, broker: RunningBroker
) -> None:
    inbox = "/v1/tasks/inherited"
    with crowd(tmp_path, "inherited") as people:
        async with Patient(broker.runtime_file) as patient:
            ids = await send_six(patient, people.task)
            assert ids_of(await pull(patient, inbox, "steady", max=3)) == ids[:3]
            dead, dead_receipt = await die_holding(people, broker.runtime_file, ids[3:])

            heirs = await pull(patient, inbox, "heir", wait_ms=10_000)
            assert [(found["message_id"], found["attempts"]) for found in heirs] == [(name, 2) for name in ids[3:]]
            assert await pull(patient, inbox, "third") == []

            late_ack = await patient.post(f"{inbox}/ack", {"receipt": dead_receipt})
            assert (late_ack.status, late_ack.code) == (409, "RECEIPT_LOST")
            by_ids = await patient.post(f"{inbox}/ack", {"message_ids": ids[3:], "session": dead})
            assert (by_ids.status, by_ids.code) == (409, "RECEIPT_LOST")

            for session, receipt, theirs in (("heir", "of-heir", ids[3:]), ("steady", "of-steady", ids[:3])):
                acked = await patient.post(f"{inbox}/ack", {"receipt": receipt})
                assert (session, acked.status, acked.body["message_ids"]) == (session, 200, theirs)
            for name in ids[:3]:
                assert await patient.history(name) == [
                    ("queued", "operator"),
                    ("in_flight", "steady"),
                    ("delivered", "steady"),
                ]
            for name in ids[3:]:
                assert await patient.history(name) == [
                    ("queued", "operator"),
                    ("in_flight", dead),
                    ("queued", "hold_ran_out"),
                    ("in_flight", "heir"),
                    ("delivered", "heir"),
                ]
                steps = (await patient.get(f"/v1/messages/{name}"))["history"]
                assert steps[2]["at_ms"] - steps[1]["at_ms"] >= HOLD_MS, "it was taken from a living hold"
            late_again = await patient.post(f"{inbox}/ack", {"receipt": dead_receipt})
            assert (late_again.status, late_again.code) == (409, "RECEIPT_LOST")


async def test_a_release_by_a_former_holder_changes_nothing(tmp_path: Path, broker: RunningBroker) -> None:
    inbox = "/v1/tasks/released"
    with crowd(tmp_path, "released") as people:
        async with Patient(broker.runtime_file) as patient:
            ids = await send_six(patient, people.task)
            dead, dead_receipt = await die_holding(people, broker.runtime_file, ids)
            assert ids_of(await pull(patient, inbox, "heir", wait_ms=10_000)) == ids
            before = await patient.timeline(people.task)

            for what in ({"receipt": dead_receipt}, {"message_ids": ids, "session": dead}):
                released = await patient.post(f"{inbox}/release", what)
                assert (released.status, released.body["message_ids"], released.body["lost"]) == (200, [], ids)

            assert await patient.timeline(people.task) == before
            assert await pull(patient, inbox, "third") == []
            assert (await patient.post(f"{inbox}/ack", {"receipt": "of-heir"})).body["message_ids"] == ids
