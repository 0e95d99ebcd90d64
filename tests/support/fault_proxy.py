"""A TCP proxy that cuts a connection where it is told to: before a request, right behind it, before its answer, or in the
middle of its answer. It can also hold a request back until later, behind a cut. What it is to cut is found by a word in the request, so it works for HTTP and for Redis alike.

It runs in a thread of its own, because a broker behind it must be able to start while a test waits for that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

Cut = Literal["before the request", "behind the request", "before the answer", "in the answer", "held back"]
CUTS: Final[tuple[Cut, ...]] = ("before the request", "behind the request", "before the answer", "in the answer")
CHUNK_BYTES = 65_536


class FaultProxy:
    def __init__(self, upstream_port: int, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self._loop = loop
        self._upstream_port = upstream_port
        self._armed: list[tuple[Cut, bytes]] = []
        self._late: list[tuple[asyncio.StreamWriter, bytes]] = []
        self.port = port
        self.cuts = 0

    def arm(self, cut: Cut, word: str, *, times: int) -> None:
        """Cut the next `times` connections on which a request with this word passes."""
        self._armed = [(cut, word.encode())] * times
        self.cuts = 0

    def let_go(self) -> None:
        """Pass on what was held back: the twin of a request that was long since repeated and answered."""
        asyncio.run_coroutine_threadsafe(self._let_go(), self._loop).result()

    async def _let_go(self) -> None:
        for upstream, request in self._late:
            upstream.write(request)
            await upstream.drain()
            upstream.close()
        self._late.clear()

    async def listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, upstream = await asyncio.open_connection("127.0.0.1", self._upstream_port)
        except OSError:
            writer.transport.abort()
            return
        cutting: list[Cut] = []
        try:
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._requests(reader, upstream, cutting))
                pumps.create_task(self._answers(answers, writer, cutting))
        except* (ConnectionError, EOFError):
            pass
        finally:
            # Closed, not aborted: what was passed on before a cut does arrive.
            if cutting != ["held back"]:
                upstream.close()
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter, cutting: list[Cut]) -> None:
        tail = b""
        while chunk := await reader.read(CHUNK_BYTES):
            tail = tail[-256:] + chunk
            if self._armed and self._armed[0][1] in tail:
                cutting.append(self._armed.pop(0)[0])
                self.cuts += 1
                tail = b""
            if cutting == ["held back"]:
                self._late.append((upstream, chunk))
            if cutting in (["before the request"], ["held back"]):
                raise EOFError
            upstream.write(chunk)
            await upstream.drain()
            if cutting == ["behind the request"]:
                raise EOFError
        raise EOFError

    async def _answers(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter, cutting: list[Cut]) -> None:
        while chunk := await answers.read(CHUNK_BYTES):
            if cutting == ["before the answer"]:
                raise EOFError
            writer.write(chunk[: len(chunk) // 2] if cutting else chunk)
            await writer.drain()
            if cutting:
                raise EOFError
        raise EOFError


@contextmanager
def fault_proxy(upstream_port: int, port: int = 0) -> Iterator[FaultProxy]:
    """A proxy on a loopback port (a free one, if none is named) before this one; gone, with all its connections, when the block ends."""
    loop = asyncio.new_event_loop()
    proxy = FaultProxy(upstream_port, loop, port)
    serving = threading.Thread(target=loop.run_forever, name="fault-proxy")
    serving.start()
    server = asyncio.run_coroutine_threadsafe(proxy.listen(), loop).result()

    async def shut() -> None:
        server.close()
        await proxy._let_go()
        running = asyncio.all_tasks() - {asyncio.current_task()}
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(shut(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        serving.join()
        loop.close()
