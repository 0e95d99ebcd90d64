"""Script tests: seed a namespace, run one script with an explicit time, compare the whole namespace."""

from __future__ import annotations

import pytest

from inboxd.store.store import Store
from tests.conftest import FixedClock
from tests.support.scene import Scene


@pytest.fixture
async def scene(store: Store, namespace: str, clock: FixedClock) -> Scene:
    """A namespace in which `backend` and `frontend` are declared and nothing else has happened."""
    made = Scene(store, namespace, clock)
    await made.declare("backend", "frontend")
    return made
