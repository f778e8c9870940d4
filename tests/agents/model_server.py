"""A scripted model: one stateless HTTP server that speaks the protocols of four vendors' models on loopback.

A script is a list of steps, and a step the tool calls of one turn. Which step is next is read off the request: it is
the number of turns with tool calls in it. After the last step, and to a request that offers no tools, the model
answers with plain text. So a client may retry, resume or ask in parallel, and gets the same answer each time. A
sub-agent is a conversation of its own: its task begins with SUBAGENT, and gets other steps.

Of a request it keeps the shape: keys, kinds, names of tools, and our own tools' arguments. No text of anybody's prompt
and no path is kept. It runs inside the container of its client, and needs nothing but Python.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.agents.conversation import fill_in_results, is_from_subagent, read_results

MODEL = "scripted-model"
DONE = "Done."
SUBAGENT_STEPS = 1000  # added to the steps of a sub-agent in the ids of its calls
JSON = dict[str, Any]
Calls = list[JSON]  # {"tool": name, "input": arguments}, of a free-form tool {"tool": name, "text": what it gets}


@dataclass(frozen=True)
class Request:
    """What is kept of a request: the step that it is at, the names of its tools, its shape, and results of calls."""

    step: int
    tools: list[str]
    shape: JSON
    results: dict[str, str]  # by the id of the call
    is_subagent: bool = False


@dataclass(frozen=True)
class Face:
    """A vendor's protocol: how to read a request, and how to answer it with calls or, without any, with text."""

    read_tools: Callable[[JSON], list[JSON]]  # each with "name"
    count_turns: Callable[[JSON], int]
    stream: Callable[[int, Calls], Iterator[tuple[str, JSON]]]  # events: name and data
    whole: Callable[[int, Calls], JSON]  # the answer to a request that wants no stream


# Anthropic: messages


def anthropic_tools(body: JSON) -> list[JSON]:
    return body.get("tools") or []


def anthropic_turns(body: JSON) -> int:
    turns = [message["content"] for message in body["messages"] if message["role"] == "assistant"]
    return sum(any(block["type"] == "tool_use" for block in turn) for turn in turns if not isinstance(turn, str))


def anthropic_whole(step: int, calls: Calls) -> JSON:
    content = [
        {"type": "tool_use", "id": call_id(step, n), "name": call["tool"], "input": call["input"]}
        for n, call in enumerate(calls)
    ]
    return {
        "id": f"msg_{step}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content or [{"type": "text", "text": DONE}],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def anthropic_stream(step: int, calls: Calls) -> Iterator[tuple[str, JSON]]:
    message = anthropic_whole(step, calls)
    started = {**message, "content": [], "stop_reason": None}
    events: list[JSON] = [{"type": "message_start", "message": started}]
    for n, block in enumerate(message["content"]):
        if block["type"] == "text":
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            begun = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": n, "content_block": begun})
        events.append({"type": "content_block_delta", "index": n, "delta": delta})
        events.append({"type": "content_block_stop", "index": n})
    stop = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 1}})
    events.append({"type": "message_stop"})
    return ((event["type"], event) for event in events)


# OpenAI: responses


def responses_tools(body: JSON) -> list[JSON]:
    """Tools of a namespace, as those of an MCP server are, are named with it: `mcp__handhold.shell`."""
    found: list[JSON] = []
    for tool in body.get("tools") or []:
        inner = tool.get("tools")
        if inner is None:
            found.append({**tool, "name": tool.get("name", tool["type"])})
        else:
            found += [{**each, "name": f"{tool['name']}.{each['name']}"} for each in inner]
    return found


def responses_turns(body: JSON) -> int:
    """Each of our calls has the step in its id: outputs may come between the calls of one turn."""
    items = body["input"] if isinstance(body["input"], list) else []
    calls = [item for item in items if item.get("type", "").endswith("_call")]
    return len({item["call_id"].split("_")[1] for item in calls if str(item.get("call_id")).startswith("call_")})


def responses_whole(step: int, calls: Calls) -> JSON:
    output: list[JSON] = []
    for n, call in enumerate(calls):
        item: JSON = {"id": f"item_{step}_{n}", "call_id": call_id(step, n)}
        namespace, _, name = call["tool"].rpartition(".")
        item |= {"namespace": namespace, "name": name} if namespace else {"name": name}
        if call["tool"] == "tool_search":
            output.append({"type": "tool_search_call", **item, "execution": "client", "arguments": call["input"]})
        elif "text" in call:
            output.append({"type": "custom_tool_call", **item, "input": call["text"]})
        else:
            output.append({"type": "function_call", **item, "arguments": json.dumps(call["input"])})
    text = {"type": "output_text", "text": DONE, "annotations": []}
    message = {"type": "message", "id": f"item_{step}", "role": "assistant", "content": [text]}
    usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
    return {"id": f"resp_{step}", "output": output or [message], "usage": {**usage, "total_tokens": 2}}


def responses_stream(step: int, calls: Calls) -> Iterator[tuple[str, JSON]]:
    response = responses_whole(step, calls)
    events: list[JSON] = [{"type": "response.created", "response": {"id": response["id"]}}]
    for n, item in enumerate(response["output"]):
        events.append({"type": "response.output_item.added", "output_index": n, "item": item})
        events.append({"type": "response.output_item.done", "output_index": n, "item": item})
    events.append({"type": "response.completed", "response": response})
    return ((event["type"], event) for event in events)


# OpenAI: chat completions


def chat_tools(body: JSON) -> list[JSON]:
    return [tool["function"] for tool in body.get("tools") or []]


def chat_turns(body: JSON) -> int:
    return sum(bool(message.get("tool_calls")) for message in body["messages"] if message["role"] == "assistant")


def chat_message(step: int, calls: Calls) -> JSON:
    message: JSON = {"role": "assistant", "content": None if calls else DONE}
    if calls:
        message["tool_calls"] = [
            {
                "index": n,
                "id": call_id(step, n),
                "type": "function",
                "function": {"name": call["tool"], "arguments": json.dumps(call["input"])},
            }
            for n, call in enumerate(calls)
        ]
    return message


def chat_whole(step: int, calls: Calls) -> JSON:
    choice = {"index": 0, "message": chat_message(step, calls), "finish_reason": "tool_calls" if calls else "stop"}
    return {**chat_frame(step, "chat.completion"), "choices": [choice]}


def chat_frame(step: int, kind: str) -> JSON:
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"id": f"chat_{step}", "object": kind, "created": 1, "model": MODEL, "usage": usage}


def chat_stream(step: int, calls: Calls) -> Iterator[tuple[str, JSON]]:
    frame = chat_frame(step, "chat.completion.chunk")
    delta = {"index": 0, "delta": chat_message(step, calls), "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
    yield "", {**frame, "choices": [delta]}
    yield "", {**frame, "choices": [end]}


# Google: generateContent


def gemini_tools(body: JSON) -> list[JSON]:
    return [each for tool in body.get("tools") or [] for each in tool.get("functionDeclarations") or []]


def gemini_turns(body: JSON) -> int:
    turns = [content.get("parts") or [] for content in body["contents"] if content.get("role") == "model"]
    return sum(any("functionCall" in part for part in parts) for parts in turns)


def gemini_whole(step: int, calls: Calls) -> JSON:
    parts: list[JSON] = [
        {"functionCall": {"id": call_id(step, n), "name": call["tool"], "args": call["input"]}}
        for n, call in enumerate(calls)
    ]
    content = {"role": "model", "parts": parts or [{"text": DONE}]}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage}


def gemini_stream(step: int, calls: Calls) -> Iterator[tuple[str, JSON]]:
    yield "", gemini_whole(step, calls)


FACES = {
    "/v1/messages": Face(anthropic_tools, anthropic_turns, anthropic_stream, anthropic_whole),
    "/v1/responses": Face(responses_tools, responses_turns, responses_stream, responses_whole),
    "/v1/chat/completions": Face(chat_tools, chat_turns, chat_stream, chat_whole),
    ":streamGenerateContent": Face(gemini_tools, gemini_turns, gemini_stream, gemini_whole),
    ":generateContent": Face(gemini_tools, gemini_turns, gemini_stream, gemini_whole),
}
# Questions beside the conversation, and what they get.
ASIDES: dict[str, JSON] = {
    "/count_tokens": {"input_tokens": 1},
    ":countTokens": {"totalTokens": 1},
    "/models": {"object": "list", "data": []},
}


def call_id(step: int, n: int) -> str:
    return f"call_{step}_{n}"


# Shapes

KINDS = ("type", "role")  # keys whose values say what an object is
ARGUMENTS = ("input", "args", "arguments")  # of a call: the script's own
SCHEMAS = ("input_schema", "parameters", "parametersJsonSchema")


def shape_of(value: Any) -> Any:
    """What remains of a value without its content: keys, types, and once each the shapes of a list's items."""
    match value:
        case dict():
            return {key: shape_of_field(key, value[key]) for key in sorted(value)}
        case list():
            shapes = {json.dumps(shape_of(item)) for item in value}
            return [json.loads(shape) for shape in sorted(shapes)]
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
    return "string"


def shape_of_field(key: str, value: Any) -> Any:
    if key in KINDS and isinstance(value, str):
        return value
    return "object" if key in ARGUMENTS and isinstance(value, dict) else shape_of(value)


def shape_of_request(path: str, body: JSON, tools: list[JSON], ours: str) -> JSON:
    """The shape of a request. Of its tools it has the names, and of those that begin with `ours` the arguments too."""
    shape: JSON = {"path": path, **shape_of({key: value for key, value in body.items() if key != "tools"})}
    shape["tools"] = sorted(tool["name"] for tool in tools if not tool["name"].startswith(ours))
    shape["our tools"] = {
        tool["name"]: sorted(next(tool[key] for key in SCHEMAS if key in tool).get("properties", {}))
        for tool in sorted(tools, key=lambda tool: tool["name"])
        if tool["name"].startswith(ours)
    }
    return shape


@dataclass
class ModelServer:
    """A running server: `url` is its base address, `requests` what it was asked, in the order of arrival.

    `ours` is how the client names our tools: what their names begin with.
    """

    steps: list[Calls]
    ours: str
    subagent: list[Calls] = field(default_factory=list[Calls])  # the steps of a sub-agent
    last: int | None = None  # the step before which the model stops, until somebody raises it
    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])
    on_step: Callable[[int], object] = lambda _: None  # called when a step is asked for, before it is answered
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, path: str, face: Face, body: JSON) -> tuple[int, Calls]:
        """Remember a request; the step that it is at, and the calls to answer with."""
        tools = face.read_tools(body)
        step = face.count_turns(body)
        shape = shape_of_request(path, body, tools, self.ours)
        request = Request(step, [tool["name"] for tool in tools], shape, read_results(body), is_from_subagent(body))
        with self.lock:
            self.requests.append(request)
        if tools and not request.is_subagent:
            self.on_step(step)
        steps = self.subagent if request.is_subagent else self.steps[: self.last]
        calls = fill_in_results(steps[step], request.results) if tools and step < len(steps) else []
        return (step + SUBAGENT_STEPS if request.is_subagent else step), calls

    def is_subagent_done(self) -> bool:
        """Whether a sub-agent has the results of all its steps."""
        with self.lock:
            return any(each.is_subagent and each.step >= len(self.subagent) for each in self.requests)


@contextmanager
def running_model(
    steps: list[Calls],
    ours: str,
    on_step: Callable[[int], object] = lambda _: None,
    *,
    subagent: list[Calls] | None = None,
) -> Iterator[ModelServer]:
    """A server with this script on a free port of loopback; it stops at the end of the block."""
    model = ModelServer(steps, ours, subagent or [], on_step=on_step)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            path = self.path.partition("?")[0]
            for end, face in FACES.items():
                if path.endswith(end):
                    step, calls = model.take(end, face, body)
                    if body.get("stream") or end.startswith(":stream"):
                        self.send_stream(end, face.stream(step, calls))
                    else:
                        self.send_json(face.whole(step, calls))
                    return
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            for end, answer in ASIDES.items():
                if path.endswith(end):
                    self.send_json(answer)
                    return
            self.send_json({"error": {"message": "not found"}}, status=404)

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def send_stream(self, end: str, events: Iterator[tuple[str, JSON]]) -> None:
            text = "".join(
                (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n" for name, data in events
            )
            if end == "/v1/chat/completions":
                text += "data: [DONE]\n\n"
            self.send_bytes(text.encode(), "text/event-stream")

        def send_json(self, answer: JSON, status: int = 200) -> None:
            self.send_bytes(json.dumps(answer).encode(), "application/json", status)

        def send_bytes(self, data: bytes, kind: str, status: int = 200) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    model.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
