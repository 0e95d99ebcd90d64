"""Connection: what the rest of the store may ask of Redis, whatever Redis is (one server, Sentinel, Cluster).

Only this interface leaves the wire modules; who stands behind it is decided once, by `connection.connect`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeAlias

# Bytes, int, None or a list of these: replies are not decoded here.
Reply: TypeAlias = Any


class Connection(ABC):
    @abstractmethod
    def call(self, key: str, *command: str | bytes | int) -> asyncio.Future[Reply]:
        """Queue a command and return its reply's future. `key` only routes; it is not sent.

        Commands issued in one tick of the event loop travel in one write. An unanswered command is sent again
        after a lost connection, so it must be idempotent. Raises through the future: ResponseError with the
        server's whole text, or StoreUnavailable once it has waited too long.
        """

    @abstractmethod
    async def subscribe(self, channel: str, on_message: Callable[[bytes], None], on_gap: Callable[[], None]) -> None:
        """Listen on a sharded channel; returns once it is live. One listener per channel.

        `on_gap` is called when the channel goes quiet for a lost connection and again when it is live anew:
        messages in between are lost.
        """

    @abstractmethod
    async def unsubscribe(self, channel: str) -> None:
        """Stop listening. Nothing is called after this returns; an unknown channel is fine."""

    @abstractmethod
    def subscribed(self, channel: str) -> bool:
        """True only while the channel is live."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of every socket. What is still waiting fails with StoreUnavailable."""
