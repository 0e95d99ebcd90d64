"""The plugin and the extension in deploy/ are what hosts/ says, so they cannot drift; and a plugin is one to Claude Code itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from inboxd import cli
from inboxd.hosts import HOSTS, skill_text
from inboxd.hosts.packages import PACKAGES

DEPLOY = Path(__file__).parents[2] / "deploy"
FOLDERS = {"claude": DEPLOY / "claude-plugin", "gemini": DEPLOY / "gemini-extension"}
packages = pytest.mark.parametrize("host", PACKAGES)


@packages
def test_what_is_shipped_is_what_hosts_say(host: str) -> None:
    """Mended by `inboxd hooks HOST --package deploy/…`."""
    folder = FOLDERS[host]
    shipped = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file()
    }
    assert shipped == PACKAGES[host]()


@packages
def test_the_command_writes_it(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["hooks", host, "--package", str(tmp_path / "made")]) == 0
    told = capsys.readouterr().out.splitlines()
    for file, text in PACKAGES[host]().items():
        assert (tmp_path / "made" / file).read_text(encoding="utf-8") == text
        assert str(tmp_path / "made" / file) in told


def test_there_is_none_for_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["hooks", "codex", "--package", "x"]) == 30
    assert "There is no package for codex." in capsys.readouterr().err


@packages
def test_it_hooks_what_attach_hooks_and_teaches_the_same(host: str) -> None:
    files = PACKAGES[host]()
    entry = HOSTS[host].settings_entry(f"inbox hook {host}")
    assert json.loads(files["hooks/hooks.json"])["hooks"] == entry["hooks"]
    assert files["skills/inboxd/SKILL.md"] == skill_text()


def test_claude_code_finds_nothing_to_object_to(tmp_path: Path) -> None:
    folder = os.environ.get("AGENTS_DIR")
    places = [str(Path(folder) / "node_modules" / ".bin")] if folder else []
    claude = shutil.which("claude", path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    if claude is None:
        pytest.skip("NOT TESTED: claude is not installed (npm install -g @anthropic-ai/claude-code)")
    ran = subprocess.run(
        [claude, "plugin", "validate", "--strict", str(FOLDERS["claude"])],
        env={"HOME": str(tmp_path), "PATH": os.environ["PATH"], "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
