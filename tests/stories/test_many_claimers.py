"""Many workers on many processes claim the same work: each thread goes to one of them, and the others know it at once."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.brokers import clean_environment, running_broker
from tests.support.crowd import ROOT
from tests.support.patient import Patient
from tests.support.servers import find_server_binary, private_server

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

PROCESSES = 64
THREADS = 1_000
AT_ONCE = 50
REFUSED_MS_MAX = 60_000
"""A refusal waits for nothing, least of all for the lease, which is an hour; where 64 processes share a core it still takes its turn."""


@pytest.mark.timeout(600)
async def test_sixty_four_processes_claim_a_thousand_threads_and_each_is_claimed_once(tmp_path: Path) -> None:
    with (
        private_server(find_server_binary()) as store,
        running_broker(tmp_path / "one", "--redis-url", store.url) as one,
        running_broker(tmp_path / "two", "--redis-url", store.url) as two,
    ):
        async with Patient(one.runtime_file) as patient:
            for number in range(PROCESSES):
                await patient.post("/v1/tasks", {"task": f"w-{number}"})
            for start in range(0, THREADS, AT_ONCE):
                opened = await asyncio.gather(
                    *(
                        patient.post("/v1/threads", {"message_id": f"t-{number}", "subject": "x"})
                        for number in range(start, start + AT_ONCE)
                    )
                )
                assert {answer.status for answer in opened} == {201}
            claimers = [
                subprocess.Popen(
                    [sys.executable, "-m", "tests.support.claimer", "--agent", f"w-{number}", "claim",
                     "--runtime", str((one, two)[number % 2].runtime_file)],
                    cwd=ROOT, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )
                for number in range(PROCESSES)
            ]  # fmt: skip
            try:
                told = [await asyncio.to_thread(claimer.communicate, timeout=300) for claimer in claimers]
            finally:
                for claimer in claimers:
                    if claimer.poll() is None:
                        claimer.kill()
                        claimer.wait()
            assert [claimer.returncode for claimer in claimers] == [0] * PROCESSES, [
                error for _, error in told if error
            ]
            lines = [json.loads(output) for output, _ in told]
            won = {thread: (line["agent"], token) for line in lines for thread, token in line["won"]}
            lost = sum(line["lost"] for line in lines)
            slowest_ms = max(line["slowest_ms"] for line in lines)
            print(f"{len(won)} won, {lost} refused, the slowest refusal after {slowest_ms:.0f} ms")

            assert sum(len(line["won"]) for line in lines) == len(won) == THREADS, "claimed once each"
            assert {token for _, token in won.values()} == {1}
            assert {code for line in lines for code in line["codes"]} == {"409 LEASE_CONFLICT"}
            assert lost > 0, "nobody wanted the same thread: nothing was tried"
            assert slowest_ms < REFUSED_MS_MAX
            stored: dict[str, tuple[str, str]] = {}
            cursor = ""
            while True:
                page = await patient.get(f"/v1/threads?limit=200{cursor}")
                stored |= {row["thread_id"]: (row["lease"]["agent"], row["status"]) for row in page["threads"]}
                if page["next_cursor"] is None:
                    break
                cursor = f"&cursor={page['next_cursor']}"
            assert stored == {thread: (agent, "claimed") for thread, (agent, _) in won.items()}
