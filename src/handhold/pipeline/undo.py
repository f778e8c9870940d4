"""Undo and redo: reversed changes, committed like any other.

Consecutive calls of file tools are undone as one change. A command is a step of its own, since its files are moved one
at a time. So several calls with a command among them are undone step by step, newest first, each step all or nothing.
"""

import json
import re
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Literal

from handhold.core import history
from handhold.core.change_diff import shorten_path, sum_changes
from handhold.core.choices import Resolution
from handhold.core.errors import (
    Denied,
    NotApproved,
    PartialUndo,
    RollbackIncomplete,
    ToolError,
)
from handhold.core.history import Target, UndoStep, has_staged_content, resolve_target
from handhold.core.plans import Directory, DirectoryMetadata, FileChange, StagedContent, hash_or_none
from handhold.core.ports.approvals import RunPaused
from handhold.core.ports.files import HiddenPaths
from handhold.core.ports.journal import Call, CallDecision, JournalEntry, Outcome
from handhold.core.ports.policy import Verb, Verdict
from handhold.core.results import Reply, UndoResult
from handhold.core.text.path_escaping import escape_ambiguous, format_path
from handhold.core.tools.git_refresh import INDEX_PATH
from handhold.core.tools.run import classify_change
from handhold.pipeline.authorization import Authorizer
from handhold.pipeline.cancellation import CancelToken
from handhold.pipeline.change_contents import ChangeContents, is_current
from handhold.pipeline.context import elapsed_ms
from handhold.pipeline.git_objects import find_used_repositories, leave_objects
from handhold.pipeline.responses import Responder
from handhold.pipeline.reversal_notes import format_notes
from handhold.pipeline.reversal_plan import ReversalPlanner
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import commit, recover

Direction = Literal["undo", "redo"]
MERGED_REF_PATH = re.compile(r".*/\.git/refs/handhold(?:/.*)?", re.DOTALL)


class UndoService:
    """Undo, redo and diffs of one session on a workspace."""

    def __init__(
        self, session: Session, contents: ChangeContents, authorizer: Authorizer, responder: Responder
    ) -> None:
        self._session = session
        self._files = session.files
        self._journal = session.journal
        self._contents = contents
        self._authorizer = authorizer
        self._responder = responder

    def reverse(
        self,
        direction: Direction,
        target: Target | JournalEntry | None,
        *,
        preview: bool,
        keep_times: bool,
        with_foreign: bool = False,
        take: Resolution | None = None,
    ) -> Reply:
        started, chosen = perf_counter(), resolve_target(target)
        try:
            recover(self._files, self._journal)
            entries = self._choose(direction, chosen, with_foreign=with_foreign)
            result = self._reverse(direction, chosen, entries, take, preview=preview, keep_times=keep_times)
        except RunPaused as paused:
            raise paused.reason from None
        except ToolError as error:
            return self._responder.refuse(direction, error, started)
        facts = {**result.facts(), "time_ms": elapsed_ms(started)}
        text = format_reversal(result, self._files.roots)
        return Reply("success", text, facts, ui_extra=result.diff, result=result)

    def _reverse(
        self,
        direction: Direction,
        target: Target,
        chosen: list[JournalEntry],
        take: Resolution | None,
        *,
        preview: bool,
        keep_times: bool,
    ) -> UndoResult:
        """Undo or redo a target. Refused if it would lose a later change, or today's policy denies it. Later changes
        of texts stay; `take` decides where they touch the same lines.

        A file whose contents change gets the current time, so that build tools notice; with `keep_times`, its old
        time. A git index always gets its old time (`renewable_paths`).
        """
        steps = [self._leave_changed_refs(reverse_step(step)) for step in reversed(self._steps(chosen))]
        used = find_used_repositories(steps, self._files, self._journal, self._session.name)
        steps = [leave_objects(step, used) for step in steps]
        self._check_policy(steps)
        planner = ReversalPlanner(self._session, self._contents, take)
        steps = planner.plan(steps)
        self._check_policy(steps)  # also what is merged, and what is put beside
        if not preview:
            self._commit(direction, target, steps, keep_times=keep_times)
            self._session.confirm_change()
        files = [change for step in steps for change in step.changes]
        return UndoResult(
            verb=direction,
            calls=tuple(name for step in reversed(steps) for name in name_calls(step)),
            paths=tuple(dict.fromkeys(format_path(change.path) for change in files if not change.is_directory)),
            preview=preview,
            diff=self._diff_visible(files),
            used_repositories=tuple(sorted(used)),
            not_kept=tuple(path for step in steps for path in list_not_kept(step.entries)),
            kept_lines=planner.kept_lines,
            left=tuple(planner.left),
            saved=planner.saved,
        )

    def diff(self, target: Target | JournalEntry | None) -> str:
        """The changes of a target as a diff; of an entry, also if another session made it."""
        if isinstance(target, JournalEntry):
            return self._contents.diff(self._journal.changes_of(target.seq))
        target = resolve_target(target)
        undone = False if target.is_multiple else None
        chosen = history.find_changes(self._journal, self._session.name, target, undone=undone)
        if len(chosen) > 1:  # the net change: each file once
            files = [change for entry in chosen for change in self._journal.changes_of(entry.seq)]
            return self._diff_visible(sum_changes(files, self._contents))
        return self._diff_visible([change for step in self._steps(chosen) for change in step.files])

    def _diff_visible(self, files: Sequence[FileChange]) -> str:
        """The diff without contents of files that may not be read, under any name."""
        hidden = self._hidden_contents(files, self._session.hidden_paths)
        return self._contents.diff(
            [change for change in files if not {hash_or_none(change.before), hash_or_none(change.after)} & hidden]
        )

    def _choose(self, direction: Direction, target: Target, *, with_foreign: bool) -> list[JournalEntry]:
        if direction == "undo":
            return history.find_changes(
                self._journal, self._session.name, target, undone=False, with_foreign=with_foreign
            )
        return history.find_undos(self._journal, self._session.name, target)

    def _steps(self, chosen: Sequence[JournalEntry]) -> list[UndoStep]:
        return history.build_undo_steps(self._journal, chosen)

    def _leave_changed_refs(self, step: UndoStep) -> UndoStep:
        """Without refs of a merge that changed since, because git packed them: they stay, the rest can be undone."""
        left = [
            change
            for change in step.files
            if not MERGED_REF_PATH.fullmatch(change.path) or is_current(self._files, change.path, change.before)
        ]
        return UndoStep(step.entries, tuple(left or step.files))

    # --- whether the policy allows it

    def _check_policy(self, steps: Sequence[UndoStep]) -> None:
        """Denied if it would touch what may not be read or changed, or copy such content to another path."""
        files = [change for step in steps for change in (*step.changes, *self._entries_within(step.changes))]
        for change in files:
            for verb in (Verb.READ, classify_change(change)):
                decision = self._session.secret_files.policy.decide(verb, change.path)
                if decision.verdict is Verdict.DENY:
                    raise Denied(change.path, decision.because, decision.rule, remedy=decision.remedy)
        hidden = self._hidden_contents(files, self._session.secret_files.masked_hidden_paths)
        if copied := next(
            (change.path for change in files if change.after and hash_or_none(change.after) in hidden), None
        ):
            raise Denied(copied, "it would receive the content of a file that may not be read", "secrets")

    def _entries_within(self, files: Sequence[FileChange]) -> Iterator[FileChange]:
        """The entries of folders that are moved whole."""
        for change in files:
            for tree in (change.before, change.after):
                if isinstance(tree, StagedContent) and tree.kind == "tree":
                    for way, entry in self._files.list_staged_tree(tree, change.path, tree.entry_count):
                        sides = (None, entry) if tree is change.after else (entry, None)
                        yield FileChange(f"{change.path}/{escape_ambiguous(way)}", *sides)

    def _hidden_contents(self, files: Sequence[FileChange], hidden: HiddenPaths | None) -> set[str | None]:
        """The hashes of files that are hidden today and have the size of one of these."""
        if hidden is None:
            return set()
        sides = (side for change in files for side in (change.before, change.after))
        sizes = {
            side.size for side in sides if side is not None and not isinstance(side, Directory | DirectoryMetadata)
        } - {0}
        stats = ((place, self._files.stat(place)) for place in hidden.paths())
        return {
            self._files.fingerprint(place)[1]
            for place, stat in stats
            if stat and stat.kind == "file" and stat.identity.size in sizes
        }

    # --- committing

    def _commit(self, direction: Direction, target: Target, steps: Sequence[UndoStep], *, keep_times: bool) -> None:
        batch = self._journal.entries(last=1)[-1].seq if len(steps) > 1 else 0
        for n, step in enumerate(steps):
            try:
                self._commit_step(direction, target, step, batch, keep_times=keep_times)
            except RollbackIncomplete:
                raise
            except ToolError as error:
                if not n:
                    raise
                done, left = ([name for each in part for name in name_calls(each)] for part in (steps[:n], steps[n:]))
                paths = error.facts().get("paths") or [error.facts().get("path", "")]
                raise PartialUndo(direction, tuple(done), tuple(left), error.code, tuple(paths)) from error

    def _commit_step(
        self, direction: Direction, target: Target, step: UndoStep, batch: int, *, keep_times: bool
    ) -> None:
        arguments = {"calls": name_calls(step)} | ({"batch": batch} if batch else {})
        call = Call(
            self._session.name, target.turn_name, "", direction, json.dumps(arguments), self._session.dialect.name
        )
        seq = self._journal.begin(call)
        try:
            decision = self._authorizer.authorize_reversal(
                call, step.changes, tuple(self._entries_within(step.files)), wait=CancelToken().wait_for
            )
            self._session.secret_files.learn_from(step.changes)
            is_staged = has_staged_content(step.files) or has_staged_content(step.merged)
            with self._journal.exclusive(), self._files.stage(step.merged if is_staged else ()) as staged:
                files = (*step.files, *(staged if is_staged else step.merged))
                commit(
                    self._files,
                    self._journal,
                    seq,
                    files,
                    lambda _: Outcome("success", None, 0.0, None),
                    decision=decision,
                    reverses=[entry.seq for entry in step.entries],
                    renew=frozenset() if keep_times else renewable_paths(files),
                    recording=self._session.recording,
                    withheld=self._session.find_hidden_hashes(files),
                )
        except RollbackIncomplete:
            raise
        except ToolError as error:
            refused = CallDecision("refused", error.rule) if isinstance(error, Denied | NotApproved) else None
            self._journal.record_outcome(seq, Outcome("error", error.code, 0.0, None), durable=False, decision=refused)
            raise


def format_reversal(result: UndoResult, roots: Sequence[str]) -> str:
    """What an undo or redo did, in one line. A redo names the undos that it reverses."""
    done, would = {"undo": ("Undid", "Would undo"), "redo": ("Redid what", "Would redo what")}[result.verb]
    calls = ", ".join(result.calls) + (" undid" if result.verb == "redo" else "")
    listed = ", ".join(shorten_path(path, roots) for path in result.paths[:10])
    more = f" and {len(result.paths) - 10} more" if len(result.paths) > 10 else ""
    listed = listed or ("nothing changed" if result.left else "only folders changed")
    return f"{would if result.preview else done} {calls}: {listed}{more}.{format_notes(result.facts(), roots)}"


def list_not_kept(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """The paths of recorded calls of others that cannot be undone."""
    for entry in entries:
        try:
            yield from json.loads(entry.call.arguments).get("not_kept", ())
        except (ValueError, AttributeError):  # a tampered journal; `verify` reports it
            continue


def reverse_step(step: UndoStep) -> UndoStep:
    return UndoStep(step.entries, tuple(change.invert() for change in reversed(step.files)))


def renewable_paths(files: Sequence[FileChange]) -> frozenset[str]:
    """All paths except git indexes: git trusts the times of files that are older than its index."""
    return frozenset(change.path for change in files if not INDEX_PATH.fullmatch(change.path))


def name_calls(step: UndoStep) -> list[str]:
    return [history.format_call_id(entry) for entry in step.entries]
