"""Tasks: declare, list, show, change, remove, link; who is there and what needs a person."""

from __future__ import annotations

import json
from typing import Any, Final

from inboxd.broker.cursors import read_cursor, write_cursor
from inboxd.broker.delivery import Delivery
from inboxd.broker.permission import may_act_for, may_manage
from inboxd.errors import InvalidRequest, TaskReserved, TaskUnknown
from inboxd.model import (
    USER,
    Attention,
    AttentionItem,
    ByPriority,
    Identity,
    NewTask,
    PresenceRequest,
    Present,
    Removed,
    Task,
    TaskChange,
    TaskPage,
    Why,
)

TASKS_MAX = 10_000
"""As many tasks as a list looks at; the least recently active beyond are not shown."""
CHUNK = 200
"""Tasks read in one script call, so that a long list never blocks the store for long."""
REMOVED_AT_ONCE = 1_000


class Tasks(Delivery):
    async def declare(self, who: Identity, new: NewTask) -> tuple[Task, bool]:
        may_manage(who, own=new.task if not new.peers else None)
        _no_self_peer(new.task, new.peers)
        created = await self.store.run(
            "declare",
            who.namespace,
            now_ms=self.clock.for_scripts,
            task_id=new.task,
            title=new.title,
            wanted_peers=json.dumps(new.peers),
        )
        return await self.show_task(who, new.task), bool(created)

    async def change(self, who: Identity, task: str, change: TaskChange) -> Task:
        may_manage(who, own=task if change.peers is None else None)
        _no_self_peer(task, change.peers or [])
        try:
            await self.store.run(
                "change",
                who.namespace,
                now_ms=self.clock.for_scripts,
                task_id=task,
                set_title=change.title is not None,
                title=change.title,
                wanted_peers=None if change.peers is None else json.dumps(change.peers),
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, task, refusal) from None
        return await self.show_task(who, task)

    async def link(self, who: Identity, task: str, peers: list[str]) -> Task:
        """Make tasks know each other; one that is not declared yet becomes so, and collects mail."""
        may_manage(who)
        await self._known(who.namespace, task)
        shown, _ = await self.declare(who, NewTask(task=task, peers=peers))
        return shown

    async def remove(self, who: Identity, task: str, *, force: bool) -> Removed:
        may_manage(who)
        if task == USER:
            raise TaskReserved()
        dropped = 0
        gone = False
        while not gone:
            try:
                part, gone = await self.store.run(
                    "remove",
                    who.namespace,
                    now_ms=self.clock.for_scripts,
                    task_id=task,
                    force=force,
                    limit=REMOVED_AT_ONCE,
                )
            except TaskUnknown as refusal:
                raise await self._bounced(who.namespace, task, refusal) from None
            dropped += part
        return Removed(task=task, dropped=dropped)

    async def show_task(self, who: Identity, task: str) -> Task:
        found = await self._read(who.namespace, [task])
        if not found:
            raise await self._bounced(who.namespace, task, TaskUnknown(f"No task {task} was declared."))
        return found[0]

    async def list_tasks(
        self, who: Identity, *, limit: int, cursor: str | None = None, state: str | None = None
    ) -> TaskPage:
        """Most urgent first. A page goes on behind the last row of the one before, wherever that row stands by now."""
        tasks = await self._read(who.namespace, await self.store.task_ids(who.namespace, TASKS_MAX))
        rows = sorted((urgency(task), task) for task in tasks if state in (None, task.state))
        if cursor is not None:
            behind = tuple(read_cursor(cursor, "tasks", [int, int, int, int, str]))
            rows = [row for row in rows if row[0] > behind]
        limit = min(limit, self.settings.page_max)
        more = len(rows) > limit
        page = rows[:limit]
        return TaskPage(
            tasks=[task for _, task in page],
            next_cursor=write_cursor("tasks", list(page[-1][0])) if more else None,
        )

    async def presence(self, who: Identity, task: str, said: PresenceRequest) -> Present:
        may_act_for(who, task)
        if task == USER and said.state == "terminated":
            raise TaskReserved()
        try:
            _state, given_back = await self.store.run(
                "presence",
                who.namespace,
                now_ms=self.clock.for_scripts,
                task_id=task,
                session=said.session,
                sign=said.state,
                detail=said.detail or "waits for the person",
                machine=said.machine,
                host=said.host,
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, task, refusal) from None
        shown = await self.show_task(who, task)
        return Present(task=task, state=shown.state, given_back=given_back)

    async def attention(self, who: Identity) -> Attention:
        """What needs a person, most urgent first."""
        tasks = await self._read(who.namespace, await self.store.task_ids(who.namespace, TASKS_MAX))
        items = [item for task in tasks for item in _needs(task)]
        return Attention(items=sorted(items, key=lambda item: (LOUDEST.index(item.why), item.task)))

    async def _read(self, namespace: str, names: list[str]) -> list[Task]:
        found: list[Task] = []
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            rows = await self.store.run("read_tasks", namespace, names=json.dumps(chunk))
            found += [self._task(name, row) for name, row in zip(chunk, rows, strict=True) if row]
        return found

    def _task(self, name: str, row: list[Any]) -> Task:
        flat, peers, awaits = row
        fields = {field.decode(): value.decode() for field, value in zip(flat[::2], flat[1::2], strict=True)}

        def number(field: str) -> int:
            return int(fields.get(field) or 0)

        def time_ms(field: str) -> int | None:
            return int(fields[field]) if field in fields else None

        counts = ByPriority(
            urgent=number("queued:urgent"),
            high=number("queued:high"),
            normal=number("queued:normal"),
            low=number("queued:low"),
        )
        state = self.settle_state(
            fields.get("state", "queued").encode(), fields.get("last_heard_ms", "").encode() or None
        )
        waiting_for = sorted(found.decode() for found in awaits)
        if state != "terminated" and (waiting_for or "waits_for_person" in fields):
            state = "waiting"
        return Task(
            task=name,
            title=fields.get("title", ""),
            state=state,
            peers=sorted(peer.decode() for peer in peers),
            pending=counts.urgent + counts.high + counts.normal + counts.low,
            urgent=counts.urgent,
            by_priority=counts,
            held=number("held"),
            dead=number("dead"),
            waiting_for=waiting_for,
            waits_for_person=fields.get("waits_for_person"),
            session=fields.get("session"),
            machine=fields.get("machine"),
            host=fields.get("host"),
            created_at_ms=number("created_at_ms"),
            started_at_ms=time_ms("started_at_ms"),
            last_heard_ms=time_ms("last_heard_ms"),
            terminated_at_ms=time_ms("terminated_at_ms"),
        )


LOUDEST: Final[list[Why]] = [
    "waits_for_person",
    "blocked_thread",
    "urgent_unread",
    "dead_letters",
    "waiting_for_answer",
]


def _needs(task: Task) -> list[AttentionItem]:
    """What of this task needs a person."""
    needs: list[tuple[Why, int, str, int | None]] = [
        ("waits_for_person", int(task.waits_for_person is not None), task.waits_for_person or "", task.last_heard_ms),
        ("urgent_unread", task.urgent, "urgent mail not yet handed over", None),
        ("dead_letters", task.dead, "handed over too often without an ack", None),
        ("waiting_for_answer", len(task.waiting_for), ", ".join(task.waiting_for[:3]), None),
    ]
    return [
        AttentionItem(task=task.task, why=why, count=count, detail=detail, since_ms=since_ms)
        for why, count, detail, since_ms in needs
        if count
    ]


def urgency(task: Task) -> tuple[int, int, int, int, str]:
    """What sorts first: a question to the person, urgent mail, dead letters, somebody waiting, most mail, most recent; then the name."""
    over = task.state == "terminated"
    calls = [task.waits_for_person, task.urgent, task.dead, task.waiting_for, task.pending]
    loud = next((place for place, call in enumerate(calls) if call), len(calls))
    return (int(over), loud, -task.pending, -(task.last_heard_ms or task.created_at_ms), task.task)


def _no_self_peer(task: str, peers: list[str]) -> None:
    if task in peers:
        raise InvalidRequest(f"{task} cannot be its own peer.")
