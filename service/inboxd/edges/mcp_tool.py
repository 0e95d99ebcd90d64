"""What a tool is: what it takes, what a model is told of it, and the call that it answers. No MCP in here, and no tool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from inboxd.broker import Broker
from inboxd.broker.asking import message_id_of
from inboxd.edges import mcp_words as words
from inboxd.edges.mcp_words import Said
from inboxd.errors import InvalidRequest
from inboxd.model import USER, Identity, StoredMessage

WAIT_S: Final = 50
"""Hosts give a call a minute, most of them."""
PROGRESS_S: Final = 10
"""How often a client that wants to know is told that a call still waits."""

Result = TypeVar("Result")
Taken = TypeVar("Taken", bound="Args")

WaitS = Annotated[int, Field(ge=0, le=WAIT_S, description="seconds")]
Limit = Annotated[int, Field(ge=1, le=100)]


class Args(BaseModel):
    # Not strict: models write numbers as text now and then. Unknown names are refused, so that a mistyped one is noticed.
    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(slots=True)
class ToolCall:
    """One call of a tool."""

    broker: Broker
    who: Identity
    task: str | None
    """For whom: the token's own task, or one it may act for."""
    session: str
    call_id: str | None
    """What the caller calls this call, if it does: the same again is the same call."""
    call_hash: str | None = None
    """The name under which it may be called off."""
    request_id: str = ""
    progress: Callable[[float, float, str], Awaitable[None]] | None = None

    @property
    def own(self) -> str:
        if self.task is None:
            raise InvalidRequest(
                "This token stands for no task.",
                hint="Connect with an agent's token, or add ?task=TASK to the address.",
            )
        return self.task

    @property
    def sender(self) -> str | None:
        """In whose name to speak, where that is not the token's own."""
        if self.task is None or self.who.role not in ("operator", "admin"):
            return None
        return USER if self.task == USER else f"task:{self.task}"

    @property
    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    async def hand_on(self, message: StoredMessage, receipt: str | None) -> None:
        """What was waited for counts as delivered from here on."""
        message_id = message_id_of(message)
        if not await self.broker.hand_on(self.who, self.own, self.session, message_id, receipt, self.call_hash):
            raise InvalidRequest("This call was called off.")

    async def waited(self, waiting: Awaitable[Result], what: str, most_s: int) -> Result:
        """Wait, and tell a client that wants to know that it still does. Cancelled with the call."""
        if self.progress is None:
            return await waiting
        task = asyncio.ensure_future(waiting)
        try:
            waited_s = 0
            while not (await asyncio.wait({task}, timeout=PROGRESS_S))[0]:
                waited_s += PROGRESS_S
                await self.progress(min(waited_s, most_s), most_s, f"still waiting for {what}")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


class Tool(NamedTuple):
    name: str
    description: str
    takes: type[Args]
    run: Callable[[ToolCall, Any], Awaitable[Said]]
    reads: bool
    """Whether it changes nothing."""


def tool(
    takes: type[Taken], description: str, *, reads: bool = False
) -> Callable[[Callable[[ToolCall, Taken], Awaitable[Said]]], Tool]:
    """Make a tool of the function that answers its calls; it has the function's name."""

    def made(run: Callable[[ToolCall, Taken], Awaitable[Said]]) -> Tool:
        return Tool(run.__name__.rstrip("_"), description, takes, run, reads)

    return made


def one_message(call: ToolCall, name: str, stored: StoredMessage) -> Said:
    shown = words.message(stored, call.now_ms)
    return Said({name: shown}, words.quoted(shown))
