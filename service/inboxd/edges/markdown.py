"""Markdown: a message's body as HTML that cannot do anything. What somebody else wrote may be shown, never obeyed.

No HTML of theirs, no image loaded, no link but http, https and mailto, and no control character that reorders text: those are shown
by their number. Headings become bold lines: a message must not rearrange the page's outline.
"""

from __future__ import annotations

import html
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MARKDOWN_CHARS_MAX: Final = 10_000
"""Longer texts are shown as they are: nobody reads that much for its formatting, and reading it must not hold anybody up."""
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")


def plain(text: str) -> str:
    """The text with every character that would reorder its neighbours shown by its number."""
    return _REORDERING.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


@cache
def _markdown() -> MarkdownIt:
    from inboxd.edges.markdown_reader import reader

    return reader()


@lru_cache(maxsize=2_000)
def render(text: str) -> Markup:
    """HTML of our making for a text of anybody's."""
    text = plain(text)
    if len(text) > MARKDOWN_CHARS_MAX:
        return Markup(f"<pre>{html.escape(text)}</pre>")  # noqa: S704
    return Markup(_markdown().render(text))  # noqa: S704


@lru_cache(maxsize=2_000)
def render_line(text: str) -> Markup:
    """The same for a line or two: emphasis, code and links, no blocks."""
    text = plain(text)
    if len(text) > MARKDOWN_CHARS_MAX:
        return Markup(html.escape(text))  # noqa: S704
    return Markup(_markdown().renderInline(text))  # noqa: S704
