"""Auth: the token of a request, and the caller it stands for. Nothing but health answers without one."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends, Request

from inboxd.broker import Broker
from inboxd.edges.sessions import session_of
from inboxd.errors import InboxdError, TokenInvalid, TokenMissing
from inboxd.model import Identity


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The token of `Authorization: Bearer TOKEN`."""
    for name, value in headers:
        if name == b"authorization":
            if value[:7].lower() == b"bearer ":
                return value[7:].strip().decode("latin-1")
            break
    raise TokenMissing()


async def caller(request: Request) -> Identity:
    broker: Broker = request.app.state.broker
    return await broker.identify(bearer(request.scope["headers"]))


Caller = Annotated[Identity, Depends(caller)]


class AskForToken(TokenMissing):
    """A token is needed: give it as the password, with any user name."""

    # Only for pages a browser opens to read; a browser sends Basic credentials by itself, so nothing that changes
    # anything may ever take them.
    scheme = "Basic"


class AskAgain(TokenInvalid):
    """This token is unknown, expired or revoked."""

    scheme = "Basic"


async def reader(request: Request) -> Identity:
    """A caller of a page that only shows something: the dashboard's session will do, or the token as a Basic password, which a browser can ask for."""
    broker: Broker = request.app.state.broker
    given = request.headers.get("authorization", "")
    if not given:
        try:
            return (await session_of(request)).who
        except InboxdError:
            raise AskForToken() from None
    if given[:6].lower() == "basic ":
        try:
            _, _, token = base64.b64decode(given[6:], validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise AskForToken() from None
        try:
            return await broker.identify(token)
        except TokenInvalid as refusal:
            raise AskAgain(refusal.message, hint=refusal.hint) from None
    return await broker.identify(bearer(request.scope["headers"]))


Reader = Annotated[Identity, Depends(reader)]
