"""Turns results and errors into replies, in the wording of the dialect, and records them."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from handhold.core.errors import (
    Ambiguous,
    Denied,
    HunkAmbiguous,
    HunkMismatch,
    NoMatch,
    NotApproved,
    OverlappingMatches,
    Stale,
    ToolError,
)
from handhold.core.ports.dialect import ReplyFrame
from handhold.core.ports.journal import CallDecision
from handhold.core.problems import NO_PROBLEMS, Problems
from handhold.core.requests import Request, Run
from handhold.core.results import (
    ChangeResult,
    GlobResult,
    GrepResult,
    ImageResult,
    JobResult,
    ListResult,
    NotebookResult,
    PdfResult,
    Reply,
    Result,
    RunResult,
)
from handhold.core.text.display_text import format_id
from handhold.core.tools import run
from handhold.dialects.formatting import replace_surrogates
from handhold.dialects.hints import append_notes
from handhold.dialects.problems import format_problems
from handhold.pipeline import dropped_undo
from handhold.pipeline.context import CallContext, call_facts, elapsed_ms
from handhold.pipeline.idempotency import ReplayLog
from handhold.pipeline.redaction import KNOWN_ONLY, redact_facts
from handhold.pipeline.session import Session

# Errors that show parts of a file to be quoted in the next call: like what Read shows, they are not altered.
QUOTES_OF_FILES = (Ambiguous, HunkAmbiguous, HunkMismatch, NoMatch, OverlappingMatches, Stale)


class Responder:
    def __init__(self, session: Session, replays: ReplayLog) -> None:
        self._session = session
        self._replays = replays
        self._shown_conditions = ShownConditions()

    def reply(self, context: CallContext, request: Request, result: Result) -> Reply:
        if isinstance(result, ChangeResult) and context.problems:
            result = replace(result, problems=context.problems)
        text, facts = self._encode(context, request, result), {**result.facts(), **context.facts()}
        text = self._append_problems(text, context.problems)
        if dropped := context.dropped_undo:
            listed = dropped_undo.describe(dropped, self._session.name, self._visible_paths)
            facts |= {"undo_given_up": listed, "undo_given_up_count": len(dropped)}
            text = f"{text}\n\n{dropped_undo.explain(listed, len(dropped))}"
        if warning := self._session.hub.warning if self._session.hub else "":
            facts["hub"] = warning
            if not self._shown_conditions.is_known(context, "hub", warning):
                text = f"{text}\n\n[{warning}]"
        reply = Reply(
            status=result.status,
            text=text,
            data=facts,
            ui_extra=result.diff if isinstance(result, ChangeResult) else "",
            images=result.images if isinstance(result, ImageResult | PdfResult | NotebookResult) else (),
            result=result,
        )
        return self._frame(reply, context.call.tool, context.call.arguments, request)

    def reply_and_record(
        self,
        context: CallContext,
        request: Request,
        result: Result,
        *,
        durable: bool = False,
        decision: CallDecision | None = None,
    ) -> Reply:
        """For a call with nothing left to do."""
        reply = self.reply(context, request, result)
        self.record(context, reply, durable=durable, decision=decision)
        return reply

    def reply_discarded(self, context: CallContext, request: Run, ran: RunResult, error: ToolError) -> Reply:
        """For a command whose changes were discarded: the reason and the output."""
        call, nothing = context.call, run.discard_effects(ran)
        words = self._session.dialect.refuse(call.tool, error, hints=self._session.options.hints)
        printed = self._encode(context, request, nothing)
        facts = {**nothing.facts(), **error.facts(), **context.facts()}
        reply = Reply("error", f"{words}\n\n{printed}", facts, error.code, error.error_source.value)
        return self._frame(reply, call.tool, call.arguments, request)

    def refuse(
        self,
        tool: str,
        error: ToolError,
        started: float,
        arguments: str = "{}",
        repaired: tuple[str, ...] = (),
        problems: Problems = NO_PROBLEMS,
    ) -> Reply:
        session = self._session
        text = self._append_problems(session.dialect.refuse(tool, error, hints=session.options.hints), problems)
        if isinstance(error, Stale) and error.complete and session.options.hints:
            self._remember_stale(error)
        facts = {**error.facts(), **call_facts(repaired, problems)}
        if not isinstance(error, QUOTES_OF_FILES):
            redact = session.redaction.make_redactor(KNOWN_ONLY)  # an error does not wait for a walk
            text, facts = redact(text), redact_facts(facts, redact)
        facts["time_ms"] = elapsed_ms(started)
        return self._frame(Reply("error", text, facts, error.code, error.error_source.value), tool, arguments)

    def record(
        self, context: CallContext, reply: Reply, *, durable: bool = False, decision: CallDecision | None = None
    ) -> None:
        """Record the outcome of a call, and the call itself if it only read."""
        context.decision = decision
        journal, outcome = self._session.journal, self._replays.make_outcome(reply, context.call)
        if context.seq:
            journal.record_outcome(context.seq, outcome, durable=durable, decision=decision)
        else:
            journal.record_call(context.call, outcome, decision=decision)

    def _encode(self, context: CallContext, request: Request, result: Result) -> str:
        call, hints = context.call, self._session.options.hints
        call_id, result = format_id(call.call_id), self._shown_conditions.omit_known(context, result)
        return self._session.dialect.encode(call.tool, request, result, hints=hints, call_id=call_id)

    def _append_problems(self, text: str, problems: Problems) -> str:
        """Below everything else, in the words of the dialect; nothing if all is well."""
        words = getattr(self._session.dialect, "format_problems", format_problems)  # a custom dialect may have none
        return replace_surrogates(append_notes(text, words(problems))) if problems else text

    def _frame(self, reply: Reply, tool: str, arguments: str, request: Request | None = None) -> Reply:
        files = self._session.files

        def resolve_path() -> str:
            with suppress(ToolError):  # the reply itself says that a path cannot be resolved
                return files.resolve(request.paths[0]) if request and request.paths else ""
            return ""

        text = self._session.dialect.frame(reply, ReplyFrame(tool, arguments, files.roots[0], resolve_path))
        return reply if text is reply.text else replace(reply, text=text)

    def _visible_paths(self, paths: Sequence[str]) -> list[str]:
        return [self._session.format_path(path) for path in paths if self._session.is_visible(path)]

    def _remember_stale(self, stale: Stale) -> None:
        """Record the file as read: the refusal showed everything that changed."""
        snapshot = self._session.files.read(stale.path)
        if snapshot.hash == stale.now:
            self._session.tracker.record_diff(snapshot)


class ShownConditions:
    """Conditions that hold for the whole session, such as hidden files: a reply reports each when it is new or changed.

    Only the text leaves them out: `reply.data` has them in every reply.
    """

    def __init__(self) -> None:
        self._last_shown: dict[str, tuple[Any, CallContext]] = {}

    def omit_known(self, context: CallContext, result: Result) -> Result:
        match result:
            case RunResult():
                return replace(
                    result, sandbox_known=self.is_known(context, "command", (result.sandbox, result.undo_scope))
                )
            case JobResult(action="start"):
                return replace(result, sandbox_known=self.is_known(context, "job", result.sandbox))
            case GlobResult() | GrepResult() | ListResult() if reason := result.summary.outcome.fallback_reason:
                if not self.is_known(context, "search", reason):
                    return result
                outcome = replace(result.summary.outcome, fallback_reason="")
                return replace(result, summary=replace(result.summary, outcome=outcome))
            case _:
                return result

    def is_known(self, context: CallContext, kind: str, condition: Any) -> bool:
        """Whether an earlier call showed it. A call may word its reply twice; only the last one is sent."""
        shown, shown_by = self._last_shown.get(kind, (None, context))
        if shown != condition:
            self._last_shown[kind] = condition, context
            return False
        return shown_by is not context


def refusal_decision(error: ToolError) -> CallDecision | None:
    return CallDecision("refused", error.rule) if isinstance(error, Denied | NotApproved) else None
