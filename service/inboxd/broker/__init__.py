"""The broker: decides. Its methods are the list of operations; every edge calls these and nothing else.

    Hooking     hook, probe
    Tokens      identify, log_in, offer_login, create_token, list_tokens, revoke_token
    History     timeline, show, requeue
    Tasks       declare, change, link, remove, show_task, list_tasks, presence, attention
    Delivery    pull, ack, release, seen, unseen, pending
    Sending     send, broadcast, send_to_peers

The rooms stand on one another in this order. The first argument of every operation is the caller, and every operation checks
what that caller may do: an edge cannot forget it.
"""

from __future__ import annotations

import asyncio

from inboxd.broker.hooking import Hooking
from inboxd.broker.room import Clock, WallClock
from inboxd.broker.sweeping import Sweeping
from inboxd.broker.waiting import Waiting
from inboxd.model import Identity
from inboxd.settings import Settings
from inboxd.store.store import Store

__all__ = ["Broker", "WallClock"]


class Broker(Hooking, Sweeping):
    def __init__(self, store: Store, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(store, settings, clock or WallClock())
        self.waiting = Waiting(store)
        self.remembered: dict[str, Identity] = {}
        self._hearing: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        """Let every waiting caller go."""
        self.waiting.close()


def owner(namespace: str) -> Identity:
    """Whoever starts the broker, on its own machine: may do everything in a namespace."""
    return Identity(namespace, "admin", None, "owner", None)
