"""Writes docs/contract.md from tests/sources/requirements/, which has a row for everything that a source requires.

    python checks/contract.py            write the page
    python checks/contract.py --check    report whether it would be written differently, and fail

A row has the section, the requirement in our own words, and one of three: `test` alone, if it is met; `differs` with
the reason why we do otherwise, and the test that shows what we do; `not_ours` with the reason why it is not our part.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROJECT = Path(__file__).parents[1]
REQUIREMENTS = PROJECT / "tests/sources/requirements"
PAGE = PROJECT / "docs/contract.md"
SOURCES: Mapping[str, tuple[str, str]] = {  # number: what it is about, our dialects
    "000": ("file tools, patches, commands, large output", "the dialects `deepagents` and `codex` (5.3)"),
    "001": ("four tools", "the dialect `tiny`, in Chinese"),
    "002": ("Read, Edit and MultiEdit, verbatim", "the dialect `claude`, with its [oddities](concepts/dialects.md)"),
    "003": ("read, write, edit in a session", "the dialect `hello`, in Chinese"),
    "004": ("LS, Glob, Grep, Read", "the dialect `mycode`, in Chinese"),
}
KINDS = ("met", "differs", "not ours")
INTRODUCTION = """\
# What the sources require

Five of the dialects follow published documents: the sources 000 to 004. This page lists what each requires, in our own
words, and the test or scenario that shows it. Where we differ, the row says why. The page is generated from
`tests/sources/requirements/` by `checks/contract.py`; `tests/sources/` also has the prescribed texts, extracted by
`checks/sources.py`. Every night the code is changed in small ways, and the test of each requirement that is met must
notice (`just mutate-contract`).
"""

Row = Mapping[str, str]


def read_rows(source: str) -> Sequence[Row]:
    return json.loads((REQUIREMENTS / f"{source}.json").read_text("utf-8"))


def get_kind(row: Row) -> str:
    return "differs" if "differs" in row else "not ours" if "not_ours" in row else "met"


def find_document(source: str) -> str:
    (file,) = (PROJECT / "tests/sources").glob(f"{source}_*.json")
    return f"{file.stem}.txt"


def count_kinds(source: str) -> Counter[str]:
    return Counter(map(get_kind, read_rows(source)))


def format_page() -> Iterator[str]:
    yield INTRODUCTION
    yield f"| source | {' | '.join(KINDS)} | all |"
    yield "| --- | --- | --- | --- | --- |"
    total: Counter[str] = Counter()
    for source in SOURCES:
        counts = count_kinds(source)
        total += counts
        yield f"| {source} | {format_counts(counts)} |"
    yield f"| all | {format_counts(total)} |"
    for source, (topic, dialect) in SOURCES.items():
        yield f"\n## Source {source}: {topic} (`{find_document(source)}`)\n"
        yield f"{dialect[0].upper()}{dialect[1:]}.\n"
        yield "| section | requirement | shown by |"
        yield "| --- | --- | --- |"
        for row in read_rows(source):
            yield f"| {row['section']} | {row['requirement']} | {format_evidence(row)} |"


def format_counts(counts: Counter[str]) -> str:
    return " | ".join(str(number) for number in (*(counts[kind] for kind in KINDS), counts.total()))


def format_evidence(row: Row) -> str:
    shown = f"`{row['test']}`" if "test" in row else ""
    reason = row.get("differs") or row.get("not_ours")
    return f"*{get_kind(row).capitalize()}*: {reason} {shown}".rstrip() if reason else shown


def main(*options: str) -> None:
    page = "\n".join(format_page()) + "\n"
    if "--check" not in options:
        PAGE.write_text(page, "utf-8")
    elif PAGE.read_text("utf-8") != page:
        sys.exit("checks/contract.py: docs/contract.md is not what tests/sources/requirements/ says")


if __name__ == "__main__":
    main(*sys.argv[1:])
