"""Delivery: in flight to one, in order, and settled once."""

from __future__ import annotations

import asyncio

import pytest

from inboxd.errors import PullIdReused, ReceiptLost, ReceiptUnknown, TaskUnknown
from inboxd.model import SettleRequest
from tests.conftest import FixedClock
from tests.support.mail import Mail, ids, shown

pytestmark = pytest.mark.anyio

HOLD_MS = 30_000


async def test_the_urgent_goes_first_and_within_a_priority_the_oldest(mail: Mail) -> None:
    for number in (1, 2):
        for priority in ("low", "normal", "high", "urgent"):
            await mail.send(f"{priority}-{number}", priority=priority)
    batch = await mail.pull(max=3)
    assert ids(batch) == ["urgent-1", "urgent-2", "high-1"]
    assert (batch.pending, batch.left) == (5, 5)
    assert await mail.pulled() == ["high-2", "normal-1", "normal-2", "low-1", "low-2"]


async def test_a_pull_takes_nothing_below_the_priority_it_wants(mail: Mail) -> None:
    await mail.send("low", priority="low")
    await mail.send("normal")
    await mail.send("urgent", priority="urgent")
    batch = await mail.pull(min_priority="high")
    assert (ids(batch), batch.pending, batch.left) == (["urgent"], 2, 0)
    batch = await mail.pull(min_priority="normal", max=1)
    assert (ids(batch), batch.pending, batch.left) == (["normal"], 1, 0)


async def test_readers_of_one_inbox_get_different_messages(mail: Mail) -> None:
    await mail.send_all(*(f"m-{number:02}" for number in range(40)))
    batches = await asyncio.gather(*(mail.pulled(f"s-{number}", max=5) for number in range(8)))
    assert sorted(one for batch in batches for one in batch) == [f"m-{number:02}" for number in range(40)]
    assert all(batch == sorted(batch) for batch in batches)
    held = await mail.pending()
    assert (held.pending, held.held) == (0, 40)


async def test_a_returned_message_keeps_its_place(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2", "m-3", "m-4")
    first, second = await mail.pull(max=2), await mail.pull("s-2", max=1)
    await mail.settle("release", second)
    await mail.settle("release", "m-1")
    assert (await mail.pending()).pending == 3
    assert await mail.pulled("s-3", max=2) == ["m-1", "m-3"]
    await mail.settle("release", "m-2")
    assert await mail.pulled("s-4") == ["m-2", "m-4"]
    assert ids(first) == ["m-1", "m-2"]


async def test_a_returned_message_waits_behind_newer_ones_that_are_more_urgent(mail: Mail) -> None:
    await mail.send("normal")
    await mail.settle("release", await mail.pull())
    await mail.send("urgent", priority="urgent")
    assert await mail.pulled() == ["urgent", "normal"]


async def test_what_comes_again_says_so(mail: Mail) -> None:
    await mail.send("m-1")
    assert shown((await mail.pull()).messages[0])["attempts"] == 1
    await mail.settle("release", "m-1")
    again = shown((await mail.pull("s-2")).messages[0])
    assert (again["attempts"], again["held_by"]) == (2, "s-2")


@pytest.mark.parametrize("chars", [1, 99, 100, 10_000])
async def test_the_first_message_always_fits(mail: Mail, chars: int) -> None:
    await mail.send("m-1", body="x" * chars)
    await mail.send("m-2", body="y")
    assert (await mail.pulled(max_chars=100))[0] == "m-1"


async def test_what_does_not_fit_stays_queued_in_order(mail: Mail) -> None:
    for number, size in enumerate([40, 40, 40, 5, 200, 1]):
        await mail.send(f"m-{number}", body="x" * size)
    batch = await mail.pull(max_chars=100)
    assert (ids(batch), batch.left) == (["m-0", "m-1"], 4)
    assert await mail.pulled(max_chars=45) == ["m-2", "m-3"]
    assert await mail.pulled(max_chars=100) == ["m-4"]
    assert await mail.pulled(max_chars=100) == ["m-5"]


async def test_a_budget_counts_what_is_shown_and_reaches_over_priorities(mail: Mail) -> None:
    await mail.send("urgent", body="x" * 10, subject="y" * 10, summary="z" * 10, priority="urgent")
    await mail.send("normal", body="x" * 30)
    await mail.send("low", body="x", priority="low")
    assert await mail.pulled(max_chars=59) == ["urgent"]
    await mail.settle("release", "urgent")
    assert await mail.pulled(max_chars=60) == ["urgent", "normal"]
    await mail.settle("release", "urgent")
    await mail.settle("release", "normal")
    assert await mail.pulled(max_chars=61) == ["urgent", "normal", "low"]


async def test_a_budget_counts_returned_messages_too(mail: Mail) -> None:
    for number in range(4):
        await mail.send(f"m-{number}", body="x" * 40)
    await mail.settle("release", await mail.pull(max=2))
    assert await mail.pulled(max_chars=79) == ["m-0"]
    assert await mail.pulled(max_chars=120) == ["m-1", "m-2", "m-3"]


async def test_a_returned_message_that_does_not_fit_is_not_overtaken(mail: Mail) -> None:
    await mail.send("m-0", body="x")
    await mail.send("m-1", body="x" * 90)
    await mail.send("m-2", body="x")
    await mail.settle("release", await mail.pull(max=2))
    assert await mail.pulled(max_chars=50) == ["m-0"]
    assert await mail.pulled(max_chars=50) == ["m-1"]
    assert await mail.pulled(max_chars=50) == ["m-2"]


async def test_one_batch_is_never_larger_than_the_broker_allows(mail: Mail) -> None:
    await asyncio.gather(*(mail.send(f"m-{number}") for number in range(105)))
    assert len((await mail.pull(max=1_000)).messages) == mail.broker.settings.pull_max
    assert len((await mail.pull(max=1_000)).messages) == 5


async def test_a_retried_pull_returns_the_same_batch_though_others_pulled_in_between(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2", "m-3", "m-4")
    first = await mail.pull(pull_id="p-1", max=2)
    assert await mail.pulled("s-2", max=1) == ["m-3"]
    again = await mail.pull(pull_id="p-1", max=2)
    assert again.messages == first.messages
    assert again.receipt == first.receipt == "p-1"
    assert again.pending == 1


async def test_a_retried_pull_returns_what_is_still_held_under_it(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2", "m-3")
    await mail.pull(pull_id="p-1")
    await mail.settle("ack", "m-1")
    await mail.settle("release", "m-3")
    assert await mail.pulled(pull_id="p-1") == ["m-2"]


async def test_after_its_hold_ran_out_a_retried_pull_returns_nothing(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("m-1", "m-2")
    await mail.pull(pull_id="p-1")
    clock.pass_ms(HOLD_MS)
    assert await mail.pulled(pull_id="p-1") == []
    assert await mail.pulled("s-2", max=1) == ["m-1"]
    assert await mail.pulled(pull_id="p-1") == []


async def test_a_pull_id_of_another_session_is_refused(mail: Mail) -> None:
    await mail.send("m-1")
    await mail.pull("s-1", pull_id="p-1")
    with pytest.raises(PullIdReused):
        await mail.pull("s-2", pull_id="p-1")


async def test_a_pull_id_that_got_nothing_may_be_used_again(mail: Mail) -> None:
    assert await mail.pulled(pull_id="p-1") == []
    await mail.send("m-1")
    assert await mail.pulled(pull_id="p-1") == ["m-1"]


async def test_the_one_call_form_delivers_at_once_and_a_retry_shows_the_same(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("m-1", "m-2")
    first = await mail.pull(pull_id="p-1", ack=True)
    assert (ids(first), first.receipt) == (["m-1", "m-2"], None)
    assert {shown(message)["state"] for message in first.messages} == {"delivered"}
    clock.pass_ms(HOLD_MS * 10)
    await mail.send("m-3")
    again = await mail.pull(pull_id="p-1", ack=True)
    assert again.messages == first.messages
    assert (await mail.pending()).held == 0


async def test_an_empty_batch_has_no_receipt(mail: Mail) -> None:
    assert (await mail.pull()).receipt is None


async def test_an_ack_delivers_for_good(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    batch = await mail.pull()
    assert (await mail.settle("ack", batch)).message_ids == ["m-1"]
    clock.pass_ms(HOLD_MS * 100)
    await mail.broker.sweep(mail.who.namespace)
    assert await mail.pulled("s-2") == []
    delivered = await mail.show("m-1")
    assert (delivered["state"], delivered["delivered_to"], delivered["held_by"]) == ("delivered", "s-1", None)


async def test_an_ack_may_be_repeated(mail: Mail) -> None:
    await mail.send("m-1")
    batch = await mail.pull()
    assert await mail.settle("ack", batch) == await mail.settle("ack", batch)


async def test_a_late_ack_is_taken_while_nobody_took_the_message(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("m-1", "m-2")
    batch = await mail.pull()
    clock.pass_ms(HOLD_MS)
    assert (await mail.settle("ack", batch)).message_ids == ["m-1", "m-2"]
    assert await mail.pulled("s-2") == []


async def test_an_ack_of_a_message_that_another_took_is_refused(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    batch = await mail.pull()
    clock.pass_ms(HOLD_MS)
    other = await mail.pull("s-2")
    with pytest.raises(ReceiptLost):
        await mail.settle("ack", batch)
    assert (await mail.settle("ack", other)).message_ids == ["m-1"]
    with pytest.raises(ReceiptLost):
        await mail.settle("ack", batch)


async def test_what_of_a_batch_another_took_is_told_and_the_rest_delivered(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("m-1", "m-2")
    batch = await mail.pull()
    clock.pass_ms(HOLD_MS)
    await mail.pull("s-2", max=1)
    answer = await mail.settle("ack", batch)
    assert (answer.message_ids, answer.lost) == (["m-2"], ["m-1"])
    assert (await mail.show("m-1"))["held_by"] == "s-2"


async def test_a_former_holder_releases_nothing(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    batch = await mail.pull()
    clock.pass_ms(HOLD_MS)
    await mail.pull("s-2")
    assert (await mail.settle("release", batch)).lost == ["m-1"]
    assert (await mail.show("m-1"))["held_by"] == "s-2"


async def test_naming_a_message_twice_counts_once(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2")
    await mail.pull()
    both = SettleRequest(message_ids=["m-1", "m-1"], session="s-1")
    assert (await mail.broker.release(mail.who, "backend", both)).message_ids == ["m-1"]
    counts = await mail.pending()
    assert (counts.pending, counts.held) == (1, 1)


async def test_unknown_receipts_and_tasks_are_refused(mail: Mail) -> None:
    await mail.send("m-1")
    batch = await mail.pull()
    for verb in ("ack", "release", "seen", "unseen"):
        with pytest.raises(ReceiptUnknown):
            await getattr(mail.broker, verb)(mail.who, "backend", SettleRequest(receipt="nothing"))
        with pytest.raises(ReceiptUnknown):
            await mail.settle(verb, batch, task="frontend")
        with pytest.raises(TaskUnknown) as refusal:
            await mail.settle(verb, batch, task="backed")
        assert "backend" in (refusal.value.hint or "")
    with pytest.raises(TaskUnknown):
        await mail.pull(task="ghost")
    with pytest.raises(TaskUnknown):
        await mail.pending("ghost")


async def test_a_hold_that_ran_out_comes_again_without_a_sweep(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    await mail.pull(hold_ms=1_000)
    clock.pass_ms(999)
    assert ((await mail.pending()).held, await mail.pulled("s-2")) == (1, [])
    clock.pass_ms(1)
    assert (await mail.pending()).pending == 1
    assert await mail.pulled("s-2") == ["m-1"]


async def test_seen_follows_delivered(mail: Mail, clock: FixedClock) -> None:
    await mail.send("m-1")
    await mail.settle("ack", await mail.pull())
    clock.pass_ms(5)
    assert (await mail.settle("seen", "m-1")).message_ids == ["m-1"]
    found = await mail.show("m-1")
    assert (found["state"], found["seen_at_ms"] - found["delivered_at_ms"]) == ("seen", 5)


async def test_seen_in_the_transcript_settles_what_was_never_acked(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("in-flight", "came-back")
    await mail.pull()
    await mail.settle("seen", "in-flight")
    clock.pass_ms(HOLD_MS)
    await mail.broker.sweep(mail.who.namespace)
    await mail.settle("seen", "came-back")
    assert await mail.pulled("s-2") == []
    assert [await mail.state_of(one) for one in ("in-flight", "came-back")] == ["seen", "seen"]


async def test_what_the_model_never_got_comes_again_in_its_place(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2", "m-3")
    batch = await mail.pull(max=2)
    await mail.settle("ack", batch)
    assert (await mail.settle("unseen", "m-1")).message_ids == ["m-1"]
    assert await mail.pulled() == ["m-1", "m-3"]
    assert await mail.state_of("m-2") == "delivered"


async def test_another_session_cannot_say_what_the_model_saw(mail: Mail) -> None:
    await mail.send("m-1")
    await mail.settle("ack", await mail.pull())
    for verb in ("seen", "unseen"):
        assert (await mail.settle(verb, "m-1", session="s-2")).lost == ["m-1"]
    assert await mail.state_of("m-1") == "delivered"


async def test_a_session_that_ends_gives_its_mail_back_in_place(mail: Mail) -> None:
    await mail.send_all("m-1", "m-2", "m-3")
    batch = await mail.pull(max=2)
    assert (await mail.presence("end")).given_back == 2
    with pytest.raises(ReceiptLost):
        await mail.settle("ack", batch)
    assert await mail.pulled("s-2") == ["m-1", "m-2", "m-3"]


async def test_a_message_handed_over_too_often_is_a_dead_letter(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("poison", "behind")
    for _ in range(mail.broker.settings.attempts_max):
        assert (await mail.pulled(max=1)) == ["poison"]
        clock.pass_ms(HOLD_MS)
    assert await mail.pulled() == ["behind"]
    found = await mail.show("poison")
    assert (found["state"], found["reason"], found["attempts"]) == ("dead", "hold_ran_out", 5)
    assert ((await mail.task()).dead, (await mail.pending()).pending) == (1, 0)


async def test_a_dead_letter_is_brought_back_to_its_place(mail: Mail, clock: FixedClock) -> None:
    await mail.send_all("poison", "behind")
    for _ in range(mail.broker.settings.attempts_max):
        await mail.settle("release", await mail.pull(max=1))
    message, pending = await mail.broker.requeue(mail.who, "poison")
    assert (shown(message)["state"], shown(message)["attempts"], pending) == ("queued", 0, 2)
    assert await mail.pulled() == ["poison", "behind"]
    assert (await mail.task()).dead == 0


async def test_a_dead_letter_is_not_settled_by_whoever_had_it_last(mail: Mail, clock: FixedClock) -> None:
    await mail.send("poison")
    for _ in range(mail.broker.settings.attempts_max):
        batch = await mail.pull()
        clock.pass_ms(HOLD_MS)
    await mail.broker.sweep(mail.who.namespace)
    with pytest.raises(ReceiptLost):
        await mail.settle("ack", batch)
    assert await mail.state_of("poison") == "dead"


async def test_counting_never_consumes(mail: Mail) -> None:
    await mail.send("m-1", priority="urgent")
    await mail.send("m-2", priority="low")
    for _ in range(3):
        counts = await mail.pending()
        assert (counts.pending, counts.urgent, counts.low, counts.held) == (2, 1, 1, 0)
    await mail.pull(max=1)
    counts = await mail.pending()
    assert (counts.pending, counts.urgent, counts.held) == (1, 0, 1)
