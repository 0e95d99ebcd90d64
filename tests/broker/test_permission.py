"""Who may do what: every role at every operation. A refusal says so; anything else may fail for its own reasons."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inboxd.broker import Broker
from inboxd.errors import Forbidden, InboxdError, SenderForbidden, ThreadForbidden
from inboxd.model import (
    AttachRequest,
    CancelRequest,
    ClaimRequest,
    FinishRequest,
    HookExtras,
    Identity,
    MarkReadRequest,
    NewBroadcast,
    NewMessage,
    NewPeerMessage,
    NewProbe,
    NewTask,
    NewThread,
    NewToken,
    PresenceRequest,
    PullRequest,
    RenewRequest,
    ReplyRequest,
    SettleRequest,
    TaskChange,
    UpdateRequest,
    WaitReplyRequest,
    WatchRequest,
)
from inboxd.store import keys
from tests.conftest import agent_of
from tests.support.mail import Mail

pytestmark = pytest.mark.anyio

Operation = Callable[[Broker, Identity, str], Awaitable[Any]]
EVERYBODY = "admin user operator agent other observer"
MANAGERS = "admin user operator"
SOME = SettleRequest(message_ids=["m"])

ALLOWED: dict[str, tuple[str, Operation]] = {
    "send": ("admin user operator agent other", lambda b, w, n: b.send(w, "backend", NewMessage(message_id=n, body="x"))),
    "send as the user": ("admin user", lambda b, w, n: b.send(w, "backend", NewMessage(message_id=n, body="x", sender="user"))),
    "send as the operator": ("admin operator", lambda b, w, n: b.send(w, "backend", NewMessage(message_id=n, body="x", sender="operator"))),
    "send as the system": ("admin", lambda b, w, n: b.send(w, "backend", NewMessage(message_id=n, body="x", sender="system"))),
    "send as backend": ("admin operator agent", lambda b, w, n: b.send(w, "frontend", NewMessage(message_id=n, body="x", sender="task:backend"))),
    "send as task:user": ("", lambda b, w, n: b.send(w, "backend", NewMessage(message_id=n, body="x", sender="task:user"))),
    "send as anything": ("", lambda b, w, n: b.send(w, "backend", NewMessage(message_id=n, body="x", sender="root"))),
    "broadcast": ("admin user operator agent other", lambda b, w, n: b.broadcast(w, NewBroadcast(message_id=n, body="x", to=["backend", "frontend"]))),
    "broadcast as the user": ("admin user", lambda b, w, n: b.broadcast(w, NewBroadcast(message_id=n, body="x", to="all", sender="user"))),
    "send to peers": ("admin operator agent", lambda b, w, n: b.send_to_peers(w, "backend", NewPeerMessage(message_id=n, body="x"))),
    "pull": ("admin operator agent", lambda b, w, n: b.pull(w, "backend", PullRequest())),
    "pull the person's": ("admin user", lambda b, w, n: b.pull(w, "user", PullRequest())),
    "ack": ("admin operator agent", lambda b, w, n: b.ack(w, "backend", SOME)),
    "ack_all": ("admin operator agent", lambda b, w, n: b.ack_all(w, "backend", "p-1")),
    "release": ("admin operator agent", lambda b, w, n: b.release(w, "backend", SOME)),
    "seen": ("admin operator agent", lambda b, w, n: b.seen(w, "backend", SOME)),
    "unseen": ("admin operator agent", lambda b, w, n: b.unseen(w, "backend", SOME)),
    "ack the person's": ("admin user", lambda b, w, n: b.ack(w, "user", SOME)),
    "pending": (EVERYBODY, lambda b, w, n: b.pending(w, "backend")),
    "presence": ("admin operator agent", lambda b, w, n: b.presence(w, "backend", PresenceRequest())),
    "presence of the person": ("admin user", lambda b, w, n: b.presence(w, "user", PresenceRequest())),
    "hook": ("admin operator agent", lambda b, w, n: b.hook(w, "claude", {}, HookExtras(task="backend"))),
    "attach": ("admin user operator", lambda b, w, n: b.attach(w, AttachRequest(task=n))),
    "attach backend": ("admin user operator agent", lambda b, w, n: b.attach(w, AttachRequest(task="backend"))),
    "check": ("admin operator agent", lambda b, w, n: b.check(w, "backend", session="s")),
    "check the person's": ("admin user", lambda b, w, n: b.check(w, "user", session="s")),
    "check again": ("admin user operator agent observer", lambda b, w, n: b.check_again(w, "backend", session="s")),
    "say": ("admin user operator agent other", lambda b, w, n: b.say(w, "backend", NewMessage(message_id=n, body="x"))),
    "answer": (f"{MANAGERS} agent", lambda b, w, n: b.answer(w, "to-backend", ReplyRequest(message_id=n, body="x"))),
    "wait for an answer": ("admin operator agent", lambda b, w, n: b.wait_for_reply(w, "backend", "of-backend", wait_ms=0, session="s")),
    "hand on": ("admin operator agent", lambda b, w, n: b.hand_on(w, "backend", "s-1", "m-1", "p-1", None)),
    "call off": (EVERYBODY, lambda b, w, n: b.call_off(w, "0" * 40)),
    "probe": ("admin operator agent", lambda b, w, n: b.probe(w, "backend", NewProbe(session="doctor-1", nonce="0123456789"))),
    "declare": (MANAGERS, lambda b, w, n: b.declare(w, NewTask(task=n))),
    "declare backend": (f"{MANAGERS} agent", lambda b, w, n: b.declare(w, NewTask(task="backend", title=n))),
    "declare backend with peers": (MANAGERS, lambda b, w, n: b.declare(w, NewTask(task="backend", peers=["frontend"]))),
    "change the title": (f"{MANAGERS} agent", lambda b, w, n: b.change(w, "backend", TaskChange(title=n))),
    "change the peers": (MANAGERS, lambda b, w, n: b.change(w, "backend", TaskChange(peers=["frontend"]))),
    "link": (MANAGERS, lambda b, w, n: b.link(w, "backend", ["frontend"])),
    "remove": (MANAGERS, lambda b, w, n: b.remove(w, n, force=True)),
    "requeue": (MANAGERS, lambda b, w, n: b.requeue(w, "nothing")),
    "take back another's": ("admin user operator agent", lambda b, w, n: b.take_back(w, "of-backend")),
    "take back the person's": ("admin user", lambda b, w, n: b.take_back(w, "of-user")),
    "accept": ("admin user", lambda b, w, n: b.accept(w, ["m"])),
    "search": (EVERYBODY, lambda b, w, n: b.search(w)),
    "search backend's mail": ("admin user operator agent observer", lambda b, w, n: b.search(w, task="backend")),
    "overview": (EVERYBODY, lambda b, w, n: b.overview(w)),
    "last event": (EVERYBODY, lambda b, w, n: b.last_event(w)),
    "log": ("admin user operator observer", lambda b, w, n: b.log(w)),
    "open a session": ("admin user operator observer", lambda b, w, n: b.open_session(w)),
    "close a session": (EVERYBODY, lambda b, w, n: b.close_session(w)),
    "close all sessions": ("admin user operator observer", lambda b, w, n: b.close_sessions(w)),
    "show a task": (EVERYBODY, lambda b, w, n: b.show_task(w, "backend")),
    "list tasks": (EVERYBODY, lambda b, w, n: b.list_tasks(w, limit=10)),
    "attention": (EVERYBODY, lambda b, w, n: b.attention(w)),
    "follow": (EVERYBODY, lambda b, w, n: b.follow(w)),
    "timeline": ("admin user operator agent observer", lambda b, w, n: b.timeline(w, "backend", limit=10)),
    "timeline of the person": ("admin user operator observer", lambda b, w, n: b.timeline(w, "user", limit=10)),
    "show a message": ("admin user operator agent observer", lambda b, w, n: b.show(w, "to-backend")),
    "show a message one sent": ("admin user operator agent observer", lambda b, w, n: b.show(w, "of-backend")),
    "open a thread": ("admin user operator agent other", lambda b, w, n: b.open_thread(w, NewThread(message_id=n, subject="x", to="backend"))),
    "open a thread as the user": ("admin user", lambda b, w, n: b.open_thread(w, NewThread(message_id=n, subject="x", sender="user"))),
    "open a thread as backend": ("admin operator agent", lambda b, w, n: b.open_thread(w, NewThread(message_id=n, subject="x", sender="backend"))),
    "claim": ("admin operator agent", lambda b, w, n: b.claim(w, "thread", ClaimRequest(agent="backend"))),
    "claim what is anothers": ("admin operator", lambda b, w, n: b.claim(w, f"thread-{n}", ClaimRequest(agent="third"))),
    "claim in the pool": ("admin operator other", lambda b, w, n: b.claim(w, "pool", ClaimRequest(agent="third"))),
    "claim as the user": ("admin user", lambda b, w, n: b.claim(w, "thread", ClaimRequest(agent="user"))),
    "renew": ("admin operator agent", lambda b, w, n: b.renew(w, "thread", RenewRequest(agent="backend", fencing_token=1))),
    "update": ("admin operator agent", lambda b, w, n: b.update(w, "thread", UpdateRequest(agent="backend", fencing_token=1))),
    "done": ("admin operator agent", lambda b, w, n: b.done(w, "thread", FinishRequest(agent="backend", fencing_token=1, summary="x"))),
    "fail": ("admin operator agent", lambda b, w, n: b.fail(w, "thread", FinishRequest(agent="backend", fencing_token=1, summary="x"))),
    "fail as the user": ("admin user", lambda b, w, n: b.fail(w, "thread", FinishRequest(agent="user", fencing_token=1, summary="x"))),
    "reply": ("admin user operator agent", lambda b, w, n: b.reply(w, "thread", ReplyRequest(message_id=n, body="x"))),
    "reply as the user": ("admin user", lambda b, w, n: b.reply(w, "thread", ReplyRequest(message_id=n, body="x", sender="user"))),
    "cancel": ("admin user operator", lambda b, w, n: b.cancel(w, "thread", CancelRequest(message_id=n))),
    "cancel what the user opened": ("admin user", lambda b, w, n: b.cancel(w, "of-the-user", CancelRequest(message_id=n))),
    "cancel what one opened": ("admin user operator agent", lambda b, w, n: b.cancel(w, "of-backend-thread", CancelRequest(message_id=n))),
    "fetch": ("admin operator agent", lambda b, w, n: b.fetch(w, agent="backend", statuses=[], limit=10, unread=False)),
    "fetch for the user": ("admin user", lambda b, w, n: b.fetch(w, agent="user", statuses=[], limit=10, unread=False)),
    "list threads": (EVERYBODY, lambda b, w, n: b.list_threads(w, limit=10)),
    "list the threads of backend": ("admin user operator agent observer", lambda b, w, n: b.list_threads(w, agent="backend", limit=10)),
    "show a thread": ("admin user operator agent observer", lambda b, w, n: b.show_thread(w, "thread", limit=10)),
    "show a thread of the pool": (EVERYBODY, lambda b, w, n: b.show_thread(w, "pool", limit=10)),
    "mark read": ("admin operator agent", lambda b, w, n: b.mark_read(w, "thread", MarkReadRequest(agent="backend"))),
    "mark read for the user": ("admin user", lambda b, w, n: b.mark_read(w, "thread", MarkReadRequest(agent="user"))),
    "wait for a reply": ("admin operator agent", lambda b, w, n: b.wait_reply(w, "thread", WaitReplyRequest(agent="backend"))),
    "wait for a reply to another": ("admin operator", lambda b, w, n: b.wait_reply(w, "thread", WaitReplyRequest(agent="third"))),
    "watch": (EVERYBODY, lambda b, w, n: b.watch(w, WatchRequest())),
    "watch the threads of backend": ("admin user operator agent observer", lambda b, w, n: b.watch(w, WatchRequest(agent="backend"))),
    "stats": ("admin user operator observer", lambda b, w, n: b.stats(w)),
    "make a token of an agent": ("admin operator", lambda b, w, n: b.create_token(w, NewToken(role="agent", task="backend"))),
    "make a token of an admin": ("admin", lambda b, w, n: b.create_token(w, NewToken(role="admin"))),
    "make a token of a user": ("admin", lambda b, w, n: b.create_token(w, NewToken(role="user"))),
    "make a token of an operator": ("admin", lambda b, w, n: b.create_token(w, NewToken(role="operator"))),
    "make a token of an observer": ("admin", lambda b, w, n: b.create_token(w, NewToken(role="observer"))),
    "list tokens": ("admin operator", lambda b, w, n: b.list_tokens(w)),
}  # fmt: skip

OPERATIONS = frozenset(
    [
        "send",
        "broadcast",
        "send_to_peers",
        "pull",
        "ack",
        "ack_all",
        "release",
        "seen",
        "unseen",
        "pending",
        "presence",
        "hook",
        "probe",
        "check",
        "check_again",
        "say",
        "answer",
        "wait_for_reply",
        "hand_on",
        "call_off",
        "attach",
        "declare",
        "change",
        "link",
        "remove",
        "requeue",
        "take_back",
        "accept",
        "search",
        "overview",
        "last_event",
        "log",
        "open_session",
        "close_session",
        "close_sessions",
        "show_task",
        "list_tasks",
        "attention",
        "follow",
        "timeline",
        "show",
        "create_token",
        "list_tokens",
        "open_thread",
        "claim",
        "renew",
        "update",
        "done",
        "fail",
        "reply",
        "cancel",
        "fetch",
        "list_threads",
        "show_thread",
        "mark_read",
        "wait_reply",
        "watch",
        "stats",
    ]
)


@pytest.fixture
async def callers(mail: Mail) -> dict[str, Identity]:
    await mail.broker.link(mail.who, "backend", ["frontend"])
    await mail.declare("third")
    await mail.send("to-backend", sender="task:frontend")
    await mail.send("of-backend", task="frontend", sender="task:backend")
    for thread_id, to, sender in (
        ("thread", "backend", "frontend"),
        ("pool", None, "frontend"),
        ("of-the-user", "backend", "user"),
        ("of-backend-thread", "frontend", "backend"),
        *((f"thread-n-{number}", "backend", "frontend") for number in range(6)),
    ):
        new = NewThread(message_id=thread_id, subject="x", to=to, sender=sender)
        await mail.broker.open_thread(mail.who, new)
    await mail.send("of-user", task="frontend", sender="user")
    namespace = mail.who.namespace
    plain = {role: Identity(namespace, role, None, role, None) for role in ("admin", "user", "operator", "observer")}  # type: ignore[arg-type]
    return {**plain, "agent": agent_of(mail.who, "backend"), "other": agent_of(mail.who, "third")}


@pytest.mark.parametrize("operation", ALLOWED)
async def test_a_role_may_do_what_the_table_says_and_no_more(
    operation: str, mail: Mail, callers: dict[str, Identity]
) -> None:
    allowed, act = ALLOWED[operation]
    got_through = set()
    for number, (role, who) in enumerate(callers.items()):
        if operation == "remove":
            await mail.declare(f"n-{number}")
        try:
            await act(mail.broker, who, f"n-{number}")
        except (Forbidden, SenderForbidden, ThreadForbidden):
            continue
        except InboxdError:
            pass  # let through, and then refused for another reason
        got_through.add(role)
    await mail.broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, mail.who.namespace)
    assert got_through == set(allowed.split())


def test_the_table_names_every_operation_of_the_broker() -> None:
    named = {name for _, act in ALLOWED.values() for name in act.__code__.co_names}
    assert named >= OPERATIONS
    elsewhere = {
        "identify",
        "revoke_token",
        "log_in",
        "offer_login",
        "open_session_by_code",
        "close",
        "recall",
        "owner",
    }
    """identify and log_in are how a caller comes to be; revoke_token has tests of its own."""
    upkeep = {"sweep", "sweep_task", "tidy", "keep_swept", "settle", "settle_state", "following"}
    public = {name for name in dir(Broker) if not name.startswith("_") and callable(getattr(Broker, name))}
    assert public - OPERATIONS - elsewhere - upkeep == set()


@pytest.mark.parametrize("task", ["operator", "system"])
async def test_an_agent_named_like_a_role_reads_no_mail_of_that_role(mail: Mail, task: str) -> None:
    await mail.declare(task)
    await mail.send("secret", sender=task)
    with pytest.raises(Forbidden):
        await mail.broker.show(agent_of(mail.who, task), "secret")


async def test_an_agent_sees_what_it_sent_and_what_it_got(mail: Mail, backend: Mail, frontend: Mail) -> None:
    await backend.send("m-1", task="frontend")
    for one in (backend, frontend):
        assert (await one.show("m-1"))["message_id"] == "m-1"


async def test_a_caller_of_one_namespace_sees_nothing_of_another(mail: Mail) -> None:
    await mail.send("m-1")
    elsewhere = [
        Identity(f"{mail.who.namespace}-x", role, task, "0" * 12, None)  # type: ignore[arg-type]
        for role, task in itertools.chain(
            [(role, None) for role in ("admin", "user", "operator", "observer")], [("agent", "backend")]
        )
    ]
    for who in elsewhere:
        for act in (
            mail.broker.show(who, "m-1"),
            mail.broker.pending(who, "backend"),
            mail.broker.show_task(who, "backend"),
        ):
            with pytest.raises(InboxdError) as refusal:
                await act
            assert refusal.value.status == 404
        assert (await mail.broker.list_tasks(who, limit=10)).tasks == []
