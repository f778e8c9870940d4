"""Run a conversation with the official Python client of any installed major version, and print the transcript.

Runs in a separate environment with only the standard library and `mcp`. The argument is JSON: the path of the
conversation, and either `command`, or `url` and `token`; `era` is `legacy` or a protocol version.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from importlib import import_module
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

MAJOR = int(version("mcp").split(".")[0])
CALL_ID = "handhold/callId"
SECONDS = 30


def transport(task: dict[str, Any]) -> Any:
    if "command" in task:
        command, *arguments = task["command"]
        return stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ)))
    http = import_module("httpx" if MAJOR == 1 else "httpx2")
    web = http.AsyncClient(headers={"Authorization": f"Bearer {task['token']}"}, timeout=SECONDS)
    return streamable_http_client(task["url"], http_client=web)


def person(answers: list[str | None], asked: list[str]) -> Any:
    """An elicitation callback that gives the answers in order (None declines) and records the questions."""

    async def answer(_: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        said = answers[len(asked) - 1]
        if said is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"answer": said})

    return answer


@asynccontextmanager
async def meeting(task: dict[str, Any], somebody: Any) -> AsyncIterator[Any]:
    """The session that calls tools, for either major version, and its protocol version."""
    if MAJOR == 1:
        async with (
            transport(task) as (reading, writing, *_),
            ClientSession(reading, writing, elicitation_callback=somebody) as session,
        ):
            yield session, plain(await session.initialize())["protocolVersion"]
    else:
        from mcp import Client

        async with Client(transport(task), mode=task["era"], elicitation_callback=somebody) as client:
            yield client, client.protocol_version


def plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


async def answered(client: Any, call: dict[str, Any], arguments: dict[str, Any] | None) -> dict[str, Any]:
    said: list[str] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        said.append(message or "")

    more: dict[str, Any] = {"read_timeout_seconds": timedelta(seconds=SECONDS) if MAJOR == 1 else SECONDS}
    if "live" in call:
        more["progress_callback"] = progress
    if "call_id" in call:
        more["meta"] = {CALL_ID: call["call_id"]}
    try:
        result = plain(await client.call_tool(call["tool"], arguments, **more))
    except Exception as error:
        if not hasattr(error, "error"):
            raise
        return {"error": {"code": error.error.code, "message": error.error.message}}  # pyright: ignore[reportAttributeAccessIssue]
    answer = {key: result[key] for key in ("content", "isError", "structuredContent") if key in result}
    if "live" in call:
        answer["live"] = any(call["live"] in each for each in said)
    return answer


def text(answer: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in answer.get("content", ()) if block["type"] == "text")


def filled(value: Any, kept: dict[str, str]) -> Any:
    """Fill in values from earlier responses, where the conversation names them in braces."""
    if isinstance(value, dict):
        return {key: filled(each, kept) for key, each in value.items()}
    return kept.get(value[1:-1], value) if isinstance(value, str) else value


async def talk(task: dict[str, Any]) -> dict[str, Any]:
    with open(task["conversation"], encoding="utf-8") as file:
        conversation = json.load(file)
    answers: list[dict[str, Any]] = []
    kept: dict[str, str] = {}
    asked: list[str] = []
    somebody = person(conversation["answers"], asked) if "answers" in conversation else None
    async with meeting(task, somebody) as (client, protocol):
        tools = [plain(tool) for tool in (await client.list_tools()).tools]
        for call in conversation["calls"]:
            arguments = filled(call.get("arguments"), kept)
            answer = await answered(client, call, arguments)
            for _ in range(200):
                if re.search(call.get("until", ""), text(answer)):
                    break
                await asyncio.sleep(0.1)
                answer = await answered(client, call, arguments)
            for name, pattern in call.get("keep", {}).items():
                found = re.search(pattern, text(answer))
                kept[name] = found[1] if found else ""
            answers.append(answer)
    return {"protocol": protocol, "tools": tools, "answers": answers, "kept": kept, "asked": asked}


print(json.dumps(asyncio.run(talk(json.loads(sys.argv[1])))))
