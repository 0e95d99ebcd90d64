"""The leak checker: every key of a namespace is a row of keys.py, of its type, and bounded the way its row says."""

from __future__ import annotations

import re

from inboxd.store import keys
from inboxd.store.connection import Connection

UNSETTLED = {b"queued", b"in_flight", b"dead"}
OVER = {b"done", b"failed", b"cancelled"}
PART = {
    "task_id": r"[^:]+",
    "priority": r"urgent|high|normal|low",
    "pull_id": r".+",
    "message_id": r".+",
    "session": r".+",
    "code_hash": r"[0-9a-f]{64}",
    "call_hash": r"[0-9a-f]{40}",
    "thread_id": r".+",
    "agent": r"[^:]+",
    "status": r"[a-z_]+",
    "minute": r"[0-9]+",
}


def _pattern(template: str) -> re.Pattern[str]:
    escaped = re.sub(r"{(\w+)}", lambda found: f"(?P<{found[1]}>{PART[found[1]]})", template)
    return re.compile(escaped + r"\Z")


ROWS = {name: (_pattern(row.template), row) for name, row in keys.ROWS.items()}


async def keys_of(connection: Connection, namespace: str) -> list[str]:
    """Every key of one namespace. (A scan of a shared server: for tests only.)"""
    found: set[str] = set()
    cursor = b"0"
    while True:
        cursor, some = await connection.call(
            keys.key(namespace, "meta"), "SCAN", cursor, "MATCH", f"{keys.prefix(namespace)}*", "COUNT", 5_000
        )
        found |= {key.decode() for key in some}
        if cursor == b"0":
            return sorted(found)


async def _in_open_thread(connection: Connection, prefix: str, thread_id: bytes | None, n: bytes) -> bool:
    """Whether a message is of a thread that is not over; one may name a thread and not be of it."""
    name = f"{prefix}thread:{(thread_id or b'').decode()}"
    status = await connection.call(name, "HGET", name, "status")
    log = name.replace(prefix + "thread:", prefix + "thread_log:")
    return status not in (None, *OVER) and bool(await connection.call(log, "XRANGE", log, n + b"-0", n + b"-0"))


async def _strays(connection: Connection, prefix: str, found: dict[str, str], name: str) -> list[str]:
    """Threads in a list that they do not belong into: no such thread, in another status, or of somebody without a part in it."""
    wrong = []
    for member in await connection.call(prefix, "ZRANGE", prefix + name, 0, -1):
        thread = f"{prefix}thread:{member.decode()}"
        status, agents = await connection.call(thread, "HMGET", thread, "status", "agents")
        fits = status is not None
        if "status" in found:
            fits = fits and status.decode() == found["status"]
        if "agent" in found:
            fits = fits and found["agent"] in agents.decode().split(",")
        if name in ("leases", "closed_threads"):
            fits = fits and (status in OVER) == (name == "closed_threads")
        if not fits:
            wrong.append(f"{name}: {member.decode()} does not belong there")
    return wrong


async def leaked(connection: Connection, namespace: str) -> list[str]:
    """What is wrong with the keys of a namespace; nothing, if nothing."""
    wrong = []
    prefix = keys.prefix(namespace)
    tasks = {task.decode() for task in await connection.call(prefix, "ZRANGE", prefix + "tasks", 0, -1)}
    for key in await keys_of(connection, namespace):
        name = key.removeprefix(prefix)
        rows = [(found, row) for pattern, row in ROWS.values() if (found := pattern.match(name))]
        if len(rows) != 1:
            wrong.append(f"{name}: {len(rows)} rows of keys.py fit it")
            continue
        found, row = rows[0]
        kind = (await connection.call(key, "TYPE", key)).decode()
        ttl_ms = await connection.call(key, "PTTL", key)
        if kind != row.kind:
            wrong.append(f"{name}: is a {kind}, not a {row.kind}")
        if row.ends == "task" and "task_id" in found.groupdict() and found["task_id"] not in tasks:
            wrong.append(f"{name}: its task is gone")
        if row.ends == "ttl" and ttl_ms < 0:
            wrong.append(f"{name}: has no time to live")
        if row.ends == "thread" and "thread_id" in found.groupdict():
            status = await connection.call(key, "HGET", prefix + f"thread:{found['thread_id']}", "status")
            if (
                status is None
                or await connection.call(key, "ZSCORE", prefix + f"threads:{status.decode()}", found["thread_id"])
                is None
            ):
                wrong.append(f"{name}: stands in no list of threads")
        elif row.ends == "thread":
            wrong += await _strays(connection, prefix, found.groupdict(), name)
        if row.ends == "settled":
            state, thread_id, n = await connection.call(key, "HMGET", key, "state", "thread_id", "n")
            open_thread = await _in_open_thread(connection, prefix, thread_id, n)
            if (state in UNSETTLED or open_thread) != (ttl_ms < 0):
                wrong.append(f"{name}: {state!r} with a time to live of {ttl_ms}")
        if row.ends in ("never", "task", "count", "revoked", "thread") and ttl_ms >= 0:
            wrong.append(f"{name}: would vanish")
    return wrong
