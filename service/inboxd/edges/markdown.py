"""Markdown: a message's body as HTML that cannot do anything. What somebody else wrote may be shown, never obeyed.

No HTML of theirs, no image loaded, no link but http, https and mailto, and no control character that reorders text: those are shown
by their number. Headings become bold lines: a message must not rearrange the page's outline.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

MARKDOWN_CHARS_MAX: Final = 10_000
"""Longer texts are shown as they are: nobody reads that much for its formatting, and reading it must not hold anybody up."""
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_allowed_link = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE).match


def plain(text: str) -> str:
    """The text with every character that would reorder its neighbours shown by its number."""
    return _REORDERING.sub(lambda found: f"[U+{ord(found[0]):04X}]", text)


class _Safe(RendererHTML):
    """Renders what markdown-it leaves to be rendered by our rules."""

    def heading_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return f'<p class="heading heading-{tokens[idx].tag[1:]}">'

    def heading_close(self, *_: Any) -> str:
        return "</p>\n"

    def link_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return _link(str(tokens[idx].attrs.get("href", "")))

    def image(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Not loaded: whoever serves it would learn that it was read, and when. It is named instead, with a link to it."""
        address = str(tokens[idx].attrs.get("src", ""))
        shown = html.escape(tokens[idx].content or address)
        # Inside a link there is no second one.
        inside = sum(token.nesting for token in tokens[:idx] if token.type.startswith("link_"))
        return f"image: {shown}" if inside else f"{_link(address)}image: {shown}</a>"

    def fence(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return f"<pre><code>{html.escape(tokens[idx].content)}</code></pre>\n"

    def code_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return self.fence(tokens, idx)

    def _cell(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        """Without the style attribute that markdown-it aligns columns with: the page's policy forbids it."""
        return f"<{tokens[idx].tag}>"

    th_open = td_open = _cell

    def ordered_list_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        start = tokens[idx].attrs.get("start")
        return f'<ol start="{int(start)}">\n' if start is not None else "<ol>\n"


def _link(address: str) -> str:
    return f'<a href="{html.escape(address)}" rel="noopener noreferrer nofollow" target="_blank">'


def _reader() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "breaks": True, "linkify": True}, renderer_cls=_Safe)
    made.enable(["table", "strikethrough"])
    # Whole addresses become links, guesses (`auth.ts` is no country's domain) do not. Only in the last pass: the inline one
    # takes a time that grows with the square of the text.
    made.core.ruler.enable("linkify")
    assert made.linkify is not None
    made.linkify.set({"fuzzy_link": False, "fuzzy_email": False, "fuzzy_ip": False})
    for scheme in ("//", "ftp:", "mailto:"):
        made.linkify.add(scheme, None)
    made.validateLink = lambda url: _allowed_link(url.strip()) is not None  # type: ignore[method-assign]
    return made


_markdown = _reader()


@lru_cache(maxsize=2_000)
def render(text: str) -> Markup:
    """HTML of our making for a text of anybody's."""
    text = plain(text)
    if len(text) > MARKDOWN_CHARS_MAX:
        return Markup(f"<pre>{html.escape(text)}</pre>")  # noqa: S704
    return Markup(_markdown.render(text))  # noqa: S704


@lru_cache(maxsize=2_000)
def render_line(text: str) -> Markup:
    """The same for a line or two: emphasis, code and links, no blocks."""
    text = plain(text)
    if len(text) > MARKDOWN_CHARS_MAX:
        return Markup(html.escape(text))  # noqa: S704
    return Markup(_markdown.renderInline(text))  # noqa: S704
