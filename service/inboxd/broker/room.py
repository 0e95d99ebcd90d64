"""What every room of the broker shares: the store, the settings, the clock. It decides nothing.

The broker has one clock and it is the store's: scripts read Redis TIME. `now_ms` serves where asking would cost a round trip (is a
deadline worth looking at? is a remembered token past its time?): it is the local clock, set by the store's at every sweep, so that a
machine whose clock is off judges like all others. A test gives a `FixedClock` and owns both.
"""

from __future__ import annotations

import time
from typing import Protocol

from inboxd.settings import Settings
from inboxd.store.store import Store


class Clock(Protocol):
    def now_ms(self) -> int: ...

    def learn(self, store_ms: int) -> None:
        """What the store's clock says now."""

    @property
    def for_scripts(self) -> int | None:
        """The time scripts must use, or None for the store's own."""


class WallClock:
    for_scripts = None

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def learn(self, store_ms: int) -> None:
        self._ahead_ms = store_ms - time.time_ns() // 1_000_000


class Room:
    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
