"""Compares a page with its translation: headings, tables, commands, links and figures must be the same."""

import re
from collections import Counter
from collections.abc import Iterator

from tests.docs.pages import FENCE, prose, slug

MONTHS = {"January": "1", "July": "7", "November": "11"}
INLINE_CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def find_differences(page: str, translation: str) -> Iterator[str]:
    """What the translation has otherwise, a line each; nothing if the two agree."""
    pairs = [(name, of(page), of(translation)) for name, of in ASPECTS.items()]
    for name, expected, found in pairs:
        if expected != found:
            yield f"{name}: {first_difference(expected, found)}"


def first_difference(expected: list[str], found: list[str]) -> str:
    for at, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            return f"number {at + 1} is {other!r}, expected {one!r}"
    return f"{len(found)}, expected {len(expected)}"


# --- what is compared


def headings(text: str) -> list[str]:
    return re.findall(r"^(#+) ", prose(text), re.M)


def tables(text: str) -> list[str]:
    """For each table its rows and columns."""
    found = re.findall(r"(?:^\|.*\n)+", prose(text), re.M)
    return [" ".join(str(len(row.strip("|").split(" | "))) for row in table.splitlines()) for table in found]


def rows(text: str) -> list[str]:
    """For each row of a table the code and the figures in it, in any order."""
    lines = [line for line in prose(text).splitlines() if line.startswith("|")]
    return [" ".join(sorted([*INLINE_CODE.findall(line), *figures(line)])) for line in lines]


def code_blocks(text: str) -> list[str]:
    return [f"{found['kind']}\n{found['text']}" for found in FENCE.finditer(text)]


def inline_code(text: str) -> list[str]:
    return sorted(INLINE_CODE.findall(prose(text)))


def links(text: str) -> list[str]:
    """In order. A link to a heading of the same page is the number of that heading; the languages link to each other."""
    titles = re.findall(r"^#+ +(.*)$", prose(text), re.M)
    numbers = {f"#{slug(title)}": f"heading {at}" for at, title in enumerate(titles)}
    found: list[str] = LINK.findall(prose(text))
    return [numbers.get(link, link) for link in found if not link.startswith("README")]


def figures(text: str) -> list[str]:
    """Every number outside of code and links; months are written in words in one language and in digits in the other."""
    bare = re.sub(r"\]\([^)]*\)|`[^`\n]*`", "", prose(text))
    for word, digits in MONTHS.items():
        bare = bare.replace(word, digits)
    count = Counter(re.findall(r"\d[\d,.]*\d|\d", bare))
    return sorted(count.elements())


ASPECTS = {
    "headings": headings,
    "tables": tables,
    "rows of tables": rows,
    "code blocks": code_blocks,
    "code in the text": inline_code,
    "links": links,
    "figures": figures,
}
