"""Login: by the one-time link that `inboxd serve` prints, or by a token. And signing out.

The link is opened by GET, and whatever prefetches links does that too: so opening it only shows a button, and the button uses the
code up. An agent's token opens no dashboard; every other role gets one that may do what the role may.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inboxd.edges.dashboard.rendering import HEADERS, answer, theme_of
from inboxd.edges.dashboard.routing import OwnForm, form_of, own_path, pages
from inboxd.edges.origin import check_same_origin
from inboxd.edges.sessions import broker_of, drop, keep, names_of, session_of
from inboxd.errors import Forbidden, InboxdError, TokenInvalid
from inboxd.model import TokenMade


@pages.get("/login")
async def login(
    request: Request,
    code: Annotated[str, Query(max_length=200)] = "",
    next: Annotated[str, Query(max_length=2_000)] = "",  # noqa: A002
) -> Response:
    names_of(request).check(request)
    onward = own_path(next)
    ended = False
    if not code:
        try:
            await session_of(request)
            return RedirectResponse(onward, 303, headers=HEADERS)
        except TokenInvalid:
            ended = True
        except InboxdError:
            pass  # not signed in, which is why one comes here
    return _page(request, code, onward, ended=ended)


@pages.post("/login")
async def log_in(request: Request) -> Response:
    names_of(request).check(request)
    check_same_origin(request)
    fields = await form_of(request)
    code, token, onward = (fields.get(name, [""])[-1].strip() for name in ("code", "token", "next"))
    try:
        made = await _session(request, code, token)
    except (TokenInvalid, Forbidden) as problem:
        said = f"{problem.message} {problem.hint or ''}".strip()
        return _page(request, "", own_path(onward), problem=said, status=problem.status)
    response = RedirectResponse(own_path(onward), 303, headers=HEADERS)
    keep(request, response, made)
    return response


async def _session(request: Request, code: str, token: str) -> TokenMade:
    broker = broker_of(request)
    if code:
        return await broker.open_session_by_code(code)
    return await broker.open_session(await broker.identify(token))


@pages.post("/logout")
async def log_out(request: Request, form: OwnForm) -> Response:
    broker = broker_of(request)
    if form.one("everywhere"):
        await broker.close_sessions(form.session.who)
    else:
        await broker.close_session(form.session.who)
    response = RedirectResponse("/login", 303, headers={**HEADERS, "clear-site-data": '"storage"'})
    drop(request, response)
    return response


def _page(
    request: Request, code: str, onward: str, *, problem: str = "", ended: bool = False, status: int = 200
) -> Response:
    return answer(
        request,
        "login.html",
        status=status,
        code=code,
        onward=onward,
        problem=problem,
        ended=ended,
        theme=theme_of(request),
    )
