"""The counting itself can fail: each fault that the other tests look for is seen when it is there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.ledger import Ledger

pytestmark = pytest.mark.chaos


def handed(pull_id: str, name: str, at_ns: int, attempts: int = 1, **other: Any) -> dict[str, Any]:
    message = [name, other.get("n", 1), other.get("priority", "normal"), attempts, other.get("body", "hello")]
    session = other.get("session", pull_id)
    return {"pull_id": pull_id, "session": session, "asked_ns": at_ns, "answered_ns": at_ns + 1, "handed": [message]}


def acked(pull_id: str, name: str, at_ns: int) -> dict[str, Any]:
    return {"pull_id": pull_id, "session": pull_id, "acked": [name], "acked_ns": at_ns}


def ledger_of(folder: Path, *lines: dict[str, Any]) -> Ledger:
    (folder / "journal").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = Ledger(tried={"m": "hello", "unsure": "hello"}, sent={"m"})
    made.read(folder / "journal")
    return made


def test_a_message_that_was_promised_and_never_handed_over_is_lost(tmp_path: Path) -> None:
    counted = ledger_of(tmp_path).count()
    assert (counted.lost, counted.handed_over) == (["m"], 0)


def test_once_and_acked_is_as_it_should_be(tmp_path: Path) -> None:
    counted = ledger_of(tmp_path, handed("a", "m", 10), acked("a", "m", 20)).count()
    assert (counted.sent, counted.handed_over, counted.lost, counted.twice, counted.again) == (1, 1, [], [], 0)


def test_again_without_an_ack_in_between_is_counted_apart(tmp_path: Path) -> None:
    lines = handed("a", "m", 10), handed("b", "m", 30, 2), acked("b", "m", 40)
    counted = ledger_of(tmp_path, *lines).count()
    assert (counted.twice, counted.again) == ([], 1)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param([handed("b", "m", 15, 2)], id="by the store's count"),
        pytest.param([handed("b", "m", 30, 1)], id="by the clock"),
        pytest.param([handed("b", "m", 5, 1), acked("b", "m", 25)], id="by two acks"),
    ],
)
def test_a_hand_over_behind_a_successful_ack_is_twice(tmp_path: Path, second: list[dict[str, Any]]) -> None:
    assert ledger_of(tmp_path, handed("a", "m", 10), acked("a", "m", 20), *second).count().twice == ["m"]


@pytest.mark.parametrize(("name", "body"), [("never-sent", "hello"), ("m", "mangled")])
def test_what_nobody_sent_like_that_is_strange(tmp_path: Path, name: str, body: str) -> None:
    assert ledger_of(tmp_path, handed("a", name, 10, body=body)).count().strange == [name]


def test_disorder_is_seen_within_a_reader_and_between_readers(tmp_path: Path) -> None:
    in_order = handed("a", "m", 10, n=1), handed("b", "unsure", 20, n=2)
    assert ledger_of(tmp_path, *in_order).disorder() == []
    between = handed("a", "m", 10, n=2), handed("b", "unsure", 20, n=1)
    assert len(ledger_of(tmp_path, *between).disorder()) == 1
    within = handed("a", "m", 10, n=2, session="s"), handed("b", "unsure", 10, n=1, session="s")
    assert len(ledger_of(tmp_path, *within).disorder()) == 1
