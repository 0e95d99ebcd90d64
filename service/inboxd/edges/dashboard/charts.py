"""Charts: an hour of a namespace as three small lines. Numbers in, SVG geometry and a sentence out; the template draws them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from inboxd.edges.dashboard.rendering import took
from inboxd.model import Minute

WIDTH: Final = 240
HEIGHT: Final = 40
TOP: Final = 3
"""Room above the highest point for the line's own thickness."""


@dataclass
class Chart:
    key: str
    title: str
    now: str
    """The number to read first."""
    unit: str
    says: str
    """The same for whoever does not see it."""
    line: str
    area: str
    empty: bool


def charts(minutes: list[Minute], pending: int) -> list[Chart]:
    """Send rate, pending and delivery time. `pending` is what waits now: a minute's is noted only once in it."""
    sent = [minute.queued for minute in minutes]
    waiting = [*(minute.pending for minute in minutes[:-1]), pending]
    waited = [minute.waited_ms if minute.delivered else 0 for minute in minutes]
    delivered = sum(minute.delivered for minute in minutes)
    mean = sum(minute.waited_ms * minute.delivered for minute in minutes) // delivered if delivered else 0
    return [
        _chart(
            "sent", "Sent", f"{sum(sent):,}", "in the last hour", sent,
            f"{sum(sent):,} messages were sent in the last hour, at most {max(sent, default=0):,} in a minute.",
        ),
        _chart(
            "pending", "Waiting", f"{pending:,}", "right now", waiting,
            f"{pending:,} messages wait now; at most {max(waiting):,} waited in the last hour.",
        ),
        _chart(
            "latency", "Delivery time", took(mean) if delivered else "none", "mean of the hour" if delivered else "delivered in the last hour", waited,
            f"{delivered:,} messages were delivered in the last hour, after {took(mean)} in the mean." if delivered
            else "No message was delivered in the last hour.",
        ),
    ]  # fmt: skip


def _chart(key: str, title: str, now: str, unit: str, values: list[int], says: str) -> Chart:
    highest = max([1, *values])
    step = WIDTH / max(1, len(values) - 1)
    points = [
        (round(i * step, 1), round(HEIGHT - 1 - (HEIGHT - 1 - TOP) * value / highest, 1))
        for i, value in enumerate(values)
    ] or [(0.0, HEIGHT - 1.0)]
    line = "M" + "L".join(f"{x} {y}" for x, y in points)
    area = f"{line}L{points[-1][0]} {HEIGHT}L0 {HEIGHT}Z"
    return Chart(key, title, now, unit, says, line, area, not any(values))
