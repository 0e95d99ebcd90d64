"""The whole state of a namespace as a plain dict, so that a test compares all of it and not the part it thought of.

A key's name stands without its prefix. Its value is `{<type>: <what it holds>}`; `ttl` is there when the key will vanish by
itself. A stream also shows its groups: how far they read, who reads, what each reader has pending.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from inboxd.store import keys
from inboxd.store.connection import Connection
from tests.support.leaks import keys_of

State = dict[str, dict[str, Any]]


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return [_text(one) for one in value] if isinstance(value, list) else value


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


async def _stream(connection: Connection, key: str) -> dict[str, Any]:
    rows = _text(await connection.call(key, "XRANGE", key, "-", "+"))
    seen: dict[str, Any] = {"stream": [(entry, _pairs(fields)) for entry, fields in rows]}
    groups = {}
    for row in _text(await connection.call(key, "XINFO", "GROUPS", key)):
        group = _pairs(row)
        pending = _text(await connection.call(key, "XPENDING", key, group["name"], "-", "+", 100_000))
        readers = _text(await connection.call(key, "XINFO", "CONSUMERS", key, group["name"]))
        groups[group["name"]] = {
            "last": group["last-delivered-id"],
            "pending": [(entry, reader) for entry, reader, _idle, _count in pending],
            "readers": sorted(_pairs(reader)["name"] for reader in readers),
        }
    if groups:
        seen["groups"] = groups
    return seen


async def _value(connection: Connection, key: str) -> dict[str, Any]:
    kind = _text(await connection.call(key, "TYPE", key))
    seen: dict[str, Any]
    if kind == "stream":
        seen = await _stream(connection, key)
    elif kind == "hash":
        seen = {kind: _pairs(_text(await connection.call(key, "HGETALL", key)))}
    elif kind == "zset":
        flat = _text(await connection.call(key, "ZRANGE", key, 0, -1, "WITHSCORES"))
        seen = {kind: {member: int(score) for member, score in _pairs(flat).items()}}
    elif kind == "set":
        seen = {kind: sorted(_text(await connection.call(key, "SMEMBERS", key)))}
    elif kind == "list":
        seen = {kind: _text(await connection.call(key, "LRANGE", key, 0, -1))}
    else:
        seen = {kind: _text(await connection.call(key, "GET", key))}
    if await connection.call(key, "PTTL", key) >= 0:
        seen["ttl"] = True
    return seen


async def snapshot(connection: Connection, namespace: str) -> State:
    """Every key of one namespace with all that it holds."""
    prefix = keys.prefix(namespace)
    names = await keys_of(connection, namespace)
    values = await asyncio.gather(*(_value(connection, name) for name in names))
    return {name.removeprefix(prefix): value for name, value in zip(names, values, strict=True)}


def changes(before: State, after: State) -> dict[str, Any]:
    """What differs, by key: for hashes and sorted sets the fields as (old, new), else the two values; None is absent."""
    found: dict[str, Any] = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        fields = next((kind for kind in ("hash", "zset") if kind in (old or new or {})), None)
        if fields is None:
            found[name] = (old, new)
            continue
        was, now = (old or {}).get(fields, {}), (new or {}).get(fields, {})
        found[name] = {
            field: (was.get(field), now.get(field))
            for field in sorted(was.keys() | now.keys())
            if was.get(field) != now.get(field)
        }
        if old and new and old.get("ttl", False) != new.get("ttl", False):
            found[name]["(ttl)"] = (old.get("ttl", False), new.get("ttl", False))
    return found


def events_of(state: State) -> list[dict[str, Any]]:
    """The namespace's log, oldest first. Its numbers must be those of its entries, rise by one, and end at `seq`."""
    rows = state.get("events", {"stream": []})["stream"]
    events = [json.loads(fields["event"]) for _, fields in rows]
    numbers = [int(entry.removesuffix("-0")) for entry, _ in rows]
    assert [event["id"] for event in events] == numbers
    last = int(state.get("meta", {"hash": {}})["hash"].get("seq", 0))
    assert numbers == list(range(last - len(numbers) + 1, last + 1))
    return events


def new_events(before: State, after: State) -> list[dict[str, Any]]:
    """What the log gained, each event without the id and time that all have."""
    known = len(events_of(before))
    return [
        {field: value for field, value in event.items() if field not in ("id", "at_ms")}
        for event in events_of(after)[known:]
    ]
