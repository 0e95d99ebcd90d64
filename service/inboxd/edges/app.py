"""The application: FastAPI's routes, health, metrics and docs, behind the front door."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Response
from pydantic_core import to_json
from starlette.types import ASGIApp

from inboxd import __version__
from inboxd.broker import Broker
from inboxd.edges import attaching, dashboard, describe, problems
from inboxd.edges.auth import Reader
from inboxd.edges.front import Front
from inboxd.edges.http_threads import threads
from inboxd.edges.http_views import api, json_answer, open_api
from inboxd.edges.live import live
from inboxd.edges.mcp_door import McpDoor
from inboxd.edges.observe import RequestLog, Requests
from inboxd.errors import StoreUnavailable

READY_WITHIN_MS = 1_000
PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def build(broker: Broker, request_log: RequestLog) -> ASGIApp:
    app = FastAPI(
        title="inboxd",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # a name with a slash too many is another name, and no answer of ours names a host
    )
    app.state.broker = broker
    problems.install(app)
    # Their routes as they are: include_router would make each a second time, when it is first asked for.
    for router in (
        # The front door serves these three itself; here they are described, and their other methods refused.
        describe.hot, describe.hot_threads, describe.hooks,
        api, threads, attaching.routes, open_api, live,
    ):  # fmt: skip
        app.router.routes.extend(router.routes)
    dashboard.install(app, broker.settings)
    requests = Requests()
    requests.waiters = broker.waiting.count
    requests.streams = lambda: (broker.following(), broker.cut_off)
    cache: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        # Made when first asked for: a broker that nobody asks need not carry it.
        if not cache:
            cache.update(describe.description_of(app))
        return cache

    @app.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, bool]:
        """The process lives."""
        return {"ok": True}

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> dict[str, bool]:
        """It can do its work; if not, what is wrong."""
        if broker.waiting.closing:
            raise StoreUnavailable("inboxd is shutting down.")
        try:
            async with asyncio.timeout(READY_WITHIN_MS / 1000):
                await broker.store.check()
        except TimeoutError:
            raise StoreUnavailable(f"The store did not answer within {READY_WITHIN_MS} ms.") from None
        return {"ok": True}

    @app.get("/metrics", include_in_schema=False)
    async def metrics(_who: Reader) -> Response:
        from inboxd.edges.metrics import metrics_text

        return Response(metrics_text(requests), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(_who: Reader) -> Response:
        return json_answer(to_json(document()))

    @app.get("/docs", include_in_schema=False)
    async def docs(_who: Reader) -> Response:
        return Response(
            describe.docs_page(document()),
            media_type="text/html",
            headers={"content-security-policy": PAGE_POLICY},
        )

    return Front(app, broker, requests, request_log, McpDoor(broker))
