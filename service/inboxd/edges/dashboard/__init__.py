"""The dashboard: everything a browser opens. Rendered here, kept live by a stream of events, without a build step and with nothing from outside.

pages      whole pages, one for each view          parts      rows, for a page that is open
actions    what a person does on them              login      how a person comes in
reading, attending, searching                      what the templates are given
telling, charts, rendering, routing                how it is said, drawn, rendered and guarded
"""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from inboxd.edges import assets, problems
from inboxd.edges.dashboard import actions, login, pages, parts, routing
from inboxd.edges.origin import SAFE, Names
from inboxd.errors import RouteUnknown
from inboxd.settings import Settings

__all__ = ["actions", "install", "login", "pages", "parts"]


def install(app: FastAPI, settings: Settings) -> None:
    """Add the dashboard to the application."""
    app.state.names = Names(settings)
    app.router.routes.extend([*routing.pages.routes, *routing.parts.routes])

    @app.exception_handler(HTTPException)
    async def nowhere(request: Request, error: HTTPException) -> Response:
        """An address that is no route of ours: a page for whoever opened it in a browser."""
        opened = request.method in SAFE and "text/html" in request.headers.get("accept", "")
        if error.status_code == 404 and opened:
            return routing.page_of(
                request, RouteUnknown("There is no page at this address.", hint="It may have been mistyped.")
            )
        return await problems.answer(request, error)

    @app.get("/static/{version}/{name}", include_in_schema=False)
    async def static(request: Request, version: str, name: str) -> Response:
        found = assets.serve(request, version, name)
        if found is None:
            raise RouteUnknown()
        return found

    @app.get("/favicon.ico", include_in_schema=False)
    async def favicon(request: Request) -> Response:
        found = assets.serve(request, "", "icon.svg")
        assert found is not None
        return found
