"""The application in-process: httpx on the ASGI app, a real store behind it, and one client for each role."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import httpx2
import pytest
from starlette.types import ASGIApp

from inboxd.broker import Broker, WallClock, owner
from inboxd.edges.app import build
from inboxd.edges.observe import RequestLog
from inboxd.model import Identity, NewTask, NewToken, TokenMade
from inboxd.settings import Settings
from inboxd.store import keys
from inboxd.store.store import Store

ROLES = ("admin", "user", "operator", "agent", "observer")


@dataclass
class Api:
    """The whole HTTP edge. `backend` and `frontend` are declared; the agent's token is that of `backend`."""

    app: ASGIApp
    broker: Broker
    owner: Identity
    tokens: dict[str, TokenMade]
    clients: dict[str, httpx2.AsyncClient] = field(default_factory=dict)

    def with_token(self, token: str | None) -> httpx2.AsyncClient:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        # A bug must be answered like any other problem, so nothing is raised through the transport.
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)  # type: ignore[arg-type]
        return httpx2.AsyncClient(transport=transport, base_url="http://inboxd.test", headers=headers)

    def as_role(self, role: str) -> httpx2.AsyncClient:
        return self.clients[role]

    @property
    def admin(self) -> httpx2.AsyncClient:
        return self.clients["admin"]

    @property
    def agent(self) -> httpx2.AsyncClient:
        return self.clients["agent"]

    @property
    def nobody(self) -> httpx2.AsyncClient:
        """A client without a token."""
        return self.clients["nobody"]

    async def pending(self, task: str = "backend") -> int:
        """How much mail waits, asked of the broker itself and not of the edge."""
        return (await self.broker.pending(self.owner, task)).pending


@pytest.fixture
async def broker(store: Store, settings: Settings) -> AsyncIterator[Broker]:
    """On the real clock: an edge has no other."""
    made = Broker(store, settings, WallClock())
    yield made
    made.close()


@pytest.fixture
async def api(broker: Broker, namespace: str) -> AsyncIterator[Api]:
    who = owner(namespace)
    tokens = {
        role: await broker.create_token(who, NewToken(role=role, task="backend" if role == "agent" else None))
        for role in ROLES
    }
    for task in ("backend", "frontend"):
        await broker.declare(who, NewTask(task=task))
    made = Api(build(broker, RequestLog(True, "error")), broker, who, tokens)
    async with contextlib.AsyncExitStack() as clients:
        for role in ROLES:
            made.clients[role] = await clients.enter_async_context(made.with_token(tokens[role].token))
        made.clients["nobody"] = await clients.enter_async_context(made.with_token(None))
        yield made
    await broker.store.connection.call(keys.NAMESPACES, "SREM", keys.NAMESPACES, namespace)
