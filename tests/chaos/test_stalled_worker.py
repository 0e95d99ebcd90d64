"""A worker that is stopped, loses its lease and wakes up: nothing it writes then is written, not even what was half sent before."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.brokers import RunningBroker, clean_environment, running_broker
from tests.support.claimer import WRITES
from tests.support.crowd import ROOT
from tests.support.patient import Patient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

LEASE_MS = 1_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker"), "--store-fsync", "everysec") as running:
        yield running


class Stalled:
    """A worker in a process of its own that holds a thread and writes when told to."""

    def __init__(self, broker: RunningBroker, agent: str, thread: str) -> None:
        command = [sys.executable, "-m", "tests.support.claimer", "--agent", agent, "--lease-ms", str(LEASE_MS)]
        self.process = subprocess.Popen(
            [*command, "--runtime", str(broker.runtime_file), "write", thread],
            cwd=ROOT, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Stalled:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


async def open_thread(patient: Patient, thread: str) -> None:
    """By a leader of its own, named after it."""
    for task in (f"for-{thread}", "stalled", "heir"):
        await patient.post("/v1/tasks", {"task": task})
    opened = await patient.post("/v1/threads", {"message_id": thread, "subject": "x", "from": f"for-{thread}"})
    assert opened.status == 201


async def taken_over(patient: Patient, thread: str) -> int:
    """The lease runs out, and the heir takes the thread over; its fencing token."""

    async def claimed() -> int | None:
        answer = await patient.post(f"/v1/threads/{thread}/claim", {"agent": "heir"})
        return answer.body["thread"]["lease"]["fencing_token"] if answer.ok else None

    token: int = await wait_until(claimed, within_ms=20 * LEASE_MS)
    return token


async def words(patient: Patient, thread: str) -> list[tuple[str, str]]:
    shown = await patient.get(f"/v1/threads/{thread}")
    return [(message["sender"], message["kind"]) for message in shown["messages"]]


@pytest.mark.parametrize("heir", ["another", "itself", "nobody"])
async def test_a_worker_stopped_between_reading_and_writing_writes_nothing(broker: RunningBroker, heir: str) -> None:
    thread = f"stopped-{heir}"
    async with Patient(broker.runtime_file) as patient:
        await open_thread(patient, thread)
        with Stalled(broker, "heir" if heir == "itself" else "stalled", thread) as worker:
            assert worker.hear() == {"claimed": thread, "fencing_token": 1}
            worker.stop()
            if heir == "nobody":

                async def let_go() -> bool:
                    shown = await patient.get(f"/v1/threads/{thread}")
                    return not shown["thread"]["lease"]["live"]

                await wait_until(let_go, within_ms=20 * LEASE_MS)
            else:
                assert await taken_over(patient, thread) == 2
            worker.tell("all")
            before = await words(patient, thread)
            worker.go_on()
            assert worker.hear() == {"answers": dict.fromkeys(WRITES, "409 LEASE_LOST")}
            assert await words(patient, thread) == before == [(f"task:for-{thread}", "task")]
        if heir != "nobody":
            done = await patient.post(
                f"/v1/threads/{thread}/done", {"agent": "heir", "fencing_token": 2, "summary": "Done."}
            )
            assert done.ok
            assert (await words(patient, thread))[-1] == ("task:heir", "result")


@pytest.mark.parametrize("verb", WRITES)
async def test_a_write_delayed_until_after_a_takeover_is_refused(broker: RunningBroker, verb: str) -> None:
    thread = f"delayed-{verb}"
    async with Patient(broker.runtime_file) as patient:
        await open_thread(patient, thread)
        with Stalled(broker, "stalled", thread) as worker:
            assert worker.hear()["claimed"] == thread
            worker.tell(f"begin {verb}")
            assert worker.hear() == {"halfway": verb}
            worker.stop()
            await taken_over(patient, thread)
            worker.tell("and the rest")
            worker.go_on()
            assert worker.hear() == {"answers": {verb: "409 LEASE_LOST"}}
        assert await words(patient, thread) == [(f"task:for-{thread}", "task")]
        pending = await patient.get(f"/v1/tasks/for-{thread}/pending")
        assert pending["pending"] == 0
