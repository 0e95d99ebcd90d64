"""`inboxd token`, beside a running broker and without one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from inboxd import cli
from tests.support.brokers import RunningBroker, run_inboxd, running_broker
from tests.support.servers import find_server_binary, private_server


class Said(NamedTuple):
    code: int
    out: str
    err: str


@dataclass
class TokenCommand:
    """`inboxd token …`, without a process for each: it is the store's process, or the broker's, that is another."""

    capfd: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Said:
        self.capfd.readouterr()
        code = cli.main(["token", *arguments])
        return Said(code, *self.capfd.readouterr())

    def json(self, *arguments: str) -> dict[str, Any]:
        said = self(*arguments, "--json")
        assert (said.code, said.err) == (0, "")
        assert len(said.out.splitlines()) == 1
        answer: dict[str, Any] = json.loads(said.out)
        assert answer["ok"] is True
        return answer


@pytest.fixture
def token(capfd: pytest.CaptureFixture[str]) -> TokenCommand:
    return TokenCommand(capfd)


@pytest.mark.xdist_group("shared-broker")
def test_tokens_are_made_listed_and_revoked_beside_a_running_broker(
    shared_broker: RunningBroker, token: TokenCommand
) -> None:
    here = ("--data-dir", str(shared_broker.data_dir))
    given = ("--role", "agent", "--task", "docs", "--label", "a word", "--expires-in", "12h")
    made = token.json("create", *given, *here)
    assert (made["command"], made["role"], made["task"]) == ("token create", "agent", "docs")
    assert made["expires_at_ms"] - made["created_at_ms"] == 12 * 3_600_000
    with shared_broker.client(made["token"]) as agent:
        assert agent.get("/v1/whoami").json()["task"] == "docs"
        assert agent.get("/v1/tasks/docs/pending").status_code == 200
        listed = token.json("list", *here)["tokens"]
        assert made["token_id"] in [one["token_id"] for one in listed]
        assert made["token"].split(".")[2] not in json.dumps(listed)
        assert token.json("revoke", made["token_id"], *here)["token_id"] == made["token_id"]
        # By another process, and still at once.
        assert agent.get("/v1/tasks/docs/pending").status_code == 401
        assert agent.get("/v1/whoami").status_code == 401
    with shared_broker.client() as machine:
        assert machine.get("/readyz").status_code == 200


def test_tokens_are_made_listed_and_revoked_without_a_broker(tmp_path: Path, token: TokenCommand) -> None:
    here = ("--data-dir", str(tmp_path / "data"))
    empty = token("list", *here)
    assert (empty.code, empty.err) == (0, "")
    assert "inboxd token create" in empty.out
    made = [token("create", "--role", "user", *here) for _ in range(2)]
    secrets = [one.out.strip() for one in made]
    assert all(secret.startswith("ibx_default.") for secret in secrets)
    assert "once" in made[0].err
    shown = token("list", *here)
    for secret in secrets:
        assert secret.split(".")[1] in shown.out
        assert secret.split(".")[2] not in shown.out
    gone = token("revoke", secrets[0].split(".")[1], *here)
    assert (gone.code, secrets[0].split(".")[1] in gone.out) == (0, True)
    with running_broker(tmp_path) as broker:
        for secret, status in zip(secrets, (401, 200), strict=True):
            with broker.client(secret) as user:
                assert user.get("/v1/whoami").status_code == status


def test_tokens_of_a_shared_redis_are_made_from_anywhere(tmp_path: Path) -> None:
    with private_server(find_server_binary()) as server:
        given = ("--role", "observer", "--namespace", "team-b", "--json", "--redis-url", server.url)
        made = json.loads(run_inboxd("token", "create", *given).stdout)
        assert made["token"].startswith("ibx_team-b.")
        with running_broker(tmp_path, "--redis-url", server.url) as broker, broker.client(made["token"]) as observer:
            assert observer.get("/v1/whoami").json()["namespace"] == "team-b"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["revoke", "0" * 12], 40),
        (["revoke", "no-id"], 40),
        (["create", "--role", "agent"], 30),
        (["create", "--role", "agent", "--task", "user"], 30),
        (["create", "--role", "agent", "--task", "a b"], 30),
        (["create", "--role", "user", "--task", "backend"], 30),
        (["create", "--role", "user", "--expires-in", "soon"], 30),
        (["create", "--role", "user", "--expires-in", "0s"], 30),
        (["create", "--role", "user", "--expires-in", "99999999999999d"], 30),
        (["create", "--role", "user", "--expires-in", "9" * 5_000 + "d"], 30),
        (["create", "--role", "user", "--expires-in", ""], 30),
        (["create", "--role", "user", "--label", "two\nlines"], 30),
        (["list", "--namespace", "Team B"], 30),
        (["list", "--namespace", "team\n"], 30),
        (["list", "--namespace", ""], 30),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else str(value),
)
def test_a_wrong_token_command_ends_with_one_line_and_its_exit_code(
    tmp_path: Path, token: TokenCommand, arguments: list[str], code: int
) -> None:
    said = token(*arguments, "--data-dir", str(tmp_path / "data"))
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith("inboxd: ")
    assert len(said.err.splitlines()) == 1
