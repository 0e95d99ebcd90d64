"""Redis in a container, for machines where a Docker engine runs: one more kind of server for the same tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import redis

from tests.support.servers import poll_until

IMAGE = "redis:7-alpine"


@cache
def engine_problem() -> str | None:
    """Why there is no Docker engine to test with; None where one runs."""
    if shutil.which("docker") is None:
        return "NOT TESTED: the docker command is not installed"
    try:
        answer = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "NOT TESTED: no Docker engine answered `docker info` within 20 s"
    return None if answer.returncode == 0 else "NOT TESTED: no Docker engine runs (`docker info` failed)"


@dataclass
class ContainedServer:
    """What tests need of a server that they do not run themselves."""

    url: str
    ask: Callable[..., Any]


def become_cluster(ask: Callable[..., Any]) -> None:
    """Give a lone cluster node all slots, so that a key that strays from its slot fails."""
    ask("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
    poll_until(lambda: "cluster_state:ok" in str(ask("CLUSTER", "INFO")), what="cluster_state:ok")


@contextmanager
def contained_server() -> Iterator[ContainedServer]:
    """A single-node cluster in a container, as `private_server(cluster=True)` is one outside."""
    from testcontainers.community.redis import RedisContainer

    container = RedisContainer(IMAGE).with_command("redis-server --cluster-enabled yes --save ''")
    with container:
        url = f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(container.port)}/0"
        with redis.Redis.from_url(url) as client:
            become_cluster(client.execute_command)
            yield ContainedServer(url, client.execute_command)
