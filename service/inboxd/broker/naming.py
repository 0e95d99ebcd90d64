"""Names: new ids in order of their making, and the names nearest to a mistyped one."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterable


def mint_id() -> str:
    """A uuid version 7: unique, and sorted by time. (The standard library has it from 3.14 on.)"""
    at = f"{time.time_ns() // 1_000_000:012x}"
    chance = os.urandom(10)
    rest = chance.hex()
    return f"{at[:8]}-{at[8:]}-7{rest[:3]}-{'89ab'[chance[9] & 3]}{rest[3:6]}-{rest[6:18]}"


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that somebody may have meant."""
    by_folded = {candidate.lower(): candidate for candidate in known}
    return [by_folded[found] for found in difflib.get_close_matches(name.lower(), by_folded, n=3, cutoff=0.5)]
