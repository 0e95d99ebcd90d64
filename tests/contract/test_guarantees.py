"""The promises in the README are those of guarantees.py, and each is held by tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from tests.guarantees import GUARANTEES

TESTS = Path(__file__).parents[1]
README = (TESTS.parent / "README.md").read_text()


def _tests() -> set[str]:
    return {
        name
        for path in TESTS.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.M)
    }


def test_every_promise_is_held_by_tests_that_exist() -> None:
    known = _tests()
    missing = {test for promise in GUARANTEES for test in promise.tests if test not in known}
    assert missing == set()
    assert all(promise.tests for promise in GUARANTEES)


def test_the_readme_promises_exactly_this() -> None:
    section = README.partition("<!-- promises -->\n")[2].partition("<!-- /promises -->")[0]
    assert section == "".join(f"- **{promise.id}** {promise.says}\n" for promise in GUARANTEES)


def test_no_two_promises_share_an_id() -> None:
    assert len({promise.id for promise in GUARANTEES}) == len(GUARANTEES)
