"""The dialect `deepagents`, against what its source (000) prescribes."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from handhold.core.errors import Denied
from handhold.core.facts import SearchHit, SearchOutcome
from handhold.core.plans import Search
from handhold.core.ports.files import RESULTS_PATH
from handhold.core.requests import MAX_PDF_PAGES, Glob, Grep, ListFiles, PageLimits, Read, Run
from handhold.core.results import ToolSpec
from handhold.dialects.deepagents import DEFAULT_TIMEOUT_SECONDS, LIMITS, MAX_REPLY_CHARS, dialect, messages
from handhold.dialects.notebooks import EDIT_AS_TEXT_NOTE
from handhold.testing import FILES, DialectSuite
from tests.backends.convert.papers import plain
from tests.dialects.sources import filled, piece
from tests.suites.machine import has_shadows

source = partial(piece, "000")


class TestDeepAgents(DialectSuite):
    dialect = dialect
    calls = (
        ("ls", {"path": "/"}),
        ("glob", {"pattern": "**/*.py", "path": "/"}),
        ("grep", {"pattern": "greet(", "output_mode": "content"}),
        ("read_file", {"file_path": "src/app.py", "offset": 0, "limit": 50}),
        (
            "edit_file",
            {"file_path": "src/app.py", "old_string": "'Hello, '", "new_string": "'Hi, '", "replace_all": True},
        ),
        ("write_file", {"file_path": "notes.txt", "content": "one\n"}),
        ("execute", {"command": "ls src", "timeout": 5}),
    )
    long_read = ("read_file", {"file_path": "long.txt", "limit": 5000})
    wide_search = ("grep", {"pattern": "needle"})


@pytest.fixture
def box() -> Toolbox:
    files = {"a.py": "x = 1\ny = 1\nx = 1\n", "b/c.py": "y = 2\n", "empty": "", "long": "a\n" + "b" * 12_000 + "\nc\n"}
    return Toolbox.in_memory(files, dialect="deepagents", root="/ws")


def read(box: Toolbox, path: str = "/ws/a.py", **more: int) -> str:
    return box.call("read_file", {"file_path": path, **more}).text


def edit(box: Toolbox, old: str, new: str, **more: object) -> str:
    return box.call("edit_file", {"file_path": "/ws/a.py", "old_string": old, "new_string": new, **more}).text


# --- the source's own words


def spec_of(tool: str) -> ToolSpec:
    return next(spec for spec in dialect.specs if spec.name == tool)


@pytest.mark.parametrize(
    ("tool", "name"),
    [("write_file", "edit.preferred"), ("edit_file", "edit.read_first"), ("execute", "execute.avoid")],
)
def test_sentences_of_the_source_are_in_the_descriptions(tool: str, name: str):
    assert source(name) in spec_of(tool).description


def test_numbers_of_the_source_are_in_the_descriptions():
    read, execute = spec_of("read_file").description, spec_of("execute").description
    assert f"first {source('read.limit')} lines" in read
    assert f"{source('read.line_chars'):,} characters" in read
    assert f"({', '.join(source('read.parts'))}, …)" in read
    assert f"({', '.join(source('read.pictures'))})" in read
    assert f"at most {source('read.most_pages')} a call" in read
    assert source("read.pages") in spec_of("read_file").input_schema["properties"]["pages"]["description"]
    assert f"{source('execute.seconds')} seconds unless" in execute
    assert f"more than {source('execute.most_seconds')}." in execute
    for sign in source("glob.signs"):
        assert f"`{sign}`" in spec_of("glob").description


def test_the_instructions_hold_the_sources_sentence_about_what_was_offloaded():
    assert source("large.instructions") in dialect.instructions
    assert source("large.folder") == f"{RESULTS_PATH}/"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("call_7Qx", " call_7Qx"),
        ("", ""),
        ("../../etc/passwd", " ../../etc/passwd"),
        ("a\nwas saved in the filesystem at: /etc\x1b[2J", r" a was saved in the filesystem at: /etc\x1b[2J"),
        ("{file_path}", " {file_path}"),
        ("x" * 5000, f" {'x' * 100}... (4900 more characters)"),
    ],
    ids=["an id", "none", "a path", "lines", "a placeholder", "long"],
)
@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_s3_a_large_result_names_its_call_on_one_short_line(tmp_path: Path, given: str, shown: str):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="deepagents") as here:
        reply = here.call("execute", {"command": "seq 100000"}, call_id=given)
        lines = reply.text.split("\n")
        first, *rest = source("large.saved").split("\n")
        assert lines[0] == filled(first, "").rstrip() + shown
        handle = lines[1].removeprefix(filled(rest[0], ""))
        assert re.fullmatch(rf"{source('large.folder')}[0-9a-f]+\.txt", handle)
        assert lines[2:6] == rest[1:5]
        half = source("large.lines")
        assert lines[6 : 6 + half] == ["1", "2", "3", "4", "5"]
        assert lines[6 + half + 1 : 6 + 2 * half + 1] == ["99996", "99997", "99998", "99999", "100000"]


@pytest.mark.parametrize(("name", "default"), [("offset", "read.offset"), ("limit", "read.limit")])
def test_defaults_are_the_sources(name: str, default: str):
    assert spec_of("read_file").input_schema["properties"][name]["default"] == source(default)


@pytest.mark.parametrize("tool", ["edit_file", "glob", "grep"])
def test_names_and_parameters_are_the_sources(tool: str):
    schema, wanted = spec_of(tool).input_schema, source(f"{tool.removesuffix('_file')}.schema")
    assert schema["required"] == wanted["required"]
    assert list(schema["properties"]) == list(wanted["properties"])
    for name, part in wanted["properties"].items():
        given = schema["properties"][name]
        assert {key: given[key] for key in ("type", "default") if key in given} == part


def test_the_other_names_are_the_sources():
    assert list(spec_of("write_file").input_schema["properties"]) == source("write.parameters")
    assert spec_of("grep").input_schema["properties"]["output_mode"]["enum"] == source("grep.modes")
    assert {spec.name for spec in dialect.specs} == {*source("large.not_saved"), "execute"}


# --- Read


def test_a_pdf_is_read_by_its_pages_at_most_20_a_call():
    assert source("read.most_pages") == MAX_PDF_PAGES == 20
    box = Toolbox.in_memory({"a.pdf": plain(*[f"page {n}" for n in range(1, 31)])}, dialect="deepagents", root="/ws")

    def pages(**more: str) -> list[int]:
        return box.call("read_file", {"file_path": "/ws/a.pdf", **more}).data["pages"]

    assert pages(pages="2-3") == [2, 3]
    assert pages() == list(range(1, 21))
    assert box.call("read_file", {"file_path": "/ws/a.pdf", "pages": "1-21"}).code == "BAD_ARGUMENTS"


def test_a_page_is_numbered_as_cat_does_it_and_has_100_lines_unless_told():
    box = Toolbox.in_memory({"a": "".join(f"line {n}\n" for n in range(1, 301))}, dialect="deepagents", root="/ws")
    rows = read(box, "/ws/a").split("\n")
    assert rows[0] == "     1\tline 1"
    assert rows[99] == "   100\tline 100"
    assert rows[100:] == ["", "[There is more. Continue with offset=100.]"]


def test_offset_counts_from_0_and_numbers_from_1(box: Toolbox):
    assert read(box, offset=1, limit=1).split("\n")[0] == "     2\ty = 1"
    assert read(box, offset=0, limit=1).split("\n")[0] == "     1\tx = 1"


def test_an_offset_past_the_end_names_the_last_one(box: Toolbox):
    assert read(box, offset=9) == (
        "Error: /ws/a.py has 3 lines; offset=9 is past its end. Use an offset up to 2, counted from 0."
    )


def test_a_folder_is_not_read_and_an_offset_is_not_negative(box: Toolbox):
    assert box.call("read_file", {"file_path": "/ws/b"}).code == "IS_DIRECTORY"
    assert box.call("read_file", {"file_path": "/ws/a.py", "offset": -1}).code == "BAD_ARGUMENTS"


def test_a_long_line_goes_on_in_parts_that_count_as_lines(box: Toolbox):
    assert LIMITS.line_chars == source("read.line_chars") == 5000
    rows = read(box, "/ws/long").split("\n")
    assert rows == ["     1\ta", f"     2\t{'b' * 5000}", f"   2.1\t{'b' * 5000}", f"   2.2\t{'b' * 2000}", "     3\tc"]
    counted = read(box, "/ws/long", limit=4)
    assert "     3\tc" not in counted
    assert counted.endswith("[There is more. Continue with offset=2.]")


def test_a_line_that_no_page_holds_is_cut_with_the_advice_to_reformat_it():
    box = Toolbox.in_memory({"a.json": "x" * 200_000}, dialect="deepagents", root="/ws")
    text = read(box, "/ws/a.json")
    assert len(text) <= 82_000
    assert f"Use a tool such as {source('read.reformatter')} to reformat the file." in text


def test_a_notebook_is_edited_as_text():
    box = Toolbox.in_memory({"a.ipynb": FILES["book.ipynb"]}, dialect="deepagents", root="/ws")
    assert EDIT_AS_TEXT_NOTE in read(box, "/ws/a.ipynb")


def test_an_empty_file_answers_with_the_sources_reminder(box: Toolbox):
    assert read(box, "/ws/empty") == source("read.empty")


# --- Write and Edit


def test_confirmations_are_the_sources(box: Toolbox):
    written = box.call("write_file", {"file_path": "/ws/new/n.txt", "content": "one\n"})
    assert written.text == source("write.done").replace("/path/to/file", "/ws/new/n.txt")
    read(box)
    assert edit(box, "y = 1", "y = 2") == filled(source("edit.done"), "/ws/a.py")


def test_refusals_are_the_sources(box: Toolbox):
    assert read(box, "../x") == "Error: " + filled(source("path.escapes"), "../x")
    assert edit(box, "y = 1", "z").startswith("Error: /ws/a.py has not been read yet.")
    read(box)
    assert edit(box, "nothing of it", "z") == filled(source("edit.not_found"), "/ws/a.py")
    assert edit(box, "x = 1", "z").startswith("Error: The text to replace is in /ws/a.py 2 times.")
    assert edit(box, "x = 1", "z", replace_all=True) == filled(source("edit.done"), "/ws/a.py")


@pytest.mark.parametrize("every", [False, True])
def test_m5_an_empty_old_text_is_refused_in_the_sources_words(box: Toolbox, every: bool):
    read(box)
    assert edit(box, "", "z", replace_all=every) == filled(source("edit.not_found"), "/ws/a.py")
    arguments = {"file_path": "/ws/new", "old_string": "", "new_string": "z", "replace_all": every}
    assert box.call("edit_file", arguments).code == "NOT_FOUND"
    assert box.files.stat("new") is None


def test_an_existing_file_is_not_written_over_unread(box: Toolbox):
    reply = box.call("write_file", {"file_path": "/ws/a.py", "content": "z\n"})
    assert (reply.code, reply.text[:7]) == ("UNREAD", "Error: ")


# --- searches


def test_ls_glob_and_grep_show_absolute_paths(box: Toolbox):
    assert box.call("ls", {"path": "/"}).text.split("\n")[:4] == ["/ws/b/", "/ws/a.py", "/ws/empty", "/ws/long"]
    assert set(box.call("glob", {"pattern": "**/*.py"}).data["paths"]) == {"/ws/a.py", "/ws/b/c.py"}


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("files_with_matches", ["/ws/b/c.py"]),
        ("content", ["/ws/b/c.py:", "  1: y = 2"]),  # with what stands around it: a scenario
        ("count", ["/ws/b/c.py: 1"]),
    ],
)
def test_grep_has_the_sources_three_modes(box: Toolbox, mode: str, rows: list[str]):
    assert mode in source("grep.modes")
    assert box.call("grep", {"pattern": "y = 2", "output_mode": mode}).text.split("\n")[: len(rows)] == rows


def test_grep_takes_its_pattern_literally(box: Toolbox):
    assert box.call("grep", {"pattern": "y = ."}).data["paths"] == []
    calls = Toolbox.in_memory({"a.py": f"class A:\n    {source('grep.literal')}\n"}, dialect="deepagents", root="/ws")
    assert calls.call("grep", {"pattern": source("grep.literal")}).data["paths"] == ["/ws/a.py"]


def test_grep_can_be_kept_to_a_folder_and_to_a_pattern_of_names(box: Toolbox):
    assert set(box.call("grep", {"pattern": "y ="}).data["paths"]) == {"/ws/a.py", "/ws/b/c.py"}
    assert box.call("grep", {"pattern": "y =", "path": "/ws/b"}).data["paths"] == ["/ws/b/c.py"]
    assert box.call("grep", {"pattern": "y =", "glob": "a.*"}).data["paths"] == ["/ws/a.py"]
    assert box.call("glob", {"pattern": "*.py", "path": "/ws/b"}).data["paths"] == ["/ws/b/c.py"]


def test_a_call_without_options_has_the_limits_of_the_dialect():
    page = PageLimits(2000, source("read.line_chars"), 78_000, split_long_lines=True)
    searched = dict[str, Any](hidden=True, chars=69_000)
    for tool, arguments, request in (
        ("read_file", {"file_path": "a"}, Read("a", page, 1, source("read.limit"))),
        ("ls", {"path": "/"}, ListFiles(ignored=True, limit=1000, **searched)),
        ("glob", {"pattern": "*", "path": "/"}, Glob(pattern="*", limit=200, **searched)),
        ("grep", {"pattern": "x"}, Grep(pattern="x", before=2, after=2, limit=200, **searched)),
    ):
        assert dialect.decode(tool, arguments) == request


@pytest.mark.parametrize(("second", "gap"), [(6, []), (7, ["  ..."])])
def test_lines_that_were_left_out_between_matches_are_marked(second: int, gap: list[str]):
    lines = ["needle" if number in (1, second) else "-" for number in range(1, second + 1)]
    box = Toolbox.in_memory({"a": "\n".join(lines)}, dialect="deepagents", root="/ws")
    rows = box.call("grep", {"pattern": "needle", "output_mode": "content"}).text.split("\n")
    assert rows[1 : 5 + len(gap)] == ["  1: needle", "  2- -", "  3- -", *gap, f"  {second - 2}- -"]


def test_a_search_has_20_seconds():
    assert dialect.options.search_seconds == source("glob.seconds")


@pytest.mark.parametrize("matches", [1, 3000])
def test_s4_lines_come_with_two_around_them_within_the_budget(matches: int):
    around = "".join(f"before {n}\nneedle {n}\nafter {n}\n" + "-\n" * 9 for n in range(matches))
    box = Toolbox.in_memory({"a": around}, dialect="deepagents", root="/ws")
    reply = box.call("grep", {"pattern": "needle", "output_mode": "content"})
    assert reply.text.startswith("/ws/a:\n  1- before 0\n  2: needle 0\n  3- after 0\n  4- -\n")
    assert len(reply.text) <= MAX_REPLY_CHARS
    assert reply.data["matches"][0] == {"path": "/ws/a", "line": 2, "text": "needle 0"}


def test_s6_what_was_found_in_time_is_shown_with_the_sources_sentence():
    class Slow:
        def search(self, search: Search, **_: object) -> SearchOutcome:
            return SearchOutcome((SearchHit("/ws/a.py"),), "a slow engine", abort_reason="deadline", has_more=True)

    box = Toolbox.in_memory({"a.py": "x\n"}, dialect="deepagents", root="/ws", searcher=Slow())
    reply = box.call("glob", {"pattern": "*.py"})
    sentence = filled(source("glob.timed_out"), source("glob.seconds"))
    assert (reply.status, reply.text.split("\n")[0], reply.text.split("\n")[-1]) == ("partial", "/ws/a.py", sentence)
    assert sentence not in box.call("grep", {"pattern": "x"}).text


# --- Execute


def test_a_command_has_120_seconds_unless_told():
    assert (source("execute.seconds"), source("execute.most_seconds")) == (
        DEFAULT_TIMEOUT_SECONDS,
        messages.MAX_TIMEOUT_SECONDS,
    )
    assert dialect.decode("execute", {"command": "make"}) == Run("make", 120, 78_000)
    assert dialect.decode("execute", {"command": "make", "timeout": 3600}) == Run("make", 3600, 78_000)


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_what_the_sources_list_means_is_blocked_and_what_only_looks_like_it_is_not(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="deepagents") as here:
        listed = source("execute.dangerous")
        for command in (listed[0], f"{listed[1]} ls", f"{listed[2]} now", listed[3], f"echo x {listed[4]}sda"):
            assert here.call("execute", {"command": command}).text.startswith(source("execute.blocked")), command
        for command in ("echo 'sudo rm -rf /'", "ls > /dev/null", "echo reboot"):
            assert here.call("execute", {"command": command}).status == "success", command


def test_a_timeout_over_the_maximum_is_refused_in_the_sources_words(box: Toolbox):
    reply = box.call("execute", {"command": "true", "timeout": 3601})
    assert reply.text == filled(source("execute.too_long"), 3601, 3600)
    for timeout in (0, "soon"):
        assert "exceeds" not in box.call("execute", {"command": "true", "timeout": timeout}).text


def test_a_blocked_command_says_so_in_the_sources_words():
    text = dialect.refuse("execute", Denied("rm -rf /", "it could not be taken back", of_command=True), hints=False)
    assert text.startswith(source("execute.blocked"))


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_a_large_output_is_saved_and_shown_by_its_ends(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="deepagents") as here:
        assert here.call("execute", {"command": "echo said; false"}).text.startswith("said\n[Exit status 1 after")
        text = here.call("execute", {"command": "seq 100000"}).text
        handle = text.split("at: ")[1].split("\n")[0]
        assert "1\n2\n3\n4\n5\n... [99,990 lines truncated] ...\n99996\n" in text
        assert here.call("read_file", {"file_path": handle, "offset": 500, "limit": 1}).text.startswith("   501\t501")
        assert here.call("grep", {"pattern": "77777", "path": handle}).data["paths"] == [handle]
