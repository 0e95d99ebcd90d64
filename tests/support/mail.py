"""The broker in few words: a test about delivery should not spell out requests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from inboxd.broker import Broker
from inboxd.broker.delivery import BatchAnswer, PendingAnswer, SettleAnswer
from inboxd.broker.sending import SendAnswer
from inboxd.model import (  # fmt: skip
    Identity,
    NewMessage,
    NewTask,
    PresenceRequest,
    Present,
    PullRequest,
    SettleRequest,
    StoredMessage,
    Task,
)


def shown(message: StoredMessage) -> dict[str, Any]:
    """As it goes over the wire."""
    found: dict[str, Any] = json.loads(message.as_json())
    return found


def ids(messages: Iterable[StoredMessage] | BatchAnswer) -> list[str]:
    if isinstance(messages, BatchAnswer):
        messages = messages.messages
    return [shown(message)["message_id"] for message in messages]


@dataclass
class Mail:
    """One caller at one broker. The task is `backend` unless said otherwise."""

    broker: Broker
    who: Identity

    async def declare(self, *tasks: str) -> None:
        for task in tasks:
            await self.broker.declare(self.who, NewTask(task=task))

    async def send(self, message_id: str, *, task: str = "backend", **fields: Any) -> SendAnswer:
        new = NewMessage(message_id=message_id, **({"body": message_id} | fields))
        return await self.broker.send(self.who, task, new)

    async def send_all(self, *message_ids: str, **fields: Any) -> None:
        for message_id in message_ids:
            await self.send(message_id, **fields)

    async def pull(self, session: str = "s-1", *, task: str = "backend", **fields: Any) -> BatchAnswer:
        return await self.broker.pull(self.who, task, PullRequest(session=session, **fields))

    async def pulled(self, session: str = "s-1", **fields: Any) -> list[str]:
        return ids(await self.pull(session, **fields))

    async def settle(self, verb: str, what: BatchAnswer | str, session: str = "s-1", task: str = "backend") -> Any:
        """By the batch's receipt, or by a message's id."""
        if isinstance(what, BatchAnswer):
            request = SettleRequest(receipt=what.pull_id)
        else:
            request = SettleRequest(message_ids=[what], session=session)
        answer: SettleAnswer = await getattr(self.broker, verb)(self.who, task, request)
        return answer

    async def pending(self, task: str = "backend") -> PendingAnswer:
        return await self.broker.pending(self.who, task)

    async def show(self, message_id: str) -> dict[str, Any]:
        message, _steps = await self.broker.show(self.who, message_id)
        return shown(message)

    async def state_of(self, message_id: str) -> str:
        return str((await self.show(message_id))["state"])

    async def task(self, task: str = "backend") -> Task:
        return await self.broker.show_task(self.who, task)

    async def presence(self, state: str, session: str = "s-1", task: str = "backend", **fields: Any) -> Present:
        said = PresenceRequest.model_validate({"state": state, "session": session, **fields})
        return await self.broker.presence(self.who, task, said)
