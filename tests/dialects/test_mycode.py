"""The dialect `mycode`, against what its source (004) prescribes."""

import json
from functools import partial
from os import utime
from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from handhold.backends.files.workspace import Workspace
from handhold.backends.search import DiskSearch
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.choices import DIALECTS
from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.requests import Glob, Grep, ListFiles, PageLimits, Read
from handhold.core.text.default_ignores import DEFAULT_IGNORED_FOLDERS
from handhold.core.text.encoding import BINARY_PROBE_BYTES
from handhold.dialects.mycode import dialect, messages
from handhold.factory import load_dialect
from handhold.testing import FILES as FILES_OF_SUITE
from handhold.testing import UNUSUAL_FILES, DialectSuite
from tests.dialects.sources import piece

source = partial(piece, "004")

FILES = {
    "agents/base.py": "class Base:\n    pass\n",
    "agents/deep/tool.py": "TOOL = 1\n",
    "README.md": "# Base\n",
    ".hidden": "x\n",
    "node_modules/x.js": "Base\n",
}


class TestMyCode(DialectSuite):
    dialect = dialect
    calls = (
        ("LS", {"path": "src", "offset": 0, "limit": 5}),
        ("Glob", {"pattern": "**/*.py"}),
        ("Grep", {"pattern": "greet"}),
        ("Read", {"path": "src/app.py", "start_line": 1, "limit": 3}),
    )
    budget = 245_000  # a page of 120,000 characters, each of which JSON may escape
    long_read = ("Read", {"path": "long.txt", "limit": 2000})
    wide_search = ("Grep", {"pattern": "needle"})


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    box = Toolbox.in_memory(FILES, dialect="mycode", root="/ws", search_seconds=60)
    return json.loads(box.call(tool, arguments).text)


def test_every_reply_is_one_object_with_the_same_members():
    for tool, arguments in (
        ("LS", {}),
        ("Glob", {"pattern": "*.py"}),
        ("Grep", {"pattern": "x"}),
        ("Read", {"path": "README.md"}),
    ):
        form = call(tool, **arguments)
        assert list(form) == ["status", "data", "text", "stats", "context"]
        assert form["context"]["cwd"] == "/ws"
        assert form["context"]["params_input"] == arguments
        assert isinstance(form["stats"]["time_ms"], int)
        assert form["data"]["truncated"] is False


def test_a_refusal_is_the_same_object_with_its_code():
    form = call("Read", path="missing")
    assert list(form) == ["status", "data", "text", "error", "stats", "context"]
    assert (form["status"], form["data"], form["error"]["code"]) == ("error", {}, "NOT_FOUND")
    assert form["context"]["params_input"] == {"path": "missing"}
    assert call("Nothing")["error"]["code"] == "UNKNOWN_TOOL"


def test_ls_is_directories_first_without_heavy_and_hidden_ones():
    form = call("LS")
    assert form["data"]["entries"] == [{"path": "agents", "type": "directory"}, {"path": "README.md", "type": "file"}]
    assert form["context"]["path_resolved"] == "/ws"
    assert set(source("ls.heavy")) <= DEFAULT_IGNORED_FOLDERS
    assert form["stats"][source("ls.entries")] == len(form["data"][source("ls.entries")]) == 2
    assert all(list(entry) == source("ls.entry") for entry in form["data"]["entries"])


def test_ls_goes_on_by_offset():
    first = call("LS", limit=1)
    assert (first["status"], first["data"]["truncated"]) == (source("status"), True)
    assert f"{source('ls.next')}=1" in first["text"]
    second = call("LS", limit=1, offset=1)
    assert second["data"]["entries"] == [{"path": "README.md", "type": "file"}]
    assert call("LS", limit=201)["error"]["code"] == "BAD_ARGUMENTS"


def test_glob_has_a_star_that_stays_in_one_directory():
    assert call("Glob", pattern=source("glob.pattern"))["data"]["paths"] == ["agents/base.py"]
    assert sorted(call("Glob", pattern="agents/**/*.py")["data"]["paths"]) == ["agents/base.py", "agents/deep/tool.py"]
    assert call("Glob")["error"]["code"] == "BAD_ARGUMENTS"


def test_every_search_can_be_kept_to_a_folder():
    assert [each["path"] for each in call("LS", path="agents")["data"]["entries"]] == ["agents/deep", "agents/base.py"]
    assert call("Glob", path="agents", pattern="*.py")["data"]["paths"] == ["agents/base.py"]
    assert [each["path"] for each in call("Grep", path="agents", pattern="Base")["data"]["matches"]] == [
        "agents/base.py"
    ]
    assert call("Glob", pattern="*", limit=1)["stats"]["paths"] == 1


def test_read_begins_where_it_is_told():
    first, _ = source("read.parameters")
    assert call("Read", path="agents/base.py", **{first: 2})["data"]["content"] == "     2→    pass"


def test_grep_gives_matches_with_path_line_and_text():
    form = call("Grep", pattern="class B")
    assert form["data"]["matches"] == [{"path": "agents/base.py", "line": 1, "text": "class Base:"}]
    assert call("Grep", pattern="BASE", case_sensitive=False, include="*.{py,md}")["stats"]["matches"] == 2
    assert call("Grep", pattern="Base", include="*.md")["stats"]["matches"] == 1


def test_read_pages_with_numbers_and_refuses_what_is_binary():
    form = call("Read", path="agents/base.py", limit=1)
    assert form["data"]["content"].startswith("     1→class Base:")
    assert form["data"]["truncated"] is True
    assert "start_line=2" in form["text"]
    box = Toolbox.in_memory({"a": b"a\0b"}, dialect="mycode")
    assert json.loads(box.call("Read", {"path": "a"}).text)["error"]["code"] == "BINARY_FILE"


def test_read_says_that_somebody_changed_the_file():
    box = Toolbox.in_memory({"a": "1\n"}, dialect="mycode", root="/ws")
    other = Toolbox.on(box.files, box.store, dialect="handhold", session="other")
    assert json.loads(box.call("Read", {"path": "a"}).text)["data"][source("read.changed")] is False
    other.call("read_file", {"path": "a"})
    other.call("write_file", {"path": "a", "content": "2\n"})
    assert json.loads(box.call("Read", {"path": "a"}).text)["data"][source("read.changed")] is True


@pytest.mark.parametrize(
    ("tool", "name", "most"), [("LS", "limit", "ls.limit"), ("Glob", "limit", "glob.limit"), ("Read", "limit", "read.most_lines")]
)  # fmt: skip
def test_the_numbers_are_the_sources(tool: str, name: str, most: str):
    arguments: dict[str, Any] = {"LS": {}, "Glob": {"pattern": "*"}, "Read": {"path": "README.md"}}[tool]
    assert "error" not in call(tool, **arguments, **{name: source(most)})
    assert call(tool, **arguments, **{name: source(most) + 1})["error"]["code"] == "BAD_ARGUMENTS"


def test_s2_read_gives_the_time_of_the_last_change(tmp_path: Path):
    file = tmp_path / "ws/a"
    file.parent.mkdir()
    file.write_text("1\n")
    utime(file, ns=(0, 1_700_000_000_123_456_789))
    with Toolbox.open(file.parent, state=tmp_path / "state", dialect="mycode") as box:
        data = json.loads(box.call("Read", {"path": "a"}).text)["data"]
        assert data[source("read.mtime")] == 1_700_000_000_123
        assert source("read.mtime") not in json.loads(box.call("LS", {}).text)["data"]


@pytest.mark.parametrize("name", ["picture.png", "book.ipynb"])
def test_s2_so_does_a_read_of_what_is_not_text(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(UNUSUAL_FILES.get(name) or FILES_OF_SUITE[name].encode())
    utime(tmp_path / name, ns=(0, 1_700_000_000_123_456_789))
    with Toolbox.open(tmp_path, state=tmp_path / ".state", dialect="mycode") as box:
        data = json.loads(box.call("Read", {"path": name}).text)["data"]
        assert data[source("read.mtime")] == 1_700_000_000_123


# --- what searches leave out

LEFT_OUT = {
    "src/app.py": "needle\n",
    "src/dist/app.py": "needle\n",
    "node_modules/lib/app.py": "needle\n",
    "venv/app.py": "needle\n",
    ".github/app.py": "needle\n",
    ".secret.py": "needle\n",
    ".ignore": "ignored.py\nlogs/\n",
    "ignored.py": "needle\n",
    "logs/app.py": "needle\n",
}
IGNORED = {"src/dist/app.py", "node_modules/lib/app.py", "venv/app.py", "ignored.py", "logs/app.py"}
SHOWN_BY_FLAGS = {  # include_hidden, include_ignored
    (False, False): {"src/app.py"},
    (True, False): {"src/app.py", ".github/app.py", ".secret.py"},
    (False, True): {"src/app.py"} | IGNORED,
    (True, True): LEFT_OUT.keys() - {".ignore"},
}
ENGINES = ["ripgrep", "walk", "memory"]


def open_with(engine: str, folder: Path, files: dict[str, str]) -> Toolbox:
    if engine == "memory":
        return Toolbox.in_memory(files, dialect="mycode", root="/ws", search_seconds=60)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    workspace = Workspace([folder], store := SqliteStore.in_memory())
    searcher = DiskSearch(workspace, engines=[engine])
    return Toolbox.on(workspace, store, dialect="mycode", searcher=searcher, search_seconds=60)


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("pattern", ["**", "**/*.py", "{.*,*}/**/*.py"])
def test_m3_glob_enters_hidden_and_heavy_folders_only_by_its_flags(tmp_path: Path, engine: str, pattern: str):
    box = open_with(engine, tmp_path, LEFT_OUT)

    def find(*, hidden: bool, ignored: bool) -> set[str]:
        arguments = {"pattern": pattern, "include_hidden": hidden, "include_ignored": ignored}
        return set(json.loads(box.call("Glob", arguments).text)["data"]["paths"]) - {".ignore"}

    matched = find(hidden=True, ignored=True)
    assert {"node_modules/lib/app.py", ".github/app.py"} <= matched
    for (hidden, ignored), shown in SHOWN_BY_FLAGS.items():
        assert find(hidden=hidden, ignored=ignored) == shown & matched, (hidden, ignored)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("include", ["", "**", "*.py"])
def test_m3_grep_leaves_out_the_same_whatever_it_includes(tmp_path: Path, engine: str, include: str):
    box = open_with(engine, tmp_path, LEFT_OUT)
    arguments = {"pattern": "needle", **({"include": include} if include else {})}
    matches = json.loads(box.call("Grep", arguments).text)["data"]["matches"]
    assert [each["path"] for each in matches] == ["src/app.py"]
    for folder in ("node_modules", "venv", ".github"):  # asked for by its path
        form = json.loads(box.call("Grep", arguments | {"path": folder}).text)
        assert [each["path"].split("/")[0] for each in form["data"]["matches"]] == [folder]


@pytest.mark.parametrize("engine", ENGINES)
def test_m3_a_search_without_a_match_names_what_was_left_out(tmp_path: Path, engine: str):
    more = {"node_modules/only.py": "y\n", ".only": "y\n"}
    box = open_with(engine, tmp_path, dict.fromkeys(LEFT_OUT, "x\n") | more)
    text = json.loads(box.call("Glob", {"pattern": "**/only.py"}).text)["text"]
    assert text == f"{messages.NO_MATCH}\n(1 个文件被跳过: heavy folder)"
    text = json.loads(box.call("Grep", {"pattern": "y"}).text)["text"]
    assert text.startswith(messages.NO_MATCH)
    assert "heavy folder" in text
    assert "hidden" in text


@pytest.mark.parametrize("engine", ENGINES[1:])
@pytest.mark.parametrize("left_out", ["node_modules/{}.py", ".cache/{}.py", "logs/{}.py", ".{}.py"])
def test_m3_visited_entries_are_spent_on_what_may_be_shown(tmp_path: Path, engine: str, left_out: str):
    files = {left_out.format(n): "" for n in range(50)}
    box = open_with(engine, tmp_path, files | {"src/app.py": "", "src/z.py": "", ".ignore": "logs/\n"})
    place = "/ws" if engine == "memory" else str(tmp_path)
    request = Glob(pattern="**", limit=200, chars=10**6, sort="none", flags_decide=True)

    def find(most: int) -> tuple[list[str], str]:
        outcome = box.searcher.search(Search(request, place, 60, max_entries=most), visible=lambda _: True)
        return [hit.place.removeprefix(f"{place}/") for hit in outcome.hits], outcome.abort_reason

    assert find(3) == (["src/app.py", "src/z.py"], "")
    assert find(2) == (["src/app.py"], "entries")


# --- the bound on visited entries


def tree(box: Path, folders: int, files: int) -> None:
    for n in range(folders):
        (box / f"d{n:02}").mkdir(parents=True)
        for each in range(files):
            (box / f"d{n:02}/{each:03}.txt").touch()


def test_s6_the_bound_on_visited_entries_is_the_sources():
    assert dialect.options.max_visited_entries == source("glob.most_visited") == messages.MAX_VISITED_ENTRIES
    others = [load_dialect(name) for name in DIALECTS if name != "mycode"]
    assert [each.options.max_visited_entries for each in others] == [None] * len(others)


@pytest.mark.parametrize("most", [1, 5, 12, 34, 54, 55, 56])
def test_s6_a_glob_visits_so_many_entries_in_a_defined_order(tmp_path: Path, most: int):
    tree(tmp_path, 5, 10)
    search = Search(Glob(pattern="**", limit=1000, chars=10**6, sort="none"), str(tmp_path), 60, max_entries=most)
    files = Workspace([tmp_path], SqliteStore.in_memory())
    scans = [DiskSearch(files).search(search, visible=lambda _: True) for _ in range(3)]
    files.close()
    found = [[hit.place for hit in scan.hits] for scan in scans]
    assert found[0] == found[1] == found[2] == sorted(found[0])
    assert len(found[0]) == max(0, most - 5) if most < 56 else 50
    assert {(scan.abort_reason, scan.has_more, scan.fallback_reason) for scan in scans} == {
        ("entries" if most < 55 else "", most < 55, "")
    }


def test_ls_shows_hidden_entries_on_request_and_leaves_out_what_is_told():
    shown = call("LS", include_hidden=True, ignore=["*.md"])["data"]["entries"]
    assert [entry["path"] for entry in shown] == ["agents", ".hidden"]


def test_grep_stops_at_100_matches_and_says_so():
    box = Toolbox.in_memory({"a": "needle\n" * 150}, dialect="mycode", search_seconds=60)
    form = json.loads(box.call("Grep", {"pattern": "needle"}).text)
    assert (form["status"], form["stats"]["matches"], form["data"]["truncated"]) == (
        source("status"),
        source("grep.matches"),
        True,
    )


@pytest.mark.parametrize(("limit", "shown"), [(None, "read.lines"), (2000, "read.most_lines")], ids=["default", "most"])
def test_m4_read_shows_as_many_lines_of_code_as_the_source_promises(limit: int | None, shown: str):
    line = "    result = compute(first, second, third)  # a line\n"
    box = Toolbox.in_memory({"a": line * (source("read.most_lines") + 1)}, dialect="mycode", search_seconds=60)
    form = json.loads(box.call("Read", {"path": "a"} | ({"limit": limit} if limit else {})).text)
    assert len(form["data"]["content"].splitlines()) == source(shown)
    assert (form["status"], form["data"]["truncated"]) == (source("status"), True)
    assert f"{source('read.parameters')[0]}={source(shown) + 1}" in form["text"]


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_m4_a_page_that_ends_before_the_file_is_partial_and_says_why(limit: int):
    box = Toolbox.in_memory({"a": "1\n2\n3\n"}, dialect="mycode")
    form = json.loads(box.call("Read", {"path": "a", "limit": limit}).text)
    whole = limit >= 3
    assert (form["status"], form["data"]["truncated"]) == ("success" if whole else source("status"), not whole)
    assert form["text"] == f"a: 第 1-{min(limit, 3)} 行" + (
        "" if whole else f"\n(部分结果: 用 start_line={limit + 1} 继续读取)"
    )
    assert form["data"]["content"].splitlines() == ["     1→1", "     2→2", "     3→3"][:limit]


def test_m4_a_line_that_is_cut_is_a_reason():
    box = Toolbox.in_memory({"a": "x" * 2001, "b": ""}, dialect="mycode")
    form = json.loads(box.call("Read", {"path": "a"}).text)
    assert (form["status"], form["text"]) == (source("status"), "a: 第 1-1 行\n(部分结果: 过长的行只显示开头)")
    assert json.loads(box.call("Read", {"path": "b"}).text)["text"] == "b 是空文件"


def test_read_shows_what_cannot_be_decoded_replaced_and_as_partial():
    box = Toolbox.in_memory({"a": b"caf\xc3\xa9 \xff\xfe\x81 \xc3\xa9\n"}, dialect="mycode", search_seconds=60)
    form = json.loads(box.call("Read", {"path": "a"}).text)
    assert form["status"] == "partial"
    assert "\ufffd" in form["data"]["content"]


def test_a_line_of_2000_characters_is_shown_whole_and_searches_have_20_000():
    page, listing, names, lines = (
        dialect.decode(tool, arguments)
        for tool, arguments in (
            ("Read", {"path": "a"}),
            ("LS", {}),
            ("Glob", {"pattern": "*"}),
            ("Grep", {"pattern": "x"}),
        )
    )
    assert page == Read("a", PageLimits(source("read.lines"), 2000, 120_000), offset=1)
    assert listing == ListFiles(limit=100, chars=20_000)
    assert names == Glob(pattern="*", flags_decide=True, limit=100, chars=20_000)
    limits: dict[str, Any] = {"limit": source("grep.matches"), "chars": 20_000}
    assert lines == Grep(pattern="x", flags_decide=True, regex=True, ignore_case=False, mode="content", **limits)


@pytest.mark.parametrize("folder", source("ls.heavy"))
def test_m3_a_heavy_folder_is_entered_only_if_what_is_ignored_is_wanted(folder: str):
    box = Toolbox.in_memory({f"{folder}/a.py": "needle\n"}, dialect="mycode", search_seconds=60)

    def find(tool: str, **arguments: object) -> int:
        stats = json.loads(box.call(tool, arguments).text)["stats"]
        return next(stats[kind] for kind in ("entries", "paths", "matches") if kind in stats)

    assert find("Glob", pattern="**/*.py", include_hidden=True) == find("Grep", pattern="needle") == 0
    assert find("LS", include_hidden=True) == 0
    assert find("Glob", pattern="**/*.py", include_hidden=True, include_ignored=True) == 1


def test_a_pattern_of_grep_is_a_regular_expression():
    assert call("Grep", pattern="^cl.ss B")["stats"]["matches"] == 1


@pytest.mark.parametrize(("offset", "taken"), [(-1, False), (0, True), (10_000, True), (10_001, False)])
def test_an_offset_of_ls_is_from_0_to_10_000(offset: int, *, taken: bool):
    assert ("error" not in call("LS", offset=offset)) is taken


def test_text_is_written_in_its_own_letters_and_control_characters_as_their_pictures():
    box = Toolbox.in_memory({"a": "字 \x01\x1b \\u0001\n"}, dialect="mycode")
    text = box.call("Read", {"path": "a"}).text
    assert "字 \u2401\u241b \\\\u0001" in text
    assert json.loads(text)["data"]["content"] == "     1→字 \u2401\u241b \\u0001"


def test_a_search_has_two_seconds():
    assert dialect.options.search_seconds == source("grep.seconds") == source("glob.most_ms") / 1000


@pytest.mark.parametrize(
    ("scan", "name", "value", "text"),
    [
        (
            SearchOutcome(engine="the walk", fallback_reason="ripgrep is not there", hits=()),
            source("grep.fallback"),
            "ripgrep is not there",
            f"没有找到匹配项\n({source('grep.fallback')}: 未使用 ripgrep,而是 the walk)",
        ),
        (
            SearchOutcome(engine="ripgrep", abort_reason="deadline", hits=()),
            source("grep.aborted"),
            "deadline",
            f"超时之前没有找到匹配项\n({source('grep.aborted')}: 搜索超时,结果可能不完整)",
        ),
        (
            SearchOutcome(engine="our own", abort_reason="entries", hits=()),
            source("grep.aborted"),
            "entries",
            "前 {most} 个条目中没有找到匹配项\n({aborted}: 已访问 {most} 个条目,搜索停止,结果可能不完整)".format(
                most=source("glob.most_visited"), aborted=source("grep.aborted")
            ),
        ),
        (
            SearchOutcome(
                engine="our own", abort_reason="limit", has_more=True, hits=()
            ),  # a full page, and nothing on it is confirmed
            source("grep.aborted"),
            "limit",
            "没有找到匹配项\n(部分结果: 可能还有更多,请缩小 path 或 pattern)",
        ),
    ],
    ids=["fallback", "deadline", "entries", "limit"],
)
def test_grep_tells_nothing_there_from_not_all_of_it_searched(scan: SearchOutcome, name: str, value: str, text: str):
    class Says:
        def search(self, search: object, **_: object) -> SearchOutcome:
            return scan

    box = Toolbox.in_memory({"a": "x\n"}, dialect="mycode", searcher=Says())
    form = json.loads(box.call("Grep", {"pattern": "y"}).text)
    assert (form["status"], form["data"][name], form["text"]) == ("partial", value, text)


def test_a_tool_for_the_other_kind_names_the_one_that_is_meant():
    list_files, glob, _, read = source("tools")
    for tool, arguments in ((list_files, {}), (glob, {"pattern": "*"})):
        error = call(tool, path="README.md", **arguments)["error"]
        assert error == {"code": "NOT_DIRECTORY", "message": f"README.md 不是目录,请用 {read}"}
    error = call(read, path="agents")["error"]
    assert error == {"code": "IS_DIRECTORY", "message": f"agents 是目录,请用 {list_files}"}


def test_the_instructions_are_the_sources():
    assert dialect.instructions.startswith(source("instructions") + "\n\n")


def test_names_and_arguments_are_the_sources():
    schemas = {spec.name: spec.input_schema for spec in dialect.specs}
    assert list(schemas) == source("tools")
    start, limit = source("read.parameters")
    pattern, flags = source("glob.required"), source("glob.flags")
    assert {name: list(schema["properties"]) for name, schema in schemas.items()} == {  # what has no piece is ours
        "LS": ["path", source("ls.next"), limit, source("ls.hidden"), source("ls.ignore")],
        "Glob": [pattern, "path", limit, *flags],
        "Grep": [pattern, "path", "include", "case_sensitive"],
        "Read": ["path", start, limit],
    }
    assert [schema["required"] for schema in schemas.values()] == [[], [pattern], [pattern], ["path"]]
    ls, glob, read = (schemas[name]["properties"] for name in ("LS", "Glob", "Read"))
    assert ls[source("ls.hidden")]["default"] is False
    assert all(glob[name]["default"] is False for name in flags)
    assert read["limit"]["default"] == source("read.lines")
    for tool, numbers in (
        ("LS", ["ls.limit"]),
        ("Glob", ["glob.limit"]),
        ("Grep", ["grep.matches"]),
        ("Read", ["read.lines", "read.most_lines"]),
    ):
        description = next(spec.description for spec in dialect.specs if spec.name == tool)
        assert all(str(source(name)) in description for name in numbers), tool


def test_a_nul_in_the_first_8_kb_makes_a_file_binary():
    probe = source("read.probe_kb") * 1024
    assert probe == BINARY_PROBE_BYTES
    box = Toolbox.in_memory({"a": b"x" * (probe - 1) + b"\0"}, dialect="mycode")
    assert json.loads(box.call("Read", {"path": "a"}).text)["error"]["code"] == "BINARY_FILE"
