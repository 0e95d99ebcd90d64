"""What happened as a sentence, and an hour as three lines: pure, so it is tried on everything there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from inboxd import model
from inboxd.edges.dashboard import telling
from inboxd.edges.dashboard.charts import HEIGHT, WIDTH, charts
from inboxd.edges.dashboard.rendering import took
from inboxd.model import Minute
from inboxd.store import scripts

LUA = Path(scripts.__file__).parent / "lua"
TONES = {"good", "warn", "bad", "quiet"}


def emitted() -> set[str]:
    """Every type of event that a script can write."""
    source = "\n".join(path.read_text() for path in LUA.rglob("*.lua"))
    said = re.findall(r"(?:emit\(|announce\(m, |announce_thread\(t, |say\(t, spec, )'([a-z_]+[a-z])'", source)
    return {*said, *(f"thread_{status}" for status in model.STATUSES if status not in ("pending", "claimed"))}


def icons() -> set[str]:
    sprite = Path(telling.__file__).parents[2] / "web" / "static" / "sprite.svg"
    return set(re.findall(r'<symbol id="([a-z0-9-]+)"', sprite.read_text()))


@pytest.mark.parametrize("kind", sorted(emitted()))
def test_every_event_there_is_has_a_sentence_of_its_own(kind: str) -> None:
    event = {
        "id": 1, "type": kind, "at_ms": 1, "task": "backend", "state": "active", "peer": "frontend", "message_id": "m-1", "sender": "task:frontend",
        "kind": "message", "priority": "normal", "thread_id": "t-1", "created_by": "user", "agent": "backend", "waiting": 1,
    }  # fmt: skip
    told = telling.tell(event)
    assert told.tone in TONES
    assert told.icon in icons()
    assert told.says not in (kind.replace("_", " "), kind.removeprefix("thread_").replace("_", " "))


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        ({"type": "task_message_queued", "task": "backend", "sender": "user"}, "user wrote to backend"),
        ({"type": "task_message_queued", "task": "user", "sender": "task:backend", "kind": "question"}, "backend asked user"),
        ({"type": "task_message_seen", "task": "backend", "sender": "user"}, "backend has seen a message from user"),
        ({"type": "task_message_queued", "requeued": True, "task": "b", "sender": "user"}, "b gets a dead letter again, from user"),
        ({"type": "task_state_changed", "task": "backend", "state": "waiting"}, "backend waits for a person"),
        ({"type": "task_waiting_changed", "task": "backend", "waiting": 2}, "backend waits for 2 answers"),
        ({"type": "task_waiting_changed", "task": "backend", "waiting": 0}, "backend waits for nobody any more"),
        ({"type": "thread_opened", "created_by": "user", "thread_id": "t-1", "agent": None}, "user opened a thread t-1"),
        ({"type": "token_created", "role": "agent", "agent": "backend"}, "backend was given a token "),
        ({"type": "token_created", "role": "user", "label": "dashboard session"}, " A browser was signed in "),
        ({"type": "token_created", "role": "operator", "label": "machine a"}, " A token was made, for the role operator"),
        ({"type": "token_created"}, " A token was made "),
        ({"type": "something_new"}, " something new "),
        ({}, "  "),
    ],
)  # fmt: skip
def test_sentences_read_well(event: dict[str, Any], sentence: str) -> None:
    told = telling.tell(event)
    assert f"{told.subject} {told.says} {told.object}".strip() == sentence.strip()


def test_every_message_state_is_told() -> None:
    for state in get_args(model.State):
        assert telling.tell({"type": f"task_message_{state}", "task": "b", "sender": "user"}).says


def hour(**values: list[int]) -> list[Minute]:
    return [
        Minute(at_ms=minute, **{name: values.get(name, [0] * 60)[minute] for name in ("queued", "delivered", "waited_ms", "pending")})
        for minute in range(60)
    ]  # fmt: skip


def test_an_hour_is_drawn_inside_its_box_and_said_in_words() -> None:
    sent, waiting, waited = charts(
        hour(queued=list(range(60)), delivered=[2] * 60, waited_ms=[1_500] * 60, pending=[7] * 60), 9
    )
    for chart in (sent, waiting, waited):
        points = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", chart.line)]
        assert len(points) == 60
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in points)
        assert points[-1][0] == WIDTH
        assert not chart.empty
    assert (sent.now, sent.says) == ("1,770", "1,770 messages were sent in the last hour, at most 59 in a minute.")
    assert (waiting.now, waiting.says) == ("9", "9 messages wait now; at most 9 waited in the last hour.")
    assert (waited.now, waited.says) == (
        "1.5 s",
        "120 messages were delivered in the last hour, after 1.5 s in the mean.",
    )


def test_an_hour_in_which_nothing_happened_is_flat_and_says_so() -> None:
    drawn = charts(hour(), 0)
    assert all(chart.empty for chart in drawn)
    assert drawn[2].says == "No message was delivered in the last hour."


@pytest.mark.parametrize(
    ("ms", "said"),
    [(-1, "0 ms"), (0, "0 ms"), (999, "999 ms"), (1_000, "1.0 s"), (9_999, "10.0 s"), (10_000, "10 s"), (60_000, "1 min"), (3_600_000, "1 h"), (200_000_000, "2 days")],
)  # fmt: skip
def test_a_time_is_said_in_few_letters(ms: int, said: str) -> None:
    assert took(ms) == said
