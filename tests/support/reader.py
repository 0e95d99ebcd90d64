"""Readers as a process of their own: each pulls a batch, writes down durably what it was handed, then acks.

    python -m tests.support.reader --runtime FILE --journal FILE --task TASK --name NAME [--readers 4] [--max 7] [--hold-ms 1500] [--never-ack]

One journal per process, a JSON line per hand-over and per ack, on the disk before the next step: after kill -9 it tells
exactly how far the readers were. SIGTERM lets each finish its batch. Lines are read by ledger.py.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import time
import uuid
from pathlib import Path
from typing import Any

from tests.support.patient import Patient

WAIT_MS = 250  # a long poll: also how long SIGTERM may take


class Journal:
    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **line: Any) -> None:
        os.write(self._fd, json.dumps(line).encode() + b"\n")
        os.fsync(self._fd)


async def read_on(
    patient: Patient, journal: Journal, given: argparse.Namespace, session: str, stop: asyncio.Event
) -> None:
    inbox = f"/v1/tasks/{given.task}"
    want = {"session": session, "max": given.max, "wait_ms": WAIT_MS, "hold_ms": given.hold_ms}
    while not stop.is_set():
        pull_id = f"{session}-{uuid.uuid4().hex[:12]}"
        asked_ns = time.monotonic_ns()
        batch = await patient.post(f"{inbox}/pull", {**want, "pull_id": pull_id})
        answered_ns = time.monotonic_ns()
        assert batch.ok, batch
        if not batch.body["messages"]:
            continue
        handed = [[m["message_id"], m["n"], m["priority"], m["attempts"], m["body"]] for m in batch.body["messages"]]
        journal.write(pull_id=pull_id, session=session, asked_ns=asked_ns, answered_ns=answered_ns, handed=handed)
        if given.never_ack:
            await asyncio.Event().wait()
        ack = await patient.post(f"{inbox}/ack", {"receipt": pull_id})
        assert ack.ok or ack.code == "RECEIPT_LOST", ack
        acked = ack.body["message_ids"] if ack.ok else []
        journal.write(pull_id=pull_id, session=session, acked=acked, acked_ns=time.monotonic_ns())


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runtime", type=Path, required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--task", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--max", type=int, default=7)
    parser.add_argument("--hold-ms", type=int, default=1_500)
    parser.add_argument("--never-ack", action="store_true")
    given = parser.parse_args()
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    journal = Journal(given.journal)
    async with Patient(given.runtime) as patient, asyncio.TaskGroup() as readers:
        for number in range(given.readers):
            readers.create_task(read_on(patient, journal, given, f"{given.name}.{number}", stop))


if __name__ == "__main__":
    asyncio.run(main())
