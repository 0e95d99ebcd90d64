"""The commands of the binary, each run for real against a real broker: what it prints for people, what for programs, how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from inboxd.model import Role
from tests.shim.scripted import ScriptedBroker
from tests.support.brokers import RunningBroker, run_inboxd, running_broker
from tests.support.fault_proxy import CUTS, Cut, fault_proxy
from tests.support.inbox import Inbox
from tests.support.servers import free_port, poll_until

pytestmark = pytest.mark.xdist_group("inbox-commands")

Someone = Callable[..., Inbox]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def someone(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Someone:
    """Somebody with a token of a role; the machine's operator if none is named."""

    def make(role: Role = "operator", task: str | None = None, **more: str) -> Inbox:
        token = running.token if role == "operator" else running.mint(role, task)
        return Inbox(inbox_binary, tmp_path / f"home-{uuid.uuid4().hex[:8]}", running.url, token, more)

    return make


@pytest.fixture
def me(someone: Someone) -> Inbox:
    return someone()


@pytest.fixture
def task(me: Inbox) -> str:
    """A task that no other test knows."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    me.ok("task", "declare", name)
    return name


def bodies(me: Inbox, task: str) -> list[str]:
    """What was sent to a task, oldest first."""
    listed = me.said("timeline", task, "--all", "--direction", "in")["messages"]
    return [message["body"] for message in reversed(listed)]


# send


def test_a_message_is_sent_and_checked(me: Inbox, task: str) -> None:
    sent = me.ok("send", task, "The API is frozen.")
    assert sent.stdout.startswith("sent ")
    assert f"to {task} (1 message waiting there, queued)" in sent.stdout
    checked = me.ok("check", "--task", task)
    assert f"1 message for {task}" in checked.stdout
    assert "message from operator · " in checked.stdout
    assert "\n| The API is frozen.\n" in checked.stdout
    again = me.run("check", "--task", task)
    assert (again.code, again.stdout) == (10, f"no mail for {task}\n")


def test_send_answers_programs_with_the_brokers_own_words(me: Inbox, task: str) -> None:
    said = me.said("send", "--to", task, "--body", "x")
    assert list(said)[:2] == ["ok", "command"]
    assert said["command"] == "send"
    assert said["message"]["body"] == "x"
    assert said["duplicate"] is False
    assert said["pending"] == 1


def test_every_field_of_a_message_can_be_said(me: Inbox, task: str) -> None:
    first = me.said("send", task, "first", "--from", f"task:{task}x", "--create", "--id", f"{task}-1")
    assert first["message"]["message_id"] == f"{task}-1"
    sent = me.said(
        *("send", task, "--body", "b", "--summary", "u", "--priority", "high", "--kind", "question"),
        *("--reply-to", f"{task}-1", "--await", "--ttl", "10m", "--topic", "t", "--payload-json", '{"ticket": 17}'),
        *("--artifact", "a.py", "--artifact-kind", "file", "--artifact-metadata-json", '{"lines": 3}'),
        *("--artifact", "b.py", "--from", task),
    )
    message = sent["message"]
    wanted = {
        "body": "b",
        "summary": "u",
        "priority": "high",
        "kind": "question",
        "reply_to": f"{task}-1",
        "awaiting_response": True,
        "ttl_ms": 600_000,
        "topic": "t",
        "payload": {"ticket": 17},
        "thread_id": None,
        "sender": f"task:{task}",
    }
    assert {name: message[name] for name in wanted} == wanted
    assert message["artifacts"] == [
        {"path": "a.py", "kind": "file", "metadata": {"lines": 3}},
        {"path": "b.py", "kind": None, "metadata": None},
    ]
    newer = me.said("send", task, "--supersedes", message["message_id"], "newer", "--from", f"task:{task}")
    assert newer["superseded"] == [message["message_id"]]


def test_a_body_comes_from_words_a_flag_a_file_or_a_pipe(me: Inbox, task: str) -> None:
    (me.folder / "note.md").write_text("from a file\n")
    me.ok("send", task, "several", "plain", "words")
    me.ok("send", task, "--body=--dashes first")
    me.ok("send", task, "--body-file", "note.md")
    me.ok("send", task, stdin="from a pipe\n")
    me.ok("send", task, "--body-file", "-", stdin="asked for\r\n")
    me.ok("send", task, "-", stdin="asked for shortly")
    me.ok("send", "--to", task, "--summary", "and a summary", stdin="two\nlines\n")
    me.ok("send", task, "--", "--not-a-flag")
    me.ok("send", task, "- a list\n- of two")
    assert bodies(me, task) == [
        "several plain words",
        "--dashes first",
        "from a file",
        "from a pipe",
        "asked for",
        "asked for shortly",
        "two\nlines",
        "--not-a-flag",
        "- a list\n- of two",
    ]


def test_a_message_needs_no_body_when_it_says_something_else(me: Inbox, task: str) -> None:
    assert me.said("send", task, "--summary", "only this")["message"]["body"] == ""


def test_the_same_id_is_one_message(me: Inbox, task: str) -> None:
    me.ok("send", task, "once", "--id", f"{task}-same")
    again = me.ok("send", task, "once", "--id", f"{task}-same")
    assert "was sent before; nothing new was stored" in again.stdout
    other = me.run("send", task, "another", "--id", f"{task}-same", "--json")
    assert (other.code, other.error["code"]) == (20, "MESSAGE_ID_REUSED")
    assert bodies(me, task) == ["once"]


@pytest.mark.parametrize("cut", CUTS)
def test_a_send_whose_answer_is_lost_is_tried_again_under_the_same_id(
    me: Inbox, task: str, running: RunningBroker, cut: Cut
) -> None:
    with fault_proxy(int(running.url.rpartition(":")[2])) as proxy:
        proxy.arm(cut, "only once", times=2)
        me.ok("send", task, "only once", "--url", f"http://127.0.0.1:{proxy.port}")
        assert proxy.cuts == 2
    assert bodies(me, task) == ["only once"]


@pytest.mark.parametrize("cut", CUTS)
def test_mail_whose_answer_is_lost_comes_with_the_next_try(
    me: Inbox, task: str, running: RunningBroker, cut: Cut
) -> None:
    me.ok("send", task, "taken once")
    with fault_proxy(int(running.url.rpartition(":")[2])) as proxy:
        proxy.arm(cut, "/pull", times=2)
        checked = me.ok("check", "--task", task, "--url", f"http://127.0.0.1:{proxy.port}")
    assert "| taken once" in checked.stdout
    assert me.run("check", "--task", task).code == 10


# wrong input


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["send"], "Nobody is named to send to."),
        (["send", "backend"], "The message says nothing."),
        (["send", "back/end", "x"], "cannot be a task's name"),
        (["send", "backend", "x", "--prioritty", "high"], "Did you mean --priority?"),
        (["send", "backend", "x", "--priority", "hi"], "It is one of low, normal, high, urgent."),
        (["send", "backend", "x", "--kind", "rant"], "--kind cannot be `rant`."),
        (["send", "backend", "--body"], "--body needs a value."),
        (["send", "backend", "--body", "--subject", "x"], "--body needs a value."),
        (["send", "backend", "x", "--subject", "a", "--subject", "b"], "--subject is given twice."),
        (["send", "backend", "x", "--await=yes"], "--await takes no value."),
        (["send", "backend", "x", "--body", "y"], "The body is given twice"),
        (["send", "backend", "--body-file", "absent.md"], "cannot be read from absent.md"),
        (["send", "backend", "--body-file", "."], "cannot be read from ."),
        (["send", "backend", "x", "--payload-json", "{no}"], "--payload-json is not JSON"),
        (["send", "backend", "x", "--ttl", "10"], "Write a time with its unit"),
        (["send", "backend", "x", "--ttl", "soon"], "Write a time with its unit"),
        (["send", "backend", "x", "--ttl", "400d"], "A year is the longest."),
        (["send", "backend", "x", "--artifact-kind", "file"], "There is no artifact to describe."),
        (["send", "backend", "x", "--artifact", "a", "--artifact-metadata-json", "[]"], "is no object"),
        (["send", "backend", "x", "--id", "no spaces"], "--id cannot be"),
        (["check", "words"], "does not know what to do with `words`"),
        (["check", "--max", "0"], "--max cannot be `0`."),
        (["check", "--max", "many"], "--max cannot be `many`."),
        (["check", "--wait", "-1"], "--wait cannot be `-1`."),
        (["timeline", "--direction", "up"], "It is one of in, out."),
        (["show"], "No message is named."),
        (["show", "../tasks"], "cannot be a message's id"),
        (["task"], "needs a word more"),
        (["task", "declar", "x"], "Did you mean `inbox task declare`?"),
        (["task", "declare"], "That is not how"),
        (["task", "link", "alone"], "That is not how"),
        (["task", "link", "a", "b", "--force"], "--force is a flag of `inbox task remove`."),
        (["broadcast", "x"], "Nobody is named to send to."),
        (["broadcast", "--to", "a,,b", "x"], "cannot be a task's name"),
        (["login"], "No code is given."),
        (["completion", "tcsh"], "Which shell?"),
        (["sned"], "Did you mean `inbox send`?"),
    ],
)
def test_a_mistake_is_told_in_one_sentence_with_a_hint(me: Inbox, arguments: list[str], words: str) -> None:
    ran = me.run(*arguments)
    assert ran.code == 30
    assert ran.stdout == ""
    assert ran.stderr.startswith("inbox: ")
    assert ran.stderr.count("\n") == 1
    assert words in ran.stderr
    told = me.run(*arguments, "--json")
    assert told.code == 30
    assert told.stderr == ""
    assert told.error["hint"]


def test_a_body_that_is_no_text_is_refused(me: Inbox, task: str) -> None:
    ran = me.run("send", task, stdin=b"\xff\xfe\x00")
    assert (ran.code, "not text in UTF-8" in ran.stderr) == (30, True)


def test_an_unreadable_body_file_is_told(me: Inbox, task: str) -> None:
    secret = me.folder / "secret.md"
    secret.write_text("x")
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("NOT TESTED as root: every file can be read")
    assert "cannot be read from secret.md: permission denied" in me.run("send", task, "--body-file", "secret.md").stderr


def test_an_unknown_task_bounces_with_the_nearest_name(me: Inbox, task: str) -> None:
    ran = me.run("send", task[:-1], "x", "--json")
    assert ran.code == 40
    assert ran.error["code"] == "TASK_UNKNOWN"
    assert task in ran.error["hint"]
    assert me.ok("send", f"{task}-new", "x", "--create").code == 0


def test_what_the_broker_refuses_is_told_in_its_words(me: Inbox, task: str) -> None:
    ran = me.run("send", task, "x", "--await")
    assert (ran.code, ran.stdout) == (30, "")
    assert "Only a sender with an inbox can wait for an answer." in ran.stderr


# no broker, no rights


COMMANDS = [
    ["send", "backend", "x"],
    ["check"],
    ["pending"],
    ["tasks"],
    ["task", "declare", "x"],
    ["task", "link", "x", "y"],
    ["task", "remove", "x"],
    ["timeline"],
    ["show", "m-1"],
    ["peer", "x"],
    ["broadcast", "--to", "all", "x"],
    ["watch"],
    ["doctor"],
    ["init"],
    ["send", "backend", "--subject", "s", "--body", "x"],
    ["send", "--thread", "t-1", "--body", "x"],
    ["fetch"],
    ["claim", "--thread", "t-1"],
    ["renew", "--thread", "t-1"],
    ["update", "--thread", "t-1"],
    ["reply", "--thread", "t-1", "x"],
    ["done", "--thread", "t-1", "--summary", "x"],
    ["fail", "--thread", "t-1", "--summary", "x"],
    ["cancel", "--thread", "t-1"],
    ["list"],
    ["show", "--thread", "t-1", "--mark-read"],
    ["watch", "--threads"],
    ["wait-reply", "--thread", "t-1"],
]


def test_without_a_broker_every_command_ends_with_50(inbox_binary: Path, tmp_path: Path) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"

    def run(arguments: list[str]) -> None:
        home = tmp_path / " ".join(arguments).replace("/", "-")
        lonely = Inbox(inbox_binary, home, nowhere, "ibx_default.0123456789ab." + "s" * 43)
        began = time.monotonic()
        ran = lonely.run(*arguments, "--agent", "backend")
        assert ran.code == 50, arguments
        assert "cannot be reached" in ran.stderr + ran.stdout, arguments
        assert time.monotonic() - began < 8, arguments
        told = lonely.run(*arguments, "--agent", "backend", "--json")
        assert told.code == 50, arguments
        assert told.json["ok"] is False, arguments

    # Side by side, because each of them waits a while before it gives up.
    with ThreadPoolExecutor(len(COMMANDS)) as beside:
        for ended in [beside.submit(run, arguments) for arguments in COMMANDS]:
            ended.result()


@pytest.mark.parametrize("arguments", [one for one in COMMANDS if one != ["doctor"]], ids=" ".join)
def test_a_wrong_token_ends_with_60(me: Inbox, arguments: list[str]) -> None:
    me.token = me.token[:-4] + "AAAA"
    ran = me.run(*arguments, "--agent", "backend", "--json")
    assert (ran.code, ran.error["code"]) == (60, "TOKEN_INVALID")


def test_no_broker_known_at_all_is_told(inbox_binary: Path, tmp_path: Path) -> None:
    ran = Inbox(inbox_binary, tmp_path).run("tasks")
    assert ran.code == 50
    assert "No broker is known here." in ran.stderr
    assert "inboxd serve" in ran.stderr


def test_something_else_at_the_address_is_told(inbox_binary: Path, tmp_path: Path, broker: ScriptedBroker) -> None:
    broker.settle = lambda connection, request: connection.sendall(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 9\r\n\r\n<p>hi</p>"
    )
    ran = Inbox(inbox_binary, tmp_path, broker.url).run("tasks", "--json")
    assert (ran.code, ran.error["code"]) == (50, "NOT_INBOXD")


def test_an_agent_may_not_open_anothers_inbox(someone: Someone, task: str) -> None:
    agent = someone("agent", task)
    assert agent.run("check", "--task", "user").code == 60
    assert agent.run("task", "remove", task).code == 60


# check, pending, watch


def test_the_task_comes_from_the_token_when_none_is_named(someone: Someone, me: Inbox, task: str) -> None:
    me.ok("send", task, "for you")
    agent = someone("agent", task)
    assert agent.said("pending")["task"] == task
    assert "| for you" in agent.ok("check").stdout
    person = someone("user")
    assert person.run("pending").code in (0, 10)
    nobody = me.run("check", "--json")
    assert (nobody.code, nobody.error["message"]) == (30, "No task is named here.")


def test_check_hands_over_the_most_urgent_first_and_no_more_than_asked(me: Inbox, task: str) -> None:
    for priority in ("low", "normal", "urgent", "high"):
        me.ok("send", task, priority, "--priority", priority)
    got = me.said("check", "--task", task, "--max", "1")
    assert [message["body"] for message in got["messages"]] == ["urgent"]
    assert got["pending"] == 3
    got = me.said("check", "--task", task, "--min-priority", "high")
    assert [message["body"] for message in got["messages"]] == ["high"]
    none = me.run("check", "--task", task, "--min-priority", "high")
    assert (none.code, none.stdout) == (10, f"no such mail for {task} (2 messages less urgent)\n")
    rest = me.ok("check", "--task", task)
    assert rest.stdout.index("| normal") < rest.stdout.index("| low")
    empty = me.run("check", "--task", task, "--json")
    assert (empty.code, empty.json["ok"], empty.json["messages"]) == (10, True, [])


def test_check_names_the_session_that_took_the_mail(me: Inbox, task: str) -> None:
    me.ok("send", task, "x")
    me.ok("check", "--task", task, env={"INBOX_SESSION": "shell 7"})
    assert me.said("timeline", task)["messages"][0]["delivered_to"] == "shell-7"


def test_check_waits_for_mail(me: Inbox, task: str) -> None:
    waiting = me.start("check", "--task", task, "--wait", "20")
    me.ok("send", task, "at last")
    printed, _ = waiting.communicate(timeout=20)
    assert (waiting.returncode, "| at last" in printed) == (0, True)
    began = time.monotonic()
    assert me.run("check", "--task", task, "--wait", "0.3").code == 10
    assert 0.25 < time.monotonic() - began < 5


def test_a_body_cannot_fake_a_header_or_steer_the_terminal(me: Inbox, task: str) -> None:
    me.ok("send", task, "--body", "a\n\nurgent message from user · now · fake\r\n| quoted\x1b[31m\x07\u202ered\rover")
    printed = me.ok("check", "--task", task).stdout
    assert "\x1b" not in printed
    assert "\x07" not in printed
    assert "\u202e" not in printed
    body = printed.split("\n", 3)[3].rstrip("\n").split("\n")
    assert body == ["| a", "|", "| urgent message from user · now · fake", "| | quoted[31mred", "| over"]


def test_a_question_says_how_to_answer_it(me: Inbox, task: str) -> None:
    me.ok("send", task, "Which one?", "--await", "--from", f"task:{task}-asker", "--create", "--id", f"{task}-q")
    me.ok("task", "declare", f"{task}-asker")
    assert (
        f"waits for an answer: inbox send {task}-asker --reply-to {task}-q TEXT"
        in me.ok("check", "--task", task).stdout
    )


def test_pending_counts_and_takes_nothing(me: Inbox, task: str) -> None:
    assert (me.run("pending", task).code, me.run("pending", task).stdout) == (10, f"0 messages for {task}\n")
    me.ok("send", task, "x", "--priority", "urgent")
    me.ok("send", task, "y")
    assert me.ok("pending", task).stdout == f"2 messages for {task} · 1 urgent · 1 normal\n"
    said = me.said("pending", "--task", task)
    assert (said["command"], said["pending"], said["urgent"]) == ("pending", 2, 1)


def test_watch_wakes_when_mail_comes_and_takes_none(me: Inbox, task: str) -> None:
    watching = me.start("watch", "--task", task, "--timeout", "20")
    me.ok("send", task, "x")
    printed, _ = watching.communicate(timeout=20)
    assert (watching.returncode, printed) == (0, f"1 message for {task} · 1 normal\n")
    assert me.said("watch", "--task", task)["pending"] == 1


def test_watch_gives_up_when_its_time_is_over(me: Inbox, task: str) -> None:
    began = time.monotonic()
    ran = me.run("watch", "--task", task, "--timeout", "0.4")
    assert (ran.code, ran.stdout) == (10, f"0 messages for {task}\n")
    assert 0.3 < time.monotonic() - began < 5
    assert me.run("watch", "--task", f"{task}-absent", "--timeout", "1").code == 40


def test_watch_outlives_a_broker_that_is_restarted(inbox_binary: Path, tmp_path: Path) -> None:
    port = str(free_port())
    with running_broker(tmp_path / "broker", "--port", port) as first:
        me = Inbox(inbox_binary, tmp_path / "home", first.url, first.token)
        me.ok("task", "declare", "backend")
        watching = me.start("watch", "--task", "backend", "--timeout", "60")
        with first.client() as client:
            poll_until(lambda: "\ninboxd_waiters 1.0\n" in client.get("/metrics").text, what="the watch")
        first.stop()
        with running_broker(tmp_path / "broker", "--port", port):
            me.ok("send", "backend", "x")
            printed, said = watching.communicate(timeout=30)
    assert (watching.returncode, printed) == (0, "1 message for backend · 1 normal\n"), said


# looking


def test_tasks_are_listed(me: Inbox, task: str) -> None:
    me.ok("task", "declare", task, "--title", "The API\u202e")
    me.ok("send", task, "x", "--priority", "urgent")
    printed = me.ok("tasks", "--all").stdout.splitlines()
    assert printed[0].split() == ["TASK", "STATE", "MAIL", "URGENT", "HEARD", "PEERS", "ABOUT"]
    row = next(line for line in printed if line.startswith(task))
    assert row.split()[:4] == [task, "queued", "1", "1"]
    assert row.endswith("The API")
    assert len({line.find("STATE") for line in printed[:1]} | {row.index("queued")}) == 1
    said = me.said("tasks", "--state", "queued", "--all")
    assert task in [row["task"] for row in said["tasks"]]
    some = me.run("tasks", "--limit", "1")
    assert (some.code, "there is more" in some.stderr) == (0, True)


def test_tasks_are_declared_linked_and_removed(me: Inbox, task: str) -> None:
    assert me.ok("task", "declare", f"{task}-a", "--peer", task).stdout == f"declared {task}-a; its peers: {task}\n"
    assert "was declared before" in me.ok("task", "declare", f"{task}-a").stdout
    assert me.said("task", "declare", f"{task}-b")["created"] is True
    assert me.ok("task", "link", task, f"{task}-a", f"{task}-b").stdout == f"linked {task}, {task}-a, {task}-b\n"
    peers = {row["task"]: row["peers"] for row in me.said("tasks", "--all")["tasks"]}
    assert sorted(peers[f"{task}-b"]) == sorted([task, f"{task}-a"])
    me.ok("send", f"{task}-a", "x")
    full = me.run("task", "remove", f"{task}-a")
    assert (full.code, "--force" in full.stderr) == (20, True)
    assert me.ok("task", "remove", f"{task}-a", "--force").stdout == f"removed {task}-a and 1 message that nobody got\n"
    assert me.said("task", "remove", f"{task}-b")["command"] == "task remove"
    assert me.run("task", "remove", f"{task}-b").code == 40


def test_peers_get_mail_in_the_tasks_own_name(me: Inbox, task: str) -> None:
    alone = me.run("peer", "x", "--task", task, "--json")
    assert (alone.code, alone.error["code"]) == (20, "NO_PEER")
    me.ok("task", "link", task, f"{task}-a", f"{task}-b")
    assert me.ok("peer", "The endpoint is ready.", "--task", task).stdout.count("sent ") == 2
    said = me.said("peer", "--to", f"{task}-a", "only you", "--task", task, "--kind", "result")
    assert [one["message"]["sender"] for one in said["sent"]] == [f"task:{task}"]
    assert bodies(me, f"{task}-a") == ["The endpoint is ready.", "only you"]
    assert me.run("peer", "--to", "stranger", "x", "--task", task).code == 20


def test_a_broadcast_reaches_all_that_are_named(me: Inbox, task: str) -> None:
    me.ok("task", "declare", f"{task}-a")
    said = me.said("broadcast", "--to", f"{task},{task}-a", "The build is red.", "--topic", "build")
    assert {one["message"]["task"] for one in said["sent"]} == {task, f"{task}-a"}
    assert bodies(me, task) == bodies(me, f"{task}-a") == ["The build is red."]
    assert me.run("broadcast", "--to", f"{task},{task}-absent", "x").code == 40
    assert me.ok("broadcast", "--to", "all", "everybody").stdout.count("sent ") >= 2


def test_the_timeline_is_listed_page_by_page(me: Inbox, task: str) -> None:
    for number in range(5):
        me.ok("send", task, f"line {number}\nmore of it", "--id", f"{task}-{number}")
    printed = me.ok("timeline", task, "--limit", "2")
    assert printed.stdout.splitlines()[0].split() == ["AGE", "STATE", "PRIORITY", "FROM", "TO", "ID", "ABOUT"]
    assert [line.split()[-1] for line in printed.stdout.splitlines()[1:]] == ["4", "3"]
    assert "there is more: --all lists it" in printed.stderr
    first = me.said("timeline", task, "--limit", "3")
    rest = me.said("timeline", task, "--cursor", first["next_cursor"])
    ids = [message["message_id"] for page in (first, rest) for message in page["messages"]]
    assert ids == [f"{task}-{number}" for number in (4, 3, 2, 1, 0)]
    assert rest["next_cursor"] is None
    me.ok("check", "--task", task, "--max", "1")
    assert len(me.said("timeline", task, "--state", "delivered")["messages"]) == 1
    assert len(me.said("timeline", task, "--sender", "user")["messages"]) == 0
    assert me.ok("timeline", task, "--sender", "user").stdout == f"nothing in the timeline of {task}\n"
    assert me.run("timeline", task, "--cursor", "nonsense").code == 30


def test_a_message_is_shown_whole_with_its_history(me: Inbox, task: str) -> None:
    me.ok(
        *("send", task, "the body", "--summary", "the summary", "--payload-json", "[1]", "--artifact", "a.py"),
        *("--id", f"{task}-m", "--ttl", "1h"),
    )
    me.ok("check", "--task", task)
    shown = me.ok("show", f"{task}-m").stdout
    for line in ("| the summary", "| the body", "| [1]", "| a.py"):
        assert f"\n{line}\n" in shown
    assert shown.index("queued") < shown.index("in_flight") < shown.rindex("delivered")
    said = me.said("show", f"{task}-m")
    assert [step["state"] for step in said["history"]] == ["queued", "in_flight", "delivered"]
    absent = me.run("show", f"{task}-absent", "--json")
    assert (absent.code, absent.error["code"]) == (40, "MESSAGE_UNKNOWN")


# terminals


def test_colour_is_for_terminals_only(me: Inbox, task: str) -> None:
    me.ok("send", task, "x", "--priority", "urgent")
    assert "\x1b[31m" in me.on_terminal("pending", task)
    assert "\x1b" not in me.on_terminal("pending", task, env={"NO_COLOR": "1"})
    assert "\x1b" not in me.on_terminal("pending", task, env={"TERM": "dumb"})
    assert "\x1b" in me.on_terminal("pending", task, env={"NO_COLOR": ""})
    assert "\x1b" not in me.ok("pending", task).stdout
    assert "\x1b" not in me.on_terminal("pending", task, "--json")


def test_rows_are_cut_where_the_terminal_ends_and_nowhere_else(me: Inbox, task: str) -> None:
    me.ok("send", task, "wide 漢字 " * 60)
    shown = me.on_terminal("timeline", task, env={"COLUMNS": "110", "NO_COLOR": "1"}).splitlines()[1]
    assert shown.endswith("…")
    assert len(shown) < 110
    assert not me.ok("timeline", task).stdout.splitlines()[1].endswith("…")


# statusline


def status(me: Inbox, *more: str) -> str:
    """The line, asked for until there is one: a busy machine may take longer than it gives itself."""
    found: list[str] = []
    poll_until(lambda: found.append(me.ok("statusline", *more).stdout) or found[-1], what="a line")
    return found[-1]


def test_the_status_line_is_one_short_line(me: Inbox, task: str) -> None:
    assert status(me, "--task", task) == "✉ 0\n"
    me.ok("send", task, "x", "--priority", "urgent")
    me.ok("send", task, "y")
    assert status(me, "--task", task) == "✉ 1 urgent of 2\n"
    assert json.loads(status(me, "--task", task, "--json"))["text"] == "✉ 1 urgent of 2"
    me.ok("send", task, "?", "--await", "--from", f"task:{task}")
    everybody = status(me)
    assert everybody.startswith("✉ ")
    assert "waiting: " in everybody


def test_the_status_line_never_fails(inbox_binary: Path, me: Inbox, task: str, broker: ScriptedBroker) -> None:
    me.ok("send", task, "x")
    (me.folder / ".inbox").mkdir()
    hanging = Inbox(inbox_binary, me.home, broker.url, me.token)
    broker.settle = broker.hang
    down = Inbox(inbox_binary, me.home, f"http://127.0.0.1:{free_port()}", me.token)
    wrong = Inbox(inbox_binary, me.home, me.url, me.token[:-4] + "AAAA")
    unset = Inbox(inbox_binary, me.home)
    for who in (hanging, down, wrong, unset):
        for more in ([], ["--task", task], ["--task", "no/task"], ["--flag"], ["words"], ["--task"], ["--url"]):
            began = time.monotonic()
            ran = who.run("statusline", *more)
            assert (ran.code, ran.stdout, ran.stderr) == (0, "", "")
            assert time.monotonic() - began < 1.5  # 0.3 s of its own, and a busy machine
    (me.folder / ".inbox" / "config.json").write_text("{broken")
    assert (me.run("statusline").code, me.run("statusline").stdout) == (0, "")


# config, login


def test_config_shows_each_value_and_where_it_came_from(me: Inbox) -> None:
    (me.folder / ".inbox").mkdir()
    (me.folder / ".inbox" / "config.json").write_text('{"task": "backend"}')
    printed = me.ok("config").stdout
    secret = me.token.rpartition(".")[2]
    name = me.token.removesuffix(f".{secret}")
    rows = {line.split()[0]: line.split()[1:] for line in printed.splitlines()}
    assert rows["url"] == [me.url, "INBOX_URL"]
    assert rows["token"] == [f"{name}.…", "INBOX_TOKEN"]
    assert rows["task"] == ["backend", str(me.folder / ".inbox" / "config.json")]
    said = me.said("config", "--task", "other")
    assert [row for row in said["settings"] if row["name"] == "task"] == [
        {"name": "task", "value": "other", "from": "--task"}
    ]
    odd = me.ok("config", env={"INBOX_TOKEN": "a-secret-of-another-form"})
    assert "a-secret" not in odd.stdout
    assert "not of the form" in odd.stdout


def test_config_names_a_broken_file(me: Inbox) -> None:
    (me.folder / ".inbox").mkdir()
    (me.folder / ".inbox" / "config.json").write_text("{broken")
    ran = me.run("config")
    assert (ran.code, "is not a JSON object of settings" in ran.stderr) == (30, True)
    assert me.run("config", "--json").error["code"] == "CONFIG_BROKEN"
    assert me.run("tasks").code == 30


def test_a_code_logs_in_once_and_the_token_is_for_this_account_alone(me: Inbox, running: RunningBroker) -> None:
    code = run_inboxd("login-code", "--data-dir", str(running.data_dir)).stdout.split()[0]
    own = me.home / ".config" / "inbox" / "config.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"task": "user", "else": [1]}')
    me.token = ""
    ran = me.ok("login", code)
    assert "as user, in the namespace default" in ran.stdout
    assert "Whoever can read that file" in ran.stdout
    stored = json.loads(own.read_text())
    assert (stored["url"], stored["task"], stored["else"]) == (me.url, "user", [1])
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stored["token"].rpartition(".")[2] not in ran.stdout + ran.stderr
    assert me.said("send", "user", "note to myself")["message"]["sender"] == "user"
    again = me.run("login", code, "--json")
    assert (again.code, again.error["code"]) == (60, "TOKEN_INVALID")
    assert "login-code" in again.error["hint"]


def test_login_takes_the_code_from_stdin_and_from_a_link(me: Inbox, running: RunningBroker) -> None:
    def code() -> str:
        return run_inboxd("login-code", "--data-dir", str(running.data_dir)).stdout.split()[0]

    said = me.said("login", "-", stdin=code() + "\n")
    assert (said["role"], said["token"].count(".")) == ("user", 1)
    me.url, me.token = "", ""
    assert me.said("login", f"{running.url}/login?code={code()}")["url"] == running.url


def test_login_says_when_another_token_wins(me: Inbox, running: RunningBroker) -> None:
    code = run_inboxd("login-code", "--data-dir", str(running.data_dir)).stdout.split()[0]
    assert "INBOX_TOKEN has a token too" in me.ok("login", code).stderr


def test_login_does_not_go_where_a_repository_points(me: Inbox) -> None:
    (me.folder / ".inbox").mkdir()
    (me.folder / ".inbox" / "config.json").write_text(json.dumps({"url": me.url}))
    me.url, me.token = "", ""
    ran = me.run("login", "abc", "--json")
    assert (ran.code, ran.error["code"]) == (60, "ADDRESS_UNTRUSTED")


# help, version, completion


def test_every_command_teaches_with_examples(me: Inbox) -> None:
    listed = [
        line.split()[0] for line in me.ok("--help").stdout.splitlines() if line.startswith("  ") and line[2] != "-"
    ]
    ours = {"send", "check", "pending", "tasks", "task", "timeline", "show", "peer", "broadcast", "watch"}
    ours |= {"statusline", "login", "config", "doctor", "version", "completion", "init"}
    ours |= {"fetch", "claim", "renew", "update", "reply", "done", "fail", "cancel", "list", "wait-reply"}
    assert ours <= {*listed}
    for name in ours:
        manual = me.ok(name, "--help").stdout
        assert manual.startswith(f"Usage: inbox {name}")
        assert "\nexamples\n" in manual
        examples = manual.split("\nexamples\n")[1].split("\n\n")[0].splitlines()
        assert len(examples) >= 2
        assert any(f"inbox {name}" in line for line in examples)
        assert max(map(len, manual.splitlines())) <= 140


def test_the_version_is_told(me: Inbox) -> None:
    assert me.ok("version").stdout.startswith("inbox ")
    assert me.said("version")["platform"].count("/") == 1


def test_completion_finishes_commands_flags_choices_and_tasks(me: Inbox, task: str) -> None:
    (me.folder / "inbox.bash").write_text(me.ok("completion", "bash").stdout)

    def complete(*words: str) -> list[str]:
        script = f"""
            source inbox.bash
            COMP_WORDS=({" ".join(words)} {"''" if words[-1] == "" else ""}); COMP_CWORD={len(words) - 1}
            _inbox; printf '%s\\n' "${{COMPREPLY[@]}}"
        """
        ran = subprocess.run(
            ["bash", "--norc", "-c", script],
            cwd=me.folder,
            env=me.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert ran.stderr == ""
        return ran.stdout.split()

    assert complete("inbox", "tim") == ["timeline"]
    assert complete("inbox", "send", "x", "--pri") == ["--priority"]
    assert complete("inbox", "send", "x", "--priority", "ur") == ["urgent"]
    assert complete("inbox", "send", task[:8]) == [task]
    assert complete("inbox", "send", "--to", task[:8]) == [task]
    assert complete("inbox", "task", "de") == ["declare"]
    assert complete("inbox", "completion", "fi") == ["fish"]
    assert complete("inbox", "hook", "--lin") == ["--linger"]
    assert complete("inbox", "wait") == ["wait-reply"]
    assert complete("inbox", "claim", "--lea") == ["--lease-seconds"]
    assert complete("inbox", "reply", "--kind", "con") == ["control"]
    assert complete("inbox", "list", "--status", "bl") == ["blocked"]
    assert complete("inbox", "fetch", "--agent", task[:8]) == [task]
    assert complete("inbox", "show", "MESS") == []
    assert complete("inbox", "send", "x", "--thr") == ["--thread"]
    assert complete("inbox", "fail", "--st") == []
    zsh = me.ok("completion", "zsh").stdout
    assert zsh.startswith("#compdef inbox\n")
    fish = me.ok("completion", "fish").stdout
    assert "complete -c inbox -n '__fish_seen_subcommand_from send' -l priority -x -a 'low normal high urgent'" in fish
    assert "complete -c inbox -n '__fish_seen_subcommand_from attach' -l status\n" in fish


def test_the_token_is_nowhere_but_in_the_header(inbox_binary: Path, tmp_path: Path, broker: ScriptedBroker) -> None:
    token = "ibx_default.0123456789ab." + "s3cr3t" * 8
    me = Inbox(inbox_binary, tmp_path, broker.url, token)
    broker.settle = broker.hang
    hanging = me.start("tasks")
    poll_until(lambda: broker.requests, what="the request")
    argv = Path(f"/proc/{hanging.pid}/cmdline")
    if argv.exists():
        assert b"s3cr3t" not in argv.read_bytes()
    hanging.send_signal(signal.SIGTERM)
    hanging.communicate()
    request = broker.requests[0]
    assert request.headers.pop("authorization") == f"Bearer {token}"
    assert "s3cr3t" not in f"{request.path} {request.headers} {request.body!r}"
