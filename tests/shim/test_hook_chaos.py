"""Hooks that are killed at any moment, two at a time, while mail comes in: counted in the transcript, which keeps only what a
finished hook printed. Every message stands there, and stands there once.

A run that failed is repeated with CHAOS_SEED.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.claude import WITHIN_S, Claude, words
from tests.support.crowd import new_seed

pytestmark = pytest.mark.chaos

SENDERS = 8
MESSAGES, MESSAGES_LONG = 500, 4_000
SIDE_BY_SIDE = 2
KILLED = 0.4
KILL_WITHIN_MS = 15
PER_ROUND_MAX = 3
"""How many messages a round lets the senders send at most, so that mail keeps coming while hooks are killed."""
HOLD_MS = 3_000
DRAIN_S_MAX = 60
LOOK_EVERY_MS = 200
"""How often the drain asks the broker what is left."""


@dataclass
class Host:
    """The driver: runs hooks two at a time, kills some, and takes in what the others printed."""

    claude: Claude
    chance: random.Random
    started: int = 0
    killed: int = 0
    killed_after_printing: int = 0
    took_ms: list[float] = field(default_factory=lambda: [float(KILL_WITHIN_MS)])

    def round(self, *, kill: bool = True) -> None:
        calls = [self.claude.event() for _ in range(SIDE_BY_SIDE)]
        began = time.monotonic()
        hooks = [self.claude.start(given) for given in calls]
        self.started += len(hooks)
        doomed = [(self._moment_ms(), hook) for hook in hooks if kill and self._dooms()]
        for moment_ms, hook in sorted(doomed, key=lambda one: one[0]):
            time.sleep(max(0.0, began + moment_ms / 1_000 - time.monotonic()))
            hook.kill()  # does nothing to a hook that has ended
        ended = [(hook, *hook.communicate(timeout=WITHIN_S)) for hook in hooks]
        self.took_ms.append((time.monotonic() - began) * 1_000)
        for given in calls:
            self.claude.takes_result(given)
        for hook, stdout, stderr in ended:
            if hook.returncode < 0:
                self.killed += 1
                self.killed_after_printing += bool(stdout)
                continue
            assert (hook.returncode, stderr) == (0, b""), stderr
            self.claude.takes_in(stdout)
        self.claude.answers()

    def _moment_ms(self) -> float:
        """Any moment of a hook's life, and a little beyond."""
        lately = sorted(self.took_ms[-50:])
        return self.chance.uniform(0, min(KILL_WITHIN_MS, 1.2 * lately[len(lately) // 2]))

    def _dooms(self) -> bool:
        """Some are gone before their moment comes, so the dice are loaded towards the share that is to die."""
        return self.chance.random() < (0.7 if self.killed < KILLED * self.started else 0.2)


def send_all(
    broker: RunningBroker, names: list[str], task: str, chance: random.Random, turns: threading.Semaphore
) -> None:
    """One sender: each message when its turn comes, and some of them again, as after a lost answer."""
    with broker.client() as client:
        for name in names:
            turns.acquire()
            priority = chance.choice(("low", "normal", "normal", "high"))
            new = {"message_id": name, "body": words(name), "priority": priority}
            for _ in range(chance.choice((1, 1, 2))):
                client.post(f"/v1/tasks/{task}/messages", json=new).raise_for_status()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    flags = ["--hook-hold-ms", str(HOLD_MS)]
    with running_broker(tmp_path_factory.mktemp("broker"), *flags) as running:
        yield running


@pytest.mark.timeout(300)
@pytest.mark.parametrize("transcript", ["with the tools' results", "of answers and context only"])
def test_mail_through_hooks_that_are_killed_at_any_moment_is_shown_once(
    transcript: str, inbox_binary: Path, broker: RunningBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = new_seed()
    total = MESSAGES_LONG if request.config.getoption("--long") else MESSAGES
    task = f"chaos-{seed}-{len(transcript)}"
    with broker.client() as asking:
        asking.post("/v1/tasks", json={"task": task}).raise_for_status()
        made = asking.post("/v1/tokens", json={"role": "agent", "task": task}).raise_for_status().json()
        claude = Claude(inbox_binary, tmp_path / "home", broker.url, made["token"], results="results" in transcript)
        host = Host(claude, random.Random(seed))
        turns = threading.Semaphore(0)
        names = [f"{task}-{number % SENDERS}-{number}" for number in range(total)]
        with ThreadPoolExecutor(SENDERS) as pool:
            sending = [
                pool.submit(send_all, broker, names[i::SENDERS], task, random.Random(f"{seed} {i}"), turns)
                for i in range(SENDERS)
            ]
            try:
                while not all(sender.done() for sender in sending):
                    turns.release(host.chance.randint(1, PER_ROUND_MAX))
                    host.round()
            finally:
                turns.release(total)
        for sender in sending:
            sender.result()
        killed_of = host.started

        def counts() -> dict[str, int]:
            found: dict[str, int] = asking.get(f"/v1/tasks/{task}/pending").raise_for_status().json()
            return found

        give_up_at = time.monotonic() + DRAIN_S_MAX
        while (left := counts())["pending"] or left["held"] or claude.notes():
            assert time.monotonic() < give_up_at, (f"seed {seed}", left, [one.read_text() for one in claude.notes()])
            host.round(kill=False)
            time.sleep(LOOK_EVERY_MS / 1_000)

        sent = set(names)
        shown = claude.shown()
        never = sorted(sent - shown.keys())
        twice = sorted(name for name, times in shown.items() if times > 1)
        rows = {name: asking.get(f"/v1/messages/{name}").json() for name in sent}
        attempts = Counter(row["message"]["attempts"] for row in rows.values())
        print(
            f"seed={seed} transcript {transcript}: sent={len(sent)} shown={len(shown)} never={len(never)} "
            f"twice={len(twice)} hooks={killed_of} killed={host.killed} "
            f"(of them {host.killed_after_printing} after printing) hand-overs={dict(sorted(attempts.items()))} "
            f"round={sorted(host.took_ms)[len(host.took_ms) // 2]:.1f}ms"
        )
        assert (never, twice) == ([], []), (
            f"seed {seed}: {json.dumps([rows[n] for n in (never + twice)[:3] if n in rows])}"
        )
        assert shown.keys() == sent
        assert {row["message"]["state"] for row in rows.values()} == {"seen"}
        assert host.killed > 0.3 * killed_of
