"""What is told of a command: what happened to each path."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handhold.core.facts import CommandOutput, ExitStatus, SandboxStatus
from handhold.core.plans import DirectoryMetadata, Effects, FileChange, StagedContent
from handhold.core.ports.policy import Verb
from handhold.core.ports.shell import CommandResult
from handhold.core.requests import Run
from handhold.core.tools.run import (
    CHANGE_VERBS,
    MAX_LISTED_PATHS,
    classify_places,
    conclude,
    discard_effects,
    summarize_changes,
)

HELD = SandboxStatus("bubblewrap", shadow=True, network=False)


def thing(hash: str, size: int = 1, kind: Any = "file", entries: int = 1) -> StagedContent:
    return StagedContent("c/1", kind, hash, size, 0o644, (1, 1), 0, entries)


def told(*files: FileChange) -> list[tuple[str, str, str]]:
    return sorted((each.verb, each.path, each.source) for each in summarize_changes(files))


def finished(*files: FileChange, **facts) -> CommandResult:
    given = {
        "exit_status": ExitStatus(0, seconds=0.1),
        "output": CommandOutput(""),
        "sandbox": HELD,
        "undo_scope": "all",
        "cwd": "/ws",
    }
    return CommandResult(**{**given, **facts}, effects=Effects(files))


def test_what_came_went_and_changed_is_told_apart():
    assert told(
        FileChange("/a", None, thing("1")),
        FileChange("/b", thing("2"), thing("3")),
        FileChange("/c", thing("4"), None),
        FileChange("/d", DirectoryMetadata(0o755), DirectoryMetadata(0o700)),
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
    named = [path for each in summarize_changes(files) for path in (each.path, each.source) if path]
    assert sorted(named) == sorted(change.path for change in files)


def test_a_hundred_paths_are_named_and_all_are_counted():
    files = [FileChange(f"/{n:04}", None, thing(str(n))) for n in range(250)]
    ran = conclude(Run("x", 1, 1), finished(*files), str)
    assert len(ran.changed_paths) == MAX_LISTED_PATHS
    assert ran.totals == {"created": 250}
    assert ran.facts()["totals"] == {"created": 250}


def test_c81_a_failing_command_is_a_success_and_one_that_was_ended_is_not_whole():
    def status(end: ExitStatus, output: CommandOutput | None = None) -> str:
        return conclude(Run("x", 1, 1), finished(exit_status=end, output=output or CommandOutput("")), str).status

    assert status(ExitStatus(1)) == "success"
    assert status(ExitStatus(None, signal="SIGKILL")) == "partial"
    assert status(ExitStatus(None, timed_out=True)) == "partial"
    assert status(ExitStatus(0), CommandOutput("a", "b", omitted_lines=3, handle="/large_tool_results/x")) == "partial"


def test_a_preview_and_what_was_refused_say_that_nothing_counts():
    change = FileChange("/a", None, thing("1"))
    preview = conclude(Run("x", 1, 1, preview=True), finished(change), str)
    assert (preview.applied, preview.facts()["preview"]) == ("preview", True)
    assert discard_effects(preview).applied == "nothing"


def test_a_place_in_a_tree_came_or_went_with_it():
    tree = thing("t", 9, "tree", 4)
    files = [FileChange("/new", None, tree), FileChange("/old", tree, None), FileChange("/other", tree, tree)]
    assert list(classify_places(["/new/a/b", "/old"], files)) == [("/new/a/b", Verb.CREATE), ("/old", Verb.DELETE)]
    assert [verb for _, verb in classify_places(["/other/a"], files)] == list(CHANGE_VERBS)
