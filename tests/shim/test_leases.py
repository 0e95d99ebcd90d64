"""Leases, as processes fight for them: one owner a thread, whoever lost it writes nothing more, and a lost answer changes nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.fault_proxy import CUTS, Cut, fault_proxy
from tests.support.inbox import Inbox
from tests.support.servers import poll_until
from tests.support.team import Team, leases, team_at, told_well

pytestmark = pytest.mark.xdist_group("inbox-leases")

PROCESSES = 64
WRITES: dict[str, list[str]] = {
    "update": ["--summary", "late words"],
    "renew": [],
    "reply": ["--body", "late words"],
    "send": ["--body", "late words"],
    "done": ["--summary", "late words"],
    "fail": ["--summary", "late words"],
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def team(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Iterator[Team]:
    with team_at(inbox_binary, running, tmp_path) as made:
        yield made


def taken_over(team: Team, thread: str) -> None:
    """The worker's lease runs out, and the other takes the thread."""
    poll_until(lambda: team.other.run("claim", "--thread", thread).code == 0, what="the end of the lease")


# one owner


@pytest.mark.timeout(3_600)
def test_of_many_processes_one_claims_a_thread_and_the_others_end_at_once(
    team: Team, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    count = 1_000 if request.config.getoption("--long") else 60
    threads = [team.opened(to=None, subject="For anybody") for _ in range(3)]
    with team.running.client(team.leader.token) as leader, ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda _: leader.post("/v1/threads", json={"subject": "For anybody"}).json(), range(count - 3))
        threads += [one["thread"]["thread_id"] for one in made]
    (tmp_path / "threads").write_text("\n".join(threads) + "\n")
    for number in range(PROCESSES):
        team.client.post("/v1/tasks", json={"task": f"{team.mark}-{number}"}).raise_for_status()
    script = 'while read -r thread; do inbox claim --thread "$thread" >/dev/null 2>&1; echo "$? $thread"; done'
    crowd = Inbox(team.binary, tmp_path / "crowd", team.running.url, team.running.token).environment

    def claims(number: int) -> str:
        with (tmp_path / "threads").open() as given:
            env = {**crowd, "INBOX_TASK": f"{team.mark}-{number}"}
            ran = subprocess.run(["sh", "-c", script], stdin=given, capture_output=True, env=env, text=True, check=True)
            return ran.stdout

    began = time.monotonic()
    with ThreadPoolExecutor(PROCESSES) as pool:
        printed = list(pool.map(claims, range(PROCESSES)))
    took_s = time.monotonic() - began
    print(f"{PROCESSES} processes, {count} threads, {PROCESSES * count / took_s:.0f} claims a second")

    lines = [line.split() for text in printed for line in text.splitlines()]
    assert Counter(code for code, _ in lines) == {"0": count, "20": (PROCESSES - 1) * count}
    winners = {
        thread: f"{team.mark}-{number}"
        for number, text in enumerate(printed)
        for code, thread in (line.split() for line in text.splitlines())
        if code == "0"
    }
    assert sorted(winners) == sorted(threads), "one won each"
    for thread in threads[:: max(1, count // 50)]:
        assert team.shown(thread)["thread"]["lease"]["agent"] == winners[thread]
        assert team.events(thread, after=0).count("claimed") <= 1


def test_a_lost_race_is_not_tried_again(team: Team) -> None:
    thread = team.claimed()
    took_s = []
    for _ in range(5):
        began = time.monotonic()
        assert team.other.run("claim", "--thread", thread).code == 20
        took_s.append(time.monotonic() - began)
    assert min(took_s) < 0.25, "a second try would have waited longer"


# lost leases


def test_who_lost_its_lease_writes_nothing_and_is_told_to_stop(team: Team) -> None:
    for verb, flags in WRITES.items():
        thread = team.claimed(lease_s="1")
        taken_over(team, thread)
        before = team.shown(thread)
        ran = team.worker.run(verb, "--thread", thread, *flags)
        told_well(ran, 20)
        assert f"is held by {team.name('other')}. Stop working on it." in ran.stderr
        assert leases(team.worker) == [], "the token is of no use any more"
        again = team.worker.run(verb, "--thread", thread, *flags, "--json")
        assert (again.code, again.error["code"]) == (20, "LEASE_LOST")
        assert team.shown(thread) == before


def test_a_lease_that_ran_out_is_lost_even_if_nobody_took_it_over(team: Team) -> None:
    thread = team.claimed(lease_s="1")
    poll_until(lambda: not team.shown(thread)["thread"]["lease"]["live"], what="the end of the lease")
    before = team.shown(thread)
    ran = team.worker.run("done", "--thread", thread, "--summary", "late")
    told_well(ran, 20)
    assert (
        f"has run out. Stop working on it. If it is free, `inbox claim --thread {thread}` takes it again." in ran.stderr
    )
    assert team.shown(thread) == before
    assert team.worker.said("claim", "--thread", thread)["thread"]["lease"]["fencing_token"] == 2
    team.worker.ok("done", "--thread", thread, "--summary", "in time")


def test_a_stopped_holder_that_wakes_after_a_takeover_cannot_write_anything(team: Team) -> None:
    thread = team.opened()
    writes = "; ".join(
        f"inbox {verb} --thread {thread} {' '.join(repr(flag) for flag in flags)} >/dev/null 2>&1; echo $?"
        for verb, flags in WRITES.items()
    )
    script = f"inbox claim --thread {thread} --lease-seconds 1 >/dev/null; echo claimed; read -r go; {writes}"
    holder = subprocess.Popen(
        ["sh", "-c", script],
        env=team.worker.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == "claimed\n"
    os.killpg(holder.pid, signal.SIGSTOP)
    taken_over(team, thread)
    before = team.shown(thread)
    holder.stdin.write("go\n")
    holder.stdin.flush()
    os.killpg(holder.pid, signal.SIGCONT)
    printed, _ = holder.communicate(timeout=60)
    assert printed.split() == ["20"] * len(WRITES)
    assert team.shown(thread) == before
    assert team.other.ok("done", "--thread", thread, "--summary", "Mine.").code == 0


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_that_was_on_its_way_during_a_takeover_is_refused(
    team: Team, running: RunningBroker, verb: str
) -> None:
    path = "reply" if verb == "send" else verb
    with fault_proxy(int(running.url.rpartition(":")[2])) as proxy:
        team.worker.url = f"http://127.0.0.1:{proxy.port}"
        thread = team.claimed(lease_s="2")
        proxy.arm("held back", f"/{thread}/{path}", times=3)
        gave_up = team.worker.run(verb, "--thread", thread, *WRITES[verb])
        assert (gave_up.code, proxy.cuts) == (50, 3)
        taken_over(team, thread)
        before, refused = team.shown(thread), conflicts(team, path)
        proxy.let_go()
        poll_until(lambda: conflicts(team, path) == refused + 3, what="the refusal of all three")
    assert team.shown(thread) == before


def conflicts(team: Team, verb: str) -> int:
    """Requests of this verb that the broker refused with 409."""
    sign = f'{{method="POST",route="/v1/threads/{{thread_id}}/{verb}",status="409"}}'
    counted = [line.split()[-1] for line in team.client.get("/metrics").text.splitlines() if sign in line]
    return int(float(counted[0])) if counted else 0


# lost answers


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("verb", ["claim", "renew", "update", "reply", "done", "cancel", "send"])
def test_a_write_whose_answer_is_lost_is_tried_again_and_changes_once(
    team: Team, running: RunningBroker, verb: str, cut: Cut
) -> None:
    with fault_proxy(int(running.url.rpartition(":")[2])) as proxy:
        team.leader.url = team.worker.url = f"http://127.0.0.1:{proxy.port}"
        thread = team.opened() if verb in ("claim", "send") else team.claimed()
        messages = len(team.history(thread))
        proxy.arm(cut, f"/{thread}/{verb}" if verb != "send" else "only once", times=1)
        if verb == "send":
            thread = team.opened(subject="only once")
        elif verb == "cancel":
            team.leader.ok("cancel", "--thread", thread)
        else:
            given = {"update": ["x"], "reply": ["x"], "done": ["--summary", "x"]}.get(verb, [])
            told = team.worker.ok(verb, "--thread", thread, *given).stdout
            assert "nothing was changed" not in told, "whoever called did it once, and it is done"
        assert proxy.cuts == 1
        if verb == "claim":
            assert leases(team.worker) != [], "the token of the first answer was lost, and came with the second"
    after = team.shown(thread)
    says = verb not in ("claim", "renew", "send")
    assert len(after["messages"]) == messages + says
    happened = {"claim": "claimed", "renew": "renewed", "update": "updated", "reply": "replied", "done": "done"}
    event = {**happened, "cancel": "cancelled", "send": "opened"}[verb]
    assert team.events(thread).count(event) == 1
