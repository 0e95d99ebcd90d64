"""`inbox attach` on worktrees as they are found in the world: the right result or a clean refusal, and the way back, byte for byte.

The real binary and a real broker; whether a host likes what is written is tested with the hosts themselves (tests/agents).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from inboxd.hosts import HOSTS
from tests.support.brokers import RunningBroker, running_broker
from tests.support.inbox import Inbox
from tests.support.servers import free_port
from tests.support.worktree import git, repository, tree

pytestmark = pytest.mark.xdist_group("inbox-attach")

ALL = ",".join(HOSTS)
SETTINGS = ".claude/settings.local.json"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def me(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Inbox:
    """A person on the broker's own machine, without any set-up, in an empty folder."""
    return Inbox(inbox_binary, tmp_path / "home", more={"INBOXD_DATA_DIR": str(running.data_dir)})


@pytest.fixture
def task() -> str:
    return f"t-{uuid.uuid4().hex[:10]}"


def put(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def load(path: Path) -> Any:
    """A JSON file as its host reads it: comments out, a byte order mark ignored."""
    text = path.read_text(encoding="utf-8-sig")
    text = re.sub(r'("(?:\\.|[^"\\])*")|/\*.*?\*/|//[^\n]*', lambda found: found[1] or "", text, flags=re.DOTALL)
    return json.loads(text)


def config(folder: Path) -> dict[str, str]:
    return dict(json.loads((folder / ".inbox" / "config.json").read_text()))


def hooked(folder: Path, host: str) -> int:
    """How many hooks of ours a host finds in a worktree."""
    file = folder / HOSTS[host].hooks_file
    return file.read_text(encoding="utf-8-sig").count(f"inbox hook {host}") if file.exists() else 0


# The worktrees of the world. Each makes one, and says for which hosts it is attached.


def plain(folder: Path) -> str:
    repository(folder)
    return "claude"


def existing_hooks(folder: Path) -> str:
    put(
        folder,
        SETTINGS,
        '{\n    "model": "opus",\n    "hooks": {\n        "PostToolUse": [\n'
        '            {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]}\n        ],\n'
        '        "Stop": []\n    },\n    "permissions": { "allow": [ "Bash" ] }\n}\n',
    )
    put(folder, "CLAUDE.md", "# Rules\n\nBe kind.")
    put(folder, ".mcp.json", '{"mcpServers":{"other":{"command":"x"}}}')
    return "claude"


def comments(folder: Path) -> str:
    for host in ("gemini", "qwen"):
        put(
            folder,
            f".{host}/settings.json",
            "// mine\n{\n  /* of the team */\n  \"ui\": { \"theme\": \"x//y\" }, // dark\n  \"mcpServers\": {\n    // none yet\n  }\n}\n",
        )  # fmt: skip
    return "gemini,qwen"


def carriage_returns(folder: Path) -> str:
    put(folder, SETTINGS, b'\xef\xbb\xbf{\r\n\t"model": "opus"\r\n}')
    put(folder, "CLAUDE.md", b"# Rules\r\n\r\nBe kind.\r\n")
    put(folder, "AGENTS.md", b"\xe4 latin\r\n")
    put(folder, ".codex/config.toml", b'model = "x"\r\n[mcp_servers.other]\r\ncommand = "y"\r\n')
    return "claude,codex"


def links(folder: Path) -> str:
    put(folder, "docs/rules.md", "# Rules\n")
    (folder / "AGENTS.md").symlink_to("docs/rules.md")
    (folder / "CLAUDE.md").symlink_to("AGENTS.md")
    put(folder, "config/claude/settings.local.json", "{}\n")
    (folder / ".claude").symlink_to("config/claude")
    return "claude,codex"


def unicode_and_spaces(folder: Path) -> str:
    put(folder, SETTINGS, '{ "ключ": "значение 🎉 \\u00e9" }')
    put(folder, "CLAUDE.md", "# Règles – 規則\n")
    return "claude"


def no_git(folder: Path) -> str:
    put(folder, "main.py", "print(1)\n")
    return "claude,codex"


def every_host(folder: Path) -> str:
    repository(folder)
    put(folder, "AGENTS.md", "Agents.\n")
    return ALL


def private_modes(folder: Path) -> str:
    put(folder, SETTINGS, '{\n  "env": {"KEY": "secret"}\n}\n').chmod(0o600)
    put(folder, "CLAUDE.md", "Run.\n").chmod(0o755)
    folder.joinpath(".claude").chmod(0o700)
    return "claude"


def empty_files(folder: Path) -> str:
    for name in (SETTINGS, "CLAUDE.md", "AGENTS.md", ".codex/hooks.json", ".codex/config.toml", ".mcp.json"):
        put(folder, name, "")
    return "claude,codex"


def its_own_configuration(folder: Path) -> str:
    put(folder, ".inbox/config.json", '{"task": "mine", "ca_file": "", "note": "keep"}\n').chmod(0o644)
    put(folder, ".inbox/.gitignore", "*.log\n")
    return "claude"


def linked_worktree(folder: Path) -> str:
    repository(folder.parent / "main")
    put(
        folder.parent / "main",
        ".codex/hooks.json",
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x"}]}]}}',
    )
    git(folder.parent / "main", "worktree", "add", "--quiet", str(folder), "-b", "side")
    return "claude,codex"


def worktree_in_a_worktree(folder: Path) -> str:
    outer = repository(folder.parent / "outer")
    put(outer, ".inbox/config.json", '{"task": "outer-task"}')
    git(outer, "worktree", "add", "--quiet", str(outer / "inner"), "-b", "inner")
    folder.rmdir()
    folder.symlink_to(outer / "inner")
    return "claude,codex"


def marks_that_are_words(folder: Path) -> str:
    """Rules and settings that speak of what attach writes."""
    marks = "<!-- inbox attach: begin -->\nwords\n<!-- inbox attach: end -->\n"
    put(
        folder,
        "CLAUDE.md",
        f"# Rules\n\n```md\n{marks}```\n\n~~~~\n```\n<!-- inbox attach: begin -->\n~~~~\n\nBe kind.\n",
    )
    put(folder, "AGENTS.md", "In a list:\n\n    " + marks.replace("\n", "\n    ") + "\n")
    put(
        folder,
        ".codex/config.toml",
        'note = """\n# inbox attach: begin\n[mcp_servers.inbox]\n# inbox attach: end\n"""\n',
    )
    return "claude,codex"


def an_ignore_list_with_exceptions(folder: Path) -> str:
    repository(folder)
    put(folder, ".inbox/.gitignore", "# ignore * here\r\n*\r\n!config.json")
    return "claude"


FOUND: list[Callable[[Path], str]] = [
    plain, existing_hooks, comments, carriage_returns, links, unicode_and_spaces, no_git, every_host, private_modes,
    empty_files, its_own_configuration, linked_worktree, worktree_in_a_worktree, marks_that_are_words,
    an_ignore_list_with_exceptions,
]  # fmt: skip


@pytest.fixture(params=FOUND, ids=lambda made: made.__name__)
def found(request: pytest.FixtureRequest, me: Inbox) -> tuple[Inbox, str]:
    """Somebody in one of them, and the hosts to attach."""
    folder = me.home / ("ein Ördner mit 'allem' 工作" if request.param is unicode_and_spaces else "work")
    folder.mkdir(exist_ok=True)
    me.folder = folder
    return me, request.param(folder)


def around(me: Inbox) -> Path:
    """The folder that holds everything a worktree consists of, a linked one's repository too."""
    return me.home


def everything(me: Inbox) -> dict[str, Any]:
    return {name: about for name, about in tree(around(me)).items() if not name.startswith(".cache")}


def test_attach_and_detach_leave_every_file_as_it_was(found: tuple[Inbox, str], task: str) -> None:
    me, hosts = found
    before = everything(me)
    me.ok("attach", "--task", task, "--host", hosts)
    assert everything(me) != before
    me.ok("detach")
    assert everything(me) == before


def test_a_dry_run_changes_nothing_and_tells_all(found: tuple[Inbox, str], task: str) -> None:
    me, hosts = found
    before = everything(me)
    told = me.ok("attach", "--task", task, "--host", hosts, "--dry-run").stdout
    assert everything(me) == before
    assert told.endswith("Nothing was changed.\n")
    assert me.run("tasks", "--json").stdout.count(task) == 0
    said = me.said("attach", "--task", task, "--host", hosts, "--dry-run")
    done = me.said("attach", "--task", task, "--host", hosts)
    assert [(one["file"], one["state"]) for one in said["files"]] == [
        (one["file"], one["state"]) for one in done["files"]
    ]
    for one in said["files"]:
        assert f"\n{one['file']} ({one['state']})\n" in told
        assert one["diff"].startswith("@@ ")


def test_a_second_attach_changes_nothing_and_keeps_the_token(found: tuple[Inbox, str], task: str) -> None:
    me, hosts = found
    me.ok("attach", "--task", task, "--host", hosts)
    before = everything(me)
    again = me.said("attach", "--task", task, "--host", hosts)
    assert {one["state"] for one in again["files"]} == {"unchanged"}
    assert everything(me) == before
    assert "nothing changed" in me.ok("attach").stdout
    assert everything(me) == before


def test_everything_that_was_there_is_there_and_ours_beside_it(found: tuple[Inbox, str], task: str) -> None:
    me, hosts = found
    texts = {
        path: path.read_bytes()
        for path in around(me).rglob("*")
        if path.is_file() and not path.is_symlink() and not {".git", ".cache", ".inbox"} & set(path.parts)
    }
    values = {path: load(path) for path in texts if path.suffix == ".json" and texts[path]}
    me.ok("attach", "--task", task, "--host", hosts)
    for path, text in texts.items():
        lines = path.read_bytes().splitlines(keepends=True)
        for line in text.splitlines():
            assert any(line.strip(b"\r\n ,]}") in kept for kept in lines), (path, line)
        if text.count(b"\r\n"):
            assert path.read_bytes().count(b"\n") == path.read_bytes().count(b"\r\n")
    for path, value in values.items():
        kept = load(path)
        for name in value:
            if name not in ("hooks", "mcpServers", "task"):
                assert kept[name] == value[name]
        for event, groups in value.get("hooks", {}).items():
            assert kept["hooks"][event][: len(groups)] == groups
        assert value.get("mcpServers", {}).items() <= kept.get("mcpServers", {}).items()
    checked(me, hosts, task)


def checked(me: Inbox, hosts: str, task: str) -> None:
    """That every host finds what it needs."""
    folder = me.folder
    for name in hosts.split(","):
        host = HOSTS[name]
        status = me.run("attach", "--status", "--json").json
        probes = [check for check in status["checks"] if check["check"] == name]
        assert [check["state"] for check in probes] == ["ok"], status
        assert "<!-- inbox attach: begin -->" in (folder / host.instruction_file).read_bytes().decode(errors="replace")
        assert (folder / host.skills_folder / "inboxd" / "SKILL.md").read_text().startswith("---\nname: inboxd\n")
    if "claude" in hosts or "copilot" in hosts:
        server = load(folder / ".mcp.json")["mcpServers"]["inbox"]
        assert (server["command"], server["args"], server["alwaysLoad"]) == (str(me.binary), ["mcp"], True)
    if "codex" in hosts:
        server = tomllib.loads((folder / ".codex/config.toml").read_text())["mcp_servers"]["inbox"]
        assert server == {"command": str(me.binary), "args": ["mcp"]}
    if (folder / ".git").exists():
        assert ".inbox" not in git(folder, "status", "--porcelain", "--untracked-files=all")
    assert config(folder)["task"] == task
    assert stat.S_IMODE((folder / ".inbox/config.json").stat().st_mode) == 0o600


# What is refused: the file and its line are named, and nothing changes, neither here nor at the broker.


def malformed_json(folder: Path) -> None:
    put(folder, SETTINGS, '{\n  "model": "opus"\n  "hooks": {}\n}\n')


def malformed_after_the_first_file(folder: Path) -> None:
    put(folder, SETTINGS, "{}\n")
    put(folder, ".mcp.json", '{\n  "mcpServers": {},\n}\n')


def comments_where_none_may_be(folder: Path) -> None:
    put(folder, SETTINGS, '{\n  // no\n  "model": "opus"\n}\n')


def not_an_object(folder: Path) -> None:
    put(folder, SETTINGS, "[1]\n")


def hooks_that_are_none(folder: Path) -> None:
    put(folder, SETTINGS, '{\n  "hooks": "all of them"\n}\n')


def an_inbox_of_somebody_elses(folder: Path) -> None:
    put(folder, ".mcp.json", '{\n  "mcpServers": {\n    "inbox": { "command": "npx", "args": ["mail"] }\n  }\n}\n')


def half_a_block(folder: Path) -> None:
    put(folder, "CLAUDE.md", "# Rules\n<!-- inbox attach: begin -->\n")


def malformed_toml(folder: Path) -> None:
    put(folder, ".codex/config.toml", 'model = "x"\n[mcp_servers.other\n')


def a_table_of_somebody_elses(folder: Path) -> None:
    put(folder, ".codex/config.toml", 'model = "x"\n\n[mcp_servers.inbox]\ncommand = "npx"\n')


def read_only(folder: Path) -> None:
    put(folder, "CLAUDE.md", "# Rules\n").chmod(0o444)


def a_link_out(folder: Path) -> None:
    put(folder.parent, "shared/CLAUDE.md", "# For all projects\n")
    (folder / "CLAUDE.md").symlink_to(folder.parent / "shared" / "CLAUDE.md")


def a_folder_linked_out(folder: Path) -> None:
    (folder.parent / "shared").mkdir()
    (folder / ".claude").symlink_to(folder.parent / "shared")


def a_link_to_nowhere(folder: Path) -> None:
    (folder / "CLAUDE.md").symlink_to("gone.md")


def a_folder_in_its_place(folder: Path) -> None:
    (folder / "CLAUDE.md").mkdir()


def a_file_in_a_folders_place(folder: Path) -> None:
    put(folder, ".claude", "x")


def a_link_into_git(folder: Path) -> None:
    repository(folder)
    (folder / "CLAUDE.md").symlink_to(".git/config")


def a_table_by_another_spelling(folder: Path) -> None:
    put(folder, ".codex/config.toml", '[mcp_servers."in\\u0062ox"]\ncommand = "npx"\n')


def another_encoding(folder: Path) -> None:
    put(folder, "CLAUDE.md", "# Rules\n".encode("utf-16"))


def a_configuration_in_git(folder: Path) -> None:
    repository(folder)
    put(folder, ".inbox/config.json", '{"task": "mine"}\n')
    git(folder, "add", ".inbox")


def a_bare_repository(folder: Path) -> None:
    git(folder, "init", "--quiet", "--bare")


@pytest.mark.parametrize(
    ("make", "code", "exit_code", "words"),
    [
        (malformed_json, "FILE_MALFORMED", 30, f"{SETTINGS}, line 3: this is not the JSON it should be"),
        (malformed_after_the_first_file, "FILE_MALFORMED", 30, ".mcp.json, line 3"),
        (comments_where_none_may_be, "FILE_MALFORMED", 30, f"{SETTINGS}, line 2"),
        (not_an_object, "FILE_MALFORMED", 30, "line 1"),
        (hooks_that_are_none, "FILE_MALFORMED", 30, f"{SETTINGS}, line 2: `hooks` is not an object"),
        (an_inbox_of_somebody_elses, "NAME_TAKEN", 20, ".mcp.json, line 3: `mcpServers.inbox` is there already"),
        (half_a_block, "FILE_MALFORMED", 30, "CLAUDE.md, line 2"),
        (malformed_toml, "FILE_MALFORMED", 30, ".codex/config.toml, line 2: this is not the TOML it should be"),
        (a_table_of_somebody_elses, "NAME_TAKEN", 20, ".codex/config.toml, line 3"),
        (read_only, "FILE_READ_ONLY", 30, "CLAUDE.md is read-only"),
        (a_link_out, "FILE_OUTSIDE", 30, "shared/CLAUDE.md, which is outside of this worktree"),
        (a_folder_linked_out, "FILE_OUTSIDE", 30, "outside of this worktree"),
        (a_link_to_nowhere, "FILE_UNUSABLE", 30, "CLAUDE.md is a link that leads nowhere"),
        (a_folder_in_its_place, "FILE_UNUSABLE", 30, "it is not a file"),
        (a_file_in_a_folders_place, "FILE_UNUSABLE", 30, ".claude/settings.local.json cannot be edited"),
        (a_link_into_git, "FILE_OUTSIDE", 30, "is git's own"),
        (a_table_by_another_spelling, "NAME_TAKEN", 20, ".codex/config.toml, line 1: `mcp_servers.inbox` is defined"),
        (another_encoding, "FILE_UNUSABLE", 30, "CLAUDE.md cannot be edited: it is not a text in UTF-8"),
        (a_configuration_in_git, "FILE_TRACKED", 30, "the next commit would publish the token in it"),
        (a_bare_repository, "FOLDER_UNFIT", 30, "is git's own folder, and no worktree"),
    ],
    ids=lambda given: given.__name__ if callable(given) else "",
)
def test_what_cannot_be_edited_is_refused_and_nothing_changes(
    me: Inbox, task: str, make: Callable[[Path], None], code: str, exit_code: int, words: str
) -> None:
    make(me.folder)
    before = everything(me)
    for flags in ((), ("--dry-run",)):
        ran = me.run("attach", "--task", task, "--host", "claude,codex", *flags)
        assert (ran.code, ran.stdout) == (exit_code, "")
        assert words in ran.stderr
        assert ran.stderr.count("\n") == 1
        told = me.run("attach", "--task", task, "--host", "claude,codex", *flags, "--json")
        assert (told.code, told.error["code"]) == (exit_code, code)
        assert told.error["hint"]
    assert everything(me) == before
    assert task not in me.run("tasks", "--json").stdout


def test_another_host_is_attached_where_one_is_refused(me: Inbox, task: str) -> None:
    malformed_json(me.folder)
    me.ok("attach", "--task", task, "--host", "codex")
    assert hooked(me.folder, "codex") == 4


def test_home_is_no_worktree_and_neither_is_what_git_keeps(me: Inbox, task: str) -> None:
    repository(me.folder)
    for folder in (me.home, me.folder / ".git", me.folder / ".git" / "info"):
        ran = me.run("attach", "--task", task, "--dir", str(folder), "--json")
        assert (ran.code, ran.error["code"]) == (30, "FOLDER_UNFIT")


@pytest.mark.skipif(sys.platform == "darwin", reason="its file system has no such names")
def test_a_folder_whose_path_no_file_can_hold_is_refused_and_any_other_will_do(me: Inbox, task: str) -> None:
    for name in (b"a\nb", b"a\xffb"):
        repository(me.home / os.fsdecode(name))
        before = everything(me)
        ran = me.run("attach", "--task", task, "--dir", str(me.home / os.fsdecode(name)), "--json")
        assert (ran.code, ran.error["code"]) == (30, "FOLDER_UNFIT")
        assert me.run("new", task, f"{task}-b", "--dir", str(me.home / os.fsdecode(name))).code == 30
        assert everything(me) == before
    me.folder = repository(me.home / "a\tb\x1b[31m")
    before = everything(me)
    me.ok("attach", "--task", task, "--host", ALL)
    me.ok("detach")
    assert everything(me) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file that belongs to somebody else")
def test_a_file_of_another_accounts_is_refused_because_it_would_be_ours_afterwards(
    me: Inbox, task: str, running: RunningBroker, inbox_binary: Path
) -> None:
    # Where another account may be: pytest's folders are closed to it.
    with tempfile.TemporaryDirectory() as open_to_all:
        place = Path(open_to_all)
        place.chmod(0o755)
        me = Inbox(
            Path(shutil.copy(inbox_binary, place / "inbox")), place / "home", running.url, running.mint("operator")
        )
        rules = put(me.folder, "CLAUDE.md", "# Rules\n")
        for path in (me.home, me.folder):
            os.chown(path, 12345, 12345)
        for mode in (0o644, 0o666):
            rules.chmod(mode)
            before = everything(me)
            refused = subprocess.run([me.binary, "attach", "--task", task, "--host", "claude"], cwd=me.folder, env=me.environment, user=12345, group=12345, extra_groups=[], capture_output=True, text=True, timeout=30, check=False)  # fmt: skip
            assert (refused.returncode, "CLAUDE.md belongs to another account" in refused.stderr) == (30, True)
            assert everything(me) == before


# Later


def test_what_somebody_changed_since_stays_and_only_ours_goes(me: Inbox, task: str) -> None:
    existing_hooks(me.folder)
    put(me.folder, "AGENTS.md", "Agents.\n")
    me.ok("attach", "--task", task, "--host", "claude,codex")
    settings = me.folder / SETTINGS
    value = load(settings)
    value["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "later"}]})
    value["new"] = True
    settings.write_text(json.dumps(value, indent=1))  # as a host that writes its file anew
    rules = me.folder / "CLAUDE.md"
    rules.write_text(rules.read_text() + "\nAlso be quick.\n")
    servers = me.folder / ".mcp.json"
    servers.write_text(servers.read_text().replace('"other"', '"another"'))
    toml = me.folder / ".codex" / "config.toml"
    toml.write_text('model = "x"\n' + toml.read_text())
    skill = me.folder / ".agents/skills/inboxd/SKILL.md"
    skill.write_text(skill.read_text() + "mine\n")
    ran = me.ok("detach")
    left = load(settings)
    assert left == {
        "model": "opus",
        "hooks": {
            "PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]}],
            "Stop": [{"hooks": [{"type": "command", "command": "later"}]}],
        },
        "permissions": {"allow": ["Bash"]},
        "new": True,
    }
    assert rules.read_text() == "# Rules\n\nBe kind.\n\nAlso be quick.\n"
    assert load(servers) == {"mcpServers": {"another": {"command": "x"}}}
    assert tomllib.loads(toml.read_text()) == {"model": "x"}
    assert skill.read_text().endswith("mine\n")
    assert "SKILL.md was changed since" in ran.stderr
    assert (me.folder / "AGENTS.md").read_text() == "Agents.\n"
    assert not (me.folder / ".inbox").exists()
    assert not (me.folder / ".codex" / "hooks.json").exists()


def test_a_file_of_ours_that_somebody_wrote_anew_goes_when_nothing_else_is_in_it(me: Inbox, task: str) -> None:
    me.ok("attach", "--task", task, "--host", "claude,gemini")
    for name in (SETTINGS, ".mcp.json", ".gemini/settings.json"):
        path = me.folder / name
        path.write_text(json.dumps(json.loads(path.read_text())))
    me.ok("detach")
    assert tree(me.folder) == {}


def test_what_an_attach_after_somebodys_change_puts_in_can_be_taken_out_too(me: Inbox, task: str) -> None:
    me.ok("attach", "--task", task, "--host", "claude")
    path = me.folder / SETTINGS
    value = json.loads(path.read_text())
    del value["hooks"]["Stop"]
    path.write_text(json.dumps({"model": "opus", **value}))
    assert "changed since by somebody else" in me.run("attach", "--status").stdout
    me.ok("attach")
    assert hooked(me.folder, "claude") == len(HOSTS["claude"].hooked)
    me.ok("detach")
    assert load(path) == {"model": "opus"}


def test_what_somebody_wrote_beside_it_does_not_make_an_attach_move_its_own(me: Inbox, task: str) -> None:
    me.ok("attach", "--task", task, "--host", "claude,codex")
    for name in ("CLAUDE.md", ".codex/config.toml"):
        path = me.folder / name
        path.write_text(path.read_text() + "\n# later\n")
    before = everything(me)
    assert {row["state"] for row in me.said("attach")["files"]} == {"unchanged"}
    assert everything(me) == before
    me.ok("detach")
    assert (me.folder / "CLAUDE.md").read_text() == "\n# later\n"


def test_an_attach_or_detach_that_died_halfway_can_be_finished(me: Inbox, task: str) -> None:
    """The record is the first thing written and the last taken away: whatever it names may or may not have happened."""
    existing_hooks(me.folder)
    before = everything(me)
    me.ok("attach", "--task", task, "--host", "claude,codex")
    record = (me.folder / ".inbox" / "attached.json").read_bytes()
    me.ok("detach")
    put(me.folder, ".inbox/attached.json", record)
    assert me.run("attach", "--status").code == 50
    me.ok("attach")
    me.ok("detach")
    put(me.folder, ".inbox/attached.json", record)
    me.ok("detach")
    assert everything(me) == before


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda how: how.name)
def test_whenever_it_is_stopped_the_next_one_ends_what_it_began(me: Inbox, task: str, how: signal.Signals) -> None:
    repository(me.folder)
    existing_hooks(me.folder)
    before = everything(me)
    began = time.monotonic()
    me.ok("attach", "--task", task, "--host", ALL)
    took = time.monotonic() - began
    me.ok("detach")
    for number in range(12):
        for words in (("attach", "--task", task, "--host", ALL), ("detach",)):
            with me.start(*words) as running:
                # Not for anything to happen: it is stopped at a different moment each time.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(took * (number + 1) / 12)
                running.send_signal(how)
                running.communicate()
        assert me.run("detach").code in (0, 10)
        assert everything(me) == before, number


def test_whenever_an_attach_of_fewer_hosts_is_killed_the_others_are_not_forgotten(me: Inbox, task: str) -> None:
    repository(me.folder)
    existing_hooks(me.folder)
    before = everything(me)
    me.ok("attach", "--task", task, "--host", ALL)
    began = time.monotonic()
    me.ok("attach", "--task", task, "--host", "claude")
    took = time.monotonic() - began
    for number in range(24):
        me.ok("attach", "--task", task, "--host", ALL)
        with me.start("attach", "--task", task, "--host", "claude") as running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(took * (number + 1) / 24)
            running.kill()
            running.communicate()
        if number % 2:
            me.ok("attach", "--task", task, "--host", "qwen")
        me.ok("detach")
        assert everything(me) == before, number


def older(folder: Path) -> None:
    """What an attach of long ago left, with a binary that is gone, and no record of it."""
    hooks = HOSTS["claude"].settings_entry("/old/place/inbox hook claude --remind")["hooks"]
    mine = {"hooks": [{"type": "command", "command": "mine"}]}
    hooks["Stop"].insert(0, mine)
    hooks["PreToolUse"].append(mine)
    put(folder, SETTINGS, json.dumps({"hooks": hooks}, indent=2))
    put(folder, ".mcp.json", json.dumps({"mcpServers": {"inbox": {"command": "/old/place/inbox", "args": ["mcp"]}}}))
    put(folder, "CLAUDE.md", "Before.\n\n<!-- inbox attach: begin -->\nold words\n<!-- inbox attach: end -->\nAfter.\n")
    put(
        folder,
        ".codex/config.toml",
        "# inbox attach: begin\n[mcp_servers.inbox]\ncommand = 'old'\n# inbox attach: end\n",
    )


def test_an_older_attach_is_brought_up_to_date_and_taken_out_whole(me: Inbox, task: str) -> None:
    older(me.folder)
    me.ok("attach", "--task", task, "--host", "claude,codex")
    hooks = load(me.folder / SETTINGS)["hooks"]
    commands = [hook["command"] for groups in hooks.values() for group in groups for hook in group["hooks"]]
    assert sorted(set(commands)) == sorted(["mine", f"{me.binary} hook claude"])
    assert commands.count("mine") == 2
    assert commands.count(f"{me.binary} hook claude") == len(HOSTS["claude"].hooked)
    assert "old words" not in (me.folder / "CLAUDE.md").read_text()
    assert "old" not in (me.folder / ".codex/config.toml").read_text()
    checked(me, "claude,codex", task)
    me.ok("detach")
    mine = [{"hooks": [{"type": "command", "command": "mine"}]}]
    left = {event: groups for event, groups in load(me.folder / SETTINGS)["hooks"].items() if groups}
    assert left == {"Stop": mine, "PreToolUse": mine}
    assert (me.folder / "CLAUDE.md").read_text() == "Before.\nAfter.\n"
    assert load(me.folder / ".mcp.json") == {"mcpServers": {}}


def test_an_entry_of_somebodys_own_that_runs_inbox_is_left_and_not_doubled(me: Inbox, task: str) -> None:
    both = [{"type": "command", "command": "mine"}, {"type": "command", "command": "inbox hook claude"}]
    text = json.dumps({"hooks": {"Stop": [{"hooks": both}]}}, indent=2)
    put(me.folder, SETTINGS, text)
    ran = me.ok("attach", "--task", task, "--host", "claude")
    assert load(me.folder / SETTINGS)["hooks"]["Stop"] == [{"hooks": both}]
    assert "already runs inbox at Stop" in ran.stderr
    me.ok("detach")
    assert (me.folder / SETTINGS).read_text() == text


def test_fewer_hosts_take_the_others_out_and_more_come_in(me: Inbox, task: str) -> None:
    repository(me.folder)
    before = everything(me)
    me.ok("attach", "--task", task, "--host", "claude,codex,gemini")
    me.ok("attach", "--task", task, "--host", "gemini,qwen")
    assert [hooked(me.folder, host) > 0 for host in ("claude", "codex", "gemini", "qwen")] == [False, False, True, True]
    assert not (me.folder / "CLAUDE.md").exists()
    assert not (me.folder / ".codex").exists()
    me.ok("detach")
    assert everything(me) == before


def test_flags_that_are_not_said_again_stay(me: Inbox, task: str) -> None:
    me.ok("attach", "--task", task, "--host", "claude", "--wake", "--remind")
    text = (me.folder / SETTINGS).read_text()
    assert "inbox hook claude --remind" in text
    assert '"asyncRewake": true' in text
    assert {one["state"] for one in me.said("attach")["files"]} == {"unchanged"}
    assert (me.folder / SETTINGS).read_text() == text


# The broker's part


def test_the_task_is_declared_linked_and_told(me: Inbox, task: str) -> None:
    said = me.said("attach", "--task", task, "--peer", f"{task}-a", "--peer", f"{task}-b", "--host", "claude")
    assert (said["task"], said["peers"], said["hosts"]) == (task, [f"{task}-a", f"{task}-b"], ["claude"])
    assert said["dir"] == str(me.folder)
    rows = {row["task"]: row["peers"] for row in me.said("tasks", "--all")["tasks"]}
    assert rows[task] == [f"{task}-a", f"{task}-b"]
    assert rows[f"{task}-a"] == [task]


def test_a_person_who_writes_from_the_agents_own_folder_is_told_whose_word_that_is(me: Inbox, task: str) -> None:
    me.ok("attach", "--task", task, "--host", "claude")
    assert f"It went from {task} to itself" in me.ok("send", task, "from inside").stderr
    me.folder = me.home
    assert me.ok("send", task, "from outside").stderr == ""


def test_the_token_is_in_one_place_that_git_does_not_see(me: Inbox, task: str, running: RunningBroker) -> None:
    repository(me.folder)
    ran = me.ok("attach", "--task", task, "--host", ALL)
    token = config(me.folder)["token"]
    secret = token.rpartition(".")[2]
    holding = [str(path.relative_to(me.folder)) for path in me.folder.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")]  # fmt: skip
    assert holding == [".inbox/config.json"]
    assert secret not in ran.stdout + ran.stderr + me.ok("detach", "--dry-run").stdout
    assert stat.S_IMODE((me.folder / ".inbox").stat().st_mode) == 0o700
    unseen = git(me.folder, "status", "--porcelain", "--untracked-files=all")
    for name in (
        ".inbox",
        SETTINGS,
        ".mcp.json",
        ".codex",
        ".gemini/settings.json",
        ".qwen/settings.json",
        ".github/hooks",
    ):
        assert name not in unseen
    assert "CLAUDE.md" in unseen
    with running.client(token) as agent:
        assert agent.get("/v1/whoami").json()["task"] == task


def test_detaching_revokes_the_token_and_leaves_the_task_and_its_mail(
    me: Inbox, task: str, running: RunningBroker
) -> None:
    me.ok("attach", "--task", task, "--host", "claude")
    token = config(me.folder)["token"]
    me.ok("send", task, "still there")
    me.ok("detach")
    with running.client(token) as agent:
        assert agent.get("/v1/whoami").status_code == 401
    assert me.said("pending", task)["pending"] == 1
    ran = me.run("detach")
    assert (ran.code, ran.stdout) == (10, f"nothing is attached in {me.folder}\n")
    assert me.run("detach", "--json").error["code"] == "NOT_ATTACHED"


def test_detaching_needs_no_broker(me: Inbox, task: str) -> None:
    me.ok("attach", "--task", task, "--host", "claude", "--url", config_url(me))
    attached = me.folder / ".inbox" / "attached.json"
    record = json.loads(attached.read_text())
    record["url"] = f"http://127.0.0.1:{free_port()}"
    attached.write_text(json.dumps(record))
    ran = me.ok("detach")
    assert "Its token is still good" in ran.stderr
    assert f"inboxd token revoke {record['token_name'].partition('.')[2]}" in ran.stderr
    assert tree(me.folder) == {}


def config_url(me: Inbox) -> str:
    rows = me.said("config")["settings"]
    return str(next(row["value"] for row in rows if row["name"] == "url"))


def test_another_task_gets_another_token_and_the_old_one_is_revoked(
    me: Inbox, task: str, running: RunningBroker
) -> None:
    me.ok("attach", "--task", task, "--host", "claude")
    first = config(me.folder)["token"]
    me.ok("attach", "--task", f"{task}-b")
    second = config(me.folder)
    assert (second["task"], second["token"] == first) == (f"{task}-b", False)
    with running.client(first) as old, running.client(second["token"]) as new:
        assert old.get("/v1/whoami").status_code == 401
        assert new.get("/v1/whoami").json()["task"] == f"{task}-b"


def test_a_revoked_token_is_replaced_by_the_next_attach(me: Inbox, task: str, running: RunningBroker) -> None:
    me.ok("attach", "--task", task, "--host", "claude")
    first = config(me.folder)["token"]
    with running.client() as operator:
        operator.delete(f"/v1/tokens/{first.split('.')[1]}").raise_for_status()
    assert me.run("attach", "--status").code == 50
    me.ok("attach")
    assert config(me.folder)["token"] != first
    me.ok("attach", "--status")


def test_the_person_attaches_with_their_own_token(me: Inbox, task: str, running: RunningBroker) -> None:
    made = running.mint("user")
    me.more, me.url, me.token = {}, running.url, made
    me.ok("attach", "--task", task, "--host", "claude")
    me.token = ""
    me.ok("attach", "--status")


def test_an_agent_attaches_itself_with_the_token_it_was_given(me: Inbox, task: str, running: RunningBroker) -> None:
    made = running.mint("agent", task)
    me.more, me.url, me.token = {}, running.url, made
    ran = me.run("attach", "--task", f"{task}-b", "--json")
    assert (ran.code, ran.error["code"]) == (60, "FORBIDDEN")
    me.ok("attach", "--task", task, "--host", "claude")
    assert config(me.folder)["token"] == made
    # An agent in a worktree that is attached says it again with nothing but what lies there.
    me.token = ""
    assert {one["state"] for one in me.said("attach")["files"]} == {"unchanged"}


def test_who_may_not_attach_is_told_and_nothing_changes(me: Inbox, task: str, running: RunningBroker) -> None:
    made = running.mint("observer")
    me.more, me.url, me.token = {}, running.url, made
    assert me.run("attach", "--task", task, "--json").error["code"] == "FORBIDDEN"
    assert tree(me.folder) == {}


def test_without_a_broker_nothing_is_attached(me: Inbox, task: str) -> None:
    me.more, me.url, me.token = {}, f"http://127.0.0.1:{free_port()}", "ibx_default.0123456789ab." + "s" * 43
    ran = me.run("attach", "--task", task)
    assert ran.code == 50
    assert "cannot be reached" in ran.stderr
    assert tree(me.folder) == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["attach"], "No task is named."),
        (["attach", "--task", "a/b"], "cannot be a task's name"),
        (["attach", "--task", "a", "--peer", "a"], "cannot be its own peer"),
        (["attach", "--task", "a", "--host", "claud"], "Did you mean claude?"),
        (["attach", "--task", "a", "--host", "emacs"], "No host is called `emacs`."),
        (["attach", "--task", "a", "--dir", "gone"], "There is no folder gone."),
        (["attach", "--task", "user"], "the person's own inbox"),
        (["attach", "word"], "does not know what to do with `word`"),
        (["detach", "--dir", "gone"], "There is no folder gone."),
        (["link", "a"], "Two tasks or more are linked."),
        (["link", "a", "a"], "`a` is named twice."),
        (["new", "a"], "Two tasks or more are made."),
        (["new", "a", "a"], "in no git repository"),
        (["skill"], "needs a word more"),
        (["skill", "print", "--dir", "."], "are flags of `inbox skill install`"),
        (["skill", "install", "--agent", "emacs"], "No host is called `emacs`."),
    ],
)
def test_a_mistake_is_told_in_one_sentence_and_nothing_is_made(me: Inbox, arguments: list[str], words: str) -> None:
    ran = me.run(*arguments)
    assert words in ran.stderr
    assert (ran.code in (20, 30), ran.stdout, ran.stderr.count("\n")) == (True, "", 1)
    assert me.run(*arguments, "--json").error["hint"]
    assert tree(me.folder) == {}


# Which hosts


def test_hosts_are_found_by_their_command_or_their_folder(me: Inbox, task: str, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    put(programs, "codex", "#!/bin/sh\n").chmod(0o755)
    me.more["PATH"] = str(programs)
    (me.folder / ".qwen").mkdir()
    assert me.said("attach", "--task", task, "--dry-run")["hosts"] == ["codex", "qwen"]
    (me.folder / ".qwen").rmdir()
    (programs / "codex").unlink()
    assert me.said("attach", "--task", task, "--dry-run")["hosts"] == ["claude"]


def test_a_binary_anywhere_is_found_by_the_hooks(me: Inbox, task: str, inbox_binary: Path, tmp_path: Path) -> None:
    awkward = tmp_path / "it's a (dir) ünï"
    awkward.mkdir()
    shutil.copy(inbox_binary, awkward / "inbox")
    me.binary = awkward / "inbox"
    me.ok("attach", "--task", task, "--host", ALL)
    me.ok("send", task, "through the hook")
    command = load(me.folder / SETTINGS)["hooks"]["PostToolUse"][0]["hooks"][0]["command"]
    given = {"session_id": "s-1", "hook_event_name": "PostToolUse", "cwd": str(me.folder), "tool_name": "Bash"}
    environment = {"HOME": str(me.home), "PATH": "/usr/bin:/bin"}
    ran = subprocess.run(["/bin/sh", "-c", command], input=json.dumps(given), cwd="/", env=environment, capture_output=True, text=True, timeout=20, check=True)  # fmt: skip
    assert "| through the hook" in json.loads(ran.stdout)["hookSpecificOutput"]["additionalContext"]


def test_a_binary_that_is_called_by_a_link_is_remembered_by_it(me: Inbox, task: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "inbox").symlink_to(me.binary)
    me.more["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}/usr/bin:/bin"
    me.binary = tmp_path / "bin" / "inbox"
    me.ok("attach", "--task", task, "--host", "claude")
    assert load(me.folder / ".mcp.json")["mcpServers"]["inbox"]["command"] == str(tmp_path / "bin" / "inbox")


# Status


def test_status_says_what_is_installed_trusted_and_working(me: Inbox, task: str) -> None:
    repository(me.folder)
    ran = me.run("attach", "--status")
    assert (ran.code, "Nothing is attached" in ran.stderr) == (10, True)
    me.ok("attach", "--task", task, "--host", "claude,codex")
    status = me.run("attach", "--status", "--json")
    states = {(check["check"], check["state"]) for check in status.json["checks"]}
    assert status.code == 50
    assert status.json["error"]["message"].startswith("trusted: codex: not yet its project")
    assert {("installed", "ok"), ("trusted", "broken"), ("claude", "ok"), ("codex", "ok"), ("task", "ok")} <= states
    lines = "".join(f'[hooks.state."{me.folder}/.codex/hooks.json:{event}:0:0"]\n' for event in ("a", "b", "c", "d"))
    put(me.home, ".codex/config.toml", f'[projects."{me.folder}"]\ntrust_level = "trusted"\n{lines}')
    me.ok("attach", "--status")
    (me.folder / "CLAUDE.md").unlink()
    gone = me.run("attach", "--status")
    assert (gone.code, "CLAUDE.md (instruction) is gone" in gone.stdout) == (50, True)
    path = me.folder / SETTINGS
    path.write_text("{}")
    assert "has lost: hooks" in me.run("attach", "--status").stdout
    path.write_text("{")
    assert "line 1" in me.run("attach", "--status").stdout
    path.unlink()
    me.ok("attach")
    me.ok("attach", "--status")


# Several worktrees of one repository


def test_worktrees_share_what_a_host_reads_in_the_main_checkout_until_the_last_goes(me: Inbox, task: str) -> None:
    main = repository(me.home / "main")
    before = everything(me)
    one, two = me.home / "one", me.home / "two"
    for folder in (one, two):
        git(main, "worktree", "add", "--quiet", str(folder), "-b", folder.name)
    made = everything(me)
    for folder in (one, two):
        me.ok("attach", "--task", f"{task}-{folder.name}", "--host", "claude,codex", "--dir", str(folder))
        assert not (folder / ".codex" / "hooks.json").exists()
        status = me.run("attach", "--status", "--dir", str(folder), "--json").json["checks"]
        assert ("codex", "ok") in {(check["check"], check["state"]) for check in status}
    assert hooked(main, "codex") == 4
    for folder in (one, two):  # what the other one added beside it is no reason to move anything
        assert {row["state"] for row in me.said("attach", "--dir", str(folder))["files"]} == {"unchanged"}
    me.ok("detach", "--dir", str(one))
    assert hooked(main, "codex") == 4
    me.ok("detach", "--dir", str(two))
    assert everything(me) == made
    assert [name for name in before if before[name] != everything(me).get(name)] == []


def test_a_worktree_that_was_thrown_away_is_not_waited_for(me: Inbox, task: str) -> None:
    main = repository(me.home / "main")
    one, two = me.home / "one", me.home / "two"
    for folder in (one, two):
        git(main, "worktree", "add", "--quiet", str(folder), "-b", folder.name)
        me.ok("attach", "--task", f"{task}-{folder.name}", "--host", "codex", "--dir", str(folder))
    shutil.rmtree(one)
    me.ok("detach", "--dir", str(two))
    assert hooked(main, "codex") == 0
    assert not (main / ".git" / "inbox").exists()


# link, new, skill


def test_linked_tasks_are_each_others_peers(me: Inbox, task: str) -> None:
    names = [f"{task}-{letter}" for letter in "abc"]
    assert me.ok("link", *names).stdout == f"linked {', '.join(names)}\n"
    rows = {row["task"]: row["peers"] for row in me.said("tasks", "--all")["tasks"]}
    for name in names:
        assert rows[name] == [other for other in names if other != name]
    assert me.said("link", *names[:2])["linked"] == names[:2]


def test_two_linked_tasks_in_two_worktrees_are_made_in_one_go(me: Inbox, task: str) -> None:
    main = repository(me.home / "shop")
    put(main, "dirty", "not committed")
    me.folder = main
    a, b = f"{task}-a", f"{task}-b"
    ran = me.ok("new", a, b, "--host", "claude,codex")
    places = {name: me.home / f"shop-{name}" for name in (a, b)}
    for name, other in ((a, b), (b, a)):
        assert config(places[name])["task"] == name
        assert git(places[name], "branch", "--show-current") == name
        assert not (places[name] / "dirty").exists()
        assert f"cd {places[name]} && claude" in ran.stdout
        me.ok("send", name, "hello", "--from", f"task:{other}")
        assert me.said("tasks", "--all")["tasks"]
        me.folder = places[name]
        assert me.ok("peer", "to my peer").stdout.count(other) == 1
    me.folder = main
    for wish, code in ((["new", a, "zz"], "BRANCH_EXISTS"), (["new", "zz", b, "--dir", str(main)], "BRANCH_EXISTS")):
        refused = me.run(*wish, "--json")
        assert (refused.code, refused.error["code"]) == (20, code)
    assert "zz" not in git(main, "branch", "--list")


def test_new_leaves_nothing_behind_when_it_cannot_be_finished(me: Inbox, task: str, running: RunningBroker) -> None:
    main = repository(me.home / "shop")
    put(main, "CLAUDE.md", "<!-- inbox attach: begin -->\n")
    git(main, "add", "CLAUDE.md")
    git(main, "commit", "--quiet", "--message", "half a block")
    before = everything(me)
    me.folder = main
    assert me.run("new", f"{task}-a", f"{task}-b", "--host", "claude", "--json").error["code"] == "FILE_MALFORMED"
    assert git(main, "worktree", "list").count("\n") == 0
    assert git(main, "branch", "--list").split() == ["*", "main"]
    left = everything(me)
    assert {name for name in left if not name.startswith("shop/.git/")} == {
        name for name in before if not name.startswith("shop/.git/")
    }
    (me.home / f"shop-{task}-b").mkdir()
    assert me.run("new", f"{task}-a", f"{task}-b", "--json").error["code"] == "FOLDER_EXISTS"
    assert not (me.home / f"shop-{task}-a").exists()
    me.more, me.url, me.token = {}, f"http://127.0.0.1:{free_port()}", "ibx_default.0123456789ab." + "s" * 43
    assert me.run("new", f"{task}-c", f"{task}-d").code == 50
    assert not (me.home / f"shop-{task}-c").exists()


def test_new_that_is_stopped_leaves_all_or_nothing(me: Inbox, task: str) -> None:
    main = repository(me.home / "shop")
    me.folder = main
    names = [f"{task}-a", f"{task}-b"]
    for wait_ms in range(0, 120, 10):
        with me.start("new", *names, "--host", "claude") as running:
            # Not for anything to happen: it is stopped at a different moment each time.
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(wait_ms / 1000)
            running.send_signal(signal.SIGINT)
            running.communicate()
        made = {name for name in names if (me.home / f"shop-{name}").exists()}
        assert made in (set(), set(names))
        assert {name for name in names if name in git(main, "branch", "--list")} == made
        assert git(main, "worktree", "list").count("\n") == len(made)
        for name in made:
            git(main, "worktree", "remove", "--force", str(me.home / f"shop-{name}"))
            git(main, "branch", "--delete", "--force", name)


def test_new_says_what_is_missing(me: Inbox) -> None:
    assert me.run("new", "a", "b", "--json").error["code"] == "NO_REPOSITORY"
    git(me.folder, "init", "--quiet")
    assert me.run("new", "a", "b", "--json").error["code"] == "NO_COMMIT"
    assert me.run("new", "a", "b.lock", "--json", env={"PATH": "/nowhere"}).error["code"] == "GIT_MISSING"
    git(me.folder, "commit", "--quiet", "--allow-empty", "--message", "x")
    assert "cannot be a branch's name" in me.run("new", "a", "b.lock").stderr


def test_the_skill_is_printed_and_installed(me: Inbox) -> None:
    text = me.ok("skill", "print").stdout
    assert me.said("skill", "print")["text"] == text
    assert me.ok("skill", "install").stdout == f"created {me.home}/.claude/skills/inboxd/SKILL.md (claude)\n"
    assert (me.home / ".claude/skills/inboxd/SKILL.md").read_text() == text
    said = me.said("skill", "install", "--agent", "codex,gemini", "--agent", "qwen", "--dir", ".")
    assert [(one["state"], one["hosts"]) for one in said["files"]] == [
        ("created", ["codex", "gemini"]),
        ("created", ["qwen"]),
    ]
    assert (me.folder / ".agents/skills/inboxd/SKILL.md").read_text() == text
    assert me.ok("skill", "install").stdout.startswith("unchanged ")


def test_every_command_and_flag_that_models_are_taught_exists(me: Inbox) -> None:
    taught = (
        me.ok("skill", "print").stdout + (Path(__file__).parents[2] / "service/inboxd/hosts/instruction.md").read_text()
    )
    commands = set(re.findall(r"^  ([a-z-]+)  ", me.ok("--help").stdout, re.MULTILINE))
    seen = set()
    code = re.findall(r"`([^`]+)`", taught) + re.findall(r"^ {4,}(inbox .*)$", taught, re.MULTILINE)
    for line in code:
        words = re.sub(r'"[^"]*"|#.*', "", line).split()
        if words[0] != "inbox" or not words[1:] or words[1] == "COMMAND":
            continue
        assert words[1] in commands, line
        seen.add(words[1])
        manual = me.ok(words[1], "--help").stdout
        for flag in words[2:]:
            assert not flag.startswith("--") or flag in manual, line
    assert {"check", "send", "peer", "fetch", "claim", "renew", "update", "wait-reply", "done", "fail", "reply"} <= seen


@pytest.mark.parametrize("command", ["attach", "detach", "link", "new", "skill", "wake"])
def test_each_command_explains_itself(me: Inbox, command: str) -> None:
    manual = me.ok(command, "--help").stdout
    assert manual.startswith(f"Usage: inbox {command}")
    assert "exit codes" in manual
