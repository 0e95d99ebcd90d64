"""Assets: the dashboard's own files, served from memory by name. Their address has a hash of them all in it, so a browser keeps them for ever.

The list is made once, from what was installed: a name that is not in it is not found, whatever dots and slashes it has.
"""

from __future__ import annotations

import hashlib
import mimetypes
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

KINDS: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


class Asset(NamedTuple):
    content: bytes
    media_type: str
    etag: str


@cache
def assets() -> dict[str, Asset]:
    folder = resources.files("inboxd") / "web" / "static"
    found = {}
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        content = entry.read_bytes()
        suffix = entry.name[entry.name.rfind(".") :]
        kind = KINDS.get(suffix) or mimetypes.guess_type(entry.name)[0] or "application/octet-stream"
        found[entry.name] = Asset(content, kind, f'"{hashlib.sha256(content).hexdigest()[:20]}"')
    return found


@cache
def version() -> str:
    """Changes when any of them does. One for all, because modules import one another by relative names."""
    whole = hashlib.sha256()
    for name, asset in assets().items():
        whole.update(name.encode() + b"\0" + asset.content + b"\0")
    return whole.hexdigest()[:12]


def url_of(name: str) -> str:
    assert name in assets(), name
    return f"/static/{version()}/{name}"


def serve(request: Request, asked_version: str, name: str) -> Response | None:
    """The file, or nothing. A page from before an update asks for the old version: it gets the new file, which it must not keep."""
    asset = assets().get(name)
    if asset is None:
        return None
    current = asked_version == version()
    headers = {
        "cache-control": "public, max-age=31536000, immutable" if current else "no-cache",
        "etag": asset.etag,
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
    }
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)
