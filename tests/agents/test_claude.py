"""Claude Code itself, with a scripted model behind it: what the program does with our hooks, and not what we believe it does.

Whether mail was read is asked of the requests that the model got. The last request holds the whole conversation, so what stands
in it once was said once.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from tests.agents.scripted_model import Call, turn
from tests.agents.terminal import ClaudeTerminal, counts, holding, states

MAIN = "begin-the-main-work"
SUB = "begin-the-small-work"
BODY = "The cobalt heron flies at noon."


def bash(command: str) -> Call:
    return Call("Bash", {"command": command, "description": "as it was written"})


def until_written() -> Call:
    """A tool that runs until the host has written this very call into its transcript, which it does a moment later than it acts."""
    word = uuid.uuid4().hex
    return bash(f"for _ in $(seq 500); do grep -qs {word} ~/.claude/projects/*/*.jsonl && break; sleep 0.02; done")


def test_mail_sent_while_a_tool_runs_is_read_at_the_next_step_once(claude: ClaudeTerminal) -> None:
    command, runs, let_go = holding(claude.worktree, "long")
    claude.model.script(MAIN, turn(bash(command)), turn(until_written()), turn("Done."))
    claude.start(MAIN)
    claude.until(runs, "the tool's run")
    message_id = claude.mail(BODY)
    let_go()
    claude.finish()
    assert counts(claude, MAIN, BODY) == [0, 1, 1]
    assert counts(claude, MAIN, f"id {message_id}") == [0, 1, 1]
    assert states(claude, message_id) == ["queued", "in_flight", "delivered", "seen"]


def test_an_urgent_message_stops_the_next_edit_and_not_the_one_after(claude: ClaudeTerminal) -> None:
    file = claude.worktree / "auth.txt"
    file.write_text("door: closed\n")
    sent: list[str] = []
    found: list[str] = []
    edit = Call("Edit", {"file_path": str(file), "old_string": "closed", "new_string": "open"})
    claude.model.script(
        MAIN,
        turn(Call("Read", {"file_path": str(file)})),
        turn(edit, meanwhile=lambda: sent.append(claude.mail(BODY, priority="urgent"))),
        turn(edit, meanwhile=lambda: found.append(file.read_text())),
        turn("Done.", meanwhile=lambda: found.append(file.read_text())),
    )
    claude.run(MAIN)
    assert found == ["door: closed\n", "door: open\n"]
    assert counts(claude, MAIN, BODY) == [0, 0, 1, 1]
    refused = claude.model.of(MAIN)[2].body["messages"][-1]
    assert refused["content"][0]["is_error"] is True
    assert BODY in json.dumps(refused["content"][0])
    assert states(claude, sent[0])[:3] == ["queued", "in_flight", "delivered"]
    assert states(claude, sent[0])[3:] in ([], ["seen"])


def test_with_mail_waiting_at_the_end_of_a_turn_the_agent_goes_on(claude: ClaudeTerminal) -> None:
    sent: list[str] = []

    def think() -> None:
        claude.until(lambda: MAIN in claude.transcript(), "the prompt in the transcript")
        sent.append(claude.mail(BODY))

    claude.model.script(MAIN, turn("Done.", meanwhile=think), turn(until_written()), turn("Done again."))
    claude.run(MAIN)
    assert counts(claude, MAIN, BODY) == [0, 1, 1]
    assert states(claude, sent[0]) == ["queued", "in_flight", "delivered", "seen"]


def test_a_model_that_ends_its_turn_before_the_host_has_written_anything_down_reads_mail_once(
    claude: ClaudeTerminal,
) -> None:
    """The transcript comes late: an answer from before the mail, found in it after the mail, proves nothing."""
    sent: list[str] = []
    claude.model.script(
        MAIN,
        turn(bash("true")),
        turn("Done.", meanwhile=lambda: sent.append(claude.mail(BODY))),
        turn(until_written()),
        turn("Done again."),
    )
    claude.run(MAIN)
    assert counts(claude, MAIN, BODY) == [0, 0, 1, 1]
    assert states(claude, sent[0]) == ["queued", "in_flight", "delivered", "seen"]


@pytest.mark.parametrize("background", [False, True], ids=["foreground", "background"])
def test_a_subagent_leaves_its_parents_mail_alone(claude: ClaudeTerminal, background: bool) -> None:
    of_sub, sub_runs, let_sub_go = holding(claude.worktree, "sub")
    of_main, main_runs, let_main_go = holding(claude.worktree, "main")
    agent = {"description": "a small work", "prompt": SUB, "subagent_type": "general-purpose"}
    claude.model.script(
        MAIN,
        turn(Call("Agent", {**agent, "run_in_background": background})),
        turn(bash(of_main)),
        turn("Done."),
        # The end of a subagent in the background is told to its parent: with the tool's result, or in a turn of its own.
        *([turn("Done with that too.", perhaps=True)] if background else []),
    )
    claude.model.script(SUB, turn(bash(of_sub)), turn(bash("true")), turn("The small work is done."))
    claude.start(MAIN)
    claude.until(sub_runs, "the subagent's tool")
    if background:
        claude.until(main_runs, "the parent's tool")
    message_id = claude.mail(BODY)
    let_sub_go()
    claude.until(lambda: len(claude.model.of(SUB)) == 3, "the subagent's last answer")
    if background:
        assert states(claude, message_id) == ["queued"]
    else:
        claude.until(main_runs, "the parent's tool")
    let_main_go()
    claude.finish()
    assert counts(claude, SUB, BODY) == [0, 0, 0]
    assert counts(claude, SUB, "HELP REQUEST:") == [1, 1, 1]
    assert counts(claude, MAIN, BODY)[:3] == ([0, 0, 1] if background else [0, 1, 1])
    assert counts(claude, MAIN, BODY)[-1] == 1


def test_two_tools_at_once_show_a_message_once(claude: ClaudeTerminal) -> None:
    reads = []
    for name in ("one", "two"):
        file = claude.worktree / name
        file.write_text(name)
        reads.append(Call("Read", {"file_path": str(file)}))
    claude.model.script(MAIN, turn(*reads, meanwhile=lambda: claude.mail(BODY)), turn(bash("true")), turn("Done."))
    claude.run(MAIN)
    assert counts(claude, MAIN, BODY) == [0, 1, 1]
    assert len(claude.hooked("PostToolUse")) == 3


def test_what_a_hook_said_and_the_host_threw_away_comes_again_once(claude: ClaudeTerminal) -> None:
    command, runs, let_go = holding(claude.worktree, "long")
    drop, dropped = claude.home / "drop", claude.home / "dropped"
    too_slow(claude, drop, dropped)
    seen_by_then: list[str] = []
    claude.model.script(
        MAIN,
        turn(bash(command)),
        turn(until_written()),
        turn(until_written()),
        turn("Done.", meanwhile=lambda: seen_by_then.append(claude.message(message_id)["message"]["state"])),
    )
    claude.start(MAIN)
    claude.until(runs, "the tool's run")
    drop.touch()
    message_id = claude.mail(BODY)
    let_go()
    claude.finish()
    assert dropped.exists()
    assert counts(claude, MAIN, BODY) == [0, 0, 1, 1]
    assert seen_by_then == ["seen"]
    assert states(claude, message_id) == [
        *("queued", "in_flight", "delivered"),
        *("queued", "in_flight", "delivered", "seen"),
    ]


def test_what_a_hook_said_behind_another_programs_noise_comes_again_once(claude: ClaudeTerminal) -> None:
    """The host takes it for plain text and drops it, and yet writes down every word that was printed."""
    command, runs, let_go = holding(claude.worktree, "long")
    drop, dropped = claude.home / "drop", claude.home / "dropped"
    wrapped(claude, drop, dropped, before="echo loading...")
    claude.model.script(MAIN, turn(bash(command)), turn(until_written()), turn(until_written()), turn("Done."))
    claude.start(MAIN)
    claude.until(runs, "the tool's run")
    drop.touch()
    message_id = claude.mail(BODY)
    let_go()
    claude.finish()
    assert dropped.exists()
    assert counts(claude, MAIN, BODY) == [0, 0, 1, 1]
    assert states(claude, message_id)[:5] == ["queued", "in_flight", "delivered", "queued", "in_flight"]


def too_slow(claude: ClaudeTerminal, drop: Path, dropped: Path) -> None:
    """After a tool the hook has one second; once it prints in time and does not end, so that the host kills it and forgets its words."""
    wrapped(claude, drop, dropped, after="exec sleep 60", timeout=1)


def wrapped(
    claude: ClaudeTerminal, drop: Path, dropped: Path, *, before: str = ":", after: str = ":", **settings: int
) -> None:
    """The hook after a tool, in a script that once, when it finds `drop`, does something beside."""
    hook = f"{claude.inbox} hook claude --log {claude.log}"
    wrapper = claude.home / "wrapper"
    wrapper.write_text(f"#!/bin/sh\nmv {drop} {dropped} 2>/dev/null || exec {hook}\n{before}\n{hook}\n{after}\n")
    wrapper.chmod(0o755)
    hooks = claude.hooks()
    (entry,) = hooks["hooks"]["PostToolUse"][0]["hooks"]
    entry |= {"command": str(wrapper), **settings}
    claude.settings(hooks)
