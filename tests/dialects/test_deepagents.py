"""The dialect `deepagents`, against the document it comes from (seed 000)."""

import re
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.errors import Denied
from handhold.core.requests import Run
from handhold.dialects.deepagents import dialect, words
from handhold.testing import DialectSuite
from tests.dialects.seeds import in_seed, seed
from tests.suites.machine import has_shadows
from tests.world.convert.papers import plain

SEED = "000_76f0e4b8fd2da10e.txt"


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


@pytest.mark.parametrize(
    ("tool", "sentence"),
    [
        ("write_file", "editing existing files over creating new ones"),
        (
            "edit_file",
            "You must read the file before editing. This tool will error if you attempt an edit without reading the file first.",
        ),
        (
            "execute",
            "You MUST avoid using search commands like find and grep. Instead use the grep, glob tools to search. You MUST avoid read tools like cat, head, tail, and use read_file to read files.",
        ),
    ],
)
def test_sentences_of_the_seed_are_in_the_descriptions(tool: str, sentence: str):
    assert in_seed(SEED, sentence)
    assert sentence in next(spec.description for spec in dialect.specs if spec.name == tool)


def test_the_instructions_hold_the_seeds_sentence_about_what_was_offloaded():
    sentence = "When a tool result is too large, it may be offloaded into the filesystem instead of being returned inline. In those cases, use read_file to inspect the saved result in chunks, or use grep within /large_tool_results/ if you need to search across offloaded tool results."
    assert in_seed(SEED, sentence)
    assert sentence in dialect.instructions


def test_the_preview_of_a_large_result_is_the_seeds():
    first, rest = words.TOO_LARGE.split("\nwas saved")
    assert in_seed(SEED, first)
    assert in_seed(SEED, "was saved" + rest.format(path="{file_path}", sample="{content_sample}"))


@pytest.mark.parametrize(
    ("parameter", "default"),
    [("DEFAULT_READ_OFFSET = 0", ("read_file", "offset", 0)), ("DEFAULT_READ_LIMIT = 100", ("read_file", "limit", 100)), ('path: str = "/"', ("glob", "path", "/")), ('output_mode: str = "files_with_matches"', ("grep", "output_mode", "files_with_matches")), ("replace_all: bool = False", ("edit_file", "replace_all", False))],
)  # fmt: skip
def test_defaults_are_the_seeds(parameter: str, default: tuple[str, str, object]):
    tool, name, value = default
    assert parameter in seed(SEED)
    schema = next(spec.input_schema for spec in dialect.specs if spec.name == tool)
    assert schema["properties"][name]["default"] == value


@pytest.mark.parametrize("tool", ["edit_file", "glob", "grep"])
def test_names_and_parameters_are_the_seeds(tool: str):
    found = re.search(rf"^def {tool}\(\n(.*?)^\) -> str:", seed(SEED), re.MULTILINE | re.DOTALL)
    assert found
    schema = next(spec.input_schema for spec in dialect.specs if spec.name == tool)
    assert re.findall(r"^\s*(\w+):", found[1], re.MULTILINE) == list(schema["properties"])
    assert re.findall(r"^\s*(\w+): str,", found[1], re.MULTILINE) == schema["required"]


# --- Read


def test_a_pdf_is_read_by_its_pages_at_most_20_a_call():
    assert '可指定页码范围(如 pages="1-5"),每次请求最多 20 页' in seed(SEED)
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
    assert rows[100:] == ["", "[There is more: go on with offset=100.]"]


def test_offset_counts_from_0_and_numbers_from_1(box: Toolbox):
    assert read(box, offset=1, limit=1).split("\n")[0] == "     2\ty = 1"
    assert read(box, offset=0, limit=1).split("\n")[0] == "     1\tx = 1"


def test_a_long_line_goes_on_in_parts_that_count_as_lines(box: Toolbox):
    assert "超过 5000 字符" in seed(SEED)
    rows = read(box, "/ws/long").split("\n")
    assert rows == ["     1\ta", f"     2\t{'b' * 5000}", f"   2.1\t{'b' * 5000}", f"   2.2\t{'b' * 2000}", "     3\tc"]
    counted = read(box, "/ws/long", limit=4)
    assert "     3\tc" not in counted
    assert counted.endswith("[There is more: go on with offset=2.]")


def test_a_line_that_no_page_holds_is_cut_with_the_advice_to_reformat_it():
    box = Toolbox.in_memory({"a.json": "x" * 200_000}, dialect="deepagents", root="/ws")
    text = read(box, "/ws/a.json")
    assert len(text) <= 82_000
    assert "Use a tool such as jq to reformat the file." in text
    assert in_seed(SEED, "建议 agent 使用 jq 等工具格式化后重读")


def test_an_empty_file_answers_with_the_seeds_reminder(box: Toolbox):
    assert in_seed(SEED, words.EMPTY)
    assert read(box, "/ws/empty") == words.EMPTY


# --- Write and Edit


def test_confirmations_are_the_seeds(box: Toolbox):
    assert "Updated file /path/to/file" in seed(SEED)
    assert 'f"Edited {path}"' in seed(SEED)
    written = box.call("write_file", {"file_path": "/ws/new/n.txt", "content": "one\n"})
    assert written.text == "Updated file /ws/new/n.txt"
    read(box)
    assert edit(box, "y = 1", "y = 2") == "Edited /ws/a.py"


def test_refusals_are_the_seeds(box: Toolbox):
    assert 'f"Error: Text not found in {path}"' in seed(SEED)
    assert 'f"Path escapes workspace: {p}"' in seed(SEED)
    assert read(box, "../x") == "Error: Path escapes workspace: ../x"
    assert edit(box, "y = 1", "z").startswith("Error: /ws/a.py has not been read yet.")
    read(box)
    assert edit(box, "nothing of it", "z") == "Error: Text not found in /ws/a.py"
    assert edit(box, "x = 1", "z").startswith("Error: The text to replace is in /ws/a.py 2 times.")
    assert edit(box, "x = 1", "z", replace_all=True) == "Edited /ws/a.py"


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
        ("content", ["/ws/b/c.py:", "  1: y = 2"]),
        ("count", ["/ws/b/c.py: 1"]),
    ],
)
def test_grep_has_the_seeds_three_modes(box: Toolbox, mode: str, rows: list[str]):
    assert mode in seed(SEED)
    assert box.call("grep", {"pattern": "y = 2", "output_mode": mode}).text.split("\n")[: len(rows)] == rows


def test_grep_takes_its_pattern_literally(box: Toolbox):
    assert box.call("grep", {"pattern": "y = ."}).data["paths"] == []


def test_a_search_has_20_seconds():
    assert "GLOB_TIMEOUT = 20.0" in seed(SEED)
    assert dialect.traits.search_seconds == 20.0


# --- Execute


def test_a_command_has_120_seconds_unless_told():
    assert "默认 120 秒超时" in seed(SEED)
    assert dialect.decode("execute", {"command": "make"}) == Run("make", 120, 78_000)
    assert dialect.decode("execute", {"command": "make", "timeout": 3600}) == Run("make", 3600, 78_000)


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_what_the_seeds_list_means_is_blocked_and_what_only_looks_like_it_is_not(tmp_path: Path):
    assert 'dangerous = ["rm -rf /", "sudo", "shutdown", "reboot", "> /dev/"]' in seed(SEED)
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="deepagents") as here:
        for command in ("rm -rf /", "sudo ls", "shutdown now", "reboot", "echo x > /dev/sda"):
            assert here.call("execute", {"command": command}).text.startswith("Error: Dangerous command blocked"), (
                command
            )
        for command in ("echo 'sudo rm -rf /'", "ls > /dev/null", "echo reboot"):
            assert here.call("execute", {"command": command}).status == "success", command


def test_a_timeout_over_the_maximum_is_refused_in_the_seeds_words(box: Toolbox):
    assert 'f"Error: timeout {timeout}s exceeds maximum allowed ({self._max_execute_timeout}s)."' in seed(SEED)
    reply = box.call("execute", {"command": "true", "timeout": 3601})
    assert reply.text == "Error: timeout 3601s exceeds maximum allowed (3600s)."
    assert "exceeds" not in box.call("execute", {"command": "true", "timeout": 0}).text


def test_a_blocked_command_says_so_in_the_seeds_words():
    assert '"Error: Dangerous command blocked"' in seed(SEED)
    text = dialect.refuse("execute", Denied("rm -rf /", "it could not be taken back", of_command=True), hints=False)
    assert text.startswith("Error: Dangerous command blocked")


@pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
def test_a_large_output_is_saved_and_shown_by_its_ends(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="deepagents") as here:
        assert here.call("execute", {"command": "echo said; false"}).text.startswith("said\n[Exit status 1 after")
        text = here.call("execute", {"command": "seq 100000"}).text
        handle = text.split("at: ")[1].split("\n")[0]
        assert text.startswith(words.TOO_LARGE.split("{path}")[0])
        assert "1\n2\n3\n4\n5\n... [99,990 lines truncated] ...\n99996\n" in text
        assert here.call("read_file", {"file_path": handle, "offset": 500, "limit": 1}).text.startswith("   501\t501")
        assert here.call("grep", {"pattern": "77777", "path": handle}).data["paths"] == [handle]
