"""Routing: who gets in. A page sends whoever is not signed in to the login; a part of a page says so with a 401; both check where they are asked from.

Errors of a page are pages; errors of a part or an action are what every other route answers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, quote

from fastapi import APIRouter, Depends, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from inboxd import model
from inboxd.edges import problems
from inboxd.edges.dashboard.rendering import HEADERS, answer, theme_of
from inboxd.edges.origin import SAFE
from inboxd.edges.problems import of
from inboxd.edges.sessions import FORM_FIELD, Session, check_form, names_of, session_of
from inboxd.errors import InboxdError, InvalidRequest, TokenInvalid, TokenMissing

FORM_BYTES_MAX: Final = 1_048_576


class PageRoute(APIRoute):
    """A route that a person opens: what goes wrong is told as a page."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.methods == {"GET"}:
            self.methods.add("HEAD")  # for whoever looks at a page's headers only; Starlette's own routes do the same

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                return refusal(request, error)

        return page


def refusal(request: Request, error: Exception) -> Response:
    """What went wrong, as a page."""
    if isinstance(error, (TokenMissing, TokenInvalid)):
        return to_login(request)
    problem = of(error)
    if problem is None:
        raise error
    return page_of(request, problem)


def page_of(request: Request, problem: InboxdError) -> Response:
    return answer(request, "problem.html", status=problem.status, problem=problem, theme=theme_of(request))


class PartRoute(APIRoute):
    """A route that a page asks: the same headers, errors in the one shape. A form that no script sent was opened by a person, who gets a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def part(request: Request) -> Response:
            try:
                response = await handle(request)
            except Exception as error:
                if of(error) is None:
                    raise
                by_person = request.method not in SAFE and "text/html" in request.headers.get("accept", "")
                response = refusal(request, error) if by_person else await problems.answer(request, error)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
            return response

        return part


pages = APIRouter(route_class=PageRoute, include_in_schema=False)
parts = APIRouter(prefix="/ui", route_class=PartRoute, include_in_schema=False)

Visitor = Annotated[Session, Depends(session_of)]
Cursor = Annotated[str | None, Query(max_length=500)]


def to_login(request: Request) -> Response:
    """To the login, and back afterwards.

    A link on another site opens our page without the cookie, for that is what SameSite=Strict means. The login is then opened by
    ourselves, with the cookie, and a person who was signed in all the time is sent on.
    """
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method not in SAFE:
        wanted = "/"  # a form's address is no page to come back to
    target = "/login" if wanted == "/" else f"/login?next={quote(wanted, safe='')}"
    names_of(request).check(request)
    if request.headers.get("sec-fetch-site") == "cross-site":
        return answer(request, "hop.html", target=target)
    return RedirectResponse(target, 303, headers=HEADERS)


def own_path(given: str | None) -> str:
    """A path of ours to go on to, whatever was given."""
    if (
        given
        and given.startswith("/")
        and not given.startswith(("//", "/\\"))
        and given.isprintable()
        and "\\" not in given
    ):
        return given
    return "/"


async def form_of(request: Request) -> dict[str, list[str]]:
    """The fields of a posted form."""
    body = await request.body()
    if len(body) > FORM_BYTES_MAX:
        raise InvalidRequest("The form is too large.")
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=2_000, encoding="utf-8", errors="strict"
        )
    except ValueError:
        raise InvalidRequest("The form is not well written.") from None
    fields: dict[str, list[str]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return fields


class Form:
    """A form of a page of ours, sent by the session it was made for."""

    def __init__(self, session: Session, fields: dict[str, list[str]]) -> None:
        self.session = session
        self._fields = fields

    def one(self, name: str) -> str:
        """Line ends as people mean them: browsers post CR LF."""
        return self._fields.get(name, [""])[-1].replace("\r\n", "\n")

    def all(self, name: str) -> list[str]:
        return self._fields.get(name, [])


async def _own_form(request: Request, session: Visitor) -> Form:
    fields = await form_of(request)
    check_form(session, fields.get(FORM_FIELD, [""])[-1])
    return Form(session, fields)


OwnForm = Annotated[Form, Depends(_own_form)]


def names_in(given: str, *, most: int = 200) -> list[str]:
    """Task names in a list with commas."""
    return [name for name in given.split(",")[:most] if model.is_task_id(name)]
