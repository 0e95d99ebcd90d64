"""One write per answer. ASGI hands over head and body apart, and uvicorn writes them apart: two system calls and two wake-ups of
the client for every small answer. Here what is written in one tick of the loop leaves together.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Corked:
    """A transport that holds writes until the end of the tick."""

    __slots__ = ("_call_soon", "_held", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._call_soon = loop.call_soon
        self._held: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._held:
            self._call_soon(self._flush)
        self._held.append(data)

    def _flush(self) -> None:
        if self._held:
            held = b"".join(self._held)
            self._held.clear()
            self._transport.write(held)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OneWriteProtocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Corked(transport, self.loop))  # type: ignore[arg-type]
        # Each request's `state` is a copy of this: how an endless answer gets rid of a caller that takes nothing.
        self.app_state = {**self.app_state, "abort": transport.abort}
