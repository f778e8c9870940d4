"""Every link leads somewhere: files and headings must exist; of addresses only the form is checked, nothing is fetched."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, anchors, links, name, pages, prose, slug

ADDRESS = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w./~%@+#?=&:-]*)?|mailto:[\w.+-]+@[\w.-]+")


def trouble(page: Path, link: str) -> str:
    """Why a link leads nowhere; empty if it does."""
    if re.match(r"[a-z]+:", link):
        return "" if ADDRESS.fullmatch(link) else "no address that we write"
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(PROJECT):
        return "leads out of the project"
    if not target.exists():
        return "no such file"
    if page.is_relative_to(PROJECT / "docs") and not target.is_relative_to(PROJECT / "docs"):
        return "leads out of the site"
    if anchor and anchor not in anchors(target):
        return "no such heading"
    return ""


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_link_leads_somewhere(page: Path):
    assert {link: said for link in links(page) if (said := trouble(page, link))} == {}


def test_a_link_that_leads_nowhere_would_be_found():
    page = PROJECT / "docs/concepts/edits.md"
    assert trouble(page, "search.md") == ""
    assert trouble(page, "#match-strategies") == ""
    assert trouble(page, "search.md#the-search-backend") == ""
    assert trouble(page, "nothing.md") == "no such file"
    assert trouble(page, "search.md#nothing") == "no such heading"
    assert trouble(page, "../../README.md") == "leads out of the site"
    assert trouble(page, "../../../x.md") == "leads out of the project"
    assert trouble(page, "http://example.org") == "no address that we write"


@pytest.mark.parametrize("page", [page for page in pages() if page.name != "CHANGELOG.md"], ids=name)
def test_every_file_that_is_named_is_there(page: Path):
    """Except in the changelog, which names files as they were called then."""
    said = prose(page.read_text(encoding="utf-8"))
    named = re.findall(r"`((?:tests|src|bench|checks|examples|docs)/[\w./-]+)(?:::\w+)?`", said)
    assert [each for each in named if not (PROJECT / each).exists()] == []


def test_headings_become_what_links_name():
    assert slug("The `claude` dialect, in particular") == "the-claude-dialect-in-particular"
    assert slug("A [link](x.md) inside") == "a-link-inside"
