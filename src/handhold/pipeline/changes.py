"""A change set of a call: approved, committed, recorded, and remembered as seen."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from handhold.core.errors import BrokenSyntax, Stale, ToolError
from handhold.core.facts import FileIdentity
from handhold.core.plans import Changes, FileChange, FolderMtime, InlineContent
from handhold.core.ports.journal import CallDecision, JournalEntry, Outcome
from handhold.core.requests import Request
from handhold.core.results import Reply, Result
from handhold.logs import log_swallowed, warn_once
from handhold.pipeline.authorization import Authorizer
from handhold.pipeline.context import CallContext, elapsed_ms
from handhold.pipeline.idempotency import ReplayLog
from handhold.pipeline.responses import Responder
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import commit

if TYPE_CHECKING:
    from handhold.pipeline.checkers import CheckerRunner
    from handhold.pipeline.problems import ProblemFinder

UNDO_DROPPED = "The space for undo is used up, so the oldest changes can no longer be undone; see undo_bytes."


class ChangeCommitter:
    def __init__(
        self,
        session: Session,
        authorizer: Authorizer,
        responder: Responder,
        replays: ReplayLog,
        problems: "ProblemFinder | None" = None,
        checkers: "CheckerRunner | None" = None,
    ) -> None:
        self._session = session
        self._problems = problems
        self._checkers = checkers
        self._authorizer = authorizer
        self._responder = responder
        self._replays = replays

    def apply(self, context: CallContext, request: Request, plan: Changes) -> Reply:
        """What a file tool planned, if the policy and the approver agree."""

        def format_path(place: str) -> str:
            return self._session.format_requested_path(place, request)

        decision = self._authorizer.authorize_changes(
            context.call,
            plan.files,
            format_path,
            wait=context.token.wait_for,
            reached=self._find_other_names(request, plan.files),
            seq=context.seq,
        )
        try:
            return self.commit(
                context, request, plan.result, plan.files, decision, lambda written: self._remember(plan, written)
            )
        except Stale as stale:
            raise self._explain_stale(format_path(stale.path)) from None

    def _find_other_names(self, request: Request, files: Sequence[FileChange]) -> Mapping[str, Sequence[str]]:
        """The names by which the request has reached its files, and their hard links: these change, too."""
        session = self._session
        found = {names[0]: list(names) for names in map(session.view.reached_names, request.paths) if len(names) > 1}
        for change in files:
            if isinstance(change.before, InlineContent):
                names = session.files.list_hard_links(change.path)
                found.setdefault(change.path, [change.path]).extend(names)
        return found

    def commit(
        self,
        context: CallContext,
        request: Request,
        result: Result,
        files: Sequence[FileChange],
        decision: CallDecision,
        remember: Callable[[Mapping[str, FileIdentity]], None],
        times: Sequence[FolderMtime] = (),
    ) -> Reply:
        """Commit the changes. The reply names earlier calls whose undo is dropped to make room for this one's."""
        self._session.secret_files.learn_from(files)
        self._check(context, request, files)
        reply = self._responder.reply(context, request, result)

        def conclude(dropped: Sequence[JournalEntry]) -> Outcome:
            nonlocal reply
            if dropped:
                warn_once("undo", UNDO_DROPPED)
                context.dropped_undo = tuple(dropped)
                reply = self._responder.reply(context, request, result)
            return self._replays.make_outcome(reply, context.call)

        session = self._session
        with session.journal.exclusive():
            if first := self._find_concurrent_reply(context):
                return first
            written = commit(
                session.files,
                session.journal,
                context.seq,
                files,
                conclude,
                decision=decision,
                times=times,
                recording=session.recording,
                withheld=session.find_hidden_hashes(files),
            )
        context.decision, context.changed_count = decision, len(files)
        if self._checkers:
            self._checkers.add_changed(files, context.call.turn)
        try:
            remember(written)
        except ToolError:
            log_swallowed()  # the change is committed and recorded; at worst the session has to read a file again
        return reply

    def _check(self, context: CallContext, request: Request, files: Sequence[FileChange]) -> None:
        """Find what the changes break. Raise BrokenSyntax if they are refused for it."""
        if self._checkers:
            self._checkers.prepare(files)
        if self._problems is None:
            return
        found = self._problems.find(files, lambda place: self._session.format_requested_path(place, request))
        if found.told and self._session.refuse_broken:
            raise BrokenSyntax(found.told, found.total, found.files)
        context.problems = context.problems.merge(found)

    def _find_concurrent_reply(self, context: CallContext) -> Reply | None:
        """The reply of another process that got the same call meanwhile, and has carried it out."""
        first = self._replays.find_reply(context.call)
        if first:
            outcome = Outcome("error", "CALL_REPEATED", elapsed_ms(context.started), None)
            self._session.journal.record_outcome(context.seq, outcome, durable=False)
        return first

    def _remember(self, plan: Changes, written: Mapping[str, FileIdentity]) -> None:
        tracker = self._session.tracker
        for change in plan:
            kept = (
                self._session.options.records_write_as_read or not plan.is_full_write
            ) and not plan.invalidates_reads
            if kept and isinstance(change.after, InlineContent):
                fully = plan.is_full_write or change.path in plan.fully_seen_paths
                tracker.record_write(change.path, written[change.path], change.after.hash, fully=fully)
            else:
                tracker.read_records.drop(change.path)

    def _explain_stale(self, path: str) -> ToolError:
        """What changed between plan and commit, as if the plan had found it."""
        try:
            self._session.view.read_editable(path)
        except ToolError as error:
            return error
        return Stale(path)
