"""Sweeping: deadlines that pass with nobody looking, and rows that outlived their message.

Every inboxd sweeps; two doing it at once is harmless, because each step is one script that looks before it acts.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random

from inboxd.broker.delivery import Delivery
from inboxd.broker.room import MINUTE_MS
from inboxd.errors import InboxdError, TokenUnknown

log = logging.getLogger("inboxd.sweep")

DUE_AT_ONCE = 1_000
TIDIED_AT_ONCE = 500
DROPPED_AT_ONCE = 200
SAMPLED_MAX = 5_000
"""Tasks whose waiting mail is added up once a minute, the most recently active."""
READER_IDLE_MS = 3_600_000
"""A reader of the group that holds nothing and was silent this long is taken off it."""


class Sweeping(Delivery):
    _sampled: dict[str, int]
    """The minute for which each namespace's waiting mail was last noted."""

    async def sweep(self, namespace: str) -> int:
        """Act on deadlines of a namespace that have passed. Returns how many tasks had one; what is left waits for the next sweep."""
        now_ms, tasks = await self.store.run("overdue", namespace, now_ms=self.clock.for_scripts, limit=DUE_AT_ONCE)
        self.clock.learn(int(now_ms))
        for task in tasks:
            await self.sweep_task(namespace, task.decode())
        await self.store.run("expire_leases", namespace, now_ms=self.clock.for_scripts, limit=DUE_AT_ONCE)
        await self._write_tallies(namespace)
        minute = int(now_ms) // MINUTE_MS
        if self._sampled.get(namespace) != minute:
            self._sampled[namespace] = minute
            await self.store.run("sample", namespace, now_ms=self.clock.for_scripts, limit=SAMPLED_MAX)
        return len(tasks)

    async def tidy(self, namespace: str) -> None:
        """Drop what outlived its use: timeline rows of messages that are gone, readers that are gone, tokens that expired."""
        for task in await self.store.task_ids(namespace, 1_000_000):
            after: bytes | None = b""
            while after is not None:
                after = (
                    await self.store.run(
                        "tidy",
                        namespace,
                        task_id=task,
                        after=after,
                        limit=TIDIED_AT_ONCE,
                        reader_idle_ms=READER_IDLE_MS,
                    )
                    or None
                )
        while await self.store.run("drop_threads", namespace, now_ms=self.clock.for_scripts, limit=DROPPED_AT_ONCE):
            pass
        for token_id, record in (await self.store.tokens(namespace)).items():
            expires_at_ms = json.loads(record)["expires_at_ms"]
            if expires_at_ms is not None and expires_at_ms + self.settings.retention_ms <= self.clock.now_ms():
                with contextlib.suppress(TokenUnknown):
                    await self.store.run("revoke_token", namespace, now_ms=self.clock.for_scripts, token_id=token_id)

    async def keep_swept(self) -> None:
        """Sweep for ever. A store that does not answer is waited out."""
        loop = asyncio.get_running_loop()
        tidy_at = loop.time() + self.settings.tidy_every_ms / 1000
        while True:
            await asyncio.sleep(self.settings.sweep_every_ms / 1000 * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                for namespace in await self.store.namespaces():
                    await self.sweep(namespace)
                if loop.time() >= tidy_at:
                    tidy_at = loop.time() + self.settings.tidy_every_ms / 1000
                    for namespace in await self.store.namespaces():
                        await self.tidy(namespace)
            except InboxdError as problem:
                log.warning("the sweep was put off: %s", problem.message)
            except Exception:
                log.exception("the sweep failed")
