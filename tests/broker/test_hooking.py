"""Hooks: what is said at which boundary, in the host's own words, and what becomes of the mail."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from inboxd.broker.hooking import HookAnswer
from inboxd.errors import InvalidRequest
from inboxd.model import HookExtras, NewProbe, NewTask, PullRequest, SettleRequest
from inboxd.settings import Settings
from tests.conftest import FixedClock
from tests.support.mail import Mail

pytestmark = pytest.mark.anyio

HOOK_HOLD_MS = Settings().hook_hold_ms


class Agent:
    """A session of the task `backend` in some host, whose hooks run."""

    def __init__(self, mail: Mail, host: str = "claude", session: str = "s-1") -> None:
        self._mail, self._host, self._session = mail, host, session

    async def passes(
        self, event: str, *, ack: bool = False, inbox: dict[str, Any] | None = None, **said: Any
    ) -> HookAnswer | None:
        extras = HookExtras.model_validate({"pull_id": uuid.uuid4().hex, **(inbox or {})})
        given = {"hook_event_name": event, "session_id": self._session, **said}
        return await self._mail.broker.hook(self._mail.who, self._host, given, extras, ack=ack)

    async def acks(self, answer: HookAnswer | None) -> None:
        assert answer is not None
        assert answer.receipt is not None
        await self._mail.broker.ack(self._mail.who, answer.task, SettleRequest(receipt=answer.receipt))


@pytest.fixture
def agent(backend: Mail) -> Agent:
    return Agent(backend)


def said(answer: HookAnswer | None) -> dict[str, Any]:
    assert answer is not None
    found: dict[str, Any] = json.loads(answer.body)
    return found


def context(answer: HookAnswer | None) -> str:
    return str(said(answer)["hookSpecificOutput"]["additionalContext"])


async def test_with_no_mail_nothing_is_said(agent: Agent) -> None:
    for event in ("PostToolUse", "UserPromptSubmit", "PreToolUse", "Stop", "SubagentStop", "SomethingNew"):
        assert await agent.passes(event, agent_type="explore") is None


async def test_mail_arrives_after_the_tool_once(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1", body="do not touch auth.ts", sender="user")
    first = await agent.passes("PostToolUse")
    assert "| do not touch auth.ts" in context(first)
    assert await agent.passes("PostToolUse") is None
    await agent.acks(first)
    assert await mail.state_of("m-1") == "delivered"
    assert await agent.passes("PostToolUse") is None


async def test_a_hook_that_died_before_it_printed_loses_nothing(mail: Mail, agent: Agent, clock: FixedClock) -> None:
    await mail.send("m-1")
    await agent.passes("PostToolUse")
    clock.pass_ms(HOOK_HOLD_MS)
    again = context(await agent.passes("PostToolUse"))
    assert "| m-1" in again
    assert "redelivered" in again


async def test_what_the_transcript_shows_is_seen_though_the_ack_never_came(
    mail: Mail, agent: Agent, clock: FixedClock
) -> None:
    await mail.send("m-1")
    first = await agent.passes("PostToolUse")
    assert first is not None
    clock.pass_ms(HOOK_HOLD_MS)
    verdict = {"receipt": first.receipt, "message_ids": ["m-1"]}
    assert await agent.passes("PostToolUse", inbox={"seen": [verdict]}) is None
    assert await mail.state_of("m-1") == "seen"


async def test_what_the_transcript_does_not_show_comes_again_though_it_was_acked(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1")
    first = await agent.passes("PostToolUse")
    await agent.acks(first)
    verdict = {"receipt": first.receipt if first else "", "message_ids": ["m-1"]}
    again = await agent.passes("PostToolUse", inbox={"unseen": [verdict]})
    assert "| m-1" in context(again)
    # The same report from a hook that ran beside it must not bring it a third time.
    assert await agent.passes("PostToolUse", inbox={"unseen": [verdict]}) is None


async def test_what_is_in_doubt_does_not_come_twice(mail: Mail, agent: Agent, clock: FixedClock) -> None:
    await mail.send("m-1")
    first = await agent.passes("PostToolUse")
    assert first is not None
    for _ in range(3):
        clock.pass_ms(HOOK_HOLD_MS + 1)
        await mail.broker.sweep(mail.who.namespace)
        assert await agent.passes("PostToolUse", inbox={"doubt": [first.receipt]}) is None
    clock.pass_ms(HOOK_HOLD_MS + 1)
    assert "| m-1" in context(await agent.passes("PostToolUse"))


async def test_urgent_mail_stops_the_next_tool_call_and_not_the_one_after(mail: Mail, agent: Agent) -> None:
    await mail.send("m-0")
    assert await agent.passes("PreToolUse") is None
    await mail.send("m-1", priority="urgent", body="not auth.ts")
    gate = await agent.passes("PreToolUse")
    output = said(gate)["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    assert "| not auth.ts" in output["permissionDecisionReason"]
    await agent.acks(gate)
    assert await agent.passes("PreToolUse") is None
    assert "| m-0" in context(await agent.passes("PostToolUse"))


async def test_the_same_urgent_message_never_stops_a_second_call(mail: Mail, agent: Agent, clock: FixedClock) -> None:
    await mail.send("m-1", priority="urgent")
    assert await agent.passes("PreToolUse") is not None
    clock.pass_ms(HOOK_HOLD_MS)
    assert await agent.passes("PreToolUse") is None
    assert "| m-1" in context(await agent.passes("PostToolUse"))


async def test_a_host_that_cannot_be_stopped_is_not(mail: Mail, backend: Mail) -> None:
    await mail.send("m-1", priority="urgent")
    codex = Agent(backend, "codex")
    assert await codex.passes("PreToolUse", turn_id="t") is None
    assert "| m-1" in context(await codex.passes("PostToolUse", turn_id="t"))


async def test_the_turn_goes_on_with_mail_within_the_hosts_cap(mail: Mail, agent: Agent) -> None:
    continued = 0
    for turn in range(12):
        await mail.send(f"m-{turn}")
        answer = await agent.passes("Stop", stop_hook_active=turn > 0)
        if answer is None:
            break
        assert f"| m-{turn}" in context(answer)
        await agent.acks(answer)
        continued += 1
    assert continued == 7
    assert (await mail.pending()).pending == 1
    # A turn that the person started counts from nothing again.
    assert await agent.passes("Stop", stop_hook_active=False) is not None


async def test_the_parents_mail_is_left_alone_inside_a_subagent(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1", priority="urgent")
    for event in ("PreToolUse", "PostToolUse", "UserPromptSubmit"):
        assert await agent.passes(event, agent_id="a-1", agent_type="explore") is None
    assert (await mail.pending()).pending == 1


async def test_gemini_subagents_are_known_by_what_stands_around_them(mail: Mail, backend: Mail) -> None:
    gemini = Agent(backend, "gemini")
    await mail.send("m-1")
    await gemini.passes("BeforeTool", tool_name="invoke_agent")
    assert await gemini.passes("AfterTool", tool_name="read_file") is None
    assert "| m-1" in context(await gemini.passes("AfterTool", tool_name="invoke_agent"))


async def test_a_subagents_call_for_help_becomes_mail_for_its_coordinator_once(mail: Mail, agent: Agent) -> None:
    for _ in range(2):
        answer = await agent.passes(
            "SubagentStop",
            agent_id="a-1",
            agent_type="explore",
            last_assistant_message="done\nHELP REQUEST: which port?",
        )
        assert answer is None
    text = context(await agent.passes("PostToolUse"))
    assert "| which port?" in text
    assert text.count("which port?") == 1


async def test_a_subagents_unread_mail_for_help_is_told_to_its_coordinator_once(
    mail: Mail, backend: Mail, agent: Agent
) -> None:
    await backend.send("m-read", task="frontend", kind="help_request", body="which colour?")
    await mail.broker.pull(mail.who, "frontend", PullRequest(pull_id="p-1", session="s-2", ack=True))
    await backend.send("m-asked", task="frontend", kind="help_request", body="which port?")
    await backend.send("m-said", task="frontend", kind="message", body="by the way")
    await backend.send("m-here", kind="help_request", body="which host?")
    for _ in range(2):
        assert await agent.passes("SubagentStop", agent_id="a-1", agent_type="explore") is None
    answer = await agent.passes("PostToolUse")
    text = context(answer)
    assert "A subagent (explore) ended, and frontend has not read this call for help in your name (m-asked)" in text
    assert [text.count(words) for words in ("which port?", "which host?", "which colour?", "by the way")] == [
        1,
        1,
        0,
        0,
    ]
    await agent.acks(answer)
    await agent.passes("SubagentStop", agent_id="a-2", agent_type="explore")
    assert await agent.passes("PostToolUse") is None
    assert (await mail.broker.pending(mail.who, "frontend")).pending == 2


async def test_a_session_that_starts_is_told_who_it_is_and_gets_its_mail(mail: Mail, agent: Agent) -> None:
    await mail.broker.link(mail.who, "backend", ["frontend"])
    await mail.send("m-1")
    answer = await agent.passes("SessionStart", source="startup", inbox={"machine": "laptop"})
    text = context(answer)
    assert "task backend" in text
    assert "frontend" in text
    assert "| m-1" in text
    task = await mail.task()
    assert (task.state, task.session, task.machine, task.host) == ("active", "s-1", "laptop", "claude")


async def test_a_session_that_ends_gives_back_what_it_held(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1")
    assert await agent.passes("PostToolUse") is not None
    assert await agent.passes("SessionEnd", reason="exit") is None
    assert await mail.state_of("m-1") == "queued"
    assert (await mail.task()).state == "idle"


async def test_a_permission_wait_is_shown_as_waiting_and_ends_with_the_next_sign(mail: Mail, agent: Agent) -> None:
    await agent.passes("Notification", message="Claude needs your permission")
    task = await mail.task()
    assert (task.state, task.waits_for_person) == ("waiting", "Claude needs your permission")
    await agent.passes("PostToolUse")
    assert (await mail.task()).state == "active"


async def test_remind_mode_says_only_that_mail_waits(mail: Mail, agent: Agent) -> None:
    remind = {"mode": "remind"}
    assert await agent.passes("PostToolUse", inbox=remind) is None
    await mail.send("m-1", body="secret")
    text = context(await agent.passes("PostToolUse", inbox=remind))
    assert "1 message waits" in text
    assert "check_inbox" in text
    assert "secret" not in text
    assert (await mail.pending()).pending == 1


async def test_what_finds_no_room_stays_queued_in_order_and_uncounted(mail: Mail, agent: Agent) -> None:
    names = [f"m-{i}" for i in range(6)]
    for name in names:
        await mail.send(name, body="line\n" * 700)
    shown: list[str] = []
    while answer := await agent.passes("PostToolUse"):
        assert len(context(answer)) <= 10_000
        shown += answer.message_ids
        await agent.acks(answer)
    assert shown == names
    assert {(await mail.show(name))["attempts"] for name in names} == {1}


async def test_a_body_larger_than_the_host_takes_is_cut_with_the_way_to_the_rest(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1", body="x" * 50_000)
    text = context(await agent.passes("PostToolUse"))
    assert len(text) <= 10_000
    assert "inbox show m-1" in text


async def test_a_host_that_calls_by_itself_gets_its_mail_delivered_at_once(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1")
    answer = await agent.passes("PostToolUse", ack=True)
    assert answer is not None
    assert answer.receipt is None
    assert await mail.state_of("m-1") == "delivered"


async def test_a_retry_of_the_same_hook_says_the_same(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1")
    first = await agent.passes("PostToolUse", inbox={"pull_id": "one"})
    assert await agent.passes("PostToolUse", inbox={"pull_id": "one"}) == first


async def test_two_sessions_of_one_task_never_get_the_same_message(mail: Mail, backend: Mail) -> None:
    await mail.send("m-1")
    answers = [await Agent(backend, session=name).passes("PostToolUse") for name in ("s-1", "s-2")]
    assert [answer is not None for answer in answers] == [True, False]


async def test_the_machines_own_token_needs_only_a_name(mail: Mail) -> None:
    operator = Mail(mail.broker, mail.who._replace(role="operator"))
    assert await Agent(operator).passes("PostToolUse", inbox={"task": "brand-new"}) is None
    assert (await mail.task("brand-new")).state == "active"
    with pytest.raises(InvalidRequest):
        await Agent(operator).passes("PostToolUse")


async def test_a_probe_is_answered_without_touching_mail(mail: Mail, backend: Mail) -> None:
    await mail.send("m-1")
    await backend.broker.probe(backend.who, "backend", NewProbe(session="doctor-1", nonce="abcdef0123456789"))
    doctor = Agent(backend, session="doctor-1")
    assert "abcdef0123456789" in context(await doctor.passes("PostToolUse"))
    assert await doctor.passes("PostToolUse") is None
    assert (await mail.pending()).pending == 1
    assert (await mail.task()).state == "queued"


async def test_an_idle_session_is_woken_by_mail(mail: Mail, agent: Agent) -> None:
    await mail.send("m-1")
    answer = await agent.passes("Stop", inbox={"mode": "wake", "linger_ms": 50})
    assert answer is not None
    assert answer.wakes
    assert b"| m-1" in answer.body


async def test_an_odd_session_id_is_a_session_all_the_same(mail: Mail, backend: Mail) -> None:
    await mail.broker.declare(mail.who, NewTask(task="backend"))
    for session in ("", "ü\n", "x" * 500, "~nobody"):
        assert await Agent(backend, session=session).passes("PostToolUse") is None
