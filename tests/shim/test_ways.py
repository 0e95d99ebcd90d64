"""The binary on its way to a broker that is not on this machine: https with an authority of one's own, proxies, and brokers and
proxies that may do anything. The same rules as on the straight way: mail once, a clear sentence, a hook that never fails or waits.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from inboxd.hosts import HOSTS
from tests.shim.scripted import NOTHING, Request, Script, ScriptedBroker, mail, says
from tests.support.brokers import RunningBroker, run_inboxd, running_broker
from tests.support.claude import Claude, words
from tests.support.inbox import Inbox
from tests.support.servers import free_port, poll_until
from tests.support.ways import NAME, Certificates, ForwardProxy, Front, listening, make_certificates, port_that

pytestmark = pytest.mark.xdist_group("inbox-ways")

KINDS = ["https", "http through a proxy", "https through a proxy"]
DEADLINE_MS = 400
SLACK_MS = 1_500
"""Starting a process on a busy machine takes its time."""
TOKEN = "ibx_test.0123456789ab.secretsecretsecretsecret"
SPOKEN = b'{"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":"mail"}}'


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    with running_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@dataclass
class Way:
    """How a broker is reached: what the environment must say for it."""

    env: dict[str, str]
    proxy: ForwardProxy | None = None

    @property
    def url(self) -> str:
        return self.env["INBOX_URL"]


Ways = Callable[[int], AbstractContextManager[Way]]


@pytest.fixture(params=KINDS)
def way_to(request: pytest.FixtureRequest, certificates: Certificates) -> Ways:
    """A way of each kind to a port on this machine."""
    kind: str = request.param

    @contextmanager
    def to(port: int) -> Iterator[Way]:
        with ExitStack() as stack:
            env = {}
            if kind.startswith("https"):
                port = stack.enter_context(listening(Front(port, certificates.context("broker")))).port
                env = {"INBOX_URL": f"https://127.0.0.1:{port}", "INBOX_CA_FILE": str(certificates.file("ca"))}
            proxy = None
            if "proxy" in kind:
                scheme = kind.split(maxsplit=1)[0]
                proxy = stack.enter_context(listening(ForwardProxy({f"{NAME}:8420": port})))
                env |= {
                    "INBOX_URL": f"{scheme}://{NAME}:8420",
                    f"{scheme.upper()}_PROXY": f"http://127.0.0.1:{proxy.port}",
                }
            yield Way(env, proxy)

    return to


def port_of(broker: RunningBroker) -> int:
    return int(broker.url.rsplit(":", 1)[1])


@pytest.fixture
def way(way_to: Ways, running: RunningBroker) -> Iterator[Way]:
    with way_to(port_of(running)) as found:
        yield found


@pytest.fixture
def me(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> Inbox:
    return Inbox(inbox_binary, tmp_path / "me", "", running.token)


@pytest.fixture
def task(running: RunningBroker) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    with running.client() as client:
        client.post("/v1/tasks", json={"task": name}).raise_for_status()
    return name


# A broker behind https, behind a proxy, behind both


def test_mail_comes_through_a_hook_once(
    way: Way, inbox_binary: Path, running: RunningBroker, task: str, tmp_path: Path
) -> None:
    with running.client() as client:
        token = client.post("/v1/tokens", json={"role": "agent", "task": task}).raise_for_status().json()["token"]
        message = f"m-{task}"
        client.post(f"/v1/tasks/{task}/messages", json={"message_id": message, "body": words(message)})
        claude = Claude(inbox_binary, tmp_path / "home", way.url, token)
        claude.env |= way.env
        log = tmp_path / "hook.log"
        assert words(message) in claude.step(None, "--log", str(log)).said
        assert claude.step(None, "--log", str(log)).silent
        assert claude.step(None, "--log", str(log)).silent
        life = client.get(f"/v1/messages/{message}").raise_for_status().json()["history"]
    assert [step["state"] for step in life] == ["queued", "in_flight", "delivered", "seen"]
    assert claude.shown() == {message: 1}
    assert [line.split()[3] for line in log.read_text().splitlines()] == ["printed", "204", "204"]
    assert token not in log.read_text()


def test_every_kind_of_command_works(way: Way, me: Inbox, running: RunningBroker, task: str) -> None:
    me.more |= {**way.env, "INBOX_TASK": task}
    sent = me.said("send", task, "over the hills", "--id", f"m-{task}")
    assert sent["message"]["message_id"] == f"m-{task}"
    assert me.said("pending")["pending"] == 1
    assert "1 message" in me.ok("watch", "--timeout", "5").stdout
    assert task in me.ok("tasks").stdout
    poll_until(lambda: "1" in me.ok("statusline").stdout, what="a line within the 0.3 s it gives itself")
    assert "| over the hills" in me.ok("check").stdout
    assert me.said("show", f"m-{task}")["message"]["state"] == "delivered"
    assert me.said("timeline", task)["messages"][0]["body"] == "over the hills"
    assert me.run("pending").code == 10
    large = "large " * 20_000
    me.ok("send", task, "-", stdin=large)
    assert me.said("check")["messages"][0]["body"].strip() == large.strip()
    code = run_inboxd("login-code", "--data-dir", str(running.data_dir)).stdout.split()[-1]
    guest = Inbox(me.binary, me.home.parent / "guest", "", "", way.env)
    assert way.url in guest.ok("login", code).stdout
    assert guest.ok("tasks").code == 0


def test_a_message_that_was_kept_goes_out_when_the_way_is_open(
    certificates: Certificates, me: Inbox, running: RunningBroker, task: str
) -> None:
    port = free_port()
    me.more |= {"INBOX_URL": f"https://127.0.0.1:{port}", "INBOX_CA_FILE": str(certificates.file("ca"))}
    me.ok("send", task, "later", "--spool")
    assert len(me.kept()) == 1
    with listening(Front(port_of(running), certificates.context("broker"), port)):
        me.ok("pending", "--task", task)
        assert me.kept() == []


def test_the_doctor_finds_every_link_in_order(way: Way, me: Inbox, task: str) -> None:
    settings = me.home / ".claude" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(HOSTS["claude"].settings_entry("inbox hook claude")))
    me.more |= {**way.env, "INBOX_TASK": task}
    ran = me.ok("doctor")
    assert f"answers at {way.url}" in ran.stdout
    assert "the probe came through `inbox hook claude`" in ran.stdout
    assert "Everything that was tried works." in ran.stdout


def test_the_token_is_in_its_header_and_nowhere_else(way_to: Ways, inbox_binary: Path, tmp_path: Path) -> None:
    if not sys.platform.startswith("linux"):
        pytest.skip("NOT TESTED: what stands on a command line is read from /proc")
    lines: list[str] = []
    with ScriptedBroker() as broker, way_to(broker.port) as way:

        def look(connection: socket.socket, request: Request) -> None:
            for one in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    lines.append(one.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            connection.sendall(NOTHING)

        broker.hook = look
        ended = hook(inbox_binary, tmp_path, way.env, "--deadline-ms", "5000")
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
        (request,) = broker.requests
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert TOKEN not in request.path
        if way.proxy is not None:
            (asked,) = way.proxy.asked
            assert TOKEN not in asked.line
            # A proxy on the way of plain http reads everything; behind CONNECT it reads nothing.
            assert ("authorization" in asked.headers) == (not asked.line.startswith("CONNECT "))
    assert any("inbox hook claude" in line for line in lines)
    assert not any(TOKEN in line for line in lines)


# Certificates that prove nothing


WRONG = {
    "another authority": ("stranger", "ca", f"https://{NAME}", "is signed by nobody known here", "INBOX_CA_FILE"),
    "no authority": ("broker", "", f"https://{NAME}", "is signed by nobody known here", "INBOX_CA_FILE"),
    "expired": ("expired", "ca", f"https://{NAME}", "is not accepted: x509: certificate has expired", "Renew it"),
    "another name": ("broker", "ca", "https://other.test", "is for another name: x509: certificate is valid for", "a name that"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_broker_that_cannot_prove_who_it_is_gets_no_token(
    wrong: str, certificates: Certificates, inbox_binary: Path, tmp_path: Path
) -> None:
    certificate, authority, url, sentence, hint = WRONG[wrong]
    with (
        ScriptedBroker() as broker,
        listening(Front(broker.port, certificates.context(certificate))) as front,
        listening(ForwardProxy({f"{NAME}:443": front.port, "other.test:443": front.port})) as proxy,
    ):
        env = {"INBOX_URL": url, "HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}"}
        if authority:
            env["INBOX_CA_FILE"] = str(certificates.file(authority))
        someone = Inbox(inbox_binary, tmp_path / "home", "", TOKEN, env)
        ran = someone.run("tasks")
        assert (ran.code, ran.stdout) == (50, "")
        assert ran.stderr.startswith(f"inbox: The certificate of {url} {sentence}")
        assert hint in ran.stderr
        assert someone.run("tasks", "--json").error["code"] == "BROKER_UNREACHABLE"
        doctor = someone.run("doctor")
        assert doctor.code == 50
        assert "The broken link: broker." in doctor.stdout
        assert sentence in doctor.stdout
        ended = hook(inbox_binary, tmp_path, env)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
        assert broker.requests == []
        assert TOKEN not in "".join(asked.line + str(asked.headers) for asked in proxy.asked)


@pytest.mark.parametrize("text", [None, "", "not a certificate"])
def test_a_file_without_authorities_is_named(text: str | None, inbox_binary: Path, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    env = {"INBOX_URL": f"https://{NAME}", "INBOX_CA_FILE": str(file)}
    ran = Inbox(inbox_binary, tmp_path / "home", "", TOKEN, env).run("tasks")
    assert (ran.code, ran.stdout) == (30, "")
    assert f"The authorities in {file} (from INBOX_CA_FILE) cannot be read." in ran.stderr
    ended = hook(inbox_binary, tmp_path, env)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_broker_without_https_is_told_apart(inbox_binary: Path, tmp_path: Path, running: RunningBroker) -> None:
    with listening(Front(port_of(running), None)) as plain:
        env = {"INBOX_URL": f"https://127.0.0.1:{plain.port}"}
        ran = Inbox(inbox_binary, tmp_path / "home", "", TOKEN, env).run("tasks")
    assert ran.code == 50
    assert "does not speak https. Write http://" in ran.stderr


# Proxies


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_the_proxy_variables_are_heeded_in_either_case(
    name: str, inbox_binary: Path, running: RunningBroker, task: str, tmp_path: Path
) -> None:
    with listening(ForwardProxy({f"{NAME}:80": port_of(running)})) as proxy:
        env = {"INBOX_URL": f"http://{NAME}", name: f"http://127.0.0.1:{proxy.port}"}
        me = Inbox(inbox_binary, tmp_path / "home", "", running.token, env)
        assert me.run("pending", "--task", task).code == 10
        assert hook(inbox_binary, tmp_path, {**env, "INBOX_TASK": task}, token=running.token).returncode == 0
        assert [asked.line.split("?")[0] for asked in proxy.asked] == [
            f"GET http://{NAME}/v1/tasks/{task}/pending HTTP/1.1",
            f"POST http://{NAME}/v1/hooks/claude HTTP/1.1",
        ]


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_no_proxy_names_goes_the_straight_way(scheme: str, inbox_binary: Path, tmp_path: Path) -> None:
    with listening(ForwardProxy({})) as proxy:
        env = {
            "INBOX_URL": f"{scheme}://{NAME}",
            "HTTP_PROXY": f"http://127.0.0.1:{proxy.port}",
            "HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}",
        }
        me = Inbox(inbox_binary, tmp_path / "home", "", TOKEN, env)
        assert me.run("tasks").code == 50
        asked = len(proxy.asked)
        assert asked > 0
        env["NO_PROXY"] = ".test"
        refused = me.run("tasks")  # no resolver knows the name
        assert refused.code == 50
        assert f"The broker at {scheme}://{NAME} cannot be reached" in refused.stderr
        assert hook(inbox_binary, tmp_path, env).returncode == 0
        assert len(proxy.asked) == asked


def test_a_broker_on_this_machine_is_never_asked_through_a_proxy(
    inbox_binary: Path, running: RunningBroker, task: str, tmp_path: Path
) -> None:
    nowhere = "http://127.0.0.1:9"
    env = {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "http_proxy": nowhere}
    me = Inbox(inbox_binary, tmp_path / "home", running.url, running.token, env)
    me.ok("send", task, "still here")
    ended = hook(inbox_binary, tmp_path, {**env, "INBOX_URL": running.url, "INBOX_TASK": task}, token=running.token)
    assert b"still here" in ended.stdout


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named_and_its_password_is_not(
    scheme: str, inbox_binary: Path, tmp_path: Path
) -> None:
    for address in ("http://me:s3cret@127.0.0.1:9", "http://me:s3cret@127.0.0.1:none", "http://me:s3cret@[none"):
        env = {"INBOX_URL": f"{scheme}://{NAME}", f"{scheme.upper()}_PROXY": address}
        ran = Inbox(inbox_binary, tmp_path / uuid.uuid4().hex, "", TOKEN, env).run("tasks")
        assert (ran.code, ran.stdout) == (50, "")
        assert f"The proxy on the way to {scheme}://{NAME} cannot be reached: " in ran.stderr
        assert "HTTP_PROXY, HTTPS_PROXY and NO_PROXY say which way requests go." in ran.stderr
        assert "s3cret" not in ran.stderr
        ended = hook(inbox_binary, tmp_path, env)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_proxy_that_asks_who_we_are_is_told(inbox_binary: Path, running: RunningBroker, tmp_path: Path) -> None:
    with listening(ForwardProxy({f"{NAME}:80": port_of(running)})) as proxy:
        env = {"INBOX_URL": f"http://{NAME}", "HTTP_PROXY": f"http://me:s3cret@127.0.0.1:{proxy.port}"}
        Inbox(inbox_binary, tmp_path / "home", "", running.token, env).ok("tasks")
        assert proxy.asked[0].headers["proxy-authorization"].startswith("Basic ")


# Brokers and proxies that may do anything


def hook(
    binary: Path, home: Path, env: dict[str, str], *flags: str, token: str = TOKEN
) -> subprocess.CompletedProcess[bytes]:
    """One hook, on an account that remembers nothing."""
    alone = home / f"account-{uuid.uuid4().hex}"
    alone.mkdir()
    given = {"hook_event_name": "PostToolUse", "session_id": "s-1", "cwd": str(alone), "tool_name": "Bash"}
    return subprocess.run(
        [binary, "hook", "claude", *flags],
        input=json.dumps(given).encode(),
        env={"HOME": str(alone), "INBOX_TOKEN": token, **env},
        cwd=alone,
        capture_output=True,
        timeout=30,
        check=False,
    )


def flood(connection: socket.socket, request: Request) -> None:
    """200 MB, if anybody takes them."""
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 209715200\r\n\r\n")
    for _ in range(3_200):
        connection.sendall(b"x" * 65_536)


def hang_up(connection: socket.socket, request: Request) -> None:
    connection.sendall(mail(SPOKEN)[:-5])
    connection.shutdown(socket.SHUT_RDWR)


HOSTILE: dict[str, Callable[[ScriptedBroker], Script]] = {
    "hangs": lambda broker: broker.hang,
    "drips": lambda broker: broker.drip,
    "hangs up in the middle": lambda broker: hang_up,
    "floods": lambda broker: flood,
}
BAD_ANSWERS = {
    "talks nonsense": b"\x00\xff" * 5_000 + b"\r\n\r\n",
    "fails": b"HTTP/1.1 500 No\r\ncontent-length: 2\r\n\r\n{}",
    "sends elsewhere": b"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 2\r\n\r\n{}",
    "says half an object": b'HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n{"a":"bc',
    "packs its answer": b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    "has headers without end": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000,
    "names a path": mail(SPOKEN, receipt="../../x"),
    "ends with a code of its own": mail(SPOKEN, more=b"Inbox-Exit: 3\r\n"),
    "gives no time": mail(SPOKEN, more=b"Inbox-Print-Within-Ms: soon\r\n"),
}


def script(broker: ScriptedBroker, does: str) -> Script:
    return HOSTILE[does](broker) if does in HOSTILE else says(BAD_ANSWERS[does])


@pytest.mark.parametrize("does", [*HOSTILE, *BAD_ANSWERS])
def test_a_broker_that_may_do_anything_is_left_in_time_and_not_repeated(
    does: str, way_to: Ways, inbox_binary: Path, tmp_path: Path
) -> None:
    with ScriptedBroker() as broker, way_to(broker.port) as way:
        broker.hook = script(broker, does)
        began = time.monotonic()
        ended = hook(inbox_binary, tmp_path, way.env, "--deadline-ms", str(DEADLINE_MS))
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
        assert (time.monotonic() - began) * 1_000 < DEADLINE_MS + SLACK_MS
        assert [request.path for request in broker.requests] == ["/v1/hooks/claude"]


@pytest.mark.parametrize("does", ["floods", "hangs up in the middle", "talks nonsense", "fails", "sends elsewhere"])
def test_a_command_says_what_is_wrong_with_such_a_broker(
    does: str, way_to: Ways, inbox_binary: Path, tmp_path: Path
) -> None:
    with ScriptedBroker() as broker, way_to(broker.port) as way:
        broker.settle = script(broker, does)
        ran = Inbox(inbox_binary, tmp_path / "home", "", TOKEN, way.env).run("tasks")
        assert (ran.code, ran.stdout) == (50, "")
        assert ran.stderr.startswith("inbox: ")
        assert ran.stderr.count("\n") == 1
        assert len(ran.stderr) < 500


def reads_for_ever(connection: socket.socket) -> None:
    while connection.recv(65_536):
        pass


def answers(text: bytes) -> Callable[[socket.socket], None]:
    def does(connection: socket.socket) -> None:
        connection.recv(65_536)
        connection.sendall(text)
        reads_for_ever(connection)

    return does


HANDSHAKES: dict[str, Callable[[socket.socket], None]] = {
    "hangs": reads_for_ever,
    "hangs up": lambda connection: connection.shutdown(socket.SHUT_RDWR),
    "talks nonsense": answers(b"\x16\x03\x01" + b"\xff" * 60_000),
    "speaks plainly": answers(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"),
    "refuses": answers(b"HTTP/1.1 407 Who are you\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n"),
}


@pytest.mark.parametrize("who", ["broker", "proxy"])
@pytest.mark.parametrize("does", HANDSHAKES)
def test_a_way_that_is_never_opened_is_left_in_time(does: str, who: str, inbox_binary: Path, tmp_path: Path) -> None:
    with port_that(HANDSHAKES[does]) as port:
        env = {"INBOX_URL": f"https://127.0.0.1:{port}"}
        if who == "proxy":
            env = {"INBOX_URL": f"https://{NAME}", "HTTPS_PROXY": f"http://127.0.0.1:{port}"}
        began = time.monotonic()
        ended = hook(inbox_binary, tmp_path, env, "--deadline-ms", str(DEADLINE_MS))
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
        assert (time.monotonic() - began) * 1_000 < DEADLINE_MS + SLACK_MS


def test_a_way_that_is_down_opens_the_breaker_and_an_answer_closes_it(
    certificates: Certificates, inbox_binary: Path, tmp_path: Path
) -> None:
    with ScriptedBroker() as broker, listening(Front(broker.port, certificates.context("broker"))) as front:
        claude = Claude(inbox_binary, tmp_path / "home", f"https://127.0.0.1:{front.port}", TOKEN)
        assert claude.run().silent  # nobody known here signed that
        (noted,) = claude.breakers()
        claude.env["INBOX_CA_FILE"] = str(certificates.file("ca"))
        assert claude.run().silent
        assert broker.requests == []  # left alone
        noted.write_text(f"{int(time.time() * 1_000) - 1} 1\n")
        assert claude.run().silent
        assert len(broker.requests) == 1
        assert claude.breakers() == []
