"""`inbox mcp` as a host runs it: the SDK's own client on its stdin and stdout, a real broker behind it, and a host's socket.

The socket is a stand-in for Claude Code's, which acknowledges nothing; the real one is met in tests/agents.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent

from tests.support.brokers import RunningBroker, running_broker
from tests.support.inbox import Inbox
from tests.support.mcp import bodies
from tests.support.servers import poll_until

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("inbox-mcp")]

WITHIN_MS = 15_000


@dataclass
class Place:
    """An agent at a shell of its own, and the broker it knows."""

    broker: RunningBroker
    agent: Inbox
    task: str

    @property
    def uri(self) -> str:
        return f"inbox://{self.task}"

    def send(self, body: str, *, through: RunningBroker | None = None, **more: Any) -> str:
        with (through or self.broker).client() as operator:
            sent = operator.post(f"/v1/tasks/{self.task}/messages", json={"body": body, **more})
        return str(sent.raise_for_status().json()["message"]["message_id"])

    def state(self, message_id: str) -> str:
        with self.broker.client() as operator:
            return str(operator.get(f"/v1/messages/{message_id}").raise_for_status().json()["message"]["state"])

    def idle(self, wait_ms: int) -> None:
        """As long as somebody waits at the broker for mail that never comes."""
        with self.broker.client() as operator:
            operator.post("/v1/tasks", json={"task": "nobody"}).raise_for_status()
            operator.get(f"/v1/tasks/nobody/pending?wait_ms={wait_ms}").raise_for_status()


def place_at(broker: RunningBroker, binary: Path, home: Path) -> Place:
    task = f"t-{uuid.uuid4().hex[:10]}"
    with broker.client() as operator:
        made = operator.post("/v1/tokens", json={"role": "agent", "task": task}).raise_for_status().json()
    return Place(broker, Inbox(binary, home, broker.url, made["token"]), task)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker that no test stops."""
    with running_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def place(shared: RunningBroker, inbox_binary: Path, tmp_path: Path) -> Place:
    return place_at(shared, inbox_binary, tmp_path / "home")


def server(inbox: Inbox, *flags: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=str(inbox.binary), args=["mcp", *flags], env=inbox.environment, cwd=inbox.folder
    )


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy", "auto"])
async def test_a_host_without_http_has_the_same_tools(place: Place, mode: str) -> None:
    async with Client(server(place.agent), mode=mode) as speaking:
        assert len((await speaking.list_tools()).tools) == 21
        place.send("hello")
        result = await speaking.call_tool("check_inbox", {})
        assert bodies(result.structured_content or {}) == ["hello"]
        assert (await speaking.call_tool("check_inbox", {})).structured_content == {"messages": [], "pending": 0}
        waited = await speaking.call_tool("wait_for_reply", {"message_id": "nothing", "wait_s": 5})
        assert waited.is_error
    async with Client(server(place.agent, "--tools", "mail"), mode=mode) as speaking:
        assert len((await speaking.list_tools()).tools) == 10


def test_a_task_that_the_token_does_not_open_is_refused_with_a_reason(place: Place) -> None:
    place.agent.more["INBOX_TASK"] = "frontend"
    line = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n'
    ran = place.agent.run("mcp", stdin=line)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.json["error"]["data"]["code"] == "FORBIDDEN"
    place.agent.more["INBOX_TASK"] = "no task"
    assert place.agent.run("mcp", stdin=line).code == 30


async def test_a_listener_hears_of_mail_before_and_after_the_broker_was_restarted(
    inbox_binary: Path, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker") as first:
        place = place_at(first, inbox_binary, tmp_path / "home")
        # Found by the runtime file, as on a person's own machine: after a restart the port is another.
        found = {"INBOXD_DATA_DIR": str(first.data_dir), "INBOX_TASK": place.task}
        place.agent = Inbox(inbox_binary, tmp_path / "other", "", "", found)
        async with (
            Client(server(place.agent), mode="2026-07-28") as speaking,
            speaking.listen(resource_subscriptions=[place.uri]) as told,
        ):
            events = aiter(told)
            place.send("one")
            assert await anext(events) == ResourceUpdated(place.uri)
            await speaking.call_tool("check_inbox", {})
            assert first.stop() == 0
            with running_broker(tmp_path / "broker") as second:
                assert second.url != first.url
                place.send("two", through=second)
                assert await anext(events) == ResourceUpdated(place.uri)
                result = await speaking.call_tool("check_inbox", {})
                assert bodies(result.structured_content or {}) == ["two"]


async def test_a_broker_that_is_away_is_a_result_a_model_can_act_on_and_its_return_is_noticed(
    inbox_binary: Path, tmp_path: Path
) -> None:
    with running_broker(tmp_path / "broker") as broker:
        place = place_at(broker, inbox_binary, tmp_path / "home")
        async with Client(server(place.agent), mode="2026-07-28") as speaking:
            await speaking.call_tool("inbox_status", {})
            port = broker.url.rsplit(":", 1)[1]
            assert broker.stop() == 0
            refused = await speaking.call_tool("inbox_status", {})
            assert refused.is_error
            assert (refused.structured_content or {})["error"]["code"] == "BROKER_UNREACHABLE"
            told = refused.content[0]
            assert isinstance(told, TextContent)
            assert re.search(r"cannot be reached\..*Is `inboxd serve` running", told.text)
            with pytest.raises(MCPError, match="cannot be reached"):
                await speaking.list_tools()
            with running_broker(tmp_path / "broker", "--port", port):
                assert (await speaking.call_tool("inbox_status", {})).structured_content is not None


def test_what_is_no_message_is_answered_because_somebody_waits(place: Place) -> None:
    one = '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"inbox_status","arguments":{}}}'
    ran = place.agent.run("mcp", stdin="\n".join(["not json", f"[{one},{one}]", "5", "{}", "", one]))
    answers = [json.loads(line) for line in ran.stdout.splitlines()]
    refused = [answer["error"]["code"] for answer in answers if answer["id"] is None]
    assert refused == [-32700, -32600, -32600, -32600]
    assert [answer["result"]["isError"] for answer in answers if answer["id"] == 7] == [False]


def test_it_ends_with_its_host(place: Place) -> None:
    with running(place.agent) as proxy:
        assert proxy.stdin is not None
        proxy.stdin.write('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"watch","arguments":{}}}\n')
        proxy.stdin.flush()
        proxy.stdin.close()
        assert proxy.wait(10) == 0


# ---------------------------------------------------------------- waking


@dataclass
class HostSocket:
    """What Claude Code gives the programs it starts: it takes lines, and says nothing."""

    path: Path
    heard: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, connection.makefile() as lines:
                    self.heard += [json.loads(line) for line in lines]

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    @property
    def words(self) -> list[str]:
        return [line["message"]["content"] for line in self.heard if line["type"] == "user"]

    @property
    def environment(self) -> dict[str, str]:
        return {"CLAUDE_CODE_MESSAGING_SOCKET": str(self.path), "CLAUDE_CODE_MESSAGING_TOKEN": "key-of-host"}


@pytest.fixture
def host(tmp_path: Path) -> Iterator[HostSocket]:
    made = HostSocket(tmp_path / "s")
    yield made
    made.close()


@contextlib.contextmanager
def running(inbox: Inbox, **env: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [inbox.binary, "mcp"],
        cwd=inbox.folder,
        env={**inbox.environment, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        if started.stdin is not None and started.stdin.closed:
            started.stdin = None
        try:
            started.communicate(timeout=10)
        finally:
            started.kill()
            started.wait()


def test_an_idle_session_is_told_once_that_mail_waits_and_the_mail_stays(place: Place, host: HostSocket) -> None:
    with running(place.agent, **host.environment):
        first = place.send("one")
        poll_until(lambda: host.words, what="the host's being told", limit_ms=WITHIN_MS)
        assert host.heard[0] == {"type": "auth", "token": "key-of-host"}
        assert host.words == [
            "inboxd: 1 message for you in your inbox. Unless you have been shown this mail already, "
            "call check_inbox to read it."
        ]
        assert place.state(first) == "queued"
        place.send("two")
        place.idle(4_000)
        assert len(host.words) == 1
        place.send("three", priority="urgent")
        poll_until(lambda: len(host.words) == 2, what="word of urgent mail", limit_ms=WITHIN_MS)
        assert "3 messages" in host.words[1]
        assert "1 of them urgent" in host.words[1]
        # Read and gone, the next mail is news again.
        assert len(place.agent.said("check")["messages"]) == 3
        place.idle(4_000)
        place.send("four")
        poll_until(lambda: len(host.words) == 3, what="word of new mail", limit_ms=WITHIN_MS)


def test_mail_that_a_hook_has_taken_is_not_told_of(place: Place, host: HostSocket) -> None:
    with running(place.agent, **host.environment):
        for number in range(3):
            place.send(f"mail {number}")
            place.agent.ok("check")
        place.idle(4_000)
        assert host.heard == []


@pytest.mark.parametrize("why", ["told not to", "no key", "no socket"])
def test_where_the_host_gives_no_way_or_the_person_wants_none_nothing_is_told(
    place: Place, host: HostSocket, why: str
) -> None:
    environment = {
        "told not to": {**host.environment, "INBOX_MCP_PUSH": "off"},
        "no key": {"CLAUDE_CODE_MESSAGING_SOCKET": str(host.path)},
        "no socket": {"CLAUDE_CODE_MESSAGING_TOKEN": "key-of-host"},
    }[why]
    with running(place.agent, **environment):
        place.send("one")
        place.idle(3_000)
        assert host.heard == []


def test_a_host_that_is_gone_is_told_when_it_is_back(place: Place, tmp_path: Path) -> None:
    path = tmp_path / "later"
    environment = {"CLAUDE_CODE_MESSAGING_SOCKET": str(path), "CLAUDE_CODE_MESSAGING_TOKEN": "k"}
    with running(place.agent, **environment):
        place.send("one")
        place.idle(2_500)
        host = HostSocket(path)
        try:
            poll_until(lambda: host.words, what="the host's being told", limit_ms=WITHIN_MS)
        finally:
            host.close()
