"""Threads in a script test: `frontend` opens them, `backend` works on them, unless a test says otherwise."""

from __future__ import annotations

import json
from typing import Any

from inboxd.store import keys
from tests.support.scene import TAKES, Scene

LEASE_MS = 60_000

_WORD: dict[str, Any] = {
    "sender": "task:frontend", "sender_task": "frontend", "priority": "normal", "awaiting": "", "hops": 0, "chars": 5,
}  # fmt: skip
_ALL: dict[str, dict[str, Any]] = {
    "open_thread": {"to": "backend", "kind": "task", "subject": "Log-in", "run_id": "", "task_label": "", "reply_to": "", "create": ""},
    "claim": {"agent": "backend", "claim_id": "c-1", "lease_ms": LEASE_MS, "any": ""},
    "renew": {"agent": "backend", "fencing_token": 1, "renew_id": "", "lease_ms": LEASE_MS},
    "update": {
        "agent": "backend", "fencing_token": 1, "status": "in_progress", "kind": "progress", "summary": "So far.",
        "sender": "task:backend", "sender_task": "backend",
    },
    "reply": {"kind": "answer", "to": "", "reply_to": "", "fencing_token": "", "any": "", "create": ""},
    "cancel": {"kind": "control", "priority": "high", "any": "", "spared": "", "summary": "Not needed."},
    "show_thread": {"agent": "backend", "any": "", "after": 0, "newest": "", "chars_max": 100_000},
    "mark_read": {"agent": "backend", "any": "", "up_to": ""},
    "list_threads": {"agent": "", "statuses": "pending,claimed,in_progress,blocked,done,failed,cancelled", "created_by": "", "assigned_to": ""},
    "fetch": {"agent": "backend", "statuses": "", "unread": "", "limit": 20},
    "wait_reply": {
        "agent": "backend", "sender": "task:backend", "any": "", "after_event": "", "after_message": "",
        "kinds": "answer,control,result",
    },
    "take": {"again": "", "session": "wait-reply"},
    "watch": {"agents": "", "statuses": "", "limit": 100},
}  # fmt: skip


def said(script: str, message_id: str = "t-1", thread_id: str = "t-1", **given: Any) -> dict[str, Any]:
    """The arguments of a script about a thread; of a script that says something, the message's too."""
    tail = json.dumps({"body": given.pop("body", "hello"), "sender": given.get("sender", "")})[1:]
    bound = {
        **_WORD, "message_id": message_id, "thread_id": thread_id, "tail": tail, "hash": f"{script} {message_id} {thread_id} {tail}",
        **_ALL[script],
    }  # fmt: skip
    return {name: value for name, value in bound.items() if name in TAKES[script]} | given


async def open_thread(scene: Scene, thread_id: str = "t-1", **given: Any) -> Any:
    return await scene.run("open_thread", **said("open_thread", thread_id, thread_id, **given))


async def claim(scene: Scene, thread_id: str = "t-1", **given: Any) -> Any:
    return await scene.run("claim", **said("claim", thread_id=thread_id, **given))


async def update(scene: Scene, message_id: str, status: str = "in_progress", **given: Any) -> Any:
    asks = {"kind": "question", "awaiting": "1"} if status == "blocked" else {}
    return await scene.run("update", **said("update", message_id, status=status, **(asks | given)))


async def reply(scene: Scene, message_id: str, **given: Any) -> Any:
    return await scene.run("reply", **said("reply", message_id, **given))


async def cancel(scene: Scene, message_id: str = "x-1", **given: Any) -> Any:
    return await scene.run("cancel", **said("cancel", message_id, **given))


async def at_work(scene: Scene, *, asked: bool = False) -> None:
    """The thread t-1 is opened by `frontend` and claimed by `backend`; `asked`: it is blocked by the question q-1."""
    await open_thread(scene)
    await claim(scene)
    if asked:
        await update(scene, "q-1", "blocked")


def fields_of(row: list[bytes] | dict[bytes, bytes]) -> dict[str, str]:
    """A hash as a script returns it."""
    pairs = row.items() if isinstance(row, dict) else zip(row[::2], row[1::2], strict=True)
    return {name.decode(): value.decode() for name, value in pairs}


async def drop_message(scene: Scene, message_id: str) -> None:
    """Its retention is over."""
    name = keys.key(scene.namespace, "msg", message_id=message_id)
    await scene.store.connection.call(name, "DEL", name)


def place(n: int, priority: str = "normal") -> int:
    """Where a thread with this number stands in its lists."""
    return ("urgent", "high", "normal", "low").index(priority) * 2**50 + n


def moved(
    thread_id: str, n: int, before: str, after: str, *agents: str
) -> dict[str, dict[str, tuple[int | None, int | None]]]:
    """What changes in the lists when a thread of these agents goes from one status to another."""
    lists = ["threads:{}", *(f"agent_threads:{agent}:{{}}" for agent in agents)]
    return {one.format(before): {thread_id: (place(n), None)} for one in lists} | {
        one.format(after): {thread_id: (None, place(n))} for one in lists
    }


def told(change: Any) -> list[str]:
    """The types of the events of a change."""
    return [event["type"] for event in change.events]
