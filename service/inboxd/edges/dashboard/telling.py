"""Telling: what an event says, as a sentence. Pure: an event in; who, what and where to look out."""

from __future__ import annotations

from typing import Any, NamedTuple

from inboxd.broker.desk import SESSION_LABEL
from inboxd.model import USER


class Told(NamedTuple):
    icon: str
    tone: str
    """good, warn, bad or quiet"""
    subject: str
    says: str
    object: str
    link: str
    """Where to look, or ''."""


_SAYS: dict[str, tuple[str, str, str]] = {
    "task_declared": ("bot", "quiet", "was declared"),
    "task_changed": ("bot", "quiet", "was changed"),
    "task_linked": ("link-2", "quiet", "became a peer of"),
    "task_unlinked": ("link-2", "quiet", "is no longer a peer of"),
    "task_removed": ("trash-2", "warn", "was removed"),
    "task_session_started": ("terminal", "good", "started a session"),
    "task_session_ended": ("terminal", "quiet", "ended its session"),
    "thread_opened": ("square-kanban", "quiet", "opened a thread"),
    "thread_claimed": ("lock", "good", "claimed a thread"),
    "thread_renewed": ("lock", "quiet", "keeps its thread"),
    "thread_lease_expired": ("hourglass", "warn", "lost its lease"),
    "thread_in_progress": ("square-kanban", "quiet", "reported progress"),
    "thread_blocked": ("hand", "warn", "is blocked"),
    "thread_replied": ("reply", "quiet", "replied in a thread"),
    "thread_done": ("circle-check", "good", "finished a thread"),
    "thread_failed": ("x", "bad", "failed a thread"),
    "thread_cancelled": ("ban", "warn", "cancelled a thread"),
    "thread_read": ("eye", "quiet", "read a thread"),
    "token_created": ("key-round", "quiet", "A token was made"),
    "token_revoked": ("key-round", "warn", "A token was revoked"),
}
_MESSAGE: dict[str, tuple[str, str, str]] = {
    "queued": ("send-horizontal", "quiet", "wrote to"),
    "in_flight": ("arrow-right", "quiet", "is being handed a message"),
    "delivered": ("check", "good", "got a message"),
    "seen": ("check-check", "good", "has seen a message"),
    "returned": ("rotate-ccw", "warn", "gets a message again"),
    "expired": ("hourglass", "warn", "did not take a message in time"),
    "superseded": ("undo-2", "quiet", "no longer gets a message"),
    "dead": ("mail-x", "bad", "has a dead letter"),
}


def tell(event: dict[str, Any]) -> Told:
    """The sentence of one event. What is not known is said by its name."""
    kind = str(event.get("type", ""))
    task = _name(event.get("task"))
    if kind.startswith("task_message_"):
        return _message(event, kind.removeprefix("task_message_"), task)
    if kind == "task_state_changed":
        state = str(event.get("state", ""))
        tone = {"active": "good", "waiting": "warn", "terminated": "bad"}.get(state, "quiet")
        says = "waits for a person" if state == "waiting" else f"is {state}"
        return Told("activity", tone, task, says, "", _task(event))
    if kind == "task_waiting_changed":
        waits = int(event.get("waiting", 0))
        says = f"waits for {_counted(waits, 'answer')}" if waits else "waits for nobody any more"
        return Told("hourglass", "warn" if waits else "quiet", task, says, "", _task(event))
    if kind in ("task_linked", "task_unlinked"):
        icon, tone, says = _SAYS[kind]
        return Told(icon, tone, task, says, _name(event.get("peer")), _task(event))
    if kind.startswith("thread_"):
        icon, tone, says = _SAYS.get(kind, ("square-kanban", "quiet", kind.removeprefix("thread_").replace("_", " ")))
        by = event.get("agent") if kind != "thread_opened" else event.get("created_by")
        by = event.get("sender") or by or event.get("created_by")
        return Told(
            icon, tone, _name(by), says, str(event.get("thread_id", "")), f"/threads/{event.get('thread_id', '')}"
        )
    if kind == "task_declared" and task == USER:
        return Told("inbox", "quiet", "", "The person's inbox was opened", "", "/inbox")
    icon, tone, says = _SAYS.get(kind, ("activity", "quiet", kind.replace("_", " ")))
    if kind == "token_created":
        return _token(event, icon, tone, says)
    if kind == "token_revoked":
        return Told(icon, tone, "", says, "", "")
    detail = str(event.get("host") or "") if kind == "task_session_started" else ""
    return Told(icon, tone, task, says, detail, "" if kind == "task_removed" else _task(event))


def _message(event: dict[str, Any], state: str, task: str) -> Told:
    icon, tone, says = _MESSAGE.get(state, ("activity", "quiet", state))
    sender = _name(event.get("sender"))
    link = f"/messages/{event.get('message_id', '')}"
    if state == "queued":
        if event.get("requeued"):
            return Told("rotate-ccw", "warn", task, "gets a dead letter again, from", sender, link)
        word = {"question": "asked", "answer": "answered", "result": "reported to", "help_request": "wants help from"}
        return Told(icon, tone, sender, word.get(str(event.get("kind")), says), task, link)
    return Told(icon, tone, task, f"{says} from", sender, link)


def _token(event: dict[str, Any], icon: str, tone: str, says: str) -> Told:
    agent = _name(event.get("agent"))
    if agent:
        return Told(icon, tone, agent, "was given a token", "", f"/tasks/{agent}")
    if event.get("label") == SESSION_LABEL:
        return Told(icon, tone, "", "A browser was signed in", "", "")
    role = str(event.get("role") or "")
    return Told(icon, tone, "", f"{says}, for the role" if role else says, role, "")


def _name(given: Any) -> str:
    return str(given or "").removeprefix("task:")


def _task(event: dict[str, Any]) -> str:
    return f"/tasks/{event['task']}" if event.get("task") else ""


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
