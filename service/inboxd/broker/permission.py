"""Who may do what. Pure: a caller and an action in, nothing or a refusal out.

| role | may |
|---|---|
| admin | everything |
| user | speak as `user`; read all; declare, change, remove, link, requeue, attach; pull only `user` |
| operator | act for any agent, but not for `user`; declare, change, remove, link, requeue, attach; mint agent tokens |
| agent | send as its task; pull, settle and read its own inbox; see the list of tasks; retitle itself |
| observer | read |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inboxd.errors import Forbidden, InvalidRequest, SenderForbidden
from inboxd.model import USER, Identity, is_task_id

_MANAGERS = ("admin", "operator", "user")


def sender_of(who: Identity, asked: str | None) -> tuple[str, str]:
    """The sender a message gets, and the task whose inbox answers go to ('' when it has none)."""
    own = {"agent": f"task:{who.task}", "user": USER, "operator": "operator", "admin": "operator"}.get(who.role)
    if own is None:
        raise Forbidden("An observer only reads.")
    sender = asked or own
    if sender != own and not _may_speak_as(who, sender):
        raise SenderForbidden(
            f"This token speaks as {own}, not as {sender}.",
            hint="Leave `from` out, or use a token of that role.",
        )
    if sender == USER:
        return sender, USER
    return sender, sender.removeprefix("task:") if sender.startswith("task:") else ""


def _may_speak_as(who: Identity, sender: str) -> bool:
    kind, _, task = sender.partition(":")
    as_agent = kind == "task" and is_task_id(task) and task != USER
    if who.role == "operator":
        return as_agent
    return who.role == "admin" and (as_agent or sender in (USER, "operator", "system"))


def may_act_for(who: Identity, task: str) -> None:
    """Pull, settle and be present for a task; send in its name."""
    if who.role == "admin" or (who.role == "agent" and who.task == task):
        return
    if who.role == "operator" and task != USER:
        return
    if who.role == "user" and task == USER:
        return
    if who.role == "operator":
        raise Forbidden("Only the person opens the inbox `user`.", hint="Use a token of role user.")
    raise Forbidden(f"This token does not open the inbox {task}.")


def may_read_mail(who: Identity, *tasks: str) -> None:
    """See the messages of a task; one of several is enough."""
    if who.role == "agent" and who.task not in tasks:
        raise Forbidden("An agent reads only its own mail.")


def agent_of(who: Identity, asked: str | None) -> str:
    """The task that works, waits or reads in a thread: the token's own, or one it may act for."""
    agent = asked or who.task or (USER if who.role == "user" else None)
    if agent is None:
        raise InvalidRequest(
            "No agent is named.", hint="Name it as `agent`: this token may act for several (`--agent` or INBOX_TASK)."
        )
    may_act_for(who, agent)
    return agent


def may_read_all(who: Identity) -> bool:
    """Whether this caller reads every thread, and not only those it has a part in."""
    return who.role != "agent"


def concerned(event: Mapping[str, Any], task: str) -> bool:
    """Whether an event is one of this task, or of a thread that it has a part in."""
    agents = event.get("agents", ())
    return event.get("task") == task or task in agents or "*" in agents


def may_hear(own: str, event: Mapping[str, Any]) -> bool:
    """What an agent is told of: events that concern it, and what becomes of the messages it sent."""
    return concerned(event, own) or event.get("sender") == f"task:{own}"


def may_manage(who: Identity, *, own: str | None = None) -> None:
    """Declare, change, remove and link tasks, requeue dead letters. An agent may change itself (`own`)."""
    if who.role in _MANAGERS or (who.role == "agent" and own is not None and who.task == own):
        return
    raise Forbidden(f"A token of role {who.role} may not manage tasks.")


def may_take_back(who: Identity) -> tuple[str, str]:
    """Whose messages the caller may take back ('' for anybody's), and whose not."""
    if who.role == "observer":
        raise Forbidden("An observer only reads.")
    if who.role == "agent":
        return f"task:{who.task}", ""
    # The machine's own token speaks for agents, and must not silence the person.
    return "", USER if who.role == "operator" else ""


def may_mint(who: Identity, role: str) -> None:
    if who.role == "admin" or (who.role == "operator" and role == "agent"):
        return
    raise Forbidden(
        f"A token of role {who.role} may not make or revoke one of role {role}.",
        hint="`inboxd token create` on the broker's machine makes any.",
    )


def may_attach(who: Identity) -> None:
    """Give a worktree a task of its own, with a token that opens that inbox and no other: the person may, and who acts for agents."""
    if who.role not in _MANAGERS:
        raise Forbidden(
            f"A token of role {who.role} may not attach a worktree.",
            hint="Use the person's own (`inbox login CODE`), or the operator's.",
        )


def may_list_tokens(who: Identity) -> None:
    if who.role not in ("admin", "operator"):
        raise Forbidden(f"A token of role {who.role} may not see tokens.")


def can_be_answered(awaiting: bool, sender_task: str) -> None:
    if awaiting and not sender_task:
        raise InvalidRequest(
            "Only a sender with an inbox can wait for an answer.", hint="Send as a task or as the user."
        )
