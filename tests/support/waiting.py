"""Waiting for something to become true, with a limit: what tests do instead of sleeping."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

LOOK_EVERY_MS = 5


def crowded() -> float:
    """How many others want each core of this machine: what takes this long alone takes that many times as long now."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


async def wait_until(condition: Callable[[], Any | Awaitable[Any]], *, within_ms: int) -> Any:
    """Return the condition's first true value; fail when there is none within the limit."""
    deadline_s = time.monotonic() + within_ms / 1_000
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {within_ms} ms: {inspect.getsource(condition).strip()}")
        await anyio.sleep(LOOK_EVERY_MS / 1_000)
