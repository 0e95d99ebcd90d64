"""What every room of the broker shares: the store, the settings, the clock. It decides nothing.

The broker has one clock and it is the store's: scripts read Redis TIME. `now_ms` serves where asking would cost a round trip (is a
deadline worth looking at? is a remembered token past its time?): it is the local clock, set by the store's at every sweep, so that a
machine whose clock is off judges like all others. A test gives a `FixedClock` and owns both.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final, Protocol

from inboxd.settings import Settings
from inboxd.store.store import Store

MINUTE_MS: Final = 60_000


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
        self._tallies: defaultdict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        """Of a namespace and a minute: messages queued, messages delivered, and how long those had waited, in ms."""

    def _tally(self, namespace: str, queued: int, delivered: int = 0, waited_ms: int = 0) -> None:
        """Count for the charts. Written down by the next sweep: nobody who sends should pay for a chart."""
        counts = self._tallies[namespace, self.clock.now_ms() // MINUTE_MS]
        counts[0] += queued
        counts[1] += delivered
        counts[2] += waited_ms

    async def _write_tallies(self, namespace: str) -> None:
        for place in [place for place in self._tallies if place[0] == namespace]:
            queued, delivered, waited_ms = self._tallies.pop(place)
            given = {"minute": place[1], "queued": queued, "delivered": delivered, "waited_ms": waited_ms}
            await self.store.run("add_stats", namespace, **given)
