"""A broker process for tests that only ask it something, and change nothing that another test would mind.

Their module says `xdist_group("shared-broker")`, so that one process serves them all.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import RunningBroker, running_broker


@pytest.fixture(scope="session")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("shared")) as broker:
        yield broker
