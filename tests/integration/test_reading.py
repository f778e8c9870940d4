"""What a read answers: pages within their budget, folders, what has not changed, and many files at once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handhold import Reply, Toolbox
from handhold.core.facts import PageLine
from handhold.core.ports.policy import Decision, Verb, Verdict
from handhold.core.text.lines import split_lines
from handhold.core.tools import text_page
from handhold.core.tools.read_many import allocate_chars
from handhold.dialects.handhold import MAX_REPLY_CHARS
from tests.integration.conftest import Files, Ground
from tests.scale import examples
from tests.suites.policies import OnPlaces

Make = Callable[[Files], Ground]


def ask(box: Toolbox, path: str = "a.txt", **arguments: Any) -> Reply:
    return box.call("read_file", {"path": path, **arguments})


def several(box: Toolbox, *paths: str, **arguments: Any) -> Reply:
    return box.call("read_files", {"paths": list(paths), **arguments})


def numbered(count: int, width: int = 0) -> str:
    return "".join(f"line {n} {'x' * width}\n" for n in range(1, count + 1))


class Hides(OnPlaces):
    """Denies reading whatever has this in its path."""

    name = "hides"

    def __init__(self, part: str) -> None:
        self.part = part

    def decide(self, verb: Verb, path: str) -> Decision:
        return Decision(Verdict.DENY if self.part in path else Verdict.ALLOW, "it is hidden")


# --- folders


def test_c24_a_folder_that_is_read_lists_itself_by_one_level(ground: Make):
    box = ground({"d/sub/deep.txt": "x", "d/b.txt": "x", "d/.hidden": "x", "other": "x"}).open()
    reply = ask(box, "d")
    assert reply.status == "success"
    assert reply.data["entries"] == [{"path": "d/sub", "type": "directory"}, {"path": "d/b.txt", "type": "file"}]
    assert reply.text.split("\n\n")[0] == box.call("list_files", {"path": "d"}).text.split("\n\n")[0]


def test_c24_a_listing_that_a_read_began_goes_on_with_the_list(ground: Make):
    box = ground({f"d/{n:03}": "x" for n in range(450)}).open()
    reply = ask(box, "d")
    assert (reply.status, len(reply.data["entries"])) == ("partial", 200)
    assert f'list_files and cursor="{reply.data["cursor"]}"' in reply.text
    rest = box.call("list_files", {"path": "d", "cursor": reply.data["cursor"]})
    assert [entry["path"] for entry in rest.data["entries"]] == [f"d/{n:03}" for n in range(200, 400)]


def test_d4_a_folder_is_refused_where_the_source_refuses_it(ground: Make):
    box = ground({"d/a.txt": "x"}).open(dialect="claude")
    reply = box.call("Read", {"file_path": "d"})
    assert reply.code == "IS_DIRECTORY"
    assert reply.text == "<tool_use_error>Illegal operation on a directory. read</tool_use_error>"


def test_u6_a_folder_that_is_read_shows_no_denied_name(ground: Make):
    box = ground({"d/a.txt": "x", "d/secret": "x"}).open(policy=Hides("secret"))
    assert [entry["path"] for entry in ask(box, "d").data["entries"]] == ["d/a.txt"]


# --- near names


def test_c24_u6_of_names_near_a_missing_one_only_those_are_told_that_may_be_seen(ground: Make):
    files = {f"secret{n}/main.py": "x" for n in range(20)} | {"src/main.py": "x"}
    box = ground(files).open(policy=Hides("secret"))
    reply = ask(box, "lib/main.py")
    assert (reply.code, reply.data["near"]) == ("NOT_FOUND", ["src/main.py"])
    assert "secret" not in reply.text


def test_c24_at_most_five_names_are_told_and_the_likeliest_first(ground: Make):
    box = ground({f"{n}/main.py": "x" for n in range(9)} | {"Main.py": "x", "app/src/main.py": "x"}).open()
    assert ask(box, "src/main.py").data["near"][0] == "app/src/main.py"
    assert ask(box, "main.py").data["near"] == ["Main.py", *(f"{n}/main.py" for n in range(4))]


# --- what has not changed


def test_a_page_that_was_shown_and_is_the_same_is_answered_by_one_line_on_request(ground: Make):
    box = ground({"a.txt": numbered(450)}).open()
    assert ask(box, limit=200).text == ask(box, limit=200).text  # nobody said that it need not be shown
    reply = ask(box, limit=200, if_changed=True)
    assert reply.status == "success"
    assert len(reply.text.splitlines()) == 1
    assert reply.data["unchanged"]
    facts = ("path", "offset", "lines", "next_offset", "total_lines")
    assert [reply.data[name] for name in facts] == ["a.txt", 1, 200, 201, 450]
    assert ask(box, offset=50, limit=100, if_changed=True).data["unchanged"]


def test_a_page_that_was_not_shown_is_shown(ground: Make):
    here = ground({"a.txt": numbered(450)})
    box = here.open()
    assert "line 1 " in ask(box, limit=200, if_changed=True).text
    assert "line 300 " in ask(box, offset=150, limit=200, if_changed=True).text
    assert "line 1 " in ask(here.open(session="other"), limit=200, if_changed=True).text


def test_a_page_of_a_file_that_changed_is_shown_and_says_how(ground: Make):
    here = ground({"a.txt": "one\ntwo\n"})
    box = here.open()
    ask(box)
    here.write("a.txt", b"one\n2\n")
    reply = ask(box, if_changed=True)
    assert "     2→2" in reply.text
    assert "-two\n+2" in reply.text


def test_a_rewrite_with_the_same_bytes_is_no_change(ground: Make):
    here = ground({"a.txt": "one\ntwo\n"})
    box = here.open()
    ask(box)
    here.write("a.txt", b"one\ntwo\n")
    assert ask(box, if_changed=True).data["unchanged"]


def test_what_the_session_wrote_itself_it_was_not_shown(ground: Make):
    box = ground({"a.txt": numbered(100)}).open()
    ask(box)
    box.call("edit_file", {"path": "a.txt", "old_string": "line 50 \n", "new_string": ""})
    assert "    50→line 51 " in ask(box, if_changed=True).text
    assert ask(box, if_changed=True).data["unchanged"]
    box.call("write_file", {"path": "b.txt", "content": "x\n"})
    assert "     1→x" in ask(box, "b.txt", if_changed=True).text


def test_a_line_that_was_cut_was_not_shown(ground: Make):
    box = ground({"a.txt": "x" * 5000 + "\n"}).open()
    ask(box)
    assert "unchanged" not in ask(box, if_changed=True).data


def test_c13_lines_keep_no_numbers_through_a_diff_that_was_shown(ground: Make):
    """A refusal that shows all that changed tells what came and went, and not the lines that moved up unseen."""
    here = ground({"a.txt": numbered(200)})
    box = here.open()
    ask(box, limit=100)
    here.write("a.txt", "".join(f"line {n} \n" for n in range(21, 201)).encode())
    assert box.call("edit_file", {"path": "a.txt", "old_string": "line 60 \n", "new_string": "z\n"}).code == "STALE"
    assert "line 110 " in ask(box, offset=81, limit=20, if_changed=True).text
    ask(box, offset=101)
    assert box.call("write_file", {"path": "a.txt", "content": "x\n"}).code == "PARTLY_READ"


def test_a_page_of_a_file_too_large_to_be_known_is_known_by_its_bytes(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    large = tmp_path / "ws" / "a.txt"
    with large.open("w") as file:
        file.write(numbered(1000))
        file.truncate(65 * 1024 * 1024)
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", session="s") as box:
        ask(box, limit=100)
        assert ask(box, limit=100, if_changed=True).data["unchanged"]
        with large.open("r+b") as file:
            file.write(b"LINE")
        assert "LINE 1 " in ask(box, limit=100, if_changed=True).text


# --- what changed


def test_c30_what_changed_is_bounded_and_within_the_budget(ground: Make):
    here = ground({"a.txt": numbered(5000, width=60)})
    box = here.open()
    ask(box)
    here.write("a.txt", numbered(5000, width=61).encode())
    reply = ask(box)
    assert reply.data["changed_since_last_read"]
    assert len(reply.text) <= MAX_REPLY_CHARS


# --- many files


def test_several_files_are_shown_in_one_reply_each_under_its_name(ground: Make):
    box = ground({"a.txt": "one\ntwo\n", "d/b.txt": "three\n", "empty": ""}).open()
    reply = several(box, "d/b.txt", "a.txt", "empty", "a.txt")
    assert reply.status == "success"
    assert (
        reply.text
        == "=== d/b.txt\n     1→three\n\n=== a.txt\n     1→one\n     2→two\n\n=== empty\n[The file is empty.]"
    )
    assert [file["path"] for file in reply.data["files"]] == ["d/b.txt", "a.txt", "empty"]


def test_a_file_that_cannot_be_shown_is_told_in_its_place(ground: Make):
    files = {"a.txt": "one\n", "d/b.txt": "two\n", "bin": b"\0\1", "secret": "x\n"}
    box = ground(files).open(policy=Hides("secret"))
    reply = several(box, "a.tyt", "a.txt", "d", "bin", "secret", "../out", "d/b.txt")
    assert reply.status == "partial"
    assert [file.get("code") for file in reply.data["files"]] == [
        *("NOT_FOUND", None, "IS_DIRECTORY", "BINARY_FILE", "DENIED", "OUTSIDE_WORKSPACE", None)
    ]
    assert reply.data["files"][0]["near"] == ["a.txt"]
    assert "     1→one" in reply.text
    assert "     1→two" in reply.text


def test_c11_of_several_files_each_is_seen_as_far_as_it_was_shown(ground: Make):
    box = ground({"small": "one\n", "large": numbered(5000, width=100)}).open()
    several(box, "small", "large")
    assert box.call("write_file", {"path": "small", "content": "two\n"}).status == "success"
    assert box.call("write_file", {"path": "large", "content": "two\n"}).code == "PARTLY_READ"
    assert box.call("edit_file", {"path": "large", "old_string": "line 7 ", "new_string": "7"}).status == "success"


def test_small_files_are_shown_whole_and_large_ones_share_the_rest(ground: Make):
    files = {"small": numbered(10), "one": numbered(9000, width=100), "other": numbered(9000, width=100)}
    reply = several(ground(files).open(), *files)
    small, one, other = reply.data["files"]
    assert reply.status == "partial"
    assert (small["more"], one["more"], other["more"]) == (False, True, True)
    assert one["lines"] == other["lines"]
    assert MAX_REPLY_CHARS * 0.9 < len(reply.text) <= MAX_REPLY_CHARS
    assert f"offset={one['next_offset']}" in reply.text


def test_a_limit_is_of_each_file(ground: Make):
    reply = several(ground({"a": numbered(10), "b": numbered(2)}).open(), "a", "b", limit=3)
    assert [(file["lines"], file["next_offset"]) for file in reply.data["files"]] == [(3, 4), (2, None)]


def test_c30_of_several_files_each_says_whether_it_changed(ground: Make):
    here = ground({"a.txt": "one\n", "b.txt": "one\n"})
    box = here.open()
    several(box, "a.txt", "b.txt")
    here.write("b.txt", b"two\n")
    reply = several(box, "a.txt", "b.txt")
    assert [file["changed_since_last_read"] for file in reply.data["files"]] == [False, True]
    assert "     1→two" in reply.text


@pytest.mark.parametrize("paths", [[], [f"{n}" for n in range(51)], "a", [3]])
def test_some_paths_and_not_too_many_are_wanted(ground: Make, paths: Any):
    assert ground({}).open().call("read_files", {"paths": paths}).code == "BAD_ARGUMENTS"


@given(st.lists(st.integers(0, 5000), min_size=1), st.integers(0, 20_000))
def test_room_is_always_shared_so_that_nobody_who_gets_less_than_they_need_gets_less_than_another(
    sizes: list[int], room: int
):
    parts = list(allocate_chars(sizes, room))
    assert sum(parts) <= room
    assert all(part <= size for part, size in zip(parts, sizes, strict=True))
    short = [part for part, size in zip(parts, sizes, strict=True) if part < size]
    assert all(part >= max(parts) - len(sizes) for part in short)
    assert not short or sum(parts) > room - len(sizes)


# --- the budget, whatever the content

CLAUDES = 80_000  # 60,000 of lines, and what two thousand numbers take
LINES = st.builds(
    lambda text, times: text * times,
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.sampled_from([0, 1, 9, 300, 3000]),
)
TEXTS = st.builds(
    lambda rows, times: "\n".join(rows * times), st.lists(LINES, max_size=6), st.sampled_from([1, 30, 900])
)
PLACES = st.one_of(st.none(), st.integers(0, 3000))


@given(TEXTS, TEXTS, PLACES, st.one_of(st.none(), st.integers(1, 3000)))
@example("x" * 41 + "\n", "", None, None)
@example(("y" * 33 + "\n") * 3000, ("z" * 33 + "\n") * 3000, 1, None)
@settings(max_examples=examples(60))
def test_c23_a_page_never_exceeds_its_budget_whatever_the_content(
    before: str, after: str, offset: int | None, limit: int | None
):
    for dialect, tool, path, budget in (
        ("handhold", "read_file", "path", MAX_REPLY_CHARS),
        ("claude", "Read", "file_path", CLAUDES),
    ):
        box = Toolbox.in_memory({"a.txt": before}, dialect=dialect, hints=True)
        given = {"offset": offset, "limit": limit}
        memory: Any = box.files
        for content in (before, after):
            memory.put("a.txt", content.encode())
            reply = box.call(tool, {path: "/ws/a.txt", **given})
            assert len(reply.text) <= budget
            assert reply.code in (None, "PAST_END", "PAGE_TOO_LONG", "TOO_LARGE", "BINARY_FILE")


@given(st.lists(TEXTS, min_size=1, max_size=50), st.integers(0, 20), st.sampled_from(["f", "n" * 250, "\u202e\n" * 50]))
@settings(max_examples=examples(40))
def test_c23_several_files_never_exceed_the_budget_of_one_whatever_is_in_them(
    texts: list[str], missing: int, name: str
):
    files = {f"{n}{name}": text for n, text in enumerate(texts)}
    box = Toolbox.in_memory(files)
    reply = several(box, *list(files)[: 50 - missing], *(f"{name}{n}" for n in range(missing)))
    assert len(reply.text) <= MAX_REPLY_CHARS
    for file in reply.data["files"]:
        if file["status"] != "error" and files[file["path"]]:
            assert file["lines"] >= 1
            assert file["more"] == (file["lines"] < len(split_lines(files[file["path"]])))


@given(st.lists(LINES.filter(lambda name: name.strip("./") and "/" not in name), max_size=40), st.sampled_from([1, 60]))
@settings(max_examples=examples(30))
def test_c23_a_folder_that_is_read_never_exceeds_the_budget(names: list[str], times: int):
    box = Toolbox.in_memory({f"d/{name[:200]}{n}": "x" for n in range(times) for name in names} | {"d/x": ""})
    assert len(ask(box, "d").text) <= MAX_REPLY_CHARS


@given(st.text(max_size=300), st.sampled_from([1, 1000]))
@settings(max_examples=examples(60))
def test_c23_a_refusal_never_exceeds_the_budget(path: str, times: int):
    for dialect, tool, argument in (("handhold", "read_file", "path"), ("claude", "Read", "file_path")):
        box = Toolbox.in_memory({"a": "x"}, dialect=dialect, hints=True)
        reply = box.call(tool, {argument: path * times})
        assert len(reply.text) <= 8000


def test_c23_a_line_number_of_any_length_is_counted():
    lines = tuple(PageLine("x" * 10) for _ in range(100))
    rows = [f"{n:>6}→{line.text}\n" for n, line in enumerate(lines, 10**12)]
    assert sum(map(len, rows)) == sum(text_page.count_line_chars(n, line) for n, line in enumerate(lines, 10**12))
    assert len(text_page.fit_lines(lines, 10**12, 10 * len(rows[0]))) == 10


# --- one line of many

LARGE = "".join(
    f"{n}: {'some text of a line that is rather long, as lines of programs are now and then ' * 2}\n"
    for n in range(1, 20_001)
)
NEW = "12345: another line\n"
OLD = split_lines(LARGE)[12344] + "\n"
PATCH = f"*** Begin Patch\n*** Update File: a.txt\n@@\n-{OLD}+{NEW}*** End Patch"


@pytest.mark.parametrize(
    ("dialect", "tool", "arguments"),
    [
        ("handhold", "edit_file", {"path": "a.txt", "old_string": OLD, "new_string": NEW}),
        ("handhold", "multi_edit", {"path": "a.txt", "edits": [{"old_string": OLD, "new_string": NEW}]}),
        ("handhold", "apply_patch", {"patch": PATCH}),
        ("claude", "Edit", {"file_path": "a.txt", "old_string": OLD, "new_string": NEW}),
        ("claude", "MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": OLD, "new_string": NEW}]}),
        ("codex", "apply_patch", {"input": PATCH}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_u17_a_one_line_edit_in_20_000_lines_costs_under_500_tokens(
    ground: Make, dialect: str, tool: str, arguments: dict[str, Any]
):
    here = ground({"a.txt": LARGE})
    box = here.open(dialect=dialect)
    if dialect != "codex":
        reading = {"handhold": ("read_file", "path"), "claude": ("Read", "file_path")}[dialect]
        box.call(reading[0], {reading[1]: "a.txt", "limit": 100})
    reply = box.call(tool, arguments)
    assert reply.status == "success"
    assert len(reply.text) < 4 * 500
    assert here.read("a.txt") == LARGE.replace(OLD, NEW).encode()
