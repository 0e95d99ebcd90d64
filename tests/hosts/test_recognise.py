"""Who speaks: the host that was named, unless its own input proves another."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inboxd.errors import InvalidRequest
from inboxd.hosts import HOSTS, recognise
from tests.hosts.test_dialects import INPUTS

CLAUDE = {"hook_event_name": "PostToolUse", "transcript_path": "/home/a/.claude/projects/x.jsonl"}
CODEX = {"hook_event_name": "PostToolUse", "transcript_path": None, "turn_id": "t-1"}
GEMINI = {
    "hook_event_name": "AfterTool",
    "transcript_path": "/home/a/.gemini/x.json",
    "timestamp": "2026-11-01T00:00:00Z",
}
QWEN = {
    "hook_event_name": "PostToolUse",
    "transcript_path": "/home/a/.qwen/x.jsonl",
    "timestamp": "2026-11-01T00:00:00Z",
}
COPILOT = {"hook_event_name": "PostToolUse", "timestamp": 1_793_000_000_000}
START = {"hook_event_name": "SessionStart"}


@pytest.mark.parametrize(
    ("named", "given_input", "expected"),
    [
        (None, CLAUDE, "claude"),
        (None, CODEX, "codex"),
        (None, GEMINI, "gemini"),
        (None, QWEN, "qwen"),
        (None, COPILOT, "copilot"),
        (None, {}, "claude"),
        ("codex", CODEX, "codex"),
        ("codex", START, "codex"),
        ("gemini", START | {"timestamp": "now", "transcript_path": "/home/a/.gemini/x.json"}, "gemini"),
        ("gemini", START | {"timestamp": "now", "transcript_path": ""}, "gemini"),
        ("copilot", COPILOT | {"transcript_path": "/home/a/.copilot/x.jsonl"}, "copilot"),
        ("claude", COPILOT, "copilot"),
        ("claude", CODEX, "codex"),
        ("claude", GEMINI, "gemini"),
        ("claude", QWEN, "qwen"),
        ("codex", QWEN, "qwen"),
        ("codex", GEMINI | {"turn_id": "t-1"}, "gemini"),
        ("qwen", CLAUDE, "qwen"),
        ("qwen", QWEN | {"transcript_path": "C:\\Users\\a\\.qwen\\x.jsonl"}, "qwen"),
        ("copilot", COPILOT | {"transcript_path": "/repos/my.qwen.tests/x.jsonl"}, "copilot"),
        ("claude", CLAUDE | {"turn_id": "", "timestamp": ""}, "claude"),
        ("claude", CLAUDE | {"turn_id": 7, "timestamp": {}}, "claude"),
    ],
)
def test_the_named_host_speaks_unless_its_input_proves_another(
    named: str | None, given_input: dict[str, Any], expected: str
) -> None:
    assert recognise(named, given_input) is HOSTS[expected]


def test_an_unknown_name_is_refused_with_the_known_ones_whatever_the_input_proves() -> None:
    with pytest.raises(InvalidRequest) as refused:
        recognise("cursor", CODEX)
    assert refused.value.hint == "Known hosts: claude, codex, gemini, qwen, copilot."


@settings(max_examples=60, deadline=None)
@given(named=st.none() | st.sampled_from(list(HOSTS)), told=INPUTS)
def test_some_host_is_recognised_in_any_json_object(named: str | None, told: dict[str, Any]) -> None:
    assert recognise(named, told) in HOSTS.values()
