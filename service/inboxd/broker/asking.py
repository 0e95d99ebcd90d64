"""Asking: what an agent asks for by itself, instead of being told at a boundary: its mail, an answer; and how it answers.

Mail that is asked for is shown as a hook would show it, and what found no room goes back uncounted. A call that is made again
because its answer was lost gets what the first one got.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from pydantic_core import from_json

from inboxd.broker.delivery import BatchAnswer
from inboxd.broker.history import Filters
from inboxd.broker.hooking import FRAME_CHARS, MAIL_CHARS, Hooking
from inboxd.broker.naming import mint_id
from inboxd.broker.permission import may_act_for, sender_of
from inboxd.broker.threads import Reply, SaidInThread
from inboxd.errors import InvalidRequest, PullIdReused, ReceiptLost
from inboxd.hosts import framing
from inboxd.model import (
    Identity,
    NewMessage,
    PullRequest,
    ReplyRequest,
    SettleRequest,
    StoredMessage,
    WaitReplyRequest,
)

CHECKED_MAX: Final = 20
"""Messages in one answer."""
CHECKED_CHARS: Final = 16_000
"""UTF-16 units of one answer's text."""
REPEAT_MS: Final = 5 * 60_000
"""How long a call may be made again. What names calls is the host's: one that gives the same name to another call later, after a
restart or because it counts from one, must not be told what an earlier call was told."""
CALLED_OFF_MS: Final = 2 * 60_000
"""How long it is remembered that a call is no longer wanted: longer than any call waits."""
LOOKED_AT: Final = 50
"""Rows of a timeline read at once, looking for an answer."""
# With `ack`, so that a repeat finds what was delivered; the script itself delivers nothing.
_CHECK: Final = PullRequest(max=CHECKED_MAX, max_chars=CHECKED_CHARS - FRAME_CHARS, ack=True)
_AS_SHOWN: Final = {"overhead_chars": MAIL_CHARS, "fresh_only": ""}


class Checked(NamedTuple):
    """Mail that was handed over."""

    messages: list[StoredMessage]
    text: str
    """All of them, framed."""
    pending: int
    """What still waits."""
    again: bool = False
    """These were handed over before: the call was made again."""


class Sent(NamedTuple):
    message: StoredMessage
    duplicate: bool
    thread_id: str | None = None


class Answer(NamedTuple):
    """What was said to a question."""

    message: StoredMessage | None
    receipt: str | None = None
    """Ack it once it was handed on; none: it had been taken before."""


class Asking(Hooking):
    async def check(self, who: Identity, task: str, *, session: str, call_id: str | None = None) -> Checked:
        """The mail that waits, most urgent first, delivered by this. The same `call_id`, soon: the same mail."""
        may_act_for(who, task)
        batch = await self._take_batch(who, task, session, call_id)
        delivered = [message for message in batch.messages if message.delivered_at_ms is not None]
        if delivered and self._long_ago(delivered[0].delivered_at_ms):
            batch, delivered = await self._take_batch(who, task, session, None), []
        if not batch.messages:
            return Checked([], "", batch.pending)
        text, shown = await self._shown(who, task, batch.messages, batch.pending)
        left = [message_id_of(message) for message in batch.messages[shown:]]
        if left:
            # They were shown to nobody: back to their place, and the hand-over does not count.
            await self.store.run(
                "release",
                who.namespace,
                now_ms=self.clock.for_scripts,
                task_id=task,
                session=session,
                receipt=batch.pull_id,
                ids=json.dumps(left),
                uncounted=True,
            )
        messages = batch.messages[:shown]
        if not left and not delivered:
            await self.ack_all(who, task, batch.pull_id)
        elif fresh := [message_id_of(message) for message in messages if message.delivered_at_ms is None]:
            await self.ack(who, task, SettleRequest(receipt=batch.pull_id, message_ids=fresh))
        return Checked(messages, text, batch.pending + len(left), again=bool(delivered))

    async def check_again(self, who: Identity, task: str, *, session: str) -> Checked:
        """The last batch this session was handed, once more: its answer never came."""
        rows, _ = await self.timeline(
            who, task, limit=self.settings.page_max, only=Filters(state="delivered", direction="in")
        )
        own = [row for row in rows if row.delivered_to == session.encode()]
        last = max((int(row.delivered_at_ms or 0) for row in own), default=0)
        # Newest first in a timeline; a batch is shown in the order of its sending.
        batch = [row for row in reversed(own) if int(row.delivered_at_ms or 0) == last]
        counts = await self.pending(who, task)
        text, shown = await self._shown(who, task, batch, counts.pending)
        return Checked(batch[:shown], text, counts.pending, again=bool(batch))

    async def answer(self, who: Identity, about: str, said: ReplyRequest) -> Sent:
        """Say something about a message or a thread: in the thread it stands in, or to whoever sent it."""
        if await self.store.has_thread(who.namespace, about):
            return _sent(await self.reply(who, about, said))
        row, _ = await self.show(who, about)
        doc = from_json(row.doc)
        if doc["thread_id"] and await self.store.has_thread(who.namespace, doc["thread_id"]):
            answering = said.model_copy(update={"reply_to": said.reply_to or about})
            return _sent(await self.reply(who, doc["thread_id"], answering))
        own, _ = sender_of(who, said.sender)
        to = doc["task"] if doc["sender"] == own else framing.whose(doc["sender"]).address
        if to is None:
            raise InvalidRequest(
                f"{doc['sender']} has no inbox: nobody would read an answer.",
                hint="Tell a task, or the person, by name.",
            )
        return await self.say(
            who,
            to,
            NewMessage(
                message_id=said.message_id,
                body=said.body,
                summary=said.summary,
                payload=said.payload,
                artifacts=said.artifacts,
                kind=said.kind,
                priority=said.priority,
                reply_to=about,
                sender=said.sender,
            ),
        )

    async def say(self, who: Identity, task: str, new: NewMessage) -> Sent:
        """Send, where `message_id` is made of the host's name of the call: the same one soon is the same call, later it is another."""
        sent = await self.send(who, task, new)
        if sent.duplicate and self._long_ago(sent.message.created_at_ms):
            sent = await self.send(who, task, new.model_copy(update={"message_id": mint_id()}))
        return Sent(sent.message, sent.duplicate, new.thread_id)

    async def wait_for_reply(
        self, who: Identity, task: str, message_id: str, *, wait_ms: int, session: str, hold_ms: int | None = None
    ) -> Answer:
        """The answer to a message of this task's; with `wait_ms`, waits for it. Taken out of the inbox, to be acked by its receipt."""
        may_act_for(who, task)
        row, _ = await self.show(who, message_id)
        doc = from_json(row.doc)
        want = WaitReplyRequest(agent=task, wait_ms=wait_ms, session=session, ack=False, hold_ms=hold_ms)
        if doc["thread_id"] and await self.store.has_thread(who.namespace, doc["thread_id"]):
            asked = want.model_copy(update={"after_message": message_id})
            found: Reply = await self.wait_reply(who, doc["thread_id"], asked)
            return Answer(found.message, found.receipt)
        # What comes before the question cannot answer it, and what was looked at need not be looked at again.
        behind = int(row.n)
        async with self.waiting.for_mail(who.namespace, task, self._bounded(wait_ms)) as mail:
            while True:
                answers, behind = await self._answers(who, task, message_id, behind)
                for answer in answers:
                    if answer.state == b"queued":
                        return Answer(answer, await self._take(who, task, want, answer))
                if answers:
                    return Answer(answers[-1])
                if not wait_ms or not await mail.comes():
                    return Answer(None)

    async def call_off(self, who: Identity, call_hash: str) -> None:
        """A call that waits, here or at another replica, is no longer wanted: what it finds must not be handed to nobody."""
        await self.store.put_once(who.namespace, "called_off", "1", CALLED_OFF_MS, call_hash=call_hash)

    async def hand_on(
        self, who: Identity, task: str, session: str, message_id: str, receipt: str | None, call_hash: str | None
    ) -> bool:
        """Deliver what a call has waited for, unless it was called off meanwhile: then it goes back. Whether it was delivered."""
        if receipt is None:
            return True
        if call_hash is not None and await self.store.take_once(who.namespace, "called_off", call_hash=call_hash):
            await self.release(who, task, SettleRequest(receipt=receipt))
            return False
        try:
            await self.ack_all(who, task, receipt)
        except ReceiptLost:
            # Another call of this session waited too, mostly this one made again: what it tells is told here as well.
            now, _ = await self.show(who, message_id)
            if session.encode() not in (now.holder, now.delivered_to):
                raise
        return True

    async def _answers(self, who: Identity, task: str, message_id: str, behind: int) -> tuple[list[StoredMessage], int]:
        """What came to a task in answer to a message, oldest first, and the newest number looked at."""
        found: list[StoredMessage] = []
        newest, cursor = behind, None
        while True:
            rows, cursor = await self.timeline(who, task, limit=LOOKED_AT, cursor=cursor, only=Filters(direction="in"))
            for row in rows:
                if int(row.n) <= behind:
                    return found[::-1], newest
                newest = max(newest, int(row.n))
                if from_json(row.doc)["reply_to"] == message_id:
                    found.append(row)
            if cursor is None:
                return found[::-1], newest

    async def _take_batch(self, who: Identity, task: str, session: str, call_id: str | None) -> BatchAnswer:
        pull_id = call_id or mint_id()
        try:
            pending, left, rows, _ = await self._run_pull(who, task, session, _CHECK, pull_id, _AS_SHOWN)
        except PullIdReused:
            return await self._take_batch(who, task, session, None)
        return BatchAnswer(pull_id, pull_id, [StoredMessage(*row) for row in rows], pending, left)

    async def _shown(self, who: Identity, task: str, messages: list[StoredMessage], pending: int) -> tuple[str, int]:
        """The messages as a model reads them, and how many of them that are."""
        framed = framing.frame(
            await self._mails(who.namespace, messages),
            task=task,
            now_ms=self.clock.now_ms(),
            limit=CHECKED_CHARS,
            more=pending,
            verbs=framing.TOOLS,
        )
        return framed.text, len(framed.shown_ids)

    def _long_ago(self, at_ms: bytes | None) -> bool:
        return int(at_ms or 0) < self.clock.now_ms() - REPEAT_MS


def message_id_of(message: StoredMessage) -> str:
    return str(from_json(message.doc)["message_id"])


def _sent(said: SaidInThread) -> Sent:
    return Sent(said.message, said.duplicate, said.thread.thread_id)
