"""Mail that is kept while the broker is away: in order, once each, in nobody else's name, and never lost on the way."""

from __future__ import annotations

import json
import stat
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.shim.scripted import Request, ScriptedBroker, says
from tests.support.brokers import RunningBroker, running_broker
from tests.support.fault_proxy import CUTS, Cut, FaultProxy, fault_proxy
from tests.support.inbox import Inbox
from tests.support.servers import free_port, poll_until

pytestmark = pytest.mark.xdist_group("inbox-spool")

AWAY = b'{"ok":false,"error":{"code":"STORE_UNAVAILABLE","message":"Away.","hint":null,"retry_after_ms":1}}'
SENT = {"duplicate": False, "pending": 1, "recipient_state": "active", "superseded": [], "message": {"task": "backend"}}


def answer(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        status.encode(),
        len(body),
        body,
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@dataclass
class Away:
    """A broker that cannot be reached, until the door to it opens."""

    broker: RunningBroker
    namespace: str
    port: int

    def back(self) -> AbstractContextManager[FaultProxy]:
        upstream = urlsplit(self.broker.url).port
        assert upstream is not None
        return fault_proxy(upstream, self.port)


@pytest.fixture
def away(running: RunningBroker) -> Away:
    return Away(running, f"t-{uuid.uuid4().hex[:10]}", free_port())


@pytest.fixture
def me(inbox_binary: Path, tmp_path: Path, away: Away) -> Inbox:
    """Somebody whose broker is away, and who is alone in a namespace of it."""
    token = away.broker.mint("operator", namespace=away.namespace)
    known = Inbox(inbox_binary, tmp_path / "home", f"http://127.0.0.1:{away.port}", token)
    with away.back():
        known.ok("task", "declare", "backend")
        known.ok("task", "declare", "frontend")
    return known


def delivered(me: Inbox, task: str = "backend") -> list[str]:
    listed = me.said("timeline", task, "--all")["messages"]
    return [message["body"] for message in reversed(listed)]


def test_mail_is_kept_while_the_broker_is_away_and_sent_in_order_when_it_is_back(me: Inbox, away: Away) -> None:
    kept = me.ok("send", "backend", "0", "--spool")
    assert kept.stdout.startswith("kept ")
    assert "The next inbox command that reaches the broker sends it." in kept.stdout
    said = me.said("send", "backend", "1", "--spool")
    assert (said["spooled"], said["task"]) == (True, "backend")
    for number in range(2, 6):
        me.ok("send", "backend", str(number), "--spool")
    assert [json.loads(path.read_text())["message"]["body"] for path in me.kept()] == list("012345")
    with away.back():
        assert me.run("tasks").stderr == "inbox: sent 6 messages that waited here.\n"
        assert delivered(me) == list("012345")
        assert me.kept() == []
        assert me.said("show", said["message_id"])["message"]["body"] == "1"
        assert me.run("tasks").stderr == ""


def test_what_is_kept_is_for_this_account_alone_and_has_no_secret(me: Inbox) -> None:
    me.ok("send", "backend", "x", "--spool")
    [path] = me.kept()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert me.token.rpartition(".")[2] not in path.read_text()
    assert [one.name for one in me.spool.iterdir() if not one.name.endswith(".json")] in ([], ["lock"])


def test_a_later_message_does_not_overtake_one_that_was_kept(me: Inbox, away: Away) -> None:
    me.ok("send", "backend", "first", "--spool")
    with away.back():
        me.ok("send", "backend", "second")
        assert delivered(me) == ["first", "second"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--task", "frontend"],
        ["pending", "frontend"],
        ["statusline"],
        ["watch", "--task", "frontend", "--timeout", "0"],
    ],
    ids=" ".join,
)
def test_any_command_that_reaches_the_broker_sends_it(me: Inbox, away: Away, arguments: list[str]) -> None:
    me.ok("send", "backend", "x", "--spool")
    with away.back():
        me.run(*arguments)
        if arguments == ["statusline"]:  # ends after 0.3 s, whatever a busy machine had time for
            poll_until(lambda: me.run("statusline") and me.kept() == [], what="the message on its way")
        assert me.kept() == []
        assert delivered(me) == ["x"]


def test_many_that_flush_at_once_send_each_message_once(me: Inbox, broker: ScriptedBroker) -> None:
    for number in range(6):
        me.ok("send", "backend", str(number), "--spool")
    # The same entries for a broker that notes every request.
    for path in me.kept():
        path.write_text(path.read_text().replace(me.url, broker.url))
    me.url = broker.url
    stored = json.dumps({**SENT, "tasks": [], "next_cursor": None}).encode()
    broker.settle = says(answer("200 OK", stored))
    flushing = [me.start("tasks") for _ in range(4)]
    for one in flushing:
        printed, said = one.communicate(timeout=30)
        assert one.returncode == 0, printed + said
    sent = [request.json["body"] for request in broker.requests if request.method == "POST"]
    assert sent == [str(number) for number in range(6)]
    assert me.kept() == []


def test_two_that_flush_at_once_leave_every_message_once_and_in_order(me: Inbox, away: Away) -> None:
    wanted = [str(number) for number in range(6)]
    for number in wanted:
        me.ok("send", "backend", number, "--spool")
    with away.back():
        flushing = [me.start("tasks"), me.start("send", "frontend", "x")]
        for one in flushing:
            _, said = one.communicate(timeout=30)
            assert one.returncode == 0, said
        assert delivered(me) == wanted


@pytest.mark.parametrize("cut", CUTS)
def test_an_answer_lost_while_flushing_sends_nothing_twice(me: Inbox, away: Away, cut: Cut) -> None:
    for body in ("one", "two", "three"):
        me.ok("send", "backend", body, "--spool")
    with away.back() as proxy:
        proxy.arm(cut, '"two"', times=1)
        me.ok("tasks")
        assert proxy.cuts == 1
        assert me.kept() == []
        assert delivered(me) == ["one", "two", "three"]


def test_what_the_broker_refuses_is_put_aside_and_the_rest_goes_on(me: Inbox, away: Away) -> None:
    me.ok("send", "backend", "good", "--spool")
    me.ok("send", "backnd", "bad", "--spool")
    me.ok("send", "backend", "better", "--spool")
    with away.back():
        told = me.run("tasks")
        assert told.code == 0
        assert "A message for backnd that waited here was refused: No task backnd was declared." in told.stderr
        assert "sent 2 messages that waited here." in told.stderr
        assert me.run("tasks").stderr == ""
        assert delivered(me) == ["good", "better"]
    assert me.kept() == []
    [aside] = (me.spool / "refused").iterdir()
    assert json.loads(aside.read_text())["refused"]["code"] == "TASK_UNKNOWN"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert str(aside) in told.stderr


def test_kept_mail_waits_for_the_token_it_was_sent_with(me: Inbox, away: Away) -> None:
    me.ok("send", "backend", "the operator's words", "--spool")
    with away.back():
        person = Inbox(me.binary, me.home, me.url, away.broker.mint("user", namespace=away.namespace))
        person.ok("tasks")
        assert len(me.kept()) == 1
        assert "of another token or broker" in person.run("doctor").stdout
        me.ok("tasks")
        assert me.said("timeline", "backend")["messages"][0]["sender"] == "operator"


def test_kept_mail_waits_for_the_broker_it_was_for(me: Inbox, broker: ScriptedBroker) -> None:
    me.ok("send", "backend", "x", "--spool")
    broker.settle = says(answer("200 OK", b'{"tasks": [], "next_cursor": null}'))
    me.ok("tasks", "--url", broker.url)
    assert [request.method for request in broker.requests] == ["GET"]
    assert len(me.kept()) == 1


def test_a_broker_that_cannot_work_just_now_counts_as_away(
    inbox_binary: Path, tmp_path: Path, broker: ScriptedBroker
) -> None:
    me = Inbox(inbox_binary, tmp_path, broker.url, "ibx_default.0123456789ab." + "s" * 43)
    broker.settle = says(answer("503 Service Unavailable", AWAY))
    assert me.said("send", "backend", "x", "--spool")["spooled"] is True
    tried = [request.json["message_id"] for request in broker.requests]
    assert len(tried) == 3
    assert len({*tried}) == 1
    assert me.run("send", "backend", "y").code == 50
    assert len(me.kept()) == 1


def test_a_full_store_keeps_nobody_from_making_room(inbox_binary: Path, tmp_path: Path, broker: ScriptedBroker) -> None:
    me = Inbox(inbox_binary, tmp_path, broker.url, "ibx_default.0123456789ab." + "s" * 43)
    broker.settle = says(answer("503 Service Unavailable", AWAY))
    me.ok("send", "backend", "x", "--spool")

    def full(connection: object, request: Request) -> None:
        sending = request.path.endswith("/messages")
        status, body = ("507 Full", AWAY) if sending else ("200 OK", b'{"messages": [], "pending": 0}')
        connection.sendall(answer(status, body))  # type: ignore[attr-defined]

    broker.settle = full
    assert me.run("check", "--task", "backend").code == 10
    assert len(me.kept()) == 1


def test_a_refusal_is_not_kept(me: Inbox, away: Away) -> None:
    with away.back():
        assert me.run("send", "absent-altogether", "x", "--spool").code == 40
        assert (
            me.run("send", "backend", "x", "--spool", env={"INBOX_TOKEN": "ibx_default.0123456789ab." + "s" * 43}).code
            == 60
        )
    assert me.kept() == []


def test_without_spool_nothing_is_kept(me: Inbox) -> None:
    assert me.run("send", "backend", "x").code == 50
    assert me.kept() == []


def test_a_folder_that_cannot_be_written_is_told(me: Inbox) -> None:
    (me.home / ".cache").mkdir(exist_ok=True)
    (me.home / ".cache" / "inbox").write_text("in the way") if not (me.home / ".cache" / "inbox").exists() else None
    ran = me.run("send", "backend", "x", "--spool", env={"XDG_CACHE_HOME": "/dev/null/cache"})
    assert ran.code == 50
    assert "cannot be kept" in ran.stderr


def test_odd_files_in_the_spool_do_no_harm(me: Inbox, away: Away) -> None:
    me.ok("send", "backend", "x", "--spool")
    for name, text in {
        "00000000000000000001-broken.json": "{",
        "00000000000000000002-path.json": json.dumps(
            {"url": me.url, "token_name": me.token.rpartition(".")[0], "task": "../x", "message_id": "m", "message": {}}
        ),
        "notes.txt": "x",
    }.items():
        (me.spool / name).write_text(text)
    with away.back():
        assert me.run("tasks").stderr == "inbox: sent 1 message that waited here.\n"
        assert delivered(me) == ["x"]


def test_a_process_killed_while_it_flushes_leaves_the_rest_to_the_next(me: Inbox, away: Away) -> None:
    wanted = [uuid.uuid4().hex for _ in range(8)]
    for body in wanted:
        me.ok("send", "backend", body, "--spool")
    with away.back():
        for _ in range(6):
            dying = me.start("tasks")
            try:
                dying.wait(0.02)
            except subprocess.TimeoutExpired:
                dying.kill()
            dying.communicate()
        me.ok("tasks")
        assert me.kept() == []
        assert delivered(me) == wanted
