"""Forks: what each changed, two of them compared, merged or dropped."""

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass

from handhold.backends.forks.fork_changes import ForkContents
from handhold.core.errors import ForkUnavailable, MergeConflict, ToolError
from handhold.core.text.diff import compute_hunks
from handhold.forks import Fork
from handhold.logs import log_swallowed, suppress_and_log
from handhold.review.diff_view import DiffView, build_view, parse_unified, split_by_file
from handhold.review.display import format_duration
from handhold.review.workspace import ReviewedWorkspace

MAX_LINES = 120
MAX_FILES = 60


@dataclass(frozen=True)
class ForkFile:
    path: str
    diff: DiffView
    text: str
    hash: str  # of what the fork has, also where the text does not show it


@dataclass(frozen=True)
class LastRunView:
    """The last command in a fork: what people call a check, if it is one."""

    command: str
    ok: bool
    outcome: str
    age: str
    took: str


@dataclass(frozen=True)
class ForkView:
    name: str
    age: str
    is_running: bool
    files: tuple[ForkFile, ...]  # as far as the diff shows them
    omissions: tuple[str, ...]  # what it says that it leaves out
    file_count: int  # of all
    problem: str
    digest: str
    last_run: "LastRunView | None"

    @property
    def is_cut(self) -> bool:
        return bool(self.omissions) or any(file.diff.is_cut for file in self.files)

    @property
    def added(self) -> int:
        return sum(file.diff.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.diff.removed for file in self.files)


@dataclass(frozen=True)
class ComparedFile:
    path: str
    one: ForkFile | None
    other: ForkFile | None

    @property
    def relation(self) -> str:
        if self.one and self.other:
            is_same = (self.one.text, self.one.hash) == (self.other.text, self.other.hash)
            return "same" if is_same else "differ"
        return "one" if self.one else "other"


def list_forks(workspace: ReviewedWorkspace) -> list[ForkView]:
    """Newest first; none if there can be none here."""
    try:
        forks = list(workspace.forks.forks)
    except ToolError:
        log_swallowed()
        return []
    views: list[ForkView] = []
    for fork in reversed(forks):
        with suppress_and_log(ForkUnavailable):  # dropped just now
            views.append(build_fork(fork))
    return views


def count_forks(workspace: ReviewedWorkspace) -> int:
    try:
        return sum(1 for _ in workspace.forks.forks)
    except ToolError:
        log_swallowed()
        return 0


def build_fork(fork: Fork) -> ForkView:
    try:
        found, problem = fork.inspect(), ""
    except ToolError as error:
        found, problem = ForkContents("", {}, ""), str(error)
    parts, omissions = split_by_file(found.diff)
    files = tuple(view_file(name, text, found.hashes.get(name, "")) for name, text in parts)
    age = format_duration(max(0.0, time.time() - fork.created))
    return ForkView(
        name=fork.name,
        age=age,
        is_running=fork.is_running,
        files=files,
        omissions=tuple(omissions),
        file_count=len(found.hashes),
        problem=problem,
        digest=found.digest,
        last_run=view_last_run(fork),
    )


def view_last_run(fork: Fork) -> LastRunView | None:
    run = fork.last_run
    if run is None:
        return None
    outcome = f"signal {-run.status}" if run.status < 0 else f"exit {run.status}"
    age = format_duration(max(0.0, time.time() - run.ended))
    return LastRunView(shlex.join(run.command), run.status == 0, outcome, age, format_duration(run.seconds))


def view_file(name: str, text: str, hash: str) -> ForkFile:
    hunks, notes = parse_unified(text)
    return ForkFile(name, build_view(name, hunks, limit=MAX_LINES, notes=notes), text, hash)


def compare_forks(one: ForkView, other: ForkView) -> list[ComparedFile]:
    by_path = [{file.path: file for file in fork.files} for fork in (one, other)]
    paths = sorted({*by_path[0], *by_path[1]})
    order = {"differ": 0, "same": 1, "one": 2, "other": 3}
    found = [ComparedFile(path, by_path[0].get(path), by_path[1].get(path)) for path in paths]
    return sorted(found, key=lambda file: (order[file.relation], file.path))


def diff_versions(file: ComparedFile, *, start: int = 0, limit: int) -> DiffView:
    """How two forks' versions of a file differ, at the places that they changed."""
    assert file.one
    assert file.other
    texts = (_added_text(file.one.text), _added_text(file.other.text))
    # Where the texts do not show the difference, such as in a binary file.
    notes = sorted({*file.one.diff.notes, *file.other.diff.notes})
    return build_view(file.path, list(compute_hunks(*texts)), start=start, limit=limit, notes=notes)


def _added_text(diff: str) -> str:
    """What a fork's version has at the places that it changed."""
    hunks, _ = parse_unified(diff)
    return "".join(f"{line.text}\n" for hunk in hunks for line in hunk.lines if line.sign != "-")


def describe_conflict(error: MergeConflict, workspace: ReviewedWorkspace) -> Sequence[tuple[str, str]]:
    """The paths that both changed, each with the reason."""
    return [(workspace.shorten(path), reason) for path, reason in zip(error.paths, error.reasons, strict=True)]
