"""The dialect `claude` against the document it was drawn from, where that lies beside the project."""

import re
from pathlib import Path

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
from handhold.core.facts import Line
from handhold.core.requests import Edit, MultiEdit, Read, Replacement
from handhold.core.results import Edited, Shown, Snippet, Step
from handhold.dialects.arguments import parsed
from handhold.dialects.claude import LIMITS, dialect

SEED = Path(__file__).parents[3] / "shared/seeds/002_514d1e3e15788c30.txt"
pytestmark = pytest.mark.skipif(not SEED.exists(), reason=f"the source, {SEED.name}, is not beside the project")


@pytest.fixture(scope="module")
def seed() -> str:
    return SEED.read_text("utf-8")


@pytest.fixture(scope="module")
def blocks(seed) -> list[str]:
    """The fenced texts of the second half: the messages, in order."""
    return re.findall(r"^```\n(.*?)\n```$", seed[seed.index("## 工具实现") :], re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["Read", "Edit", "MultiEdit"])
def test_description_and_schema_are_verbatim(seed, name):
    found = re.search(rf"^#+ {name}\nDesc:\n```\n(.*?)\n```\n\nParams:\n(\{{.*?^\}})", seed, re.MULTILINE | re.DOTALL)
    assert found
    spec = next(spec for spec in dialect.specs if spec.name == name)
    assert spec.description == found[1]
    assert spec.input_schema == parsed(found[2])
    assert list(spec.input_schema["properties"]) == list(parsed(found[2])["properties"])


def refused(error, tool="Edit") -> str:
    return dialect.refuse(tool, error, hints=False)


def step(old, new, places=1) -> Step:
    return Step(old, new, every=places > 1, places=places, matched_by="exact")


def edited(path, *steps, rows=(), created=False) -> Edited:
    return Edited(path, path, created, steps, "utf-8", "", Snippet(tuple(rows)))


def encoded(result, request) -> str:
    return dialect.encode("", request, result, hints=False)


def read(*lines: str | Line, rest=0) -> str:
    rows = tuple(line if isinstance(line, Line) else Line(line) for line in lines)
    shown = Shown("/a", 1, rows, rest, rest > 0, None, "utf-8", replaced=False)
    return encoded(shown, Read("/a", LIMITS))


def numbered(block: str) -> list[tuple[int, str]]:
    rows = re.findall(r"^ *(\d+)→(.*)$", block, re.MULTILINE)
    return [(int(number), text) for number, text in rows]


EDIT = Edit("", Replacement("", ""))
MULTI = MultiEdit("", ())


def test_every_block_is_one_that_is_compared_here(blocks):
    assert len(blocks) == 16


def test_the_trackers_messages(seed):
    unread, stale = re.findall(r"```([^`\n]+)```", seed)
    assert refused(Unread("/a")) == unread.strip('"')
    assert refused(Stale("/a")) == stale


def test_messages_about_any_file(blocks):
    assert refused(NotFound("/a")) == blocks[0]
    for tool, verb in (("Read", "read"), ("Edit", "edit"), ("MultiEdit", "multi_edit")):
        assert refused(IsDirectory("/a"), tool) == blocks[1].replace("{read|edit|multi_edit}", verb)


def test_a_page(blocks):
    assert read(*[text for _, text in numbered(blocks[2])]) == blocks[2]


def test_a_page_that_is_cut(blocks):
    told = read("a", Line("b", 17), rest=23).split("\n")
    assert told[2] == blocks[3].replace("{remaining_line_count}", "23")
    assert told[1] == "     2→b" + blocks[4].replace("{len(line_content) - line_char_limit}", "17")


def test_a_page_that_is_refused(blocks):
    size = blocks[5].replace("{size:.1f}", "300.5").replace("{max_size}", "256")
    assert refused(TooLarge("/a", int(300.5 * 1024), 256 * 1024), "Read") == size
    length = blocks[6].replace("{tokens}", "60001").replace("{max_char}", "60000")
    assert refused(PageTooLong("/a", 60_001, 60_000), "Read") == length
    assert [refused(PastEnd("/a", 1, 0), "Read"), refused(PastEnd("/a", 1000, 264), "Read")] == blocks[7].split("\n")


def test_an_edit(blocks):
    path = "/tmp/test_edit_file.txt"
    assert encoded(edited(path, step("a", "b"), rows=numbered(blocks[8])), EDIT) == blocks[8]


def test_the_six_cases_of_edit(blocks):
    assert refused(NoMatch("/a", "不存在的内容")) == blocks[9]
    assert refused(NoChange("/a")) == blocks[10]
    assert refused(AlreadyExists("/a")) == blocks[11]
    assert encoded(edited("/tmp/test.txt", step("", "x"), created=True), EDIT) == blocks[12]
    assert refused(Ambiguous("/a", "重复行", (1, 2, 4), "exact")) == blocks[13]
    everywhere = edited("/tmp/duplicate_content.txt", step("重复行", "修改后的行", places=3))
    assert encoded(everywhere, EDIT) == blocks[14]


def test_the_list_of_several_edits(blocks):
    steps = [step(old, new) for old, new in re.findall(r'Replaced "(.*)" with "(.*)"', blocks[15])]
    assert len(steps) == 3
    assert encoded(edited("/tmp/multiedit_test.txt", *steps), MULTI) == blocks[15]
