"""Run: plan a command, and report what it did when it has finished."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from handhold.core.change_diff import MAX_DIFFED_FILE_BYTES
from handhold.core.plans import (
    Command,
    Content,
    Directory,
    DirectoryMetadata,
    Effects,
    FileChange,
    JobAction,
    StagedContent,
)
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.ports.policy import Verb
from handhold.core.ports.shell import CommandResult, JobState
from handhold.core.read_tracker import ReadTracker
from handhold.core.requests import JobInput, JobOutput, JobStop, Run
from handhold.core.results import ChangedPath, ChangeVerb, JobResult, RunResult, SeenFileDiff

MAX_LISTED_PATHS = 100  # paths in a reply
MAX_DIFF_CHARS = 6_000  # of diffs of files that the session has read

CHANGE_VERBS = (Verb.CREATE, Verb.CHANGE, Verb.DELETE)

PathFormatter = Callable[[str], str]
ContentReader = Callable[[Content, str], bytes | None]


def plan(request: Run, files: GuardedView) -> Command:
    return Command(request)


def plan_job(request: JobOutput | JobInput | JobStop, files: GuardedView) -> JobAction:
    return JobAction(request)


# --- effects


def conclude(request: Run, result: CommandResult, format_path: PathFormatter) -> RunResult:
    """The result of a finished command, before any of its changes are applied. Git's data is last among the paths."""
    from handhold.core.policy.gitdir import is_git_data_path

    effects = result.effects or Effects()
    changed_paths = sorted(summarize_changes(effects.files), key=lambda each: (is_git_data_path(each.path), each.path))
    return RunResult(
        command=request.command,
        exit_status=result.exit_status,
        output=result.output,
        sandbox=result.sandbox,
        undo_scope=result.undo_scope,
        applied="preview" if request.preview else "all",
        changed_paths=tuple(
            replace(each, path=format_path(each.path), source=format_path(each.source) if each.source else "")
            for each in changed_paths[:MAX_LISTED_PATHS]
        ),
        totals=dict(Counter(each.verb for each in changed_paths)),
        conflicts=tuple((format_path(each.path), each.kind, each.kept_path) for each in effects.conflicts),
        protected=tuple(map(format_path, dict.fromkeys((*effects.protected, *effects.privileged)))),
        notes=(*result.notes, *effects.notes),
        refused_hosts=result.refused_hosts,
        cwd=result.cwd,
    )


def discard_effects(result: RunResult) -> RunResult:
    """The result if none of its changes are applied to the workspace."""
    return replace(result, applied="nothing", conflicts=(), seen_diffs=(), undiffed_paths=(), diff="")


def summarize_changes(files: Sequence[FileChange]) -> Iterator[ChangedPath]:
    """What happened to each path. Identical content that disappears at one path and appears at another was moved."""
    gone: defaultdict[tuple[str, str, int], list[FileChange]] = defaultdict(list)
    for change in files:
        if change.after is None and (key := _get_move_key(change.before)):
            gone[key].append(change)
    moved: set[str] = set()
    for change in files:
        key = _get_move_key(change.after) if change.before is None else None
        if key and gone[key]:
            source = gone[key].pop(0).path
            moved.add(source)
            yield _describe_change("moved", change.path, change.after, source)
        elif change.after is not None:
            verb: ChangeVerb = "created" if change.before is None else "changed"
            yield _describe_change(verb, change.path, change.after)
    for change in files:
        if change.after is None and change.path not in moved:
            yield _describe_change("deleted", change.path, change.before)


def _get_move_key(content: Content | None) -> tuple[str, str, int] | None:
    """What identifies content at another path. Empty files are all alike, so they have no key."""
    match content:
        case StagedContent(kind="file" | "tree" as kind, hash=hash, size=size) if size:
            return kind, hash, size
        case _:
            return None


def _describe_change(verb: ChangeVerb, path: str, content: Content | None, source: str = "") -> ChangedPath:
    match content:
        case StagedContent(kind="tree", entry_count=entries):
            return ChangedPath(verb, path, "folder", entries, source)
        case StagedContent(kind="link"):
            return ChangedPath(verb, path, "link", source=source)
        case StagedContent(kind="other"):
            return ChangedPath(verb, path, "other", source=source)
        case DirectoryMetadata() | Directory():
            return ChangedPath(verb, path, "folder", source=source)
        case _:
            return ChangedPath(verb, path, source=source)


# --- verbs for rules


def classify_change(change: FileChange) -> Verb:
    if change.before is None:
        return Verb.CREATE
    return Verb.DELETE if change.after is None else Verb.CHANGE


def classify_places(places: Sequence[str], files: Sequence[FileChange]) -> Iterator[tuple[str, Verb]]:
    """The verbs for places inside changed trees; where one tree replaces another, all of them apply."""
    verbs = {change.path: classify_change(change) for change in files}
    for place in places:
        above = place
        while above and above not in verbs:
            above = above.rpartition("/")[0]
        verb = verbs.get(above, Verb.CHANGE)
        yield from ((place, each) for each in (CHANGE_VERBS if verb is Verb.CHANGE else (verb,)))


# --- files that the session has read


def add_seen_diffs(
    result: RunResult,
    files: Sequence[FileChange],
    tracker: ReadTracker,
    read: ContentReader,
    format_path: PathFormatter,
) -> RunResult:
    """Add diffs of the files that the session has read, as far as there is room."""
    seen: list[SeenFileDiff] = []
    unseen: list[str] = []
    room = MAX_DIFF_CHARS
    for path, change in find_seen_changes(files, tracker):
        if not isinstance(change.after, StagedContent) or change.after.kind not in ("file", "tree"):
            continue  # deleted
        name = format_path(path)
        diff, complete = ("", False) if path != change.path else _diff_change(change, tracker, read, name)
        if not diff or len(diff) > room:
            unseen.append(name)
            continue
        room -= len(diff)
        seen.append(SeenFileDiff(name, diff, complete))
    return replace(result, seen_diffs=tuple(seen), undiffed_paths=tuple(unseen))


def _diff_change(change: FileChange, tracker: ReadTracker, read: ContentReader, name: str) -> tuple[str, bool]:
    sides = (change.before, change.after)
    if any(side and side.size > MAX_DIFFED_FILE_BYTES for side in sides):
        return "", False
    before, after = (read(side, change.path) if side else None for side in sides)
    return ("", False) if after is None else tracker.diff_against_seen(change.path, before, after, name)


def find_seen_changes(files: Sequence[FileChange], tracker: ReadTracker) -> Iterator[tuple[str, FileChange]]:
    """Files that the session has read and that differ now, each with its own change or that of a parent folder."""
    changes = {change.path: change for change in files}
    for path in sorted(tracker.read_records.paths_within(changes)):
        above = path
        while above and above not in changes:
            above = above.rpartition("/")[0]
        if above and not (above == path and _is_seen(changes[above], tracker)):
            yield path, changes[above]


def _is_seen(change: FileChange, tracker: ReadTracker) -> bool:
    """Whether the new content is what the session saw."""
    record = tracker.read_records.get(change.path, None)
    return record is not None and change.after is not None and record.hash == change.after.hash


# --- background commands


def conclude_job(action: Literal["start", "output", "input", "stop"], state: JobState) -> JobResult:
    return JobResult(
        job=state.job,
        running=state.running,
        exit_status=state.exit_status,
        output=state.output,
        offset=state.offset,
        next_offset=state.next_offset,
        sandbox=state.sandbox,
        action=action,
        undo_scope=state.undo_scope,
        notes=state.notes,
    )
