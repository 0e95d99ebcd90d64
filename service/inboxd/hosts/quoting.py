"""Other people's words, made harmless: what stands in a quote can neither leave it nor hide in it. Pure.

A quote is a run of lines that all begin with `| `. Everything any reader might take for a line break starts a new quoted line,
so no text can begin a line of its own. What cannot be seen is written out (`\\u202e`), so that a reader, human or model, sees
what is there; joiners that scripts and emoji need are left alone. Tags that hosts wrap their own words in are disarmed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

PREFIX: Final = "| "

_UNSEEN: Final = re.compile(
    "["
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"  # controls; tab stays, the rest of them are line breaks
    "\u00ad\u180e\u200b\ufeff\ufff9-\ufffb"  # soft hyphen, zero-width spaces, annotation marks
    "\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f"  # direction: marks, overrides, isolates; invisible operators
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # shorthand, music, tags, hidden selectors
    "\ud800-\udfff"  # halves of a pair: no UTF-8 can carry them
    "]"
)

_JOINERS: Final = "[\u00ad\u180e\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f\ufeff]*"
_APART: Final = r"(?:[^\w<]|_)*"
_REMINDER: Final = re.compile(
    f"<({_APART}{_JOINERS.join('system')}{_APART}{_JOINERS.join('reminder')})([^\\w<>]*)(>?)", re.IGNORECASE
)

_NO_WORD: Final = re.compile(r"[^A-Za-z0-9._:@/-]")


def units(text: str) -> int:
    """Its length as hosts count: in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def lines(text: str) -> list[str]:
    """The text as harmless lines, without the prefix."""
    if text.isascii() and text.isprintable() and "<" not in text:
        return [text] if text else []  # nearly every subject, and many a message
    return [_UNSEEN.sub(_written_out, line) for line in _REMINDER.sub(_disarmed, text).splitlines()]


def quote(harmless: Iterable[str]) -> list[str]:
    return [PREFIX + line for line in harmless]


def one_line(text: str, chars_max: int) -> str:
    """The text as one harmless line. Cut before it is cleaned too: nobody cleans a megabyte to show a subject."""
    line = " ".join(lines(text[: chars_max * 2])).strip()
    return line if len(line) <= chars_max and len(text) <= chars_max * 2 else line[: chars_max - 3] + "..."


def word(text: str, chars_max: int) -> str:
    """An id or a name: fit for a command line, whatever it was."""
    return _NO_WORD.sub("?", text)[:chars_max] or "?"


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _disarmed(found: re.Match[str]) -> str:
    # Seen and different: a reader still knows what stood there.
    return "\u2039" + found[1] + found[2] + ("\u203a" if found[3] else "")
