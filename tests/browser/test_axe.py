"""axe-core finds no serious problem in any view, empty or full, light or dark, on a desk or a phone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Desk, Team, team_at
from tests.browser.filling import fill, finish
from tests.support.brokers import running_broker

VIEWS = ["/", "/tasks/payments-api", "/tasks/search-index", "/messages/guide", "/inbox", "/attention", "/threads", "/threads/T-36", "/activity", "/activity?q=refund&sender=user", "/tasks/ghost"]  # fmt: skip
EMPTY = ["/", "/inbox", "/attention", "/threads", "/activity", "/activity?q=nothing", "/login", "/login?code=x"]
AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text()
SERIOUS = ("serious", "critical")
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
EVERYTHING: dict[str, object] = {}
LOOKS = {1440: {"light": EVERYTHING, "dark": COLOURS}, 390: {"dark": EVERYTHING}}
"""Every rule at both widths; what looks at colours, which are the same at each, in both schemes."""


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with running_broker(tmp_path_factory.mktemp("busy"), "--store-fsync", "everysec") as broker:
        finish(fill(broker.data_dir))
        yield team_at(broker)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with running_broker(tmp_path_factory.mktemp("quiet"), "--store-fsync", "everysec") as broker:
        yield team_at(broker)


def problems(page: Page) -> list[str]:
    """What axe finds."""
    page.evaluate(AXE)
    found = []
    size = page.viewport_size
    assert size
    for scheme, options in LOOKS[size["width"]].items():
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        ran = page.evaluate("(options) => axe.run(document, { resultTypes: ['violations'], ...options })", options)
        found += [
            f"{scheme}: {one['impact']}: {one['id']}: {one['help']}: {node['html'][:200]} {node.get('failureSummary', '')[:300]}"
            for one in ran["violations"]
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]
    return found


def look(desk: Desk, paths: list[str]) -> dict[str, list[str]]:
    page = desk.context.new_page()
    found = {}
    for path in paths:
        page.goto(desk.url + path)
        page.wait_for_selector("main")
        if said := problems(page):
            found[path] = said
    return found


@pytest.mark.parametrize("width", LOOKS)
def test_no_view_has_a_serious_problem(windows: Callable[..., Desk], busy: Team, width: int) -> None:
    desk = windows(busy, viewport={"width": width, "height": 900})
    assert look(desk, [*VIEWS, "/docs"] if width > 1_000 else VIEWS) == {}
    page = desk.open("/inbox")
    page.locator(".reply summary").first.click()
    page.click("#menu summary")
    assert problems(page) == []
    page.goto(desk.url + "/tasks/payments-api")
    page.select_option("#priority", "urgent")
    page.evaluate(
        "() => { document.getElementById('banner').hidden = false; document.querySelector('.banner-words').textContent = 'Lost'; }"
    )
    assert problems(page) == []
    desk.close(forgive=True)  # a 404 is noted by the browser


@pytest.mark.parametrize("width", LOOKS)
def test_no_empty_view_has_a_serious_problem(windows: Callable[..., Desk], quiet: Team, width: int) -> None:
    desk = windows(quiet, viewport={"width": width, "height": 900})
    found = look(desk, EMPTY[:-2])
    stranger = windows(quiet, signed_in=False, viewport={"width": width, "height": 900})
    assert found | look(stranger, EMPTY[-2:]) == {}
    desk.close()
    stranger.close()
