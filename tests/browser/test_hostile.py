"""Words that try to be more than words: shown, never obeyed. (The fixture fails a page that opens a dialog, loads anything from
elsewhere, breaks its own policy or has an error.)
"""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, Team

HOSTILE = {
    "an image that fails": "<img src=x onerror=alert(1)>",
    "an image of markdown": "![x](https://evil.example/pixel.png)",
    "a script": "<script>alert(1)</script>",
    "a link that acts": "[click me](javascript:alert(1))",
    "a link of data": "[click me](data:text/html,<script>alert(1)</script>)",
    "an entity": "[click me](&#106;avascript:alert(1))",
    "a broken attribute": '[x](https://a.example" onmouseover="alert(1))',
    "svg": "<svg onload=alert(1)><animate onbegin=alert(1)>",
    "a style": "<style>*{display:none}</style><div style='position:fixed;inset:0'>",
    "a frame": "<iframe src=//evil.example></iframe><base href=//evil.example>",
    "an early end": "</li></ol></main></body><script>alert(1)</script>",
    "a comment": "<!-- --><!--[if]>",
    "a form": "<form action=//evil.example><input name=x></form>",
    "a template": "{{ 7*7 }} {% for x in y %} ${alert(1)}",
    "reordering": "safe\u202egpj.exe\u202c \u2066inner\u2069",
    "nothing visible": "\u200b\u200d\ufeff\u00ad",
    "marks": "Z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f\u0334\u0319\u0324" * 50,
}
VIEWS = [
    "/",
    "/tasks/{task}",
    "/messages/{message_id}",
    "/inbox",
    "/attention",
    "/activity",
    "/activity?q=e&task={task}",
]


def test_hostile_words_are_only_words(desk: Desk, team: Team) -> None:
    """Each in every field there is, all on the same pages: what one of them breaks open, another would use."""
    tasks = [team.task(title=words.replace("\n", " ")[:200]) for words in HOSTILE.values()]
    page = desk.open("/inbox")
    sent = []
    for task, words in zip(tasks, HOSTILE.values(), strict=True):
        team.post(f"/v1/tasks/{task}/presence", {"state": "waiting", "session": "s-1", "detail": words[:200]})
        fields = {"from": f"task:{task}", "kind": "question", "awaiting_response": True, "priority": "urgent"}
        sent.append(team.send("user", words, subject=words[:200], summary=words, payload={"x": words}, artifacts=[{"path": words, "kind": "file"}], **fields))  # fmt: skip
        team.send(tasks[0], words, subject=words[:200], summary=words, payload=[words])
    for message_id in sent:
        expect(page.locator(f'.mail[data-id="{message_id}"]')).to_have_count(1)  # rendered live
    harmless(page)
    for view in VIEWS:
        page.goto(desk.url + view.format(task=tasks[0], message_id=sent[0]))
        page.wait_for_selector("main.view")
        harmless(page)
    page.goto(f"{desk.url}/inbox")
    page.get_by_role("button", name="Mark all read").click()
    expect(page.locator(".inbox-unread .mail")).to_have_count(0)
    harmless(page)


def harmless(page: Page) -> None:
    assert (
        page.locator(
            "main img, main iframe, main script, main style, main object, main embed, main form[action^='//']"
        ).count()
        == 0
    )
    odd = page.eval_on_selector_all("main *", "all => all.flatMap((one) => [...one.attributes]).filter(({name}) => /^on|^style$/.test(name)).length")  # fmt: skip
    assert odd == 0
    links = page.eval_on_selector_all("main a[href]", "all => all.map((one) => one.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", page.content())


def test_reordering_is_shown_by_number(desk: Desk, team: Team) -> None:
    task = team.task()
    team.send(task, HOSTILE["reordering"])
    page = desk.open(f"/tasks/{task}")
    expect(page.locator(".msg-body")).to_contain_text("safe[U+202E]gpj.exe[U+202C]")


def test_a_right_to_left_message_stays_in_its_own_place(desk: Desk, team: Team) -> None:
    task = team.task()
    team.send(task, "שלום עולם, https://a.example/b", subject="What it says")
    page = desk.open(f"/tasks/{task}")
    direction = "(one) => getComputedStyle(one).direction"
    assert page.locator(".msg-subject").evaluate(direction) == "ltr"
    assert page.locator(".msg-body .prose").evaluate(direction) == "rtl"
    head, body = page.locator(".msg-head").bounding_box(), page.locator(".msg-body").bounding_box()
    assert head
    assert body
    assert page.locator(".msg-when").evaluate("(one) => getComputedStyle(one).direction") == "ltr"


def test_a_hundred_kilobytes_are_folded_and_unfolded_without_a_stall(desk: Desk, team: Team) -> None:
    task = team.task()
    team.send(task, "begin " + "lorem ipsum " * 8_500 + "the very end")
    page = desk.open(f"/tasks/{task}")
    assert len(page.content()) < 40_000
    page.evaluate(
        "() => { window.long = 0; new PerformanceObserver((list) => { for (const one of list.getEntries()) window.long = Math.max(window.long, one.duration); }).observe({ type: 'longtask' }); }"
    )
    page.get_by_text(re.compile("Show all 102 k characters")).click()
    expect(page.locator(".msg-body")).to_contain_text("the very end")
    assert page.evaluate("() => window.long") < 500
    team.send(task, "one more")
    expect(page.locator(".msg-body").first).to_have_text("one more")
    expect(page.locator(".msg-body").nth(1)).to_contain_text("the very end")


def test_one_endless_word_does_not_widen_the_page(desk: Desk, team: Team) -> None:
    task = team.task(title="x" * 300)
    team.send(task, "y" * 1_900, subject="z" * 300)
    name = "n" * 64
    team.post("/v1/tasks", {"task": name})
    team.send(
        "user",
        "w" * 300,
        **{"from": f"task:{name}", "kind": "question", "awaiting_response": True, "priority": "urgent"},
    )
    team.post("/v1/threads", {"subject": "s" * 200, "to": name, "body": "v" * 300, "from": "user"})
    empty = "e" * 64
    team.post("/v1/tasks", {"task": empty})
    page = desk.open(f"/tasks/{task}")
    for path in (
        f"/tasks/{task}",
        f"/tasks/{name}",
        f"/tasks/{empty}",
        "/",
        "/inbox",
        "/attention",
        "/threads",
        "/activity",
        "/activity?q=yyyy",
    ):
        page.goto(desk.url + path)
        for width in (1440, 1190, 1081, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, path
    page.goto(f"{desk.url}/tasks/{name}")
    page.route("**/send", lambda route: route.fulfill(json={"ok": False, "error": {"message": "q" * 200}}))
    page.fill("#body", "hello")
    page.press("#body", "Enter")
    expect(page.locator(".form-note")).to_be_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    page.goto(f"{desk.url}/messages/{'m' * 190}")
    expect(page.get_by_role("heading")).to_have_text("Not here")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    desk.complaints.clear()  # the browser's own note of the 404


def test_the_watch_over_pages_sees_what_it_should(desk: Desk, team: Team) -> None:
    """What every test here relies on: an attempt to load, run or ask anything is noticed."""
    page = desk.open("/")
    page.evaluate(
        "() => { const one = document.createElement('img'); one.src = 'https://evil.example/x.png'; document.body.append(one); }"
    )
    page.evaluate(
        "() => { const one = document.createElement('script'); one.textContent = 'window.ran = 1'; document.body.append(one); }"
    )
    page.evaluate("() => document.body.setAttribute('style', 'color: red')")
    page.evaluate("() => alert('hello')")
    page.wait_for_function("() => true")
    assert page.evaluate("() => window.ran") is None
    said = " ".join(desk.complaints)
    for word in ("img-src", "script-src", "style-src", "dialog: hello"):
        assert word in said, said
    desk.complaints.clear()
