"""One `tools/call`: whose it is, in which order and in which thread it runs, and what the client hears meanwhile.

Of one session, changes are made one after another as they came, and whatever comes after a change waits for it: a
client that sends two edits and a look at once means them in this order. Nobody waits for a command, which may never
end. A change that meets what a command did since is refused as stale, like any other.
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
from handhold.core.results import Printed, Reply
from handhold.dialects.plain import plain
from handhold.dialects.quoting import sendable
from handhold.pipeline.cancellation import CancelToken, run_awaited, run_streamed
from handhold.server import approvals
from handhold.server.budget import fits, fitted
from handhold.server.desks import Desk, Desks, NoSuchSession
from handhold.server.lanes import Full, Lanes
from handhold.server.serving import Serving
from handhold.server.tools import Tools
from handhold.toolbox import Toolbox

Context = ServerRequestContext[Any, Any]
Answered = CallToolResult | InputRequiredResult

CALL_ID = ("handhold/callId", "claudecode/toolUseId", "callId")  # in `_meta`; the first that is there
TURN = "handhold/turn"
SESSION = "handhold/session"
NEW = "new"
LONGEST_NAME = 200  # characters of a call id or a turn
PATIENCE = 10.0  # seconds without a word to whoever wants to hear of progress
PAUSE = 0.1  # seconds between two messages with output
LONGEST_MESSAGE = 8_000  # characters of output in one

NO_WORKSPACE = "NO_WORKSPACE"

BUSY = Reply(
    "error",
    "Too many calls of this kind run already. Nothing was done; send it again when one of them has ended.",
    code="BUSY",
    blame="infra",
)
NO_SESSION = Reply(
    "error",
    'This session handle was not handed out by this server to this client. Leave `session` out, or say "new".',
    code="NO_SUCH_SESSION",
    blame="model",
)


@dataclass(frozen=True)
class Asked:
    """A call, once it is known what it is and whose; with a person's answer, if it was sent again for that."""

    tool: str
    arguments: Mapping[str, Any]
    session: str
    call_id: str
    turn: str
    is_new: bool = False  # the session: the client must be told its handle
    question: str = ""
    answer: ElicitResult | None = None


@dataclass
class Calls:
    """Carries out the calls of all clients."""

    desks: Desks
    lanes: Lanes = field(default_factory=Lanes)

    async def answer(self, context: Context, params: CallToolRequestParams, serving: Serving, tools: Tools) -> Answered:
        if params.name not in tools.kinds:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            asked = self._asked(context, params, serving)
        except NoSuchSession:
            return result(NO_SESSION, serving)
        desk = self.desks.take(serving, asked.session)
        try:
            answered = await self._carried_out(context, desk, asked, tools)
        finally:
            for unused in self.desks.leave(desk):  # not awaited: this call may be cancelled, and its client waits
                asyncio.get_running_loop().run_in_executor(None, unused.close)
        if isinstance(answered, InputRequiredResult):
            return answered
        if answered.code == NO_WORKSPACE:
            return result(answered, serving)
        desk.handle = desk.handle or self.desks.handle(serving, asked.session)
        return result(answered, serving, desk.handle, is_new=asked.is_new)

    def _asked(self, context: Context, params: CallToolRequestParams, serving: Serving) -> Asked:
        meta: Mapping[str, Any] = context.meta or {}
        arguments = dict(params.arguments or {})
        said = {name: arguments.pop(name, None) for name in ("session", "call_id")} if serving.handles else {}
        call_id = next((meta[key] for key in CALL_ID if meta.get(key)), said.get("call_id") or "")
        asked = Asked(params.name, arguments, serving.session, _short(call_id), _short(meta.get(TURN, "")))
        if params.request_state is not None:
            return self._answered(asked, params, serving)
        handle = meta.get(SESSION) or said.get("session")
        if handle == NEW or not (handle or serving.session):
            return replace(asked, session=self.desks.mint(), is_new=True)
        return replace(asked, session=self.desks.named_by(serving, str(handle))) if handle else asked

    def _answered(self, asked: Asked, params: CallToolRequestParams, serving: Serving) -> Asked:
        """A call that comes again with an answer: what it was asked is in what it brings back, sealed."""
        state = self.desks.unsealed(serving, approvals.APPROVAL, params.request_state or "")
        if state is None:
            raise MCPError(INVALID_PARAMS, "This request state was not given by this server to this client")
        said = json.loads(state)
        answer = (params.input_responses or {}).get(approvals.APPROVAL)
        answer = answer if isinstance(answer, ElicitResult) else None
        return replace(asked, session=said["session"], question=said["question"], answer=answer)

    async def _carried_out(
        self, context: Context, desk: Desk, asked: Asked, tools: Tools
    ) -> Reply | InputRequiredResult:
        kind, loop = tools.kinds[asked.tool], asyncio.get_running_loop()
        questions: list[InputRequiredResult] = []
        seal = partial(self.desks.sealed, desk.serving, approvals.APPROVAL)

        def work(live: CancelToken) -> Reply:
            client = approvals.Client(context, loop, live, release)
            approvals.CLIENT.set(client if approvals.can_ask(context) else None)
            try:
                with desk.box() as box:
                    if asked.answer:
                        approvals.record(box.store, asked.question, asked.answer, client.name)
                    reply = box.call(
                        asked.tool, asked.arguments, call_id=asked.call_id, turn=asked.turn, cancel_token=live
                    )
                    if client.later and approvals.can_ask(context) and (waiting := reply.data.get("approval")):
                        questions.append(approvals.put(box.store.asked(waiting), seal))
                    return fitting(reply, box, desk.serving, is_look=kind == "look")
            except (ToolError, OSError) as error:  # no reply could be made: the workspace or the state cannot be opened
                words = plain(error) if isinstance(error, ToolError) else str(error)
                return Reply("error", sendable(words), code=NO_WORKSPACE)

        async def run() -> Reply:
            nonlocal release
            async with in_order(desk, changes=kind == "change") as release:
                if not _wants_progress(context):
                    return await run_awaited(work, desk.interrupt, lane)
                return await self._told_of(context, run_streamed(work, desk.interrupt, lane))

        release: Callable[[], None] = _nothing
        try:
            with self.lanes.place(kind) as lane:
                reply = await to_its_end(run())
        except Full:
            return BUSY
        return questions[0] if questions else reply

    async def _told_of(self, context: Context, pieces: AsyncGenerator[Printed | Reply]) -> Reply:
        """The reply; until then, what the command prints, and now and then that it still runs."""
        loop = asyncio.get_running_loop()
        started, said = loop.time(), 0
        async with aclosing(pieces):
            following = asyncio.ensure_future(anext(pieces))
            try:
                while True:
                    await asyncio.wait([following], timeout=PATIENCE)
                    said += 1
                    if not following.done():
                        await context.session.report_progress(
                            said, message=f"Running for {loop.time() - started:.0f} s"
                        )
                        continue
                    piece = following.result()
                    if isinstance(piece, Reply):
                        return piece
                    await context.session.report_progress(said, message=_message(piece))
                    await asyncio.sleep(PAUSE)
                    following = asyncio.ensure_future(anext(pieces))
            finally:
                if not following.done():
                    following.cancel()
                    await asyncio.wait([following])


def fitting(reply: Reply, box: Toolbox, serving: Serving, *, is_look: bool) -> Reply:
    """What a client gets of it, within its budget; what it is not shown, the session has not seen."""
    if fits(reply.text, serving.budget):
        return reply
    for path in paths_of(reply) if is_look and reply.status != "error" else ():
        box.tracker.saw_less(box.files.place(path))
    return replace(reply, text=fitted(reply.text, serving.budget, serving.folder / "results"))


async def to_its_end(work: Any) -> Any:
    """The same, and if it is cancelled, only when it has come to its end: nothing of it is left running.

    The SDK cancels again and again until a call has gone; what ends it needs to be told once, and then some time.
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
async def in_order(desk: Desk, *, changes: bool) -> AsyncGenerator[Callable[[], None]]:
    """After the changes that were asked for before this call; what it yields lets those behind it go ahead."""
    before, done = desk.change, asyncio.get_running_loop().create_future()
    if changes:
        desk.change = done

    def release() -> None:
        if not done.done():
            done.set_result(None)
        if desk.change is done:
            desk.change = None

    try:
        if before is not None:
            await asyncio.shield(before)
        yield release
    finally:
        release()


def result(reply: Reply, serving: Serving, handle: str = "", *, is_new: bool = False) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(type="text", text=reply.text)]
    content += [ImageContent(type="image", data=each.base64, mime_type=each.mime) for each in reply.images]
    if is_new and serving.handles:
        content.append(TextContent(type="text", text=f"[This is a new session. Its handle, for `session`: {handle}]"))
    return CallToolResult(
        content=content,
        is_error=reply.status == "error",
        structured_content=facts_of(reply, serving.budget) if serving.structured else None,
        _meta={SESSION: handle} if handle else None,
    )


def paths_of(reply: Reply) -> list[str]:
    """The files that it shows."""
    shown = [reply.data, *reply.data.get("files", ())]
    return [each["path"] for each in shown if isinstance(each, Mapping) and "path" in each]


def facts_of(reply: Reply, budget: int) -> dict[str, Any]:
    """What the text says, as data; too much of it is left out, since the text says where the rest is."""
    outcome = {"status": reply.status, "code": reply.code or None, "replayed": reply.replayed}
    facts = {**outcome, **reply.data}
    return facts if fits(json.dumps(facts, ensure_ascii=False), budget) else {**outcome, "left_out": True}


def _nothing() -> None:
    """Nobody waits."""


def _wants_progress(context: Context) -> bool:
    return bool(context.meta) and "progress_token" in context.meta


def _message(piece: Printed) -> str:
    over = max(0, len(piece.text) - LONGEST_MESSAGE) + piece.dropped
    return piece.text[-LONGEST_MESSAGE:] + (f"\n… ({over} characters are not shown here)" if over else "")


def _short(name: object) -> str:
    """A name that the journal keeps; two that differ stay different."""
    text = str(name)
    return text if len(text) <= LONGEST_NAME else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
