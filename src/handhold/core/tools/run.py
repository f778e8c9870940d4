"""Run: a command, which is a plan that only the world can finish, and what is told of it when it has."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from handhold.core.history import MOST_READ
from handhold.core.plans import Command, Content, Directory, Effects, FileChange, Folder, Job, Shelved
from handhold.core.policy.guard import GuardedView
from handhold.core.ports import Finished, JobState, Verb
from handhold.core.requests import JobInput, JobOutput, JobStop, Run
from handhold.core.results import Deed, JobShown, Ran, Seen, Touched
from handhold.core.tracker import Tracker

MOST_LISTED = 100  # paths in a reply
MOST_SHOWN = 6_000  # characters of diffs of files that the session had read

CHANGING = (Verb.CREATE, Verb.CHANGE, Verb.DELETE)

Spelled = Callable[[str], str]
Reader = Callable[[Content, str], bytes | None]


def plan(request: Run, files: GuardedView) -> Command:
    return Command(request)


def plan_job(request: JobOutput | JobInput | JobStop, files: GuardedView) -> Job:
    return Job(request)


# --- what it did


def conclude(request: Run, finished: Finished, spelled: Spelled) -> Ran:
    """What is known when a command has ended, and before anything of it counts."""
    effects = finished.effects or Effects()
    touched = sorted(deeds(effects.files), key=lambda each: each.path)
    return Ran(
        command=request.command,
        exit=finished.exit,
        output=finished.output,
        held=finished.held,
        undo=finished.undo,
        counts="preview" if request.preview else "all",
        touched=tuple(
            replace(each, path=spelled(each.path), source=spelled(each.source) if each.source else "")
            for each in touched[:MOST_LISTED]
        ),
        totals=dict(Counter(each.verb for each in touched)),
        conflicts=tuple((spelled(each.path), each.clash, each.kept) for each in effects.conflicts),
        protected=tuple(map(spelled, dict.fromkeys((*effects.protected, *effects.privileged)))),
        notes=(*finished.notes, *effects.notes),
        folder=finished.folder,
    )


def uncounted(ran: Ran) -> Ran:
    """The same, where nothing of it came into the workspace."""
    return replace(ran, counts="nothing", conflicts=(), seen=(), unseen=(), diff="")


def deeds(files: Sequence[FileChange]) -> Iterator[Touched]:
    """What happened to each path. What went in one place and came in another, the very same, was moved."""
    gone: defaultdict[tuple[str, str, int], list[FileChange]] = defaultdict(list)
    for change in files:
        if change.after is None and (key := _traveller(change.before)):
            gone[key].append(change)
    moved: set[str] = set()
    for change in files:
        key = _traveller(change.after) if change.before is None else None
        if key and gone[key]:
            source = gone[key].pop(0).path
            moved.add(source)
            yield _touched("moved", change.path, change.after, source)
        elif change.after is not None:
            verb: Deed = "created" if change.before is None else "changed"
            yield _touched(verb, change.path, change.after)
    for change in files:
        if change.after is None and change.path not in moved:
            yield _touched("deleted", change.path, change.before)


def _traveller(content: Content | None) -> tuple[str, str, int] | None:
    """What a thing is known by in another place. Empty files are all alike, so none of them is known."""
    match content:
        case Shelved(kind="file" | "tree" as kind, hash=hash, size=size) if size:
            return kind, hash, size
        case _:
            return None


def _touched(verb: Deed, path: str, content: Content | None, source: str = "") -> Touched:
    match content:
        case Shelved(kind="tree", entries=entries):
            return Touched(verb, path, "folder", entries, source)
        case Shelved(kind="link"):
            return Touched(verb, path, "link", source=source)
        case Shelved(kind="other"):
            return Touched(verb, path, "other", source=source)
        case Folder() | Directory():
            return Touched(verb, path, "folder", source=source)
        case _:
            return Touched(verb, path, source=source)


# --- what a rule may be about


def verb_of(change: FileChange) -> Verb:
    if change.before is None:
        return Verb.CREATE
    return Verb.DELETE if change.after is None else Verb.CHANGE


def within(places: Sequence[str], files: Sequence[FileChange]) -> Iterator[tuple[str, Verb]]:
    """What happened to places in things that change whole; where one tree replaces another, it may be anything."""
    verbs = {change.path: verb_of(change) for change in files}
    for place in places:
        above = place
        while above and above not in verbs:
            above = above.rpartition("/")[0]
        verb = verbs.get(above, Verb.CHANGE)
        yield from ((place, each) for each in (CHANGING if verb is Verb.CHANGE else (verb,)))


# --- what the session had read of it


def shown(ran: Ran, files: Sequence[FileChange], tracker: Tracker, read: Reader, spelled: Spelled) -> Ran:
    """With the files that the session knew, and how each differs now, while there is room."""
    seen: list[Seen] = []
    unseen: list[str] = []
    room = MOST_SHOWN
    for path, change in known(files, tracker):
        if not isinstance(change.after, Shelved) or change.after.kind not in ("file", "tree"):
            continue  # it is gone
        name = spelled(path)
        diff, complete = ("", False) if path != change.path else _difference(change, tracker, read, name)
        if not diff or len(diff) > room:
            unseen.append(name)
            continue
        room -= len(diff)
        seen.append(Seen(name, diff, complete))
    return replace(ran, seen=tuple(seen), unseen=tuple(unseen))


def _difference(change: FileChange, tracker: Tracker, read: Reader, name: str) -> tuple[str, bool]:
    sides = (change.before, change.after)
    if any(side and side.size > MOST_READ for side in sides):
        return "", False
    before, after = (read(side, change.path) if side else None for side in sides)
    return ("", False) if after is None else tracker.difference(change.path, before, after, name)


def known(files: Sequence[FileChange], tracker: Tracker) -> Iterator[tuple[str, FileChange]]:
    """What the session had read and is not the same now; with its change, or that of a folder that it lies in."""
    changes = {change.path: change for change in files}
    for path in sorted(tracker.marks.paths()):
        above = path
        while above and above not in changes:
            above = above.rpartition("/")[0]
        if above and not (above == path and _is_known(changes[above], tracker)):
            yield path, changes[above]


def _is_known(change: FileChange, tracker: Tracker) -> bool:
    """Whether the content that comes is what the session saw."""
    mark = tracker.marks.get(change.path, None)
    return mark is not None and change.after is not None and mark.hash == change.after.hash


# --- in the background


def conclude_job(asked: Literal["start", "output", "input", "stop"], state: JobState) -> JobShown:
    return JobShown(
        job=state.job,
        running=state.running,
        exit=state.exit,
        output=state.output,
        offset=state.offset,
        next_offset=state.next_offset,
        held=state.held,
        asked=asked,
    )
