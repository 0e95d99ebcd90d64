"""Codex itself, with a scripted model behind it: the strictest reader of what a hook says.

It runs hooks only when the person has trusted them. Here the person's trust is the flag that the program has for automation that
knows its hooks; what happens without it is tested too. Its transcript is not judged, so mail ends as delivered, not as seen.
"""

from __future__ import annotations

from typing import Any

from tests.agents.scripted_model import Call, turn
from tests.agents.terminal import CodexTerminal, counts, holding, states

MAIN = "begin-the-main-work"
BODY = "The cobalt heron flies at noon."


def shell(command: str, **more: Any) -> Call:
    return Call("exec_command", {"cmd": command, **more})


def test_mail_sent_while_a_tool_runs_is_read_at_the_next_step_once(codex: CodexTerminal) -> None:
    command, runs, let_go = holding(codex.worktree, "long")
    codex.model.script(MAIN, turn(shell(command)), turn(shell("true")), turn("Done."))
    codex.start(MAIN)
    codex.until(runs, "the tool's run")
    message_id = codex.mail(BODY)
    let_go()
    codex.finish()
    assert counts(codex, MAIN, BODY) == [0, 1, 1]
    assert counts(codex, MAIN, f"id {message_id}") == [0, 1, 1]
    assert states(codex, message_id) == ["queued", "in_flight", "delivered"]


def test_mail_waiting_at_the_start_is_read_with_the_first_prompt_once(codex: CodexTerminal) -> None:
    codex.mail(BODY)
    codex.model.script(MAIN, turn(shell("true")), turn("Done."))
    codex.run(MAIN)
    assert counts(codex, MAIN, BODY) == [1, 1]
    assert counts(codex, MAIN, "you are the agent of task backend") == [1, 1]


def test_with_mail_waiting_at_the_end_of_a_turn_the_agent_goes_on(codex: CodexTerminal) -> None:
    codex.model.script(
        MAIN,
        turn("Done.", meanwhile=lambda: codex.mail(BODY)),
        turn(shell("true")),
        turn("Done again."),
    )
    codex.run(MAIN)
    assert counts(codex, MAIN, BODY) == [0, 1, 1]


def test_two_tools_at_once_show_a_message_once(codex: CodexTerminal) -> None:
    one, one_runs, let_one_go = holding(codex.worktree, "one")
    two, two_runs, let_two_go = holding(codex.worktree, "two")
    codex.model.script(MAIN, turn(shell(one), shell(two)), turn(shell("true")), turn("Done."))
    codex.start(MAIN)
    codex.until(lambda: one_runs() and two_runs(), "both tools' run")
    codex.mail(BODY)
    let_one_go()
    let_two_go()
    codex.finish()
    assert counts(codex, MAIN, BODY) == [0, 1, 1]
    assert len(codex.hooked("PostToolUse")) == 3


def test_without_the_persons_trust_no_hook_runs_and_no_mail_is_lost(codex: CodexTerminal) -> None:
    codex.trusted = False
    message_id = codex.mail(BODY)
    codex.model.script(MAIN, turn(shell("true")), turn("Done."))
    codex.run(MAIN)
    assert not codex.log.exists()
    assert counts(codex, MAIN, BODY) == [0, 0]
    assert states(codex, message_id) == ["queued"]
