"""What a model is taught of mail: the standing instruction for a host's own file, and the skill. Our words, kept as text files."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def skill_text() -> str:
    return _read("skill.md")


@cache
def instruction_text() -> str:
    return _read("instruction.md")


def _read(name: str) -> str:
    return (resources.files("inboxd.hosts") / name).read_text(encoding="utf-8")
