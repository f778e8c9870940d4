"""What a request to the model says beside its shape: the results of calls, and whether a sub-agent sends it."""

import json
import re
from collections.abc import Iterator
from typing import Any

JSON = dict[str, Any]
PROCESS = re.compile(r'"\{process of (\w+)\}"')  # in a script: the number of a command that Codex let go on
PROCESS_IN_RESULT = re.compile(r"session ID (\d+)")
SUBAGENT = "sub-agent:"  # begins the task that a script gives to one
# Where a vendor has the id of a call in its result, and the result.
RESULT_KEYS = (("tool_use_id", "content"), ("call_id", "output"), ("tool_call_id", "content"))


def is_from_subagent(body: JSON) -> bool:
    """Whether a user's text begins so. What a script says in a call is not a user's."""
    messages = body.get("messages") or body.get("input") or body.get("contents") or []
    said = [message for message in messages if isinstance(message, dict) and message.get("role") == "user"]
    return any(text.lstrip().startswith(SUBAGENT) for message in said for text in texts_of(message))


def texts_of(message: JSON) -> Iterator[str]:
    parts = message.get("content") or message.get("parts") or []
    if isinstance(parts, str):
        yield parts
    else:
        yield from (part["text"] for part in parts if isinstance(part.get("text"), str))


def read_results(body: JSON) -> dict[str, str]:
    """The results of calls, by their ids."""
    found: dict[str, str] = {}
    for value in walk(body.get("messages") or body.get("input") or body.get("contents")):
        for key, result in RESULT_KEYS:
            if key in value and result in value:
                found[value[key]] = text_of(value[result])
        if isinstance(value.get("functionResponse"), dict):
            answer = value["functionResponse"]
            found[str(answer.get("id"))] = text_of(answer.get("response"))
    return found


def walk(value: Any) -> Iterator[JSON]:
    if isinstance(value, dict):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(each)


def text_of(result: Any) -> str:
    if isinstance(result, list):
        return "".join(part["text"] if "text" in part else json.dumps(part) for part in result)
    return result if isinstance(result, str) else json.dumps(result)


def fill_in_results(calls: list[JSON], results: dict[str, str]) -> list[JSON]:
    """A step in which numbers stand that only results have."""

    def find_process(match: re.Match[str]) -> str:
        found = PROCESS_IN_RESULT.search(results.get(match[1], ""))
        return found[1] if found else "0"

    return json.loads(PROCESS.sub(find_process, json.dumps(calls)))
