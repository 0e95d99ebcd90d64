"""A page that stays open: it learns of everything, says when it cannot, and misses nothing afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Route, expect

from tests.browser.conftest import Desk, Team, team_at
from tests.support.brokers import running_broker
from tests.support.servers import free_port

LOST = "The broker cannot be reached"


def test_a_page_says_at_once_that_the_broker_stops_and_heals_by_itself(
    windows: Callable[..., Desk], tmp_path: Path
) -> None:
    with running_broker(tmp_path, "--port", str(free_port())) as broker:
        team = team_at(broker)
        task = team.task(title="Payments")
        desk = windows(team)
        overview, page = desk.open("/"), desk.open(f"/tasks/{task}")
        banner = page.locator("#banner")
        broker.stop()
        expect(banner).to_contain_text("The broker is stopping")
        expect(overview.locator("#banner")).to_contain_text("The broker is stopping")
        page.fill("#body", "sent into the void")
        page.press("#body", "Enter")
        expect(page.locator(".form-note")).to_contain_text("could not be reached")
        broker.start()
        # Mail that comes before the page is back is not missed.
        team.send(task, "while you were away", priority="urgent")
        expect(banner).to_be_hidden(timeout=15_000)
        expect(page.locator('#link-state[data-state="live"]')).to_be_visible()
        expect(page.locator(".msg-body").first).to_have_text("while you were away")
        expect(overview.locator(f'.task[data-id="{task}"] .badge')).to_have_text("1 urgent")
        page.press("#body", "Enter")
        expect(page.locator(".msg-body").first).to_have_text("sent into the void")
        assert sorted(team.pull(task)) == ["sent into the void", "while you were away"]
        desk.close(forgive=True)


def test_a_killed_broker_shows_at_once(windows: Callable[..., Desk], tmp_path: Path) -> None:
    with running_broker(tmp_path, "--port", str(free_port())) as broker:
        team = team_at(broker)
        desk = windows(team)
        page = desk.open("/")
        broker.kill()
        expect(page.locator("#banner")).to_contain_text(LOST, timeout=4_000)
        expect(page.locator("#link-state")).to_contain_text("Reconnecting")
        broker.start()
        expect(page.locator("#banner")).to_be_hidden(timeout=15_000)
        desk.close(forgive=True)


def test_a_log_that_was_cut_meanwhile_makes_the_page_read_its_lists_anew(
    windows: Callable[..., Desk], tmp_path: Path
) -> None:
    with running_broker(tmp_path, "--port", str(free_port()), "--events-max", "100") as broker:
        team = team_at(broker)
        task = team.task()
        desk = windows(team)
        page = desk.open("/")
        page.context.set_offline(True)
        with team.api() as client:
            for number in range(250):  # two events each: sent, and superseded by the next
                client.post(
                    f"/v1/tasks/{task}/messages", json={"body": f"m-{number}", "topic": "same"}
                ).raise_for_status()
        expect(page.locator(f'.task[data-id="{task}"] .badge')).to_have_count(0)
        page.context.set_offline(False)
        broker.kill()  # whatever was connected is not any more
        broker.start()
        expect(page.locator(f'.task[data-id="{task}"] .badge')).to_have_text("1 normal", timeout=20_000)
        desk.close(forgive=True)


def test_what_the_page_was_told_of_shows_even_if_it_could_not_be_read_at_first(desk: Desk, team: Team) -> None:
    task = team.task()
    overview, page, attention = desk.open("/"), desk.open(f"/tasks/{task}"), desk.open("/attention")
    refused: list[str] = []

    def refuse(route: Route) -> None:
        refused.append(route.request.url)
        if len(refused) % 2:
            route.abort()
        else:
            route.fulfill(status=503, body="")

    desk.context.route("**/ui/rows/**", refuse)
    desk.context.route("**/ui/counts", refuse)
    team.send(task, "came while nobody could look", priority="urgent")
    while len(refused) < 6:
        page.wait_for_timeout(50)
    desk.context.unroute_all()
    expect(overview.locator(f'.task[data-id="{task}"] .badge')).to_have_text("1 urgent", timeout=20_000)
    expect(page.locator(".msg-body").first).to_have_text("came while nobody could look", timeout=20_000)
    expect(attention.locator(f'.need[data-id="urgent_unread:{task}"]')).to_be_visible(timeout=20_000)
    desk.complaints.clear()  # the browser itself noted the failed requests


def test_the_feed_has_no_hole_however_much_happened_while_it_was_held(desk: Desk, team: Team) -> None:
    task = team.task()
    page = desk.open("/activity")
    page.get_by_role("button", name="Pause").click()
    with team.api() as client:
        for number in range(130):  # more than the broker gives in one answer
            client.post(f"/v1/tasks/{task}/messages", json={"body": f"{number}"}).raise_for_status()
    expect(page.locator(".held-back")).to_contain_text("130 new events")
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".event").nth(140)).to_be_attached()
    ids = page.locator(".event").evaluate_all("(all) => all.map((one) => Number(one.dataset.id))")
    assert ids == list(range(ids[0], ids[0] - len(ids), -1))


def test_many_tabs_share_one_stream(desk: Desk, team: Team) -> None:
    """A browser opens six connections to a host; without sharing, the seventh tab would never load."""
    task = team.task()
    pages = [desk.open(f"/tasks/{task}") for _ in range(8)]
    team.send(task, "to all of you")
    for page in pages:
        expect(page.locator(".msg-body").first).to_have_text("to all of you")


def test_a_tab_that_is_closed_and_opened_again_is_live(desk: Desk, team: Team) -> None:
    task = team.task()
    for number in range(3):
        page = desk.open(f"/tasks/{task}")
        team.send(task, f"round {number}")
        expect(page.locator(".msg-body").first).to_have_text(f"round {number}")
        page.close()


def test_signing_out_in_one_tab_signs_out_the_other(windows: Callable[..., Desk], team: Team) -> None:
    desk = windows(team)
    one, other = desk.open("/"), desk.open("/inbox")
    one.click("#menu summary")
    one.get_by_role("button", name="Sign out", exact=True).click()
    one.wait_for_url("**/login")
    other.wait_for_url("**/login?next=%2Finbox")
    one.goto(desk.url + "/")
    expect(one).to_have_url(desk.url + "/login")
    desk.complaints.clear()  # a 401 is noted by the browser


def test_views_that_show_nothing_yet_begin_to_show(windows: Callable[..., Desk], tmp_path: Path) -> None:
    shown = {"/": ".task", "/inbox": ".mail", "/attention": ".need", "/threads": ".thread-card", "/activity": ".event"}
    with running_broker(tmp_path, "--store-fsync", "everysec") as broker:
        team = team_at(broker)
        desk = windows(team)
        pages = {path: desk.open(path) for path in shown}
        task = team.task()
        team.send("user", "hello", **{"from": f"task:{task}", "awaiting_response": True})
        team.post("/v1/threads", {"subject": "Do it", "to": task, "body": "x", "from": "user"})
        for path, page in pages.items():
            expect(page.locator(shown[path]).first).to_be_visible()
            expect(page.locator(".empty")).to_be_hidden()
        desk.close()
