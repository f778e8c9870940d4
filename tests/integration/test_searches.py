"""Searches: whole, in pages, within the budget, and blind to what the policy denies."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Reply, Toolbox
from handhold.backends.files.workspace import Workspace
from handhold.backends.search import DiskSearch
from handhold.core.ports.policy import Decision, Verb, Verdict
from handhold.dialects.handhold import MAX_REPLY_CHARS
from tests.integration.conftest import Ground
from tests.scale import examples
from tests.suites.policies import OnPlaces

Make = Callable[[Mapping[str, str | bytes]], Ground]

TREE = {
    **{f"src/part{n}/file{n}.py": f"x = {n}\nneedle {n}\n" for n in range(5)},
    **{f"top{n}.txt": "needle\n" * n for n in range(1, 4)},
    "other.md": "nothing\n",
}
CALLS = [
    ("list_files", {"depth": 3}),
    ("glob", {"pattern": "**"}),
    ("glob", {"pattern": "**", "sort": "none"}),
    ("grep", {"pattern": "needle"}),
    ("grep", {"pattern": "needle", "sort": "none"}),
    ("grep", {"pattern": "needle", "mode": "count"}),
    ("grep", {"pattern": "needle", "mode": "content"}),
    ("grep", {"pattern": "needle", "mode": "content", "before": 1, "sort": "none"}),
]
NAMED = pytest.mark.parametrize(("tool", "arguments"), CALLS, ids=lambda value: str(value).replace(" ", ""))


def items(reply: Reply) -> list[Any]:
    for name in ("entries", "paths", "counts", "matches"):
        if name in reply.data:
            return reply.data[name]
    raise AssertionError(reply.text)


def paths(reply: Reply) -> list[str]:
    return [item if isinstance(item, str) else item["path"] for item in items(reply)]


def pages(box: Toolbox, tool: str, arguments: Mapping[str, Any], limit: int) -> Iterator[Reply]:
    reply = box.call(tool, {**arguments, "limit": limit})
    yield reply
    while cursor := reply.data["cursor"]:
        reply = box.call(tool, {**arguments, "limit": limit, "cursor": cursor})
        yield reply


# --- pages


@NAMED
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_together_are_the_whole_while_nothing_changes(
    ground: Make, tool: str, arguments: dict[str, Any], limit: int
):
    box = ground(TREE).open()
    whole = box.call(tool, arguments)
    assert whole.status == "success"
    each = list(pages(box, tool, arguments, limit))
    assert [item for page in each for item in items(page)] == items(whole)
    assert all(len(items(page)) <= limit for page in each)
    assert not any(page.data["changed_since_cursor"] for page in each)
    assert [page.status for page in each[:-1]] == ["partial"] * (len(each) - 1)
    assert each[-1].data["cursor"] is None


@NAMED
def test_a_cursor_says_when_something_changed(ground: Make, tool: str, arguments: dict[str, Any]):
    here = ground(TREE)
    box = here.open()
    first = box.call(tool, {**arguments, "limit": 3})
    shown = paths(first)[0]
    here.write(shown if shown.endswith((".py", ".txt", ".md")) else f"{shown}/aaa.py", b"needle\nneedle\nneedle\n")
    here.write("src/part0/aaa.py", b"needle\n")
    second = box.call(tool, {**arguments, "limit": 3, "cursor": first.data["cursor"]})
    assert second.data["changed_since_cursor"]


def test_another_limit_does_not_spoil_a_cursor(ground: Make):
    box = ground(TREE).open()
    first = box.call("glob", {"pattern": "**", "limit": 2})
    rest = box.call("glob", {"pattern": "**", "limit": 100, "cursor": first.data["cursor"]})
    assert rest.status == "success"
    assert paths(first) + paths(rest) == paths(box.call("glob", {"pattern": "**"}))


@pytest.mark.parametrize(
    "other", [{"pattern": "other"}, {"path": "src"}, {"regex": True}, {"hidden": True}, {"sort": "none"}]
)
def test_a_cursor_fits_no_other_search(ground: Make, other: dict[str, Any]):
    box = ground(TREE).open()
    cursor = box.call("grep", {"pattern": "needle", "limit": 1}).data["cursor"]
    assert box.call("grep", {"pattern": "needle", **other, "cursor": cursor}).code == "BAD_CURSOR"
    assert box.call("glob", {"pattern": "needle", "cursor": cursor}).code == "BAD_CURSOR"


# --- names


ODD = [
    "two\nlines",
    "tab\there",
    "\x1b[31mred",
    "\udcff\udcfe.txt",
    "\u202egpj.exe",
    "zero\u200bwidth",
    "-rf",
    "--pre=x",
    "~",
    "$(id)",
    "*",
    " before",
    "behind ",
    "con",
    "a:b",
    "back\\slash",
    "looks\\nescaped",
    "\\xff",
    "[a]",
    "{a,b}",
    "!a",
    "#a",
    "é",
]


@pytest.mark.parametrize("folder", ["", "in\nside/"])
def test_every_name_that_is_shown_is_taken_back(ground: Make, folder: str):
    box = ground({f"{folder}{name}": f"needle {n}\n" for n, name in enumerate(ODD)}).open()
    found = [
        box.call("list_files", {"depth": 2}),
        box.call("glob", {"pattern": "**"}),
        box.call("grep", {"pattern": "needle"}),
        box.call("grep", {"pattern": "needle", "mode": "content"}),
    ]
    for reply in found:
        shown = [
            item if isinstance(item, str) else item["path"]
            for item in items(reply)
            if not folder or item != {"path": "in\\nside", "type": "directory"}
        ]
        assert len(set(shown)) == len(ODD)
        contents = {box.call("read_file", {"path": path}).text for path in shown}
        assert contents == {f"     1→needle {n}" for n in range(len(ODD))}
        assert all(char.isprintable() or char == "\n" for char in reply.text)
        reply.text.encode()


def test_a_folder_that_is_shown_can_be_searched(ground: Make):
    box = ground({"in\nside/a\udcff": "needle\n"}).open()
    (folder,) = paths(box.call("list_files", {}))
    assert folder == "in\\nside"
    assert paths(box.call("list_files", {"path": folder})) == ["in\\nside/a\\xff"]
    assert paths(box.call("glob", {"path": folder, "pattern": "*"})) == ["in\\nside/a\\xff"]
    assert paths(box.call("grep", {"path": f"{folder}/", "pattern": "needle"})) == ["in\\nside/a\\xff"]
    (tried,) = paths(box.call("grep", {"path": "in\\nside/a\\xff", "pattern": "needle"}))
    assert tried == "in\\nside/a\\xff"


@pytest.mark.parametrize("spelling", ["", ".", "./", "/", "./."])
def test_c4_no_path_a_dot_and_a_slash_are_the_first_root(ground: Make, spelling: str):
    box = ground({"a.py": "x\n"}).open()
    assert paths(box.call("list_files", {"path": spelling})) == ["a.py"]
    assert paths(box.call("glob", {"path": spelling, "pattern": "*"})) == ["a.py"]
    assert paths(box.call("grep", {"path": spelling, "pattern": "x"})) == ["a.py"]


def test_c4_claude_shows_absolute_paths_and_takes_them_back(ground: Make):
    box = ground({"src/a.py": "x\n"}).open(dialect="claude")
    root = box.files.roots[0]
    for reply in (box.call("Glob", {"pattern": "**"}), box.call("Grep", {"pattern": "x"})):
        assert paths(reply) == [f"{root}/src/a.py"]
    assert paths(box.call("LS", {"path": root})) == [f"{root}/src"]
    assert box.call("Read", {"file_path": f"{root}/src/a.py"}).status == "success"


def test_c4_what_lies_in_another_root_is_spelled_in_full(tmp_path: Path):
    for name in ("first/a.py", "second/b.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("x\n")
    other = str(tmp_path / "second")
    with Toolbox.open([tmp_path / "first", other], state=tmp_path / "state") as box:
        assert paths(box.call("glob", {"pattern": "**"})) == ["a.py"]
        assert paths(box.call("glob", {"pattern": "**", "path": other})) == [f"{other}/b.py"]
        assert paths(box.call("list_files", {"path": other})) == [f"{other}/b.py"]
        assert paths(box.call("grep", {"pattern": "x", "path": other})) == [f"{other}/b.py"]
        assert box.call("list_files", {"path": other}).text == f"{other}/\n  b.py"


# --- patterns: the cases of seed 004, section 3


AGENTS = {"main.py": "", "agents/a.py": "", "agents/b.txt": "", "agents/deep/c.py": "", "lib/agents/d.py": ""}


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.py", {"main.py"}),
        ("**/*.py", {"main.py", "agents/a.py", "agents/deep/c.py", "lib/agents/d.py"}),
        ("agents/*.py", {"agents/a.py"}),
        ("agents/**/*.py", {"agents/a.py", "agents/deep/c.py"}),
        ("**/agents/*.py", {"agents/a.py", "lib/agents/d.py"}),
        ("*/*", {"agents/a.py", "agents/b.txt"}),
        ("agents/?.{py,txt}", {"agents/a.py", "agents/b.txt"}),
        ("agents/[b-z]*", {"agents/b.txt"}),
    ],
)
@pytest.mark.parametrize("sort", ["modified", "none"])
def test_c71_a_star_stays_in_one_directory_and_two_cross(ground: Make, pattern: str, found: set[str], sort: str):
    reply = ground(AGENTS).open().call("glob", {"pattern": pattern, "sort": sort})
    assert set(paths(reply)) == found


@pytest.mark.parametrize(("pattern", "hint"), [("*.py", True), ("src", True), ("src/", False), ("src/*", False)])
def test_a_pattern_that_is_said_to_look_deeper_would_find_something(ground: Make, pattern: str, hint: bool):
    text = ground({"lib/src": "x\n", "lib/a.py": "x\n"}).open().call("glob", {"pattern": pattern}).text
    assert (f"**/{pattern}" in text) is hint


@pytest.mark.parametrize(
    ("glob", "found"), [("src/*.py", {"src/a.py"}), ("*.py", {"a.py"}), ("!src/**", {"a.py", "lib/src/a.py"})]
)
def test_a_filter_may_be_spelled_from_the_root_of_all(ground: Make, glob: str, found: set[str]):
    box = ground({"a.py": "x\n", "src/a.py": "x\n", "lib/src/a.py": "x\n"}).open()
    root = box.files.roots[0]
    spelled = f"!{root}/{glob[1:]}" if glob.startswith("!") else f"{root}/{glob}"
    assert set(paths(box.call("grep", {"pattern": "x", "glob": spelled}))) == found


# --- policy


@dataclass
class Secrets(OnPlaces):
    """One rule: nobody sees what is called secret."""

    name: str = "secrets"

    def decide(self, verb: Verb, target: str) -> Decision:
        if "secret" in target:
            return Decision(Verdict.DENY, "secrets stay out of the conversation")
        return Decision(Verdict.ALLOW, "")


@pytest.fixture
def guarded(ground: Make) -> Toolbox:
    files = {"a.py": "needle\n", "secret.py": "needle\n", "b/secret.py": "needle\n", "secrets/key.py": "needle\n"}
    return ground(files).open(policy=Secrets())


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_files", {"depth": 5, "hidden": True, "ignored": True}),
        ("glob", {"pattern": "**", "hidden": True, "ignored": True}),
        ("glob", {"pattern": "**/secret*", "sort": "none"}),
        ("grep", {"pattern": "needle"}),
        ("grep", {"pattern": "needle", "sort": "none"}),
        ("grep", {"pattern": "needle", "mode": "content"}),
        ("grep", {"pattern": "needle", "mode": "count"}),
        ("grep", {"pattern": "absent"}),
    ],
)
def test_u6_one_rule_hides_a_file_from_every_search(guarded: Toolbox, tool: str, arguments: dict[str, Any]):
    reply = guarded.call(tool, arguments)
    assert reply.status == "success"
    assert "secret" not in reply.text.replace(arguments.get("pattern", ""), "")
    assert "secret" not in str({name: value for name, value in reply.data.items() if name != "hint"})
    assert set(paths(reply)) <= {"a.py", "b"}


def test_u6_what_is_denied_is_not_counted_as_searched(guarded: Toolbox):
    reply = guarded.call("grep", {"pattern": "absent"})
    assert reply.data["searched"] == 1


@pytest.mark.parametrize("tool", ["list_files", "glob", "grep"])
def test_u6_a_denied_path_cannot_be_searched(guarded: Toolbox, tool: str):
    pattern = {} if tool == "list_files" else {"pattern": "needle"}
    assert guarded.call(tool, {"path": "secrets", **pattern}).code == "DENIED"
    assert guarded.call("grep", {"path": "b/secret.py", "pattern": "needle"}).code == "DENIED"


def test_u6_a_missing_file_names_no_denied_one(guarded: Toolbox):
    assert "secret" not in guarded.call("read_file", {"path": "sacret.py"}).text


# --- what comes back


@NAMED
def test_whatever_is_searched_changes_nothing_and_is_journalled(ground: Make, tool: str, arguments: dict[str, Any]):
    here = ground(TREE)
    box = here.open()
    reply = box.call(tool, arguments, call_id="one")
    assert here.tree(*TREE) == {name: text.encode() for name, text in TREE.items()}
    assert [entry.call.tool for entry in box.log()] == [tool]
    again = box.call(tool, arguments, call_id="one")
    assert (again.replayed, again.text, again.data) == (True, reply.text, reply.data)


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("list_files", {"path": "nothing"}, "NOT_FOUND"),
        ("glob", {"path": "nothing", "pattern": "*"}, "NOT_FOUND"),
        ("grep", {"path": "nothing", "pattern": "x"}, "NOT_FOUND"),
        ("list_files", {"path": "a.py"}, "NOT_DIRECTORY"),
        ("glob", {"path": "a.py", "pattern": "*"}, "NOT_DIRECTORY"),
        ("grep", {"path": "../a.py", "pattern": "x"}, "OUTSIDE_WORKSPACE"),
        ("list_files", {"path": "/etc"}, "OUTSIDE_WORKSPACE"),
        ("grep", {"pattern": ""}, "BAD_PATTERN"),
        ("grep", {"pattern": "a\nb"}, "BAD_PATTERN"),
        ("grep", {"pattern": "a\0b"}, "BAD_PATTERN"),
        ("grep", {"pattern": "a\ud800b"}, "BAD_PATTERN"),
        ("grep", {"pattern": "a" * 10_001}, "BAD_PATTERN"),
        ("grep", {"pattern": "(", "regex": True}, "BAD_REGEX"),
        ("grep", {"pattern": "x", "glob": "{"}, "BAD_GLOB"),
        ("grep", {"pattern": "x", "before": 41}, "BAD_ARGUMENTS"),
        ("grep", {"pattern": "x", "limit": 0}, "BAD_ARGUMENTS"),
        ("glob", {"pattern": ""}, "BAD_GLOB"),
        ("glob", {"pattern": "/"}, "BAD_GLOB"),
        ("glob", {"pattern": "a\0"}, "BAD_GLOB"),
        ("glob", {"pattern": "x/../y"}, "BAD_GLOB"),
        ("list_files", {"ignore": ["["]}, "BAD_GLOB"),
        ("list_files", {"depth": 11}, "BAD_ARGUMENTS"),
        ("list_files", {"cursor": "nonsense"}, "BAD_CURSOR"),
    ],
)
def test_a_search_that_cannot_be_is_refused(ground: Make, tool: str, arguments: dict[str, Any], code: str):
    reply = ground({"a.py": "x\n"}).open().call(tool, arguments)
    assert (reply.code, reply.error_source) == (code, "model")


def test_the_longest_that_a_search_may_take_can_be_set():
    assert Toolbox.in_memory({}).options.search_seconds == 20
    assert Toolbox.in_memory({}, search_seconds=0.5).options.search_seconds == 0.5


@NAMED
def test_c73_without_ripgrep_the_answer_is_the_same_and_says_so(tmp_path: Path, tool: str, arguments: dict[str, Any]):
    for n, (name, text) in enumerate(TREE.items()):
        (tmp_path / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ws" / name).write_text(text)
        os.utime(tmp_path / "ws" / name, (n, n))
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state") as best:
        assert isinstance(best.files, Workspace)
        weaker = Toolbox.on(best.files, best.store, searcher=DiskSearch(best.files, engines=("walk",)))
        expected, reply = best.call(tool, arguments), weaker.call(tool, arguments)
    assert items(reply) == items(expected)
    if tool != "list_files":  # which never was ripgrep's
        assert (expected.status, reply.status) == ("success", "partial")
        assert reply.data["fallback_used"]
        assert f"[Searched by {reply.data['engine']} instead of ripgrep: {reply.data['fallback_used']}.]" in reply.text


# --- the budget


NAMES = st.text(alphabet="ab\\\n\u202e\udcff", min_size=1, max_size=40)


@given(
    st.dictionaries(st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.sampled_from([1, 300, 5000]), max_size=6),
    st.sampled_from([1, 20, 150]),
)
@settings(max_examples=examples(12))
def test_c101_no_search_answers_with_more_than_20_000_tokens(tree: dict[str, int], times: int):
    files = {f"{name}{n}": ("needle" + "x" * width + "\n") * 3 for n in range(times) for name, width in tree.items()}
    box = Toolbox.in_memory(
        {name: text for name, text in files.items() if not any(other.startswith(f"{name}/") for other in files)}
    )
    for tool, arguments in CALLS:
        reply = box.call(tool, {**arguments, "limit": 1000})
        assert len(reply.text) <= MAX_REPLY_CHARS
        assert reply.status in ("success", "partial")
