"""Asking: mail that is asked for comes once, an answer is found whenever it came, and what nobody wants goes back."""

from __future__ import annotations

import asyncio

import pytest

from inboxd.broker.asking import CHECKED_MAX, REPEAT_MS, message_id_of
from inboxd.errors import Forbidden, InvalidRequest
from inboxd.model import NewMessage, ReplyRequest
from tests.conftest import FixedClock
from tests.support.mail import Mail

pytestmark = pytest.mark.anyio

CALL = "0" * 40


async def checked(mail: Mail, call_id: str | None = None) -> list[str]:
    found = await mail.broker.check(mail.who, "backend", session="s-1", call_id=call_id)
    return [message_id_of(message) for message in found.messages]


async def answer(mail: Mail, about: str, body: str, message_id: str) -> None:
    await mail.broker.answer(mail.who, about, ReplyRequest(message_id=message_id, body=body))


async def waited(mail: Mail, message_id: str, wait_ms: int = 0) -> tuple[str | None, str | None]:
    found = await mail.broker.wait_for_reply(mail.who, "backend", message_id, wait_ms=wait_ms, session="s-1")
    return found.message and message_id_of(found.message), found.receipt


async def test_the_same_call_gets_the_same_mail_while_it_is_young(mail: Mail, backend: Mail, clock: FixedClock) -> None:
    await mail.send_all("m-1", "m-2")
    assert await checked(backend, "c-1") == ["m-1", "m-2"]
    await mail.send("m-3")
    clock.pass_ms(REPEAT_MS - 1)
    assert await checked(backend, "c-1") == ["m-1", "m-2"]
    clock.pass_ms(2)
    assert await checked(backend, "c-1") == ["m-3"]
    assert await checked(backend, "c-2") == []


async def test_another_sessions_call_of_that_name_is_another_call(mail: Mail, backend: Mail) -> None:
    await mail.send("m-1")
    assert await checked(backend, "c-1") == ["m-1"]
    await mail.send("m-2")
    other = await mail.broker.check(backend.who, "backend", session="s-2", call_id="c-1")
    assert [message_id_of(message) for message in other.messages] == ["m-2"]


async def test_a_call_that_died_before_it_delivered_is_made_again_with_its_mail(
    mail: Mail, backend: Mail, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mail.send("m-1")

    async def dies(*_: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as broken:
        broken.setattr(backend.broker, "ack_all", dies)
        with pytest.raises(asyncio.CancelledError):
            await checked(backend, "c-1")
    assert await checked(backend, "c-2") == []
    assert await checked(backend, "c-1") == ["m-1"]
    clock.pass_ms(60_000)
    assert await checked(backend, "c-3") == []


async def test_what_found_no_room_was_never_handed_over(mail: Mail, backend: Mail) -> None:
    for number in range(CHECKED_MAX):
        # Every line of it takes three units where it is shown, and one where it is stored.
        await mail.broker.send(mail.who, "backend", NewMessage(message_id=f"m-{number:02}", body="\n" * 700))
    first = await checked(backend)
    assert 1 <= len(first) < CHECKED_MAX
    shown, steps = await mail.broker.show(mail.who, f"m-{len(first):02}")
    assert (shown.state, shown.attempts) == (b"queued", b"0")
    assert [state for _, state, _ in steps][-1] == "queued"
    taken = list(first)
    while more := await checked(backend):
        taken += more
    assert taken == [f"m-{number:02}" for number in range(CHECKED_MAX)]


async def test_only_who_may_act_for_a_task_asks_for_its_mail(mail: Mail, frontend: Mail) -> None:
    await mail.send("m-1")
    with pytest.raises(Forbidden):
        await frontend.broker.check(frontend.who, "backend", session="s-1")
    with pytest.raises(Forbidden):
        await frontend.broker.check_again(frontend.who, "backend", session="s-1")
    with pytest.raises(Forbidden):
        await frontend.broker.wait_for_reply(frontend.who, "backend", "m-1", wait_ms=0, session="s-1")


async def test_an_answer_is_found_among_other_mail_and_alone_is_taken(
    mail: Mail, backend: Mail, frontend: Mail
) -> None:
    await backend.send("q-1", task="frontend")
    await mail.send_all(*(f"m-{number:03}" for number in range(120)))
    await answer(frontend, "q-1", "yes", "a-1")
    await answer(frontend, "q-1", "no, wait", "a-2")
    await mail.send_all("m-200")
    found, receipt = await waited(backend, "q-1")
    assert (found, receipt is not None) == ("a-1", True)
    assert (await backend.pending()).pending == 122
    assert await backend.broker.hand_on(backend.who, "backend", "s-1", "a-1", receipt, None) is True
    assert (await waited(backend, "q-1"))[0] == "a-2"


async def test_mail_that_comes_while_one_waits_is_looked_at_and_left(mail: Mail, backend: Mail, frontend: Mail) -> None:
    await backend.send("q-1", task="frontend")
    waiting = asyncio.create_task(waited(backend, "q-1", 20_000))
    await mail.send("m-1")
    await answer(frontend, "q-1", "yes", "a-1")
    assert (await waiting)[0] == "a-1"
    assert (await backend.pending()).pending == 1


async def test_what_a_call_waited_for_goes_back_when_the_call_was_called_off(
    mail: Mail, backend: Mail, frontend: Mail
) -> None:
    await backend.send("q-1", task="frontend")
    await answer(frontend, "q-1", "yes", "a-1")
    _, receipt = await waited(backend, "q-1")
    await backend.broker.call_off(backend.who, CALL)
    assert await backend.broker.hand_on(backend.who, "backend", "s-1", "a-1", receipt, CALL) is False
    assert (await backend.pending()).pending == 1
    # Called off is one call, and not those that follow.
    _, receipt = await waited(backend, "q-1")
    assert await backend.broker.hand_on(backend.who, "backend", "s-1", "a-1", receipt, CALL) is True
    assert (await backend.pending()).pending == 0


async def test_what_was_said_to_oneself_is_said_on_to_the_other(mail: Mail, backend: Mail, frontend: Mail) -> None:
    await backend.send("q-1", task="frontend")
    await answer(backend, "q-1", "and one more thing", "q-2")
    shown, _ = await mail.broker.show(mail.who, "q-2")
    assert b'"task":"frontend"' in shown.doc
    await mail.broker.send(mail.who, "backend", NewMessage(message_id="s-1", body="x", sender="system"))
    with pytest.raises(InvalidRequest):
        await answer(backend, "s-1", "thanks", "a-9")
