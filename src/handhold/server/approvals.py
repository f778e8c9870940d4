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
from handhold.core.ports import Asked, Consent, Question, Store
from handhold.core.text.visible import all_lines_of, lines_of, on_one_line
from handhold.pipeline.cancellation import CancelToken

MOST_LINES = 200  # of a diff, besides those that are never cut
LOOK_UP = 0.2  # seconds between two looks whether the call is still wanted
APPROVAL = "approval"  # the one question of a result that asks
ANSWERS: Mapping[str, Consent] = {
    "yes, once": "once",
    "yes, for this session": "session",
    "yes, and all like it in this session": "pattern",
    "no": "no",
}

Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True)
class Client:
    """The client of a call that runs, as somebody to ask."""

    context: Context
    loop: asyncio.AbstractEventLoop
    live: CancelToken
    asking: Callable[[], object]  # told, in the event loop, that a person is being waited for

    @property
    def later(self) -> bool:
        return self.context.protocol_version in MODERN_PROTOCOL_VERSIONS

    @property
    def name(self) -> str:
        said = self.context.session.client_params
        return f"{on_one_line(said.client_info.name)} (MCP)" if said else "the client (MCP)"

    def ask(self, question: Question) -> Consent | None:
        """In the thread of the call. None: it cannot be asked now, so the question waits. Cancelled with the call."""
        if self.later:
            return None
        self.loop.call_soon_threadsafe(self.asking)
        schema = form(session=bool(question.session), pattern=bool(question.patterns))
        words = "\n".join(shown(question))
        related = self.context.request_id
        answer = asyncio.run_coroutine_threadsafe(self.context.session.elicit_form(words, schema, related), self.loop)
        try:
            while True:
                try:
                    return consent(answer.result(LOOK_UP))
                except TimeoutError:
                    self.live.raise_if_cancelled()
        except (MCPError, ValidationError):
            return None
        finally:
            answer.cancel()


CLIENT: ContextVar[Client | None] = ContextVar("client", default=None)


class Person:
    """The approver of every desk: whoever sits at the client whose call runs in this thread."""

    @property
    def present(self) -> bool:
        return CLIENT.get() is not None

    @property
    def name(self) -> str:
        client = CLIENT.get()
        return client.name if client else "the client (MCP)"

    def __call__(self, question: Question, /) -> Consent | None:
        client = CLIENT.get()
        return client.ask(question) if client else None


def can_ask(context: Context) -> bool:
    """Whether the client said that it can show a form. One that names no way at all is one of before there were two."""
    said = context.session.client_capabilities
    asks = said.elicitation if said else None
    return asks is not None and (asks.form is not None or asks.url is None)


# --- the question, and its answer


def shown(question: Question | Asked) -> Iterator[str]:
    rule = f" [{on_one_line(question.rule)}]" if isinstance(question, Question) and question.rule else ""
    yield f"{on_one_line(question.tool)}: {on_one_line(question.because)}{rule}"
    if question.command:
        yield "It ran on a shadow of the workspace:" if question.diff else "It would run:"
        yield from (f"    {line}" for line in all_lines_of(question.command))
    if question.diff:
        yield "It would change:"
        yield from lines_of(question.diff, most=MOST_LINES, uncut=question.uncut)


def form(*, session: bool, pattern: bool) -> dict[str, Any]:
    """What may be answered, in words that a client can show as they are."""
    possible = {"once": True, "session": session, "pattern": pattern, "no": True}
    words = [words for words, consent in ANSWERS.items() if possible[consent]]
    answer = {"type": "string", "title": "May this be done?", "enum": words}
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def consent(answer: ElicitResult) -> Consent:
    """Everything but a plain yes is a no."""
    said = (answer.content or {}).get("answer") if answer.action == "accept" else None
    return ANSWERS.get(str(said), "no")


# --- asked with the result, answered with the next call


def put(asked: Asked, sealed: Callable[[str], str]) -> InputRequiredResult:
    """The question as a result; what comes back with the answer names it, and is sealed."""
    words = ElicitRequestFormParams(
        message="\n".join(shown(asked)),
        requested_schema=form(session=bool(asked.allows), pattern=bool(asked.patterns)),
    )
    state = json.dumps({"question": asked.hash, "session": asked.session})
    return InputRequiredResult(input_requests={APPROVAL: ElicitRequest(params=words)}, request_state=sealed(state))


def record(store: Store, question: str, answer: ElicitResult, by: str) -> None:
    """The answer to a question that waits; one that waits no more is asked again by the call itself, if it must be."""
    try:
        asked = store.asked(question)
        said = consent(answer)
        if (said == "session" and not asked.allows) or (said == "pattern" and not asked.patterns):
            said = "once"
        store.answer(asked.hash, said, by=by)
    except ToolError:
        return
