"""The dialect `hello`, against what its source (003) prescribes."""

import json
from functools import partial
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.facts import CommandOutput, ExitStatus, SandboxStatus
from handhold.core.requests import PageLimits, Read, Run
from handhold.core.results import RunResult
from handhold.dialects.hello import dialect, messages
from handhold.testing import DialectSuite
from tests.dialects.sources import piece
from tests.suites.machine import has_shadows

source = partial(piece, "003")


class TestHello(DialectSuite):
    dialect = dialect
    calls = (
        ("bash", {"command": "ls src"}),
        ("read_file", {"file_path": "src/app.py", "offset": 1, "limit": 2}),
        ("read_file", {"file_path": "src/app.py"}),
        ("edit_file", {"file_path": "src/app.py", "old_string": "'Hello, '", "new_string": "'Hi, '"}),
        ("write_file", {"file_path": "notes.txt", "content": "one\n"}),
    )
    budget = 121_000
    long_read = ("read_file", {"file_path": "long.txt"})


@pytest.fixture
def box() -> Toolbox:
    return Toolbox.in_memory({"a.py": "x = 1\ny = 1\nx = 1\n", "b.txt": "b\n"}, dialect="hello", root="/ws")


def read(box: Toolbox, path: str = "a.py", **more: int) -> str:
    return box.call("read_file", {"file_path": path, **more}).text


def edit(box: Toolbox, old: str, new: str, **more: object) -> str:
    return box.call("edit_file", {"file_path": "a.py", "old_string": old, "new_string": new, **more}).text


@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file"])
def test_description_and_schema_are_the_sources(name: str):
    spec = next(spec for spec in dialect.specs if spec.name == name)
    assert spec.description == source(f"{name}.description")
    assert spec.input_schema == source(f"{name}.schema")
    assert list(spec.input_schema["properties"]) == list(source(f"{name}.schema")["properties"])


def test_the_numbers_are_the_sources():
    assert (source("read.lines"), source("read.chars")) == (messages.DEFAULT_PAGE_LINES, messages.MAX_PAGE_CHARS)


def test_2000_lines_are_read_unless_more_are_asked_for():
    box = Toolbox.in_memory({"a.py": "x\n" * 5000}, dialect="hello", root="/ws")
    rows = read(box).split("\n")
    assert rows[1999:] == ["  2000→x", source("read.cut").removeprefix("\n")]
    assert len(read(box, limit=3000).split("\n")) == 3000
    assert len(read(box, limit=10**9).split("\n")) == 5001  # the last one is empty


@pytest.mark.parametrize(
    ("offset", "limit", "begins", "taken", "lines"),
    [
        (0, 1, 1, 1, 2000),
        (-3, 0, 1, None, 2000),
        (2, 2001, 2, 2001, 2001),
        (2, 14_999, 2, 14_999, 14_999),
        (2, 10**9, 2, 10**9, 15_000),  # no more fit into the characters of a page
    ],
)
def test_a_page_has_as_many_lines_as_are_asked_for(offset: int, limit: int, begins: int, taken: int | None, lines: int):
    request = dialect.decode("read_file", {"file_path": "a", "offset": offset, "limit": limit})
    limits = PageLimits(lines, 120_000, 120_000, cut_unit="character", has_final_line=True)
    assert request == Read("a", limits, begins, taken)


def test_an_empty_file_has_one_empty_line():
    assert read(Toolbox.in_memory({"a.py": ""}, dialect="hello")) == "     1→"


def test_what_is_left_out_is_not_taken_for_empty(box: Toolbox):
    read(box)
    assert box.call("write_file", {"file_path": "a.py"}).code == "BAD_ARGUMENTS"
    assert read(box, offset=9).startswith("错误:起始行号 9 超出文件末尾")


def test_a_page_is_the_sources(box: Toolbox):
    def numbered(*lines: str) -> str:
        width, arrow = source("read.number_width"), source("read.arrow")
        return "\n".join(f"{number:>{width}}{arrow}{text}" for number, text in enumerate(lines, 1))

    whole = numbered("x = 1", "y = 1", "x = 1", "")
    assert read(box) == whole
    assert read(box, offset=2, limit=1) == whole.split("\n")[1]
    assert read(box, offset=-3, limit=0) == whole


def test_what_follows_the_last_line_break_is_a_line(box: Toolbox):
    assert read(box, limit=3).endswith("     3→x = 1")
    assert read(box, limit=4).endswith("     3→x = 1\n     4→")
    assert read(box, offset=3).split("\n") == ["     3→x = 1", "     4→"]
    open_end = Toolbox.in_memory({"a.py": "x\ny", "b": "\n"}, dialect="hello")
    assert read(open_end) == "     1→x\n     2→y"
    assert read(open_end, "b") == "     1→\n     2→"


def test_m6_the_last_line_may_be_read_by_itself(box: Toolbox):
    assert read(box, offset=4) == read(box, offset=4, limit=9) == "     4→"
    assert read(box, offset=5).startswith("错误:起始行号 5 超出文件末尾")
    open_end = Toolbox.in_memory({"a.py": "x\ny", "b": "\r\n"}, dialect="hello")
    assert read(open_end, offset=3).startswith("错误:起始行号 3 超出文件末尾")
    assert read(open_end, "b", offset=2) == "     2→"


@pytest.mark.parametrize("every", [False, True])
def test_m5_an_empty_old_text_is_refused_in_the_sources_words(box: Toolbox, every: bool):
    def refuse(path: str) -> str:
        arguments = {"file_path": path, "old_string": "", "new_string": "z", "replace_all": every}
        return box.call("edit_file", arguments).text

    assert refuse("missing") == refuse("a.py") == source("edit.unread")
    read(box)
    assert refuse("a.py") == source("edit.none_at_all" if every else "edit.many")
    assert box.files.stat("missing") is None


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("path.empty", lambda box: read(box, "  ")),
        ("path.outside", lambda box: read(box, "../x")),
        ("path.missing", lambda box: read(box, "missing")),
        ("edit.unread", lambda box: edit(box, "x", "z")),
        ("write.unread", lambda box: box.call("write_file", {"file_path": "a.py", "content": "z"}).text),
        ("edit.same", lambda box: edit(box, "x", "x")),
        ("edit.none", lambda box: read(box) and edit(box, "q", "z")),
        ("edit.none_at_all", lambda box: read(box) and edit(box, "q", "z", replace_all=True)),
        ("edit.many", lambda box: read(box) and edit(box, "x = 1", "z")),
    ],
)
def test_refusals_are_the_sources(box: Toolbox, name: str, made):
    assert made(box) == source(name)


def test_success_is_json(box: Toolbox):
    facts = {"ok": True, "path": "/ws/a.py", "bytes": 3}
    indent = source("json.indent")
    read(box)
    assert edit(box, "y = 1", "y = 2") == json.dumps(named(facts, source("edit.done")), indent=indent)
    written = box.call("write_file", {"file_path": "new.txt", "content": "é\n"}).text
    facts["path"] = "/ws/new.txt"
    assert written == json.dumps(named(facts, source("write.done")), indent=indent)


def test_a_path_is_confirmed_in_its_own_letters(box: Toolbox):
    assert '"path": "/ws/é字.txt"' in box.call("write_file", {"file_path": "é字.txt", "content": ""}).text


def named(facts: dict[str, object], literal: list[str]) -> dict[str, object]:
    """Those of these facts that a literal of the source names, in its order."""
    return {name: facts[name] for name in literal if name in facts}


def test_a_write_clears_the_read_mark_and_an_edit_keeps_it(box: Toolbox):
    read(box)
    edit(box, "y = 1", "y = 2")
    assert json.loads(edit(box, "y = 2", "y = 3"))["ok"]
    assert json.loads(box.call("write_file", {"file_path": "a.py", "content": "whole\n"}).text)["ok"]
    assert edit(box, "whole", "part") == source("edit.unread")
    read(box)
    assert json.loads(edit(box, "whole", "part"))["ok"]


def test_a_long_page_is_cut_and_says_so():
    box = Toolbox.in_memory({"a": "x" * 130_000}, dialect="hello")
    text = read(box, "a")
    assert text.endswith(source("read.cut"))
    assert len(text) == 120_000 + len(source("read.cut"))


def test_c11_what_was_cut_is_not_written_over():
    box = Toolbox.in_memory({"a": "word\n" * 12_000}, dialect="hello")
    text = read(box, "a", limit=12_000)
    assert len(text) == 120_000 + len(source("read.cut"))
    assert box.call("write_file", {"file_path": "a", "content": "x"}).code == "PARTLY_READ"


def test_a_number_that_is_none_is_refused(box: Toolbox):
    for number in ("two", 1.5):
        assert box.call("read_file", {"file_path": "a.py", "offset": number}).code == "BAD_ARGUMENTS"


def test_a_file_that_changed_since_is_not_written_over(box: Toolbox):
    read(box)
    box.files.put("a.py", b"theirs\n")  # pyright: ignore[reportAttributeAccessIssue]
    assert box.call("write_file", {"file_path": "a.py", "content": "ours\n"}).code == "STALE"


def test_places_that_overlap_are_refused():
    box = Toolbox.in_memory({"a.py": "aaa\n"}, dialect="hello", root="/ws")
    read(box)
    assert edit(box, "aa", "b") == source("edit.many")


def test_the_task_at_the_end_of_the_source():
    assert "TODO" in source("task")
    box = Toolbox.in_memory({"a.py": "TODO one\nTODO two\n"}, dialect="hello")
    assert "TODO" in read(box)
    assert json.loads(edit(box, "TODO", "DONE", replace_all=True))["ok"]
    assert box.files.read("a.py").data == b"DONE one\nDONE two\n"


def test_the_instructions_hold_the_sources_sentences():
    assert dialect.instructions.startswith(source("prompt.real_output") + source("prompt.order") + "\n\n")


def test_a_folder_is_neither_written_nor_edited():
    box = Toolbox.in_memory({"d/x": "x"}, dialect="hello")
    assert box.call("write_file", {"file_path": "d", "content": "y"}).text == "错误:d 是目录,请提供文件路径"
    edited = box.call("edit_file", {"file_path": "d", "old_string": "x", "new_string": "y"})
    assert edited.text == "错误:d 是目录,请提供文件路径"


def test_a_file_that_cannot_be_read_says_why():
    box = Toolbox.in_memory({"a": b"a\0b", "d/x": "x"}, dialect="hello")
    assert read(box, "a").startswith(source("read.failed"))
    assert read(box, "d").startswith(source("read.failed"))


# --- bash, which the registry lists first


def test_s5_the_registry_is_the_sources():
    named = {
        "bashTool": "bash",
        "readFileTool": "read_file",
        "writeFileTool": "write_file",
        "editFileTool": "edit_file",
    }
    listed = [named[name] for name in source("registry") if name != "uppercaseTool"]
    assert [spec.name for spec in dialect.specs] == listed


@pytest.mark.parametrize(
    ("end", "output", "text"),
    [
        (ExitStatus(0, seconds=0.1), "one\ntwo\n", "one\ntwo"),
        (ExitStatus(0, seconds=0.1), "", "(无输出)"),
        (ExitStatus(3, seconds=0.1), "said\n", "错误:执行失败 — exit status 3\nsaid"),
        (ExitStatus(None, signal="SIGKILL", seconds=0.1), "", "错误:执行失败 — signal SIGKILL\n(无输出)"),
        (ExitStatus(None, timed_out=True, seconds=120.2), "so far\n", "错误:执行超时(120s),已被终止\nso far"),
    ],
    ids=["output", "silence", "status", "signal", "timeout"],
)
def test_s5_a_command_is_worded_as_the_other_tools_are(end: ExitStatus, output: str, text: str):
    request = dialect.decode("bash", {"command": "x"})
    held = SandboxStatus("bubblewrap", shadow=True, network=False)
    ran = RunResult("x", end, CommandOutput(output, total_bytes=len(output)), held, "all", "all")
    assert dialect.encode("bash", request, ran, hints=False) == text


def test_s5_a_command_has_two_minutes_and_shows_the_first_80_000_bytes():
    assert dialect.decode("bash", {"command": "x"}) == Run("x", 120, 80_000, first_bytes=80_000)


def test_s5_long_output_is_cut_in_the_sources_words_and_kept_whole():
    request = dialect.decode("bash", {"command": "x"})
    held = SandboxStatus("bubblewrap", shadow=True, network=False)
    output = CommandOutput(
        "x\n" * 40_000,
        total_bytes=10**6,
        total_lines=500_000,
        omitted_lines=460_000,
        handle="/large_tool_results/a.txt",
    )
    text = dialect.encode(
        "bash", request, RunResult("x", ExitStatus(0, seconds=1.0), output, held, "all", "all"), hints=False
    )
    assert text.endswith(f"x{source('read.cut')}\n[完整输出: /large_tool_results/a.txt]")


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_s5_a_command_runs_and_a_long_one_is_kept(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="hello") as here:
        text = here.call("bash", {"command": "seq 100000"}).text
        handle = text.rpartition("[完整输出: ")[2].removesuffix("]")
        assert text.startswith("1\n2\n3\n")
        assert "\n10000\n" in text  # its beginning, not its ends
        assert here.call("read_file", {"file_path": handle, "limit": 2}).text.startswith("     1→1\n     2→2")
        (made,) = here.call("bash", {"command": "touch made"}).data["files"]
        assert made["path"] == str(tmp_path / "ws/made")  # absolute, as in what the file tools confirm


def test_a_missing_file_is_unread_unless_it_was_read(box: Toolbox):
    def edited() -> str:
        return box.call("edit_file", {"file_path": "b.txt", "old_string": "b", "new_string": "c"}).text

    box.files.put("b.txt", None)  # pyright: ignore[reportAttributeAccessIssue]
    assert edited() == source("edit.unread")
    box.files.put("b.txt", b"b\n")  # pyright: ignore[reportAttributeAccessIssue]
    read(box, "b.txt")
    box.files.put("b.txt", None)  # pyright: ignore[reportAttributeAccessIssue]
    assert edited() == source("path.missing")
