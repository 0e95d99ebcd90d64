"""What every room of the broker shares: the store, the settings, the clock. It decides nothing.

The broker has one clock and it is the store's: scripts read Redis TIME. `now_ms` of the local clock serves only as a hint
(is a deadline worth looking at? is a cached token past its time?). A test gives a `FixedClock` and owns both.
"""

from __future__ import annotations

import time
from typing import Protocol

from inboxd.settings import Settings
from inboxd.store.store import Store


class Clock(Protocol):
    def now_ms(self) -> int: ...

    @property
    def for_scripts(self) -> int | None:
        """The time scripts must use, or None for the store's own."""


class WallClock:
    for_scripts = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Room:
    def __init__(self, store: Store, settings: Settings, clock: Clock) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
