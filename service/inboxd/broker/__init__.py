"""The broker: decides. Its methods are the list of operations; every edge calls these and nothing else.

    Asking      check, check_again, say, answer, wait_for_reply, hand_on, call_off
    Hooking     hook, probe
    Attaching   attach
    Desk        overview, last_event, log, take_back, accept, search, open_session, open_session_by_code, close_session, close_sessions
    Following   follow
    Tokens      identify, log_in, offer_login, create_token, list_tokens, revoke_token
    Threads     open_thread, claim, renew, update, done, fail, reply, cancel, fetch, list_threads, show_thread, mark_read, wait_reply, watch
    History     timeline, show, requeue, stats
    Tasks       declare, change, link, remove, show_task, list_tasks, presence, attention
    Delivery    pull, ack, release, seen, unseen, pending
    Sending     send, broadcast, send_to_peers

The rooms stand on one another in this order. The first argument of every operation is the caller, and every operation checks
what that caller may do: an edge cannot forget it.
"""

from __future__ import annotations

import asyncio

from inboxd.broker.asking import Asking
from inboxd.broker.attaching import Attaching
from inboxd.broker.desk import Desk
from inboxd.broker.following import Following
from inboxd.broker.room import Clock, WallClock
from inboxd.broker.sweeping import Sweeping
from inboxd.broker.waiting import Waiting
from inboxd.model import Identity
from inboxd.settings import Settings
from inboxd.store.store import Store

__all__ = ["Broker", "WallClock"]


class Broker(Asking, Attaching, Desk, Following, Sweeping):
    def __init__(self, store: Store, settings: Settings, clock: Clock | None = None) -> None:
        super().__init__(store, settings, clock or WallClock())
        self.waiting = Waiting(store)
        self.remembered: dict[str, Identity] = {}
        self._hearing: dict[str, asyncio.Task[None]] = {}
        self._sampled: dict[str, int] = {}

    def close(self) -> None:
        """Let every waiting caller go."""
        self.waiting.close()


def owner(namespace: str) -> Identity:
    """Whoever starts the broker, on its own machine: may do everything in a namespace."""
    return Identity(namespace, "admin", None, "owner", None)
