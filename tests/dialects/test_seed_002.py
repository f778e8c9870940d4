"""The dialect `claude` against what its source prescribes."""

import re
from functools import partial

import pytest

from handhold.core.errors import (
    AlreadyExists,
    Ambiguous,
    IsDirectory,
    NoChange,
    NoMatch,
    NotFound,
    PageTooLong,
    PastEnd,
    Stale,
    TooLarge,
    Unread,
)
from handhold.core.facts import PageLine
from handhold.core.requests import Edit, MultiEdit, Read, Replacement
from handhold.core.results import AppliedReplacement, EditResult, Snippet, TextResult, WriteResult
from handhold.core.text import diff
from handhold.dialects.claude import LIMITS, dialect, messages
from tests.dialects.sources import filled, piece

source = partial(piece, "002")


@pytest.mark.parametrize("name", ["Read", "Edit", "MultiEdit"])
def test_description_and_schema_are_verbatim(name):
    spec = next(spec for spec in dialect.specs if spec.name == name)
    assert spec.description == source(f"{name}.description")
    assert spec.input_schema == source(f"{name}.schema")
    assert list(spec.input_schema["properties"]) == list(source(f"{name}.schema")["properties"])


def refused(error, tool="Edit") -> str:
    return dialect.refuse(tool, error, hints=False)


def step(old, new, places=1) -> AppliedReplacement:
    return AppliedReplacement(old, new, every=places > 1, match_count=places, matched_by="exact")


def edited(path, *steps, rows=(), created=False) -> EditResult:
    return EditResult(path, path, created, steps, "utf-8", "", Snippet(tuple(rows)))


def encoded(result, request) -> str:
    return dialect.encode("", request, result, hints=False)


def read(*lines: str | PageLine, rest=0) -> str:
    rows = tuple(line if isinstance(line, PageLine) else PageLine(line) for line in lines)
    shown = TextResult("/a", 1, rows, rest, rest > 0, None, "utf-8", has_undecodable_bytes=False)
    return encoded(shown, Read("/a", LIMITS))


def numbered(block: str) -> list[tuple[int, str]]:
    rows = re.findall(r"^ *(\d+)→(.*)$", block, re.MULTILINE)
    return [(int(number), text) for number, text in rows]


EDIT = Edit("", Replacement("", ""))
MULTI = MultiEdit("", ())


def test_the_numbers_are_the_sources():
    assert (LIMITS.lines, LIMITS.line_chars) == (source("read.lines"), source("read.line_chars"))
    assert (LIMITS.max_full_read_bytes, LIMITS.chars) == (source("read.most_kb") * 1024, source("read.most_chars"))
    assert (source("read.lines"), source("read.line_chars")) == (messages.MAX_SNIPPET_LINES, messages.MAX_LINE_CHARS)
    assert source("edit.diff_lines") == diff.CONTEXT_LINES


def test_the_trackers_messages():
    assert refused(Unread("/a")) == source("tracker.unread")
    assert refused(Stale("/a")) == source("tracker.stale")


def test_messages_about_any_file():
    assert refused(NotFound("/a")) == source("path.missing")
    for tool, verb in (("Read", "read"), ("Edit", "edit"), ("MultiEdit", "multi_edit")):
        assert verb in source("path.directory")
        assert refused(IsDirectory("/a"), tool) == filled(source("path.directory"), verb)


def test_a_page():
    page = source("read.page")
    assert read(*[text for _, text in numbered(page)]) == page


def test_a_page_that_is_cut():
    told = read("a", PageLine("b", 17), rest=23).split("\n")
    assert told[2] == filled(source("read.more_lines"), 23)
    assert told[1] == "     2→b" + filled(source("read.more_characters"), 17)


def test_a_page_that_is_refused():
    size = filled(source("read.too_large"), "300.5", 256)
    assert refused(TooLarge("/a", int(300.5 * 1024), 256 * 1024), "Read") == size
    length = filled(source("read.too_long"), 60_001, 60_000)
    assert refused(PageTooLong("/a", 60_001, 60_000), "Read") == length
    told = [refused(PastEnd("/a", 1, 0), "Read"), refused(PastEnd("/a", 1000, 264), "Read")]
    assert told == source("read.past_end").split("\n")


def test_an_edit():
    path, done = "/tmp/test_edit_file.txt", source("edit.done")
    assert encoded(edited(path, step("a", "b"), rows=numbered(done)), EDIT) == done


def test_the_six_cases_of_edit():
    assert refused(NoMatch("/a", "不存在的内容")) == source("edit.not_found")
    assert refused(NoChange("/a")) == source("edit.same")
    assert refused(AlreadyExists("/a")) == source("edit.exists")
    assert refused(NoMatch("/a", "")) == source("edit.exists")
    assert encoded(edited("/tmp/test.txt", step("", "x"), created=True), EDIT) == source("edit.created")
    assert encoded(WriteResult("/tmp/test.txt", "/tmp/test.txt", True, 2, 1, "utf-8", ""), EDIT) == source(
        "edit.created"
    )
    assert refused(Ambiguous("/a", "重复行", (1, 2, 4), "exact")) == source("edit.many")
    everywhere = edited("/tmp/duplicate_content.txt", step("重复行", "修改后的行", places=3))
    assert encoded(everywhere, EDIT) == source("edit.every")


def test_the_list_of_several_edits():
    done = source("multi_edit.done")
    steps = [step(old, new) for old, new in re.findall(r'Replaced "(.*)" with "(.*)"', done)]
    assert len(steps) == 3
    assert encoded(edited("/tmp/multiedit_test.txt", *steps), MULTI) == done
