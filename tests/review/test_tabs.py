"""Many tabs of one browser: one of them has the stream of events, and all of them are live."""

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from handhold.review.events import EventHub
from tests.review.hosting import Reviewed, ask, until

pytestmark = pytest.mark.timeout(120)
IN_BACKGROUND = "Object.defineProperty(document, 'hidden', { get: () => true, configurable: true })"
NOTE_NOTIFICATIONS = """
window.made = [];
window.Notification = class { static permission = "granted"; constructor(title) { window.made.push(title); } };
"""


def open_tab(reviewed: Reviewed, context: BrowserContext, path: str = "/now", script: str = "") -> Page:
    page = context.new_page()
    if script:
        page.add_init_script(script)
    page.goto(reviewed.url + path)
    expect(page.locator("#live .live")).to_be_visible()
    return page


def test_eight_tabs_are_live_and_a_question_can_be_answered_in_the_last(reviewed: Reviewed, context: BrowserContext):
    tabs = [reviewed.enter(context), *(open_tab(reviewed, context) for _ in range(7))]
    ask(reviewed.store, 1)
    for tab in tabs:
        expect(tab.locator("[data-question]")).to_have_count(1)
    tabs[-1].locator("[data-question] button[value=no]").click()
    expect(tabs[-1].locator("[data-answered]")).to_be_visible()
    for tab in tabs:
        expect(tab.locator("[data-question]")).to_have_count(0)
        expect(tab.locator("#nav-count")).to_contain_text("0")
    assert [each.answer for each in reviewed.store.list_answered(5)] == ["no"]


def test_another_tab_takes_over_when_the_one_with_the_stream_is_closed(reviewed: Reviewed, context: BrowserContext):
    first = reviewed.enter(context)
    expect(first.locator("#live .live")).to_be_visible()
    others = [open_tab(reviewed, context, path) for path in ("/now", "/timeline")]
    first.close()
    ask(reviewed.store, 1)
    for tab in others:
        expect(tab.locator("#nav-count")).to_contain_text("1")
        expect(tab.locator("#offline")).to_be_hidden()


def test_a_tab_in_front_takes_over_from_one_that_hangs(reviewed: Reviewed, context: BrowserContext):
    hanging = reviewed.enter(context)
    expect(hanging.locator("#live .live")).to_be_visible()
    tab = context.new_page()
    tab.clock.install()
    tab.goto(f"{reviewed.url}/now")
    expect(tab.locator("#live .live")).to_be_visible()
    hanging.evaluate("BroadcastChannel.prototype.postMessage = () => {}")
    ask(reviewed.store, 1)
    expect(hanging.locator("[data-question]")).to_have_count(1)
    expect(tab.locator("[data-question]")).to_have_count(0)
    tab.clock.fast_forward(30_000)
    expect(tab.locator("[data-question]")).to_have_count(1)
    expect(hanging.locator("#nav-count")).to_contain_text("1")


def test_a_page_that_was_refused_its_stream_tries_again(
    reviewed: Reviewed, context: BrowserContext, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as full:
        full.setattr(EventHub, "is_full", True)
        with context.expect_event("response", lambda response: response.url.endswith("/events")) as refused:
            page = reviewed.enter(context)
        assert refused.value.status == 503
        expect(page.locator("#live .live")).to_have_count(0)
    expect(page.locator("#live .live")).to_be_visible()
    ask(reviewed.store, 1)
    expect(page.locator("[data-question]")).to_have_count(1)


def test_a_browser_without_notifications_shows_questions(reviewed: Reviewed, context: BrowserContext):
    context.add_init_script("delete window.Notification")
    page = reviewed.enter(context)
    expect(page.locator("#live .live")).to_be_visible()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    ask(reviewed.store, 1)
    expect(page.locator("[data-question]")).to_have_count(1)
    assert errors == []


def test_a_tab_in_the_background_makes_no_notification_while_another_is_in_front(
    reviewed: Reviewed, context: BrowserContext
):
    context.add_init_script(NOTE_NOTIFICATIONS)
    context.grant_permissions(["notifications"], origin=reviewed.origin)
    front = reviewed.enter(context, "/timeline")
    hidden = open_tab(reviewed, context, script=IN_BACKGROUND)
    front.reload()  # now the one in the background has the stream
    expect(front.locator("#live .live")).to_be_visible()
    ask(reviewed.store, 1)
    for tab in (front, hidden):
        expect(tab.locator("#nav-count")).to_contain_text("1")
        assert tab.evaluate("window.made") == []
        expect(tab.locator("#announce")).to_have_text("A question waits for you.")
    front.close()
    ask(reviewed.store, 2)
    until(lambda: hidden.evaluate("window.made"), "no notification was made")
