"""A person, asked through the client.

Where the protocol lets a server ask while a call runs (2025-11-25), the call waits for the answer. Where it does not
(2026-07-28), the call ends with the question, which waits in the store, and the client sends it again with the
answer. Either way an answer is for exactly what was shown. A client that cannot ask anybody gets a refusal that says
how to approve.
"""

import asyncio
import json
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

MAX_DIFF_LINES = 200  # of a diff, besides those that are never cut
CANCEL_POLL_SECONDS = 0.2  # seconds between two looks whether the call is still wanted
APPROVAL_KEY = "approval"  # the one question of a result that asks
ANSWER_CHOICES: Mapping[str, Consent] = {
    "yes, once": Consent.ONCE,
    "yes, for this session": Consent.SESSION,
    "yes, and all like it in this session": Consent.PATTERN,
    "no": Consent.NO,
}

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True)
class ElicitationClient:
    """The client of a call that runs, as somebody to ask."""

    context: Context
    loop: asyncio.AbstractEventLoop
    cancel_token: CancelToken
    on_waiting: Callable[[], object]  # told, in the event loop, that a person is being waited for

    @property
    def needs_retry(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def name(self) -> str:
        params = self.context.session.client_params
        return f"{to_single_line(params.client_info.name)} (MCP)" if params else "the client (MCP)"

    def ask(self, question: Question) -> Consent | None:
        """In the thread of the call. None: it cannot be asked now, so the question waits. Cancelled with the call."""
        if self.needs_retry:
            return None
        self.loop.call_soon_threadsafe(self.on_waiting)
        schema = build_form(allow_session=bool(question.session), allow_pattern=bool(question.patterns))
        text = "\n".join(format_question(question))
        related = self.context.request_id
        answer = asyncio.run_coroutine_threadsafe(self.context.session.elicit_form(text, schema, related), self.loop)
        try:
            while True:
                try:
                    return parse_answer(answer.result(CANCEL_POLL_SECONDS))
                except TimeoutError:
                    self.cancel_token.raise_if_cancelled()
        except (MCPError, ValidationError):
            return None
        finally:
            answer.cancel()


CURRENT_CLIENT: ContextVar[ElicitationClient | None] = ContextVar("client", default=None)


class ElicitationApprover:
    """The approver of every session: whoever sits at the client whose call runs in this thread."""

    @property
    def present(self) -> bool:
        return CURRENT_CLIENT.get() is not None

    @property
    def name(self) -> str:
        client = CURRENT_CLIENT.get()
        return client.name if client else "the client (MCP)"

    def __call__(self, question: Question, /) -> Consent | None:
        client = CURRENT_CLIENT.get()
        return client.ask(question) if client else None


def can_elicit(context: Context) -> bool:
    """Whether the client said that it can show a form. One that names no way at all is one of before there were two."""
    capabilities = context.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


# --- the question, and its answer


def format_question(question: Question | PendingApproval) -> Iterator[str]:
    rule = f" [{to_single_line(question.rule)}]" if isinstance(question, Question) and question.rule else ""
    yield f"{to_single_line(question.tool)}: {to_single_line(question.because)}{rule}"
    if question.command:
        yield "It ran on a shadow of the workspace:" if question.diff else "It would run:"
        yield from (f"    {line}" for line in iter_visible_lines(question.command))
    if question.diff:
        yield "It would change:"
        yield from iter_first_lines(question.diff, max_lines=MAX_DIFF_LINES, uncut=question.uncut)


def build_form(*, allow_session: bool, allow_pattern: bool) -> dict[str, Any]:
    """What may be answered, in words that a client can show as they are."""
    possible = {"once": True, "session": allow_session, "pattern": allow_pattern, "no": True}
    words = [words for words, consent in ANSWER_CHOICES.items() if possible[consent]]
    answer = {"type": "string", "title": "May this be done?", "enum": words}
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def parse_answer(answer: ElicitResult) -> Consent:
    """Everything but a plain yes is a no."""
    choice = (answer.content or {}).get("answer") if answer.action == "accept" else None
    return ANSWER_CHOICES.get(str(choice), Consent.NO)


# --- asked with the result, answered with the next call


def build_question(approval: PendingApproval, seal: Callable[[str], str]) -> InputRequiredResult:
    """The question as a result; what comes back with the answer names it, and is sealed."""
    params = ElicitRequestFormParams(
        message="\n".join(format_question(approval)),
        requested_schema=build_form(allow_session=bool(approval.allows), allow_pattern=bool(approval.patterns)),
    )
    state = json.dumps({"question": approval.hash, "session": approval.session})
    return InputRequiredResult(input_requests={APPROVAL_KEY: ElicitRequest(params=params)}, request_state=seal(state))


def record_answer(store: Store, question: str, answer: ElicitResult, by: str) -> None:
    """The answer to a question that waits; one that waits no more is asked again by the call itself, if it must be."""
    try:
        approval = store.get_pending(question)
        choice = parse_answer(answer)
        if (choice == "session" and not approval.allows) or (choice == "pattern" and not approval.patterns):
            choice = "once"
        store.answer(approval.hash, choice, by=by)
    except ToolError:
        log_swallowed()
        return
