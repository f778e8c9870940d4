"""The site builds, has every page in its table of contents, and loads nothing from other hosts."""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import PROJECT, links

ZENSICAL = Path(sys.executable).with_name("zensical")
SITE: dict[str, Any] = tomllib.loads((PROJECT / "zensical.toml").read_text(encoding="utf-8"))["project"]
# What a browser fetches by itself when it opens a page.
LOADED = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)"
)


def leaves(nav: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for entry in nav:
        for inside in entry.values():
            if isinstance(inside, str):
                yield inside
            else:
                yield from leaves(inside)


def test_every_page_is_in_the_table_of_contents():
    there = {file.relative_to(PROJECT / "docs").as_posix() for file in (PROJECT / "docs").rglob("*.md")}
    decisions = {f"decisions/{each}" for each in links(PROJECT / "docs/decisions/README.md")}  # which lists them
    assert sorted([*leaves(SITE["nav"]), *decisions]) == sorted(there)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in a copy, so that nothing is left in the project."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(PROJECT / "docs", folder / "docs")
    for name in ("zensical.toml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        shutil.copy(PROJECT / name, folder)
    done = subprocess.run([ZENSICAL, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_site_builds_and_loads_nothing_from_elsewhere(site: Path):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    loaded = {(page.name, each) for page in pages for each in LOADED.findall(page.read_text(encoding="utf-8"))}
    assert not loaded
    sheets = {
        each
        for file in site.rglob("*.css")
        for each in re.findall(r"url\([\"']?(https?://[^)]+)", file.read_text(encoding="utf-8"))
    }
    assert not sheets


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_site_has_what_models_read_first(site: Path):
    assert (site / "llms.txt").read_text(encoding="utf-8").startswith("# Handhold\n")


def test_what_is_taken_over_from_the_top_has_no_links_of_its_own():
    """A link in those files would lead elsewhere on the site."""
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"):
        inner = re.findall(r"\]\((?!https://)([^)]+)\)", (PROJECT / name).read_text(encoding="utf-8"))
        assert inner == [], name
