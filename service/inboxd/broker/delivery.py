"""Delivery: hand over, and settle what was handed over. Only pull hands over, only ack delivers, looking never consumes."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from inboxd.broker.naming import mint_id
from inboxd.broker.permission import may_act_for
from inboxd.broker.sending import Sending
from inboxd.broker.waiting import Waiting
from inboxd.errors import TaskUnknown
from inboxd.model import RANKS, SESSION_DEFAULT, Identity, PullRequest, SettleRequest, StoredMessage


class BatchAnswer(NamedTuple):
    pull_id: str
    receipt: str | None
    messages: list[StoredMessage]
    pending: int
    left: int
    waited_ms: int = 0
    """How long the caller had waited, at the least, when these were taken."""


class SettleAnswer(NamedTuple):
    message_ids: list[str]
    lost: list[str]


class PendingAnswer(NamedTuple):
    urgent: int
    high: int
    normal: int
    low: int
    held: int

    @property
    def pending(self) -> int:
        return self.urgent + self.high + self.normal + self.low


class Delivery(Sending):
    waiting: Waiting

    async def pull(
        self, who: Identity, task: str, want: PullRequest, *, overhead_chars: int = 0, fresh_only: bool = False
    ) -> BatchAnswer:
        """The next messages, most urgent first, oldest first within. With `wait_ms`, waits for the first to come.

        `overhead_chars` is what showing each message costs beside its text; `fresh_only` leaves out what was handed over before.
        """
        may_act_for(who, task)
        pull_id = want.pull_id or mint_id()
        hook = {"overhead_chars": overhead_chars, "fresh_only": "1" if fresh_only else ""}
        if not want.wait_ms:
            return await self._pull_once(who, task, want, pull_id, hook)
        began_ms = self.clock.now_ms()
        async with self.waiting.for_mail(who.namespace, task, self._bounded(want.wait_ms)) as mail:
            while True:
                waited_ms = max(0, self.clock.now_ms() - began_ms)
                found = await self._pull_once(who, task, want, pull_id, hook)
                if found.messages or not await mail.comes():
                    return found._replace(waited_ms=waited_ms)

    async def _pull_once(
        self, who: Identity, task: str, want: PullRequest, pull_id: str, hook: dict[str, Any]
    ) -> BatchAnswer:
        pending, left, rows, mode = await self._run_pull(who, task, want.session, want, pull_id, hook)
        if rows and mode == b"ack":
            return await self._delivered(who, task, want, pull_id)
        return BatchAnswer(pull_id, pull_id if rows else None, [StoredMessage(*row) for row in rows], pending, left)

    async def _delivered(self, who: Identity, task: str, want: PullRequest, pull_id: str) -> BatchAnswer:
        """Ack what was just taken, then read it again as it is now. A hand-over of its own: see pull.lua for why it is not one script."""
        await self.ack_all(who, task, pull_id)
        pending, left, rows, _ = await self._run_pull(who, task, want.session, want, pull_id, {})
        return BatchAnswer(pull_id, None, [StoredMessage(*row) for row in rows], pending, left)

    async def _run_pull(
        self, who: Identity, task: str, session: str, want: PullRequest, pull_id: str, hook: dict[str, Any]
    ) -> Any:
        try:
            return await self.store.run(
                "pull",
                who.namespace,
                now_ms=self.clock.for_scripts,
                task_id=task,
                session=session,
                pull_id=pull_id,
                max=min(want.max, self.settings.pull_max),
                max_chars=want.max_chars,
                min_rank=RANKS[want.min_priority],
                hold_ms=want.hold_ms or self.settings.hold_ms,
                ack=want.ack,
                heard=True,
                **hook,
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, task, refusal) from None

    async def settle(self, who: Identity, verb: str, task: str, what: SettleRequest) -> SettleAnswer:
        """ack, release, seen or unseen: each is one script of that name."""
        may_act_for(who, task)
        return await self._settle(who, verb, task, what.session, what.receipt, json.dumps(what.message_ids or []))

    async def _settle(
        self, who: Identity, verb: str, task: str, session: str, receipt: str | None, ids: str
    ) -> SettleAnswer:
        try:
            done, lost, *delivered = await self.store.run(
                verb,
                who.namespace,
                now_ms=self.clock.for_scripts,
                task_id=task,
                session=session,
                receipt=receipt,
                ids=ids,
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, task, refusal) from None
        if delivered and delivered[0]:
            self._tally(who.namespace, 0, *delivered)
        return SettleAnswer([found.decode() for found in done], [found.decode() for found in lost])

    async def ack(self, who: Identity, task: str, what: SettleRequest) -> SettleAnswer:
        return await self.settle(who, "ack", task, what)

    async def ack_all(self, who: Identity, task: str, receipt: str) -> SettleAnswer:
        """Ack whatever was handed over under a receipt."""
        may_act_for(who, task)
        return await self._settle(who, "ack", task, SESSION_DEFAULT, receipt, "[]")

    async def release(self, who: Identity, task: str, what: SettleRequest) -> SettleAnswer:
        return await self.settle(who, "release", task, what)

    async def seen(self, who: Identity, task: str, what: SettleRequest) -> SettleAnswer:
        return await self.settle(who, "seen", task, what)

    async def unseen(self, who: Identity, task: str, what: SettleRequest) -> SettleAnswer:
        return await self.settle(who, "unseen", task, what)

    async def pending(self, who: Identity, task: str, wait_ms: int = 0) -> PendingAnswer:
        """How much mail waits: one read of a few counters, whatever is stored. With `wait_ms`, waits until there is some."""
        if not wait_ms:
            return await self._pending_once(who.namespace, task)
        async with self.waiting.for_mail(who.namespace, task, self._bounded(wait_ms)) as mail:
            while True:
                found = await self._pending_once(who.namespace, task)
                if found.pending or not await mail.comes():
                    return found

    async def _pending_once(self, namespace: str, task: str) -> PendingAnswer:
        created, urgent, high, normal, low, held, due_ms = await self.store.counters(namespace, task)
        if created is None:
            raise await self._bounced(namespace, task, TaskUnknown(f"No task {task} was declared."))
        if due_ms is not None and int(due_ms) <= self.clock.now_ms():
            # A deadline has passed that no sweep has seen yet: the count must not wait for it.
            await self.sweep_task(namespace, task)
            _, urgent, high, normal, low, held, _ = await self.store.counters(namespace, task)
        return PendingAnswer(int(urgent or 0), int(high or 0), int(normal or 0), int(low or 0), int(held or 0))

    async def sweep_task(self, namespace: str, task: str) -> None:
        """Act on the deadlines of one task that have passed."""
        while await self.store.run("sweep", namespace, now_ms=self.clock.for_scripts, task_id=task, limit=1_000):
            pass

    def _bounded(self, wait_ms: int) -> int:
        return min(wait_ms, self.settings.wait_ms_max)
