"""The browser's notification of a pending question: once, by whichever tab is first, and without its contents."""

from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.review.hosting import Reviewed, ask, until

pytestmark = pytest.mark.timeout(120)

# A page that nobody looks at. Its notifications are made, and noted.
IN_BACKGROUND = """
Object.defineProperty(document, "hidden", { get: () => true, configurable: true });
window.made = [];
window.Notification = class extends Notification {
  constructor(title, options) { super(title, options); window.made.push([title, options, this.title, this.body]); }
};
"""


@pytest.fixture
def page(reviewed: Reviewed, context: BrowserContext) -> Page:
    context.grant_permissions(["notifications"], origin=reviewed.server.origin)
    context.add_init_script(IN_BACKGROUND)
    page = reviewed.enter(context, "/timeline")
    page.locator("#live .live").wait_for()
    assert page.evaluate("Notification.permission") == "granted"
    return page


def list_made(page: Page) -> list[Any]:
    return page.evaluate("window.made")


def wait_for_questions(page: Page, many: int) -> None:
    expect(page.locator("#nav-count")).to_contain_text(str(many))


def test_a_question_makes_one_notification_and_none_again_on_another_page_or_a_reload(reviewed: Reviewed, page: Page):
    ask(reviewed.store, 1)
    until(lambda: list_made(page), "no notification was made")
    assert len(list_made(page)) == 1
    for path in ("/timeline", "/now", "/forks"):
        page.goto(reviewed.url + path)
        page.locator("#live .live").wait_for()
        wait_for_questions(page, 1)
        assert list_made(page) == []
    page.reload()
    page.locator("#live .live").wait_for()
    assert list_made(page) == []
    ask(reviewed.store, 2)
    until(lambda: list_made(page), "the second question was not told")
    wait_for_questions(page, 2)
    assert len(list_made(page)) == 1


def test_a_notification_says_that_a_question_waits_and_nothing_else(reviewed: Reviewed, page: Page):
    ask(reviewed.store, 1)
    until(lambda: list_made(page), "no notification was made")
    wording = "A question waits for you."
    options = {"body": wording, "tag": "handhold-question"}
    assert list_made(page) == [["Handhold", options, "Handhold", wording]]


def test_a_page_that_is_looked_at_makes_none(reviewed: Reviewed, page: Page):
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => false, configurable: true })")
    page.evaluate("window.made = []")
    ask(reviewed.store, 1)
    wait_for_questions(page, 1)
    assert list_made(page) == []
