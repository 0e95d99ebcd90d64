"""The worker protocol in the binary, against a real broker: every verb done right, and every verb done wrong."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.inbox import Inbox
from tests.support.servers import poll_until
from tests.support.team import Team, bytes_in, leases, team_at, told_well

pytestmark = pytest.mark.xdist_group("inbox-threads")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def team(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Iterator[Team]:
    with team_at(inbox_binary, running, tmp_path) as made:
        yield made


# the loop


def test_a_worker_goes_through_the_whole_loop(team: Team) -> None:
    leader, worker = team.leader, team.worker
    opened = leader.ok("send", "--to", team.name("worker"), "--subject", "Log-in fails", "--body", "See #17.")
    assert opened.stdout.startswith("opened ")
    fetched = worker.said("fetch")
    [thread] = [one["thread_id"] for one in fetched["threads"]]
    claimed = worker.ok("claim", "--thread", thread)
    assert claimed.stdout == f"claimed {thread}: Log-in fails · lease 10m left\n"
    assert worker.said("update", "--thread", thread, "--summary", "Reading.")["thread"]["status"] == "in_progress"
    worker.ok("update", "--thread", thread, "--status", "blocked", "--body", "Which Safari?")
    seen = leader.said("watch", "--status", "blocked", "--after-event", str(fetched["next_event_id"]))
    assert [event["type"] for event in seen["events"]] == ["thread_blocked"]
    asked = leader.ok("check").stdout
    assert "| Which Safari?" in asked
    assert f"waits for an answer: inbox reply --thread {thread} TEXT" in asked
    leader.ok("reply", "--thread", thread, "17.4")
    reply = worker.ok("wait-reply", "--thread", thread).stdout
    assert reply.startswith(f"answer from {team.name('leader')} to {team.name('worker')} · ")
    assert reply.endswith("\n| 17.4\n")
    done = worker.ok(
        "done", "--thread", thread, "--summary", "Fixed.", "--artifact", "a.patch", "--artifact-kind", "patch"
    )
    assert done.stdout.startswith(f"done {thread}: Log-in fails\nresult ")
    result = leader.said("wait-reply", "--thread", thread)
    assert (result["woke"], result["message"]["summary"]) == (True, "Fixed.")
    assert leader.run("check").code == 10
    kinds = [message["kind"] for message in team.history(thread)]
    assert kinds == ["task", "progress", "question", "answer", "result"]
    assert worker.run("fetch").code == 10


def test_programs_get_the_brokers_own_words(team: Team) -> None:
    thread = team.opened()
    for command, arguments in {
        "fetch": [],
        "claim": ["--thread", thread],
        "renew": ["--thread", thread],
        "update": ["--thread", thread],
        "reply": ["--thread", thread, "--kind", "question", "--body", "x"],
        "list": [],
        "show": ["--thread", thread],
        "done": ["--thread", thread, "--summary", "x"],
    }.items():
        said = team.worker.said(command, *arguments)
        assert list(said)[:2] == ["ok", "command"]
        assert said["command"] == command
        assert said.get("thread", {"thread_id": thread})["thread_id"] == thread
    assert set(team.worker.said("show", "--thread", thread)["thread"]) == set(team.shown(thread)["thread"])


# send


def test_a_thread_has_its_labels_priority_payload_and_artifacts(team: Team) -> None:
    said = team.leader.said(
        *(
            "send",
            team.name("worker"),
            "--subject",
            "A subject",
            "--body",
            "b",
            "--summary",
            "s",
            "--priority",
            "urgent",
        ),
        *("--run", "nightly", "--task", "T4", "--kind", "question", "--payload-json", "[1]", "--id", f"th-{team.mark}"),
        *("--artifact", "a", "--artifact-kind", "log", "--artifact", "b", "--artifact-metadata-json", '{"n": 1}'),
    )
    thread, message = said["thread"], said["message"]
    assert (thread["thread_id"], thread["run_id"], thread["task_id"]) == (f"th-{team.mark}", "nightly", "T4")
    assert (thread["subject"], thread["priority"], thread["status"]) == ("A subject", "urgent", "pending")
    assert (thread["created_by"], thread["assigned_to"]) == (f"task:{team.name('leader')}", team.name("worker"))
    assert (message["kind"], message["body"], message["summary"], message["payload"]) == ("question", "b", "s", [1])
    assert message["artifacts"] == [
        {"path": "a", "kind": "log", "metadata": None},
        {"path": "b", "kind": None, "metadata": {"n": 1}},
    ]
    again = team.leader.said(
        "send", "--to", team.name("worker"), "--subject", "x", "--id", f"th-{team.mark}2", "--await"
    )
    assert again["message"]["awaiting_response"] is True


def test_a_thread_without_a_recipient_is_anybodys(team: Team) -> None:
    thread = team.opened(to=None)
    assert thread in [one["thread_id"] for one in team.other.said("fetch", "--limit", "1000")["threads"]]
    assert team.other.said("claim", "--thread", thread)["thread"]["lease"]["agent"] == team.name("other")


def test_in_plain_mail_task_is_the_older_name_of_agent(team: Team, running: RunningBroker, tmp_path: Path) -> None:
    # The machine's own token speaks as whoever is named.
    machine = Inbox(team.binary, tmp_path / "machine", more={"INBOXD_DATA_DIR": str(running.data_dir)})
    leader, worker = team.name("leader"), team.name("worker")
    for given in (["--task", leader], ["--agent", leader], ["--from", leader]):
        assert machine.said("send", worker, "x", *given)["message"]["sender"] == f"task:{leader}"
    opened = machine.said("send", worker, "--subject", "s", "--agent", leader, "--task", "a label")
    assert (opened["message"]["sender"], opened["thread"]["task_id"]) == (f"task:{leader}", "a label")
    opened = machine.said("send", worker, "--subject", "s", "--task", "T4")
    assert (opened["message"]["sender"], opened["thread"]["task_id"]) == ("operator", "T4")


def test_a_word_is_appended_to_a_thread(team: Team) -> None:
    thread = team.opened()
    said = team.leader.said("send", "--thread", thread, "--body", "one thing more")
    assert (said["command"], said["message"]["kind"], said["message"]["task"]) == (
        "send",
        "message",
        team.name("worker"),
    )
    team.leader.ok("send", "--thread", thread, "--kind", "control", "--priority", "high", stdin="from a pipe\n")
    words = [(message["kind"], message["body"]) for message in team.history(thread)[1:]]
    assert words == [("message", "one thing more"), ("control", "from a pipe")]
    assert team.shown(thread)["thread"]["status"] == "pending"


def test_nobody_speaks_in_anothers_name(team: Team) -> None:
    thread = team.claimed()
    before = team.shown(thread)
    for arguments in (
        ["send", "--subject", "x", "--from", team.name("other")],
        ["send", team.name("worker"), "x", "--from", team.name("other")],
        ["send", "--thread", thread, "--body", "x", "--from", "user"],
        ["reply", "--thread", thread, "x", "--from", team.name("other")],
        ["cancel", "--thread", thread, "--from", "operator"],
    ):
        ran = team.leader.run(*arguments, "--json")
        assert (ran.code, ran.error["code"]) == (60, "SENDER_FORBIDDEN")
        assert ran.error["hint"]
    assert team.shown(thread) == before


def test_a_person_in_an_agents_folder_is_still_the_person(team: Team, running: RunningBroker, tmp_path: Path) -> None:
    person = Inbox(team.binary, tmp_path / "person", running.url, running.mint("user"))
    (person.folder / ".inbox").mkdir()
    (person.folder / ".inbox" / "config.json").write_text(json.dumps({"task": team.name("worker")}))
    thread = team.claimed()
    said = person.said("reply", "--thread", thread, "--kind", "control", "Wait.")
    assert (said["message"]["sender"], said["message"]["task"]) == ("user", team.name("worker"))
    assert person.said("show", "--thread", thread)["thread"]["thread_id"] == thread
    assert person.said("cancel", "--thread", thread, "--reason", "no")["message"]["sender"] == "user"


# fetch, list, show


def test_fetch_grants_nothing_and_changes_nothing(team: Team) -> None:
    none = team.worker.run("fetch")
    assert (none.code, none.stdout) == (10, f"no work for {team.name('worker')}\n")
    empty = team.worker.run("fetch", "--json")
    assert (empty.code, empty.json["ok"], empty.json["threads"]) == (10, True, [])
    low = team.opened("--priority", "low")
    high = team.opened("--priority", "high")
    before = [team.shown(thread) for thread in (low, high)]
    printed = team.worker.ok("fetch").stdout.splitlines()
    assert printed[0].split() == ["STATUS", "PRIORITY", "NEW", "THREAD", "FROM", "FOR", "LEASE", "AGE", "ABOUT"]
    assert [line.split()[:4] for line in printed[1:3]] == [
        ["pending", "high", "new", high],
        ["pending", "low", "new", low],
    ]
    assert printed[-1] == f"take one: inbox claim --thread {high}"
    assert [one["thread_id"] for one in team.worker.said("fetch", "--limit", "1")["threads"]] == [high]
    assert team.worker.run("fetch", "--status", "blocked").code == 10
    assert team.worker.run("fetch", "--status", "pending,blocked", "--unread").code == 0
    assert team.other.run("fetch").code == 10
    assert [team.shown(thread) for thread in (low, high)] == before


def test_list_shows_threads_of_any_status(team: Team) -> None:
    finished, waiting = team.claimed(), team.opened("--priority", "high")
    team.worker.ok("done", "--thread", finished, "--summary", "Fixed.")
    listed = team.leader.said("list", "--created-by", team.name("leader"))
    assert [(one["thread_id"], one["status"]) for one in listed["threads"]] == [
        (waiting, "pending"),
        (finished, "done"),
    ]
    assert (listed["next_cursor"], listed["next_event_id"] > 0) == (None, True)
    printed = team.leader.ok("list", "--status", "done,failed").stdout
    assert (finished in printed, waiting in printed, "Log-in fails · Fixed." in printed) == (True, False, True)
    assert team.leader.ok("list", "--assigned-to", team.name("other")).stdout == "no threads\n"
    some = team.leader.run("list", "--limit", "1")
    assert (some.code, "there is more" in some.stderr) == (0, True)
    assert len(team.leader.said("list", "--limit", "1", "--all")["threads"]) == 2


def test_a_lease_is_told_in_words(team: Team) -> None:
    thread = team.claimed(lease_s="500")
    assert "8m left" in team.leader.ok("list").stdout
    assert "\nlease      8m left\n" in team.leader.ok("show", "--thread", thread).stdout
    assert "lease 20m left" in team.worker.ok("renew", "--thread", thread, "--lease-seconds", "1200").stdout
    shown = team.leader.on_terminal("list", env={"COLUMNS": "200"})
    assert "\x1b[36mclaimed\x1b[0m" in shown
    assert "\x1b" not in team.leader.on_terminal("list", env={"NO_COLOR": "1"})


def test_a_thread_is_shown_with_all_that_was_said(team: Team) -> None:
    thread = team.claimed("--body", "See #17.", "--run", "nightly")
    team.worker.ok(
        "update", "--thread", thread, "Reading\n\x1b[31mfake", "--artifact", "a.log", "--artifact-kind", "log"
    )
    shown = team.leader.ok("show", "--thread", thread).stdout
    assert "\nsubject    Log-in fails\nstatus     in_progress\nsummary    Reading\n" in shown
    assert "\nrun        nightly\n" in shown
    assert f"\ntask from {team.name('leader')} to {team.name('worker')} · " in shown
    assert "\n| See #17.\n" in shown
    assert "\n| Reading\n| [31mfake\nartifact\n| a.log (log)\n" in shown
    assert "\x1b" not in shown


def test_a_long_history_is_shown_whole_and_only_mark_read_marks_it(team: Team) -> None:
    thread = team.claimed()
    with team.running.client(team.leader.token) as leader:
        for number in range(230):
            leader.post(f"/v1/threads/{thread}/reply", json={"kind": "message", "body": f"{number}"}).raise_for_status()
    assert team.worker.said("show", "--thread", thread)["thread"]["unread"] is True
    read = team.worker.said("show", "--thread", thread, "--mark-read")
    assert [message["body"] for message in read["messages"][1:]] == [str(number) for number in range(230)]
    assert team.worker.said("show", "--thread", thread)["thread"]["unread"] is False
    team.leader.ok("reply", "--thread", thread, "--kind", "progress", "more")
    assert team.worker.said("fetch", "--status", "claimed", "--unread")["threads"][0]["thread_id"] == thread
    team.worker.ok("show", "--thread", thread, "--mark-read")
    assert team.worker.run("fetch", "--status", "claimed", "--unread").code == 10


def test_a_word_that_comes_while_the_history_is_printed_stays_unread(team: Team) -> None:
    thread = team.claimed("--body", "x" * 100_000)  # more than a pipe holds: printing it takes until somebody reads
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as printed:
        showing = subprocess.Popen(
            [team.binary, "show", "--thread", thread, "--mark-read"], env=team.worker.environment, stdout=writing
        )
        os.close(writing)
        poll_until(lambda: bytes_in(reading), what="the first words")
        team.leader.ok("reply", "--thread", thread, "while you read")
        text = printed.read()
    assert (showing.wait(), b"while you read" in text) == (0, False)
    assert team.worker.said("show", "--thread", thread)["thread"]["unread"] is True


# leases


def test_the_fencing_token_is_kept_for_this_account_alone_and_gone_at_the_end(team: Team) -> None:
    thread = team.claimed()
    [kept] = leases(team.worker)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert json.loads(kept.read_text())["fencing_token"] == 1
    team.worker.ok("done", "--thread", thread, "--summary", "x")
    assert leases(team.worker) == []
    thread = team.claimed()
    team.worker.ok("fail", "--thread", thread, "--summary", "x")
    assert leases(team.worker) == []


def test_a_fencing_token_may_be_given_by_hand(team: Team, tmp_path: Path) -> None:
    thread = team.claimed()
    elsewhere = Inbox(team.binary, tmp_path / "elsewhere", team.worker.url, team.worker.token)
    lost = elsewhere.run("update", "--thread", thread, "--json")
    assert (lost.code, lost.error["code"]) == (20, "LEASE_LOST")
    assert "--fencing-token" in lost.error["hint"]
    assert elsewhere.ok("update", "--thread", thread, "--fencing-token", "1").code == 0
    assert elsewhere.ok("renew", "--thread", thread, "--fencing-token", "1").code == 0
    assert elsewhere.ok("done", "--thread", thread, "--summary", "x").code == 0, "renew keeps it"


def test_two_workers_of_one_agent_are_told_apart_by_their_session(team: Team) -> None:
    thread = team.opened()
    one, two = {"INBOX_SESSION": "one"}, {"INBOX_SESSION": "two"}
    team.worker.ok("claim", "--thread", thread, env=one)
    assert team.worker.run("claim", "--thread", thread, env=two).code == 20
    assert team.worker.run("update", "--thread", thread, env=two).code == 20
    assert team.worker.run("update", "--thread", thread).code == 20
    assert team.worker.ok("update", "--thread", thread, env=one).code == 0


def test_who_loses_the_race_for_a_thread_is_told_to_take_another(team: Team) -> None:
    thread = team.opened(to=None)
    team.worker.ok("claim", "--thread", thread)
    before = team.shown(thread)
    lost = team.other.run("claim", "--thread", thread)
    told_well(lost, 20)
    assert f"is claimed by {team.name('worker')}. Leave it and take another: `inbox fetch`." in lost.stderr
    own = team.worker.run("claim", "--thread", thread)
    told_well(own, 20)
    assert "You may hold it yourself" in own.stderr
    assert team.shown(thread) == before
    assert leases(team.other) == []


def test_what_is_meant_for_another_cannot_be_claimed(team: Team) -> None:
    thread = team.opened()
    ran = team.other.run("claim", "--thread", thread, "--json")
    assert (ran.code, ran.error["code"], bool(ran.error["hint"])) == (60, "THREAD_FORBIDDEN", True)


def test_cancel_tells_whoever_works_on_it_and_ends_its_waiting(team: Team) -> None:
    thread = team.claimed()
    team.worker.ok("update", "--thread", thread, "--status", "blocked", "--body", "Which?")
    said = team.leader.ok("cancel", "--thread", thread, "--reason", "Fixed upstream.")
    assert said.stdout.startswith(f"cancelled {thread}: Log-in fails\n")
    told = team.worker.said("wait-reply", "--thread", thread)["message"]
    assert (told["kind"], told["body"], told["priority"]) == ("control", "Fixed upstream.", "high")
    late = team.worker.run("done", "--thread", thread, "--summary", "x", "--json")
    assert (late.code, late.error["code"]) == (30, "THREAD_STATE")
    assert leases(team.worker) == []


def test_an_id_makes_a_write_one_however_often_it_is_said(team: Team) -> None:
    thread = team.opened()
    mark = team.mark
    first = team.worker.said("claim", "--thread", thread, "--id", f"c-{mark}")
    again = team.worker.said("claim", "--thread", thread, "--id", f"c-{mark}")
    assert again["thread"]["lease"]["fencing_token"] == first["thread"]["lease"]["fencing_token"]
    for verb, flags in {"update": ["--summary", "s"], "reply": ["--body", "b"], "done": ["--summary", "s"]}.items():
        given = [verb, "--thread", thread, *flags, "--id", f"{verb}-{mark}"]
        assert team.worker.said(*given)["duplicate"] is False
        assert team.worker.said(*given)["duplicate"] is True
        assert "nothing was changed" in team.worker.ok(*given).stdout
    assert len(team.history(thread)) == 4


# done wrong

ON_A_THREAD: dict[str, list[str]] = {
    "claim": [],
    "renew": [],
    "update": ["--summary", "x"],
    "reply": ["--body", "x"],
    "done": ["--summary", "x"],
    "fail": ["--summary", "x"],
    "cancel": [],
    "show": ["--mark-read"],
    "wait-reply": ["--timeout-seconds", "1"],
    "send": ["--body", "x"],
}
SPEAKING = ("update", "reply", "done", "fail", "send")


@pytest.mark.parametrize("verb", [verb for verb in ON_A_THREAD if verb not in ("send", "show")])
def test_a_verb_without_its_thread_is_a_mistake(team: Team, verb: str) -> None:
    ran = team.worker.run(verb, *ON_A_THREAD[verb])
    told_well(ran, 30)
    assert "No thread is named. Give --thread ID" in ran.stderr
    told_well(team.worker.run(verb, "--thread", "../tasks", *ON_A_THREAD[verb]), 30)
    told_well(team.worker.run(verb, *ON_A_THREAD[verb], "--thread"), 30)


@pytest.mark.parametrize("verb", ON_A_THREAD)
def test_an_unknown_thread_is_not_found(team: Team, verb: str) -> None:
    arguments = [verb, "--thread", f"no-{uuid.uuid4().hex}", *ON_A_THREAD[verb]]
    told_well(team.worker.run(*arguments), 40)
    told = team.worker.run(*arguments, "--json")
    assert (told.code, told.error["code"], told.stderr) == (40, "THREAD_UNKNOWN", "")
    assert "inbox list" in told.error["hint"]


@pytest.mark.parametrize("verb", [verb for verb in ON_A_THREAD if verb != "show"])
def test_there_is_no_way_out_of_the_end_of_a_thread(team: Team, verb: str) -> None:
    who = team.leader if verb in ("cancel", "send") else team.worker
    thread = team.claimed()
    team.worker.ok("done", "--thread", thread, "--summary", "Fixed.")
    before = team.shown(thread)
    arguments = [verb, "--thread", thread, *ON_A_THREAD[verb]]
    told_well(who.run(*arguments), 30)
    told = who.run(*arguments, "--json")
    assert (told.code, told.error["code"]) == (30, "THREAD_STATE")
    assert f"inbox show --thread {thread}" in told.error["hint"]
    assert team.shown(thread) == before


@pytest.mark.parametrize("verb", ["renew", "update", "done", "fail"])
def test_nobody_writes_to_what_it_has_not_claimed(team: Team, verb: str) -> None:
    thread = team.opened()
    before = team.shown(thread)
    for who in (team.worker, team.other, team.leader):
        arguments = [verb, "--thread", thread, *ON_A_THREAD[verb]]
        told_well(who.run(*arguments), 20)
        told = who.run(*arguments, "--json")
        assert (told.code, told.error["code"]) == (20, "LEASE_LOST")
        assert f"inbox claim --thread {thread}" in told.error["hint"]
    assert team.shown(thread) == before


@pytest.mark.parametrize("verb", SPEAKING)
@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--body-file", "absent.md"], "cannot be read from absent.md"),
        (["--body-file", "."], "cannot be read from ."),
        (["--body-file", "secret.md"], "cannot be read from secret.md"),
        (["--body", "x", "--body-file", "-"], "The body is given twice"),
        (["--payload-json", "{no}"], "--payload-json is not JSON"),
        (["--payload-json", ""], "--payload-json is not JSON"),
        (["--artifact-kind", "log"], "There is no artifact to describe."),
        (["--artifact", "a", "--artifact-metadata-json", "[1]"], "is no object"),
        (["--summary"], "--summary needs a value."),
        (["--sumary", "x"], "Did you mean --summary?"),
        (["--id", "no spaces"], "--id cannot be `no spaces`."),
    ],
    ids=lambda value: value[0] + " " + value[-1] if isinstance(value, list) else "",
)
def test_what_cannot_be_sent_is_not(team: Team, verb: str, flags: list[str], words: str) -> None:
    thread = team.claimed()
    if "secret.md" in flags:
        secret = team.worker.folder / "secret.md"
        secret.write_text("x")
        secret.chmod(0)
        if os.access(secret, os.R_OK):
            pytest.skip("NOT TESTED as root: every file can be read")
    before = team.shown(thread)
    given = [] if "--summary" in flags or flags[0] == "--body" else ON_A_THREAD[verb]
    given = given if "--body" not in given or "--body-file" not in flags else []
    ran = team.worker.run(verb, "--thread", thread, *given, *flags)
    told_well(ran, 30)
    assert words in ran.stderr
    told = team.worker.run(verb, "--thread", thread, *given, *flags, "--json")
    assert (told.code, told.error["code"], bool(told.error["hint"])) == (30, "INVALID_REQUEST", True)
    assert team.shown(thread) == before
    assert leases(team.worker) != []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["update", "--status", "blocked"], "blocked needs a question."),
        (["update", "--status", "blocked", "--body", " \n"], "blocked needs a question."),
        (["update", "--status", "done"], "--status cannot be `done`."),
        (["done"], "The end of a thread needs a summary."),
        (["fail", "--summary", " "], "The end of a thread needs a summary."),
        (["done", "--summary", "x" * 5_000], "--summary is too long."),
        (["done", "some", "words"], "does not know what to do with `some`"),
        (["reply"], "The reply says nothing."),
        (["reply", "--body", "x", "--kind", "result"], "--kind cannot be `result`."),
        (["reply", "--body", "x", "--to", "no/name"], "cannot be a task's name"),
        (["send", "--body", "x", "--kind", "result"], "A result is not said inside a thread."),
        (["send", "--body", "x", "--subject", "s"], "--subject opens a thread and --thread names one"),
        (["send", "--body", "x", "--ttl", "1h"], "--ttl has no meaning inside a thread."),
        (["send", "--body", "x", "--run", "r"], "--run has no meaning inside a thread."),
        (["send"], "The message says nothing."),
        (["claim", "--lease-seconds", "0"], "--lease-seconds cannot be `0`."),
        (["claim", "--lease-seconds", "soon"], "--lease-seconds cannot be `soon`. Write seconds"),
        (["update", "--payload-json", "[" * 600 + "]" * 600], "is nested too deep"),
        (["reply", "--payload-json", f'"{70_000 * "x"}"'], "send its path as an artifact."),
        (["renew", "--lease-seconds", "86401"], "It is 1 to 86400."),
        (["renew", "--fencing-token", "none"], "--fencing-token cannot be `none`."),
        (["update", "--fencing-token", "0"], "--fencing-token cannot be `0`."),
        (["cancel", "--reason", "x" * 5_000], "--reason is too long"),
        (["cancel", "why"], "does not know what to do with `why`"),
        (["show", "m-1"], "A message and a thread are named."),
        (["wait-reply", "--kinds", "gossip"], "--kinds cannot be `gossip`."),
        (["wait-reply", "--kinds", ""], "--kinds is empty."),
        (["wait-reply", "--after-event", "-1"], "--after-event cannot be `-1`."),
        (["wait-reply", "--after-message", "no id"], "--after-message cannot be `no id`."),
        (["wait-reply", "--timeout-seconds", "long"], "--timeout-seconds cannot be `long`."),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_mistake_changes_nothing(team: Team, arguments: list[str], words: str) -> None:
    thread = team.claimed()
    before = team.shown(thread)
    ran = team.worker.run(arguments[0], "--thread", thread, *arguments[1:])
    told_well(ran, 30)
    assert words in ran.stderr
    told = team.worker.run(arguments[0], "--thread", thread, *arguments[1:], "--json")
    assert (told.code, bool(told.error["hint"]), told.stderr) == (30, True, "")
    assert team.shown(thread) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["send", "--subject", ""], "--subject is not one line of text."),
        (["send", "--subject", "two\nlines"], "--subject is not one line of text."),
        (["send", "--subject", "s", "some text"], "The first word is the task; give the text with --body."),
        (["send", "--subject", "s", "--reply-to", "m-1"], "--reply-to has no meaning for a new thread."),
        (["send", "--subject", "s", "--spool"], "--spool has no meaning for a new thread."),
        (["send", "x", "y", "--run", "r"], "--run is a label of a new thread."),
        (["fetch", "--status", "ready"], "--status cannot be `ready`."),
        (["fetch", "--status", ","], "--status is empty."),
        (["fetch", "--limit", "0"], "--limit cannot be `0`."),
        (["list", "--limit", "1001"], "--limit cannot be `1001`."),
        (["list", "--created-by", "a b"], "--created-by cannot be `a b`."),
        (["list", "--assigned-to", "a/b"], "cannot be a task's name"),
        (["list", "--agent", "a/b"], "cannot be a task's name"),
        (["show", "--mark-read"], "--mark-read is for a thread"),
        (["watch", "--status", "ready"], "--status cannot be `ready`."),
        (["watch", "--after-event", "x"], "--after-event cannot be `x`."),
        (["watch", "--timeout", "1", "--timeout-seconds", "1"], "are one flag"),
        (["fetch", "--agent", "a", "--task", "b"], "are one setting"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_mistake_about_no_thread_in_particular_is_told(team: Team, arguments: list[str], words: str) -> None:
    ran = team.worker.run(*arguments)
    told_well(ran, 30)
    assert words in ran.stderr
    assert team.worker.run(*arguments, "--json").error["hint"]


def test_who_has_no_part_in_a_thread_is_refused(team: Team) -> None:
    thread = team.claimed()
    before = team.shown(thread)
    for verb, flags in ON_A_THREAD.items():
        if verb in ("claim", "renew", "update", "done", "fail"):
            continue
        ran = team.other.run(verb, "--thread", thread, *flags, "--json")
        assert (ran.code, ran.error["code"], bool(ran.error["hint"])) == (60, "THREAD_FORBIDDEN", True), verb
    assert team.shown(thread) == before


def test_an_agent_that_is_not_named_is_asked_for(team: Team, running: RunningBroker, tmp_path: Path) -> None:
    thread = team.opened()
    operator = Inbox(team.binary, tmp_path / "operator", running.url, running.token)
    for verb in ("claim", "renew", "update", "done", "fail", "wait-reply"):
        ran = operator.run(verb, "--thread", thread, *ON_A_THREAD[verb])
        told_well(ran, 30)
        assert "No task is named here. Give --agent TASK" in ran.stderr
    told_well(operator.run("fetch"), 30)
    assert operator.ok("claim", "--thread", thread, "--agent", team.name("worker")).code == 0
    unknown = operator.run("claim", "--thread", team.opened(), "--agent", f"{team.name('worker')}x", "--json")
    assert (unknown.code, unknown.error["code"]) == (40, "TASK_UNKNOWN")
    assert team.name("worker") in unknown.error["hint"]


def test_a_name_that_nobody_has_waits_for_nothing(team: Team, running: RunningBroker, tmp_path: Path) -> None:
    thread = team.opened()
    misspelt = f"{team.name('worker')}x"
    operator = Inbox(team.binary, tmp_path / "operator", running.url, running.token, {"INBOX_TASK": misspelt})
    for arguments in (
        ["wait-reply", "--thread", thread],
        ["watch"],
        ["claim", "--thread", thread],
    ):
        told = operator.run(*arguments, "--json")
        assert (told.code, told.error["code"]) == (40, "TASK_UNKNOWN"), arguments
        assert team.name("worker") in told.error["hint"]
    # Looking is free: there is work in no list of a name that nobody has, and what is in the pool is shown.
    assert operator.run("fetch").code in (0, 10)


def test_a_question_is_mail_to_a_leader_that_was_never_declared(
    team: Team, running: RunningBroker, tmp_path: Path
) -> None:
    boss = team.name("boss")
    operator = Inbox(team.binary, tmp_path / "boss", running.url, running.token, {"INBOX_TASK": boss})
    thread = operator.said("send", "--to", team.name("worker"), "--subject", "s")["thread"]["thread_id"]
    team.worker.ok("claim", "--thread", thread)
    team.worker.ok("update", "--thread", thread, "--status", "blocked", "--body", "Which Safari?")
    assert "| Which Safari?" in operator.ok("check").stdout


def test_an_operators_worker_writes_under_its_own_name_and_lease(
    team: Team, running: RunningBroker, tmp_path: Path
) -> None:
    name = team.name("worker")
    operated = Inbox(team.binary, tmp_path / "operated", running.url, running.token, {"INBOX_TASK": name})
    thread = team.opened()
    operated.ok("claim", "--thread", thread)
    said: Any = operated.said("reply", "--thread", thread, "--kind", "progress", "half of it")
    assert said["message"]["sender"] == f"task:{name}"
    [kept] = leases(operated)
    kept.unlink()
    lost = operated.run("reply", "--thread", thread, "late words", "--json")
    assert (lost.code, lost.error["code"]) == (20, "LEASE_LOST")
