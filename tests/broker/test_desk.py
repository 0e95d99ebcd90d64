"""The desk: a person's mail at a screen, and the sessions such screens have."""

from __future__ import annotations

import time

import pytest

from inboxd.errors import (
    CursorInvalid,
    Forbidden,
    InvalidRequest,
    MessageState,
    SenderForbidden,
    TaskUnknown,
    TokenInvalid,
)
from inboxd.model import Identity, NewToken
from inboxd.store import keys
from tests.conftest import FixedClock, agent_of
from tests.support.mail import Mail, ids

pytestmark = pytest.mark.anyio


async def _forget(mail: Mail) -> None:
    """Making a token names the namespace among all others; the tests share a server, and leave it as it was."""
    await mail.broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, mail.who.namespace)


def as_role(mail: Mail, role: str) -> Mail:
    return Mail(mail.broker, Identity(mail.who.namespace, role, None, role, None))  # type: ignore[arg-type]


async def test_what_nobody_got_is_taken_back_by_its_sender(mail: Mail, backend: Mail) -> None:
    await backend.send("m-1", task="frontend")
    message, pending = await backend.broker.take_back(backend.who, "m-1")
    assert (message.state, message.reason, pending) == (b"superseded", b"taken_back", 0)
    assert await mail.pulled(task="frontend") == []


async def test_what_was_handed_over_stays_handed_over(mail: Mail) -> None:
    await mail.send("m-1")
    await mail.pull()
    with pytest.raises(MessageState):
        await mail.broker.take_back(mail.who, "m-1")


async def test_an_agent_takes_back_only_its_own_and_an_operator_not_the_person_s(
    mail: Mail, backend: Mail, frontend: Mail
) -> None:
    await frontend.send("of-frontend")
    await as_role(mail, "user").send("of-user")
    with pytest.raises(SenderForbidden):
        await backend.broker.take_back(backend.who, "of-frontend")
    with pytest.raises(SenderForbidden):
        await mail.broker.take_back(as_role(mail, "operator").who, "of-user")
    with pytest.raises(Forbidden):
        await mail.broker.take_back(as_role(mail, "observer").who, "of-user")
    await mail.broker.take_back(as_role(mail, "user").who, "of-frontend")
    await mail.broker.take_back(as_role(mail, "user").who, "of-user")
    assert (await mail.pending()).pending == 0


async def test_a_person_reads_in_whatever_order(mail: Mail, backend: Mail) -> None:
    await mail.declare("user")
    for number in range(3):
        await backend.send(f"m-{number}", task="user")
    person = as_role(mail, "user")
    assert await person.broker.accept(person.who, ["m-2", "m-0"]) == (["m-2", "m-0"], [])
    assert (await person.show("m-2"))["delivered_to"] == "dashboard"
    assert await person.pulled(task="user") == ["m-1"]
    assert await person.broker.accept(person.who, ["m-1"]) == ([], ["m-1"])


async def test_nobody_but_the_person_reads_the_person_s_mail_away(mail: Mail, backend: Mail) -> None:
    for who in (backend, as_role(mail, "operator"), as_role(mail, "observer")):
        with pytest.raises(Forbidden):
            await who.broker.accept(who.who, ["m-1"])


async def found(mail: Mail, **wanted: object) -> list[str]:
    rows, _ = await mail.broker.search(mail.who, **wanted)  # type: ignore[arg-type]
    return ids(rows)


async def test_a_search_finds_words_whatever_their_case_and_alphabet(mail: Mail) -> None:
    await mail.send("german", body="Die Prüfung LÄUFT")
    await mail.send("russian", body="Готово: ТЕСТЫ зелёные")
    await mail.send("quoted", body='say "hi" to C:\\Temp\nplease')
    await mail.send("subject", body="", subject="Deploy window")
    await mail.send("summary", summary="all is DEPLOYED", body="x")
    assert await found(mail, text="prüfung läuft") == ["german"]
    assert await found(mail, text="PRÜFUNG") == ["german"]
    assert await found(mail, text="тесты") == ["russian"]
    assert await found(mail, text='"HI" to c:\\temp') == ["quoted"]
    assert await found(mail, text="temp\nplease") == ["quoted"]
    assert await found(mail, text="deploy") == ["summary", "subject"]
    assert await found(mail, text="%d+.*[") == []


async def test_a_search_looks_at_what_was_said_and_not_at_how_it_is_stored(mail: Mail) -> None:
    await mail.send("m-1", body="hello", payload={"secret": "needle"})
    for word in ("message_id", "priority", "needle", "operator"):
        assert await found(mail, text=word) == []


async def test_a_search_is_narrowed_by_sender_task_and_time(mail: Mail, backend: Mail, clock: FixedClock) -> None:
    began = clock.at_ms
    await mail.send("m-1")
    clock.pass_ms(1_000)
    await backend.send("m-2", task="frontend")
    assert await found(mail, sender="task:backend") == ["m-2"]
    assert await found(mail, task="frontend") == ["m-2"]
    assert await found(mail, task="backend") == ["m-2", "m-1"]
    assert await found(mail, from_ms=began + 500) == ["m-2"]
    assert await found(mail, to_ms=began + 500) == ["m-1"]
    with pytest.raises(TaskUnknown):
        await found(mail, task="ghost")


async def test_an_agent_searches_its_own_mail_alone(mail: Mail, backend: Mail) -> None:
    await mail.send("mine")
    await mail.send("theirs", task="frontend")
    assert await found(backend) == ["mine"]
    assert await found(backend, task="backend") == ["mine"]
    with pytest.raises(Forbidden):
        await found(backend, task="frontend")


async def test_pages_of_a_search_show_every_message_once(mail: Mail) -> None:
    for number in range(25):
        await mail.send(
            f"m-{number}", body="word" if number % 2 else "other", task="backend" if number % 3 else "frontend"
        )
    seen: list[str] = []
    cursor = None
    while True:
        rows, cursor = await mail.broker.search(mail.who, text="word", limit=5, cursor=cursor)
        seen += ids(rows)
        if cursor is None:
            break
    assert seen == [f"m-{number}" for number in range(24, -1, -1) if number % 2]
    with pytest.raises(CursorInvalid):
        await mail.broker.search(mail.who, cursor="x")


async def test_ten_thousand_messages_are_searched_well_within_a_second(mail: Mail) -> None:
    names = [f"t-{number}" for number in range(50)]
    await mail.declare(*names)
    for number in range(10_000):
        await mail.send(f"m-{number}", task=names[number % 50], body=f"message {number} " + "word " * 40)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        assert await found(mail, text="MESSAGE 17 word") == ["m-17"]
        times.append(time.perf_counter() - began)
    assert min(times) < 0.7


async def test_a_session_is_as_strong_as_who_opened_it_and_ends(mail: Mail, clock: FixedClock) -> None:
    broker = mail.broker
    for role in ("user", "admin", "operator", "observer"):
        made = await broker.open_session(as_role(mail, role).who)
        assert (made.role, made.task) == (role, None)
        assert made.expires_at_ms == clock.at_ms + broker.settings.session_ms
        assert (await broker.identify(made.token)).role == role
        clock.pass_ms(broker.settings.session_ms)
        with pytest.raises(TokenInvalid):
            await broker.identify(made.token)
    with pytest.raises(Forbidden):
        await broker.open_session(agent_of(mail.who, "backend"))
    await _forget(mail)


async def test_a_code_opens_one_session_or_makes_one_token_but_not_both(mail: Mail) -> None:
    broker = mail.broker
    code = await broker.offer_login(mail.who.namespace)
    made = await broker.open_session_by_code(code)
    assert (made.role, made.expires_at_ms is not None) == ("user", True)
    with pytest.raises(TokenInvalid):
        await broker.open_session_by_code(code)
    with pytest.raises(TokenInvalid):
        await broker.log_in(code)
    code = await broker.offer_login(mail.who.namespace)
    await broker.log_in(code)
    with pytest.raises(TokenInvalid):
        await broker.open_session_by_code(code)
    await _forget(mail)


async def test_a_closed_session_opens_nothing(mail: Mail) -> None:
    broker = mail.broker
    made = await broker.open_session(as_role(mail, "user").who)
    await broker.close_session(await broker.identify(made.token))
    with pytest.raises(TokenInvalid):
        await broker.identify(made.token)
    await _forget(mail)


async def test_closing_a_session_ends_no_other_kind_of_token(mail: Mail) -> None:
    broker = mail.broker
    made = await broker.create_token(mail.who, NewToken(role="user"))
    with pytest.raises(InvalidRequest):
        await broker.close_session(await broker.identify(made.token))
    assert (await broker.identify(made.token)).role == "user"
    await _forget(mail)


async def test_all_sessions_of_a_role_are_closed_at_once_and_no_others(mail: Mail) -> None:
    broker = mail.broker
    mine = [await broker.open_session(as_role(mail, "user").who) for _ in range(3)]
    other = await broker.open_session(as_role(mail, "observer").who)
    kept = await broker.create_token(mail.who, NewToken(role="user"))
    assert await broker.close_sessions(await broker.identify(mine[0].token)) == 3
    for made in mine:
        with pytest.raises(TokenInvalid):
            await broker.identify(made.token)
    for made in (other, kept):
        await broker.identify(made.token)
    await _forget(mail)


async def test_the_log_is_read_backwards_and_not_by_agents(mail: Mail, backend: Mail) -> None:
    await mail.send_all("m-1", "m-2", "m-3")
    last = await mail.broker.last_event(mail.who)
    events = await mail.broker.log(mail.who, limit=2)
    assert [(event["id"], event["message_id"]) for event in events] == [(last, "m-3"), (last - 1, "m-2")]
    assert [event["id"] for event in await mail.broker.log(mail.who, after=last - 1)] == [last]
    assert [event["id"] for event in await mail.broker.log(mail.who, before=last, limit=1)] == [last - 1]
    with pytest.raises(Forbidden):
        await backend.broker.log(backend.who)


async def test_an_overview_has_every_task_once_most_urgent_first(mail: Mail) -> None:
    await mail.declare(*(f"t-{number:03d}" for number in range(250)))
    await mail.send("m-1", task="t-200")
    await mail.send("m-2", task="t-100", priority="urgent")
    tasks = await mail.broker.overview(mail.who)
    assert [task.task for task in tasks[:2]] == ["t-100", "t-200"]
    assert {task.task for task in tasks} == {
        "backend",
        "frontend",
        "user",
        *(f"t-{number:03d}" for number in range(250)),
    }
    assert len(tasks) == 253
    assert [task.task for task in await mail.broker.overview(mail.who, ["t-200", "ghost"])] == ["t-200"]
