"""One browser for each module; a workspace and a page for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.hub.conftest import postgres, seaweed
from tests.review.hosting import Reviewed, make_shop, new_context, reviewing
from tests.server.hosting import Shop

__all__ = ["postgres", "seaweed"]
CHROMIUM = "/usr/bin/chromium"  # the Debian package
expect.set_options(timeout=20_000)  # the machine may be busy


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Its own sandbox does not work for root, whom CI runs as; the pages here are ours.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return make_shop(tmp_path)


@pytest.fixture
def reviewed(shop: Shop) -> Iterator[Reviewed]:
    with reviewing(shop) as reviewed:
        yield reviewed


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = new_context(browser)
    yield context
    context.close()


@pytest.fixture
def page(reviewed: Reviewed, context: BrowserContext) -> Page:
    """The page Now, connected."""
    page = reviewed.enter(context)
    page.locator("#live .live").wait_for()
    return page
