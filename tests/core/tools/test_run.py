"""What is told of a command: what happened to each path."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handhold.core.facts import Exit, Held, Output
from handhold.core.plans import Effects, FileChange, Folder, Shelved
from handhold.core.ports import Finished, Verb
from handhold.core.requests import Run
from handhold.core.tools.run import CHANGING, MOST_LISTED, conclude, deeds, uncounted, within

HELD = Held("bubblewrap", shadow=True, network=False)


def thing(hash: str, size: int = 1, kind: Any = "file", entries: int = 1) -> Shelved:
    return Shelved("c/1", kind, hash, size, 0o644, (1, 1), 0, entries)


def told(*files: FileChange) -> list[tuple[str, str, str]]:
    return sorted((each.verb, each.path, each.source) for each in deeds(files))


def finished(*files: FileChange, **facts) -> Finished:
    given = {"exit": Exit(0, seconds=0.1), "output": Output(""), "held": HELD, "undo": "all", "folder": "/ws"}
    return Finished(**{**given, **facts}, effects=Effects(files))


def test_what_came_went_and_changed_is_told_apart():
    assert told(
        FileChange("/a", None, thing("1")),
        FileChange("/b", thing("2"), thing("3")),
        FileChange("/c", thing("4"), None),
        FileChange("/d", Folder(0o755), Folder(0o700)),
    ) == [("changed", "/b", ""), ("changed", "/d", ""), ("created", "/a", ""), ("deleted", "/c", "")]


def test_the_same_thing_in_another_place_was_moved():
    tree = thing("t", 9, "tree", 4)
    assert told(
        FileChange("/new.py", None, thing("1")),
        FileChange("/old.py", thing("1"), None),
        FileChange("/lib", tree, None),
        FileChange("/src", None, tree),
    ) == [("moved", "/new.py", "/old.py"), ("moved", "/src", "/lib")]


def test_empty_files_are_all_alike_so_none_of_them_was_moved():
    gone, came = FileChange("/a", thing("0", 0), None), FileChange("/b", None, thing("0", 0))
    assert told(gone, came) == [("created", "/b", ""), ("deleted", "/a", "")]


@given(st.lists(st.tuples(st.sampled_from("gcx"), st.sampled_from("12")), max_size=8))
def test_every_change_is_told_exactly_once(kinds: list[tuple[str, str]]):
    sides = {
        "g": lambda hash: (thing(hash), None),
        "c": lambda hash: (None, thing(hash)),
        "x": lambda hash: (thing(hash), thing("9")),
    }
    files = [FileChange(f"/{n}", *sides[kind](hash)) for n, (kind, hash) in enumerate(kinds)]
    named = [path for each in deeds(files) for path in (each.path, each.source) if path]
    assert sorted(named) == sorted(change.path for change in files)


def test_a_hundred_paths_are_named_and_all_are_counted():
    files = [FileChange(f"/{n:04}", None, thing(str(n))) for n in range(250)]
    ran = conclude(Run("x", 1, 1), finished(*files), str)
    assert len(ran.touched) == MOST_LISTED
    assert ran.totals == {"created": 250}
    assert ran.facts()["totals"] == {"created": 250}


def test_c81_a_failing_command_is_a_success_and_one_that_was_ended_is_not_whole():
    def status(end: Exit, output: Output | None = None) -> str:
        return conclude(Run("x", 1, 1), finished(exit=end, output=output or Output("")), str).status

    assert status(Exit(1)) == "success"
    assert status(Exit(None, signal="SIGKILL")) == "partial"
    assert status(Exit(None, timed_out=True)) == "partial"
    assert status(Exit(0), Output("a", "b", left_out=3, handle="/large_tool_results/x")) == "partial"


def test_a_preview_and_what_was_refused_say_that_nothing_counts():
    change = FileChange("/a", None, thing("1"))
    preview = conclude(Run("x", 1, 1, preview=True), finished(change), str)
    assert (preview.counts, preview.facts()["preview"]) == ("preview", True)
    assert uncounted(preview).counts == "nothing"


def test_a_place_in_a_tree_came_or_went_with_it():
    tree = thing("t", 9, "tree", 4)
    files = [FileChange("/new", None, tree), FileChange("/old", tree, None), FileChange("/other", tree, tree)]
    assert list(within(["/new/a/b", "/old"], files)) == [("/new/a/b", Verb.CREATE), ("/old", Verb.DELETE)]
    assert [verb for _, verb in within(["/other/a"], files)] == list(CHANGING)
