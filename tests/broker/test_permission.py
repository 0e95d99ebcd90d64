"""Who may do what: every role at every operation. A refusal says so; anything else may fail for its own reasons."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from inboxd.broker import Broker
from inboxd.errors import Forbidden, InboxdError, SenderForbidden
from inboxd.model import (
    HookExtras,
    Identity,
    NewBroadcast,
    NewMessage,
    NewPeerMessage,
    NewProbe,
    NewTask,
    NewToken,
    PresenceRequest,
    PullRequest,
    SettleRequest,
    TaskChange,
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
    "release": ("admin operator agent", lambda b, w, n: b.release(w, "backend", SOME)),
    "seen": ("admin operator agent", lambda b, w, n: b.seen(w, "backend", SOME)),
    "unseen": ("admin operator agent", lambda b, w, n: b.unseen(w, "backend", SOME)),
    "ack the person's": ("admin user", lambda b, w, n: b.ack(w, "user", SOME)),
    "pending": (EVERYBODY, lambda b, w, n: b.pending(w, "backend")),
    "presence": ("admin operator agent", lambda b, w, n: b.presence(w, "backend", PresenceRequest())),
    "presence of the person": ("admin user", lambda b, w, n: b.presence(w, "user", PresenceRequest())),
    "hook": ("admin operator agent", lambda b, w, n: b.hook(w, "claude", {}, HookExtras(task="backend"))),
    "probe": ("admin operator agent", lambda b, w, n: b.probe(w, "backend", NewProbe(session="doctor-1", nonce="0123456789"))),
    "declare": (MANAGERS, lambda b, w, n: b.declare(w, NewTask(task=n))),
    "declare backend": (f"{MANAGERS} agent", lambda b, w, n: b.declare(w, NewTask(task="backend", title=n))),
    "declare backend with peers": (MANAGERS, lambda b, w, n: b.declare(w, NewTask(task="backend", peers=["frontend"]))),
    "change the title": (f"{MANAGERS} agent", lambda b, w, n: b.change(w, "backend", TaskChange(title=n))),
    "change the peers": (MANAGERS, lambda b, w, n: b.change(w, "backend", TaskChange(peers=["frontend"]))),
    "link": (MANAGERS, lambda b, w, n: b.link(w, "backend", ["frontend"])),
    "remove": (MANAGERS, lambda b, w, n: b.remove(w, n, force=True)),
    "requeue": (MANAGERS, lambda b, w, n: b.requeue(w, "nothing")),
    "show a task": (EVERYBODY, lambda b, w, n: b.show_task(w, "backend")),
    "list tasks": (EVERYBODY, lambda b, w, n: b.list_tasks(w, limit=10)),
    "attention": (EVERYBODY, lambda b, w, n: b.attention(w)),
    "timeline": ("admin user operator agent observer", lambda b, w, n: b.timeline(w, "backend", limit=10)),
    "timeline of the person": ("admin user operator observer", lambda b, w, n: b.timeline(w, "user", limit=10)),
    "show a message": ("admin user operator agent observer", lambda b, w, n: b.show(w, "to-backend")),
    "show a message one sent": ("admin user operator agent observer", lambda b, w, n: b.show(w, "of-backend")),
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
        "release",
        "seen",
        "unseen",
        "pending",
        "presence",
        "hook",
        "probe",
        "declare",
        "change",
        "link",
        "remove",
        "requeue",
        "show_task",
        "list_tasks",
        "attention",
        "timeline",
        "show",
        "create_token",
        "list_tokens",
    ]
)


@pytest.fixture
async def callers(mail: Mail) -> dict[str, Identity]:
    await mail.broker.link(mail.who, "backend", ["frontend"])
    await mail.declare("third")
    await mail.send("to-backend", sender="task:frontend")
    await mail.send("of-backend", task="frontend", sender="task:backend")
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
        except (Forbidden, SenderForbidden):
            continue
        except InboxdError:
            pass  # let through, and then refused for another reason
        got_through.add(role)
    await mail.broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, mail.who.namespace)
    assert got_through == set(allowed.split())


def test_the_table_names_every_operation_of_the_broker() -> None:
    named = {name for _, act in ALLOWED.values() for name in act.__code__.co_names}
    assert named >= OPERATIONS
    elsewhere = {"identify", "revoke_token", "log_in", "offer_login", "close", "recall", "owner"}
    """identify and log_in are how a caller comes to be; revoke_token has tests of its own."""
    upkeep = {"sweep", "sweep_task", "tidy", "keep_swept", "settle", "settle_state"}
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
