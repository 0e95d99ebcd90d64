"""The person's inbox: what agents ask comes by itself, is answered in place, and is read only when the person says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Desk, Team, team_at
from tests.support.brokers import running_broker


@pytest.fixture(autouse=True)
def _nothing_unread(team: Team) -> None:
    """Tests share the person; each begins with an empty desk."""
    team.post("/v1/tasks/user/pull", {"session": "shell", "ack": True, "max": 100})


def ask(team: Team, task: str, words: str, **fields: object) -> str:
    return team.send("user", words, **{"from": f"task:{task}", "kind": "question", "awaiting_response": True, **fields})


def test_a_question_comes_by_itself_with_its_number_in_title_and_icon(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open("/inbox")
    assert page.title() == "Inbox · inboxd"
    ask(team, task, "May I drop the old table?")
    expect(page.locator(".inbox-unread .mail")).to_have_count(1)
    expect(page).to_have_title("(1) Inbox · inboxd")
    expect(page.locator('[data-count="inbox"]')).to_have_text("1")
    expect(page.locator("link[rel=icon]")).to_have_attribute("href", re.compile(r"/ui/icon\.svg\?n=1$"))
    icon = page.request.get(desk.url + "/ui/icon.svg?n=1")
    assert icon.headers["content-type"].startswith("image/svg+xml")
    assert ">1</text>" in icon.text()


def test_looking_at_mail_does_not_read_it(desk: Desk, team: Team) -> None:
    message_id = ask(team, team.task(), "Still there?")
    page = desk.open("/inbox")
    expect(page.locator(".inbox-unread .mail")).to_have_count(1)
    page.reload()
    desk.open(f"/messages/{message_id}")
    assert team.get(f"/v1/messages/{message_id}")["message"]["state"] == "queued"


def test_an_answer_in_place_reaches_the_agent_and_ends_its_wait(desk: Desk, team: Team) -> None:
    task = team.task()
    message_id = ask(team, task, "Postgres or SQLite?")
    page = desk.open("/inbox")
    mail = page.locator(f'.mail[data-id="{message_id}"]')
    mail.get_by_text("Reply").click()
    mail.locator("textarea").fill("SQLite, please.")
    mail.locator("textarea").press("Enter")
    expect(page.locator(".inbox-read .mail").first).to_contain_text("Postgres or SQLite?")
    expect(page.locator(".inbox-unread .mail")).to_have_count(0)
    batch = team.post(f"/v1/tasks/{task}/pull", {"session": "s-1", "ack": True})
    answer = batch["messages"][0]
    assert (answer["body"], answer["sender"], answer["reply_to"], answer["kind"]) == (
        "SQLite, please.",
        "user",
        message_id,
        "answer",
    )
    assert team.get(f"/v1/tasks/{task}")["waiting_for"] == []
    assert team.get(f"/v1/messages/{message_id}")["message"]["state"] == "seen"


def test_marking_one_as_read_reads_exactly_that_one(desk: Desk, team: Team) -> None:
    task = team.task()
    first, second = (ask(team, task, words) for words in ("first", "second"))
    page = desk.open("/inbox")
    page.locator(f'.mail[data-id="{second}"]').get_by_role("button", name="Mark read").click()
    expect(page.locator(".inbox-unread .mail")).to_have_count(1)
    expect(page.locator(f'.inbox-read .mail[data-id="{second}"]')).to_be_visible()
    states = {one: team.get(f"/v1/messages/{one}")["message"]["state"] for one in (first, second)}
    assert states == {first: "queued", second: "seen"}


def test_all_are_marked_as_read_at_once(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open("/inbox")
    for number in range(3):
        ask(team, task, f"question {number}")
    expect(page.locator(".inbox-unread .mail")).to_have_count(3)
    page.get_by_role("button", name="Mark all read").click()
    expect(page.locator(".inbox-unread .mail")).to_have_count(0)
    expect(page.get_by_text("All read", exact=True)).to_be_visible()
    expect(page).to_have_title("Inbox · inboxd")


def test_more_than_a_page_takes_is_not_said_to_be_read(windows: Callable[..., Desk], tmp_path: Path) -> None:
    with running_broker(tmp_path, "--store-fsync", "everysec") as broker:
        team = team_at(broker)
        with team.api() as client:
            for number in range(204):
                said = {"body": f"report {number}", "priority": "normal" if number else "urgent"}
                client.post("/v1/tasks/user/messages", json=said).raise_for_status()
        desk = windows(team)
        page = desk.open("/inbox")
        words = page.locator("[data-unread-words]")
        expect(words).to_have_text("200+ unread")
        expect(page.locator(".inbox-unread .mail").first).to_contain_text("report 0")
        page.get_by_role("button", name="Mark all read").click()
        expect(words).to_have_text("4 unread")
        expect(page.locator(".inbox-unread .mail")).to_have_count(4)
        expect(page.locator('[data-count="inbox"]')).to_have_text("4")
        desk.close()


def test_urgent_mail_stands_first(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open("/inbox")
    ask(team, task, "whenever you like", priority="low")
    ask(team, task, "as usual")
    ask(team, task, "it burns", priority="urgent")
    expect(page.locator(".inbox-unread .msg-body")).to_have_text(["it burns", "as usual", "whenever you like"])
    page.reload()
    expect(page.locator(".inbox-unread .msg-body")).to_have_text(["it burns", "as usual", "whenever you like"])


def test_two_tabs_agree(desk: Desk, team: Team) -> None:
    task = team.task()
    one, other = desk.open("/inbox"), desk.open("/inbox")
    third = desk.open("/")
    ask(team, task, "seen by both")
    for page in (one, other):
        expect(page.locator(".inbox-unread .mail")).to_have_count(1)
    expect(third).to_have_title(re.compile(r"^\(1\) "))
    one.get_by_role("button", name="Mark read").click()
    expect(other.locator(".inbox-unread .mail")).to_have_count(0)
    expect(other.locator(".inbox-read .mail").first).to_contain_text("seen by both")
    expect(third).to_have_title("Tasks · inboxd")


def test_an_answer_being_written_is_not_lost_when_the_message_changes(desk: Desk, team: Team) -> None:
    task = team.task()
    message_id = ask(team, task, "Think about it")
    page = desk.open("/inbox")
    mail = page.locator(f'.mail[data-id="{message_id}"]')
    mail.get_by_text("Reply").click()
    mail.locator("textarea").fill("I am thinking")
    team.post("/v1/tasks/user/pull", {"session": "shell", "ack": True})  # read elsewhere meanwhile
    expect(page.locator('[data-count="inbox"]')).to_be_hidden()
    expect(mail.locator("textarea")).to_have_value("I am thinking")
    mail.locator("textarea").press("Enter")
    expect(page.locator(".toast").last).to_contain_text("Answered")
    assert team.pull(task) == ["I am thinking"]


def test_what_needs_a_person_is_answered_where_it_is_listed(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open("/attention")
    thread = team.post("/v1/threads", {"subject": "Split the table", "to": task, "body": "Please.", "from": "user"})[
        "thread"
    ]["thread_id"]
    claimed = team.post(f"/v1/threads/{thread}/claim", {"agent": task})["thread"]["lease"]["fencing_token"]
    team.post(
        f"/v1/threads/{thread}/update",
        {"agent": task, "fencing_token": claimed, "status": "blocked", "body": "May I lock it?"},
    )
    need = page.locator(f'.need[data-id="blocked_thread:{thread}"]')
    expect(need).to_contain_text("May I lock it?")
    need.get_by_text("Reply").click()
    need.locator("textarea").fill("Yes, at night.")
    need.locator("textarea").press("Enter")
    expect(need).to_have_count(0)
    assert team.get(f"/v1/threads/{thread}")["thread"]["question_id"] is None
    team.post(f"/v1/threads/{thread}/cancel", {"reason": "test"})


def test_a_permission_a_dead_letter_and_urgent_mail_show_and_go(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open("/attention")
    team.post(f"/v1/tasks/{task}/presence", {"state": "waiting", "session": "s-1", "detail": "Run rm -rf build?"})
    permission = page.locator(f'.need[data-id="waits_for_person:{task}"]')
    expect(permission).to_contain_text("Run rm -rf build?")
    expect(permission).to_contain_text("laptop")
    message_id = team.send(task, "hello")
    team.kill(task, message_id)
    dead = page.locator(f'.need[data-id="dead_letters:{task}"]')
    dead.get_by_role("button", name="Dismiss").click()
    expect(dead).to_have_count(0)
    expect(permission).to_have_count(0)  # it was heard again meanwhile
    team.send(task, "now", priority="urgent")
    urgent = page.locator(f'.need[data-id="urgent_unread:{task}"]')
    expect(urgent).to_be_visible()
    team.pull(task)
    expect(urgent).to_have_count(0)
