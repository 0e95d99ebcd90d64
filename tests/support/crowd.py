"""A crowd of senders and readers around real brokers: the load under which things are killed, and the count at its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.brokers import clean_environment
from tests.support.ledger import Count, Ledger
from tests.support.patient import Patient
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
STOP_S_MAX = 20
PRIORITIES = ("low", "normal", "high", "urgent")


def new_seed() -> int:
    """Another one each time; CHAOS_SEED repeats a run that failed."""
    return int(os.environ.get("CHAOS_SEED") or random.randrange(1_000_000))


@dataclass
class ReaderProcess:
    """One process of readers; kill it and a new one may be started beside its journal."""

    runtime_file: Path
    journal: Path
    task: str
    name: str
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        log = self.journal.with_suffix(".log")
        given = ["--runtime", self.runtime_file, "--journal", self.journal, "--task", self.task, "--name", self.name]
        command = [sys.executable, "-m", "tests.support.reader", *map(str, given), *self.options]
        with log.open("wb") as output:
            self.process = subprocess.Popen(command, cwd=ROOT, env=clean_environment(), stdout=output, stderr=output)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def finish(self) -> None:
        """Let each of its readers finish its batch; it must end well."""
        self.process.terminate()
        code = self.process.wait(STOP_S_MAX)
        assert code == 0, f"{self.name} ended with {code}:\n{self.journal.with_suffix('.log').read_text()}"

    def lines(self) -> int:
        return self.journal.read_bytes().count(b"\n") if self.journal.exists() else 0


@dataclass
class Crowd:
    """Readers in processes, senders in this one. Everything random comes from `seed`."""

    folder: Path
    task: str
    seed: int
    readers: list[ReaderProcess] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    _started: int = 0

    def start_reader(self, runtime_file: Path, *options: str) -> ReaderProcess:
        name = f"r{self._started}"
        self._started += 1
        made = ReaderProcess(runtime_file, self.folder / f"{name}.journal", self.task, name, options)
        self.readers.append(made)
        return made

    async def send(
        self, patients: list[Patient], message_id: str, chance: random.Random, *, tries: int = 1
    ) -> list[dict[str, Any]]:
        """Send one message, `tries` times at once and each until it is answered; all answers must tell of the same one."""
        content = {"message_id": message_id, "body": f"the body of {message_id}", "priority": chance.choice(PRIORITIES)}
        self.ledger.tried[message_id] = content["body"]
        asked = [chance.choice(patients).post(f"/v1/tasks/{self.task}/messages", content) for _ in range(tries)]
        answers = await asyncio.gather(*asked)
        assert all(found.ok for found in answers), answers
        assert len({found.body["message"]["n"] for found in answers}) == 1, answers
        self.ledger.sent.add(message_id)
        return [found.body for found in answers]

    async def abandon(self, patient: Patient, message_id: str) -> None:
        """Try to send once and never look back: it may arrive, but then once like any other."""
        content = {"message_id": message_id, "body": f"the body of {message_id}"}
        self.ledger.tried[message_id] = content["body"]
        found = await patient.once("POST", f"/v1/tasks/{self.task}/messages", content)
        if found is not None and found.ok:
            self.ledger.sent.add(message_id)

    async def drained(self, patient: Patient, *, within_ms: int = 30_000) -> None:
        async def nothing_waits() -> bool:
            found = await patient.get(f"/v1/tasks/{self.task}/pending")
            return bool(found["pending"] == 0 and found["held"] == 0)

        await wait_until(nothing_waits, within_ms=within_ms)

    def finish(self) -> Count:
        """End the readers, read their journals, and count."""
        for reader in self.readers:
            if reader.process.poll() is None:
                reader.finish()
        for reader in self.readers:
            if reader.journal.exists():
                self.ledger.read(reader.journal)
        return self.ledger.count()


@contextlib.contextmanager
def crowd(folder: Path, task: str = "backend") -> Iterator[Crowd]:
    """No process of it outlives the block, whatever happens in it."""
    made = Crowd(folder, task, new_seed())
    try:
        yield made
    except BaseException:
        print(f"CHAOS_SEED={made.seed} repeats these choices")
        raise
    finally:
        for reader in made.readers:
            if reader.process.poll() is None:
                reader.kill()
