"""Ways to a broker other than the straight one: https in front of it, and a proxy that alone knows where a name leads.

Both run in threads of their own and pass on bytes; what they saw is kept. The certificates are made for the run by a small Go
program, for Go is here wherever the binary is tested.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

CHUNK_BYTES = 65_536
NAME = "inbox.test"
"""A broker's name that no resolver knows."""
CERTIFICATES = Path(__file__).parent / "certificates" / "main.go"


@dataclass(frozen=True)
class Certificates:
    """`ca` signed `broker` and `expired`; `other-ca` signed `stranger`."""

    folder: Path

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def context(self, name: str) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(self.file(name))
        return made


def make_certificates(folder: Path) -> Certificates:
    go = shutil.which("go", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if go is None:
        pytest.skip("NOT TESTED: there is no Go here to make certificates with")
    settings = {"CGO_ENABLED": "0", "GOPROXY": "off", "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    subprocess.run(
        [go, "run", CERTIFICATES, folder, NAME, "127.0.0.1"], env={**os.environ, **settings}, check=True, timeout=110
    )
    return Certificates(folder)


@contextmanager
def port_that(does: Callable[[socket.socket], None], port: int = 0) -> Iterator[int]:
    """A loopback port behind which something is done with every connection; all of it ends with the block."""
    listener = socket.create_server(("127.0.0.1", port))
    made: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        with suppress(OSError):
            does(connection)
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                made.append(connection)
                threads.append(threading.Thread(target=serve, args=(connection,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        for one in (listener, *made):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in (accepting, *threads):
            thread.join(10)
        for one in (listener, *made):
            one.close()


def _join(here: socket.socket, there: socket.socket) -> None:
    """Both ways at once, until either side hangs up. One thread, because a TLS connection is not for two."""
    other = {here: there, there: here}
    while True:
        ready = [one for one in other if isinstance(one, ssl.SSLSocket) and one.pending()]
        for one in ready or select.select([here, there], [], [])[0]:
            chunk = one.recv(CHUNK_BYTES)
            if not chunk:
                return
            other[one].sendall(chunk)


@dataclass
class Front:
    """Speaks TLS with whoever calls, and plainly with the one behind it; without a certificate, plainly with both."""

    upstream_port: int
    context: ssl.SSLContext | None
    port: int = 0

    def serve(self, connection: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.upstream_port)) as there:
            if self.context is None:
                _join(connection, there)
                return
            # A copy of the descriptor: the one who accepted closes his.
            with self.context.wrap_socket(connection.dup(), server_side=True) as speaking:
                _join(speaking, there)


@dataclass
class Asked:
    """A request as a proxy got it."""

    line: str
    headers: dict[str, str]


@dataclass
class ForwardProxy:
    """An HTTP proxy: CONNECT, and requests with a whole address. It knows where each name leads, and refuses others."""

    leads: dict[str, int]
    """Ports on loopback, by `name:port` as it is asked for."""
    asked: list[Asked] = field(default_factory=list)
    port: int = 0

    def serve(self, connection: socket.socket) -> None:
        text = b""
        while b"\r\n\r\n" not in text:
            chunk = connection.recv(CHUNK_BYTES)
            if not chunk:
                return
            text += chunk
        head, _, begun = text.partition(b"\r\n\r\n")
        line, *rest = head.decode().split("\r\n")
        self.asked.append(Asked(line, {name.lower(): value for name, value in (one.split(": ", 1) for one in rest)}))
        method, target, _ = line.split(" ")
        place, path = (target, "") if method == "CONNECT" else _taken_apart(target)
        if place not in self.leads:
            connection.sendall(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            return
        with socket.create_connection(("127.0.0.1", self.leads[place])) as there:
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                kept = [one for one in rest if not one.lower().startswith(("proxy-", "connection:"))]
                passed = "\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""])
                there.sendall(passed.encode() + begun)
            _join(connection, there)


def _taken_apart(target: str) -> tuple[str, str]:
    place, _, path = target.removeprefix("http://").partition("/")
    return (place if ":" in place else f"{place}:80"), f"/{path}"


AnyWay = TypeVar("AnyWay", Front, ForwardProxy)


@contextmanager
def listening(way: AnyWay) -> Iterator[AnyWay]:
    """The way, open until the block ends: on the port it names, or else on a free one."""
    with port_that(way.serve, way.port) as way.port:
        yield way
