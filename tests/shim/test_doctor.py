"""`inbox doctor`: every link is tried as it is used, the broken one is named, and nobody's mail is touched."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inboxd.hosts import HOSTS
from inboxd.model import Role
from tests.support.brokers import RunningBroker, running_broker
from tests.support.inbox import Inbox
from tests.support.servers import free_port

pytestmark = pytest.mark.xdist_group("inbox-doctor")

FILES = {
    "claude": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini": ".gemini/settings.json",
    "qwen": ".qwen/settings.json",
    "copilot": ".copilot/hooks/inbox.json",
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        with broker.client() as client:
            client.post("/v1/tasks", json={"task": "backend"}).raise_for_status()
        yield broker


@pytest.fixture
def me(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Inbox:
    return Inbox(inbox_binary, tmp_path / "home", running.url, running.token, {"INBOX_TASK": "backend"})


def install(folder: Path, host: str, command: str | None = None) -> Path:
    """Hooks as `attach` writes them."""
    path = folder / FILES[host]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(HOSTS[host].settings_entry(command or f"inbox hook {host}")))
    return path


def links(me: Inbox, *more: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """How it ended, and the links by name; of several with one name the worst."""
    ran = me.run("doctor", *more, "--json")
    said = ran.json
    assert said["command"] == "doctor"
    assert said["ok"] == (ran.code == 0)
    found: dict[str, dict[str, Any]] = {}
    for one in sorted(said["checks"], key=lambda one: one["state"] == "broken"):
        found[one["check"]] = one
    if ran.code:
        assert said["error"]["code"] == "LINK_BROKEN"
        assert {*said["error"]} == {"code", "message", "hint", "retry_after_ms"}
    return ran.code, found


def test_all_is_well_without_hooks_and_the_built_in_one_is_tried(me: Inbox) -> None:
    ran = me.ok("doctor")
    assert [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("✓")] == [
        "configuration",
        "broker",
        "token",
        "task",
        "claude",
    ]
    assert "✗" not in ran.stdout
    assert f"url {me.url} (INBOX_URL)" in ran.stdout
    assert "none are installed" in ran.stdout
    assert "the probe came through" in ran.stdout
    assert "Everything that was tried works." in ran.stdout
    code, found = links(me)
    assert code == 0
    assert found["broker"]["took_ms"] >= 0
    assert found["token"]["detail"] == "role operator, namespace default"


@pytest.mark.parametrize("host", sorted(FILES))
@pytest.mark.parametrize("where", ["home", "folder"])
def test_the_probe_comes_through_every_hosts_hook(me: Inbox, host: str, where: str) -> None:
    path = install(me.home if where == "home" else me.folder, host)
    if (host, where) == ("copilot", "folder"):
        (me.folder / ".github" / "hooks").mkdir(parents=True)
        path = path.rename(me.folder / ".github" / "hooks" / "inboxd.json")
    code, found = links(me)
    assert (code, found[host]["state"]) == (0, "ok"), found
    assert str(path) in found["hooks"]["detail"]


def test_a_probe_touches_no_mail(me: Inbox) -> None:
    me.ok("send", "backend", "real mail", "--id", "doctor-test-1")
    install(me.folder, "claude")
    me.ok("doctor")
    assert me.said("show", "doctor-test-1")["message"]["state"] == "queued"
    assert "| real mail" in me.ok("check").stdout


def test_hooks_of_the_repository_above_are_found(me: Inbox) -> None:
    (me.folder / ".git").mkdir()
    install(me.folder, "claude")
    me.folder = me.folder / "deep" / "down"
    me.folder.mkdir(parents=True)
    _, found = links(me)
    assert found["claude"]["state"] == "ok"


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 0", "printed nothing"),
        ("echo oops >&2; exit 3", "ended with 3: oops"),
        ("echo log line; inbox hook claude", "printed what is no JSON"),
        ("echo '{}'", "did not bring the probe"),
        ("inbox hook claude | sed s/PostToolUse/Stop/", "answers for another event, Stop"),
        ("INBOX_URL=http://127.0.0.1:9 inbox hook claude", "printed nothing"),
        ("INBOX_TASK=other inbox hook claude", "printed nothing"),
    ],
)
def test_a_hook_that_does_not_bring_it_is_named(me: Inbox, script: str, words: str) -> None:
    install(me.home, "claude", f"{script} # inbox hook claude")
    code, found = links(me)
    assert code == 50
    assert found["claude"]["state"] == "broken"
    assert words in found["claude"]["detail"]
    assert found["claude"]["hint"]


def test_a_binary_that_is_not_there_is_named(me: Inbox) -> None:
    install(me.home, "codex", "/nowhere/inbox hook codex")
    code, found = links(me)
    assert code == 50
    assert "ended with 127" in found["codex"]["detail"]
    assert "PATH" in found["codex"]["hint"]


def test_a_hook_that_speaks_to_another_host_is_named(me: Inbox) -> None:
    install(me.home, "codex", "inbox hook claude")
    code, found = links(me)
    assert code == 50
    assert "speaks to another host" in found["hooks"]["detail"]


def test_a_hook_without_a_shell_is_run_without_one(me: Inbox) -> None:
    path = me.folder / FILES["claude"]
    path.parent.mkdir()
    entry = {"type": "command", "command": "inbox", "args": ["hook", "claude"]}
    path.write_text(json.dumps({"hooks": {"PostToolUse": [{"matcher": "*", "hooks": [entry]}]}}))
    code, found = links(me)
    assert (code, found["claude"]["state"]) == (0, "ok")


def test_a_projects_hook_that_does_more_is_not_run_unasked(me: Inbox) -> None:
    install(me.folder, "claude", "touch ran; inbox hook claude")
    code, found = links(me)
    assert (code, found["claude"]["state"]) == (0, "skipped")
    assert "--trust-project" in found["claude"]["hint"]
    assert not (me.folder / "ran").exists()
    code, found = links(me, "--trust-project")
    assert (code, found["claude"]["state"]) == (0, "ok")
    assert (me.folder / "ran").exists()


def test_an_inbox_that_a_project_brought_is_not_run_unasked(me: Inbox) -> None:
    fake = me.folder / "inbox"
    fake.write_text("#!/bin/sh\ntouch ran\n")
    fake.chmod(0o755)
    for command in ("./inbox hook claude", f"{fake} hook claude", "PATH=. inbox hook claude"):
        install(me.folder, "claude", command)
        assert links(me)[1]["claude"]["state"] == "skipped"
    assert not (me.folder / "ran").exists()
    install(me.folder, "claude", f"{me.binary} hook claude")
    assert links(me)[1]["claude"]["state"] == "ok"


def test_settings_that_are_broken_or_switched_off_are_named(me: Inbox) -> None:
    path = install(me.home, "gemini")
    path.write_text(path.read_text()[:-3])
    code, found = links(me)
    assert (code, "is not valid JSON" in found["hooks"]["detail"]) == (50, True)
    path.unlink()
    path = install(me.home, "claude")
    path.write_text(json.dumps({**json.loads(path.read_text()), "disableAllHooks": True}))
    code, found = links(me)
    assert (code, "disableAllHooks" in found["hooks"]["detail"]) == (50, True)


def test_others_hooks_are_none_of_our_business(me: Inbox) -> None:
    install(me.folder, "claude", "touch ran")
    assert "none are installed" in me.ok("doctor").stdout
    assert not (me.folder / "ran").exists()


def test_the_first_broken_link_is_named(me: Inbox, inbox_binary: Path) -> None:
    install(me.folder, "claude")
    down = Inbox(inbox_binary, me.home, f"http://127.0.0.1:{free_port()}", me.token, me.more)
    ran = down.run("doctor")
    assert ran.code == 50
    assert "The broken link: broker." in ran.stdout
    assert ran.stdout.count("✗") == 1

    wrong = Inbox(inbox_binary, me.home, me.url, me.token[:-4] + "AAAA", me.more)
    ran = wrong.run("doctor")
    assert (ran.code, "The broken link: token." in ran.stdout) == (50, True)

    ran = me.run("doctor", "--task", "backnd")
    assert (ran.code, "The broken link: task." in ran.stdout) == (50, True)
    assert "Did you mean backend?" in ran.stdout

    me.more = {}
    ran = me.run("doctor")
    assert (ran.code, "The broken link: task." in ran.stdout) == (50, True)

    unset = Inbox(inbox_binary, me.home)
    ran = unset.run("doctor")
    assert (ran.code, "The broken link: configuration." in ran.stdout) == (50, True)


@pytest.mark.parametrize(("role", "task"), [("observer", None), ("user", None), ("agent", "frontend")])
@pytest.mark.parametrize("hooked", [True, False])
def test_a_token_that_does_not_open_the_inbox_is_the_broken_link(
    me: Inbox, running: RunningBroker, role: Role, task: str | None, hooked: bool
) -> None:
    if hooked:
        install(me.folder, "claude")
    me.token = running.mint(role, task)
    code, found = links(me)
    assert (code, found["token"]["state"], found["claude"]["state"]) == (50, "broken", "skipped")
    assert f"role {role}" in found["token"]["detail"]
    assert "does not open the inbox backend" in found["token"]["detail"]
    assert "The broken link: token." in me.run("doctor").stdout


def test_a_hook_that_does_not_know_what_a_flag_says_is_told_of(me: Inbox) -> None:
    install(me.folder, "claude")
    me.more = {name: value for name, value in me.more.items() if name != "INBOX_TASK"}
    code, found = links(me, "--task", "backend")
    assert (code, found["claude"]["state"]) == (50, "broken")
    assert "`inbox attach --task backend`" in found["claude"]["hint"]


def test_a_broker_that_the_hooks_had_given_up_is_tried_all_the_same(me: Inbox, running: RunningBroker) -> None:
    install(me.folder, "claude")
    me.url = f"http://127.0.0.1:{free_port()}"
    me.run("hook", "claude", stdin=json.dumps({"hook_event_name": "PostToolUse", "session_id": "s"}))
    me.url = running.url
    assert links(me)[0] == 0


def test_nothing_is_written_but_the_probe(me: Inbox) -> None:
    install(me.folder, "claude")
    install(me.home, "copilot")

    def files() -> dict[str, float]:
        paths = [Path(folder) / name for folder, _, names in os.walk(me.home) for name in names]
        return {str(path): path.stat().st_mtime_ns for path in paths}

    before = files()
    me.ok("doctor")
    assert files() == before
