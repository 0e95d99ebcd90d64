"""What `inbox attach` is told to write for each host, to the letter; and that plans say only what the binary can carry out.

golden/<host>.plan.json is the whole plan for a binary in an awkward place, with the hooks that wake. The two texts that models
read stand in it by name, and have tests of their own.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from inboxd.hosts import HOSTS, Host, Wish, skill_text
from inboxd.hosts.plan import OURS
from inboxd.hosts.teaching import instruction_text
from inboxd.model import Plan, PlanEdit

GOLDEN = Path(__file__).parent / "golden"
BINARY = "/opt/ünï dir/it's/inbox"
WISH = Wish(binary=BINARY, wake=True)
hosts = pytest.mark.parametrize("host", HOSTS.values(), ids=list(HOSTS))


def told(plan: Plan) -> dict[str, Any]:
    """A plan as it travels, with the long texts by name."""
    said = plan.model_dump(mode="json")
    for edit in said["edits"]:
        for name, text in (("@skill", skill_text()), ("@instruction", instruction_text())):
            if edit["text"] == text:
                edit["text"] = name
    return said


def hooks_of(plan: Plan) -> list[dict[str, Any]]:
    """Every hook entry a plan adds."""
    (edit,) = [edit for edit in plan.edits if edit.what == "hooks"]
    if edit.form == "whole":
        return [hook for hooks in json.loads(edit.text)["hooks"].values() for hook in hooks]
    return [hook for addition in edit.additions for hook in addition.value["hooks"]]


def command_of(hook: dict[str, Any]) -> str:
    return str(hook.get("command") or hook["bash"])


@hosts
def test_the_plan_is_what_it_was(host: Host) -> None:
    assert told(host.plan(WISH)) == json.loads((GOLDEN / f"{host.name}.plan.json").read_text(encoding="utf-8"))


@hosts
def test_a_plan_has_hooks_the_mcp_server_the_instruction_and_the_skill(host: Host) -> None:
    assert [edit.what for edit in host.plan(WISH).edits] == ["hooks", "mcp", "instruction", "skill"]


@hosts
def test_the_hooks_are_those_of_the_settings_entry(host: Host) -> None:
    plain = host.plan(Wish(binary="inbox"))
    entry = host.settings_entry(f"inbox hook {host.name}")
    assert len(hooks_of(plain)) == len(entry["hooks"])
    assert {command_of(hook) for hook in hooks_of(plain)} == {f"inbox hook {host.name}"}


@hosts
def test_a_shell_finds_the_binary_wherever_it_is(host: Host) -> None:
    for hook in hooks_of(host.plan(WISH)):
        assert shlex.split(command_of(hook))[0] == BINARY


@hosts
def test_every_command_of_ours_is_known_again(host: Host) -> None:
    for wish in (WISH, Wish(), Wish(binary="C:\\Program Files\\inbox.exe", windows=True, wake=True)):
        plan = host.plan(wish)
        for hook in hooks_of(plan):
            for name in OURS.names:
                if name in hook:
                    assert re.search(OURS.like, hook[name]), hook
        for edit in plan.edits:
            if edit.what == "mcp" and edit.form == "json":
                assert re.search(OURS.like, edit.additions[0].value["command"])


@pytest.mark.parametrize(
    "command",
    [
        "my-inbox hook claude",
        "inboxd serve",
        "say inbox",
        "npx inbox-server",
        "outbox hook claude",
        "/opt/inbox/run.sh",
    ],
)
def test_a_command_of_somebody_elses_is_not_taken_for_ours(command: str) -> None:
    assert re.search(OURS.like, command) is None


@hosts
def test_reminding_is_a_flag_of_every_hook(host: Host) -> None:
    commands = {command_of(hook) for hook in hooks_of(host.plan(Wish(remind=True)))}
    assert commands == {f"inbox hook {host.name} --remind"}


@hosts
def test_no_plan_holds_or_asks_for_a_token(host: Host) -> None:
    assert "token" not in json.dumps(
        [edit.model_dump() for edit in host.plan(WISH).edits if edit.what in ("hooks", "mcp")]
    )


@hosts
def test_files_are_inside_of_the_worktree_and_none_is_for_a_whole_team(host: Host) -> None:
    for edit in host.plan(WISH).edits:
        path = PurePosixPath(edit.file)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert path.parts[0] != "~"
        names_this_machine = BINARY in edit.model_dump_json() or "it\\\\'s" in edit.model_dump_json()
        assert edit.personal == (names_this_machine or edit.what in ("hooks", "mcp"))
    assert host.plan(WISH).edits[0].file != ".claude/settings.json"


def test_codex_gets_a_table_that_is_toml() -> None:
    edit = next(edit for edit in HOSTS["codex"].plan(WISH).edits if edit.what == "mcp")
    assert tomllib.loads(edit.text) == {"mcp_servers": {"inbox": {"command": BINARY, "args": ["mcp"]}}}
    assert edit.table == "mcp_servers.inbox"


def test_two_hosts_that_read_one_file_want_the_same_in_it() -> None:
    wanted: dict[tuple[str, str], PlanEdit] = {}
    for host in HOSTS.values():
        for edit in host.plan(WISH).edits:
            known = wanted.setdefault((edit.file, edit.what), edit)
            assert known == edit, (host.name, edit.file)


def test_the_skill_is_one_that_hosts_take() -> None:
    text = skill_text()
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    fields = dict(line.split(": ", 1) for line in front.splitlines())
    assert fields["name"] == "inboxd"
    assert 0 < len(fields["description"]) <= 1_024
    assert ": " not in fields["description"]
    assert not set(fields["description"]) & set("<>")
    assert body.startswith("\n# ")
    assert len(text.splitlines()) < 200


def test_the_instruction_is_short_and_says_whose_word_counts() -> None:
    text = instruction_text()
    assert len(text) < 1_600
    for words in ("After every subagent", "`check_inbox`", "priority over the plan", "no authority of the person"):
        assert words in " ".join(text.split())
