"""A namespace in the hands of a script test: seed it, run one script, see all that it changed.

Arguments a test does not care for have a default here; whatever it does care for, it says.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Protocol

import pytest

from inboxd.errors import InboxdError
from inboxd.store import keys
from inboxd.store.scripts import names
from inboxd.store.store import Store
from tests.support.state import State, changes, new_events, snapshot

RECORDS = frozenset({"meta", "events"})
"""What every writing operation adds to: told by its events, and left out of what else it changed. So are the minute's tallies."""

DEFAULTS: dict[str, Any] = {
    "task_id": "backend", "session": "s-1", "sender": "operator", "sender_task": "", "priority": "normal",
    "kind": "message", "chars": 5, "topic": "", "ttl_ms": "", "supersedes": "", "reply_to": "", "awaiting": "",
    "thread_id": "", "hops": 0, "create": "", "pull_id": "p-1", "max": 20, "max_chars": "", "min_rank": 0,
    "hold_ms": 30_000, "ack": "", "heard": "", "receipt": "", "ids": "[]", "title": "", "wanted_peers": "[]",
    "set_title": "", "force": "", "limit": 1_000, "by": "operator", "sign": "heartbeat", "detail": "", "machine": "",
    "host": "", "reader_idle_ms": 3_600_000, "after": "", "before": "", "scan_max": 2_000, "states": "", "senders": "", "kinds": "",
    "direction": "",
}  # fmt: skip
_BOUND_BY = re.compile(r"^local (.+) = unpack\((KEYS|ARGV)\)$", re.MULTILINE)


def takes(script: str) -> set[str]:
    """The names a script's two binding lines ask for: its arguments, and the parts of its keys."""
    source = (resources.files("inboxd.store") / "lua" / f"{script}.lua").read_text()
    named = {where: names.split(", ") for names, where in _BOUND_BY.findall(source)}
    parts = {part for row in named["KEYS"] for part in re.findall(r"{(\w+)}", keys.ROWS[row].template)}
    return {*named.get("ARGV", []), *parts}


TAKES = {name: takes(name) for name in names()}
BOUND = frozenset({
    "attempts_max", "events_max", "hops_max", "messages_max", "idle_after_ms", "presence_every_ms", "record_ms", "retention_ms",
})  # fmt: skip
"""What the store itself binds, from the settings."""


class Clock(Protocol):
    @property
    def for_scripts(self) -> int: ...


@dataclass
class Change:
    """What one run of one script did."""

    answer: Any
    keys: dict[str, Any]
    """Every key that changed but the log and its counter, as `changes` tells it."""
    events: list[dict[str, Any]]
    after: State = field(repr=False)


@dataclass
class Scene:
    store: Store
    namespace: str
    clock: Clock

    async def run(self, script: str, **given: Any) -> Any:
        bound = {"now_ms": self.clock.for_scripts, **DEFAULTS}
        bound["wanted_peers"] = "" if script == "change" else "[]"
        wanted = TAKES[script] - BOUND
        return await self.store.run(script, self.namespace, **({k: v for k, v in bound.items() if k in wanted} | given))

    async def look(self) -> State:
        return await snapshot(self.store.connection, self.namespace)

    async def act(self, script: str, **given: Any) -> Change:
        """Run it once, and tell everything that is different now."""
        before = await self.look()
        answer = await self.run(script, **given)
        after = await self.look()
        different = {
            name: how
            for name, how in changes(before, after).items()
            if name not in RECORDS and not name.startswith("stats:")
        }
        return Change(answer, different, new_events(before, after), after)

    async def refused(self, script: str, error: type[InboxdError], **given: Any) -> InboxdError:
        """Run it, expect this refusal, and that it changed nothing at all."""
        before = await self.look()
        with pytest.raises(error) as refusal:
            await self.run(script, **given)
        assert type(refusal.value) is error
        assert await self.look() == before
        return refusal.value

    async def unchanged(self, script: str, **given: Any) -> Any:
        """Run it, and expect that it changed nothing at all."""
        before = await self.look()
        answer = await self.run(script, **given)
        assert await self.look() == before
        return answer

    async def declare(self, *tasks: str) -> None:
        for task in tasks:
            await self.run("declare", task_id=task)

    async def send(self, message_id: str, **given: Any) -> Any:
        return await self.run("send", **send_arguments(message_id, **given))

    async def pull(self, **given: Any) -> list[str]:
        """The ids it handed over."""
        _pending, _left, rows, _mode = await self.run("pull", **given)
        return ids_of(rows)

    async def take(self, **given: Any) -> Any:
        """Pull and ack: what it handed over is delivered."""
        answer = await self.run("pull", ack="1", **given)
        await self.run("ack", receipt=given.get("pull_id", "p-1"))
        return answer


def ids_of(rows: list[Any]) -> list[str]:
    return [json.loads(row[0])["message_id"] for row in rows]


def send_arguments(message_id: str, **given: Any) -> dict[str, Any]:
    """Of one message, for `Scene.act("send", …)`."""
    doc = json.dumps({"message_id": message_id, "body": given.pop("body", "hello")})
    return {"message_id": message_id, "doc": doc, "hash": f"hash of {doc}"} | given
