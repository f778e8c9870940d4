"""The dialect `mycode`, against the document it comes from (seed 004)."""

import json
from typing import Any

import pytest

from handhold import Toolbox
from handhold.core.facts import Scan
from handhold.core.text.heavy import HEAVY
from handhold.dialects.mycode import dialect
from handhold.testing import DialectSuite
from tests.dialects.seeds import in_seed

SEED = "004_a39344133325a2e7.txt"

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
    assert in_seed(SEED, "`node_modules`、`dist`、`.git`")
    assert {"node_modules", "dist", ".git"} <= HEAVY


def test_ls_goes_on_by_offset():
    first = call("LS", limit=1)
    assert (first["status"], first["data"]["truncated"]) == ("partial", True)
    assert "offset=1" in first["text"]
    second = call("LS", limit=1, offset=1)
    assert second["data"]["entries"] == [{"path": "README.md", "type": "file"}]
    assert call("LS", limit=201)["error"]["code"] == "BAD_ARGUMENTS"


def test_glob_has_a_star_that_stays_in_one_directory():
    assert call("Glob", pattern="agents/*.py")["data"]["paths"] == ["agents/base.py"]
    assert sorted(call("Glob", pattern="agents/**/*.py")["data"]["paths"]) == ["agents/base.py", "agents/deep/tool.py"]
    assert call("Glob")["error"]["code"] == "BAD_ARGUMENTS"


def test_grep_gives_matches_with_path_line_and_text():
    form = call("Grep", pattern="class B")
    assert form["data"]["matches"] == [{"path": "agents/base.py", "line": 1, "text": "class Base:"}]
    assert call("Grep", pattern="BASE", case_sensitive=False, include="*.{py,md}")["stats"]["matches"] == 2


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
    assert json.loads(box.call("Read", {"path": "a"}).text)["data"]["modified_externally"] is False
    other.call("read_file", {"path": "a"})
    other.call("write_file", {"path": "a", "content": "2\n"})
    assert json.loads(box.call("Read", {"path": "a"}).text)["data"]["modified_externally"] is True


@pytest.mark.parametrize(
    ("tool", "name", "most"), [("LS", "limit", 200), ("Glob", "limit", 200), ("Read", "limit", 2000)]
)
def test_the_numbers_are_the_seeds(tool: str, name: str, most: int):
    arguments: dict[str, Any] = {"LS": {}, "Glob": {"pattern": "*"}, "Read": {"path": "README.md"}}[tool]
    assert "error" not in call(tool, **arguments, **{name: most})
    assert call(tool, **arguments, **{name: most + 1})["error"]["code"] == "BAD_ARGUMENTS"


def test_ls_shows_hidden_entries_on_request_and_leaves_out_what_is_told():
    shown = call("LS", include_hidden=True, ignore=["*.md"])["data"]["entries"]
    assert [entry["path"] for entry in shown] == ["agents", ".hidden"]


def test_grep_stops_at_100_matches_and_says_so():
    box = Toolbox.in_memory({"a": "needle\n" * 150}, dialect="mycode", search_seconds=60)
    form = json.loads(box.call("Grep", {"pattern": "needle"}).text)
    assert (form["status"], form["stats"]["matches"], form["data"]["truncated"]) == ("partial", 100, True)


def test_read_shows_500_lines_unless_told():
    box = Toolbox.in_memory({"a": "x\n" * 600}, dialect="mycode", search_seconds=60)
    form = json.loads(box.call("Read", {"path": "a"}).text)
    assert form["data"]["truncated"] is True
    assert "start_line=501" in form["text"]


def test_read_shows_what_cannot_be_decoded_replaced_and_as_partial():
    box = Toolbox.in_memory({"a": b"caf\xc3\xa9 \xff\xfe\x81 \xc3\xa9\n"}, dialect="mycode", search_seconds=60)
    form = json.loads(box.call("Read", {"path": "a"}).text)
    assert form["status"] == "partial"
    assert "\ufffd" in form["data"]["content"]


def test_a_search_has_two_seconds():
    assert dialect.traits.search_seconds == 2.0
    assert in_seed(SEED, "MAX_DURATION_MS=2_000")
    assert in_seed(SEED, "TIMEOUT_SEC = 2.0")


@pytest.mark.parametrize(
    ("scan", "name", "value"),
    [
        (Scan(engine="git grep", weaker="ripgrep is not there", hits=()), "fallback_used", "ripgrep is not there"),
        (Scan(engine="ripgrep", aborted="deadline", hits=()), "aborted_reason", "deadline"),
    ],
    ids=["fallback", "aborted"],
)
def test_grep_tells_nothing_there_from_not_all_of_it_searched(scan: Scan, name: str, value: str):
    class Says:
        def search(self, search: object, **_: object) -> Scan:
            return scan

    box = Toolbox.in_memory({"a": "x\n"}, dialect="mycode", searcher=Says())
    form = json.loads(box.call("Grep", {"pattern": "y"}).text)
    assert (form["status"], form["data"][name]) == ("partial", value)
    assert name in form["text"]


def test_the_instructions_are_the_seeds():
    for line in dialect.instructions.split("\n\n")[:3]:
        assert in_seed(SEED, line)
