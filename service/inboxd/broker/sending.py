"""Sending: one message stored once, however often it is tried. To a task, to peers, to many."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NamedTuple

from pydantic_core import to_json

from inboxd.broker.naming import mint_id, nearest
from inboxd.broker.permission import can_be_answered, may_act_for, sender_of
from inboxd.broker.room import Room
from inboxd.errors import (
    BodyTooLarge,
    BroadcastTooWide,
    HopsExceeded,
    InvalidRequest,
    NoPeer,
    TaskUnknown,
)
from inboxd.model import (
    USER,
    Content,
    Identity,
    NewBroadcast,
    NewMessage,
    NewPeerMessage,
    StoredMessage,
    json_size,
)

READ_AT_ONCE = 200
"""Tasks read in one script call, so that a broadcast to all never blocks the store for long."""
OR_CREATE = "Declare it first, or send with `create`."
"""The hint of an unknown recipient with no near name, where the sender may have it declared."""


class SendAnswer(NamedTuple):
    message: StoredMessage
    duplicate: bool
    pending: int
    recipient_state: str
    superseded: list[str]


class Sending(Room):
    async def send(self, who: Identity, task: str, new: NewMessage) -> SendAnswer:
        sender, sender_task = sender_of(who, new.sender)
        tail = self._checked_tail(new, sender, sender_task, new.supersedes)
        message_id = new.message_id or mint_id()
        doc = b'{"message_id":"%b","task":"%b",%b' % (message_id.encode(), task.encode(), tail)
        try:
            duplicate, pending, state, heard, superseded, *rest = await self.store.run(
                "send",
                who.namespace,
                task_id=task,
                message_id=message_id,
                sender=sender,
                sender_task=sender_task,
                doc=doc,
                hash=content_hash(task.encode(), tail),
                supersedes=new.supersedes,
                create=new.create,
                **self._shared_arguments(new),
            )
        except TaskUnknown as refusal:
            raise await self._bounced(who.namespace, task, refusal, otherwise=OR_CREATE) from None
        except HopsExceeded as refusal:
            raise HopsExceeded(refusal.message, hint="Ask the person, or start afresh without reply_to.") from None
        if duplicate:
            message = StoredMessage(*rest[0])
        else:
            self._tally(who.namespace, 1)
            n, hops, created_at_ms, expires_at_ms = rest
            message = StoredMessage(
                doc,
                n,
                b"queued",
                b"%d" % hops,
                b"0",
                created_at_ms,
                expires_at_ms or None,
                None,
                None,
                None,
                None,
                None,
            )
        return SendAnswer(
            message,
            bool(duplicate),
            pending,
            self.settle_state(state, heard),
            [found.decode() for found in superseded],
        )

    async def broadcast(self, who: Identity, new: NewBroadcast) -> tuple[bool, list[SendAnswer]]:
        sender, sender_task = sender_of(who, new.sender)
        if new.to == "all":
            targets = await self._everyone(who.namespace, but=sender_task)
        else:
            targets = list(dict.fromkeys(new.to))
        message_id = new.message_id or mint_id()
        aim = "all" if new.to == "all" else ",".join(targets)
        return await self._cast(who, message_id, new, sender, sender_task, targets, aim, create=new.create)

    async def send_to_peers(self, who: Identity, task: str, new: NewPeerMessage) -> tuple[bool, list[SendAnswer]]:
        """In the task's own name, to one peer or to all of them; a peer that has not started yet gets it when it does."""
        may_act_for(who, task)
        peers = await self.store.peers(who.namespace, task)
        if new.to is not None and new.to not in peers:
            hint = f"Its peers: {', '.join(peers)}." if peers else "Link the two first."
            refusal = NoPeer(f"{new.to} is not a peer of {task}.", hint=hint)
            refusal.hint_names = bool(peers)
            raise refusal
        targets = peers if new.to is None else [new.to]
        if not targets:
            await self._known(who.namespace, task)
            raise NoPeer(f"{task} has no peer.", hint="Link one first.")
        sender = USER if task == USER else f"task:{task}"
        return await self._cast(
            who,
            new.message_id or mint_id(),
            new,
            sender,
            task,
            targets,
            f"peers {task} {new.to}",
            create=True,
        )

    async def _cast(
        self,
        who: Identity,
        message_id: str,
        new: Content,
        sender: str,
        sender_task: str,
        targets: list[str],
        aim: str,
        *,
        create: bool,
    ) -> tuple[bool, list[SendAnswer]]:
        if len(targets) > self.settings.broadcast_max:
            raise BroadcastTooWide(
                f"{len(targets)} tasks are more than one broadcast reaches ({self.settings.broadcast_max})."
            )
        tail = self._checked_tail(new, sender, sender_task, None)
        ids = [message_id] if len(targets) == 1 else [f"{message_id}:{target}" for target in targets]
        copies = [{"task_id": task, "message_id": one} for task, one in zip(targets, ids, strict=True)]
        try:
            duplicate, rows = await self.store.run(
                "broadcast",
                who.namespace,
                message_id=message_id,
                copies=json.dumps(copies),
                tail=tail,
                sender=sender,
                sender_task=sender_task,
                hash=content_hash(aim.encode(), tail),
                create=create,
                **self._shared_arguments(new),
            )
        except TaskUnknown as refusal:
            unknown = refusal.message.removeprefix("No task ").removesuffix(" was declared.")
            raise await self._bounced(who.namespace, unknown, refusal, otherwise=OR_CREATE) from None
        answers = [
            SendAnswer(StoredMessage(*row), bool(duplicate), pending, self.settle_state(state, heard), [])
            for pending, state, heard, row in rows
            if row[0] is not None
        ]
        if not duplicate:
            self._tally(who.namespace, len(answers))
        return bool(duplicate), answers

    def _checked_tail(
        self, new: Content, sender: str, sender_task: str, supersedes: str | None, *, in_thread: bool = False
    ) -> bytes:
        """The content as JSON, without its id and task, which stand before it; in a thread `reply_to` does too."""
        can_be_answered(new.awaiting_response, sender_task)
        limit = self.settings.body_bytes_max
        # A character takes four bytes at most: most bodies need not be encoded to be measured.
        if len(new.body) * 4 > limit and len(new.body.encode()) > limit:
            raise BodyTooLarge(f"The body is larger than {limit} bytes.")
        if new.payload is not None:
            try:
                size = json_size(new.payload)
            except ValueError as refusal:
                raise InvalidRequest(f"payload: {refusal}.") from None
            if size > self.settings.payload_bytes_max:
                raise BodyTooLarge(f"The payload is larger than {self.settings.payload_bytes_max} bytes of JSON.")
        return to_json(
            {
                "sender": sender,
                "kind": new.kind,
                "subject": new.subject,
                "summary": new.summary,
                "body": new.body,
                "payload": new.payload,
                "priority": new.priority,
                "thread_id": new.thread_id,
                **({} if in_thread else {"reply_to": new.reply_to}),
                "awaiting_response": new.awaiting_response,
                "topic": new.topic,
                "ttl_ms": new.ttl_ms,
                "supersedes": supersedes,
                "artifacts": new.artifacts,
            }
        )[1:]

    def _shared_arguments(self, new: Content) -> dict[str, Any]:
        """What send and broadcast pass on alike."""
        return {
            "now_ms": self.clock.for_scripts,
            "priority": new.priority,
            "kind": new.kind,
            "chars": new.chars,
            "topic": new.topic,
            "ttl_ms": new.ttl_ms,
            "reply_to": new.reply_to,
            "awaiting": new.awaiting_response,
            "thread_id": new.thread_id,
            "hops": new.hops,
        }

    def settle_state(self, state: bytes | None, last_heard_ms: bytes | None) -> str:
        """A task's state without its waits: silence may have made it idle since it was last written."""
        if state == b"active" and last_heard_ms is not None:
            silent_ms = self.clock.now_ms() - int(last_heard_ms)
            return "active" if silent_ms < self.settings.idle_after_ms else "idle"
        return (state or b"queued").decode()

    async def _everyone(self, namespace: str, *, but: str) -> list[str]:
        """Every task that is not over. Ends early with one more than a broadcast may reach: enough to refuse it."""
        found: list[str] = []
        names = await self.store.task_ids(namespace, 1_000_000)
        for start in range(0, len(names), READ_AT_ONCE):
            chunk = names[start : start + READ_AT_ONCE]
            rows = await self.store.run("read_tasks", namespace, names=json.dumps(chunk))
            found += [
                name
                for name, row in zip(chunk, rows, strict=True)
                if row and name not in (USER, but) and b"terminated_at_ms" not in row[0][::2]
            ]
            if len(found) > self.settings.broadcast_max:
                break
        return found

    async def _known(self, namespace: str, task: str) -> None:
        if (await self.store.counters(namespace, task))[0] is None:
            raise await self._bounced(namespace, task, TaskUnknown(f"No task {task} was declared."))

    async def _bounced(
        self, namespace: str, task: str, refusal: TaskUnknown, *, otherwise: str = "Declare it first."
    ) -> TaskUnknown:
        near = nearest(task, await self.store.task_ids(namespace, 5_000))
        bounced = TaskUnknown(refusal.message, hint=f"Did you mean {', '.join(near)}?" if near else otherwise)
        bounced.hint_names = bool(near)
        return bounced


def content_hash(aim: bytes, tail: bytes) -> str:
    return hashlib.sha256(aim + b"\n" + tail).hexdigest()
