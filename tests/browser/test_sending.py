"""Sending from the page: it arrives once, the badge tells, the timeline says when it was delivered and to whom."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Desk, Team


def say(page: Page, words: str) -> None:
    page.fill("#body", words)
    page.press("#body", "Enter")


def row(page: Page, task: str) -> str:
    return f'.task[data-id="{task}"]'


def test_a_badge_rises_with_what_is_sent_and_clears_when_the_agent_pulls(desk: Desk, team: Team) -> None:
    task = team.task(title="Payments")
    overview, page = desk.open("/"), desk.open(f"/tasks/{task}")
    say(page, "Do not touch auth.ts")
    expect(page.locator(".msg-body").first).to_contain_text("Do not touch auth.ts")
    badge = overview.locator(f"{row(overview, task)} .badge")
    expect(badge).to_have_text("1 normal")
    page.select_option("#priority", "urgent")
    say(page, "Stop")
    expect(badge).to_have_text(["1 urgent", "1 normal"])
    assert team.pull(task) == ["Stop", "Do not touch auth.ts"]
    expect(badge).to_have_count(0)


def test_the_timeline_says_when_a_message_was_queued_delivered_and_seen(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/tasks/{task}")
    say(page, "hello")
    steps = page.locator(".msg .steps li")
    expect(steps).to_have_count(1)
    expect(steps).to_contain_text("queued")
    team.pull(task)
    expect(steps).to_have_count(2)
    expect(steps.nth(1)).to_contain_text("delivered to s-1 after")
    message_id = page.locator(".msg").get_attribute("data-id")
    team.post(f"/v1/tasks/{task}/seen", {"message_ids": [message_id], "session": "s-1"})
    expect(steps).to_have_count(3)
    expect(steps.nth(2)).to_contain_text("seen after")
    stored = team.get(f"/v1/messages/{message_id}")["message"]
    told = [steps.nth(number).locator("time").get_attribute("datetime") for number in range(3)]
    exact = page.evaluate("(times) => times.map((one) => Date.parse(one))", told)
    assert exact == [stored["created_at_ms"], stored["delivered_at_ms"], stored["seen_at_ms"]]
    steps.nth(1).locator("time").hover()
    year = page.evaluate("(ms) => String(new Date(ms).getFullYear())", stored["delivered_at_ms"])
    expect(steps.nth(1).locator("time")).to_have_attribute("title", re.compile(year))


def test_a_message_s_own_page_tells_its_history_as_it_happens(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/messages/{team.send(task, 'hello')}")
    steps = page.locator(".history li")
    expect(steps).to_have_count(1)
    team.pull(task)
    expect(steps).to_have_text([re.compile("^queued"), re.compile("^in flight"), re.compile("^delivered")])
    expect(page.locator("message-about .about")).to_contain_text("Hand-overs1")


def test_the_box_grows_with_what_is_written_in_it(desk: Desk, team: Team) -> None:
    page = desk.open(f"/tasks/{team.task()}")
    page.set_viewport_size({"width": 390, "height": 844})
    cut_off = "(field) => field.scrollHeight > field.clientHeight"
    page.fill("#body", "many words that wrap, " * 12)
    assert not page.locator("#body").evaluate(cut_off)
    page.fill("#body", "line\n" * 40)
    assert page.locator("#body").evaluate(cut_off)
    assert page.locator("#body").bounding_box()["height"] < 300


def test_enter_sends_and_shift_enter_breaks_the_line(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/tasks/{task}")
    page.focus("#body")
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    expect(page.locator("#body")).to_have_value("")
    expect(page.locator(".toast")).to_contain_text("Queued")
    assert team.pull(task) == ["one\ntwo"]


def test_urgent_is_explained_before_it_is_sent(desk: Desk, team: Team) -> None:
    page = desk.open(f"/tasks/{team.task()}")
    expect(page.get_by_text("Urgent stops the next tool call")).to_be_hidden()
    page.select_option("#priority", "urgent")
    expect(page.get_by_text("Urgent stops the next tool call")).to_be_visible()


def test_a_failed_send_clears_nothing_and_says_what_happened(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/tasks/{task}")
    page.route("**/send", lambda route: route.abort())
    page.select_option("#priority", "high")
    say(page, "important words")
    expect(page.locator(".form-note")).to_contain_text("could not be reached")
    expect(page.locator("#body")).to_have_value("important words")
    expect(page.locator("#priority")).to_have_value("high")
    page.unroute("**/send")
    desk.complaints.clear()  # the browser itself noted the failed request
    page.press("#body", "Enter")
    expect(page.locator("#body")).to_have_value("")
    expect(page.locator(".form-note")).to_be_hidden()
    assert team.pull(task) == ["important words"]


def test_a_retry_after_a_lost_answer_stores_once(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/tasks/{task}")

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        route.abort()

    page.route("**/send", lose_the_answer)
    say(page, "once")
    expect(page.locator(".form-note")).to_contain_text("will not happen twice")
    page.unroute("**/send")
    desk.complaints.clear()
    page.press("#body", "Enter")
    expect(page.locator(".toast").last).to_contain_text("nothing was sent twice")
    assert team.pull(task) == ["once"]


def test_what_was_typed_outlives_a_reload(desk: Desk, team: Team) -> None:
    page = desk.open(f"/tasks/{team.task()}")
    page.fill("#body", "half a thought")
    page.reload()
    expect(page.locator("#body")).to_have_value("half a thought")


def test_a_refusal_of_the_broker_is_said_where_one_typed(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/tasks/{task}")
    team.post(f"/v1/tasks/{task}/presence", {"state": "terminated", "session": "s-1"})
    with team.api() as client:
        client.delete(f"/v1/tasks/{task}").raise_for_status()
    say(page, "anybody there?")
    expect(page.locator(".form-note")).to_contain_text(f"No task {task} was declared")
    expect(page.locator("#body")).to_have_value("anybody there?")
    desk.complaints.clear()  # a 404 is noted by the browser


def test_what_nobody_got_is_taken_back(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/tasks/{task}")
    say(page, "never mind")
    page.get_by_role("button", name="Take back").click()
    expect(page.locator(".msg .steps")).to_contain_text("taken back")
    expect(page.get_by_role("button", name="Take back")).to_have_count(0)
    assert team.pull(task) == []


def test_a_dead_letter_is_requeued_in_place(desk: Desk, team: Team) -> None:
    task = team.task()
    message_id = team.send(task, "again and again")
    page = desk.open(f"/tasks/{task}")
    team.kill(task, message_id)
    expect(page.locator(".msg .steps")).to_contain_text("dead letter after 3 tries")
    page.get_by_role("button", name="Requeue").click()
    expect(page.locator(".msg .steps")).not_to_contain_text("dead letter")
    assert team.pull(task) == ["again and again"]
