"""A Chromium for the browser tests: the system's, because playwright's own cannot be had everywhere. The headless shell is the same
engine without the windows around it, and takes two thirds of the time.

`python -m tests.support.chromium` tries to install one where that is allowed (as root, on Debian and its kin), and says what it did.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
INSTALL_S_MAX = 300
NOT_TESTED = "NOT TESTED in a browser: there is no Chromium (install one, or name it in CHROMIUM)"


@cache
def find_chromium() -> str | None:
    """The browser named in CHROMIUM, or one on PATH."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named if Path(named).exists() else None
    return next((found for name in NAMES if (found := shutil.which(name))), str(MAC) if MAC.exists() else None)


def install() -> str:
    """Try once, quietly and not for long; what came of it."""
    if find_chromium():
        return f"browser tests: {find_chromium()}"
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return NOT_TESTED
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    take = ["install", "-y", "--no-install-recommends"]
    for command in (["update"], [*take, "chromium-headless-shell"], [*take, "chromium"]):
        try:
            subprocess.run(["apt-get", *command], env=environment, timeout=INSTALL_S_MAX, check=False, **quiet)  # type: ignore[call-overload]
        except subprocess.TimeoutExpired:
            break
        find_chromium.cache_clear()
        if find_chromium():
            break
    return f"browser tests: installed {find_chromium()}" if find_chromium() else NOT_TESTED


if __name__ == "__main__":
    print(install(), file=sys.stderr)
