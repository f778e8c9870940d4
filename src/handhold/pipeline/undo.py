"""Taking back: the same changes reversed, through the same door.

Calls of the file tools add up to one change. A command stands by itself, since its things change places one at a time;
so several calls with a command among them are taken back step by step, the newest first, each step all or nothing.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from handhold.core import history
from handhold.core.errors import (
    ContentDropped,
    Denied,
    NotApproved,
    PermissionRefused,
    TakenBackPartly,
    ToolError,
    UndoConflict,
    Unfinished,
)
from handhold.core.facts import Declared
from handhold.core.history import Step, Which
from handhold.core.plans import Bytes, Content, Directory, FileChange, Folder, Shelved, hash_of
from handhold.core.ports import Call, Decision, Entry, Files, Hiding, Outcome, Policy, Store, Verb, Verdict
from handhold.core.results import TakenBack
from handhold.core.text.names import spelled, unmistakable
from handhold.core.tools.refreshed import INDEX
from handhold.core.tools.run import verb_of
from handhold.pipeline.secret_files import SecretFiles
from handhold.pipeline.transactions import commit
from handhold.progress import counted

Way = Literal["undo", "redo"]


@dataclass(frozen=True)
class Readable:
    """What was changed, without what may not be read today. For a diff; whoever judges or approves sees all of it."""

    whole: "TakingBack"

    def content(self, content: Content, path: str) -> bytes | None:
        return self.whole.content(content, path)

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]:
        entries = self.whole.unfolded(content, path, most)
        return [(way, thing) for way, thing in entries if self.whole.is_visible(f"{path}/{unmistakable(way)}")]

    def declared(self, path: str) -> Declared | None:
        return self.whole.declared(path)


@dataclass(frozen=True)
class TakingBack:
    """The history of one session on a workspace."""

    files: Files
    store: Store
    session: str
    dialect: str
    policy: Policy
    hiding: Callable[[], Hiding | None]  # what file tools do not show today
    secret_files: SecretFiles  # what commands may not read or change today
    authorize: Callable[[Call, Sequence[FileChange], Sequence[FileChange]], Decision]  # by today's policy

    def carry_out(self, verb: Way, which: Which, *, preview: bool, keep_times: bool = False) -> TakenBack:
        """Undo or redo what is meant. Refused where it would lose a later change, or today's policy denies it.

        A file that gets other contents gets the time of now, so that whoever builds from it notices; with `keep_times`,
        the time that it had. An index of git always keeps it (`paths_to_renew`).
        """
        steps = [reversal(step) for step in reversed(self._steps(self._chosen(verb, which)))]
        self._check_policy(steps)
        self._can_be_had(steps)
        if not preview:
            self._commit(verb, which, steps, keep_times=keep_times)
        files = [change for step in steps for change in step.files]
        return TakenBack(
            verb=verb,
            calls=tuple(name for step in reversed(steps) for name in names(step)),
            paths=tuple(dict.fromkeys(spelled(change.path) for change in files if not change.of_directory)),
            preview=preview,
            diff=self._diff_without_hidden(files),
        )

    def shown(self, which: Which) -> str:
        """What was done, as a diff."""
        chosen = history.changes(self.store, self.session, which, undone=False if which.several else None)
        return self._diff_without_hidden([change for step in self._steps(chosen) for change in step.files])

    def _diff_without_hidden(self, files: Sequence[FileChange]) -> str:
        """Without contents that a file has which may not be read, under any name."""
        hidden = self._hidden_contents(files, self.hiding())
        return self.diff([change for change in files if not {hash_of(change.before), hash_of(change.after)} & hidden])

    def diff(self, files: Sequence[FileChange]) -> str:
        """Of files that may be read today."""
        shown = [change for change in files if self.is_visible(change.path)]
        return history.diff_of(shown, Readable(self), self.files.roots)

    def diff_for_approval(self, files: Sequence[FileChange], places: Collection[str]) -> tuple[str, int] | None:
        return history.diff_for_approval(files, places, self, self.files.roots)

    def content(self, content: Content, path: str) -> bytes | None:
        """What it holds, wherever that is; None if it is nowhere, or no file or link."""
        if isinstance(content, Bytes):
            return content.data
        data = self.files.shelved(content, path) if isinstance(content, Shelved) else None
        # A file that a command made and an edit changed since is neither in its slot nor at its path.
        return data if data is not None or isinstance(content, Directory | Folder) else self.store.get(content.hash)

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]:
        return self.files.unfolded(content, path, most)

    def declared(self, path: str) -> Declared | None:
        return self.files.declared(path)

    def _chosen(self, verb: Way, which: Which) -> list[Entry]:
        if verb == "undo":
            return history.changes(self.store, self.session, which, undone=False)
        return history.undos(self.store, self.session, which)

    def _steps(self, chosen: Sequence[Entry]) -> list[Step]:
        return history.steps(self.store, self.session, chosen)

    # --- whether it may be done today

    def is_visible(self, place: str) -> bool:
        return self.policy.may(Verb.READ, place).verdict is not Verdict.DENY

    def _check_policy(self, steps: Sequence[Step]) -> None:
        """Denied if it would touch what may not be read or changed, or bring such content under another name."""
        files = [change for step in steps for change in (*step.files, *self._within(step.files))]
        for change in files:
            for verb in (Verb.READ, verb_of(change)):
                judgement = self.secret_files.policy.may(verb, change.path)
                if judgement.verdict is Verdict.DENY:
                    raise Denied(change.path, judgement.because, judgement.rule, remedy=judgement.remedy)
        hidden = self._hidden_contents(files, self.secret_files.withheld_hiding)
        if copied := next((change.path for change in files if change.after and hash_of(change.after) in hidden), None):
            raise Denied(copied, "it would get the content of a file that may not be read", "secrets")

    def _within(self, files: Sequence[FileChange]) -> Iterator[FileChange]:
        """What comes and goes with whole folders."""
        for change in files:
            for tree in (change.before, change.after):
                if isinstance(tree, Shelved) and tree.kind == "tree":
                    for way, thing in self.files.unfolded(tree, change.path, tree.entries):
                        sides = (None, thing) if tree is change.after else (thing, None)
                        yield FileChange(f"{change.path}/{unmistakable(way)}", *sides)

    def _hidden_contents(self, files: Sequence[FileChange], hiding: Hiding | None) -> set[str | None]:
        """The hashes of files that are hidden today, as far as they are of a size with one of these."""
        if hiding is None:
            return set()
        sides = (side for change in files for side in (change.before, change.after))
        sizes = {side.size for side in sides if side is not None and not isinstance(side, Directory | Folder)} - {0}
        looks = ((place, self.files.look(place)) for place in hiding.places())
        return {
            self.files.fingerprint(place)[1]
            for place, look in looks
            if look and look.kind == "file" and look.identity.size in sizes
        }

    # --- whether it can be done

    def _can_be_had(self, steps: Sequence[Step]) -> None:
        """ContentDropped if what was there is no longer kept; UndoConflict if a path was changed since."""
        gone = tuple(change.path for step in steps for change in step.files if self._is_gone(change))
        if gone:
            raise ContentDropped(gone)
        by_then = ByThen()
        changed: list[str] = []
        for step in steps:
            files = counted(step.files, "files looked at")
            changed += [change.path for change in files if not self._will_stand(change, by_then)]
            by_then.add(step.files)
        if changed:
            raise UndoConflict(tuple(dict.fromkeys(changed)))

    def _is_gone(self, change: FileChange) -> bool:
        match change.after:
            case None | Directory() | Folder():
                return False
            case Shelved() as thing:
                return not self.files.on_shelf(thing)
            case content:
                return not self.store.has(content.hash)

    def _will_stand(self, change: FileChange, by_then: "ByThen") -> bool:
        """Whether a path will be its `before` when its turn comes, as far as that can be told."""
        if change.path in by_then.left:
            return alike(by_then.left[change.path], change.before)
        # A folder around it, or a thing in it, goes or comes first: its own step will look.
        if by_then.is_near(change.path):
            return True
        try:
            return self._stands(change.path, change.before)
        except PermissionRefused:  # a folder above is closed, as the command left it: the commit opens it and looks
            return True

    def _stands(self, path: str, content: Content | None) -> bool:
        if isinstance(content, Shelved | Folder):
            return self.files.stands(path, content)
        look = self.files.look(path)
        if content is None or look is None:
            return content is None and look is None
        if isinstance(content, Directory):
            return look.kind == "directory"
        return look.kind == "file" and self.files.fingerprint(path)[1] == content.hash

    # --- doing it

    def _commit(self, verb: Way, which: Which, steps: Sequence[Step], *, keep_times: bool) -> None:
        batch = self.store.entries(last=1)[-1].seq if len(steps) > 1 else 0
        for n, step in enumerate(steps):
            try:
                self._commit_step(verb, which, step, batch, keep_times=keep_times)
            except Unfinished:
                raise
            except ToolError as error:
                if not n:
                    raise
                done, left = ([name for each in part for name in names(each)] for part in (steps[:n], steps[n:]))
                paths = error.facts().get("paths") or [error.facts().get("path", "")]
                raise TakenBackPartly(verb, tuple(done), tuple(left), error.code, tuple(paths)) from error

    def _commit_step(self, verb: Way, which: Which, step: Step, batch: int, *, keep_times: bool) -> None:
        arguments = {"calls": names(step)} | ({"batch": batch} if batch else {})
        call = Call(self.session, which.turn, "", verb, json.dumps(arguments), self.dialect)
        seq = self.store.begin(call)
        try:
            decision = self.authorize(call, step.files, tuple(self._within(step.files)))
            with self.store.alone():
                commit(
                    self.files,
                    self.store,
                    seq,
                    step.files,
                    lambda _: Outcome("success", None, 0.0, None),
                    decision=decision,
                    takes_back=[entry.seq for entry in step.entries],
                    renew=frozenset() if keep_times else paths_to_renew(step.files),
                )
        except Unfinished:
            raise
        except ToolError as error:
            refused = Decision("refused", error.rule) if isinstance(error, Denied | NotApproved) else None
            self.store.settle(seq, Outcome("error", error.code, 0.0, None), durable=False, decision=refused)
            raise


def reversal(step: Step) -> Step:
    return Step(step.entries, tuple(change.reversed() for change in reversed(step.files)))


def paths_to_renew(files: Sequence[FileChange]) -> frozenset[str]:
    """All paths except git indexes: git does not read files that are older than its index, it trusts their times."""
    return frozenset(change.path for change in files if not INDEX.fullmatch(change.path))


def names(step: Step) -> list[str]:
    return [history.name_of(entry) for entry in step.entries]


def alike(left: Content | None, wanted: Content | None) -> bool:
    """Whether what one step leaves is what the next one wants. Of a folder, its own step will see what is in it."""
    return (is_folder(left) and is_folder(wanted)) or hash_of(left) == hash_of(wanted)


def is_folder(content: Content | None) -> bool:
    return isinstance(content, Directory | Folder) or (isinstance(content, Shelved) and content.kind == "tree")


class ByThen:
    """What the steps before leave."""

    def __init__(self) -> None:
        self.left: dict[str, Content | None] = {}
        self._above: set[str] = set()

    def add(self, files: Sequence[FileChange]) -> None:
        for change in files:
            if any(isinstance(side, Shelved) and side.kind == "tree" for side in (change.before, change.after)):
                # What goes or comes along with a whole folder was told by no step so far.
                self.left = {path: left for path, left in self.left.items() if not path.startswith(f"{change.path}/")}
            self.left[change.path] = change.after
            self._above.update(folders_above(change.path))

    def is_near(self, path: str) -> bool:
        """Whether it lies in one of them, or one of them in it."""
        return path in self._above or any(folder in self.left for folder in folders_above(path))


def folders_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path
