"""A broker that does what a test tells it, down to the bytes: it can hang, lie, drip, or hang up."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NOTHING = b"HTTP/1.1 204 No Content\r\n\r\n"
FINE = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}'


@dataclass
class Request:
    """One request as it came over the wire."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    at: float = field(default_factory=time.monotonic)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script = Callable[[socket.socket, Request], None]


def says(answer: bytes) -> Script:
    """Answers with these bytes and keeps the connection."""
    return lambda connection, request: connection.sendall(answer)


def mail(
    text: bytes, *, receipt: str = "r-1", task: str = "backend", messages: str = "m-1", more: bytes = b""
) -> bytes:
    """The answer that hands over a batch."""
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        b"Inbox-Receipt: %b\r\nInbox-Task: %b\r\nInbox-Messages: %b\r\n%b\r\n%b"
        % (len(text), receipt.encode(), task.encode(), messages.encode(), more, text)
    )


class ScriptedBroker:
    def __init__(self) -> None:
        self.hook: Script = says(NOTHING)
        self.settle: Script = says(FINE)
        self.requests: list[Request] = []
        self.faults: list[BaseException] = []
        self.stopping = threading.Event()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> ScriptedBroker:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        for one in [self._listener, *self._connections]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)
        assert self.faults == []

    def hang(self, connection: socket.socket, request: Request) -> None:
        """Says nothing for as long as the test runs."""
        self.stopping.wait()

    def drip(self, connection: socket.socket, request: Request) -> None:
        """A good answer, one byte every now and then."""
        for byte in mail(b"{}" * 200):
            connection.sendall(bytes([byte]))
            if self.stopping.wait(0.05):
                return

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            self._start(self._serve, connection, len(self._connections))

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError), connection.makefile("rb") as stream:
            while line := stream.readline():
                method, path, _ = line.decode().split(" ")
                headers = {}
                while (header := stream.readline().decode().rstrip("\r\n")) != "":
                    name, _, value = header.partition(":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", "0")))
                request = Request(method, path, headers, body, number)
                self.requests.append(request)
                try:
                    (self.hook if path.startswith("/v1/hooks/") else self.settle)(connection, request)
                except AssertionError as fault:
                    self.faults.append(fault)
        connection.close()
