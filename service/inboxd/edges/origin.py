"""Origin: does a browser's request come from our own page, at a name that is ours? Cookies travel by themselves, so this must be asked.

Names: a page of another name that resolves to us (DNS rebinding) has an origin of its own, and the name it uses is in `Host`. An
address instead of a name cannot be rebound, so any address does; of names only loopback's, the one we listen on and those allowed.
"""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from inboxd.errors import CrossSite, HostUnknown
from inboxd.settings import Settings

SAFE: Final = frozenset({"GET", "HEAD"})


class Names:
    """The names this broker answers browsers at."""

    def __init__(self, settings: Settings) -> None:
        given = [entry.strip().lower() for entry in settings.allowed_hosts.split(",") if entry.strip()]
        self._behind_tls = {_name(entry) for entry in given if entry.startswith("https://")}
        self._known = {"localhost", settings.host.lower(), *(_name(entry) for entry in given)}

    def check(self, request: Request) -> None:
        """Refuse a name that is not ours."""
        name = _name(request.headers.get("host", ""))
        if name in self._known or name.endswith(".localhost") or _is_address(name):
            return
        raise HostUnknown(
            f"This dashboard is not known as {name[:100]!r}.",
            hint="If it should be, start inboxd with --allowed-hosts and that name.",
        )

    def secure(self, request: Request) -> bool:
        """Whether the browser came over TLS: ours, or a proxy's that the settings name. No header is believed."""
        return request.url.scheme == "https" or _name(request.headers.get("host", "")) in self._behind_tls


def check_same_origin(request: Request) -> None:
    """Refuse what another site made the browser send.

    `Sec-Fetch-Site` is the browser's own word and cannot be forged by a page; `Origin` goes with every request that changes
    something. A request that has neither did not come from a browser of these years, and has no business with a cookie.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if request.method in SAFE:
        # A link may lead here from anywhere: opening a page changes nothing, and the cookie stays behind by itself.
        if site in (None, "same-origin", "none") or request.headers.get("sec-fetch-mode") == "navigate":
            return
    elif site in (None, "same-origin") and (site or origin):
        host = request.headers.get("host", "")
        if origin is None or urlsplit(origin).netloc.lower() == host.lower():
            return
    raise CrossSite()


def port_of(request: Request) -> str:
    """The port in the address bar: cookies do not tell ports apart, so their names do."""
    _, _, port = request.headers.get("host", "").rpartition(":")
    return port if port.isascii() and port.isdigit() else "80"


def _name(host: str) -> str:
    """A host without scheme, port and the last dot."""
    try:
        found = urlsplit(host if "//" in host else f"//{host}").hostname
    except ValueError:
        return ""
    return (found or "").rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
