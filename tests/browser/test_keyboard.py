"""Everything can be reached and done with a keyboard, and one always sees where one is."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.browser.conftest import Desk, Team

STEPS_MAX = 400


def focused(page: Page) -> str:
    """What has the focus, in a word, and whether that can be seen."""
    return str(
        page.evaluate(
            """() => { const one = document.activeElement; const name = (one.getAttribute('aria-label') || one.innerText || one.value || one.placeholder || one.name || '').trim();
            return `${one.localName} ${name}`.slice(0, 120); }"""
        )
    )


def tab_to(page: Page, words: str) -> None:
    """Press Tab until it is there."""
    for _ in range(STEPS_MAX):
        page.keyboard.press("Tab")
        if words in focused(page):
            return
    raise AssertionError(f"no Tab leads to {words!r}")


def ring(page: Page) -> bool:
    """Whether what has the focus looks different from when it has not, itself or the row it covers."""
    return bool(
        page.evaluate(
            """() => { const look = (one) => { const style = getComputedStyle(one); return [style.boxShadow, style.borderColor, style.transform, style.backgroundColor].join(); };
            const one = document.activeElement; const chain = [one, one.parentElement, one.closest('li, label, form, .search') ?? one];
            const on = chain.map(look); one.blur(); const off = chain.map(look); one.focus({ focusVisible: true });
            return on.some((value, i) => value !== off[i]); }"""
        )
    )


def test_a_message_is_sent_without_a_mouse(desk: Desk, team: Team) -> None:
    task = team.task(title="Keyboard only")
    page = desk.open("/?filter=Keyboard+only")
    page.keyboard.press("Tab")
    assert "Skip to the content" in focused(page)
    page.keyboard.press("Enter")
    tab_to(page, "a Keyboard only")
    assert ring(page)
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{task}")
    tab_to(page, "Send to session")
    page.keyboard.type("typed, not clicked")
    page.keyboard.press("Tab")
    page.keyboard.type("Urgent")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".msg-body").first).to_have_text("typed, not clicked")
    expect(page.locator(".msg .tag.urgent").first).to_be_visible()
    assert "textarea" in focused(page)  # one goes on writing where one was
    tab_to(page, "Take back")
    page.keyboard.press("Enter")
    expect(page.locator(".msg .steps").first).to_contain_text("taken back")


def test_mail_is_answered_and_marked_without_a_mouse(desk: Desk, team: Team) -> None:
    task = team.task()
    message_id = team.send("user", "Keys only?", **{"from": f"task:{task}", "kind": "question", "priority": "urgent"})
    page = desk.open("/inbox")
    page.focus(f'.mail[data-id="{message_id}"] .reply summary')
    assert ring(page)
    page.keyboard.press("Enter")
    page.keyboard.type("Keys")  # at once: no letter is lost while the box opens
    page.keyboard.press("Escape")
    expect(page.locator(f'.mail[data-id="{message_id}"] textarea')).to_be_hidden()
    assert "Reply" in focused(page)
    page.keyboard.press("Enter")
    page.keyboard.type(" only.")
    page.keyboard.press("Enter")
    expect(page.locator(f'.inbox-read .mail[data-id="{message_id}"]')).to_be_visible()
    assert team.pull(task) == ["Keys only."]


def test_the_menu_opens_closes_and_gives_the_focus_back(desk: Desk, team: Team) -> None:
    page = desk.open("/")
    tab_to(page, "Menu: user in default")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_visible()
    tab_to(page, "Sign out")
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_hidden()
    assert "Menu" in focused(page)


def test_the_focus_is_always_visible_and_never_trapped(desk: Desk, team: Team) -> None:
    task = team.task()
    team.send(task, "hello")
    team.send("user", "hello", **{"from": f"task:{task}"})
    for path in ("/", f"/tasks/{task}", "/inbox", "/attention", "/threads", "/activity", "/login"):
        page = desk.open(path, live=path != "/login")
        seen = []
        for _ in range(25):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement === document.body"):
                break
            seen.append(focused(page))
            assert ring(page), (path, focused(page))
        assert len(set(seen)) > 2, path
        page.close()


def test_a_live_change_does_not_take_the_focus_away(desk: Desk, team: Team) -> None:
    task = team.task(title="Focused task")
    page = desk.open("/?filter=Focused")
    page.focus(f'.task[data-id="{task}"] a.cover')
    team.send(task, "news")
    expect(page.locator(f'.task[data-id="{task}"] .badge')).to_be_visible()
    assert "Focused task" in focused(page)
