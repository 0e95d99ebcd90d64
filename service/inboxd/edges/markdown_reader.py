"""The reader behind markdown.py: markdown-it with rules of ours. Loaded with the first text that is shown."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

_allowed_link = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE).match


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


def reader() -> MarkdownIt:
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
