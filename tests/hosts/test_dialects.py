"""Each host's answer, byte for byte, at each of its moments; and that no input, however odd, is more than a host can bear.

golden/<host>.json holds the moments, golden/<host>.settings.json what attaching writes. They say what was observed of the real
programs: when one of them changes, so does its golden file, by hand.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inboxd.hosts import HOSTS, Boundary, HookInput, Host, read_input

GOLDEN = Path(__file__).parent / "golden"
TEXT = (GOLDEN / "text.txt").read_text(encoding="utf-8").removesuffix("\n")

KEYS_OF_CODEX = {"context": {"hookSpecificOutput"}, "continuation": {"decision", "reason"}}
FIELDS = ["hook_event_name", *(field.name for field in fields(HookInput) if field.name != "event")]

EVENTS = sorted({event for host in HOSTS.values() for event in host.events} | {"PreCompact", ""})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)
ODD = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), st.sampled_from(EVENTS) | JSON, max_size=8)
INPUTS = ODD | st.builds(lambda odd, event: odd | {"hook_event_name": event}, ODD, st.sampled_from(EVENTS))
hosts = pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))


def moments() -> list[Any]:
    return [
        pytest.param(host, moment, id=f"{name}-{index}-{moment['input']['hook_event_name']}")
        for name, host in HOSTS.items()
        for index, moment in enumerate(json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize(("host", "moment"), moments())
def test_a_moment_is_the_boundary_it_should_be_and_is_answered_in_the_hosts_own_words(
    host: Host, moment: dict[str, Any]
) -> None:
    boundary = host.boundary_of(read_input(moment["input"]))
    kind = host.kind_of(boundary)

    assert (boundary, kind) == (moment["boundary"], moment["kind"])
    if kind is not None:
        answer = host.answer(boundary, moment["input"]["hook_event_name"], TEXT, kind=kind)
        assert answer == moment["stdout"].encode()


@hosts
def test_every_event_of_a_host_has_a_golden_answer(host: Host) -> None:
    told = {moment["input"]["hook_event_name"] for moment in json.loads((GOLDEN / f"{host.name}.json").read_text())}
    assert set(host.events) <= told


@hosts
def test_attaching_writes_the_hosts_own_configuration(host: Host) -> None:
    expected = json.loads((GOLDEN / f"{host.name}.settings.json").read_text())
    assert host.settings_entry(f"inbox hook {host.name}") == expected


@hosts
def test_only_events_that_are_understood_are_hooked(host: Host) -> None:
    assert set(host.hooked) <= set(host.events)


@hosts
def test_nothing_but_its_own_kind_can_be_said_at_a_boundary(host: Host) -> None:
    for event, boundary in host.events.items():
        for kind in ("context", "continuation", "gate"):
            if kind != host.kind_of(boundary):
                with pytest.raises(ValueError, match="takes no"):
                    host.answer(boundary, event, TEXT, kind=kind)


@hosts
def test_an_answer_names_the_event_it_answers(host: Host) -> None:
    with pytest.raises(ValueError, match="takes no"):
        host.answer(Boundary.AFTER_TOOL, "SessionStart", TEXT, kind="context")


def test_prompts_and_finished_tools_are_never_blocked_on_any_host() -> None:
    for host in HOSTS.values():
        for event, boundary in host.events.items():
            if boundary in (Boundary.PROMPT, Boundary.AFTER_TOOL):
                assert host.kind_of(boundary) == "context"
                assert b"block" not in host.answer(boundary, event, "", kind="context")


def test_only_claude_refuses_a_tool_call() -> None:
    assert [host.name for host in HOSTS.values() if host.gates] == ["claude"]


def test_time_outs_are_ten_seconds_in_everybodys_own_unit() -> None:
    assert {name: (host.timeout, host.timeout_unit) for name, host in HOSTS.items()} == {
        "claude": (10, "s"),
        "codex": (10, "s"),
        "gemini": (10_000, "ms"),
        "qwen": (10_000, "ms"),
        "copilot": (10, "s"),
    }


def test_limits_stay_under_what_was_observed() -> None:
    assert {name: (host.context_chars_max, host.continuations_max) for name, host in HOSTS.items()} == {
        "claude": (9_000, 7),
        "codex": (8_000, 10),
        "gemini": (8_000, 10),
        "qwen": (8_000, 7),
        "copilot": (8_000, 7),
    }


@pytest.mark.parametrize(
    ("event", "tool", "hold"),
    [
        ("BeforeTool", "invoke_agent", "begins"),
        ("AfterTool", "invoke_agent", "ends"),
        ("BeforeTool", "write_file", None),
        ("AfterTool", "write_file", None),
        ("AfterAgent", "invoke_agent", None),
        ("BeforeTool", None, None),
    ],
)
def test_gemini_holds_mail_while_a_subagent_runs(event: str, tool: str | None, hold: str | None) -> None:
    seen = read_input({"hook_event_name": event, "tool_name": tool})
    assert HOSTS["gemini"].hold_of(seen) == hold
    assert HOSTS["claude"].hold_of(seen) is None


def test_a_field_of_the_wrong_type_is_a_field_that_is_not_there() -> None:
    odd = {name: ["x"] for name in FIELDS}
    assert read_input(odd) == read_input({})
    assert read_input({"stop_hook_active": 1, "timestamp": True}) == read_input({})
    assert read_input({"timestamp": 1.5}).timestamp == 1


@hosts
@settings(max_examples=60, deadline=None)
@given(told=INPUTS, text=st.text(max_size=40))
def test_any_json_object_is_borne_and_any_answer_is_one_json_object(
    host: Host, told: dict[str, Any], text: str
) -> None:
    seen = read_input(told)
    boundary = host.boundary_of(seen)
    kind = host.kind_of(boundary)
    host.hold_of(seen)
    if kind is None:
        return
    assert seen.event is not None
    answer = json.loads(host.answer(boundary, seen.event, text, kind=kind))
    assert isinstance(answer, dict)
    if host.name == "codex":
        assert set(answer) == KEYS_OF_CODEX[kind]
        if kind == "context":
            assert set(answer["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
            assert answer["hookSpecificOutput"]["hookEventName"] == seen.event
