"""Attaching: a worktree becomes a task's place. The task is declared, its peers are linked, and the worktree gets a token of its own.

What has to stand in the worktree's files is said by hosts/; nothing here knows a file.
"""

from __future__ import annotations

import json

from inboxd.broker.permission import may_act_for, may_attach
from inboxd.broker.tokens import Tokens
from inboxd.errors import TaskReserved
from inboxd.model import USER, Attached, AttachRequest, Identity, NewTask, NewToken


class Attaching(Tokens):
    async def attach(self, who: Identity, new: AttachRequest) -> Attached:
        if new.task == USER:
            raise TaskReserved(
                "`user` is the person's own inbox: no worktree can be attached to it.",
                hint="Give the task a name of its own.",
            )
        if who.role == "agent":
            # It attaches itself with what it has: it makes no tokens, not even for its own task.
            may_act_for(who, new.task)
        else:
            may_attach(who)
        task, created = await self.declare(who, NewTask(task=new.task, title=new.title, peers=new.peers))
        keeps = who.role == "agent" or await self._is_good(who.namespace, new.token_id, new.task)
        token = None
        if not keeps:
            token = await self._make_token(who.namespace, NewToken(role="agent", task=new.task, label=new.label))
        return Attached(task=task, created=created, token=token)

    async def _is_good(self, namespace: str, token_id: str | None, task: str) -> bool:
        """Whether this is a token of that task's agent that still opens something."""
        record = await self.store.token(namespace, token_id) if token_id else None
        if record is None:
            return False
        found = json.loads(record)
        over = found["expires_at_ms"] is not None and found["expires_at_ms"] <= self.clock.now_ms()
        return (found["role"], found["task"]) == ("agent", task) and not over
