"""Hooking: a host's hook ran; a session passed a boundary. Take what this boundary may take and say it in the host's own words.

Behind it stands one pull. What the transcript proved of earlier hand-overs is settled first; what is in doubt is kept from coming
twice. What was taken and found no room in the frame goes back uncounted, for nobody saw it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic_core import from_json

from inboxd.broker.delivery import BatchAnswer
from inboxd.broker.history import Filters
from inboxd.broker.naming import mint_id
from inboxd.broker.permission import may_act_for
from inboxd.broker.tokens import Tokens
from inboxd.errors import InvalidRequest, ReceiptUnknown, TaskUnknown
from inboxd.hosts import Boundary, HookInput, Host, framing, read_input, recognise
from inboxd.hosts.framing import Framed, Mail
from inboxd.hosts.host import AnswerKind
from inboxd.hosts.quoting import one_line, units
from inboxd.model import (
    SESSION_DEFAULT,
    Artifact,
    HookExtras,
    Identity,
    NewMessage,
    NewProbe,
    NewTask,
    PresenceRequest,
    PullRequest,
    SettleRequest,
    StoredMessage,
    Verdict,
)

SESSION_MS = 86_400_000
"""How long a session's few facts are remembered."""
PROBE_MS = 60_000
HOOK_MESSAGES_MAX = 20
HELP_MESSAGES_MAX = 10
"""Calls for help, sent by a subagent and read by nobody, that its coordinator is told of when it ends."""
FRAME_CHARS = 700
"""What a frame costs before the first message."""
MAIL_CHARS = 420
"""What showing one message costs beside its text, about."""
PRINT_MS = 2_500
"""What a hook may take to print and ack: mail that is held no longer than that is not printed any more."""
DOCTOR = "doctor-"
_session_fits = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}\Z").match


class HookAnswer(NamedTuple):
    """What the hook prints, and what it owes: the receipt is acked once it has."""

    body: bytes
    task: str
    receipt: str | None = None
    message_ids: tuple[str, ...] = ()
    wakes: bool = False
    """Said on stderr with exit 2, which wakes an idle session."""
    print_within_ms: int | None = None
    """From the request on. A hook that was stopped for longer may be showing what another session was given since."""


class Moment(NamedTuple):
    """One hook call, as the rest of this room needs it."""

    who: Identity
    host: Host
    said: HookInput
    extras: HookExtras
    task: str
    session: str
    boundary: Boundary


class Hooking(Tokens):
    async def hook(
        self, who: Identity, named: str | None, given: Mapping[str, Any], extras: HookExtras, *, ack: bool = False
    ) -> HookAnswer | None:
        """What to say at this boundary, or nothing."""
        host = recognise(named, given)
        said = read_input(given)
        task = extras.task or who.task
        if task is None:
            raise InvalidRequest("No task is named.", hint="Set INBOX_TASK, or run `inbox attach`.")
        may_act_for(who, task)
        moment = Moment(who, host, said, extras, task, _session(said.session_id), host.boundary_of(said))
        if moment.session.startswith(DOCTOR):
            return await self._probed(moment)
        try:
            return await self._at(moment, ack=ack)
        except TaskUnknown:
            if who.role not in ("operator", "admin"):
                raise
            # The machine's own token, and a task named in its environment: no set-up should be needed for that.
            await self.declare(who, NewTask(task=task))
            return await self._at(moment, ack=ack)

    async def probe(self, who: Identity, task: str, probe: NewProbe) -> None:
        """Leave a nonce for a made-up session: a check of the whole way that no real session can see."""
        may_act_for(who, task)
        await self._known(who.namespace, task)
        await self.store.put_once(who.namespace, "probe", probe.nonce, PROBE_MS, task_id=task, session=probe.session)

    async def _at(self, moment: Moment, *, ack: bool) -> HookAnswer | None:
        await self._settle_verdicts(moment)
        boundary, said, extras = moment.boundary, moment.said, moment.extras
        hold = moment.host.hold_of(said)
        if hold is not None:
            await self._run_session("subagent", moment, inside=hold == "begins", ttl_ms=SESSION_MS)
        match boundary:
            case Boundary.START:
                return await self._start(moment, ack=ack)
            case Boundary.END:
                await self._sign(moment, "end")
                return None
            case Boundary.WAITS_FOR_PERSON:
                await self._sign(moment, "waiting")
                return None
            case Boundary.SUBAGENT_START:
                return self._answer(moment, framing.subagent_introduction())
            case Boundary.SUBAGENT_END:
                await self._help(moment)
                return None
            case Boundary.NONE:
                await self._sign(moment, "heartbeat")
                return None
        if moment.host.has_silent_subagents and hold is None and await self._in_subagent(moment):
            return None
        if extras.mode == "remind":
            return await self._remind(moment)
        if boundary is Boundary.TURN_END and not await self._may_continue(moment):
            return None
        return await self._hand_over(moment, ack=ack)

    async def _hand_over(self, moment: Moment, *, ack: bool, lead: str = "") -> HookAnswer | None:
        """Pull, frame, give back what found no room."""
        gate = moment.boundary is Boundary.BEFORE_TOOL
        kind = moment.host.kind_of(moment.boundary)
        wakes = moment.extras.mode == "wake"
        if kind is None and not wakes:
            return None
        limit = moment.host.chars_max(kind or "context") - (units(lead) + 2 if lead else 0)
        batch = await self._pull_for_hook(moment, limit, gate=gate)
        if not batch.messages:
            return self._answer(moment, lead) if lead else None
        mails = await self._mails(moment.who.namespace, batch.messages)
        framed = (framing.gate if gate else framing.frame)(
            mails,
            task=moment.task,
            now_ms=self.clock.now_ms(),
            limit=limit,
            more=batch.pending,
            limit_bytes=moment.host.bytes_max,
        )
        await self._give_back(moment, batch, framed)
        if not framed.shown_ids:
            return self._answer(moment, lead) if lead else None
        if moment.boundary is Boundary.TURN_END:
            await self._run_session("continue_turn", moment, again=moment.said.stop_hook_active, ttl_ms=SESSION_MS)
        text = f"{lead}\n\n{framed.text}" if lead else framed.text
        if wakes:
            body = text.encode()
        else:
            assert kind is not None
            body = moment.host.answer(moment.boundary, moment.said.event or "", text, kind=kind)
        receipt = batch.receipt
        if ack:
            await self.ack(moment.who, moment.task, SettleRequest(receipt=receipt, message_ids=list(framed.shown_ids)))
            receipt = None
        return HookAnswer(
            body, moment.task, receipt, framed.shown_ids, wakes, None if ack else batch.waited_ms + self._fresh_ms()
        )

    async def _pull_for_hook(self, moment: Moment, limit: int, *, gate: bool) -> BatchAnswer:
        linger_ms = (
            moment.extras.linger_ms if moment.boundary is Boundary.TURN_END or moment.extras.mode == "wake" else 0
        )
        want = PullRequest(
            pull_id=moment.extras.pull_id or mint_id(),
            session=moment.session,
            max=1 if gate else HOOK_MESSAGES_MAX,
            max_chars=max(1, limit - FRAME_CHARS),
            min_priority="urgent" if gate else "low",
            wait_ms=linger_ms,
            hold_ms=self.settings.hook_hold_ms,
        )
        return await self.pull(moment.who, moment.task, want, overhead_chars=MAIL_CHARS, fresh_only=gate)

    def _fresh_ms(self) -> int:
        hold_ms = self.settings.hook_hold_ms
        return hold_ms - min(PRINT_MS, hold_ms // 4)

    async def _mails(self, namespace: str, messages: list[StoredMessage]) -> list[Mail]:
        """As the frame needs them. Only a message that names a thread costs a look at whether there is one."""
        mails = [_mail(message) for message in messages]
        named = {mail.thread_id for mail in mails if mail.thread_id}
        if not named:
            return mails
        threads = {found for found in named if await self.store.has_thread(namespace, found)}
        return [mail._replace(in_thread=mail.thread_id in threads) for mail in mails]

    async def _give_back(self, moment: Moment, batch: BatchAnswer, framed: Framed) -> None:
        """What the frame had no room for was shown to nobody: it goes back to its place, and the hand-over does not count."""
        left = [_mail_id(message) for message in batch.messages[len(framed.shown_ids) :]]
        if left:
            await self.store.run(
                "release",
                moment.who.namespace,
                now_ms=self.clock.for_scripts,
                task_id=moment.task,
                session=moment.session,
                receipt=batch.receipt,
                ids=json.dumps(left),
                uncounted=True,
            )

    async def _start(self, moment: Moment, *, ack: bool) -> HookAnswer | None:
        """A session began: who it is here and who else is, then the mail that waits."""
        await self._sign(moment, "start")
        task = await self.show_task(moment.who, moment.task)
        lead = framing.introduction(task.task, task.title, task.peers, 0)
        if moment.extras.mode == "remind":
            reminder = framing.remind(task.pending, task.urgent)
            return self._answer(moment, f"{lead}\n\n{reminder}" if reminder else lead)
        return await self._hand_over(moment, ack=ack, lead=lead)

    async def _remind(self, moment: Moment) -> HookAnswer | None:
        """Only that mail waits. Never at the end of a turn twice: a reminder is no reason to go on for ever."""
        await self._sign(moment, "heartbeat")
        if moment.boundary is Boundary.BEFORE_TOOL or (
            moment.boundary is Boundary.TURN_END and moment.said.stop_hook_active
        ):
            return None
        counts = await self.pending(moment.who, moment.task)
        text = framing.remind(counts.pending, counts.urgent)
        return self._answer(moment, text) if text else None

    async def _may_continue(self, moment: Moment) -> bool:
        """Whether the turn may go on once more because of mail."""
        if not moment.said.stop_hook_active:
            return True
        done = await self.store.continuations(moment.who.namespace, moment.task, moment.session)
        return done < moment.host.continuations_max

    async def _help(self, moment: Moment) -> None:
        """What a subagent asks for becomes mail for the one that started it, once however often the hook runs."""
        named = f"A subagent ({moment.said.agent_type or 'unnamed'})"
        wanted = framing.help_request(moment.said.last_assistant_message)
        if wanted is not None:
            key = (moment.session, moment.said.agent_id or "", wanted)
            await self._tell_of_help(moment, key, f"{named} asks for help", wanted)
        # It sends in its parent's name, so the parent would hear of it only from an answer.
        only = Filters(state="queued,in_flight", kind="help_request", direction="out")
        asked, _ = await self.timeline(moment.who, moment.task, limit=HELP_MESSAGES_MAX, only=only)
        for doc in (from_json(message.doc) for message in reversed(asked)):
            if doc["task"] == moment.task:
                continue  # it comes by itself
            subject = (
                f"{named} ended, and {doc['task']} has not read this call for help in your name ({doc['message_id']})"
            )
            words = doc["body"] or doc["summary"] or doc["subject"] or ""
            await self._tell_of_help(moment, ("mail", doc["message_id"]), subject, words[: framing.HELP_MAX])

    async def _tell_of_help(self, moment: Moment, key: tuple[str, ...], subject: str, words: str) -> None:
        who = Identity(moment.who.namespace, "admin", None, "help", None)
        once = hashlib.sha256("\n".join(key).encode()).hexdigest()[:40]
        new = NewMessage(
            message_id=f"help-{once}",
            body=words,
            kind="help_request",
            priority="high",
            subject=subject[:300],
            sender="system",
        )
        await self.send(who, moment.task, new)

    async def _settle_verdicts(self, moment: Moment) -> None:
        """What the transcript proved. Named by receipt: a report that comes late says nothing of a later hand-over."""
        extras = moment.extras
        for verb, verdicts in (("seen", extras.seen), ("unseen", extras.unseen)):
            for verdict in verdicts:
                await self._settle_quietly(moment, verb, verdict)
        for receipt in extras.doubt:
            try:
                await self.store.run(
                    "hold",
                    moment.who.namespace,
                    now_ms=self.clock.for_scripts,
                    task_id=moment.task,
                    session=moment.session,
                    receipt=receipt,
                    ids="[]",
                    hold_ms=self.settings.hook_hold_ms,
                )
            except ReceiptUnknown:
                continue

    async def _settle_quietly(self, moment: Moment, verb: str, verdict: Verdict) -> None:
        try:
            await self.settle(
                moment.who,
                verb,
                moment.task,
                SettleRequest(receipt=verdict.receipt, message_ids=verdict.message_ids, session=moment.session),
            )
        except ReceiptUnknown:
            return  # so long ago that it is forgotten: what it named was settled long since

    async def _sign(self, moment: Moment, sign: str) -> None:
        detail = one_line(moment.said.message or "", 290)
        await self.presence(
            moment.who,
            moment.task,
            PresenceRequest.model_validate(
                {
                    "state": sign,
                    "session": moment.session,
                    "machine": one_line(moment.extras.machine, 200),
                    "host": moment.host.name,
                    "detail": detail,
                }
            ),
        )

    async def _probed(self, moment: Moment) -> HookAnswer | None:
        """`inbox doctor` calls: answered from its probe alone, so that it never touches anybody's mail."""
        nonce = await self.store.take_once(moment.who.namespace, "probe", task_id=moment.task, session=moment.session)
        kind = moment.host.kind_of(moment.boundary)
        if nonce is None or kind is None:
            return None
        mail = Mail(
            f"probe-{nonce.decode()}",
            "system",
            f"A check of the way to you: {nonce.decode()}",
            created_at_ms=self.clock.now_ms(),
        )
        framed = framing.frame([mail], task=moment.task, now_ms=self.clock.now_ms(), limit=moment.host.chars_max(kind))
        return self._answer(moment, framed.text)

    async def _in_subagent(self, moment: Moment) -> bool:
        return await self.store.in_subagent(moment.who.namespace, moment.task, moment.session)

    async def _run_session(self, script: str, moment: Moment, **given: Any) -> None:
        await self.store.run(script, moment.who.namespace, task_id=moment.task, session=moment.session, **given)

    def _answer(self, moment: Moment, text: str) -> HookAnswer | None:
        kind: AnswerKind | None = moment.host.kind_of(moment.boundary)
        if kind is None:
            return None
        return HookAnswer(moment.host.answer(moment.boundary, moment.said.event or "", text, kind=kind), moment.task)


def _session(given: str | None) -> str:
    """A host's session id as a reader's name; an odd one by its hash."""
    if not given:
        return SESSION_DEFAULT
    return given if _session_fits(given) else f"h-{hashlib.sha256(given.encode('utf-8', 'replace')).hexdigest()[:40]}"


def _mail(message: StoredMessage) -> Mail:
    doc = from_json(message.doc)
    return Mail(
        message_id=doc["message_id"],
        sender=doc["sender"],
        body=doc["body"],
        kind=doc["kind"],
        subject=doc["subject"],
        summary=doc["summary"],
        priority=doc["priority"],
        thread_id=doc["thread_id"],
        reply_to=doc["reply_to"],
        awaiting_response=doc["awaiting_response"],
        created_at_ms=int(message.created_at_ms),
        attempts=int(message.attempts),
        artifacts=[Artifact(**artifact) for artifact in doc["artifacts"]],
        payload=doc["payload"],
    )


def _mail_id(message: StoredMessage) -> str:
    return str(from_json(message.doc)["message_id"])
