"""A request that was held back on its way to the store, repeated by the broker meanwhile, and arrives after all.

The repeat was answered "nothing there", and an empty pull leaves no record: so the late twin takes what came since, for a
caller who has long had an answer.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers import RunningBroker, running_broker
from tests.support.fault_proxy import FaultProxy, fault_proxy
from tests.support.patient import Patient
from tests.support.servers import find_server_binary, private_server
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

HOLD_MS = 500
COMES_MS_MAX = 2_500  # a hold, and the sweep behind it


class Lost(Exception):
    """The message came to nobody."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FaultProxy, RunningBroker]]:
    with (
        private_server(find_server_binary()) as store,
        fault_proxy(store.port) as proxy,
        running_broker(tmp_path_factory.mktemp("broker"), "--redis-url", f"redis://127.0.0.1:{proxy.port}") as broker,
    ):
        yield proxy, broker


@pytest.mark.parametrize("ack", [False, True], ids=["held", "acked"])
async def test_the_late_twin_of_an_empty_pull_costs_a_hold_and_not_a_message(
    place: tuple[FaultProxy, RunningBroker], ack: bool
) -> None:
    proxy, broker = place
    task = f"twins-{ack}"
    async with Patient(broker.runtime_file) as patient:

        async def pull(pull_id: str, **more: object) -> list[str]:
            want = {"pull_id": f"{task}-{pull_id}", "hold_ms": HOLD_MS, "ack": ack, **more}
            answer = await patient.post(f"/v1/tasks/{task}/pull", want)
            assert answer.ok, answer
            return [message["message_id"] for message in answer.body["messages"]]

        await patient.post("/v1/tasks", {"task": task})
        assert await pull("warm") == []
        proxy.arm("held back", f"{task}-first", times=1)
        assert await pull("first") == []
        assert proxy.cuts == 1
        sent = await patient.post(f"/v1/tasks/{task}/messages", {"message_id": f"{task}-x", "body": "hello"})
        assert sent.ok, sent
        proxy.let_go()

        async def taken() -> bool:
            return bool((await patient.get(f"/v1/tasks/{task}/pending"))["pending"] == 0)

        await wait_until(taken, within_ms=COMES_MS_MAX)
        came = await pull("second", wait_ms=COMES_MS_MAX)
        if not came:
            raise Lost
        assert came == [f"{task}-x"]
