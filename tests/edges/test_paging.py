"""Pages: every row once, in order, whatever happens in between; a cursor that was not handed out by this list is refused."""

from __future__ import annotations

import base64
import json

import pytest

from inboxd import model
from tests.edges.conftest import Api
from tests.support.answers import answered, refused

pytestmark = pytest.mark.anyio

LISTS = ("/v1/tasks", "/v1/tasks/backend/messages")


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


async def fill(api: Api) -> None:
    for number in range(7):
        await api.admin.post("/v1/tasks", json={"task": f"t-{number}"})
        await api.admin.post("/v1/tasks/backend/messages", json={"body": "x", "message_id": f"m-{number}"})


async def first_cursor(api: Api, path: str) -> str:
    return str((await api.admin.get(path, params={"limit": 2})).json()["next_cursor"])


async def test_the_pages_of_a_timeline_hold_every_message_once_newest_first(api: Api) -> None:
    await fill(api)
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = answered(await api.admin.get(LISTS[1], params=params), model.MessagePage)
        seen += [message.message_id for message in page.messages]
        # New mail while somebody pages comes before the first page and shifts nothing.
        await api.admin.post("/v1/tasks/backend/messages", json={"body": "later"})
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"m-{number}" for number in reversed(range(7))]


async def test_the_pages_of_the_tasks_hold_every_task_once(api: Api) -> None:
    await fill(api)
    whole = answered(await api.admin.get(LISTS[0]), model.TaskPage)
    seen: list[str] = []
    cursor = None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = answered(await api.admin.get(LISTS[0], params=params), model.TaskPage)
        seen += [task.task for task in page.tasks]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [task.task for task in whole.tasks]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("path", LISTS)
async def test_a_cursor_that_was_not_handed_out_is_refused(api: Api, path: str) -> None:
    await fill(api)
    good = await first_cursor(api, path)
    assert (await api.admin.get(path, params={"cursor": good})).status_code == 200
    of = json.loads(base64.urlsafe_b64decode(good + "=" * (-len(good) % 4)))
    forged = [
        "",
        "x",
        "====",
        "é",
        "\x00",
        good[:-1],
        good[: len(good) // 2],
        good[1:],
        good + "A",
        good + "\n",
        good.swapcase(),
        encoded([]),
        encoded(None),
        encoded({"tasks": 1}),
        encoded("tasks"),
        encoded([of[0]]),
        encoded([*of, 1]),
        encoded([of[0], *["1" for _ in of[1:]]]),
        encoded([of[0], *[True for _ in of[1:]]]),
        encoded([of[0], *[1.5 for _ in of[1:]]]),
        encoded([of[0], *[10**30 for _ in of[1:]]]),
        encoded([of[0], *[None for _ in of[1:]]]),
        encoded(["other", *of[1:]]),
        base64.urlsafe_b64encode(b"[" * 300).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
        base64.urlsafe_b64encode(b'["timeline",NaN]').decode(),
        base64.urlsafe_b64encode(b'["timeline",' + b"9" * 300 + b"]").decode(),
    ]
    for cursor in forged:
        answer = await api.admin.get(path, params={"cursor": cursor})
        assert (cursor, answer.status_code) == (cursor, 422), answer.text
        refused(answer, 422)


async def test_a_cursor_of_another_list_is_refused(api: Api) -> None:
    await fill(api)
    for path, other in (LISTS, LISTS[::-1]):
        refused(await api.admin.get(path, params={"cursor": await first_cursor(api, other)}), 422, "CURSOR_INVALID")
