"""The pages of the documentation, parsed: blocks of code, links, headings.

A block in the language `python`, `sh` or `console` is run. Comments before a block, which readers do not see, control it:

    <!-- not run: REASON -->     it cannot be run
    <!-- before: COMMAND -->     the shell runs this first, in the same folder

On a page with `<!-- blocks not run: REASON -->` no block is run.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).parents[2]
RUN = ("python", "sh", "console")
FENCE = re.compile(
    r"^(?P<indent> *)(?P<mark>`{3,})(?P<kind>[\w+-]*)(?: title=\"(?P<title>[^\"\n]*)\")?[^\n`]*\n"
    r"(?P<text>.*?)^(?P=indent)(?P=mark) *$",
    re.M | re.S,
)
COMMENT = re.compile(r"<!-- (not run|before|blocks not run):\s+(.*?)\s+-->", re.S)


@dataclass(frozen=True)
class Block:
    page: str  # relative to the project
    line: int
    kind: str
    text: str
    before: str = ""
    not_run: str = ""
    title: str = ""  # the file that it belongs into

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    return [*sorted(PROJECT.glob("*.md")), *sorted((PROJECT / "docs").rglob("*.md"))]


def name(page: Path) -> str:
    return page.relative_to(PROJECT).as_posix()


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    whole = next((reason for what, reason in COMMENT.findall(text) if what == "blocks not run"), "")
    for found in FENCE.finditer(text):
        said = dict(COMMENT.findall(ahead(text[: found.start()])))
        yield Block(
            name(page),
            text.count("\n", 0, found.start()) + 1,
            found["kind"],
            re.sub(f"^{found['indent']}", "", found["text"], flags=re.M),
            said.get("before", ""),
            said.get("not run", "") or whole,
            found["title"] or "",
        )


def ahead(text: str) -> str:
    """The comments at the end of a text."""
    return re.search(r"(?:<!--(?:(?!-->).)*-->\s*)*\Z", text, re.S)[0]  # pyright: ignore[reportOptionalSubscript]


def runnable() -> list[Block]:
    return [block for page in pages() for block in blocks(page) if block.kind in RUN]


def prose(text: str) -> str:
    """The text without blocks and comments, which may contain what looks like a heading or a link."""
    return re.sub(r"<!--.*?-->", "", FENCE.sub("", text), flags=re.S)


def anchors(page: Path) -> set[str]:
    """The anchors that a link may name, as the site and the forges derive them from headings."""
    text = page.read_text(encoding="utf-8")
    titles = re.findall(r"^#{1,6} +(.*?) *#*$", prose(text), re.M)
    return {slug(title) for title in titles} | set(re.findall(r'\bid="([^"]+)"', text))


def slug(title: str) -> str:
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
    return re.sub(r"[\s]", "-", re.sub(r"[^\w\s-]", "", shown.lower()).strip())


def links(page: Path) -> Iterator[str]:
    text = re.sub(r"`[^`\n]*`", "", prose(page.read_text(encoding="utf-8")))
    yield from re.findall(r"\]\(<?([^)\s>]+)>?(?: \"[^\"]*\")?\)", text)
    yield from re.findall(r"(?:src|srcset|href)=\"([^\"]+)\"", text)
