"""Threads: who may own one, what each verb does to it, who is told, and that nothing is done twice."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import ValidationError

from inboxd.broker.cursors import write_cursor
from inboxd.errors import (
    CursorInvalid,
    Forbidden,
    InboxdError,
    InvalidRequest,
    LeaseConflict,
    LeaseLost,
    MessageIdReused,
    SenderForbidden,
    TaskUnknown,
    ThreadForbidden,
    ThreadState,
    ThreadUnknown,
)
from inboxd.model import (
    STATUSES,
    CancelRequest,
    ClaimRequest,
    FinishRequest,
    Identity,
    NewBroadcast,
    NewThread,
    ReplyRequest,
    UpdateRequest,
)
from inboxd.settings import Settings
from tests.conftest import START_MS, FixedClock, agent_of
from tests.support.leaks import keys_of
from tests.support.mail import Mail, ids, shown
from tests.support.worker import LEASE_MS, Worker

pytestmark = pytest.mark.anyio


def role(who: Identity, name: str) -> Identity:
    return Identity(who.namespace, name, None, name, None)  # type: ignore[arg-type]


async def test_a_thread_is_pending_and_its_first_message_is_the_workers_mail(leader: Worker, worker: Worker) -> None:
    opened = await leader.open(priority="high", run_id="r-1", task_id="T4")
    thread = opened.thread
    assert (thread.status, thread.created_by, thread.assigned_to) == ("pending", "task:leader", "backend")
    assert (thread.run_id, thread.task_id, thread.subject, thread.priority) == ("r-1", "T4", "Log-in fails", "high")
    assert thread.lease is None
    assert thread.latest_message_id == "t-1"
    assert thread.messages == 1
    [mail] = await worker.mail()
    assert (mail["message_id"], mail["thread_id"], mail["kind"], mail["priority"]) == ("t-1", "t-1", "task", "high")
    assert await worker.mail() == []


async def test_opening_it_again_changes_nothing_and_other_words_are_refused(leader: Worker, worker: Worker) -> None:
    await leader.open()
    await worker.claim()
    again = await leader.open()
    assert again.duplicate
    assert again.thread.status == "claimed"
    assert again.thread.messages == 1
    with pytest.raises(MessageIdReused):
        await leader.open(subject="Something else")
    with pytest.raises(MessageIdReused):
        await leader.open(to="other")


async def test_an_unknown_recipient_bounces_with_the_nearest_name(leader: Worker) -> None:
    with pytest.raises(TaskUnknown) as refusal:
        await leader.open(to="backand")
    assert "backend" in (refusal.value.hint or "")


async def test_a_name_that_nobody_has_is_told_at_once_and_waits_for_nothing(leader: Worker) -> None:
    await leader.open(to=None)
    misspelt = Worker(leader.broker, agent_of(leader.who, "backand"))
    for asking in (misspelt.wait_reply, misspelt.mark_read, misspelt.claim):
        with pytest.raises(TaskUnknown) as refusal:
            await asking()
        assert "backend" in (refusal.value.hint or "")


async def test_fetch_returns_all_that_was_asked_for_because_there_is_no_next_page(
    leader: Worker, worker: Worker
) -> None:
    pages = Settings().page_max + 1
    for number in range(pages):
        await leader.open(f"t-{number}", to=None)
    found = await worker.broker.fetch(worker.who, agent=None, statuses=[], limit=1_000, unread=False)
    assert len(found.threads) == pages


async def test_a_worker_goes_through_the_whole_protocol(leader: Worker, worker: Worker) -> None:
    await leader.open()
    assert await worker.fetched() == ["t-1"]
    claimed = await worker.claim()
    assert claimed.status == "claimed"
    assert claimed.lease is not None
    assert claimed.lease.live
    assert (await worker.update(summary="Reading the code.")).thread.status == "in_progress"
    asked = await worker.ask("Which Safari?", message_id="q-1")
    assert (asked.thread.status, asked.thread.question_id) == ("blocked", "q-1")
    [question] = await leader.mail()
    assert (question["kind"], question["body"], question["awaiting_response"]) == ("question", "Which Safari?", True)
    answered = await leader.reply("17.4.", message_id="a-1")
    assert shown(answered.message)["reply_to"] == "q-1"
    assert answered.thread.question_id is None
    got = await worker.wait_reply()
    assert shown(got.message)["body"] == "17.4."
    assert (await worker.update()).thread.status == "in_progress"
    finished = await worker.done(summary="Fixed in 3f2a.", artifacts=[{"path": "a.patch", "kind": "patch"}])
    assert finished.thread.status == "done"
    assert finished.thread.lease is not None
    assert not finished.thread.lease.live
    assert finished.thread.lease.released_at_ms is not None
    [result] = await leader.mail()
    assert (result["kind"], result["summary"], result["reply_to"]) == ("result", "Fixed in 3f2a.", "t-1")
    assert [mail["message_id"] for mail in await worker.mail()] == ["t-1"]
    _, history = await leader.show()
    assert [message["kind"] for message in history] == [
        "task", "progress", "question", "answer", "progress", "result"
    ]  # fmt: skip
    assert history[-1]["artifacts"] == [{"path": "a.patch", "kind": "patch", "metadata": None}]


# Claiming.


async def test_fetching_grants_nothing(leader: Worker, worker: Worker) -> None:
    await leader.open()
    for _ in range(3):
        assert await worker.fetched() == ["t-1"]
    assert await worker.status() == "pending"
    worker.token = 1
    with pytest.raises(LeaseLost):
        await worker.update()


async def test_of_many_that_claim_at_once_one_gets_it(leader: Worker, worker: Worker) -> None:
    await leader.open(to=None)
    tries = [Worker(worker.broker, worker.who) for _ in range(20)]
    outcomes = await asyncio.gather(*(one.claim() for one in tries), return_exceptions=True)
    refused = [one for one in outcomes if isinstance(one, BaseException)]
    assert len(refused) == 19
    assert {type(one) for one in refused} == {LeaseConflict}
    assert sorted(one.token for one in tries) == [0] * 19 + [1]


async def test_a_claim_made_again_is_the_same_lease_with_its_token(leader: Worker, worker: Worker) -> None:
    await leader.open()
    first = await worker.claim(claim_id="c-1")
    again = await worker.claim(claim_id="c-1", lease_ms=500_000)
    assert first.lease == again.lease
    with pytest.raises(LeaseConflict):
        await worker.claim(claim_id="c-2")


async def test_only_the_assignee_claims_what_nobody_let_go(
    leader: Worker, worker: Worker, other: Worker, clock: FixedClock
) -> None:
    await leader.open()
    for stranger in (leader, other):
        with pytest.raises(ThreadForbidden):
            await stranger.claim()
    await worker.claim()
    with pytest.raises(LeaseConflict):
        await other.claim()
    clock.pass_ms(LEASE_MS)
    taken = await other.claim()
    assert taken.lease is not None
    assert (taken.lease.agent, taken.assigned_to) == ("other", "backend")


async def test_a_thread_for_anybody_is_claimed_by_anybody_once(leader: Worker, worker: Worker, other: Worker) -> None:
    await leader.open(to=None)
    assert await worker.fetched() == await other.fetched() == ["t-1"]
    assert await worker.mail() == []
    await other.claim()
    assert await worker.fetched() == []
    with pytest.raises(ThreadForbidden):
        await worker.show()


async def test_the_fencing_token_is_told_to_its_holder_and_nobody_else(leader: Worker, worker: Worker) -> None:
    await leader.open()
    claimed = await worker.claim()
    renewed = await worker.renew()
    assert claimed.lease is not None
    assert renewed.lease is not None
    assert claimed.lease.fencing_token == renewed.lease.fencing_token == 1
    seen = [
        (await worker.update(summary="x")).thread,
        (await leader.show())[0],
        *(await leader.broker.list_threads(role(leader.who, "admin"), limit=10)).threads,
        (await leader.reply("y")).thread,
    ]
    assert [thread.lease.fencing_token for thread in seen if thread.lease] == [None] * 4
    assert b"fencing" not in b"".join((await leader.watch(after_event=0)).events)


async def test_a_renewed_lease_lasts_longer(leader: Worker, worker: Worker, other: Worker, clock: FixedClock) -> None:
    await leader.open()
    await worker.claim()
    for _ in range(3):
        clock.pass_ms(LEASE_MS - 1)
        await worker.renew()
    with pytest.raises(LeaseConflict):
        await other.claim()
    clock.pass_ms(LEASE_MS)
    with pytest.raises(LeaseLost):
        await worker.renew()
    await other.claim()


# A lost lease.


WRITES: dict[str, Callable[[Worker], Awaitable[Any]]] = {
    "renew": lambda worker: worker.renew(),
    "update": lambda worker: worker.update(summary="still here"),
    "ask": lambda worker: worker.ask("Still there?"),
    "done": lambda worker: worker.done(),
    "fail": lambda worker: worker.fail(),
    "reply": lambda worker: worker.reply("late", with_token=True),
    "reply without a token": lambda worker: worker.reply("late"),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    "since", ["it ran out", "it was swept", "another took over", "the other let go too", "it claimed anew"]
)
async def test_nothing_of_a_lost_lease_is_written(
    leader: Worker, worker: Worker, other: Worker, clock: FixedClock, since: str, write: str
) -> None:
    await leader.open()
    await worker.claim()
    await worker.update(summary="half done")
    clock.pass_ms(LEASE_MS)
    if since != "it ran out":
        await worker.broker.sweep(worker.who.namespace)
    if since in ("another took over", "the other let go too"):
        await other.claim()
    if since == "the other let go too":
        clock.pass_ms(LEASE_MS)
    if since == "it claimed anew":
        stale = Worker(worker.broker, worker.who, worker.token)
        await worker.claim()
        worker = stale
    before = await leader.show()
    with pytest.raises(LeaseLost):
        await WRITES[write](worker)
    assert await leader.show() == before
    assert await leader.mail() == []


async def test_the_end_of_a_lease_is_an_event_whether_swept_or_taken_over(
    leader: Worker, worker: Worker, other: Worker, clock: FixedClock
) -> None:
    for number, swept in enumerate((False, True)):
        thread = f"t-{number}"
        await leader.open(thread)
        await worker.claim(thread)
        clock.pass_ms(LEASE_MS)
        if swept:
            await worker.broker.sweep(worker.who.namespace)
        await other.claim(thread)
        await worker.broker.sweep(worker.who.namespace)
        await other.done(thread, message_id=f"d-{number}")
    events = [json.loads(event)["type"] for event in (await leader.watch(after_event=0)).events]
    assert events == ["thread_opened", "thread_claimed", "thread_lease_expired", "thread_claimed", "thread_done"] * 2


async def test_a_taken_over_thread_goes_on_where_it_stood(
    leader: Worker, worker: Worker, other: Worker, clock: FixedClock
) -> None:
    await leader.open()
    await worker.claim()
    await worker.ask("Which Safari?", message_id="q-1")
    clock.pass_ms(LEASE_MS)
    taken = await other.claim()
    assert (taken.status, taken.question_id) == ("claimed", "q-1")
    await leader.reply("17.4.")
    assert shown((await other.wait_reply()).message)["reply_to"] == "q-1"
    assert [mail["message_id"] for mail in await worker.mail()] == ["t-1"], "the answer is not for who lost it"
    await other.done()
    assert (await leader.show())[0].status == "done"


# What a worker says.


async def test_blocked_needs_a_question_and_the_end_a_summary() -> None:
    for nothing in (
        {},
        {"body": ""},
        {"body": " \n"},
        {"summary": " "},
        {"payload": {"a": 1}},
        {"artifacts": [{"path": "a"}]},
    ):
        with pytest.raises(ValidationError, match="blocked needs a question"):
            UpdateRequest.model_validate({"status": "blocked", "fencing_token": 1, **nothing})
        with pytest.raises(ValidationError, match="needs a summary"):
            FinishRequest.model_validate({"fencing_token": 1, **nothing})


async def test_a_question_is_who_opened_its_mail_and_the_worker_is_seen_to_wait(
    leader: Worker, worker: Worker, mail: Mail
) -> None:
    await leader.open()
    await worker.claim()
    await worker.ask("Which Safari?", message_id="q-1", summary="Safari?")
    assert (await mail.task()).state == "waiting"
    [question] = await leader.mail()
    assert (question["kind"], question["thread_id"], question["sender"]) == ("question", "t-1", "task:backend")
    needs = (await mail.broker.attention(mail.who)).items
    assert [(one.why, one.task, one.thread_id, one.detail) for one in needs] == [
        ("blocked_thread", "backend", "t-1", "Log-in fails: Safari?"),
        ("waiting_for_answer", "backend", None, needs[1].detail),
    ]
    await leader.reply("17.4.")
    assert (await mail.task()).state == "active"
    assert (await mail.broker.attention(mail.who)).items == []


async def test_attention_shows_an_agent_only_threads_it_has_a_part_in(
    leader: Worker, worker: Worker, other: Worker
) -> None:
    await leader.open()
    await worker.claim()
    await worker.ask("Which Safari?")
    shown_to = {
        one.name: [
            item.thread_id for item in (await one.broker.attention(one.who)).items if item.why == "blocked_thread"
        ]
        for one in (leader, worker, other)
    }
    assert shown_to == {"leader": ["t-1"], "backend": ["t-1"], "other": []}


async def test_progress_is_nobodys_mail_but_stands_in_the_thread(leader: Worker, worker: Worker) -> None:
    await leader.open()
    await worker.claim()
    await worker.update(
        summary="Reading.", payload={"files": 3}, artifacts=[{"path": "a"}, {"path": "b", "kind": "log"}]
    )
    await worker.update()
    assert await leader.mail() == []
    thread, history = await leader.show()
    assert (thread.summary, thread.messages) == ("Reading.", 3)
    assert [message["state"] for message in history] == ["queued", "noted", "noted"]
    assert (history[1]["payload"], [one["path"] for one in history[1]["artifacts"]]) == ({"files": 3}, ["a", "b"])
    assert (history[1]["task"], history[2]["body"]) == (None, "It goes on.")


async def test_what_failed_says_why_and_is_mail_too(leader: Worker, worker: Worker) -> None:
    await leader.open(awaiting_response=True)
    await worker.claim()
    failed = await worker.fail(summary="No Safari here.", body="Tried three machines.")
    assert (failed.thread.status, failed.thread.summary) == ("failed", "No Safari here.")
    [result] = await leader.mail()
    assert (result["kind"], result["summary"], result["body"]) == ("result", "No Safari here.", "Tried three machines.")


async def test_who_opened_it_is_seen_to_wait_until_it_is_over(leader: Worker, worker: Worker, mail: Mail) -> None:
    await leader.open(awaiting_response=True)
    await worker.claim()
    await worker.ask("Which?")
    assert (await mail.task("leader")).waiting_for == ["t-1"]
    await worker.done()
    assert (await mail.task("leader")).waiting_for == []
    assert (await mail.task()).waiting_for == []
    with pytest.raises(InvalidRequest):
        await mail.broker.open_thread(mail.who, NewThread(subject="x", awaiting_response=True))


# No way out of the end.


@pytest.mark.parametrize("end", ["done", "failed", "cancelled"])
async def test_there_is_no_way_out_of_the_end(
    leader: Worker, worker: Worker, mail: Mail, clock: FixedClock, end: str
) -> None:
    await leader.open()
    await worker.claim(claim_id="c-1")
    await {"done": worker.done, "failed": worker.fail, "cancelled": leader.cancel}[end]()
    before = await leader.show()
    for write in (*WRITES.values(), Worker.claim, lambda one: one.claim(claim_id="c-1"), Worker.cancel):
        for one in (worker, leader):
            with pytest.raises((ThreadState, ThreadForbidden)):
                await write(one)
    for anybody in ("admin", "user", "operator"):
        with pytest.raises(ThreadState):
            await mail.broker.cancel(role(mail.who, anybody), "t-1", CancelRequest())
        with pytest.raises(ThreadState):
            await mail.broker.reply(role(mail.who, anybody), "t-1", ReplyRequest(body="x"))
    clock.pass_ms(10 * LEASE_MS)
    await mail.broker.sweep(mail.who.namespace)
    assert await leader.show() == before
    assert await worker.fetched(*STATUSES) == []


# Saying something in it.


async def test_an_answer_to_a_blocked_thread_is_the_workers_mail_and_changes_no_status(
    leader: Worker, worker: Worker
) -> None:
    await leader.open()
    await worker.claim()
    await worker.mail()
    await worker.ask("Which?", message_id="q-1")
    answered = await leader.reply("That one.", artifacts=[{"path": "notes.md"}])
    assert (answered.thread.status, answered.thread.question_id) == ("blocked", None)
    [mail] = await worker.mail()
    assert (mail["kind"], mail["reply_to"], mail["body"], mail["thread_id"]) == ("answer", "q-1", "That one.", "t-1")


async def test_a_person_may_answer_in_any_thread(leader: Worker, worker: Worker, mail: Mail) -> None:
    await leader.open()
    await worker.claim()
    await worker.ask("Which?", message_id="q-1")
    user = role(mail.who, "user")
    said = await mail.broker.reply(user, "t-1", ReplyRequest(body="The blue one."))
    assert shown(said.message)["sender"] == "user"
    assert [(one["sender"], one["reply_to"]) for one in await worker.mail()] == [("task:leader", None), ("user", "q-1")]
    with pytest.raises(SenderForbidden):
        await mail.broker.reply(role(mail.who, "operator"), "t-1", ReplyRequest(body="x", sender="user"))


async def test_a_word_to_a_third_task_gives_it_a_part(leader: Worker, worker: Worker, other: Worker) -> None:
    await leader.open()
    with pytest.raises(ThreadForbidden):
        await other.reply("me too")
    await worker.claim()
    await worker.reply("Do you know?", kind="question", to="other", with_token=True)
    assert [one["kind"] for one in await other.mail()] == ["question"]
    assert await other.listed() == ["t-1"]
    answered = await other.reply("I do.")
    assert shown(answered.message)["task"] == "backend"
    with pytest.raises(TaskUnknown) as refusal:
        await leader.reply("x", to="othr")
    assert "other" in (refusal.value.hint or "")


async def test_the_same_id_changes_nothing_twice(leader: Worker, worker: Worker) -> None:
    await leader.open()
    await worker.claim()
    writes: list[Callable[[], Awaitable[Any]]] = [
        lambda: worker.update(summary="x", message_id="m-1"),
        lambda: worker.ask("Which?", message_id="m-2"),
        lambda: leader.reply("That.", message_id="m-3"),
        lambda: worker.reply("Thanks.", message_id="m-4", kind="message", with_token=True),
        lambda: worker.done(message_id="m-5"),
    ]
    for number, write in enumerate(writes, start=2):
        first = await write()
        before = await leader.show()
        for earlier in writes[: number - 1]:
            again = await earlier()
            assert again.duplicate
        assert (first.duplicate, first.thread.messages) == (False, number)
        assert await leader.show() == before
    assert [one["message_id"] for one in await leader.mail()] == ["m-2", "m-4", "m-5"]
    with pytest.raises(MessageIdReused):
        await leader.reply("Something else.", message_id="m-3")
    with pytest.raises(MessageIdReused):
        await worker.fail(message_id="m-5", summary="Fixed.")


async def test_a_plain_message_that_names_a_thread_stands_in_it(leader: Worker, worker: Worker, mail: Mail) -> None:
    await leader.open()
    sender = Mail(leader.broker, leader.who)
    sent = await sender.send(
        "m-1",
        task="backend",
        thread_id="t-1",
        subject="A hint",
        body="Look at auth.ts.",
        payload=[1],
        summary="s",
        hops=2,
    )
    assert (sent.duplicate, sent.pending, sent.recipient_state) == (False, 2, "queued")
    again = await sender.send(
        "m-1",
        task="backend",
        thread_id="t-1",
        subject="A hint",
        body="Look at auth.ts.",
        payload=[1],
        summary="s",
        hops=2,
    )
    assert again.duplicate
    _, history = await worker.show()
    assert [(one["message_id"], one["subject"], one["hops"]) for one in history] == [
        ("t-1", "Log-in fails", 0),
        ("m-1", "A hint", 2),
    ]
    await sender.send("m-2", task="backend", thread_id="t-1", kind="question", awaiting_response=True)
    assert (await mail.task("leader")).waiting_for == ["m-2"]
    for wrong in ({"ttl_ms": 5_000}, {"topic": "x"}, {"supersedes": "m-1"}, {"kind": "task"}, {"kind": "result"}):
        with pytest.raises(InvalidRequest):
            await sender.send("m-3", task="backend", thread_id="t-1", **wrong)
    with pytest.raises(TaskUnknown):
        await sender.send("m-3", task="nobody", thread_id="t-1")
    await sender.send("m-3", task="somebody", thread_id="t-1", create=True)
    await leader.cancel()
    with pytest.raises(ThreadState):
        await sender.send("m-4", task="backend", thread_id="t-1")


async def test_a_message_that_named_the_thread_before_there_was_one_is_sent_again_in_vain(leader: Worker) -> None:
    sender = Mail(leader.broker, leader.who)
    await sender.send("m-1", task="backend", thread_id="t-1")
    await leader.open()
    assert (await sender.send("m-1", task="backend", thread_id="t-1")).duplicate
    with pytest.raises(MessageIdReused):
        await sender.send("m-1", task="backend", thread_id="t-1", body="other")
    assert (await leader.show())[0].messages == 1


async def test_a_broadcast_that_names_a_thread_is_plain_mail(leader: Worker, worker: Worker, mail: Mail) -> None:
    await leader.open()
    await mail.broker.broadcast(
        mail.who, NewBroadcast(message_id="b", to=["backend", "other"], body="x", thread_id="t-1")
    )
    assert [one["message_id"] for one in await worker.mail()] == ["t-1", "b:backend"]
    assert (await leader.show())[0].messages == 1


# Cancelling.


async def test_a_cancel_tells_who_works_on_it(leader: Worker, worker: Worker) -> None:
    await leader.open()
    await worker.claim()
    await worker.mail()
    cancelled = await leader.cancel(reason="Done elsewhere.\nSee #18.")
    assert (cancelled.thread.status, cancelled.thread.summary) == ("cancelled", "Done elsewhere.")
    [told] = await worker.mail()
    assert (told["kind"], told["body"], told["priority"], told["reply_to"]) == (
        "control", "Done elsewhere.\nSee #18.", "high", "t-1",
    )  # fmt: skip


async def test_a_cancel_of_what_nobody_got_bothers_nobody(leader: Worker, worker: Worker) -> None:
    await leader.open()
    await leader.reply("And quickly.", kind="control")
    await leader.cancel(reason="")
    assert await worker.mail() == []
    _, history = await leader.show()
    assert [one["state"] for one in history] == ["superseded", "superseded", "noted"]
    assert history[-1]["body"] == "The thread is cancelled: stop working on it."


async def test_only_who_opened_it_or_a_person_or_operator_cancels_and_the_person_is_not_silenced(
    leader: Worker, worker: Worker, mail: Mail
) -> None:
    for number in range(3):
        await leader.open(f"t-{number}")
    with pytest.raises(ThreadForbidden):
        await worker.cancel("t-0")
    for number, name in enumerate(("user", "operator", "admin")):
        await mail.broker.cancel(role(mail.who, name), f"t-{number}", CancelRequest())
    user = role(mail.who, "user")
    await mail.broker.open_thread(user, NewThread(message_id="t-u", subject="x", to="backend"))
    with pytest.raises(ThreadForbidden):
        await mail.broker.cancel(role(mail.who, "operator"), "t-u", CancelRequest())
    await mail.broker.cancel(user, "t-u", CancelRequest())


# Whose it is.


async def test_the_person_opens_answers_and_works(mail: Mail, worker: Worker) -> None:
    user = role(mail.who, "user")
    opened = await mail.broker.open_thread(user, NewThread(message_id="t-1", subject="Fix it", to="backend"))
    assert (opened.thread.created_by, opened.thread.unread) == ("user", False)
    await worker.claim()
    await worker.ask("Which?")
    assert [
        one["kind"]
        for one in [shown(row) for row in (await Mail(mail.broker, user).pull(task="user", ack=True)).messages]
    ] == ["question"]
    await worker.done()
    await mail.broker.open_thread(mail.who, NewThread(message_id="t-2", subject="Decide", to="user", sender="backend"))
    claimed = await mail.broker.claim(user, "t-2", ClaimRequest())
    assert claimed.lease is not None
    assert (claimed.lease.agent, claimed.lease.fencing_token) == ("user", 1)
    await mail.broker.done(user, "t-2", FinishRequest(summary="The blue one.", fencing_token=1))
    assert [one["sender"] for one in await worker.mail()] == ["user", "user"]


async def test_an_operator_acts_for_any_agent_but_not_for_the_person(mail: Mail, leader: Worker) -> None:
    operator = role(mail.who, "operator")
    await leader.open()
    with pytest.raises(InvalidRequest, match="No agent"):
        await mail.broker.claim(operator, "t-1", ClaimRequest())
    with pytest.raises(Forbidden):
        await mail.broker.claim(operator, "t-1", ClaimRequest(agent="user"))
    with pytest.raises(TaskUnknown) as refusal:
        await mail.broker.claim(operator, "t-1", ClaimRequest(agent="backnd"))
    assert "backend" in (refusal.value.hint or "")
    claimed = await mail.broker.claim(operator, "t-1", ClaimRequest(agent="other"))
    assert claimed.lease is not None
    assert claimed.lease.agent == "other", "an operator may give it to another than its assignee"
    update = UpdateRequest(agent="other", fencing_token=1, summary="x")
    assert shown((await mail.broker.update(operator, "t-1", update)).message)["sender"] == "task:other"


async def test_who_works_for_itself_bothers_nobody(worker: Worker) -> None:
    await worker.open()
    await worker.claim()
    await worker.mail()
    await worker.ask("Hm?")
    await worker.reply("So.")
    await worker.done()
    assert await worker.mail() == []
    assert (await worker.show())[0].status == "done"


async def test_the_creator_is_gone_and_the_work_goes_on(leader: Worker, worker: Worker, mail: Mail) -> None:
    await leader.open()
    await worker.claim()
    await mail.broker.remove(mail.who, "leader", force=True)
    await worker.ask("Anybody?")
    await worker.reply("Hello?", with_token=True)
    done = await worker.done()
    assert shown(done.message)["state"] == "noted"


async def test_the_worker_is_gone_and_another_takes_over(
    leader: Worker, worker: Worker, other: Worker, mail: Mail, clock: FixedClock
) -> None:
    await leader.open()
    await worker.claim()
    await mail.broker.remove(mail.who, "backend", force=True)
    said = await leader.reply("Still there?", kind="control")
    assert shown(said.message)["task"] is None
    clock.pass_ms(LEASE_MS)
    await other.claim()
    await leader.cancel()
    assert [one["kind"] for one in await other.mail()] == ["control"]


async def test_a_terminated_worker_that_claims_is_alive_again(leader: Worker, worker: Worker, mail: Mail) -> None:
    await leader.open()
    await mail.presence("terminated")
    assert (await mail.task()).state == "terminated"
    await worker.claim()
    assert (await mail.task()).state == "active"


# Looking.


async def test_unread_is_what_others_said_behind_the_read_cursor(leader: Worker, worker: Worker) -> None:
    opened = await leader.open()
    assert not opened.thread.unread
    assert (await worker.show())[0].unread
    assert (await worker.claim()).unread
    assert not (await worker.mark_read()).unread
    await worker.update(summary="x")
    assert not (await worker.show())[0].unread
    assert (await leader.show())[0].unread
    await worker.mail()
    await leader.mail()
    await leader.wait_reply(wait_ms=0)
    assert (await leader.show())[0].unread, "neither mail nor showing marks it read"
    for number in range(3):
        await leader.reply(f"{number}", kind="control", message_id=f"m-{number}")
    _, history = await worker.show()
    assert (await worker.mark_read(up_to=history[-2]["n"])).unread
    assert not (await worker.mark_read(up_to=history[-1]["n"])).unread
    assert not (await worker.mark_read(up_to=1)).unread, "it never moves back"
    assert (await leader.show())[0].unread, "another's cursor"
    assert not (await leader.mark_read()).unread
    assert await leader.listed() == ["t-1"]
    assert not (await leader.broker.list_threads(leader.who, limit=1)).threads[0].unread


async def test_who_has_no_read_cursor_has_nothing_unread(leader: Worker, mail: Mail) -> None:
    await leader.open()
    for name in ("operator", "observer", "admin"):
        [thread] = (await mail.broker.list_threads(role(mail.who, name), limit=10)).threads
        assert not thread.unread
    [thread] = (await mail.broker.list_threads(role(mail.who, "operator"), agent="backend", limit=10)).threads
    assert thread.unread
    [thread] = (await mail.broker.list_threads(role(mail.who, "user"), limit=10)).threads
    assert thread.unread


async def test_an_agent_sees_only_threads_it_has_a_part_in(
    leader: Worker, worker: Worker, other: Worker, mail: Mail
) -> None:
    await leader.open("t-1")
    await leader.open("t-2", to=None)
    assert await other.listed() == []
    assert await other.fetched() == ["t-2"]
    assert (await other.show("t-2"))[0].status == "pending"
    for forbidden in (other.show("t-1"), other.mark_read("t-1"), other.wait_reply("t-1")):
        with pytest.raises(ThreadForbidden):
            await forbidden
    with pytest.raises(Forbidden):
        await other.listed(agent="backend")
    assert await leader.listed() == ["t-2", "t-1"]
    assert await worker.listed() == ["t-1"]
    for name in ("admin", "user", "operator", "observer"):
        found = await mail.broker.list_threads(role(mail.who, name), limit=10)
        assert [thread.thread_id for thread in found.threads] == ["t-2", "t-1"]


async def test_a_list_is_narrowed_and_paged(leader: Worker, worker: Worker, mail: Mail) -> None:
    for number in range(7):
        await leader.open(f"t-{number}", to="backend" if number % 2 else "other")
    await worker.open("t-7", to=None)
    await mail.broker.open_thread(mail.who, NewThread(message_id="t-8", subject="x"))
    admin = Worker(mail.broker, mail.who)
    assert await admin.listed(assigned_to="backend") == ["t-5", "t-3", "t-1"]
    for creator in ("leader", "task:leader"):
        assert await admin.listed(created_by=creator, assigned_to="other") == ["t-6", "t-4", "t-2", "t-0"]
    assert await admin.listed(created_by="operator") == ["t-8"]
    assert await admin.listed(created_by="nobody") == []
    assert await admin.listed(agent="backend", statuses=["pending"]) == ["t-7", "t-5", "t-3", "t-1"]
    assert await admin.listed(statuses=["done", "cancelled"]) == []
    seen: list[str] = []
    cursor = None
    while True:
        page = await mail.broker.list_threads(mail.who, limit=4, cursor=cursor)
        seen += [thread.thread_id for thread in page.threads]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"t-{number}" for number in range(8, -1, -1)]


async def test_a_long_history_is_paged_and_a_cursor_of_another_list_is_refused(leader: Worker, worker: Worker) -> None:
    await leader.open()
    await worker.claim()
    for number in range(9):
        await worker.update(message_id=f"p-{number}")
    seen: list[str] = []
    cursor = None
    while True:
        page = await leader.broker.show_thread(leader.who, "t-1", limit=4, cursor=cursor)
        seen += ids(page.messages)
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == ["t-1", *(f"p-{number}" for number in range(9))]
    first = await leader.broker.show_thread(leader.who, "t-1", limit=4)
    with pytest.raises(CursorInvalid):
        await leader.broker.list_threads(leader.who, limit=4, cursor=first.next_cursor)
    for place in (-1, 10**17):
        page = await leader.broker.show_thread(leader.who, "t-1", limit=4, cursor=write_cursor("thread", [place]))
        assert len(page.messages) == (4 if place < 0 else 0)


async def test_an_unknown_thread_is_unknown_to_every_verb(leader: Worker, worker: Worker) -> None:
    for write in (*WRITES.values(), Worker.claim, Worker.cancel, Worker.show, Worker.mark_read, Worker.wait_reply):
        with pytest.raises(ThreadUnknown):
            await write(worker)


# Its end.


async def test_a_finished_thread_is_kept_for_its_time_and_then_leaves_nothing_behind(
    leader: Worker, worker: Worker, other: Worker, mail: Mail, clock: FixedClock
) -> None:
    await leader.open(awaiting_response=True)
    await worker.claim()
    await worker.ask("Which?")
    await leader.reply("That.")
    clock.pass_ms(LEASE_MS)
    await mail.broker.sweep(mail.who.namespace)
    await other.claim()
    await other.mark_read()
    await other.done()
    for one in (leader, worker, other):
        await one.mail()
    retention_ms = Settings().retention_ms
    clock.pass_ms(retention_ms - 1)
    await mail.broker.tidy(mail.who.namespace)
    assert await leader.status() == "done"
    clock.pass_ms(1)
    await mail.broker.tidy(mail.who.namespace)
    with pytest.raises(ThreadUnknown):
        await leader.show()
    assert await leader.listed() == []
    left = [
        name
        for name in await keys_of(mail.broker.store.connection, mail.who.namespace)
        if "thread" in name or "leases" in name
    ]
    assert left == []


async def test_an_open_thread_stays_however_old_it_is(leader: Worker, mail: Mail, clock: FixedClock) -> None:
    await leader.open()
    clock.pass_ms(10 * Settings().retention_ms)
    await mail.broker.sweep(mail.who.namespace)
    await mail.broker.tidy(mail.who.namespace)
    assert await leader.status() == "pending"


async def test_times_are_told(leader: Worker, worker: Worker, clock: FixedClock) -> None:
    await leader.open()
    clock.pass_ms(10)
    claimed = await worker.claim()
    assert claimed.lease is not None
    assert (claimed.created_at_ms, claimed.updated_at_ms, claimed.closed_at_ms) == (START_MS, START_MS + 10, None)
    assert (claimed.lease.claimed_at_ms, claimed.lease.expires_at_ms) == (START_MS + 10, START_MS + 10 + LEASE_MS)
    assert claimed.lease.released_at_ms is None
    clock.pass_ms(10)
    done = (await worker.done()).thread
    assert done.lease is not None
    assert (done.closed_at_ms, done.lease.released_at_ms, done.lease.live) == (START_MS + 20, START_MS + 20, False)


async def test_a_caller_of_another_namespace_finds_no_thread(leader: Worker) -> None:
    await leader.open()
    elsewhere = [
        Identity(f"{leader.who.namespace}-x", name, task, "0" * 12, None)  # type: ignore[arg-type]
        for name, task in itertools.chain(
            [(one, None) for one in ("admin", "user", "observer")], [("agent", "backend")]
        )
    ]
    for who in elsewhere:
        with pytest.raises(ThreadUnknown):
            await leader.broker.show_thread(who, "t-1", limit=1)
        assert (await leader.broker.list_threads(who, limit=1)).threads == []


async def test_every_status_is_in_the_list_of_exactly_one(leader: Worker, worker: Worker, mail: Mail) -> None:
    acts: dict[str, Callable[[str], Awaitable[Any]]] = {
        "pending": lambda thread: worker.fetched(),
        "claimed": worker.claim,
        "in_progress": worker.update,
        "blocked": lambda thread: worker.ask("?", thread),
        "done": worker.done,
        "failed": worker.fail,
        "cancelled": leader.cancel,
    }
    for status, act in acts.items():
        await leader.open(status)
        if status not in ("pending", "claimed", "cancelled"):
            await worker.claim(status)
        await act(status)
    for status in STATUSES:
        assert await leader.listed(statuses=[status]) == [status]
        assert await worker.listed(statuses=[status]) == [status]


async def test_a_refusal_is_one_clear_sentence(
    leader: Worker, worker: Worker, other: Worker, clock: FixedClock
) -> None:
    await leader.open()
    await worker.claim()
    sentences = []

    async def refused(act: Awaitable[Any]) -> None:
        with pytest.raises(InboxdError) as refusal:
            await act
        sentences.append(refusal.value.message)

    await refused(other.claim())
    await refused(other.update())
    worker.token += 1
    await refused(worker.update())
    await refused(worker.reply("x"))
    worker.token -= 1
    clock.pass_ms(LEASE_MS)
    await refused(worker.update())
    await refused(other.update())
    await leader.cancel()
    await refused(worker.update())
    await refused(worker.claim())
    assert sentences == [
        "t-1 is claimed by backend.",
        "The lease on t-1 is held by backend.",
        "This is not the fencing token of the lease that backend has on t-1.",
        "This is not the fencing token of the lease that backend has on t-1.",
        "The lease on t-1 has run out.",
        "other holds no lease on t-1.",
        "The thread t-1 is cancelled already.",
        "The thread t-1 is cancelled already.",
    ]


def test_the_names_of_routes_are_no_ids_of_threads() -> None:
    for name in ("fetch", "watch"):
        with pytest.raises(ValidationError):
            NewThread(message_id=name, subject="x")
