"""One `tools/call` request: its session, order and thread, and the progress that is reported meanwhile.

In one session, changes run in the order in which they arrive, and every call waits for the changes before it: a client
that sends two edits and a read at once expects this order. No call waits for a command, which may never end. A change
to a file that a command has changed meanwhile is refused as stale, like any other.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitResult,
    ImageContent,
    InputRequiredResult,
    TextContent,
)

from handhold.core.errors import ToolError
from handhold.core.results import OutputChunk, Reply
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.formatting import replace_surrogates
from handhold.pipeline.cancellation import CancelToken, run_awaited, run_streamed
from handhold.server import approvals
from handhold.server.budget import is_within_budget, truncate_to_budget
from handhold.server.server_config import ServerConfig
from handhold.server.session_pool import NoSuchSession, PooledSession, SessionPool
from handhold.server.tools import ToolCatalog
from handhold.server.worker_pools import WorkerPoolFull, WorkerPools
from handhold.toolbox import Toolbox

Context = ServerRequestContext[Any, Any]
CallResponse = CallToolResult | InputRequiredResult

CALL_ID_META_KEYS = (
    "handhold/callId",
    "claudecode/toolUseId",
    "callId",
)  # in `_meta`; the first one that is present is used
TURN_META_KEY = "handhold/turn"
SESSION_META_KEY = "handhold/session"
FORK_META_KEY = "handhold/fork"
NEW_SESSION = "new"
MAX_NAME_CHARS = 200  # of a call id or a turn
PROGRESS_INTERVAL_SECONDS = 10.0  # between progress messages while a command prints nothing
OUTPUT_INTERVAL_SECONDS = 0.1  # between progress messages with output
MAX_MESSAGE_CHARS = 8_000  # of output in one progress message

NO_WORKSPACE = "NO_WORKSPACE"

BUSY_REPLY = Reply(
    "error",
    "Too many calls of this kind are running. Nothing was done. Retry when one of them has finished.",
    code="BUSY",
    error_source="infra",
)
NO_SESSION_REPLY = Reply(
    "error",
    'Unknown session handle. Omit `session`, or set it to "new" to start a session.',
    code="NO_SUCH_SESSION",
    error_source="model",
)


@dataclass(frozen=True)
class ToolCallRequest:
    """A parsed call with its session, and the person's answer if it was sent again to deliver one."""

    tool: str
    arguments: Mapping[str, Any]
    session: str
    call_id: str
    turn: str
    is_new_session: bool = False  # the result must contain the session's handle
    fork: str = ""  # the fork in which it works; empty: the workspace itself
    question: str = ""
    answer: ElicitResult | None = None
    asked: float = 0.0  # when


@dataclass
class CallHandler:
    """Executes the calls of all clients."""

    session_pool: SessionPool
    worker_pools: WorkerPools = field(default_factory=WorkerPools)

    async def handle(
        self, context: Context, params: CallToolRequestParams, config: ServerConfig, catalog: ToolCatalog
    ) -> CallResponse:
        if params.name not in catalog.kinds:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            call = self._parse_call(context, params, config)
        except NoSuchSession:
            return build_result(NO_SESSION_REPLY, config)
        session = self.session_pool.acquire(*_locate_session(config, call))
        try:
            outcome = await self._execute(context, session, call, catalog)
        finally:
            # Not awaited: this call may be cancelled, and its client waits.
            for unused in self.session_pool.release(session):
                asyncio.get_running_loop().run_in_executor(None, unused.close)
        if isinstance(outcome, InputRequiredResult):
            return outcome
        if outcome.code == NO_WORKSPACE:
            return build_result(outcome, config)
        session.handle = session.handle or self.session_pool.create_handle(config, call.session)
        return build_result(outcome, config, session.handle, is_new_session=call.is_new_session)

    def _parse_call(self, context: Context, params: CallToolRequestParams, config: ServerConfig) -> ToolCallRequest:
        meta: Mapping[str, Any] = context.meta or {}
        arguments = dict(params.arguments or {})
        extras = {name: arguments.pop(name, None) for name in ("session", "call_id", "fork")} if config.handles else {}
        call_id = next((meta[key] for key in CALL_ID_META_KEYS if meta.get(key)), extras.get("call_id") or "")
        joined = config.client_session.find(meta) if config.client_session else None
        session, turn = joined or (config.session, "")
        call = ToolCallRequest(
            params.name,
            arguments,
            session,
            _shorten_name(call_id),
            _shorten_name(meta.get(TURN_META_KEY) or turn),
            fork=str(meta.get(FORK_META_KEY) or extras.get("fork") or config.fork),
        )
        if params.request_state is not None:
            return self._add_approval_answer(call, params, config)
        handle = meta.get(SESSION_META_KEY) or extras.get("session")
        if handle == NEW_SESSION or not (handle or config.session):
            return replace(call, session=self.session_pool.generate_name(), is_new_session=True)
        return replace(call, session=self.session_pool.resolve_handle(config, str(handle))) if handle else call

    def _add_approval_answer(
        self, call: ToolCallRequest, params: CallToolRequestParams, config: ServerConfig
    ) -> ToolCallRequest:
        """Read the answer of a repeated call. Its sealed request state identifies the approval."""
        state = self.session_pool.unseal(config, approvals.APPROVAL_KEY, params.request_state or "")
        if state is None:
            raise MCPError(INVALID_PARAMS, "Invalid requestState: it was not issued by this server to this client")
        restored = json.loads(state)
        answer = (params.input_responses or {}).get(approvals.APPROVAL_KEY)
        answer = answer if isinstance(answer, ElicitResult) else None
        asked = restored.get("asked", 0.0)  # not in one that an earlier version sealed
        return replace(call, session=restored["session"], question=restored["question"], answer=answer, asked=asked)

    async def _execute(
        self, context: Context, session: PooledSession, call: ToolCallRequest, catalog: ToolCatalog
    ) -> Reply | InputRequiredResult:
        kind, loop = catalog.kinds[call.tool], asyncio.get_running_loop()
        questions: list[InputRequiredResult] = []
        seal = partial(self.session_pool.seal, session.config, approvals.APPROVAL_KEY)

        def run_call(cancel_token: CancelToken) -> Reply:
            client = approvals.ElicitationClient(context, loop, cancel_token, release)
            can_ask = approvals.can_elicit(context)
            try:
                with session.use_toolbox() as box:
                    if call.answer:
                        can_ask &= approvals.record_answer(
                            box.store, call.question, call.answer, client.name, call.asked
                        )
                    approvals.CURRENT_CLIENT.set(replace(client, can_ask=can_ask))
                    reply = box.call(
                        call.tool, call.arguments, call_id=call.call_id, turn=call.turn, cancel_token=cancel_token
                    )
                    if client.needs_retry and can_ask and (approval_id := reply.data.get("approval")):
                        questions.append(approvals.build_question(box.store.get_pending(approval_id), seal))
                    return fit_reply(reply, box, session.config, is_read_only=kind == "look")
            except (ToolError, OSError) as error:  # the workspace or the state cannot be opened
                text = format_plain_error(error) if isinstance(error, ToolError) else str(error)
                return Reply("error", replace_surrogates(text), code=NO_WORKSPACE)

        async def run() -> Reply:
            nonlocal release
            async with order_changes(session, is_change=kind == "change") as release:
                if not _wants_progress(context):
                    return await run_awaited(run_call, session.interrupt, executor)
                return await self._report_progress(context, run_streamed(run_call, session.interrupt, executor))

        release: Callable[[], None] = _do_nothing
        try:
            with self.worker_pools.reserve(kind) as executor:
                reply = await await_completion(run())
        except WorkerPoolFull:
            return BUSY_REPLY
        return questions[0] if questions else reply

    async def _report_progress(self, context: Context, chunks: AsyncGenerator[OutputChunk | Reply]) -> Reply:
        """Report output while the call runs, or that it is still running. Returns the reply."""
        loop = asyncio.get_running_loop()
        started, report_count = loop.time(), 0
        async with aclosing(chunks):
            next_chunk = asyncio.ensure_future(anext(chunks))
            try:
                while True:
                    await asyncio.wait([next_chunk], timeout=PROGRESS_INTERVAL_SECONDS)
                    report_count += 1
                    if not next_chunk.done():
                        await context.session.report_progress(
                            report_count, message=f"Running for {loop.time() - started:.0f} s"
                        )
                        continue
                    chunk = next_chunk.result()
                    if isinstance(chunk, Reply):
                        return chunk
                    await context.session.report_progress(report_count, message=_format_chunk(chunk))
                    await asyncio.sleep(OUTPUT_INTERVAL_SECONDS)
                    next_chunk = asyncio.ensure_future(anext(chunks))
            finally:
                if not next_chunk.done():
                    next_chunk.cancel()
                    await asyncio.wait([next_chunk])


def _locate_session(config: ServerConfig, call: ToolCallRequest) -> tuple[ServerConfig, str]:
    """Which session of the pool a call belongs to. All calls in one fork share one: it is one agent's."""
    if not call.fork:
        return config, call.session
    return replace(config, fork=call.fork), f"fork-{call.fork}"


def fit_reply(reply: Reply, box: Toolbox, config: ServerConfig, *, is_read_only: bool) -> Reply:
    """The reply within the client's budget. Files that were cut off do not count as fully read."""
    if is_within_budget(reply.text, config.budget):
        return reply
    for path in get_shown_paths(reply) if is_read_only and reply.status != "error" else ():
        box.record_truncation(path)
    return replace(reply, text=truncate_to_budget(reply.text, config.budget, config.state_folder / "results"))


async def await_completion(work: Any) -> Any:
    """Await `work`. On cancellation, cancel it once and wait until it has ended, so that nothing keeps running.

    The SDK repeats its cancellation until the call is gone; the shield absorbs the repetitions.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            task.cancel()
            await asyncio.wait([task])
        raise


@asynccontextmanager
async def order_changes(session: PooledSession, *, is_change: bool) -> AsyncGenerator[Callable[[], None]]:
    """Wait for the earlier changes of the session. The yielded function lets later calls proceed."""
    before, done = session.last_change, asyncio.get_running_loop().create_future()
    if is_change:
        session.last_change = done

    def release() -> None:
        if not done.done():
            done.set_result(None)
        if session.last_change is done:
            session.last_change = None

    try:
        if before is not None:
            await asyncio.shield(before)
        yield release
    finally:
        release()


def build_result(
    reply: Reply, config: ServerConfig, handle: str = "", *, is_new_session: bool = False
) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(type="text", text=reply.text)]
    content += [ImageContent(type="image", data=each.base64, mime_type=each.mime) for each in reply.images]
    if is_new_session and config.handles:
        content.append(
            TextContent(type="text", text=f"[New session. Pass its handle as `session` in later calls: {handle}]")
        )
    return CallToolResult(
        content=content,
        is_error=reply.status == "error",
        structured_content=build_structured_content(reply, config.budget) if config.structured else None,
        _meta={SESSION_META_KEY: handle} if handle else None,
    )


def get_shown_paths(reply: Reply) -> list[str]:
    """The paths of the files that a reply shows."""
    shown = [reply.data, *reply.data.get("files", ())]
    return [each["path"] for each in shown if isinstance(each, Mapping) and "path" in each]


def build_structured_content(reply: Reply, budget: int) -> dict[str, Any]:
    """The reply as data. Data that exceeds the budget is left out; the text says where the rest is."""
    outcome = {"status": reply.status, "code": reply.code or None, "replayed": reply.replayed}
    facts = {**outcome, **reply.data}
    return facts if is_within_budget(json.dumps(facts, ensure_ascii=False), budget) else {**outcome, "left_out": True}


def _do_nothing() -> None:
    """The release function of a call that nothing waits for."""


def _wants_progress(context: Context) -> bool:
    return bool(context.meta) and "progress_token" in context.meta


def _format_chunk(chunk: OutputChunk) -> str:
    omitted_chars = max(0, len(chunk.text) - MAX_MESSAGE_CHARS) + chunk.dropped_chars
    return chunk.text[-MAX_MESSAGE_CHARS:] + (f"\n… ({omitted_chars} characters omitted)" if omitted_chars else "")


def _shorten_name(name: object) -> str:
    """A name short enough for the journal. Long names are hashed, so different names stay different."""
    text = str(name)
    return text if len(text) <= MAX_NAME_CHARS else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
