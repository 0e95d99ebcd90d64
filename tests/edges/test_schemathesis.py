"""The description is kept: requests made up from it, good and bad, get answers that it allows, and never a 5xx.

They go to a real process, so that the HTTP parser is part of it. The same requests are made every time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis import checks

from inboxd.broker import Broker
from inboxd.edges import describe
from inboxd.edges.app import build
from inboxd.edges.front import Front
from inboxd.edges.observe import RequestLog
from inboxd.settings import Settings
from inboxd.store.connection import Connection
from inboxd.store.store import Store
from tests.support.brokers import RunningBroker, run_inboxd, running_broker


def description() -> dict[str, object]:
    """The document of the application itself. It needs no store: nothing is asked of this broker."""
    broker = Broker(Store(cast("Connection", None), Settings()), Settings())
    front = cast("Front", build(broker, RequestLog(True, "error")))
    return describe.description_of(cast("FastAPI", front._app))


schema = schemathesis.openapi.from_dict(description()).exclude(path="/v1/events")
"""But for the one answer that does not end; it has tests of its own."""
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@dataclass
class Target:
    broker: RunningBroker
    token: str


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    folder = tmp_path_factory.mktemp("schemathesis")
    # Made-up waits would be waited for.
    with running_broker(folder, "--wait-ms-max", "0", "--store-fsync", "everysec") as broker:
        made = run_inboxd("token", "create", "--role", "admin", "--json", "--data-dir", str(broker.data_dir))
        token = json.loads(made.stdout)["token"]
        yield Target(broker, token)


@pytest.fixture
def _tasks(target: Target) -> None:
    """The tasks of the examples are there, even if the operation before has removed them."""
    with target.broker.client(target.token) as client:
        client.post("/v1/tasks", json={"task": "backend", "peers": ["frontend"]}).raise_for_status()


@pytest.mark.usefixtures("_tasks")
@pytest.mark.xdist_group("schemathesis")
@schema.parametrize()
@settings(
    max_examples=8,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_operation_keeps_its_description(case: schemathesis.Case, target: Target) -> None:
    headers = {"authorization": f"Bearer {target.token}"}
    case.call_and_validate(base_url=target.broker.url, headers=headers, checks=CHECKS)
