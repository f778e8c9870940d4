"""The dialect `tiny`, against the document it comes from (seed 001)."""

import json
import re
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.errors import NoSpace
from handhold.core.facts import Exit, Held, Output
from handhold.core.requests import Run
from handhold.core.results import Ran
from handhold.dialects.tiny import dialect, words
from handhold.testing import DialectSuite
from tests.dialects.seeds import in_seed, seed
from tests.suites.machine import has_shadows

SEED = "001_4b7e0392cb4a5596.txt"


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
def test_descriptions_stand_in_the_seed(spec):
    assert in_seed(SEED, spec.description)
    for part in spec.input_schema["properties"].values():
        assert in_seed(SEED, part["description"])


@pytest.mark.parametrize(
    "message",
    [
        "...[由于内容过长,已被系统截断至前 %d 字节]...",
        "...[终端输出过长,已截断至前 %d 字节]...",
        "成功将内容写入到文件: %s",
        "✅ 成功修改文件: %s",
        "命令执行成功,无终端输出。",
        "old_text 匹配到了 %d 处,请提供更多的上下文代码以确保唯一性",
        "模糊匹配到了 %d 处相似代码,请提供更多上下行代码以精确定位",
        "在文件中未找到 old_text,请大模型先调用 read_file 仔细确认文件内容和缩进",
        "[警告: 命令执行超时(30s),已被系统强制终止。如果是启动常驻服务,请尝试将其转入后台。]",
    ],
)
def test_messages_stand_in_the_seed_and_in_our_words(message: str):
    assert message in seed(SEED)
    ours = Path(words.__file__).read_text("utf-8")
    assert message.split("%", maxsplit=1)[0].split("30s", maxsplit=1)[0] in ours


def test_a_file_comes_as_it_is_and_a_long_one_is_cut_at_8000_bytes():
    here = box(a_txt="one\ntwo\n", b_txt="字" * 9000 + "\n", c_txt="none")
    assert here.call("read_file", {"path": "a.txt"}).text == "one\ntwo\n"
    assert here.call("read_file", {"path": "c.txt"}).text == "none"
    cut = here.call("read_file", {"path": "b.txt"}).text
    assert cut == "字" * 2666 + "\n\n...[由于内容过长,已被系统截断至前 8000 字节]..."


@pytest.mark.parametrize("text", ["line of text\n" * 700, "\n" * 8002, "字" * 9000, "a\n" + "b" * 7999], ids=len)
def test_c11_what_was_cut_is_not_written_over(text: str):
    here = box(a_txt=text)
    assert "已被系统截断" in here.call("read_file", {"path": "a.txt"}).text
    over = here.call("write_file", {"path": "a.txt", "content": "x"})
    assert (over.code, "请用 edit_file 修改" in over.text) == ("PARTLY_READ", True)


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
    assert many.text == "old_text 匹配到了 2 处,请提供更多的上下文代码以确保唯一性"
    absent = here.call("edit_file", {"path": "a.py", "old_text": "nothing of it", "new_text": "y"})
    assert absent.text == "在文件中未找到 old_text,请大模型先调用 read_file 仔细确认文件内容和缩进"
    done = here.call("edit_file", {"path": "a.py", "old_text": "return err\nx = 1", "new_text": "return None\nx = 2"})
    assert done.text == "✅ 成功修改文件: a.py"
    assert here.files.read("a.py").data == b"if x:\n        return None\nx = 2\nx = 1\n"


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
    assert here.call("edit_file", {"path": "a.py", "old_text": old, "new_text": new}).text == "✅ 成功修改文件: a.py"
    assert here.files.read("a.py").data.decode() == after


def test_two_places_that_are_alike_but_for_indentation_are_refused():
    here = box(a_py="  if x:\n    y()\n\n    if x:\n      y()\n")
    here.call("read_file", {"path": "a.py"})
    many = here.call("edit_file", {"path": "a.py", "old_text": "if x:\n  y()", "new_text": "z()"})
    assert many.text == "模糊匹配到了 2 处相似代码,请提供更多上下行代码以精确定位"


def test_a_command_has_30_seconds_and_says_when_they_are_over():
    request = dialect.decode("bash", {"command": "top"})
    assert isinstance(request, Run)
    assert request.seconds == 30
    held = Held("bubblewrap", shadow=True, network=False)
    late = Ran("top", Exit(None, timed_out=True, seconds=30.01), Output("so far\n", bytes=7), held, "all", "all")
    text = dialect.encode("bash", request, late, hints=False)
    warning = "[警告: 命令执行超时(30s),已被系统强制终止。如果是启动常驻服务,请尝试将其转入后台。]"
    assert warning in seed(SEED)
    assert text == f"so far\n\n{warning}"


def test_a_missing_file_is_told_as_the_seed_would():
    here = box(a_txt="x")
    assert here.call("read_file", {"path": "b"}).text.startswith("打开文件失败: open b: ")
    missing = here.call("edit_file", {"path": "b", "old_text": "a", "new_text": "c"})
    assert missing.text.startswith("读取文件失败,请确认路径是否正确: ")
    assert here.call("read_file", {"path": 3}).text.startswith("参数解析失败: ")


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_commands_are_told_as_the_seed_does(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="tiny") as here:
        assert here.call("bash", {"command": "mkdir made"}).text == "命令执行成功,无终端输出。"
        failed = here.call("bash", {"command": "echo said; false"})
        assert failed.text == "执行报错: exit status 1\n输出:\nsaid\n"
        assert failed.status == "success"
        long = here.call("bash", {"command": "seq 100000"}).text
        assert long.startswith("1\n2\n3\n")
        assert "...[终端输出过长,已截断至前 8000 字节]..." in long
        handle = long.rpartition("[完整输出: ")[2].split("]")[0]
        assert handle.startswith("/large_tool_results/")
        assert here.call("read_file", {"path": handle}).text.startswith("1\n2\n3\n")


@pytest.mark.parametrize("spec", dialect.specs, ids=lambda spec: spec.name)
def test_the_schema_is_the_seeds(spec):
    """In the source it is a literal of Go, which reads as ours does but for the types that it names."""
    ours = json.dumps(
        {name: spec.input_schema[name] for name in ("type", "properties", "required")}, ensure_ascii=False
    )
    theirs = re.sub(r"map\[string\]interface\{\}|,(?=\s*[}\]])", "", seed(SEED)).replace("[]string{", "[")
    theirs = re.sub(r'(\["[^{}\[\]]*)\}', r"\1]", theirs)
    assert re.sub(r"\s", "", ours) in re.sub(r"\s", "", theirs)
    assert f'return "{spec.name}"' in seed(SEED)


def test_what_the_system_refuses_is_told_as_the_seed_does():
    for message in ("读取文件内容失败: ", "创建父目录失败: ", "写入文件失败: ", "写回文件失败: "):
        assert message in seed(SEED)
    here = box(a_txt="x")
    here.files.put("d/x", b"x")  # pyright: ignore[reportAttributeAccessIssue]
    assert here.call("read_file", {"path": "d"}).text == "读取文件内容失败: read d: is a directory"
    assert here.call("write_file", {"path": "d", "content": "x"}).text.startswith("写入文件失败: ")
    assert here.call("write_file", {"path": "a.txt/b", "content": "x"}).text.startswith(
        "创建父目录失败: mkdir a.txt/b: "
    )
    full = NoSpace("a.txt", "no space left on device")
    assert dialect.refuse("edit_file", full, hints=False).startswith("写回文件失败: ")
