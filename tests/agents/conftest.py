"""What tests of real agents' programs stand on: a network of their own, a broker, a model that says what it is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.network import only_loopback
from tests.agents.scripted_model import ScriptedModel, scripted_model
from tests.agents.terminal import ClaudeTerminal, CodexTerminal, find_program, program
from tests.shim.conftest import inbox_binary
from tests.support.brokers import RunningBroker, running_broker

__all__ = ["inbox_binary"]


@pytest.fixture(scope="session")
def claude_program() -> str:
    return program("claude")


@pytest.fixture(scope="session")
def codex_program() -> str:
    return program("codex")


@pytest.fixture(scope="session")
def some_program() -> None:
    """Where there is none at all, nothing else is started only to be stopped again."""
    if find_program("codex") is None:
        program("claude")


@pytest.fixture
def network(some_program: None, inbox_binary: Path) -> Iterator[bool]:
    """Entered before anything is started, left after all of it has ended. The binary is built outside."""
    with only_loopback() as alone:
        yield alone


@pytest.fixture
def model(network: bool) -> Iterator[ScriptedModel]:
    with scripted_model() as running:
        yield running


@pytest.fixture
def broker(network: bool, tmp_path: Path) -> Iterator[RunningBroker]:
    with running_broker(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def claude(
    claude_program: str, inbox_binary: Path, tmp_path: Path, broker: RunningBroker, model: ScriptedModel
) -> Iterator[ClaudeTerminal]:
    terminal = ClaudeTerminal("claude", claude_program, tmp_path / "home", inbox_binary, broker, model)
    yield terminal
    terminal.close()


@pytest.fixture
def codex(
    codex_program: str, inbox_binary: Path, tmp_path: Path, broker: RunningBroker, model: ScriptedModel
) -> Iterator[CodexTerminal]:
    terminal = CodexTerminal("codex", codex_program, tmp_path / "home", inbox_binary, broker, model)
    yield terminal
    terminal.close()
