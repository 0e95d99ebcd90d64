"""Where Redis is: a URL read into an Address, and a URL shown without its secret.

Pure apart from reading TLS files. Every problem is a StartProblem in one plain sentence, and no sentence here
ever carries the password: a URL that is not understood is shown through `shown`.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from redis.asyncio.connection import RedisSSLContext, parse_url
from redis.exceptions import RedisError

from inboxd.errors import StartProblem

Kind = Literal["single", "sentinel", "cluster"]

KINDS: dict[str, Kind] = {
    "redis": "single",
    "rediss": "single",
    "unix": "single",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
}
PORT_OF: dict[Kind, int] = {"single": 6379, "sentinel": 26379, "cluster": 6379}
OPTIONS = {"db", "username", "password"}
SENTINEL_OPTIONS = {"sentinel_username", "sentinel_password"}
TLS_OPTIONS = {
    "ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_password", "ssl_cert_reqs",
    "ssl_check_hostname", "ssl_min_version", "ssl_ciphers",
}  # fmt: skip
EXAMPLES = (
    "Write redis://HOST:PORT/DB, rediss://…, unix:///PATH, redis+sentinel://H1:P1,H2:P2/MASTER "
    "or redis+cluster://H1:P1,H2:P2."
)
_HOST = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^:\[\]]+)(?::(\d+))?")
_SECRET_OPTION = re.compile(r"([?&]\w*password=)[^&#]*")
_USERINFO = re.compile(r"://(.*)@", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listening socket: a TCP host and port, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Access:
    """What a socket needs before its first command: who we are, which database, under which TLS."""

    username: str = ""
    password: str = field(default="", repr=False)
    db: int = 0
    tls: ssl.SSLContext | None = None

    def redacted(self, text: str) -> str:
        """Old servers quote the arguments of a command they do not know, HELLO's password among them."""
        return text.replace(self.password, "***") if self.password else text


@dataclass(frozen=True, slots=True)
class Address:
    kind: Kind
    endpoints: tuple[Endpoint, ...]  # the server, the sentinels, or the cluster's seeds
    access: Access
    master_name: str = ""
    # Keyword arguments for redis-py's clients of the sentinels themselves, which have their own password.
    sentinel_options: dict[str, Any] = field(default_factory=dict, repr=False)


def shown(url: str) -> str:
    """The URL without its password, for logs and messages."""

    # Greedy up to the last @: a password with an unescaped / or @ in it is hidden whole.
    def hidden(found: re.Match[str]) -> str:
        user, colon, _ = found.group(1).partition(":")
        return f"://{user}:***@" if colon else "://***@"

    return _USERINFO.sub(hidden, _SECRET_OPTION.sub(r"\1***", url))


def parse(url: str) -> Address:
    """The address a URL names; a StartProblem if it names none."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    kind = KINDS.get(scheme)
    if kind is None:
        raise StartProblem(f"{shown(url)!r} is not a Redis URL that inboxd knows.", hint=EXAMPLES)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise _bad(url, "cannot be read as a URL") from None
    userinfo, at, hosts = parts.netloc.rpartition("@")
    steps = [unquote(step) for step in parts.path.split("/") if step]
    if scheme == "unix":
        if not parts.path.strip("/") or hosts:
            raise _bad(url, "names no socket: a unix URL has three slashes before its path")
        endpoints: tuple[Endpoint, ...] = (Endpoint(path=unquote(parts.path)),)
        steps = []
    else:
        endpoints = _endpoints(url, hosts, PORT_OF[kind])
        if kind == "single" and len(endpoints) > 1:
            raise _bad(url, "names several hosts, which only +sentinel and +cluster URLs do")
    # redis-py reads user, password and options; the host it sees is only a stand-in for ours.
    tls = scheme.startswith("rediss")
    stand_in = f"redis://{userinfo}{at}stand-in?{parts.query}"
    try:
        options: dict[str, Any] = dict(parse_url(stand_in))
    except ValueError:
        raise _bad(url, "has an option that cannot be read, or a password with an unescaped / ? # or @") from None
    del options["host"]
    known = OPTIONS | (TLS_OPTIONS if tls else set()) | (SENTINEL_OPTIONS if kind == "sentinel" else set())
    for name in options:
        if name not in known:
            raise _bad(url, f"has the option {name!r}, which is not one of {', '.join(sorted(known))}")
    master_name = ""
    if kind == "sentinel":
        if not steps:
            raise _bad(url, "names no master: it ends in /MASTER_NAME, the name the sentinels know it by")
        master_name, *steps = steps
    db = _db(url, steps, options)
    if kind == "cluster" and db:
        raise _bad(url, "names a database, but a cluster has only database 0")
    tls_options = {name: value for name, value in options.items() if name in TLS_OPTIONS}
    return Address(
        kind=kind,
        endpoints=endpoints,
        access=Access(
            username=options.get("username", ""),
            password=options.get("password", ""),
            db=db,
            tls=_tls(url, tls_options) if tls else None,
        ),
        master_name=master_name,
        sentinel_options={
            "username": options.get("sentinel_username"),
            "password": options.get("sentinel_password"),
            **({"ssl": True, **tls_options} if tls else {}),
        },
    )


def _bad(url: str, why: str) -> StartProblem:
    return StartProblem(f"The Redis URL {shown(url)} {why}.", hint=EXAMPLES)


def _endpoints(url: str, hosts: str, default_port: int) -> tuple[Endpoint, ...]:
    found = []
    for host in hosts.split(","):
        match = _HOST.fullmatch(host)
        port = int(match.group(2) or default_port) if match else 0
        if match is None or not 0 < port <= 65_535:
            raise _bad(url, "has no readable HOST:PORT")
        found.append(Endpoint(host=unquote(match.group(1)).strip("[]"), port=port))
    return tuple(found)


def _db(url: str, steps: list[str], options: dict[str, Any]) -> int:
    if len(steps) > 1 or (steps and not steps[0].isdecimal()):
        raise _bad(url, "ends in something that is not a database number")
    db = int(options.get("db", steps[0] if steps else 0))
    if db < 0:
        raise _bad(url, "names a database below 0")
    return db


def _tls(url: str, options: dict[str, Any]) -> ssl.SSLContext:
    named = {name.removeprefix("ssl_"): value for name, value in options.items()}
    try:
        # The defaults of redis-py's own rediss://: the certificate is checked, and so is its host name.
        return RedisSSLContext(**{"cert_reqs": "required", "check_hostname": True, **named}).get()
    except (OSError, ValueError, RedisError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise StartProblem(
            f"The TLS options of {shown(url)} will not do: {reason}.",
            hint="Check the files named by ssl_ca_certs, ssl_certfile and ssl_keyfile.",
        ) from None
