"""Carries out a call: decode, plan, decide, commit, record, reply.

Each step is a module of this package. Errors of a model, a policy or the machine do not raise: they are recorded and
returned as a reply.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

from handhold.core.errors import NoMatch, RollbackIncomplete, ToolError
from handhold.core.plans import Answer, Changes, Command, JobAction, Restart
from handhold.core.ports.approvals import RunPaused
from handhold.core.ports.files import RESULTS_PATH
from handhold.core.ports.journal import Call, CallDecision
from handhold.core.requests import Request
from handhold.core.results import Reply
from handhold.pipeline.cancellation import CancelToken
from handhold.pipeline.context import CallContext
from handhold.pipeline.idempotency import CallLocks, ReplayLog, canonicalize_arguments
from handhold.pipeline.planning import READ_REQUESTS, Planner
from handhold.pipeline.responses import Responder, refusal_decision
from handhold.pipeline.session import Session
from handhold.pipeline.traces import find_observer
from handhold.pipeline.transactions import recover

if TYPE_CHECKING:
    from handhold.pipeline.changes import ChangeCommitter
    from handhold.pipeline.checkers import CheckerRunner
    from handhold.pipeline.commands import CommandRunner


class CallExecutor:
    """Carries out the calls of one session. `changes` and `commands` are created when the first call needs them."""

    def __init__(
        self,
        session: Session,
        planner: Planner,
        changes: "Callable[[], ChangeCommitter]",
        commands: "Callable[[], CommandRunner]",
        responder: Responder,
        replays: ReplayLog,
        checkers: "CheckerRunner | None" = None,
    ) -> None:
        self._session = session
        self._planner = planner
        self._changes = changes
        self._commands = commands
        self._responder = responder
        self._replays = replays
        self._checkers = checkers
        self._locks = CallLocks()

    def execute(
        self, tool: str, arguments: Mapping[str, Any] | str, call_id: str, turn: str, token: CancelToken
    ) -> Reply:
        """The reply to a call; if it was carried out before, the reply it got then."""
        observer = find_observer()
        if observer is None:
            return self._execute(tool, arguments, call_id, turn, token)[0]
        return observer.observe(
            str(tool), arguments, call_id, lambda: self._execute(tool, arguments, call_id, turn, token)
        )

    def _execute(
        self, tool: str, arguments: Mapping[str, Any] | str, call_id: str, turn: str, token: CancelToken
    ) -> tuple[Reply, CallContext | None]:
        """The reply, and what is known about the call; None if it was refused before it was understood."""
        started, context = perf_counter(), None
        session = self._session
        try:
            recover(session.files, session.journal)
            canonical = canonicalize_arguments(tool, arguments)
            call = Call(session.name, turn, call_id, str(tool), canonical, session.dialect.name)
            context = CallContext(call, started, token)
            with self._locks.hold((turn, call_id)):
                first = self._replays.find_reply(call)
                reply = first or self._execute_new(context, arguments)
                if (first or context.seq) and reply.status != "error":
                    session.confirm_change()
                return reply, context
        except RunPaused as paused:
            raise paused.reason from None
        except ToolError as error:
            return self._responder.refuse(tool, error, started), context

    def _execute_new(self, context: CallContext, arguments: Mapping[str, Any] | str) -> Reply:
        call, started = context.call, context.started
        try:
            request, context.repaired = self._session.dialect.decode_and_repair(call.tool, arguments)
            if self._checkers:
                context.problems = self._checkers.report(call.turn)
            if not isinstance(request, READ_REQUESTS):
                context.seq = self._session.journal.begin(call)
            return self._dispatch(context, request)
        except ToolError as error:
            if isinstance(error, NoMatch):
                error.again = self._replays.failed_just_before(call)
            reply = self._responder.refuse(
                call.tool, error, started, call.arguments, context.repaired, context.problems
            )
            if not isinstance(error, RollbackIncomplete):  # that one stays open in the journal, to be rolled back
                self._responder.record(context, reply, decision=refusal_decision(error))
            return reply

    def _dispatch(self, context: CallContext, request: Request) -> Reply:
        """Plan the request, then do what its plan needs."""
        with_io_timeout, token = self._session.files.with_io_timeout, context.token
        with self._session.workspace_policy.links.held():
            plan, allowed = with_io_timeout(lambda: self._planner.plan(request), token.raise_if_cancelled)
            if isinstance(plan, Changes) and (files := tuple(change for change in plan if not change.is_noop)):
                return self._changes().apply(context, request, replace(plan, files=files))
        match plan:
            case Command():
                return self._commands().run(context, plan.request)
            case Restart():
                return self._commands().restart(context, request, allowed)
            case JobAction():
                return self._commands().answer_job(context, plan.request)
            case Answer() | Changes():
                return self._answer(context, request, plan, allowed)

    def _answer(
        self, context: CallContext, request: Request, plan: Answer | Changes, allowed: CallDecision | None
    ) -> Reply:
        """Reply to a call that changes nothing, and record what the model was shown."""
        tracker, pages = self._session.tracker, plan.pages if isinstance(plan, Answer) else ()
        result = plan.result
        if any(page.path.startswith(f"{RESULTS_PATH}/") for page in pages):
            result = self._session.redaction.redact_page(result, self._session.files.read_page)
        reply = self._responder.reply(context, request, result)
        hashes = [tracker.hash_page_file(page) for page in pages]
        with self._session.store.one_transaction():
            for page, hash in zip(pages, hashes, strict=True):
                tracker.record_page(page, hash)
            if isinstance(plan, Answer) and plan.parts:
                tracker.record_parts(plan.parts)
            self._responder.record(context, reply, decision=allowed)
        return reply
