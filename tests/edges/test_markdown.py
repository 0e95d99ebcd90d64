"""Markdown: whatever somebody wrote, what comes out is ours: tags of a short list, links of three schemes, nothing that acts."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from inboxd.edges.markdown import MARKDOWN_CHARS_MAX, plain, render, render_line

TAGS = {
    "a", "p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "rel", "target"}, "p": {"class"}, "ol": {"start"}}
PIECES = [
    "<script>", "</script>", "<img src=x onerror=alert(1)>", "<", ">", "&", '"', "'", "`", "```", "~~~", "*", "**", "_", "~~", "#", "##",
    "[", "]", "(", ")", "![", "](", "javascript:", "JaVaScRiPt:", "data:text/html,", "vbscript:", "http://a.b", "https://a.b/c?d=e&f", "mailto:a@b.c",
    "//a.b", "/ui/tasks", "\n", "\n\n", "    ", "\t", "- ", "1. ", "9. ", "> ", "|", "|-|-|\n", "|a|b|\n|:-|-:|\n|c|d|\n", "<http://x.y>", "<javascript:x>", "<a@b.c>",
    "&#x6A;avascript:", "&#106;", "&lt;", "\\", "\u202e", "\u2066", "\x00", "\u2028", "a", "word ", "style=", "onload=", " \"title\" ", "[x]: javascript:y\n", "[x]", "é", "😀",
]  # fmt: skip


class Reader(HTMLParser):
    """Reads HTML as a browser would, and notes everything in it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.odd: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.odd.append(f"</{tag}>")

    def handle_comment(self, data: str) -> None:
        self.odd.append("comment")

    def handle_decl(self, decl: str) -> None:
        self.odd.append("declaration")

    def handle_pi(self, data: str) -> None:
        self.odd.append("instruction")

    def unknown_decl(self, data: str) -> None:
        self.odd.append("declaration")


def harmless(html: str) -> None:
    read = Reader(html)
    assert read.odd == []
    assert read.open == []
    for tag, attributes in read.tags:
        assert tag in TAGS
        assert attributes.keys() <= ATTRIBUTES.get(tag, set())
        if tag == "a":
            href = attributes["href"] or ""
            assert re.match(r"(?:https?://|mailto:)", href, re.IGNORECASE), href
            assert attributes["rel"] == "noopener noreferrer nofollow"
            assert attributes["target"] == "_blank"
        if tag == "p" and "class" in attributes:
            assert re.fullmatch(r"heading heading-[1-6]", attributes["class"] or "")
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", html)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=40).map("".join))
@example("<img src=x onerror=alert(1)>")
@example("[x](javascript:alert(1))")
@example("![x](javascript:alert(1))")
@example("[![x](http://a.b/c.png)](http://d.e)")
@example('[x](http://a.b" onmouseover="alert(1))')
@example("[x]: javascript:alert(1)\n\n[x]")
@example("|a|\n|:-:|\n|<script>|")
@example("<scr<script>ipt>alert(1)</scr</script>ipt>")
def test_whatever_is_written_only_harmless_html_comes_out(text: str) -> None:
    harmless(render(text))
    harmless(render_line(text))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_any_text_at_all_comes_out_harmless(text: str) -> None:
    harmless(render(text))
    harmless(render_line(text))


def test_the_usual_is_rendered() -> None:
    assert render("**b** *e* `c` ~~s~~") == "<p><strong>b</strong> <em>e</em> <code>c</code> <s>s</s></p>\n"
    assert render("one\ntwo") == "<p>one<br />\ntwo</p>\n"
    assert render("# Title") == '<p class="heading heading-1">Title</p>\n'
    assert render("```ts\na < b\n```") == "<pre><code>a &lt; b\n</code></pre>\n"
    link = '<a href="https://a.b/c" rel="noopener noreferrer nofollow" target="_blank">'
    assert render("see https://a.b/c.") == f"<p>see {link}https://a.b/c</a>.</p>\n"
    assert render("[x](https://a.b/c)") == f"<p>{link}x</a></p>\n"
    assert render_line("run `x`") == "run <code>x</code>"


def test_an_image_is_named_and_not_loaded() -> None:
    assert "<img" not in render("![a cat](https://a.b/cat.png)")
    assert ">image: a cat</a>" in render("![a cat](https://a.b/cat.png)")


def test_a_file_s_name_is_no_link() -> None:
    for name in ("auth.ts", "README.md", "example.com", "a@b.de"):
        assert "<a" not in render(f"look at {name}")


def test_reordering_characters_are_shown_by_their_number() -> None:
    assert plain("a\u202eb\u2069") == "a[U+202E]b[U+2069]"
    assert plain("שלום") == "שלום"


@pytest.mark.parametrize(
    "piece", ["[", "![", "*a ", "a**b", ">", "<a ", "_a", "&", "[a](", "|a", "- ", "a\n", "][", "~~a", "<!--", "http://", "://", "https://a", "http://a.b/", "`", "[a][b]\n", "\\", "<x@y "]
)  # fmt: skip
def test_no_text_keeps_the_broker_busy_for_long(piece: str) -> None:
    began = time.process_time()
    render(piece * (MARKDOWN_CHARS_MAX // len(piece)))
    assert time.process_time() - began < 1.5


def test_a_very_long_text_is_shown_as_it_is() -> None:
    text = "**bold** <b> " * 20_000
    began = time.process_time()
    harmless(render(text))
    assert render(text).startswith("<pre>**bold** &lt;b&gt;")
    assert time.process_time() - began < 1
