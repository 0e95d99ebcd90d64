"""An agent at work: the verbs of threads in few words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from inboxd.broker import Broker
from inboxd.broker.threads import Reply, SaidInThread, Watched
from inboxd.model import (
    CancelRequest,
    ClaimRequest,
    FinishRequest,
    Identity,
    MarkReadRequest,
    NewThread,
    RenewRequest,
    ReplyRequest,
    Thread,
    UpdateRequest,
    WaitReplyRequest,
    WatchRequest,
)
from tests.support.mail import Mail, shown

LEASE_MS = 60_000


@dataclass
class Worker:
    """One agent at one broker, with the fencing token of its last claim."""

    broker: Broker
    who: Identity
    token: int = 0

    @property
    def name(self) -> str:
        assert self.who.task is not None
        return self.who.task

    async def open(self, message_id: str = "t-1", to: str | None = "backend", **fields: Any) -> SaidInThread:
        given = {"subject": "Log-in fails", "body": "See #17."} | fields
        return await self.broker.open_thread(self.who, NewThread(message_id=message_id, to=to, **given))

    async def claim(self, thread: str = "t-1", claim_id: str | None = None, lease_ms: int = LEASE_MS) -> Thread:
        found = await self.broker.claim(self.who, thread, ClaimRequest(claim_id=claim_id, lease_ms=lease_ms))
        assert found.lease is not None
        assert found.lease.fencing_token is not None
        self.token = found.lease.fencing_token
        return found

    async def renew(self, thread: str = "t-1", lease_ms: int = LEASE_MS, renew_id: str | None = None) -> Thread:
        want = RenewRequest(fencing_token=self.token, lease_ms=lease_ms, renew_id=renew_id)
        return await self.broker.renew(self.who, thread, want)

    async def update(self, thread: str = "t-1", status: str = "in_progress", **fields: Any) -> SaidInThread:
        said = UpdateRequest.model_validate({"status": status, "fencing_token": self.token, **fields})
        return await self.broker.update(self.who, thread, said)

    async def ask(self, question: str, thread: str = "t-1", **fields: Any) -> SaidInThread:
        return await self.update(thread, "blocked", body=question, **fields)

    async def done(self, thread: str = "t-1", summary: str = "Fixed.", **fields: Any) -> SaidInThread:
        said = FinishRequest(fencing_token=self.token, summary=summary, **fields)
        return await self.broker.done(self.who, thread, said)

    async def fail(self, thread: str = "t-1", summary: str = "No way.", **fields: Any) -> SaidInThread:
        said = FinishRequest(fencing_token=self.token, summary=summary, **fields)
        return await self.broker.fail(self.who, thread, said)

    async def reply(self, body: str, thread: str = "t-1", *, with_token: bool = False, **fields: Any) -> SaidInThread:
        said = ReplyRequest(body=body, fencing_token=self.token if with_token else None, **fields)
        return await self.broker.reply(self.who, thread, said)

    async def cancel(self, thread: str = "t-1", reason: str = "Not needed.", **fields: Any) -> SaidInThread:
        return await self.broker.cancel(self.who, thread, CancelRequest(reason=reason, **fields))

    async def wait_reply(self, thread: str = "t-1", **fields: Any) -> Reply:
        return await self.broker.wait_reply(self.who, thread, WaitReplyRequest(**fields))

    async def show(self, thread: str = "t-1") -> tuple[Thread, list[dict[str, Any]]]:
        found = await self.broker.show_thread(self.who, thread, limit=100)
        return found.thread, [shown(message) for message in found.messages]

    async def fetched(self, *statuses: str, unread: bool = False) -> list[str]:
        found = await self.broker.fetch(
            self.who,
            agent=None,
            statuses=list(statuses),
            limit=100,
            unread=unread,  # type: ignore[arg-type]
        )
        return [thread.thread_id for thread in found.threads]

    async def mail(self) -> list[dict[str, Any]]:
        """What waits in its inbox, taken and delivered."""
        mine = Mail(self.broker, self.who)
        return [shown(message) for message in (await mine.pull(task=self.name, ack=True)).messages]

    async def mark_read(self, thread: str = "t-1", up_to: int | None = None) -> Thread:
        return await self.broker.mark_read(self.who, thread, MarkReadRequest(up_to=up_to))

    async def watch(self, **fields: Any) -> Watched:
        return await self.broker.watch(self.who, WatchRequest(**fields))

    async def listed(self, **fields: Any) -> list[str]:
        found = await self.broker.list_threads(self.who, limit=100, **fields)
        return [thread.thread_id for thread in found.threads]

    async def status(self, thread: str = "t-1") -> str:
        return (await self.show(thread))[0].status
