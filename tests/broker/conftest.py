"""Broker tests: what the operations promise, on a real store, with time in the test's hand."""

from __future__ import annotations

import pytest

from inboxd.broker import Broker
from inboxd.model import Identity
from tests.conftest import agent_of
from tests.support.mail import Mail
from tests.support.worker import Worker


@pytest.fixture
async def mail(broker: Broker, admin: Identity) -> Mail:
    """Somebody who may do everything, where `backend` and `frontend` are declared."""
    made = Mail(broker, admin)
    await made.declare("backend", "frontend")
    return made


@pytest.fixture
def backend(mail: Mail) -> Mail:
    """The agent `backend`, at the same broker."""
    return Mail(mail.broker, agent_of(mail.who, "backend"))


@pytest.fixture
def frontend(mail: Mail) -> Mail:
    """The agent `frontend`, at the same broker."""
    return Mail(mail.broker, agent_of(mail.who, "frontend"))


@pytest.fixture
async def leader(mail: Mail) -> Worker:
    await mail.declare("leader", "other")
    return Worker(mail.broker, agent_of(mail.who, "leader"))


@pytest.fixture
def worker(leader: Worker) -> Worker:
    """The agent `backend`."""
    return Worker(leader.broker, agent_of(leader.who, "backend"))


@pytest.fixture
def other(leader: Worker) -> Worker:
    """The agent `other`."""
    return Worker(leader.broker, agent_of(leader.who, "other"))
