#!/usr/bin/env python3
"""A leader and two workers, each a process of its own, that speak through `inbox` and nothing else.

The leader opens two threads. One worker has a question, waits for the answer and finishes. The other stalls and is killed; its
lease runs out, and the first worker takes its thread over.

    inbox init                                             a broker, if none runs yet
    python3 examples/leader_and_workers.py                 the whole story on this machine

On several machines, each with INBOX_URL and INBOX_TOKEN (an operator's) set, run the parts:

    leader_and_workers.py leader
    leader_and_workers.py worker worker-1
    leader_and_workers.py worker worker-2 --stall          and kill it once it has begun
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

LEADER, WORKERS = "leader", ("worker-1", "worker-2")
INBOX = shutil.which("inbox") or str(Path(__file__).parents[1] / ".venv" / "bin" / "inbox")
"""The one on the path, else the one that `make run` put beside the broker."""


def inbox(agent: str, *arguments: str, also: tuple[int, ...] = ()) -> dict[str, Any]:
    """One command, as the agent; its answer, with the exit code beside. `also` are codes that are no failure."""
    try:
        ran = subprocess.run([INBOX, *arguments, "--agent", agent, "--json"], stdout=subprocess.PIPE, check=False)
    except FileNotFoundError:
        sys.exit(f"There is no `inbox` on the path, and none at {INBOX}: `make run` installs it.")
    answer: dict[str, Any] = json.loads(ran.stdout)
    if ran.returncode not in (0, *also):
        told = answer["error"]
        sys.exit(f"{agent}: inbox {arguments[0]} ended with {ran.returncode}: {told['message']} {told['hint'] or ''}")
    return {**answer, "exit": ran.returncode}


def say(who: str, words: str) -> None:
    print(f"{who}: {words}", flush=True)


def lead(run: str) -> None:
    inbox(LEADER, "init", "--no-start")
    after = inbox(LEADER, "list")["next_event_id"]
    open_threads = set()
    for worker, subject in zip(WORKERS, ("Paint the door", "Sweep the yard"), strict=True):
        # The kind of work is ours to say: here the payload tells a worker whether it will have to ask.
        work = json.dumps({"ask": "Which colour?" if worker == WORKERS[0] else None})
        opening = ["--to", worker, "--create", "--subject", subject, "--run", run, "--payload-json", work]
        sent = inbox(LEADER, "send", *opening)
        open_threads.add(sent["thread"]["thread_id"])
        say(LEADER, f"opened {subject!r} for {worker}")
    while open_threads:
        seen = inbox(LEADER, "watch", "--threads", "--after-event", str(after), "--timeout-seconds", "60", also=(10,))
        if seen["exit"] == 10:
            sys.exit("leader: nothing happened for a minute")
        after = seen["next_event_id"]
        for event in seen["events"]:
            thread, what = event["thread_id"], event["type"].removeprefix("thread_")
            if thread not in open_threads:
                continue
            by = event.get("sender") or event.get("agent") or LEADER
            say(LEADER, f"{what.replace('_', ' ')}: {by.removeprefix('task:')}")
            if what == "blocked":
                inbox(LEADER, "reply", "--thread", thread, "--kind", "answer", "--body", "Green.")
            if event["status"] in ("done", "failed", "cancelled"):
                open_threads.discard(thread)
                history = inbox(LEADER, "show", "--thread", thread, "--mark-read")["messages"]
                say(LEADER, f"{event['status']}: {history[-1]['summary']}")


def work(name: str, run: str, lease_seconds: str, stall: bool) -> None:
    """Takes only threads of this run: what else stands in the namespace is somebody's real work, or a leader's that has gone."""
    inbox(name, "init", "--no-start")
    while True:
        found = inbox(name, "fetch", "--limit", "1000", also=(10,))
        ours = [thread["thread_id"] for thread in found["threads"] if thread["run_id"] == run]
        taken = next((thread for thread in ours if claimed(name, thread, lease_seconds)), None)
        if taken is None:
            # Nothing to do: until something happens, or a lease may have run out.
            after = str(found["next_event_id"])
            inbox(name, "watch", "--threads", "--after-event", after, "--timeout-seconds", "2", also=(10,))
            continue
        do(name, taken, lease_seconds, stall)


def claimed(name: str, thread: str, lease_seconds: str) -> bool:
    """20 is another worker that was faster: no failure, only another thread to take."""
    asked = inbox(name, "claim", "--thread", thread, "--lease-seconds", lease_seconds, also=(20,))
    return bool(asked["exit"] == 0)


def do(name: str, thread: str, lease_seconds: str, stall: bool) -> None:
    shown = inbox(name, "show", "--thread", thread, "--mark-read")
    subject, wanted = shown["thread"]["subject"], shown["messages"][0]["payload"]
    inbox(name, "update", "--thread", thread, "--summary", f"{name} has begun")
    say(name, f"working on {subject!r}")
    while stall:
        time.sleep(1)  # a program that hangs: it neither writes nor renews
    answer = "as asked"
    if wanted["ask"]:
        inbox(name, "update", "--thread", thread, "--status", "blocked", "--body", wanted["ask"])
        say(name, f"asks: {wanted['ask']}")
        while (reply := inbox(name, "wait-reply", "--thread", thread, "--timeout-seconds", "1", also=(10,)))[
            "exit"
        ] == 10:
            inbox(name, "renew", "--thread", thread, "--lease-seconds", lease_seconds)
        answer = reply["message"]["body"]
        say(name, f"was told: {answer}")
    inbox(name, "done", "--thread", thread, "--summary", f"{subject}: {answer} ({name})")


def everything(lease_seconds: str) -> int:
    """All three on this machine; the second worker is killed as soon as it has begun."""
    inbox(LEADER, "init", "--no-start")  # what is missing is said once, and not by all three
    myself = [sys.executable, __file__]
    given = ["--run", f"example-{uuid.uuid4().hex[:8]}", "--lease-seconds", lease_seconds]
    leader = subprocess.Popen([*myself, "leader", *given])
    stalled = subprocess.Popen([*myself, "worker", WORKERS[1], "--stall", *given], stdout=subprocess.PIPE, text=True)
    steady = subprocess.Popen([*myself, "worker", WORKERS[0], *given])
    try:
        assert stalled.stdout is not None
        print(stalled.stdout.readline(), end="", flush=True)
        stalled.kill()
        say("you", f"killed {WORKERS[1]}")
        return leader.wait()
    finally:
        for process in (leader, stalled, steady):
            process.kill()
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "part", nargs="?", choices=["leader", "worker"], help="all of it on this machine, if none is named"
    )
    parser.add_argument("name", nargs="?", default=WORKERS[0], help="of the worker")
    parser.add_argument("--stall", action="store_true", help="begin, and then hang")
    parser.add_argument("--run", default="example", help="the label of our threads")
    parser.add_argument("--lease-seconds", default="3")
    given = parser.parse_args()
    if given.part == "leader":
        lead(given.run)
    elif given.part == "worker":
        work(given.name, given.run, given.lease_seconds, given.stall)
    else:
        return everything(given.lease_seconds)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
