"""A reader of text/event-stream, by the standard, and one that comes back by itself, as a browser does."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import httpx2

OWN = ("ready", "ping", "reset", "closing")
"""What the stream says of itself."""
PAUSE_MS = 20
"""Before a reader comes back, unless it says otherwise."""
HANGS_UP = 0.05
"""How likely a restless reader hangs up at what it gets."""


class Frame(NamedTuple):
    id: int
    type: str
    data: dict[str, Any]


class Parser:
    """Bytes in, whole frames out; the beginning of one is kept until the rest comes."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, more: bytes) -> Iterator[Frame]:
        *whole, self._rest = (self._rest + more).split(b"\n\n")
        for block in whole:
            fields: dict[str, str] = {}
            for line in block.decode().split("\n"):
                name, _, value = line.partition(":")
                if name:
                    assert name not in fields, block
                    fields[name] = value.removeprefix(" ")
            fields.pop("retry", None)
            assert set(fields) == {"id", "event", "data"}, block
            frame = Frame(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            assert (frame.data["id"], frame.data["type"]) == (frame.id, frame.type)
            yield frame


def numbers(frames: list[Frame]) -> list[int]:
    """Of the log's own events."""
    return [frame.id for frame in frames if frame.type not in OWN]


@dataclass
class Comeback:
    """A reader that notes all it is told, and comes back with the last id whenever its connection ends."""

    url: str
    token: str
    query: str = ""
    chance: random.Random | None = None
    """With it, it hangs up by itself every now and then."""
    pause_ms: int = PAUSE_MS
    frames: list[Frame] = field(default_factory=list)
    opened: int = 0
    last: int | None = None
    served_by: str = ""
    """Which process answered last."""

    @property
    def types(self) -> list[str]:
        return [frame.type for frame in self.frames]

    @property
    def numbers(self) -> list[int]:
        return numbers(self.frames)

    async def run(self) -> None:
        # Loopback only: no certificates to load.
        async with httpx2.AsyncClient(timeout=30, trust_env=False, verify=False) as client:
            while True:
                with suppress(httpx2.TransportError):
                    await self._once(client)
                await asyncio.sleep(self.pause_ms / 1_000)

    async def _once(self, client: httpx2.AsyncClient) -> None:
        headers = {"authorization": f"Bearer {self.token}"}
        if self.last is not None:
            headers["last-event-id"] = str(self.last)
        async with client.stream("GET", f"{self.url}/v1/events{self.query}", headers=headers) as answer:
            if answer.status_code != 200:
                return
            self.served_by = answer.headers["x-request-id"].split("-")[0]
            parser = Parser()
            async for chunk in answer.aiter_raw():
                if self.chance and self.chance.random() < HANGS_UP:
                    # In the middle of what came: half a frame is no frame.
                    chunk = chunk[: self.chance.randrange(len(chunk))]  # noqa: PLW2901
                    self.frames += self._noted(parser.feed(chunk))
                    return
                self.frames += self._noted(parser.feed(chunk))

    def _noted(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        for frame in frames:
            self.opened += frame.type == "ready"
            self.last = frame.id
            yield frame


@asynccontextmanager
async def coming_back(*readers: Comeback) -> AsyncIterator[None]:
    """These readers read while the block runs."""
    running = [asyncio.create_task(reader.run()) for reader in readers]
    try:
        yield
        for task in running:
            if task.done():
                task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
