"""The ledger: what senders were promised against what readers wrote down, and the counts that follow.

lost    a sender had a 2xx answer, and no reader was ever handed the message
twice   handed over although an ack of it had succeeded before
again   handed over once more because no ack had succeeded: legitimate after a crash, and counted apart
strange handed over, but nobody ever tried to send it, or its content is not what was sent
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple


class Handover(NamedTuple):
    """One message in one batch, as its reader wrote it down."""

    message_id: str
    n: int
    priority: str
    attempts: int
    body: str
    pull_id: str
    session: str
    asked_ns: int
    answered_ns: int


class Count(NamedTuple):
    sent: int
    handed_over: int
    lost: list[str]
    twice: list[str]
    again: int
    strange: list[str]

    def __str__(self) -> str:
        return (
            f"sent={self.sent} handed_over={self.handed_over} lost={len(self.lost)} twice={len(self.twice)} "
            f"again={self.again} strange={len(self.strange)}"
        )


@dataclass
class Ledger:
    tried: dict[str, str] = field(default_factory=dict)
    """Everything a sender ever tried to send: id → body."""
    sent: set[str] = field(default_factory=set)
    """Those of them that were answered with 2xx."""
    handovers: list[Handover] = field(default_factory=list)
    acked_ns: dict[tuple[str, str], int] = field(default_factory=dict)
    """(message, pull_id) → when the reader had the 2xx for its ack."""

    def read(self, journal: Path) -> None:
        for text in journal.read_text().splitlines():
            line: dict[str, Any] = json.loads(text)
            if "handed" in line:
                place = (line["pull_id"], line["session"], line["asked_ns"], line["answered_ns"])
                self.handovers += [Handover(*message, *place) for message in line["handed"]]
            else:
                self.acked_ns |= {(message_id, line["pull_id"]): line["acked_ns"] for message_id in line["acked"]}

    def count(self) -> Count:
        by_message: dict[str, list[Handover]] = defaultdict(list)
        for one in self.handovers:
            by_message[one.message_id].append(one)
        return Count(
            sent=len(self.sent),
            handed_over=len(by_message),
            lost=sorted(self.sent - by_message.keys()),
            twice=sorted(name for name, some in by_message.items() if self._twice(some)),
            again=sum(len(some) - 1 for some in by_message.values()),
            strange=sorted({one.message_id for one in self.handovers if self.tried.get(one.message_id) != one.body}),
        )

    def _twice(self, handovers: list[Handover]) -> bool:
        """By the store's own count of hand-overs and by the clock; two acks that succeeded are one too many as well."""
        acked = [one for one in handovers if (one.message_id, one.pull_id) in self.acked_ns]
        if not acked:
            return len({one.pull_id for one in handovers}) < len(handovers)
        acked_ns = self.acked_ns[acked[0].message_id, acked[0].pull_id]
        later = [one for one in handovers if one.attempts > acked[0].attempts or one.asked_ns > acked_ns]
        return len(acked) > 1 or bool(later)

    def disorder(self) -> list[tuple[Handover, Handover]]:
        """Pairs handed over against their order. For runs in which nothing came back to the queue.

        Within a priority numbers rise for each reader; and whoever asked after another was answered has later ones. Within
        one batch a more urgent message never stands behind a less urgent one.
        """
        ranks = {"urgent": 3, "high": 2, "normal": 1, "low": 0}
        wrong = [
            (one, two)
            for one, two in zip(self.handovers, self.handovers[1:], strict=False)
            if one.pull_id == two.pull_id and ranks[one.priority] < ranks[two.priority]
        ]
        for priority in ranks:
            mine = [one for one in self.handovers if one.priority == priority]
            last_of: dict[str, Handover] = {}
            for one in mine:
                before = last_of.get(one.session)
                if before is not None and before.n >= one.n:
                    wrong.append((before, one))
                last_of[one.session] = one
            answered = sorted(mine, key=lambda one: one.answered_ns)
            done = 0
            highest: Handover | None = None
            for one in sorted(mine, key=lambda one: one.asked_ns):
                while done < len(answered) and answered[done].answered_ns < one.asked_ns:
                    if highest is None or answered[done].n > highest.n:
                        highest = answered[done]
                    done += 1
                if highest is not None and highest.n > one.n:
                    wrong.append((highest, one))
        return wrong
