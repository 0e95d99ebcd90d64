"""Retries over HTTP: the Idempotency-Key header is the message_id, said in another place."""

from __future__ import annotations

import pytest

from inboxd import model
from tests.edges.conftest import Api
from tests.support.answers import answered, refused

pytestmark = pytest.mark.anyio

PATH = "/v1/tasks/backend/messages"


async def test_a_retry_with_the_same_key_stores_one_message(api: Api) -> None:
    headers = {"idempotency-key": "key-1"}
    said = {"body": "x", "from": "task:frontend", "artifacts": [{"path": "a", "metadata": {"n": 1}}], "payload": [1]}
    first = answered(await api.admin.post(PATH, json=said, headers=headers), model.Sent, 201)
    again = answered(await api.admin.post(PATH, json=said, headers=headers), model.Sent, 201)
    by_id = answered(await api.admin.post(PATH, json={**said, "message_id": "key-1"}), model.Sent, 201)
    assert (first.duplicate, again.duplicate, by_id.duplicate) == (False, True, True)
    assert first.message == again.message == by_id.message
    assert (first.message.message_id, first.message.sender, await api.pending()) == ("key-1", "task:frontend", 1)


async def test_a_key_that_repeats_the_message_id_is_fine(api: Api) -> None:
    sent = await api.admin.post(PATH, json={"body": "x", "message_id": "m-1"}, headers={"idempotency-key": "m-1"})
    assert answered(sent, model.Sent, 201).message.message_id == "m-1"


async def test_a_key_that_contradicts_the_message_id_is_refused(api: Api) -> None:
    sent = await api.admin.post(PATH, json={"body": "x", "message_id": "m-1"}, headers={"idempotency-key": "m-2"})
    refused(sent, 422, "INVALID_REQUEST")
    assert await api.pending() == 0


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 129, "a/b", "-a", "\x7f"])
async def test_a_key_that_is_no_id_is_refused(api: Api, key: str) -> None:
    header = (b"idempotency-key", key.encode("latin-1"))
    answer = await api.admin.post(PATH, json={"body": "x"}, headers=[header])  # type: ignore[arg-type]
    refused(answer, 422, "INVALID_REQUEST")
    assert await api.pending() == 0


async def test_a_key_used_for_other_words_is_refused(api: Api) -> None:
    headers = {"idempotency-key": "key-1"}
    await api.admin.post(PATH, json={"body": "x"}, headers=headers)
    refused(await api.admin.post(PATH, json={"body": "y"}, headers=headers), 409, "MESSAGE_ID_REUSED")


async def test_a_pull_repeated_with_its_id_returns_the_same_batch(api: Api) -> None:
    for number in range(3):
        await api.admin.post(PATH, json={"body": "x", "message_id": f"m-{number}"})
    first = answered(await api.agent.post("/v1/tasks/backend/pull", json={"pull_id": "p-1", "max": 2}), model.Batch)
    other = answered(
        await api.agent.post("/v1/tasks/backend/pull", json={"pull_id": "p-2", "session": "b"}), model.Batch
    )
    again = answered(await api.agent.post("/v1/tasks/backend/pull", json={"pull_id": "p-1", "max": 2}), model.Batch)
    assert [one.message_id for one in again.messages] == [one.message_id for one in first.messages] == ["m-0", "m-1"]
    assert [one.message_id for one in other.messages] == ["m-2"]
    refused(
        await api.agent.post("/v1/tasks/backend/pull", json={"pull_id": "p-1", "session": "b"}), 409, "PULL_ID_REUSED"
    )


async def test_an_ack_repeated_changes_nothing(api: Api) -> None:
    await api.admin.post(PATH, json={"body": "x", "message_id": "m-1"})
    batch = answered(await api.agent.post("/v1/tasks/backend/pull"), model.Batch)
    answers = [await api.agent.post("/v1/tasks/backend/ack", json={"receipt": batch.receipt}) for _ in range(3)]
    assert {answered(one, model.Settled).message_ids[0] for one in answers} == {"m-1"}
