"""`make screenshots`: every view as a picture, full and empty, light and dark, on a desk and on a phone.

All of them go to build/screenshots, to be looked at; the few that the README shows to docs/screenshots.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from tests.browser.conftest import Team, team_at
from tests.browser.filling import fill, finish
from tests.support.brokers import running_broker
from tests.support.chromium import FLAGS, NOT_TESTED, find_chromium

ROOT = Path(__file__).parents[2]
ALL = ROOT / "build" / "screenshots"
README = ROOT / "docs" / "screenshots"
FULL = {
    "tasks": "/",
    "task": "/tasks/payments-api",
    "inbox": "/inbox",
    "attention": "/attention",
    "threads": "/threads",
    "thread": "/threads/T-36",
    "activity": "/activity",
    "search": "/activity?q=refund&sender=payments-api",
    "message": "/messages/guide",
}
EMPTY = {"tasks": "/", "inbox": "/inbox", "attention": "/attention", "threads": "/threads", "activity": "/activity"}
OUTSIDE = {"login": "/login", "link": "/login?code=0123456789abcdef0123"}
SHOWN = {
    "tasks.png": ("full", "tasks", 1440, "light"),
    "tasks-dark.png": ("full", "tasks", 1440, "dark"),
    "task.png": ("full", "task", 1440, "light"),
    "inbox.png": ("full", "inbox", 1440, "dark"),
    "attention.png": ("full", "attention", 1440, "light"),
    "threads.png": ("full", "threads", 1440, "dark"),
    "activity.png": ("full", "activity", 1440, "light"),
    "phone.png": ("full", "attention", 390, "light"),
}
BYTES_MAX = 300_000


@contextmanager
def window(browser: Browser, width: int, scheme: str) -> Iterator[BrowserContext]:
    context = browser.new_context(
        viewport={"width": width, "height": 900 if width > 600 else 844},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=1 if width > 600 else 2,
        is_mobile=width <= 600,
        has_touch=width <= 600,
        reduced_motion="reduce",
    )
    yield context
    context.close()


def shoot(browser: Browser, team: Team, kind: str, views: dict[str, str]) -> None:
    for width in (1440, 390):
        for scheme in ("light", "dark"):
            with window(browser, width, scheme) as context:
                page = context.new_page()
                if kind != "outside":
                    page.goto(f"{team.broker.url}/login")
                    page.fill("#token", team.user)
                    page.click("button.primary")
                    page.wait_for_selector("main.view")
                for name, path in views.items():
                    page.goto(team.broker.url + path)
                    if kind != "outside":
                        page.wait_for_selector('#link-state[data-state="live"]')
                    page.screenshot(path=ALL / f"{kind}-{name}-{width}-{scheme}.png")


def main() -> int:
    chromium = find_chromium()
    if chromium is None:
        print(NOT_TESTED, file=sys.stderr)
        return 1
    ALL.mkdir(parents=True, exist_ok=True)
    README.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        with running_broker(Path(folder) / "empty", "--store-fsync", "everysec") as broker:
            team = team_at(broker)
            shoot(browser, team, "empty", EMPTY)
            shoot(browser, team, "empty", {"task": f"/tasks/{team.task(title='Nobody wrote yet')}"})
            shoot(browser, team, "outside", OUTSIDE)
        with running_broker(Path(folder) / "full", "--store-fsync", "everysec") as broker:
            team = team_at(broker)
            finish(fill(broker.data_dir))
            shoot(browser, team, "full", FULL)
        browser.close()
    for name, (kind, view, width, scheme) in SHOWN.items():
        picture = (ALL / f"{kind}-{view}-{width}-{scheme}.png").read_bytes()
        assert len(picture) < BYTES_MAX, f"{name} has {len(picture)} bytes"
        (README / name).write_bytes(picture)
    print(f"{len(list(ALL.glob('*.png')))} pictures in {ALL}, {len(SHOWN)} of them in {README}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
