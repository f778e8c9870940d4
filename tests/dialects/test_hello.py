"""The dialect `hello`, against the document it comes from (seed 003)."""

import json
import re

import pytest

from handhold import Toolbox
from handhold.dialects.hello import dialect
from handhold.testing import DialectSuite
from tests.dialects.seeds import in_seed, seed

SEED = "003_ed2811946ec4866f.txt"


class TestHello(DialectSuite):
    dialect = dialect
    calls = (
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


@pytest.mark.parametrize("spec", dialect.specs, ids=lambda spec: spec.name)
def test_descriptions_stand_in_the_seed(spec):
    assert in_seed(SEED, spec.description)
    for part in spec.input_schema["properties"].values():
        assert in_seed(SEED, part.get("description", ""))


@pytest.mark.parametrize("spec", dialect.specs, ids=lambda spec: spec.name)
def test_names_and_parameters_are_the_seeds(spec):
    text = seed(SEED)
    block = text[text.index(f'function: {{\nname: "{spec.name}",') :].split("async execute")[0]
    properties = block.split("properties: {")[1].split("required:")[0]
    named = dict(re.findall(r'(\w+): \{\s*type: "(\w+)"', properties))
    assert named == {name: part["type"] for name, part in spec.input_schema["properties"].items()}
    assert re.findall(r'"(\w+)"', block.split("required: [")[1].split("]")[0]) == spec.input_schema["required"]


def test_2000_lines_are_read_unless_more_are_asked_for():
    assert in_seed(SEED, "const maxLines = 2000;")
    box = Toolbox.in_memory({"a.py": "x\n" * 5000}, dialect="hello", root="/ws")
    rows = read(box).split("\n")
    assert rows[1999:] == ["  2000→x", "...(truncated)"]
    assert len(read(box, limit=3000).split("\n")) == 3000
    assert len(read(box, limit=10**9).split("\n")) == 5000


def test_an_empty_file_has_one_empty_line():
    assert read(Toolbox.in_memory({"a.py": ""}, dialect="hello")) == "     1→"


def test_what_is_left_out_is_not_taken_for_empty(box: Toolbox):
    read(box)
    assert box.call("write_file", {"file_path": "a.py"}).code == "BAD_ARGUMENTS"
    assert read(box, offset=9).startswith("错误:起始行号 9 超出文件末尾")


def test_a_page_is_the_seeds(box: Toolbox):
    assert read(box) == "     1→x = 1\n     2→y = 1\n     3→x = 1"
    assert read(box, offset=2, limit=1) == "     2→y = 1"
    assert read(box, offset=-3, limit=0) == "     1→x = 1\n     2→y = 1\n     3→x = 1"


@pytest.mark.parametrize(
    ("message", "made"),
    [
        ("错误:file_path 为空", lambda box: read(box, "  ")),
        ("错误:禁止访问工作区外的路径", lambda box: read(box, "../x")),
        ("错误:文件不存在", lambda box: read(box, "missing")),
        ("错误:请先用 read_file 读取该文件,再调用 edit_file", lambda box: edit(box, "x", "z")),
        (
            "错误:目标文件已存在,请先用 read_file 读取后再 write_file(与先读后写策略一致)",
            lambda box: box.call("write_file", {"file_path": "a.py", "content": "z"}).text,
        ),
        ("错误:old_string 与 new_string 相同,无需修改", lambda box: edit(box, "x", "x")),
        ("错误:找不到 old_string,请与磁盘一致(可重新 read_file)", lambda box: read(box) and edit(box, "q", "z")),
        ("错误:找不到任何 old_string", lambda box: read(box) and edit(box, "q", "z", replace_all=True)),
        (
            "错误:old_string 出现多次,请扩大上下文使片段唯一,或设置 replace_all: true",
            lambda box: read(box) and edit(box, "x = 1", "z"),
        ),
    ],
)
def test_refusals_are_the_seeds(box: Toolbox, message: str, made):
    assert in_seed(SEED, message)
    assert made(box) == message


def test_success_is_json(box: Toolbox):
    read(box)
    assert edit(box, "y = 1", "y = 2") == json.dumps({"ok": True, "path": "/ws/a.py"}, indent=2)
    written = box.call("write_file", {"file_path": "new.txt", "content": "é\n"}).text
    assert written == json.dumps({"ok": True, "path": "/ws/new.txt", "bytes": 3}, indent=2)


def test_a_write_clears_the_read_mark_and_an_edit_keeps_it(box: Toolbox):
    read(box)
    edit(box, "y = 1", "y = 2")
    assert json.loads(edit(box, "y = 2", "y = 3"))["ok"]
    assert json.loads(box.call("write_file", {"file_path": "a.py", "content": "whole\n"}).text)["ok"]
    assert edit(box, "whole", "part") == "错误:请先用 read_file 读取该文件,再调用 edit_file"
    read(box)
    assert json.loads(edit(box, "whole", "part"))["ok"]


def test_a_long_page_is_cut_and_says_so():
    box = Toolbox.in_memory({"a": "x" * 130_000}, dialect="hello")
    text = read(box, "a")
    assert text.endswith("\n...(truncated)")
    assert len(text) == 120_000 + len("\n...(truncated)")


def test_c11_what_was_cut_is_not_written_over():
    box = Toolbox.in_memory({"a": "word\n" * 12_000}, dialect="hello")
    text = read(box, "a", limit=12_000)
    assert len(text) == 120_000 + len("\n...(truncated)")
    assert box.call("write_file", {"file_path": "a", "content": "x"}).code == "PARTLY_READ"


def test_the_task_at_the_end_of_the_seed():
    assert in_seed(SEED, "修改 README.md,把所有 TODO 改为 DONE")
    box = Toolbox.in_memory({"a.py": "TODO one\nTODO two\n"}, dialect="hello")
    assert "TODO" in read(box)
    assert json.loads(edit(box, "TODO", "DONE", replace_all=True))["ok"]
    assert box.files.read("a.py").data == b"DONE one\nDONE two\n"


def test_the_instructions_hold_the_seeds_sentences():
    for sentence in dialect.instructions.split("\n\n")[0].split("。")[:-1]:
        assert in_seed(SEED, sentence)


def test_a_file_that_cannot_be_read_says_why():
    box = Toolbox.in_memory({"a": b"a\0b", "d/x": "x"}, dialect="hello")
    assert in_seed(SEED, "错误:读取失败 — ")
    assert read(box, "a").startswith("错误:读取失败 — ")
    assert read(box, "d").startswith("错误:读取失败 — ")


def test_a_missing_file_is_said_to_be_missing_even_where_it_was_never_read(box: Toolbox):
    missing = box.call("edit_file", {"file_path": "missing", "old_string": "a", "new_string": "b"})
    assert missing.text == "错误:文件不存在"
