"""Opaque cursors: where a list goes on. The caller hands them back unread; anything else is refused."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from inboxd.errors import CursorInvalid


def write_cursor(of: str, place: list[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps([of, *place], separators=(",", ":")).encode()).decode().rstrip("=")


def read_cursor(cursor: str, of: str, shape: list[type]) -> list[Any]:
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise CursorInvalid() from None
    fits = isinstance(found, list) and len(found) == len(shape) + 1 and found[0] == of
    if not fits or any(type(part) is not kind for part, kind in zip(found[1:], shape, strict=True)):
        raise CursorInvalid()
    if any(kind is int and abs(part) > 10**17 for part, kind in zip(found[1:], shape, strict=True)):
        raise CursorInvalid()
    return list(found[1:])
