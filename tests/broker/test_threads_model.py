"""The rules of threads, against whatever order of things hypothesis thinks of, on the real store.

`Job` is what is promised of one thread, in plain Python: who may own it, what each verb does to it, whose mail a word is. After
every step every thread must be what its `Job` says: its status, its lease, its lists, every message in its state. At the end all
mail that is owed is pulled, each message was delivered once, and what is over leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from inboxd.broker import Broker, owner
from inboxd.broker.threads import SaidInThread
from inboxd.errors import (
    InboxdError,
    LeaseConflict,
    LeaseLost,
    MessageIdReused,
    ThreadForbidden,
    ThreadState,
)
from inboxd.model import (
    STATUSES,
    CancelRequest,
    ClaimRequest,
    FinishRequest,
    Identity,
    MarkReadRequest,
    NewTask,
    NewThread,
    PullRequest,
    RenewRequest,
    ReplyRequest,
    SettleRequest,
    UpdateRequest,
    WaitReplyRequest,
)
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.store import Store
from tests.broker.test_model import Draw, Place, place  # noqa: F401 (a fixture)
from tests.conftest import FixedClock
from tests.support.leaks import keys_of, leaked
from tests.support.mail import shown

T = TypeVar("T")
AGENTS = ("leader", "w-1", "w-2")
OVER = ("done", "failed", "cancelled")
REPLIES = ("answer", "control", "result")
HOLD_MS = 5_000


@dataclass
class Word:
    """One message of a thread, as promised."""

    message_id: str
    kind: str
    by: str
    """A task, or `operator`."""
    to: str
    priority: str
    n: int = 0
    state: str = "queued"
    awaits: bool = False
    held_by: str = ""
    held_until_ms: int = 0
    receipt: str | None = None
    delivered: int = 0


@dataclass
class Job:
    """What is promised of one thread."""

    thread_id: str
    creator: str
    assigned: str
    status: str = "pending"
    holder: str = ""
    fence: int = 0
    until_ms: int = 0
    let_go: bool = False
    """Its lease was said to be over."""
    claims: list[tuple[str, str]] = field(default_factory=list)
    renewals: set[str] = field(default_factory=set)
    words: list[Word] = field(default_factory=list)
    question: Word | None = None
    asked: Word | None = None
    parties: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    read: dict[str, int] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        return self.status in OVER

    def live(self, now_ms: int) -> bool:
        return self.holder != "" and not self.over and not self.let_go and self.until_ms > now_ms

    @property
    def worker(self) -> str:
        return self.holder or self.assigned

    def lost(self, agent: str, token: int, now_ms: int) -> type[InboxdError] | None:
        """Why this agent may not write as the worker."""
        if self.over:
            return ThreadState
        return None if self.live(now_ms) and (self.holder, self.fence) == (agent, token) else LeaseLost

    def say(self, word: Word) -> None:
        if not word.to:
            word.state = "noted"
        else:
            self.parties.add(word.to)
        self.words.append(word)

    def end(self, status: str) -> None:
        self.status = status
        self.question = self.asked = None
        self.parties.discard("*")
        for word in self.words:
            word.awaits = False

    def ask(self, word: Word, *, of_worker: bool) -> None:
        """A question takes the place of the one before it."""
        before = self.question if of_worker else self.asked
        if before:
            before.awaits = False
        word.awaits = word.by != "operator"
        if of_worker:
            self.question = word
        else:
            self.asked = word

    def unread(self, agent: str) -> bool:
        return any(word.by != agent and word.n > self.read.get(agent, 0) for word in self.words)


@dataclass
class Write:
    """Something that was said, and may be said again."""

    job: Job
    again: Callable[[], Coroutine[Any, Any, SaidInThread]]


STEPS = st.sampled_from(
    ["open"] * 3 + ["claim"] * 4 + ["update"] * 3 + ["ask"] * 3 + ["reply"] * 6 + ["finish"] * 2 + ["cancel", "renew", "renew"]
    + ["wait"] * 5 + ["pull"] * 2 + ["settle"] * 2 + ["pass_time"] * 3 + ["say_again"] * 3 + ["claim_again", "renew_again", "renew_again", "mark_read", "look"]
)  # fmt: skip


class Office(RuleBasedStateMachine):
    at: ClassVar[Place]

    def __init__(self) -> None:
        super().__init__()
        self.clock = FixedClock()
        self.namespace = f"t-{uuid.uuid4().hex[:16]}"
        settings = Settings(attempts_max=1_000)
        self.broker = Broker(Store(self.at.connection, settings), settings, self.clock)
        self.owner = owner(self.namespace)
        self.jobs: list[Job] = []
        self.written: list[Write] = []
        self.places: dict[tuple[str, str], int] = {}
        """Where an agent's last wait in a thread ended."""
        self.counted = 0
        for task in AGENTS:
            self.run(self.broker.declare(self.owner, NewTask(task=task)))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.at.run(coroutine)

    def who(self, agent: str) -> Identity:
        if agent == "operator":
            return Identity(self.namespace, "operator", None, "operator", None)
        return Identity(self.namespace, "agent", agent, "0" * 12, None)

    def new_id(self, letter: str) -> str:
        self.counted += 1
        return f"{letter}-{self.counted}"

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        what = data.draw(STEPS, label="what") if self.jobs else "open"
        if what == "open" and sum(not job.over for job in self.jobs) > 2:
            what = "claim"
        getattr(self, what)(data.draw)

    def _job(self, draw: Draw, *, held: bool = False) -> Job:
        """Mostly one that is not over, and, where a worker writes, one that is held: of the others a few are enough."""
        latest = [job for job in self.jobs if not job.over] or self.jobs[-1:]
        if draw(st.integers(0, 9)) == 0:
            latest = self.jobs[-4:]
        elif held:
            latest = [job for job in latest if job.live(self.now_ms)] or latest
        return latest[-1 - draw(st.integers(0, len(latest) - 1))]

    def _agent(self, draw: Draw, likely: str = "") -> str:
        return str(draw(st.sampled_from([likely or "w-1"] * 6 + list(AGENTS))))

    def _token(self, draw: Draw, job: Job) -> int:
        """Its newest, mostly; else one before, or none."""
        return int(draw(st.sampled_from([job.fence] * 9 + [max(0, job.fence - 1), 0, job.fence + 1])))

    def refused(self, error: type[InboxdError], coroutine: Coroutine[Any, Any, Any]) -> None:
        with pytest.raises(InboxdError) as refusal:
            self.run(coroutine)
        assert type(refusal.value) is error, refusal.value

    def said(self, job: Job, word: Word, again: Callable[[], Coroutine[Any, Any, SaidInThread]]) -> None:
        """Say it now, once; see that it is what was promised, and remember that it may be said again."""
        answer = self.run(again())
        message = shown(answer.message)
        word.n = message["n"]
        assert not answer.duplicate
        assert (message["message_id"], message["kind"], message["task"] or "") == (word.message_id, word.kind, word.to)
        assert (answer.thread.status, answer.thread.messages) == (job.status, len(job.words))
        self.written.append(Write(job, again))

    def open(self, draw: Draw) -> None:
        by, to = (
            draw(st.sampled_from(["leader", "leader", "operator", "w-1"])),
            draw(st.sampled_from(["w-1", "w-2", ""])),
        )
        job = Job(self.new_id("t"), "" if by == "operator" else by, to)
        priority = draw(st.sampled_from(["normal", "normal", "urgent", "low"]))
        new = NewThread(message_id=job.thread_id, subject="x", to=to or None, priority=priority)
        job.parties = {job.creator, to or "*"} - {""}
        self.jobs.append(job)
        word = Word(job.thread_id, "task", by, to, priority)
        job.say(word)
        self.said(job, word, lambda: self.broker.open_thread(self.who(by), new))

    def claim(self, draw: Draw) -> None:
        job = self._job(draw)
        agent, by_operator = self._agent(draw, job.assigned), draw(st.sampled_from([False, False, False, True]))
        lease_ms = draw(st.sampled_from([1_000, 10_000, 60_000, 60_000]))
        self._claim(job, agent, self.new_id("c"), lease_ms, by_operator=by_operator)

    def claim_again(self, draw: Draw) -> None:
        job = self._job(draw)
        if job.claims:
            agent, claim_id = draw(st.sampled_from(job.claims))
            self._claim(job, agent, claim_id, 60_000, by_operator=False)

    def _claim(self, job: Job, agent: str, claim_id: str, lease_ms: int, *, by_operator: bool) -> None:
        claiming = self.broker.claim(
            self.who("operator" if by_operator else agent),
            job.thread_id,
            ClaimRequest(agent=agent, claim_id=claim_id, lease_ms=lease_ms),
        )
        live = job.live(self.now_ms)
        if job.over:
            return self.refused(ThreadState, claiming)
        if (agent, claim_id) in job.claims:
            if not live or job.claims[-1] != (agent, claim_id):
                return self.refused(LeaseLost, claiming)
        elif live:
            return self.refused(LeaseConflict, claiming)
        elif not by_operator and not job.holder and job.assigned not in ("", agent):
            return self.refused(ThreadForbidden, claiming)
        else:
            job.status, job.holder, job.fence, job.until_ms = "claimed", agent, job.fence + 1, self.now_ms + lease_ms
            job.claims.append((agent, claim_id))
            job.let_go = False
            job.renewals.clear()
            job.held.add(agent)
            job.parties = (job.parties - {"*"}) | {agent}
        lease = self.run(claiming).lease
        assert lease is not None
        assert (lease.agent, lease.fencing_token, lease.expires_at_ms) == (job.holder, job.fence, job.until_ms)
        return None

    def renew(self, draw: Draw) -> None:
        job = self._job(draw, held=True)
        agent, token = self._agent(draw, job.holder), self._token(draw, job)
        self._renew(job, agent, token, draw(st.sampled_from([None, *sorted(job.renewals), self.new_id("r")])))

    def renew_again(self, draw: Draw) -> None:
        """By its holder, in time and however much of it has passed since: the lease is as long as it was."""
        held = [job for job in self.jobs if job.renewals and job.live(self.now_ms)]
        if held:
            job = draw(st.sampled_from(held))
            self.clock.pass_ms(draw(st.sampled_from([0, 1, 500])))
            self._renew(job, job.holder, job.fence, draw(st.sampled_from(sorted(job.renewals))))

    def _renew(self, job: Job, agent: str, token: int, renew_id: str | None) -> None:
        want = RenewRequest(fencing_token=token, renew_id=renew_id, lease_ms=30_000)
        renewing = self.broker.renew(self.who(agent), job.thread_id, want)
        if error := job.lost(agent, token, self.now_ms):
            return self.refused(error, renewing)
        if renew_id not in job.renewals:
            job.until_ms = self.now_ms + 30_000
            if renew_id:
                job.renewals.add(renew_id)
        lease = self.run(renewing).lease
        assert lease is not None
        assert (lease.expires_at_ms, lease.fencing_token) == (job.until_ms, job.fence)
        return None

    def _mail_of(self, job: Job, agent: str) -> str:
        return job.creator if job.creator != agent else ""

    def update(self, draw: Draw) -> None:
        job = self._job(draw, held=True)
        agent, token = self._agent(draw, job.holder), self._token(draw, job)
        word = Word(self.new_id("p"), "progress", agent, "", "normal")
        said = UpdateRequest(fencing_token=token, summary="x", message_id=word.message_id)
        again = lambda: self.broker.update(self.who(agent), job.thread_id, said)  # noqa: E731
        if error := job.lost(agent, token, self.now_ms):
            return self.refused(error, again())
        job.status = "in_progress"
        if job.question:
            job.question.awaits = False
            job.question = None
        job.say(word)
        return self.said(job, word, again)

    def ask(self, draw: Draw) -> None:
        job = self._job(draw, held=True)
        agent, token = self._agent(draw, job.holder), self._token(draw, job)
        word = Word(self.new_id("q"), "question", agent, self._mail_of(job, agent), "normal")
        said = UpdateRequest(fencing_token=token, status="blocked", body="?", message_id=word.message_id)
        again = lambda: self.broker.update(self.who(agent), job.thread_id, said)  # noqa: E731
        if error := job.lost(agent, token, self.now_ms):
            return self.refused(error, again())
        job.status = "blocked"
        job.say(word)
        job.ask(word, of_worker=True)
        return self.said(job, word, again)

    def finish(self, draw: Draw) -> None:
        job = self._job(draw, held=True)
        agent, token = self._agent(draw, job.holder), self._token(draw, job)
        verb, status = draw(st.sampled_from([("done", "done"), ("fail", "failed")]))
        word = Word(self.new_id("d"), "result", agent, self._mail_of(job, agent), "normal")
        said = FinishRequest(fencing_token=token, summary="x", message_id=word.message_id)
        again = lambda: getattr(self.broker, verb)(self.who(agent), job.thread_id, said)  # noqa: E731
        if error := job.lost(agent, token, self.now_ms):
            return self.refused(error, again())
        job.say(word)
        job.end(status)
        return self.said(job, word, again)

    def reply(self, draw: Draw) -> None:
        job = self._job(draw)
        by = draw(
            st.sampled_from(
                [job.creator or "operator", job.creator or "operator", job.worker or "w-1", "operator", *AGENTS]
            )
        )
        kind = draw(st.sampled_from(["answer", "answer", "question", "control", "progress"]))
        token = self._token(draw, job) if draw(st.booleans()) else None
        works = by == job.worker
        answers = (job.asked if works else job.question) if kind == "answer" else None
        if answers and answers.by == by:
            answers = None
        asker = job.asked.by if answers is not None and answers is job.asked and job.asked else ""
        choices = [asker if asker in AGENTS else "", job.creator if works else "", job.worker, job.creator]
        named = draw(st.sampled_from([None] * 4 + list(AGENTS)))
        to = named or next((one for one in choices if one and one != by), "")
        word = Word(self.new_id("m"), kind, by, to, "normal")
        said = ReplyRequest(kind=kind, body="x", message_id=word.message_id, fencing_token=token, to=named)
        again = lambda: self.broker.reply(self.who(by), job.thread_id, said)  # noqa: E731
        if by != "operator" and by not in job.parties:
            return self.refused(ThreadForbidden, again())
        if job.over:
            return self.refused(ThreadState, again())
        needs = by in job.held and by != job.creator
        if (needs or token is not None) and (error := job.lost(by, -1 if token is None else token, self.now_ms)):
            return self.refused(error, again())
        if answers:
            answers.awaits = False
            if answers is job.question:
                job.question = None
            else:
                job.asked = None
        job.say(word)
        if kind == "question":
            job.ask(word, of_worker=works)
        return self.said(job, word, again)

    def cancel(self, draw: Draw) -> None:
        job = self._job(draw)
        by = draw(st.sampled_from([job.creator or "operator", job.creator or "operator", "operator", "w-2"]))
        mail = [word for word in job.words if word.to == job.assigned and word.state not in ("superseded", "expired")]
        untouched = (
            not job.holder and job.assigned and all(word.state == "queued" and not word.receipt for word in mail)
        )
        to = "" if untouched or not job.worker or job.worker == by else job.worker
        word = Word(self.new_id("x"), "control", by, to, "high")
        again = lambda: self.broker.cancel(self.who(by), job.thread_id, CancelRequest(message_id=word.message_id))  # noqa: E731
        if by not in ("operator", job.creator):
            return self.refused(ThreadForbidden, again())
        if job.over:
            return self.refused(ThreadState, again())
        if untouched:
            for one in mail:
                one.state = "superseded"
        job.say(word)
        job.end("cancelled")
        return self.said(job, word, again)

    def say_again(self, draw: Draw) -> None:
        """However long ago, and whatever became of the lease or the thread: it changes nothing."""
        latest = self.written[-8:]
        write = latest[-1 - draw(st.integers(0, len(latest) - 1))]
        answer = self.run(write.again())
        assert answer.duplicate
        assert answer.thread.status == write.job.status
        if draw(st.booleans()):
            used = write.job.words[-1].message_id
            self.refused(
                MessageIdReused,
                self.broker.open_thread(self.owner, NewThread(message_id=used, subject="another")),
            )

    def wait(self, draw: Draw) -> None:
        job = self._job(draw)
        held = [(one, word.to) for one in self.jobs for word in one.words if word.state == "in_flight"]
        agent = self._agent(draw, job.holder or job.creator)
        if held and draw(st.booleans()):
            # Somebody else of the same agent has it in hand.
            job, agent = draw(st.sampled_from(held))
        ack, session = draw(st.sampled_from([(True, "wait-reply"), (False, "s-1"), (False, "s-1"), (False, "s-2")]))
        behind = draw(st.sampled_from(["place", "own", "message", "start"]))
        want = WaitReplyRequest(ack=ack, session=session, hold_ms=HOLD_MS)
        if behind == "place" and (agent, job.thread_id) in self.places:
            want = want.model_copy(update={"after_event": self.places[agent, job.thread_id]})
        elif behind == "message":
            want = want.model_copy(update={"after_message": draw(st.sampled_from(job.words)).message_id})
        elif behind == "start":
            want = want.model_copy(update={"after_event": 0})
        waiting = self.broker.wait_reply(self.who(agent), job.thread_id, want)
        if agent not in job.parties:
            return self.refused(ThreadForbidden, waiting)
        behind_n = want.after_event
        if want.after_message:
            behind_n = next(word.n for word in job.words if word.message_id == want.after_message)
        if behind_n is None:
            behind_n = max((word.n for word in job.words if word.by == agent), default=0)
        found = next(
            (
                word
                for word in job.words
                if word.n > behind_n and word.by != agent and word.to in (agent, "")
                and word.kind in REPLIES and word.state != "superseded"
            ),
            None,
        )  # fmt: skip
        if found is None and job.over:
            return self.refused(ThreadState, waiting)
        reply = self.run(waiting)
        self.places[agent, job.thread_id] = reply.next_event_id
        in_other_hands = found is not None and found.state == "in_flight" and (ack or found.held_by != session)
        if found is None or in_other_hands:
            assert reply.message is None
            assert found is None or reply.next_event_id == found.n - 1
            return None
        assert reply.message is not None
        assert (shown(reply.message)["message_id"], reply.next_event_id) == (found.message_id, found.n)
        assert (reply.receipt is not None) == (not ack and found.state in ("queued", "in_flight"))
        if found.state in ("queued", "in_flight"):
            found.receipt, found.held_by, found.held_until_ms = reply.receipt or "acked", session, self.now_ms + HOLD_MS
            found.state = "in_flight"
            if ack:
                self._delivered(found)
        assert shown(reply.message)["state"] == found.state
        return None

    def _delivered(self, word: Word) -> None:
        word.state = "delivered"
        word.delivered += 1
        assert word.delivered == 1

    def settle(self, draw: Draw) -> None:
        """Ack what a wait holds, in time or late."""
        held = [(job, word) for job in self.jobs for word in job.words if word.state == "in_flight"]
        if held:
            _, word = draw(st.sampled_from(held))
            self.run(self.broker.ack(self.who(word.to), word.to, SettleRequest(receipt=word.receipt)))
            self._delivered(word)

    def pull(self, draw: Draw) -> None:
        """As its hook would: all that waits for one agent, delivered."""
        agent = self._agent(draw)
        owed = [word for job in self.jobs for word in job.words if word.to == agent]
        for word in owed:
            if word.state == "in_flight" and word.held_until_ms <= self.now_ms:
                word.state = "queued"
        waiting = [word for word in owed if word.state == "queued"]
        ranks = ["urgent", "high", "normal", "low"]
        # What was taken by name and came back goes before what nobody had yet.
        waiting.sort(key=lambda word: (ranks.index(word.priority), word.receipt is None, word.n))
        batch = self.run(self.broker.pull(self.who(agent), agent, PullRequest(ack=True, max=100, session="hook")))
        assert [shown(message)["message_id"] for message in batch.messages] == [word.message_id for word in waiting]
        for word in waiting:
            word.receipt = "acked"
            self._delivered(word)

    def mark_read(self, draw: Draw) -> None:
        job = self._job(draw)
        agent = self._agent(draw, job.worker)
        up_to = draw(st.sampled_from([None, *(word.n for word in job.words)]))
        marking = self.broker.mark_read(self.who(agent), job.thread_id, MarkReadRequest(up_to=up_to))
        if not self._may_see(job, agent):
            return self.refused(ThreadForbidden, marking)
        last = job.words[-1].n
        job.read[agent] = max(job.read.get(agent, 0), last if up_to is None else min(up_to, last))
        assert self.run(marking).unread == job.unread(agent)
        return None

    def _may_see(self, job: Job, agent: str) -> bool:
        let_go = job.holder != "" and not job.over and not job.live(self.now_ms)
        return agent in job.parties or "*" in job.parties or let_go

    def look(self, draw: Draw) -> None:
        """fetch and list: what they show is what is promised, and looking changes nothing."""
        agent, unread = self._agent(draw), draw(st.booleans())
        found = self.run(self.broker.fetch(self.who(agent), agent=None, statuses=[], limit=1_000, unread=unread))
        work = {
            job.thread_id
            for job in self.jobs
            if self._is_work(job, agent) and (not unread or job.unread(agent))
        }  # fmt: skip
        assert {thread.thread_id for thread in found.threads} == work
        listed = self.run(self.broker.list_threads(self.who(agent), limit=1_000)).threads
        mine = [job for job in reversed(self.jobs) if agent in job.parties]
        assert [thread.thread_id for thread in listed] == [job.thread_id for job in mine]
        assert [thread.unread for thread in listed] == [job.unread(agent) for job in mine]

    def _is_work(self, job: Job, agent: str) -> bool:
        if job.over:
            return False
        if job.live(self.now_ms):
            return job.holder == agent and job.status == "blocked"
        return job.holder != "" or job.assigned in ("", agent)

    def pass_time(self, draw: Draw) -> None:
        self.clock.pass_ms(draw(st.sampled_from([1, 500, 1_000, 1_000, 5_000, 10_000, 60_000])))
        if draw(st.booleans()):
            self._sweep()

    def _sweep(self) -> None:
        self.run(self.broker.sweep(self.namespace))
        for job in self.jobs:
            for word in job.words:
                if word.state == "in_flight" and word.held_until_ms <= self.now_ms:
                    word.state = "queued"
            if job.holder and not job.over and not job.let_go and job.until_ms <= self.now_ms:
                job.let_go = True
                job.parties.add("*")

    @invariant()
    def every_thread_is_what_was_promised(self) -> None:
        rows, messages, lists, awaits = self.run(self._seen())
        for job, row in zip(self.jobs, rows, strict=True):
            assert row["status"] == job.status
            assert (row.get("lease_agent", ""), int(row["fence"])) == (job.holder, job.fence)
            assert ("lease_released_at_ms" in row) == (job.over and job.holder != "")
            if job.holder:
                assert int(row["lease_expires_at_ms"]) == job.until_ms
            assert set(row["agents"].split(",")) - {""} == job.parties
            assert row.get("question_id") == (job.question and job.question.message_id)
            assert row.get("asked_id") == (job.asked and job.asked.message_id)
            assert (int(row["messages"]), row["latest_message_id"]) == (len(job.words), job.words[-1].message_id)
        words = [word for job in self.jobs for word in job.words]
        assert messages == [word.state for word in words]
        assert awaits == {
            agent: {word.message_id for word in words if word.awaits and word.by == agent} for agent in AGENTS
        }
        for status in STATUSES:
            stands = {job.thread_id for job in self.jobs if job.status == status}
            assert lists[f"threads:{status}"] == stands
            for agent in (*AGENTS, "*"):
                theirs = {job.thread_id for job in self.jobs if job.status == status and agent in job.parties}
                assert lists[f"agent_threads:{agent}:{status}"] == theirs
        leased = {job.thread_id for job in self.jobs if job.holder and not job.over and not job.let_go}
        assert lists["leases"] == leased
        assert lists["closed_threads"] == {job.thread_id for job in self.jobs if job.over}

    async def _seen(self) -> tuple[list[dict[str, str]], list[str], dict[str, set[str]], dict[str, set[str]]]:
        """Straight at the keys: no operation of the broker stands between."""
        call, prefix = self.at.connection.call, keys.prefix(self.namespace)
        names = ["leases", "closed_threads", *(f"threads:{status}" for status in STATUSES)]
        names += [f"agent_threads:{agent}:{status}" for agent in (*AGENTS, "*") for status in STATUSES]
        rows, states, members, awaits = await asyncio.gather(
            asyncio.gather(*(call(prefix, "HGETALL", f"{prefix}thread:{job.thread_id}") for job in self.jobs)),
            asyncio.gather(
                *(
                    call(prefix, "HGET", f"{prefix}msg:{word.message_id}", "state")
                    for job in self.jobs
                    for word in job.words
                )
            ),
            asyncio.gather(*(call(prefix, "ZRANGE", prefix + name, 0, -1) for name in names)),
            asyncio.gather(*(call(prefix, "SMEMBERS", f"{prefix}awaits:{agent}") for agent in AGENTS)),
        )
        read = [dict(zip(row[::2], row[1::2], strict=True)) if isinstance(row, list) else row for row in rows]
        return (
            [{name.decode(): value.decode() for name, value in row.items()} for row in read],
            [state.decode() for state in states],
            {name: {one.decode() for one in some} for name, some in zip(names, members, strict=True)},
            {agent: {one.decode() for one in some} for agent, some in zip(AGENTS, awaits, strict=True)},
        )

    def teardown(self) -> None:
        """What is owed is delivered, each once; what is over leaves nothing behind; nothing leaks."""
        try:
            self.clock.pass_ms(100_000)
            self._sweep()
            for agent in AGENTS:
                self.pull(lambda _strategy, agent=agent: agent)
            for job in self.jobs:
                for word in job.words:
                    history = self.run(self.broker.show(self.owner, word.message_id))[1]
                    deliveries = sum(state == "delivered" for _, state, _ in history)
                    assert deliveries == word.delivered == (word.to != "" and word.state != "superseded")
            self.every_thread_is_what_was_promised()
            assert self.run(leaked(self.at.connection, self.namespace)) == []
            self.clock.pass_ms(Settings().retention_ms)
            self.run(self.broker.tidy(self.namespace))
            listed = self.run(self.broker.list_threads(self.owner, limit=1_000)).threads
            assert {one.thread_id for one in listed} == {job.thread_id for job in self.jobs if not job.over}
            assert self.run(leaked(self.at.connection, self.namespace)) == []
        finally:
            self.run(self._clear())

    async def _clear(self) -> None:
        names = await keys_of(self.at.connection, self.namespace)
        await self.at.connection.call(names[0], "UNLINK", *names)


@pytest.mark.timeout(3_600)
def test_the_rules_hold_whatever_happens(place: Place, request: pytest.FixtureRequest) -> None:  # noqa: F811
    long = request.config.getoption("--long")

    class Here(Office):
        at = place

    run_state_machine_as_test(
        Here,
        settings=hypothesis.settings(
            max_examples=2_000 if long else place.examples // 2,
            stateful_step_count=100 if long else 60,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate, *([Phase.shrink] if long else [])),
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
