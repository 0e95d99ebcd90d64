"""Rendering: templates in, pages out, with the headers that every page of the dashboard has.

Whatever a template shows passes `_shown`: text of anybody's is escaped and its reordering characters are made visible.
"""

from __future__ import annotations

import json
import re
import zlib
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from inboxd import __version__
from inboxd.edges import assets
from inboxd.edges.markdown import plain, render_line
from inboxd.edges.sessions import Session, broker_of
from inboxd.model import USER, Task

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY: Final = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: with that, browsers send `Origin: null` even to ourselves.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    # Mail must not be found in a browser's cache after signing out.
    "cache-control": "no-store",
    "vary": "cookie",
}
HUES: Final = 8
THEME_COOKIE: Final = "inboxd_theme"
SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS = 1_000, 60_000, 3_600_000, 86_400_000


def _shown(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def ago(at_ms: int, now_ms: int) -> str:
    """How long ago, in few letters. web/static/clock.js says the same; a test holds the two together."""
    passed = max(0, now_ms - at_ms)
    if passed < 5 * SECOND_MS:
        return "now"
    if passed < MINUTE_MS:
        return f"{passed // SECOND_MS}s ago"
    if passed < HOUR_MS:
        return f"{passed // MINUTE_MS}m ago"
    if passed < DAY_MS:
        return f"{passed // HOUR_MS}h ago"
    return f"{passed // DAY_MS}d ago"


def took(passed_ms: int) -> str:
    """How long something took."""
    passed_ms = max(0, passed_ms)
    if passed_ms < SECOND_MS:
        return f"{passed_ms} ms"
    if passed_ms < 10 * SECOND_MS:
        return f"{passed_ms / SECOND_MS:.1f} s"
    if passed_ms < MINUTE_MS:
        return f"{passed_ms // SECOND_MS} s"
    if passed_ms < HOUR_MS:
        return f"{passed_ms // MINUTE_MS} min"
    if passed_ms < 2 * DAY_MS:
        return f"{passed_ms // HOUR_MS} h"
    return f"{passed_ms // DAY_MS} days"


def iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def exact(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


class _Moment(NamedTuple):
    """When a page is rendered. A variable and not a template's: pieces that are shared do not know their page's."""

    now_ms: int
    idle_after_ms: int
    person: bool
    """Whether whoever looks is the person."""


_moment: ContextVar[_Moment] = ContextVar("moment")


def _ago(at_ms: int) -> str:
    return ago(at_ms, _moment.get().now_ms)


def _sender(sender: str) -> str:
    """A sender as a person says it."""
    return sender.removeprefix("task:")


def _you(name: str) -> str:
    """A name as it is said to whoever looks: the person is `you` to the person alone."""
    return "you" if name == USER and _moment.get().person else name


def _initials(name: str) -> str:
    """Two letters to know a name by."""
    parts = [part for part in re.split(r"[._-]+|(?<=[a-z])(?=[A-Z])", name) if part]
    return (parts[0][0] + parts[1][0] if len(parts) > 1 else name[:2]).upper()


def _hue(name: str) -> int:
    """One of a few colours, always the same for a name."""
    return zlib.crc32(name.encode()) % HUES


def _short(name: str) -> str:
    """The start of a long id."""
    return name if len(name) <= 14 else f"{name[:8]}…"


def left(until_ms: int, now_ms: int) -> str:
    """How long until then. web/static/clock.js says the same."""
    rest = until_ms - now_ms
    if rest <= 0:
        return "ran out"
    if rest < MINUTE_MS:
        return f"{rest // SECOND_MS}s left"
    return f"{rest // MINUTE_MS}m left" if rest < HOUR_MS else f"{rest // HOUR_MS}h left"


def _left(until_ms: int) -> str:
    return left(until_ms, _moment.get().now_ms)


def _dot(task: Task) -> str:
    """The state its dot shows. Waiting is a flag beside it, and says nothing of whether the session lives."""
    if task.state != "waiting":
        return task.state
    if task.last_heard_ms is None:
        return "queued"
    moment = _moment.get()
    return "active" if moment.now_ms - task.last_heard_ms < moment.idle_after_ms else "idle"


def _size(characters: int) -> str:
    return f"{characters:,} characters" if characters < 10_000 else f"{characters // 1000:,} k characters"


@cache
def templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=PackageLoader("inboxd", "web/templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=_shown,
        auto_reload=False,
    )
    made.filters.update(
        ago=_ago,
        took=took,
        iso=iso,
        exact=exact,
        sender=_sender,
        you=_you,
        size=_size,
        initials=_initials,
        hue=_hue,
        short=_short,
        left=_left,
        dot=_dot,
        inline=render_line,
        path=lambda text: quote(text, safe=""),
        pretty=lambda value: json.dumps(value, indent=2, ensure_ascii=False),
    )
    made.globals.update(asset=assets.url_of, version=__version__)
    return made


def html(request: Request, template: str, **context: Any) -> str:
    broker = broker_of(request)
    session: Session | None = context.get("session")
    person = session is not None and session.is_person
    _moment.set(_Moment(broker.clock.now_ms(), broker.settings.idle_after_ms, person))
    return templates().get_template(template).render(**context)


def answer(request: Request, template: str, *, status: int = 200, **context: Any) -> HTMLResponse:
    """A page or a part of one."""
    return HTMLResponse(html(request, template, **context), status, headers=HEADERS)


def fragment(request: Request, session: Session, template: str, **context: Any) -> HTMLResponse:
    return answer(request, template, session=session, **context)


def theme_of(request: Request) -> str:
    """Light or dark, if the person chose one. Read here so that the page never flashes in the other."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in ("light", "dark") else "auto"
