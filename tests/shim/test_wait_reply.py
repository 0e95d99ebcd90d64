"""wait-reply and watch: they wake for what they wait for, nothing between two calls is missed, and what a killed one had not printed
comes again, once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.claude import Claude, full_pipe
from tests.support.fault_proxy import CUTS, Cut, fault_proxy
from tests.support.servers import free_port, poll_until
from tests.support.team import Team, team_at

pytestmark = pytest.mark.xdist_group("inbox-waiting")

HOLD_MS = 1_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker"), "--hold-ms", str(HOLD_MS)) as broker:
        yield broker


@pytest.fixture
def team(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Iterator[Team]:
    with team_at(inbox_binary, running, tmp_path) as made:
        yield made


def asked(team: Team) -> str:
    """A thread in which the worker waits for an answer; its first message is out of the worker's inbox."""
    thread = team.claimed()
    team.worker.ok("check")
    team.worker.ok("update", "--thread", thread, "--status", "blocked", "--body", "Which?")
    return thread


def is_waiting(team: Team, number: int = 1) -> None:
    poll_until(lambda: f"\ninboxd_waiters {number}.0\n" in team.client.get("/metrics").text, what="the wait")


def hook_of(team: Team, folder: Path) -> Claude:
    """The worker's program: what its hook says is what the model gets."""
    return Claude(team.binary, folder / "claude", team.running.url, team.worker.token)


def test_a_reply_wakes_whoever_waits_and_has_the_agreed_form(team: Team) -> None:
    thread = asked(team)
    waiting = team.worker.start("wait-reply", "--thread", thread, "--json")
    is_waiting(team)
    team.leader.ok("reply", "--thread", thread, "17.4", "--id", f"a-{team.mark}")
    printed, said = waiting.communicate(timeout=20)
    assert (waiting.returncode, said) == (0, "")
    answer = json.loads(printed)
    assert list(answer) == ["ok", "command", "woke", "next_event_id", "message"]
    assert (answer["ok"], answer["command"], answer["woke"]) == (True, "wait-reply", True)
    assert (answer["message"]["message_id"], answer["message"]["body"]) == (f"a-{team.mark}", "17.4")
    assert answer["next_event_id"] == answer["message"]["n"]


def test_without_a_reply_it_ends_with_10_when_its_time_is_over(team: Team) -> None:
    thread = asked(team)
    began = time.monotonic()
    ran = team.worker.run("wait-reply", "--thread", thread, "--timeout-seconds", "0.5")
    assert (ran.code, ran.stdout.splitlines()[0], ran.stderr) == (10, "no reply yet", "")
    assert 0.4 < time.monotonic() - began < 6
    once = team.worker.run("wait-reply", "--thread", thread, "--timeout-seconds", "0", "--json")
    assert (once.code, once.json["ok"], once.json["woke"], once.json["message"]) == (10, True, False, None)
    team.leader.ok("reply", "--thread", thread, "between two calls")
    after = str(once.json["next_event_id"])
    found = team.worker.said("wait-reply", "--thread", thread, "--after-event", after, "--timeout-seconds", "0")
    assert found["message"]["body"] == "between two calls"


def test_replies_come_one_after_the_other_and_only_those_asked_for(team: Team) -> None:
    thread = asked(team)
    team.leader.ok("reply", "--thread", thread, "--kind", "progress", "no answer")
    for number in range(3):
        team.leader.ok("reply", "--thread", thread, f"{number}")
    team.leader.ok("reply", "--thread", thread, "--kind", "control", "stop")
    got: list[str] = []
    place: list[str] = []
    for _ in range(4):
        said = team.worker.said("wait-reply", "--thread", thread, *place)
        got.append(said["message"]["body"])
        place = ["--after-event", str(said["next_event_id"])]
    assert got == ["0", "1", "2", "stop"]
    only = ["--kinds", "control|result", "--after-message", team.history(thread)[0]["message_id"]]
    assert team.worker.said("wait-reply", "--thread", thread, *only)["message"]["body"] == "stop"


def test_what_wait_reply_printed_no_hook_shows_again(team: Team, tmp_path: Path) -> None:
    thread = asked(team)
    team.leader.ok("reply", "--thread", thread, "17.4", "--id", f"a-{team.mark}")
    team.worker.ok("wait-reply", "--thread", thread)
    assert team.message(f"a-{team.mark}")["state"] == "delivered"
    assert hook_of(team, tmp_path).run().silent


def test_one_that_is_not_waiting_gets_the_answer_through_its_hook_once(team: Team, tmp_path: Path) -> None:
    thread = asked(team)
    team.leader.ok("reply", "--thread", thread, "17.4")
    agent = hook_of(team, tmp_path)
    assert "| 17.4" in agent.step().said
    assert agent.step().silent


def test_one_that_is_killed_before_it_printed_loses_nothing(team: Team, tmp_path: Path) -> None:
    thread = asked(team)
    out, into = full_pipe()
    waiting = subprocess.Popen(
        [team.binary, "wait-reply", "--thread", thread, "--json"], env=team.worker.environment, stdout=into
    )
    os.close(into)
    try:
        is_waiting(team)
        team.leader.ok("reply", "--thread", thread, "17.4", "--id", f"a-{team.mark}")
        poll_until(lambda: team.message(f"a-{team.mark}")["state"] == "in_flight", what="the hand-over")
    finally:
        waiting.kill()
        waiting.wait()
        with os.fdopen(out, "rb") as pipe:
            assert b"17.4" not in pipe.read()
    agent = hook_of(team, tmp_path)
    poll_until(lambda: team.message(f"a-{team.mark}")["state"] == "queued", what="the end of the hold")
    assert "| 17.4" in agent.step().said
    assert agent.step().silent
    # Not even the next wait-reply, which finds it in the thread, makes it mail again.
    assert team.worker.said("wait-reply", "--thread", thread)["message"]["message_id"] == f"a-{team.mark}"
    assert agent.step().silent


def test_what_could_not_be_printed_goes_back_at_once(team: Team) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("NOT TESTED: there is no /dev/full here")
    thread = asked(team)
    team.leader.ok("reply", "--thread", thread, "17.4", "--id", f"a-{team.mark}")
    with Path("/dev/full").open("w") as full:
        command = [str(team.binary), "wait-reply", "--thread", thread]
        assert subprocess.run(command, env=team.worker.environment, stdout=full, check=False).returncode == 50
    assert team.message(f"a-{team.mark}")["state"] == "queued"


@pytest.mark.parametrize("cut", CUTS)
def test_a_reply_whose_answer_is_lost_is_asked_for_again_and_delivered_once(
    team: Team, running: RunningBroker, cut: Cut
) -> None:
    thread = asked(team)
    team.leader.ok("reply", "--thread", thread, "17.4", "--id", f"a-{team.mark}")
    with fault_proxy(int(running.url.rpartition(":")[2])) as proxy:
        proxy.arm(cut, "/wait-reply", times=1)
        said = team.worker.said("wait-reply", "--thread", thread, "--url", f"http://127.0.0.1:{proxy.port}")
        assert proxy.cuts == 1
    assert said["message"]["body"] == "17.4"
    assert team.message(f"a-{team.mark}")["state"] == "delivered"
    assert team.worker.run("check").code == 10


def test_it_outlives_a_broker_that_is_killed(inbox_binary: Path, tmp_path: Path) -> None:
    port = str(free_port())
    with running_broker(tmp_path / "broker", "--port", port) as first:
        with team_at(inbox_binary, first, tmp_path) as team:
            thread = asked(team)
            after = team.leader.said("list")["next_event_id"]
            waiting = team.worker.start("wait-reply", "--thread", thread, "--timeout-seconds", "60", "--json")
            watched = ("--status", "done", "--after-event", str(after), "--timeout-seconds", "60")
            watching = team.leader.start("watch", *watched)
            is_waiting(team, 2)
        first.kill()
        with running_broker(tmp_path / "broker", "--port", port):
            team.leader.ok("reply", "--thread", thread, "17.4")
            printed, said = waiting.communicate(timeout=40)
            assert (waiting.returncode, said) == (0, "")
            assert json.loads(printed)["message"]["body"] == "17.4"
            team.worker.ok("done", "--thread", thread, "--summary", "x")
            printed, said = watching.communicate(timeout=40)
            assert (watching.returncode, thread in printed, said) == (0, True, "")


def test_ctrl_c_ends_it_without_a_word(team: Team) -> None:
    for arguments in (["wait-reply", "--thread", asked(team)], ["watch", "--threads"], ["watch"]):
        waiting = team.worker.start(*arguments)
        is_waiting(team)
        waiting.send_signal(signal.SIGINT)
        printed, said = waiting.communicate(timeout=20)
        assert (waiting.returncode, printed, said) == (-signal.SIGINT, "", "")
        is_waiting(team, 0)


# watch


def test_watch_tells_what_happened_to_threads(team: Team) -> None:
    after = team.leader.said("list")["next_event_id"]
    watching = team.leader.start("watch", "--status", "blocked", "--after-event", str(after), "--json")
    is_waiting(team)
    thread = asked(team)
    printed, _ = watching.communicate(timeout=20)
    seen = json.loads(printed)
    assert list(seen) == ["ok", "command", "woke", "next_event_id", "events", "reset"]
    assert (seen["command"], seen["woke"], watching.returncode) == ("watch", True, 0)
    assert [(event["type"], event["thread_id"]) for event in seen["events"]] == [("thread_blocked", thread)]
    before = team.leader.said("watch", "--after-event", str(after), "--timeout-seconds", "0")
    assert [event["type"] for event in before["events"]][:2] == ["thread_opened", "thread_claimed"]
    shown = team.leader.ok("watch", "--after-event", str(after)).stdout.splitlines()
    assert shown[0].split() == ["AGE", "WHAT", "STATUS", "THREAD", "BY"]
    assert shown[-1] == f"go on: inbox watch --after-event {before['next_event_id']}"


def test_watch_gives_up_when_its_time_is_over_and_sees_nothing_of_others(team: Team) -> None:
    began = time.monotonic()
    thread = team.opened()
    ran = team.other.run("watch", "--after-event", "0", "--timeout-seconds", "0.5")
    assert (ran.code, ran.stdout.splitlines()[0]) == (10, "nothing happened")
    assert 0.4 < time.monotonic() - began < 8
    none = team.other.run("watch", "--threads", "--timeout-seconds", "0", "--json")
    assert (none.code, none.json["woke"], none.json["events"]) == (10, False, [])
    assert thread in team.worker.ok("watch", "--after-event", "0").stdout


def test_bare_watch_still_waits_for_mail(team: Team) -> None:
    watching = team.worker.start("watch", "--timeout-seconds", "20")
    is_waiting(team)
    team.opened()
    printed, _ = watching.communicate(timeout=20)
    assert (watching.returncode, printed) == (0, f"1 message for {team.name('worker')} · 1 normal\n")
    assert team.other.run("watch", "--timeout-seconds", "0.2").code == 10
