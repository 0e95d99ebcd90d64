"""The leak checker: every key of a namespace is a row of keys.py, of its type, and bounded the way its row says."""

from __future__ import annotations

import re

from inboxd.store import keys
from inboxd.store.connection import Connection

UNSETTLED = {b"queued", b"in_flight", b"dead"}
PART = {
    "task_id": r"[^:]+",
    "priority": r"urgent|high|normal|low",
    "pull_id": r".+",
    "message_id": r".+",
    "session": r".+",
    "code_hash": r"[0-9a-f]{64}",
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
        if row.ends == "settled":
            state = await connection.call(key, "HGET", key, "state")
            if (state in UNSETTLED) != (ttl_ms < 0):
                wrong.append(f"{name}: {state!r} with a time to live of {ttl_ms}")
        if row.ends in ("never", "task", "count", "revoked") and ttl_ms >= 0:
            wrong.append(f"{name}: would vanish")
    return wrong
