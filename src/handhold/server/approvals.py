"""Approvals through the MCP client (elicitation).

In protocol revision 2025-11-25 the server asks while the call runs, and the call waits for the answer. In 2026-07-28
the call ends with the question; the approval stays pending in the store, and the client repeats the call with the
answer. Either way an answer applies to exactly what was shown. A client without elicitation gets a refusal that says
how to approve.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from handhold.core.errors import ToolError
from handhold.core.ports.approvals import Consent, PendingApproval, Question
from handhold.core.ports.store import Store
from handhold.core.text.display_text import iter_first_lines, iter_visible_lines, to_single_line
from handhold.logs import log_swallowed
from handhold.pipeline.cancellation import CancelToken

MAX_DIFF_LINES = 200  # in addition to the lines that are never truncated
MIN_READING_SECONDS = 0.3  # no person declines a question faster
CANCEL_POLL_SECONDS = 0.2  # how often a waiting call checks whether it was cancelled
APPROVAL_KEY = "approval"  # the only input request of a result
ANSWER_CHOICES: Mapping[str, Consent] = {
    "yes, once": Consent.ONCE,
    "yes, for this session": Consent.SESSION,
    "yes, and similar commands in this session": Consent.PATTERN,
    "no": Consent.NO,
}

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True)
class ElicitationClient:
    """The client of a running call."""

    context: Context
    loop: asyncio.AbstractEventLoop
    cancel_token: CancelToken
    on_waiting: Callable[[], object]  # called in the event loop when the call starts to wait for a person
    can_ask: bool = True  # a person, with a form

    @property
    def needs_retry(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def name(self) -> str:
        params = self.context.session.client_params
        return f"{to_single_line(params.client_info.name)} (MCP)" if params else "the client (MCP)"

    def notify_waiting(self) -> None:
        self.loop.call_soon_threadsafe(self.on_waiting)

    def ask(self, question: Question) -> Consent | None:
        """Ask from the thread of the call. None if the client cannot be asked now; the approval then stays pending.

        Raises Cancelled if the call is cancelled meanwhile.
        """
        if self.needs_retry:
            return None
        self.notify_waiting()
        schema = build_form(allow_session=bool(question.session), allow_pattern=bool(question.patterns))
        text = "\n".join(format_question(question))
        related, asked = self.context.request_id, time.time()
        answer = asyncio.run_coroutine_threadsafe(self.context.session.elicit_form(text, schema, related), self.loop)
        try:
            while True:
                try:
                    return parse_answer(answer.result(CANCEL_POLL_SECONDS), time.time() - asked)
                except TimeoutError:
                    self.cancel_token.raise_if_cancelled()
        except (MCPError, ValidationError):
            return None
        finally:
            answer.cancel()


CURRENT_CLIENT: ContextVar[ElicitationClient | None] = ContextVar("client", default=None)


class ElicitationApprover:
    """The approver of every session: asks through the client whose call runs in this thread.

    While somebody has the review page open, the question is asked there instead.
    """

    defers_to_page = True

    @property
    def present(self) -> bool:
        client = CURRENT_CLIENT.get()
        return client is not None and client.can_ask

    def notify_waiting(self) -> None:
        """The call waits for the review page."""
        if client := CURRENT_CLIENT.get():
            client.notify_waiting()

    @property
    def name(self) -> str:
        client = CURRENT_CLIENT.get()
        return client.name if client else "the client (MCP)"

    def __call__(self, question: Question, /) -> Consent | None:
        client = CURRENT_CLIENT.get()
        return client.ask(question) if client else None


def can_elicit(context: Context) -> bool:
    """Whether the client can show a form. Older clients declare elicitation without naming a mode."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


# --- question and answer


def format_question(question: Question | PendingApproval) -> Iterator[str]:
    rule = f" [{to_single_line(question.rule)}]" if isinstance(question, Question) and question.rule else ""
    yield f"{to_single_line(question.tool)}: {to_single_line(question.because)}{rule}"
    if question.command:
        yield "Command, run on an overlay; nothing is applied yet:" if question.diff else "Command to run:"
        yield from (f"    {line}" for line in iter_visible_lines(question.command))
    if question.diff:
        yield "Changes:"
        yield from iter_first_lines(question.diff, max_lines=MAX_DIFF_LINES, uncut=question.uncut)


def build_form(*, allow_session: bool, allow_pattern: bool) -> dict[str, Any]:
    """The possible answers, as text that a client can show unchanged."""
    possible = {"once": True, "session": allow_session, "pattern": allow_pattern, "no": True}
    words = [words for words, consent in ANSWER_CHOICES.items() if possible[consent]]
    answer = {"type": "string", "title": "Allow this?", "enum": words}
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def parse_answer(answer: ElicitResult, seconds: float) -> Consent | None:
    """Anything but an explicit yes means no; None if nobody answered. Clients that run without a person cancel, or
    decline faster than somebody could have read the question."""
    if answer.action == "cancel" or (answer.action == "decline" and seconds < MIN_READING_SECONDS):
        return None
    choice = (answer.content or {}).get("answer") if answer.action == "accept" else None
    return ANSWER_CHOICES.get(str(choice), Consent.NO)


# --- asked in a result, answered with the next call


def build_question(approval: PendingApproval, seal: Callable[[str], str]) -> InputRequiredResult:
    """The question as a result. Its sealed request state identifies the approval when the answer comes back."""
    params = ElicitRequestFormParams(
        message="\n".join(format_question(approval)),
        requested_schema=build_form(allow_session=bool(approval.allows), allow_pattern=bool(approval.patterns)),
    )
    state = json.dumps({"question": approval.hash, "session": approval.session, "asked": time.time()})
    return InputRequiredResult(input_requests={APPROVAL_KEY: ElicitRequest(params=params)}, request_state=seal(state))


def record_answer(store: Store, question: str, answer: ElicitResult, by: str, asked: float) -> bool:
    """Record the answer to a pending approval; False if nobody answered. If it is no longer pending, the call asks
    again if it must."""
    choice = parse_answer(answer, time.time() - asked)
    if choice is None:
        return False
    try:
        approval = store.get_pending(question)
        if (choice == "session" and not approval.allows) or (choice == "pattern" and not approval.patterns):
            choice = "once"
        store.answer(approval.hash, choice, by=by)
    except ToolError:
        log_swallowed()
    return True
