"""Everything the broker asks of the store: the scripts by name, and a few plain reads beside them.

It speaks and does not judge: what comes back is what Redis said, in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from redis.exceptions import ResponseError

from inboxd.errors import StoreFull, StoreUnavailable
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.connection import Connection
from inboxd.store.scripts import Scripts
from inboxd.store.versions import DATA_VERSION

COUNTERS = ("created_at_ms", "queued:urgent", "queued:high", "queued:normal", "queued:low", "held", "due_ms")
"""What `counters` reads of a task, in this order."""


class Store:
    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        scripts = Scripts(
            connection,
            {
                "attempts_max": settings.attempts_max,
                "events_max": settings.events_max,
                "hops_max": settings.hops_max,
                "messages_max": settings.thread_messages_max,
                "idle_after_ms": settings.idle_after_ms,
                "presence_every_ms": settings.presence_every_ms,
                "record_ms": settings.pull_record_ms,
                "retention_ms": settings.retention_ms,
                # What only a hook asks for.
                "overhead_chars": 0,
                "fresh_only": "",
                "uncounted": "",
            },
        )
        self.run = scripts.run
        """Run one operation, by its script's name. (No method around it: binding twenty arguments twice shows.)"""

    async def counters(self, namespace: str, task: str) -> list[bytes | None]:
        """One HMGET: the cheapest question there is."""
        name = keys.task(namespace, task)
        found: list[bytes | None] = await self.connection.call(name, "HMGET", name, *COUNTERS)
        return found

    async def task_ids(self, namespace: str, limit: int) -> list[str]:
        """Most recently active first."""
        name = keys.key(namespace, "tasks")
        found = await self.connection.call(name, "ZRANGE", name, 0, limit - 1, "REV")
        return [task.decode() for task in found]

    async def peers(self, namespace: str, task: str) -> list[str]:
        name = keys.key(namespace, "peers", task_id=task)
        return sorted(peer.decode() for peer in await self.connection.call(name, "SMEMBERS", name))

    async def has_thread(self, namespace: str, thread_id: str) -> bool:
        name = keys.key(namespace, "thread", thread_id=thread_id)
        return bool(await self.connection.call(name, "EXISTS", name))

    async def last_event(self, namespace: str) -> int:
        """The number of the newest event."""
        name = keys.key(namespace, "meta")
        return int(await self.connection.call(name, "HGET", name, "seq") or 0)

    async def events_back(self, namespace: str, before: int | None, after: int, limit: int) -> list[bytes]:
        """The log from the newest event, or from before one, back to behind another."""
        name = keys.key(namespace, "events")
        newest = "+" if before is None else f"({before}-0"
        rows = await self.connection.call(name, "XREVRANGE", name, newest, f"({after}-0", "COUNT", limit)
        return [fields[1] for _, fields in rows]

    async def token(self, namespace: str, token_id: str) -> bytes | None:
        name = keys.key(namespace, "tokens")
        found: bytes | None = await self.connection.call(name, "HGET", name, token_id)
        return found

    async def tokens(self, namespace: str) -> dict[str, bytes]:
        name = keys.key(namespace, "tokens")
        flat = await self.connection.call(name, "HGETALL", name)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return {token_id.decode(): record for token_id, record in pairs}

    async def known_tokens(self, namespace: str, token_ids: set[str]) -> set[str]:
        """Those of them that are there."""
        if not token_ids:
            return set()
        name = keys.key(namespace, "tokens")
        asked = sorted(token_ids)
        found = await self.connection.call(name, "HMGET", name, *asked)
        return {token_id for token_id, record in zip(asked, found, strict=True) if record is not None}

    async def continuations(self, namespace: str, task: str, session: str) -> int:
        """How often in a row this session's turn was kept going."""
        name = keys.key(namespace, "session", task_id=task, session=session)
        return int(await self.connection.call(name, "HGET", name, "continuations") or 0)

    async def in_subagent(self, namespace: str, task: str, session: str) -> bool:
        """Whether the session is inside a subagent that does not say so itself."""
        name = keys.key(namespace, "session", task_id=task, session=session)
        return bool(await self.connection.call(name, "HEXISTS", name, "in_subagent"))

    async def put_once(self, namespace: str, row: str, content: str, ttl_ms: int, **parts: str) -> None:
        """Leave something to be taken once (a login code, a probe)."""
        name = keys.key(namespace, row, **parts)
        await self.connection.call(name, "SET", name, content, "PX", ttl_ms)

    async def take_once(self, namespace: str, row: str, **parts: str) -> bytes | None:
        name = keys.key(namespace, row, **parts)
        found: bytes | None = await self.connection.call(name, "GETDEL", name)
        return found

    async def namespaces(self) -> list[str]:
        found = await self.connection.call(keys.NAMESPACES, "SMEMBERS", keys.NAMESPACES)
        return sorted(name.decode() for name in found)

    async def remember_namespace(self, namespace: str) -> None:
        await self.connection.call(keys.NAMESPACES, "SADD", keys.NAMESPACES, namespace)

    async def check(self) -> None:
        """Whether the store takes writes: one that changes nothing, refused like any other when it does not."""
        try:
            await self.connection.call(keys.VERSION, "SET", keys.VERSION, DATA_VERSION, "NX")
        except ResponseError as refusal:
            said = str(refusal)
            raise (
                StoreFull() if said.startswith("OOM") else StoreUnavailable(f"The store takes no writes: {said}")
            ) from None

    async def subscribe(
        self, row: str, namespace: str, on_message: Callable[[bytes], None], on_gap: Callable[[], None]
    ) -> None:
        """Listen on the channel named like this row (`events` or `tokens`) of a namespace."""
        await self.connection.subscribe(keys.key(namespace, row), on_message, on_gap)

    async def unsubscribe(self, row: str, namespace: str) -> None:
        await self.connection.unsubscribe(keys.key(namespace, row))

    def subscribed(self, row: str, namespace: str) -> bool:
        return self.connection.subscribed(keys.key(namespace, row))
