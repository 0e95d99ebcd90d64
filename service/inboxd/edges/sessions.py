"""Sessions: who sits at the dashboard. A cookie that no script can read holds a token made for this browser alone, with an end.

The person's own token is never kept: it is looked at once, at the login. Only the dashboard's routes know this cookie; /v1 does not.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from inboxd.broker import Broker
from inboxd.edges.origin import Names, check_same_origin, port_of
from inboxd.errors import CrossSite, TokenMissing
from inboxd.model import Identity, TokenMade

FORM_FIELD = "form_token"
FORM_HEADER = "x-form-token"


class Session(NamedTuple):
    """One browser that is logged in."""

    who: Identity
    form_token: str
    """Proof that a form or script is of our own page: another site can make the browser send the cookie, but not know this."""

    @property
    def speaks(self) -> bool:
        """Whether it may say anything, or only looks on."""
        return self.who.role != "observer"

    @property
    def is_person(self) -> bool:
        """Whether the inbox `user` is its own to read."""
        return self.who.role in ("user", "admin")


def broker_of(request: Request) -> Broker:
    broker: Broker = request.app.state.broker
    return broker


def names_of(request: Request) -> Names:
    names: Names = request.app.state.names
    return names


async def session_of(request: Request) -> Session:
    """Who sends this request; refuses a foreign name, a foreign site, and whoever is not logged in."""
    names_of(request).check(request)
    check_same_origin(request)
    token = request.cookies.get(_cookie_name(request), "")
    if not token:
        raise TokenMissing("You are not signed in.", hint="Open /login.")
    return Session(await broker_of(request).identify(token), _form_token(token))


def check_form(session: Session, given: str | None) -> None:
    """Refuse what was not sent by a page we made for this session."""
    if not hmac.compare_digest((given or "").encode(), session.form_token.encode()):
        raise CrossSite("This form is not of your session any more.", hint="Load the page again.")


def keep(request: Request, response: Response, made: TokenMade) -> None:
    """Give the browser its session."""
    response.set_cookie(
        _cookie_name(request),
        made.token,
        max_age=broker_of(request).settings.session_ms // 1000,
        path="/",
        secure=names_of(request).secure(request),
        httponly=True,
        samesite="strict",
    )


def drop(request: Request, response: Response) -> None:
    response.delete_cookie(
        _cookie_name(request), path="/", secure=names_of(request).secure(request), httponly=True, samesite="strict"
    )


def _cookie_name(request: Request) -> str:
    # `__Host-` makes a browser refuse the cookie from anybody but this very host, over TLS. Without TLS it may not be used.
    return "__Host-inboxd" if names_of(request).secure(request) else f"inboxd_{port_of(request)}"


def _form_token(token: str) -> str:
    return hashlib.sha256(b"form " + token.encode()).hexdigest()[:40]
