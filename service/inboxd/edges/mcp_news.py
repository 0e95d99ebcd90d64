"""That mail came into the caller's own inbox, told as long as somebody listens: one line per burst, whichever replica it came through.

A stream ends when the broker closes, and soon after its token is revoked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Final

from inboxd.broker.waiting import MAIL
from inboxd.edges.mcp_caller import McpCaller
from inboxd.errors import InboxdError, StoreUnavailable, TokenInvalid

LOOK_EVERY_S: Final = 15
"""How often a quiet stream is looked after: is its token still good, and, for whoever writes it, is anybody still there."""


class News:
    """An async context and iterator: True, there is mail; False, all is quiet."""

    def __init__(self, caller: McpCaller, *, wanted: bool = True) -> None:
        self._caller = caller
        self._wanted = wanted and caller.task is not None
        self._waiting = caller.broker.waiting
        self._stirred = asyncio.Event()
        self._over = False

    async def __aenter__(self) -> News:
        await self._waiting.add_listener(self._caller.who.namespace, self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._waiting.remove_listener(self._caller.who.namespace, self)

    async def __aiter__(self) -> AsyncIterator[bool]:
        # Mail that came before anybody listened is news to whoever begins to.
        if await self._mail_waits():
            self._stirred.set()
        while not (self._over or self._waiting.closing):
            try:
                async with asyncio.timeout(LOOK_EVERY_S):
                    await self._stirred.wait()
            except TimeoutError:
                pass
            if self._over or self._waiting.closing or not await self._may_listen():
                return
            stirred = self._stirred.is_set()
            self._stirred.clear()
            yield stirred

    def heard(self, events: list[tuple[dict[str, Any], bytes]]) -> None:
        if self._wanted and any(event["type"] in MAIL and event["task"] == self._caller.task for event, _ in events):
            self._stirred.set()

    def missed(self) -> None:
        # Whether mail came meanwhile is not known: looking will tell.
        if self._wanted:
            self._stirred.set()

    def closed(self) -> None:
        self._over = True
        self._stirred.set()

    async def _mail_waits(self) -> bool:
        if not self._wanted or self._caller.task is None:
            return False
        try:
            return bool((await self._caller.broker.pending(self._caller.who, self._caller.task)).pending)
        except InboxdError:
            return False

    async def _may_listen(self) -> bool:
        try:
            await self._caller.broker.identify(self._caller.token)
        except TokenInvalid:
            return False
        except StoreUnavailable:
            return True
        return True
