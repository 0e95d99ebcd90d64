"""Names: new ids in order of their making, and the names nearest to a mistyped one."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterable


def mint_id() -> str:
    """A uuid version 7: unique, and sorted by time. (The standard library has it from 3.14 on.)"""
    value = (time.time_ns() // 1_000_000 & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that somebody may have meant."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    return [by_folded[found] for found in difflib.get_close_matches(name.lower(), by_folded, n=3, cutoff=0.5)]
