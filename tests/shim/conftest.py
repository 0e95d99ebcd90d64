"""What tests of the binary stand on: the binary itself, built once, and a broker that does what a test tells it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shim.scripted import ScriptedBroker

SOURCE = Path(__file__).parents[2] / "shim"


@pytest.fixture(scope="session")
def inbox_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`inbox`, built as it is released. Test processes that run side by side share one build."""
    go = shutil.which("go", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if go is None:
        pytest.skip("NOT TESTED: there is no Go here to build the binary with")
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    binary = shared / "bin" / "inbox"
    binary.parent.mkdir(exist_ok=True)
    with (binary.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not binary.exists():
            subprocess.run(
                [go, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", binary, "."],
                cwd=SOURCE,
                env={**os.environ, "CGO_ENABLED": "0", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": ""},
                check=True,
                timeout=110,
            )
    return binary


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A stand-in for a broker, friendly or hostile. Not a mock of ours: it speaks TCP and what the test writes."""
    with ScriptedBroker() as running:
        yield running
