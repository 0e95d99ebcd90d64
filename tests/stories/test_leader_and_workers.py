"""A leader and two workers, on two machines' worth of processes: a question is answered, and what a dead worker held is taken over."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shim.conftest import inbox_binary
from tests.support.brokers import RunningBroker, running_broker
from tests.support.inbox import Inbox
from tests.support.servers import find_server_binary, private_server

__all__ = ["inbox_binary"]
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "leader_and_workers.py"
WITHIN_S = 90


@contextlib.contextmanager
def part(at: Inbox, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One part of the example as a process of its own, gone when the block ends."""
    running = subprocess.Popen(
        [sys.executable, EXAMPLE, *arguments],
        cwd=at.folder,
        env=at.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate()


def threads_of(broker: RunningBroker) -> dict[str, Any]:
    """Both threads with their history, by subject."""
    with broker.client() as client:
        listed = client.get("/v1/threads").json()["threads"]
        shown = [client.get(f"/v1/threads/{one['thread_id']}").json() for one in listed]
    return {one["thread"]["subject"]: one for one in shown}


def told(broker: RunningBroker) -> None:
    """What must be so at the end, whoever was started where."""
    shown = threads_of(broker)
    door, yard = shown["Paint the door"], shown["Sweep the yard"]
    assert (door["thread"]["status"], yard["thread"]["status"]) == ("done", "done")
    said = [(one["kind"], one["sender"]) for one in door["messages"]]
    assert said == [
        ("task", "task:leader"),
        ("progress", "task:worker-1"),
        ("question", "task:worker-1"),
        ("answer", "task:leader"),
        ("result", "task:worker-1"),
    ]
    answer, result = door["messages"][3:]
    assert (answer["reply_to"], answer["state"]) == (door["messages"][2]["message_id"], "delivered")
    assert result["summary"] == "Paint the door: Green. (worker-1)"
    # The dead worker began and said nothing more; whoever took it over finished it.
    assert [one["sender"] for one in yard["messages"]] == [
        "task:leader",
        "task:worker-2",
        "task:worker-1",
        "task:worker-1",
    ]
    assert yard["messages"][-1]["summary"] == "Sweep the yard: as asked (worker-1)"
    with broker.client() as client:
        events = client.post("/v1/threads/watch", json={"after_event": 0}).json()["events"]
    claims = [
        one for one in events if one["type"] == "thread_claimed" and one["thread_id"] == yard["thread"]["thread_id"]
    ]
    assert [(one["agent"], one.get("taken_over_from")) for one in claims] == [
        ("worker-2", None),
        ("worker-1", "worker-2"),
    ]


def test_a_leader_and_two_workers_on_two_machines_finish_what_a_dead_one_began(
    tmp_path: Path, inbox_binary: Path
) -> None:
    with (
        private_server(find_server_binary()) as store,
        running_broker(tmp_path / "one", "--redis-url", store.url) as one,
        running_broker(tmp_path / "two", "--redis-url", store.url, "--workers", "2") as two,
    ):
        here = Inbox(inbox_binary, tmp_path / "here", one.url, one.token)
        there = Inbox(inbox_binary, tmp_path / "there", two.url, two.token)
        with part(here, "leader") as leader, part(there, "worker", "worker-2", "--stall") as dying:
            assert dying.stdout is not None
            assert dying.stdout.readline() == "worker-2: working on 'Sweep the yard'\n"
            dying.kill()
            with part(there, "worker", "worker-1"):
                printed, _ = leader.communicate(timeout=WITHIN_S)
        assert leader.returncode == 0, printed
        assert printed.splitlines()[-1] in (
            "leader: done: Paint the door: Green. (worker-1)",
            "leader: done: Sweep the yard: as asked (worker-1)",
        )
        told(one)


def test_the_example_tells_its_story_on_one_machine(tmp_path: Path, inbox_binary: Path) -> None:
    with running_broker(tmp_path / "broker") as broker:
        here = Inbox(inbox_binary, tmp_path / "here", broker.url, broker.token)
        # Somebody's real work, which is older and stays as it is.
        real = here.said("send", "--subject", "Real work", "--agent", "somebody", "--priority", "urgent")
        with part(here) as everything:
            printed, _ = everything.communicate(timeout=WITHIN_S)
        assert everything.returncode == 0, printed
        assert "you: killed worker-2\n" in printed
        assert "worker-1: was told: Green.\n" in printed
        told(broker)
        assert threads_of(broker)["Real work"]["thread"]["updated_at_ms"] == real["thread"]["updated_at_ms"]


def test_the_example_says_once_what_it_misses(tmp_path: Path, inbox_binary: Path) -> None:
    here = Inbox(inbox_binary, tmp_path / "here")
    alone = subprocess.run(
        [sys.executable, EXAMPLE], env=here.environment, capture_output=True, text=True, check=False, timeout=WITHIN_S
    )
    assert (alone.returncode, alone.stdout) == (1, "")
    [told] = alone.stderr.splitlines()
    assert told.startswith("leader: inbox init ended with 50: No broker is known here. ")
    copied = tmp_path / "elsewhere" / "examples" / EXAMPLE.name
    copied.parent.mkdir(parents=True)
    copied.write_bytes(EXAMPLE.read_bytes())
    bare = here.environment | {"PATH": "/usr/bin:/bin"}
    without = subprocess.run([sys.executable, copied], env=bare, capture_output=True, text=True, check=False)
    assert without.returncode == 1
    assert without.stderr.startswith("There is no `inbox` on the path, and none at ")
