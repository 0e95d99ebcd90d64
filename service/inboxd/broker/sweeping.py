"""Sweeping: deadlines that pass with nobody looking, and rows that outlived their message.

Every inboxd sweeps; two doing it at once is harmless, because each step is one script that looks before it acts.
"""

from __future__ import annotations

import asyncio
import logging
import random

from inboxd.broker.delivery import Delivery
from inboxd.errors import InboxdError

log = logging.getLogger("inboxd.sweep")

DUE_AT_ONCE = 100
TIDIED_AT_ONCE = 500
READER_IDLE_MS = 3_600_000
"""A reader of the group that holds nothing and was silent this long is taken off it."""


class Sweeping(Delivery):
    async def sweep(self, namespace: str) -> int:
        """Act on every deadline of a namespace that has passed. Returns how many tasks had one."""
        swept = 0
        while tasks := await self.store.due(namespace, self.clock.now_ms(), DUE_AT_ONCE):
            for task in tasks:
                await self.sweep_task(namespace, task)
            swept += len(tasks)
            if len(tasks) < DUE_AT_ONCE:
                break
        return swept

    async def tidy(self, namespace: str) -> None:
        """Drop what outlived its use."""
        for task in await self.store.task_ids(namespace, 1_000_000):
            while await self.store.run(
                "tidy", namespace, task_id=task, limit=TIDIED_AT_ONCE, reader_idle_ms=READER_IDLE_MS
            ):
                pass

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
