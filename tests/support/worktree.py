"""A folder as a test finds it and leaves it: every file, link and folder with its mode, so that two looks can be compared."""

from __future__ import annotations

import hashlib
import stat
import subprocess
from pathlib import Path

Tree = dict[str, tuple[str, int, str]]


def tree(folder: Path) -> Tree:
    """Every path below, with its kind, its mode and what it holds. Nothing is followed."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        mode = stat.S_IMODE(about.st_mode)
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", 0, str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder", mode, "")
        else:
            found[name] = ("file", mode, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def git(folder: Path, *words: str) -> str:
    """git as somebody without a configuration."""
    done = subprocess.run(
        ["git", "-C", str(folder), "-c", "user.name=T", "-c", "user.email=t@example.invalid", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    return done.stdout.strip()


def repository(folder: Path) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "README").write_text("A project.\n")
    git(folder, "add", "README")
    git(folder, "commit", "--quiet", "--message", "begin")
    return folder
