"""Every state has an address, the back button works, and what a person chose is remembered."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from inboxd.edges import assets
from inboxd.edges.dashboard.rendering import ago, left
from tests.browser.conftest import Desk, Team, team_at
from tests.support.brokers import running_broker


def test_a_link_printed_by_the_broker_makes_the_first_person(windows: Callable[..., Desk], team: Team) -> None:
    desk = windows(team, signed_in=False)
    found = re.search(r"you +(\S+/login\?code=\S+)", team.broker.greeting)
    assert found
    page = desk.context.new_page()
    page.goto(found[1])
    page.get_by_role("button", name="Open my dashboard").click()
    expect(page).to_have_url(desk.url + "/")
    expect(page.locator("#menu")).to_contain_text("You")
    again = windows(team, signed_in=False)
    page = again.context.new_page()
    page.goto(found[1])
    page.get_by_role("button", name="Open my dashboard").click()
    expect(page.get_by_role("alert")).to_contain_text("used")
    again.complaints.clear()  # a 401 is noted by the browser


def test_a_page_asked_for_before_the_login_comes_after_it(windows: Callable[..., Desk], team: Team) -> None:
    task = team.task()
    desk = windows(team, signed_in=False)
    page = desk.context.new_page()
    page.goto(f"{desk.url}/tasks/{task}")
    page.fill("#token", team.user)
    page.press("#token", "Enter")
    expect(page).to_have_url(f"{desk.url}/tasks/{task}")


def test_a_filter_is_part_of_the_address(desk: Desk, team: Team) -> None:
    wanted, other = team.task(title="Needle in the hay"), team.task(title="Something else")
    page = desk.open("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("needle")
    expect(page.locator(f'.task[data-id="{wanted}"]')).to_be_visible()
    expect(page.locator(f'.task[data-id="{other}"]')).to_be_hidden()
    expect(page).to_have_url(re.compile(r"\?filter=needle$"))
    page.locator(f'.task[data-id="{wanted}"] a').first.click()
    page.wait_for_url(f"**/tasks/{wanted}")
    page.go_back()
    expect(page.locator("#filter")).to_have_value("needle")
    expect(page.locator(f'.task[data-id="{other}"]')).to_be_hidden()
    page.fill("#filter", "no such thing")
    expect(page.get_by_text("No task fits this filter.")).to_be_visible()


def test_the_most_urgent_task_moves_to_the_top_unless_somebody_points_at_the_list(desk: Desk, team: Team) -> None:
    quiet, loud = team.task(title="Quiet"), team.task(title="Loud")
    page = desk.open("/?filter=task-")
    team.send(quiet, "x")
    team.send(loud, "y", priority="urgent")
    ours = page.locator(f'.task[data-id="{quiet}"], .task[data-id="{loud}"]')
    expect(ours.first).to_have_attribute("data-id", loud)
    page.hover(f'.task[data-id="{quiet}"]')
    team.pull(loud)
    expect(page.locator(f'.task[data-id="{loud}"] .badge')).to_have_count(0)
    expect(ours.first).to_have_attribute("data-id", loud)
    page.mouse.move(5, 5)
    expect(ours.first).to_have_attribute("data-id", quiet)


def test_a_removed_task_leaves_the_list_and_a_new_one_joins_it(desk: Desk, team: Team) -> None:
    team.task()
    page = desk.open("/")
    task = team.task(title="Fresh")
    expect(page.locator(f'.task[data-id="{task}"]')).to_contain_text("Fresh")
    with team.api() as client:
        client.delete(f"/v1/tasks/{task}").raise_for_status()
    expect(page.locator(f'.task[data-id="{task}"]')).to_have_count(0)


def test_a_row_shows_the_task_s_state_session_and_waits(desk: Desk, team: Team) -> None:
    task, peer = team.task(title="Worker"), team.task()
    page = desk.open("/")
    row = page.locator(f'.task[data-id="{task}"]')
    expect(row.locator(".dot-active")).to_have_count(1)
    expect(row).to_contain_text("claude on laptop")
    team.post(f"/v1/tasks/{task}/peers", {"peers": [peer]})
    expect(row).to_contain_text(peer)
    team.send(peer, "well?", **{"from": f"task:{task}", "awaiting_response": True})
    expect(row).to_contain_text("waits for an answer")
    team.post(f"/v1/tasks/{task}/presence", {"state": "waiting", "session": "s-1", "detail": "May I?"})
    expect(row).to_contain_text("needs you")
    team.post(f"/v1/tasks/{task}/presence", {"state": "end", "session": "s-1"})
    expect(row.locator(".dot-idle, .dot-active")).to_have_count(1)
    team.post(f"/v1/tasks/{task}/presence", {"state": "terminated", "session": "s-1"})
    expect(row.locator(".dot-terminated")).to_have_count(1)


def test_colours_are_chosen_once_and_never_flash(desk: Desk, team: Team) -> None:
    page = desk.open("/")
    page.click("#menu summary")
    page.get_by_label("Dark").check(force=True)
    dark = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert 'data-theme="dark"' in page.request.get(desk.url + "/").text()
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == dark
    page.click("#menu summary")
    page.get_by_label("Light").check(force=True)
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") != dark


def test_the_feed_can_be_held_still(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open("/activity")
    team.send(task, "one")
    expect(page.locator(".event").first).to_contain_text(f"operator wrote to {task}")
    page.get_by_role("button", name="Pause").click()
    before = page.locator(".event").first.get_attribute("data-id")
    team.send(task, "two")
    team.send(task, "three")
    expect(page.locator(".held-back")).to_contain_text("2 new events")
    assert page.locator(".event").first.get_attribute("data-id") == before
    page.get_by_role("button", name="2 new events").click()
    expect(page.locator(".held-back")).to_be_hidden()
    expect(page.locator(".event").first).not_to_have_attribute("data-id", before or "")
    page.locator(".event").first.locator("summary").click()
    expect(page.locator(".event").first.locator("pre")).to_contain_text('"type": "task_message_queued"')
    event, json = page.locator(".event").first.bounding_box(), page.locator(".event pre").first.bounding_box()
    assert event
    assert json
    assert json["width"] > event["width"] * 0.9
    page.select_option("#feed-kind", label="Threads")
    expect(page.locator(f".event:visible b:text-is('{task}')")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"\?show=thread_$"))


def test_messages_are_found_by_words_sender_task_and_time(desk: Desk, team: Team) -> None:
    one, other = team.task(), team.task()
    team.send(other, "the purple elephant dances", **{"from": f"task:{one}"})
    team.send(one, "a purple mouse")
    page = desk.open("/activity")
    page.fill("[name=q]", "PURPLE")
    page.press("[name=q]", "Enter")
    expect(page.locator(".msg-body")).to_have_text(["a purple mouse", "the purple elephant dances"])
    page.get_by_text("Narrow it down").click()
    page.fill("[name=sender]", one)
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".msg-body")).to_have_text(["the purple elephant dances"])
    assert f"sender={one}" in page.url
    page.fill("[name=until]", "2020-01-01T00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.go_back()
    expect(page.locator(".msg-body")).to_have_text(["the purple elephant dances"])


def test_a_thread_moves_over_the_board_and_is_answered_and_cancelled(desk: Desk, team: Team) -> None:
    task = team.task()
    board = desk.open("/threads")
    thread = team.post("/v1/threads", {"subject": "Polish the board", "to": task, "body": "Please.", "from": "user"})[
        "thread"
    ]["thread_id"]
    card = board.locator(f'.thread-card[data-id="{thread}"]')
    expect(board.locator(f'ul[data-status="pending"] [data-id="{thread}"]')).to_be_visible()
    fence = team.post(f"/v1/threads/{thread}/claim", {"agent": task, "lease_ms": 90_000})["thread"]["lease"][
        "fencing_token"
    ]
    expect(board.locator(f'ul[data-status="claimed"] [data-id="{thread}"]')).to_contain_text("left")
    page = desk.open(f"/threads/{thread}")
    artifact = {"path": "docs/board.md", "kind": "file"}
    team.post(
        f"/v1/threads/{thread}/update",
        {"agent": task, "fencing_token": fence, "summary": "half way", "artifacts": [artifact]},
    )
    expect(page.locator(".msg").last).to_contain_text("half way")
    expect(page.locator(".msg").last).to_contain_text("docs/board.md")
    expect(board.locator(f'ul[data-status="in_progress"] [data-id="{thread}"]')).to_contain_text("half way")
    page.fill("#body", "Looks good")
    page.press("#body", "Enter")
    expect(page.locator(".msg").last).to_contain_text("Looks good")
    assert "Looks good" in team.pull(task)
    page.get_by_text("Cancel this thread").click()
    page.fill("#reason", "Changed my mind")
    page.get_by_role("button", name="Cancel the thread").click()
    expect(page.locator("thread-about")).to_contain_text("Cancelled")
    expect(page.locator("#body")).to_have_count(0)
    expect(board.locator(f'ul[data-status="closed"] [data-id="{thread}"]')).to_be_visible()
    expect(card).to_contain_text("Changed my mind")
    expect(card).to_contain_text("cancelled")


def test_a_long_thread_shows_what_was_said_last_and_a_way_to_its_start(desk: Desk, team: Team) -> None:
    task = team.task()
    opened = team.post("/v1/threads", {"subject": "A long one", "to": task, "body": "The beginning.", "from": "user"})
    thread = opened["thread"]["thread_id"]
    claimed = team.post(f"/v1/threads/{thread}/claim", {"agent": task})
    fence = claimed["thread"]["lease"]["fencing_token"]
    with team.api() as client:
        for number in range(101):
            said = {"agent": task, "fencing_token": fence, "summary": f"step {number}"}
            client.post(f"/v1/threads/{thread}/update", json=said).raise_for_status()
    page = desk.open(f"/threads/{thread}")
    expect(page.locator(".msg")).to_have_count(100)
    page.fill("#body", "How far is it?")
    page.press("#body", "Enter")
    expect(page.locator(".msg").last).to_contain_text("How far is it?")
    page.get_by_role("link", name="From the start").click()
    expect(page.locator(".msg").first).to_contain_text("The beginning.")
    page.get_by_role("link", name="Later").click()
    expect(page.locator(".msg").last).to_contain_text("How far is it?")
    page.get_by_role("link", name="To the newest").click()
    expect(page.locator(".msg")).to_have_count(100)


def test_every_thread_can_be_reached_however_many_there_are(windows: Callable[..., Desk], tmp_path: Path) -> None:
    with running_broker(tmp_path, "--store-fsync", "everysec") as broker:
        team = team_at(broker)
        task = team.task()
        ids = []
        with team.api() as client:
            for number in range(120):
                said = {"subject": f"work {number}", "to": task, "body": "Please.", "from": "user"}
                ids.append(client.post("/v1/threads", json=said).raise_for_status().json()["thread"]["thread_id"])
            for thread in ids[:14]:
                client.post(f"/v1/threads/{thread}/cancel", json={}).raise_for_status()
        desk = windows(team)
        page = desk.open("/threads")
        expect(page.locator('ul[data-status="pending"] li')).to_have_count(100)
        page.get_by_role("link", name="Older open threads").click()
        expect(page.locator('ul[data-status="pending"] li')).to_have_count(6)
        # What changes here moves; what is new stands on the first page.
        fresh = {"subject": "brand new", "to": task, "body": "Please.", "from": "user"}
        team.post("/v1/threads", fresh)
        team.post(f"/v1/threads/{ids[15]}/claim", {"agent": task})
        expect(page.locator(f'ul[data-status="claimed"] [data-id="{ids[15]}"]')).to_be_visible()
        expect(page.get_by_text("brand new")).to_have_count(0)
        page.get_by_role("link", name="To the newest").click()
        expect(page.get_by_text("brand new")).to_be_visible()
        expect(page.locator(".closed-list li")).to_have_count(12)
        page.get_by_role("link", name="Older closed threads").click()
        expect(page.locator(".closed-list li")).to_have_count(2)
        expect(page.locator(".board")).to_be_hidden()
        desk.close()


def test_each_time_of_a_search_is_that_of_the_clock_as_it_stood_then(windows: Callable[..., Desk], team: Team) -> None:
    team.send(team.task(), "said just now")
    page = windows(team, timezone_id="Europe/Berlin").open("/activity")
    page.get_by_text("Narrow it down").click()
    page.fill("[name=since]", "2020-07-01T12:00")
    page.fill("[name=until]", "2099-12-01T12:00")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("said just now").first).to_be_visible()
    assert page.url.endswith("tz=120%2C60")


def test_a_column_that_is_cut_off_goes_on_saying_so(windows: Callable[..., Desk], tmp_path: Path) -> None:
    with running_broker(tmp_path, "--store-fsync", "everysec") as broker:
        team = team_at(broker)
        task = team.task()
        with team.api() as client:
            for number in range(101):
                work = {"subject": f"work {number}", "to": task, "body": "Please.", "from": "user"}
                client.post("/v1/threads", json=work).raise_for_status()
        desk = windows(team)
        page = desk.open("/threads")
        count = page.locator("#column-pending [data-column-count]")
        expect(count).to_have_text("100+")
        team.post("/v1/threads", {"subject": "the newest", "to": task, "body": "Please.", "from": "user"})
        expect(page.locator('ul[data-status="pending"] > li').first).to_contain_text("the newest")
        expect(count).to_have_text("101+")
        desk.close()


def test_a_question_that_comes_while_the_thread_is_open_is_answered_from_its_box(desk: Desk, team: Team) -> None:
    task = team.task()
    opened = {"subject": "Which browser", "to": task, "body": "Please.", "from": "user"}
    thread = team.post("/v1/threads", opened)["thread"]["thread_id"]
    fence = team.post(f"/v1/threads/{thread}/claim", {"agent": task})["thread"]["lease"]["fencing_token"]
    page = desk.open(f"/threads/{thread}")
    blocked = {"agent": task, "fencing_token": fence, "status": "blocked", "summary": "Which Safari?"}
    team.post(f"/v1/threads/{thread}/update", blocked)
    box = page.get_by_placeholder("Answer the question")
    box.fill("Version 18")
    box.press("Enter")
    expect(page.locator(".msg").last).to_contain_text("Version 18")
    shown = team.get(f"/v1/threads/{thread}")
    assert (shown["messages"][-1]["kind"], shown["thread"]["question_id"]) == ("answer", None)
    expect(page.get_by_placeholder("Reply in this thread")).to_be_visible()


def test_what_kind_a_word_is_stands_in_one_line(desk: Desk, team: Team) -> None:
    task = team.task()
    for kind in ("message", "question", "answer", "progress", "result", "control", "event", "help_request", "task"):
        team.send(task, kind, kind=kind)
    tags = desk.open(f"/tasks/{task}").locator(".msg .tag")
    expect(tags).to_have_count(8)
    assert {round(tag.bounding_box()["height"]) for tag in tags.all()} == {20}  # type: ignore[index]


def test_a_phone_has_every_view_at_hand(windows: Callable[..., Desk], team: Team) -> None:
    team.task(title="A task with a rather long title that does not fit into one line of a phone")
    desk = windows(team, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = desk.open("/")
    for name in ("Inbox", "Attention", "Threads", "Activity", "Tasks"):
        link = page.get_by_role("navigation").get_by_role("link", name=re.compile(name))
        box = link.bounding_box()
        assert box
        assert box["height"] >= 44
        link.tap()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.locator("#menu summary").tap()
    expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_visible()


def test_desktop_notifications_come_only_when_asked_for(windows: Callable[..., Desk], team: Team) -> None:
    task = team.task()
    desk = windows(team, permissions=["notifications"])
    desk.context.add_init_script(
        """window.told = [];
        window.Notification = class { constructor(title, options) { window.told.push([title, options.tag]); } close() {}
          static permission = "granted"; static async requestPermission() { return "granted"; } };
        document.hasFocus = () => false;"""
    )
    page = desk.open("/")
    team.send("user", "before", **{"from": f"task:{task}", "kind": "question"})
    expect(page).to_have_title(re.compile(r"^\("))
    assert page.evaluate("() => window.told") == []
    page.click("#menu summary")
    page.get_by_role("button", name="Desktop notifications").click()
    expect(page.locator("#notify")).to_have_attribute("aria-pressed", "true")
    message_id = team.send("user", "after", **{"from": f"task:{task}", "kind": "question"})
    team.send(task, "not for the person")
    page.wait_for_function("() => window.told.length")
    assert page.evaluate("() => window.told") == [[f"{task} asks", message_id]]


def test_every_page_shows_and_every_form_works_without_a_script(windows: Callable[..., Desk], team: Team) -> None:
    task = team.task()
    desk = windows(team, java_script_enabled=False, signed_in=False)
    page = desk.context.new_page()
    page.goto(desk.url + f"/tasks/{task}")
    page.fill("#token", team.user)
    page.press("#token", "Enter")
    page.fill("#body", "no script here")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".msg-body").first).to_have_text("no script here")
    page.get_by_role("button", name="Take back").click()
    expect(page.locator(".msg .steps").first).to_contain_text("taken back")
    for path in ("/", "/inbox", "/attention", "/threads", "/activity"):
        page.goto(desk.url + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        for dead in ("#link-state", ".send-hint", "#feed-kind", ".head .search", "#theme"):
            expect(page.locator(f"{dead}:visible")).to_have_count(0)  # nothing here is live, sorts or filters


def test_an_address_that_is_none_gets_a_page_with_a_way_back(desk: Desk, team: Team) -> None:
    page = desk.context.new_page()
    for path, words in (("/nowhere", "no page at this address"), ("/tasks/ghost", "No task ghost")):
        page.goto(desk.url + path)
        expect(page.get_by_role("heading", level=1)).to_have_text("Not here")
        expect(page.locator("main")).to_contain_text(words)
        page.get_by_role("link", name="All tasks").click()
        expect(page).to_have_url(desk.url + "/")
    assert page.request.get(desk.url + "/nowhere", headers={"accept": "*/*"}).json()["error"]["code"] == "ROUTE_UNKNOWN"
    desk.complaints.clear()  # a 404 is noted by the browser


def test_whoever_s_session_ended_is_told_so_and_comes_back_to_where_they_were(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open(f"/tasks/{task}")
    cookie = next(one for one in desk.context.cookies() if one["value"].startswith("ibx_"))
    with team.api() as client:
        client.delete(f"/v1/tokens/{cookie['value'].split('.')[1]}").raise_for_status()  # type: ignore[typeddict-item]
    page.wait_for_url("**/login?next=*")
    expect(page.locator("main")).to_contain_text("Your session has ended")
    page.fill("#token", team.user)
    page.press("#token", "Enter")
    expect(page).to_have_url(f"{desk.url}/tasks/{task}")
    desk.complaints.clear()  # a 401 is noted by the browser


def test_the_page_s_clock_says_what_the_server_s_says(desk: Desk, team: Team) -> None:
    page = desk.open("/")
    now = 1_800_000_000_000
    passed = [-5_000, 0, 4_999, 5_000, 59_999, 60_000, 3_599_999, 3_600_000, 86_399_999, 86_400_000, 40 * 86_400_000]
    told = page.evaluate(
        "async ([url, now, passed]) => { const { ago, left } = await import(url); return passed.map((one) => [ago(now - one, now), left(now + one, now)]); }",
        [assets.url_of("clock.js"), now, passed],
    )
    assert told == [[ago(now - one, now), left(now + one, now)] for one in passed]
