"""The dashboard in a real browser, on a real broker process. One browser and one broker serve most tests; each has tasks of its own.

A page that complains (an error on the console, a request that leaves this machine, a policy that was broken, a dialog) fails its test.

Playwright's loop counts as running in its thread for as long as Playwright lives, and no other loop runs there meanwhile. So it lives
in a thread of its own, and these tests with it, from their fixtures to their teardown: the others never meet it.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from _pytest.runner import runtestprotocol
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.support.brokers import RunningBroker, running_broker
from tests.support.chromium import FLAGS, NOT_TESTED, find_chromium

WITHIN_MS = 8_000
ONE_HALF = ("test_axe", "test_hostile", "test_inbox", "test_keyboard", "test_sending")
"""Modules that one browser serves, and the rest another: together they take as long as all other tests."""
PRIVATE = re.compile(r"^(?:https?|blob|data|about|chrome)(?:://127\.0\.0\.1(?::\d+)?(?:/|$)|:)")


HERE = Path(__file__).parent
_stage = ThreadPoolExecutor(1, thread_name_prefix="browser")


@pytest.hookimpl(tryfirst=True)  # before xdist, which writes the groups into the names of tests
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            half = "one" if item.path.stem in ONE_HALF else "other"
            item.add_marker(pytest.mark.xdist_group(f"browser-{half}"))
            # By a thread: the signal would interrupt the one that waits, and not the one that hangs.
            item.add_marker(pytest.mark.timeout(240, method="thread"))
            if find_chromium() is None:
                item.add_marker(pytest.mark.skip(reason=NOT_TESTED))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not item.path.is_relative_to(HERE):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    _stage.submit(runtestprotocol, item, nextitem=nextitem).result()
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@dataclass
class Team:
    """A broker with a person and agents at it, asked over its API and not through the page."""

    broker: RunningBroker
    admin: str
    user: str
    _names: Iterator[int] = field(default_factory=itertools.count)

    def api(self, token: str | None = None) -> httpx2.Client:
        return self.broker.client(token or self.admin)

    def post(self, path: str, body: dict[str, Any], token: str | None = None) -> dict[str, Any]:
        with self.api(token) as client:
            answer = client.post(path, json=body)
        assert answer.status_code < 300, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def get(self, path: str) -> dict[str, Any]:
        with self.api() as client:
            answer = client.get(path)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def task(self, **fields: Any) -> str:
        """A new task with a session that lives."""
        name = f"task-{next(self._names)}"
        self.post("/v1/tasks", {"task": name, **fields})
        self.post(
            f"/v1/tasks/{name}/presence", {"state": "start", "session": "s-1", "machine": "laptop", "host": "claude"}
        )
        return name

    def send(self, task: str, body: str, **fields: Any) -> str:
        sent = self.post(f"/v1/tasks/{task}/messages", {"body": body, **fields})
        return str(sent["message"]["message_id"])

    def pull(self, task: str) -> list[str]:
        """The task's session takes its mail; the bodies."""
        batch = self.post(f"/v1/tasks/{task}/pull", {"session": "s-1", "ack": True})
        return [message["body"] for message in batch["messages"]]

    def kill(self, task: str, message_id: str) -> None:
        """Let a message become a dead letter."""
        while self.get(f"/v1/messages/{message_id}")["message"]["state"] != "dead":
            batch = self.post(f"/v1/tasks/{task}/pull", {"session": "s-1"})
            self.post(f"/v1/tasks/{task}/release", {"receipt": batch["receipt"]})


@dataclass
class Desk:
    """One browser window, signed in, and everything its pages complained about."""

    context: BrowserContext
    team: Team
    complaints: list[str]

    @property
    def url(self) -> str:
        return self.team.broker.url

    def open(self, path: str = "/", *, live: bool = True) -> Page:
        """A new tab on a view; it is live when this returns."""
        page = self.context.new_page()
        page.set_default_timeout(WITHIN_MS)
        page.goto(self.url + path)
        if live:
            page.wait_for_selector('#link-state[data-state="live"]')
        return page

    def close(self, *, forgive: bool = False) -> None:
        """Close the window while its broker still runs; `forgive` what a browser itself notes of a broker that did not."""
        if forgive:
            self.complaints.clear()
        said = list(self.complaints)
        self.context.close()
        self.complaints[:] = said

    def sign_in(self, token: str | None = None) -> None:
        """As the login's form does it, but without a page: most tests begin behind it."""
        with self.team.broker.client() as form:
            fields = {"token": token or self.team.user}
            answer = form.post("/login", data=fields, headers={"origin": self.url, "authorization": ""})
            assert answer.status_code == 303, answer.text
            self.context.add_cookies(
                [{"name": name, "value": value, "url": self.url} for name, value in form.cookies.items()]
            )


def team_at(broker: RunningBroker) -> Team:
    return Team(broker, broker.mint("admin"), broker.mint("user"))


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    playwright = sync_playwright().start()
    launched = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)

    def end() -> None:
        launched.close()
        playwright.stop()

    yield launched
    # A run that is cut short ends its fixtures in the main thread.
    end() if threading.current_thread().name.startswith("browser") else _stage.submit(end).result()


@pytest.fixture(scope="package")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    with running_broker(
        tmp_path_factory.mktemp("browser"), "--store-fsync", "everysec", "--attempts-max", "3"
    ) as broker:
        yield team_at(broker)


def listen(context: BrowserContext, complaints: list[str]) -> None:
    """Note whatever a page of this window complains about."""
    context.on(
        "console",
        lambda said: complaints.append(f"console: {said.text}") if said.type in ("error", "warning") else None,
    )
    context.on("weberror", lambda error: complaints.append(f"error: {error.error}"))
    context.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    context.on(
        "request", lambda request: None if PRIVATE.match(request.url) else complaints.append(f"request: {request.url}")
    )
    context.add_init_script(
        "document.addEventListener('securitypolicyviolation', (event) => console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI))"
    )


@pytest.fixture
def windows(browser: Browser) -> Iterator[Callable[..., Desk]]:
    """Makes browser windows; at the end none of them has complained."""
    desks: list[Desk] = []

    def make(team: Team, *, signed_in: bool = True, **options: Any) -> Desk:
        complaints: list[str] = []
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce", **options}
        )
        listen(context, complaints)
        desk = Desk(context, team, complaints)
        desks.append(desk)
        if signed_in:
            desk.sign_in()
        return desk

    yield make
    for desk in desks:
        desk.context.close()
    assert [said for desk in desks for said in desk.complaints] == []


@pytest.fixture
def desk(windows: Callable[..., Desk], team: Team) -> Desk:
    return windows(team)
