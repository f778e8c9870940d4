"""The dialect `tiny`, against what its source (001) prescribes."""

from functools import partial
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.errors import NoSpace
from handhold.core.facts import CommandOutput, ExitStatus, SandboxStatus
from handhold.core.requests import Run
from handhold.core.results import RunResult
from handhold.dialects.tiny import COMMAND_TIMEOUT_SECONDS, dialect, messages
from handhold.testing import DialectSuite
from tests.dialects.sources import filled, piece
from tests.suites.machine import has_shadows

source = partial(piece, "001")


class TestTiny(DialectSuite):
    dialect = dialect
    calls = (
        ("read_file", {"path": "src/app.py"}),
        ("edit_file", {"path": "src/app.py", "old_text": "'Hello, '", "new_text": "'Hi, '"}),
        ("write_file", {"path": "notes.txt", "content": "one\n"}),
        ("bash", {"command": "ls src"}),
    )
    budget = 9_000
    long_read = ("read_file", {"path": "long.txt"})


def box(**files: str) -> Toolbox:
    return Toolbox.in_memory({name.replace("_", "."): text for name, text in files.items()}, dialect="tiny")


@pytest.mark.parametrize("spec", dialect.specs, ids=lambda spec: spec.name)
def test_name_description_and_schema_are_the_sources(spec):
    assert spec.name == source(f"{spec.name}.name")
    assert spec.description == source(f"{spec.name}.description")
    assert spec.input_schema == source(f"{spec.name}.schema")
    assert list(spec.input_schema["properties"]) == list(source(f"{spec.name}.schema")["properties"])


def test_the_numbers_are_the_sources():
    assert messages.MAX_BYTES == source("read.bytes") == source("bash.bytes")
    assert source("bash.seconds") == COMMAND_TIMEOUT_SECONDS


def test_a_file_comes_as_it_is_and_a_long_one_is_cut_at_8000_bytes():
    here = box(a_txt="one\ntwo\n", b_txt="字" * 9000 + "\n", c_txt="none")
    assert here.call("read_file", {"path": "a.txt"}).text == "one\ntwo\n"
    assert here.call("read_file", {"path": "c.txt"}).text == "none"
    cut = here.call("read_file", {"path": "b.txt"}).text
    assert cut == "字" * 2666 + filled(source("read.cut"), 8000)  # no page shows the rest of such a line


def test_a_write_is_confirmed_as_the_source_does():
    assert box().call("write_file", {"path": "a.txt", "content": "x"}).text == filled(source("write.done"), "a.txt")


@pytest.mark.parametrize("text", ["line of text\n" * 700, "\n" * 8002, "字" * 9000, "a\n" + "b" * 7999], ids=len)
def test_c11_what_was_cut_is_not_written_over(text: str):
    here = box(a_txt=text)
    assert "已被系统截断" in here.call("read_file", {"path": "a.txt"}).text
    over = here.call("write_file", {"path": "a.txt", "content": "x"})
    assert (over.code, "请用 edit_file 修改" in over.text) == ("PARTLY_READ", True)
    assert box(a_txt=text).call("write_file", {"path": "a.txt", "content": "x"}).code == "UNREAD"


def test_m8_a_long_file_is_written_over_after_its_pages_were_read():
    lines = [f"line {n} of text" for n in range(1, 1501)]
    here = box(a_txt="\n".join(lines) + "\n")
    path: str = "a.txt"
    seen: list[str] = []
    while path:
        assert here.call("write_file", {"path": "a.txt", "content": "x"}).code in ("UNREAD", "PARTLY_READ")
        text = here.call("read_file", {"path": path}).text
        page, cut, more = text.partition(filled(source("read.cut"), 8000))
        assert len(page.encode()) <= source("read.bytes")
        path = more.rpartition(" 用 ")[2].removesuffix("]") if cut else ""
        seen += page.splitlines()[: int(path.removeprefix("a.txt#L")) - 1 - len(seen) if path else None]
    assert seen == lines
    assert here.call("write_file", {"path": "a.txt", "content": "x"}).status == "success"


def test_m8_a_path_that_only_looks_like_a_page_is_a_path():
    here = box()
    for name in ("#L2", "a#Lx", "a#L0", "a#L"):
        assert here.call("write_file", {"path": name, "content": "x"}).status == "success"
        assert here.call("read_file", {"path": name}).text == "x"
    assert here.call("read_file", {"path": "a#Lx#L1"}).text == "x"


@pytest.mark.parametrize("content", [None, "", "a\n"], ids=["missing", "empty", "some"])
def test_m5_an_empty_old_text_is_refused_in_the_sources_words(content: str | None):
    here = box() if content is None else box(a_txt=content)
    if content is not None:
        here.call("read_file", {"path": "a.txt"})
    refused = here.call("edit_file", {"path": "a.txt", "old_text": "", "new_text": "x"})
    absent = filled(source("edit.not_read"), "open a.txt: no such file or directory")
    assert refused.text == (absent if content is None else source("edit.none"))
    stat = here.files.stat("a.txt")
    assert stat is None if content is None else here.files.read("a.txt").data.decode() == content


def test_c11_what_was_shown_whole_is():
    here = box(a_txt="a\n" * 3999 + "b")
    assert here.call("read_file", {"path": "a.txt"}).text == "a\n" * 3999 + "b"
    assert here.call("write_file", {"path": "a.txt", "content": "x"}).status == "success"


def test_the_flow_of_the_seed():
    here = box(a_py="if x:\n        return err\nx = 1\nx = 1\n")
    unread = here.call("edit_file", {"path": "a.py", "old_text": "x = 1", "new_text": "y"})
    assert unread.code == "UNREAD"
    here.call("read_file", {"path": "a.py"})
    many = here.call("edit_file", {"path": "a.py", "old_text": "x = 1", "new_text": "y"})
    assert many.text == filled(source("edit.many"), 2)
    absent = here.call("edit_file", {"path": "a.py", "old_text": "nothing of it", "new_text": "y"})
    assert absent.text == source("edit.none")
    done = here.call("edit_file", {"path": "a.py", "old_text": "return err\nx = 1", "new_text": "return None\nx = 2"})
    assert done.text == filled(source("edit.done"), "a.py")
    assert here.files.read("a.py").data == b"if x:\n        return None\nx = 2\nx = 1\n"


@pytest.mark.parametrize(
    ("content", "old", "message"),
    [
        ("a = 1\n", "a = 1\nb = 2\nc = 3", "edit.too_long"),
        ("a = 1\n", "\n\nb = 2\nc = 3\n\n", "edit.none"),
        ("a = 1\nb = 2\n", "b = 2\nc = 3", "edit.none"),
    ],
    ids=["longer than the file", "as long", "shorter"],
)
def test_a_text_of_more_lines_than_the_file_has_the_sources_message(content: str, old: str, message: str):
    here = box(a_py=content)
    here.call("read_file", {"path": "a.py"})
    absent = here.call("edit_file", {"path": "a.py", "old_text": old, "new_text": "x"})
    assert absent.text == source(message)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("a = 1\nb = 2\n", "b = 2", "b = 3", "a = 1\nb = 3\n"),
        ("a = 1\r\nb = 2\r\n", "a = 1\nb = 2", "a = 1\nb = 3", "a = 1\r\nb = 3\r\n"),
        ("a = 1\nb = 2\n", "\n  b = 2  \n", "\n  b = 3\n", "a = 1\nb = 3\n"),
        (
            "if x:\n        if y:\n            return 1\n",
            "if y:\n    return 1",
            "if y:\n    return 2",
            "if x:\n        if y:\n            return 2\n",
        ),
    ],
    ids=["exact", "line endings", "edges trimmed", "indentation"],
)
def test_the_four_levels_of_the_seed_find_their_place_and_keep_the_files_manner(before, old, new, after):
    here = box(a_py=before)
    here.call("read_file", {"path": "a.py"})
    assert here.call("edit_file", {"path": "a.py", "old_text": old, "new_text": new}).text == filled(
        source("edit.done"), "a.py"
    )
    assert here.files.read("a.py").data.decode() == after


def test_a_file_that_was_read_in_part_says_where_to_go_on():
    here = box(a_txt="a\n" * 5000)
    here.call("read_file", {"path": "a.txt"})
    refused = here.call("write_file", {"path": "a.txt", "content": "x"}).text
    assert refused == "a.txt 只读取了一部分,不能整体覆盖。请先读完其余部分(path 用 a.txt#L4001),或者请用 edit_file 修改"
    here = box(a_txt="a\n" * 5000)
    here.call("read_file", {"path": "a.txt#L4001"})  # not from the beginning
    assert "(path 用 a.txt#L1)" in here.call("write_file", {"path": "a.txt", "content": "x"}).text


def test_an_edit_that_changes_nothing_is_refused():
    here = box(a_py="x = 1\n")
    here.call("read_file", {"path": "a.py"})
    assert here.call("edit_file", {"path": "a.py", "old_text": "x = 1", "new_text": "x = 1"}).code == "NO_CHANGE"


def test_a_file_that_is_written_over_keeps_its_line_endings():
    here = box(a_py="x = 1\r\ny = 1\r\n")
    here.call("read_file", {"path": "a.py"})
    assert here.call("write_file", {"path": "a.py", "content": "x = 2\ny = 2\n"}).status == "success"
    assert here.files.read("a.py").data == b"x = 2\r\ny = 2\r\n"


def test_two_places_that_are_alike_but_for_indentation_are_refused():
    here = box(a_py="  if x:\n    y()\n\n    if x:\n      y()\n")
    here.call("read_file", {"path": "a.py"})
    many = here.call("edit_file", {"path": "a.py", "old_text": "if x:\n  y()", "new_text": "z()"})
    assert many.text == filled(source("edit.alike"), 2)


def test_a_command_has_30_seconds_and_says_when_they_are_over():
    request = dialect.decode("bash", {"command": "top"})
    assert isinstance(request, Run)
    assert request.timeout_seconds == 30
    held = SandboxStatus("bubblewrap", shadow=True, network=False)
    late = RunResult(
        "top",
        ExitStatus(None, timed_out=True, seconds=30.01),
        CommandOutput("so far\n", total_bytes=7),
        held,
        "all",
        "all",
    )
    text = dialect.encode("bash", request, late, hints=False)
    assert text == "so far\n" + source("bash.timed_out") + "\n" + messages.BACKGROUND_NOTE


def test_a_missing_file_is_told_as_the_seed_would():
    here = box(a_txt="x")
    assert here.call("read_file", {"path": "b"}).text == filled(
        source("read.not_opened"), "open b: no such file or directory"
    )
    missing = here.call("edit_file", {"path": "b", "old_text": "a", "new_text": "c"})
    assert missing.text == filled(source("edit.not_read"), "open b: no such file or directory")
    assert here.call("read_file", {"path": 3}).text.startswith(filled(source("arguments"), ""))


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_commands_are_told_as_the_seed_does(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="tiny") as here:
        assert here.call("bash", {"command": "mkdir made"}).text == source("bash.silent")
        failed = here.call("bash", {"command": "echo said; false"})
        assert failed.text == filled(source("bash.failed"), "exit status 1", "said\n")
        assert failed.status == "success"
        long = here.call("bash", {"command": "seq 100000"}).text
        assert long.startswith("1\n2\n3\n")
        assert "\n1000\n" in long  # its beginning, not its ends
        assert filled(source("bash.cut"), 8000) in long
        handle = long.rpartition("[完整输出: ")[2].split("]")[0]
        assert handle.startswith("/large_tool_results/")
        assert here.call("read_file", {"path": handle}).text.startswith("1\n2\n3\n")


def test_what_the_system_refuses_is_told_as_the_source_does():
    def told(name: str, because: str = "") -> str:
        return filled(source(name), because)

    here = box(a_txt="x")
    here.files.put("d/x", b"x")  # pyright: ignore[reportAttributeAccessIssue]
    assert here.call("read_file", {"path": "d"}).text == told("read.not_read", "read d: is a directory")
    edited = here.call("edit_file", {"path": "d", "old_text": "a", "new_text": "b"})
    assert edited.text == told("edit.not_read", "read d: is a directory")
    assert here.call("write_file", {"path": "d", "content": "x"}).text.startswith(told("write.not_written"))
    assert here.call("write_file", {"path": "a.txt/b", "content": "x"}).text.startswith(
        told("write.no_folder", "mkdir a.txt/b: ")
    )
    full = NoSpace("a.txt", "no space left on device")
    assert dialect.refuse("edit_file", full, hints=False).startswith(told("edit.not_written"))
