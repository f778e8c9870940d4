"""A model server on loopback that says what a test wrote for it, in three vendors' protocols.

    with scripted([Use("bash", {"command": "ls"}), Use("bash", {"command": "pwd"})], "Done.") as model:
        client = OpenAI(base_url=model.url + "/v1", api_key="none", max_retries=0)
        ...
        assert model.results[0].text == "a.py"

Each argument of `scripted` is one turn of the model: a text, a `Use`, a list of both (several calls in one turn), or a
function that gets the request, with all of the conversation, and returns one of those. The request's path says which
protocol is spoken, and its `stream` whether in events: `/v1/chat/completions`, `/v1/responses`, `/v1/messages`, whatever
stands in front of them. `model.environment` has what the vendors' clients read from the environment.

What it was asked stands in `model.requests` (bodies, as they came) and `model.results`: all tool results, in the order
in which they came, each once, the same for every protocol.

It refuses (status 400, which no client tries again) what the vendors refuse: a call that was left without its result, a
result without its call; and beyond them a script at its end, and a script that uses a tool nobody declared. Every
refusal is in `model.refusals`, and leaving the `with` fails if there is one.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, ClassVar

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Use:
    """A call of a tool. Arguments that are text go to a free-form tool; `id` is given by the server if left out."""

    tool: str
    arguments: Mapping[str, Any] | str
    id: str = ""

    @property
    def json(self) -> str:
        return json.dumps(self.arguments)


Turn = str | Use | Sequence[str | Use]


@dataclass(frozen=True)
class Result:
    """What a model was told of a call. `error` is None where the protocol has no mark for it."""

    id: str
    text: str
    images: tuple[str, ...] = ()  # data URLs
    error: bool | None = None


class Refused(Exception):
    """What a vendor would answer with status 400."""


class Model:
    """The script, and what came of it."""

    def __init__(self, turns: Sequence[Turn | Callable[[Body], Turn]]) -> None:
        self.url = ""
        self.requests: list[Body] = []
        self.paths: list[str] = []
        self.refusals: list[str] = []
        self._turns = iter(turns)
        self._ids = count(1)
        self._held: dict[str, Body] = {}  # conversations that go on, by the id of their last answer
        self._lock = threading.Lock()

    @property
    def environment(self) -> dict[str, str]:
        return {
            "OPENAI_BASE_URL": f"{self.url}/v1",
            "OPENAI_API_KEY": "none",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "none",
        }

    @property
    def results(self) -> list[Result]:
        told: dict[str, Result] = {}
        for path, body in zip(self.paths, self.requests, strict=True):
            for result in PROTOCOLS[path].results(body):
                told.setdefault(result.id, result)
        return list(told.values())

    def answer(self, path: str, body: Body) -> Body:
        with self._lock:
            self.paths.append(path)
            self.requests.append(body)
            protocol = PROTOCOLS[path]
            asked = protocol.continued(body, self._held)
            calls = sorted(protocol.calls(asked))
            answered = sorted(result.id for result in protocol.results(asked))
            if answered != calls:
                raise Refused(f"calls {calls} and results {answered} do not go together")
            answer = protocol.whole(self._parts(protocol, asked), f"{len(self.requests)}")
            self._held[answer["id"]] = protocol.held(asked, answer)
            return answer

    def _parts(self, protocol: "Protocol", asked: Body) -> list[str | Use]:
        """What comes next, with an id for every call."""
        turn = next(self._turns, None)
        if turn is None:
            raise Refused("the script is at its end")
        if callable(turn):
            turn = turn(asked)
        parts = [turn] if isinstance(turn, str | Use) else turn
        declared = [protocol.name(tool) for tool in asked.get("tools", ())]
        for use in parts:
            if isinstance(use, Use) and use.tool not in declared:
                raise Refused(f"nobody declared {use.tool}, only {declared}")
        return [
            part if isinstance(part, str) or part.id else replace(part, id=f"call_{next(self._ids)}") for part in parts
        ]


@contextmanager
def scripted(*turns: Turn | Callable[[Body], Turn]) -> Generator[Model]:
    model = Model(turns)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            path = next((each for each in PROTOCOLS if self.path.partition("?")[0].endswith(each)), "")
            try:
                if not path:
                    raise Refused(f"no protocol is spoken at {self.path}")
                whole = model.answer(path, body)
            except (Refused, AssertionError, LookupError) as why:  # the latter two: of a script that is a function
                model.refusals.append(f"{type(why).__name__}: {why}")
                self.answer(400, {"type": "error", "error": {"type": "invalid_request_error", "message": str(why)}})
                return
            if body.get("stream"):
                self.stream(PROTOCOLS[path].events(whole))
            else:
                self.answer(200, whole)

        def answer(self, status: int, body: Body) -> None:
            data = json.dumps(body).encode()
            self.begin(status, "application/json", {"Content-Length": str(len(data))})
            self.wfile.write(data)

        def stream(self, events: Iterator[str]) -> None:
            self.begin(200, "text/event-stream", {})
            for event in events:
                self.wfile.write(event.encode())
                self.wfile.flush()

        def begin(self, status: int, kind: str, more: Mapping[str, str]) -> None:
            self.send_response(status)
            # A connection that were kept would belong to an event loop that may be gone at the next request.
            for name, value in {"Content-Type": kind, "Connection": "close", **more}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert not model.refusals


def said(data: Body | str, event: str = "") -> str:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


def halves(text: str) -> tuple[str, str]:
    """A stream breaks anywhere: whoever reads it must put it together again."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def content(blocks: Any) -> tuple[str, tuple[str, ...]]:
    """The text and the images of a tool result, in any of the three protocols."""
    if isinstance(blocks, str):
        return blocks, ()
    texts: list[str] = []
    images: list[str] = []
    for block in blocks or ():
        match block:
            case {"type": "text" | "input_text" | "output_text", "text": text}:
                texts.append(text)
            case {"type": "image", "source": {"type": "base64", "media_type": mime, "data": data}}:
                images.append(f"data:{mime};base64,{data}")
            case {"type": "input_image", "image_url": url} | {"type": "image_url", "image_url": {"url": url}}:
                images.append(url)
            case _:
                raise Refused(f"no such block: {block}")
    return "\n".join(texts), tuple(images)


class Protocol(ABC):
    """How a vendor's requests are read and its answers are made."""

    @abstractmethod
    def name(self, tool: Body) -> str: ...

    @abstractmethod
    def calls(self, body: Body) -> Iterator[str]:
        """The ids of what was called."""

    @abstractmethod
    def results(self, body: Body) -> Iterator[Result]: ...

    @abstractmethod
    def whole(self, parts: Sequence[str | Use], number: str) -> Body:
        """The answer in one piece."""

    @abstractmethod
    def events(self, whole: Body) -> Iterator[str]:
        """The same as a stream."""

    def continued(self, body: Body, held: Mapping[str, Body]) -> Body:
        """The whole conversation, where a request sends only what is new in it."""
        return body

    def held(self, asked: Body, answer: Body) -> Body:
        """What the server keeps of a conversation, for `continued`."""
        return {}


def kept(held: Mapping[str, Body], last: str) -> Body:
    if last not in held:
        raise Refused(f"no answer here has the id {last}")
    return held[last]


class Chat(Protocol):
    """OpenAI Chat Completions."""

    usage: ClassVar[Body] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}

    def name(self, tool: Body) -> str:
        return tool[tool["type"]]["name"]

    def calls(self, body: Body) -> Iterator[str]:
        for message in body["messages"]:
            yield from (call["id"] for call in message.get("tool_calls") or ())

    def results(self, body: Body) -> Iterator[Result]:
        for message in body["messages"]:
            if message["role"] == "tool":
                yield Result(message["tool_call_id"], *content(message["content"]))

    def whole(self, parts: Sequence[str | Use], number: str) -> Body:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(p for p in parts if isinstance(p, str)) or None,
        }
        if uses := [self.call(part) for part in parts if isinstance(part, Use)]:
            message["tool_calls"] = uses
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if uses else "stop", "logprobs": None}
        head = {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": "scripted"}
        return {**head, "choices": [choice], "usage": self.usage}

    def call(self, use: Use) -> Body:
        if isinstance(use.arguments, str):
            return {"id": use.id, "type": "custom", "custom": {"name": use.tool, "input": use.arguments}}
        return {"id": use.id, "type": "function", "function": {"name": use.tool, "arguments": use.json}}

    def events(self, whole: Body) -> Iterator[str]:
        def chunk(delta: Body, finish: str | None = None) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return said({**head, "choices": [choice], "usage": None})

        head = {**whole, "object": "chat.completion.chunk"}
        message = whole["choices"][0]["message"]
        yield chunk({"role": "assistant", "content": ""})
        for half in halves(message["content"] or ""):
            yield chunk({"content": half})
        for index, call in enumerate(message.get("tool_calls", ())):
            kind = call["type"]
            key = "input" if kind == "custom" else "arguments"
            first, second = halves(call[kind][key])
            yield chunk({"tool_calls": [{"index": index, **call, kind: {**call[kind], key: first}}]})
            yield chunk({"tool_calls": [{"index": index, kind: {key: second}}]})
        yield chunk({}, whole["choices"][0]["finish_reason"])
        yield said({**head, "choices": [], "usage": self.usage})
        yield said("[DONE]")


class Responses(Protocol):
    """OpenAI Responses."""

    usage: ClassVar[Body] = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }

    def name(self, tool: Body) -> str:
        return tool.get("name", tool["type"])

    def calls(self, body: Body) -> Iterator[str]:
        yield from (
            item["call_id"] for item in self.items(body) if item.get("type") in ("function_call", "custom_tool_call")
        )

    def results(self, body: Body) -> Iterator[Result]:
        for item in self.items(body):
            if item.get("type") in ("function_call_output", "custom_tool_call_output"):
                yield Result(item["call_id"], *content(item["output"]))

    def items(self, body: Body) -> Sequence[Body]:
        return () if isinstance(body["input"], str) else body["input"]

    def continued(self, body: Body, held: Mapping[str, Body]) -> Body:
        if last := body.get("previous_response_id"):
            return {**body, "input": [*kept(held, last)["input"], *self.items(body)]}
        return body

    def held(self, asked: Body, answer: Body) -> Body:
        return {"input": [*self.items(asked), *answer["output"]]}

    def whole(self, parts: Sequence[str | Use], number: str) -> Body:
        return {
            "id": f"resp_{number}",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "scripted",
            "output": [self.item(part, f"{number}_{index}") for index, part in enumerate(parts)],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": self.usage,
        }

    def item(self, part: str | Use, number: str) -> Body:
        if isinstance(part, str):
            text = {"type": "output_text", "text": part, "annotations": [], "logprobs": []}
            return {
                "id": f"msg_{number}",
                "type": "message",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        what = {"id": f"item_{part.id}", "call_id": part.id, "name": part.tool}
        if isinstance(part.arguments, str):
            return {**what, "type": "custom_tool_call", "input": part.arguments}
        return {**what, "type": "function_call", "arguments": part.json, "status": "completed"}

    def events(self, whole: Body) -> Iterator[str]:
        numbers = count()

        def event(kind: str, **fields: Any) -> str:
            return said({"type": kind, "sequence_number": next(numbers), **fields}, kind)

        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        yield event("response.created", response=begun)
        yield event("response.in_progress", response=begun)
        for index, item in enumerate(whole["output"]):
            place: dict[str, Any] = {"output_index": index, "item_id": item["id"]}
            match item:
                case {"type": "message", "content": [{"text": text}]}:
                    place["content_index"] = 0
                    empty = {"type": "output_text", "text": "", "annotations": []}
                    started = {**item, "status": "in_progress", "content": []}
                    yield event("response.output_item.added", output_index=index, item=started)
                    yield event("response.content_part.added", **place, part=empty)
                    for half in halves(text):
                        yield event("response.output_text.delta", **place, delta=half, logprobs=[])
                    yield event("response.output_text.done", **place, text=text, logprobs=[])
                    yield event("response.content_part.done", **place, part=item["content"][0])
                case {"type": "function_call", "arguments": arguments, "name": name}:
                    started = {**item, "status": "in_progress", "arguments": ""}
                    yield event("response.output_item.added", output_index=index, item=started)
                    for half in halves(arguments):
                        yield event("response.function_call_arguments.delta", **place, delta=half)
                    yield event("response.function_call_arguments.done", **place, arguments=arguments, name=name)
                case {"type": "custom_tool_call", "input": text}:
                    yield event("response.output_item.added", output_index=index, item={**item, "input": ""})
                    for half in halves(text):
                        yield event("response.custom_tool_call_input.delta", **place, delta=half)
                    yield event("response.custom_tool_call_input.done", **place, input=text)
            yield event("response.output_item.done", output_index=index, item=item)
        yield event("response.completed", response=whole)


class Messages(Protocol):
    """Anthropic Messages."""

    def name(self, tool: Body) -> str:
        return tool["name"]

    def calls(self, body: Body) -> Iterator[str]:
        yield from (block["id"] for block in self.blocks(body, "tool_use"))

    def results(self, body: Body) -> Iterator[Result]:
        for block in self.blocks(body, "tool_result"):
            yield Result(block["tool_use_id"], *content(block.get("content")), bool(block.get("is_error", False)))

    def continued(self, body: Body, held: Mapping[str, Body]) -> Body:
        match body.get("thread"):
            case {"type": "continue", "previous_message_id": last}:
                before = kept(held, last)
                return {**before, **body, "messages": [*before["messages"], *body["messages"]]}
            case _:
                return body

    def held(self, asked: Body, answer: Body) -> Body:
        return {**asked, "messages": [*asked["messages"], {"role": "assistant", "content": answer["content"]}]}

    def blocks(self, body: Body, kind: str) -> Iterator[Body]:
        for message in body["messages"]:
            if not isinstance(message["content"], str):
                yield from (block for block in message["content"] if block["type"] == kind)

    def whole(self, parts: Sequence[str | Use], number: str) -> Body:
        used = any(isinstance(part, Use) for part in parts)
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [self.block(part) for part in parts],
            "stop_reason": "tool_use" if used else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }

    def block(self, part: str | Use) -> Body:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        return {"type": "tool_use", "id": part.id, "name": part.tool, "input": part.arguments}

    def events(self, whole: Body) -> Iterator[str]:
        def event(kind: str, **fields: Any) -> str:
            return said({"type": kind, **fields}, kind)

        yield event("message_start", message={**whole, "content": [], "stop_reason": None})
        yield event("ping")
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                yield event("content_block_start", index=index, content_block={"type": "text", "text": ""})
                deltas = [{"type": "text_delta", "text": half} for half in halves(block["text"])]
            else:
                yield event("content_block_start", index=index, content_block={**block, "input": {}})
                pieces = halves(json.dumps(block["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": half} for half in pieces]
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield event("message_delta", delta=ended, usage={"output_tokens": 5})
        yield event("message_stop")


PROTOCOLS: Mapping[str, Protocol] = {
    "/chat/completions": Chat(),
    "/responses": Responses(),
    "/messages": Messages(),
}
