"""Malformed lines, each with the expected responses."""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
FINE = 0  # instead of an error code: the request succeeded


@dataclass(frozen=True)
class Line:
    """`answers` are the expected codes for `id`, in any order. The id is None if the line could not be parsed."""

    text: bytes
    answers: tuple[int, ...] = ()
    id: str | int | None = None


@dataclass(frozen=True)
class Broken:
    """An endless sequence of lines, reproducible by seed. `extra` is added to the parameters of every request."""

    seed: int
    extra: dict[str, Any]

    def lines(self) -> Iterator[Line]:
        dice = random.Random(self.seed)
        number = 0
        while True:
            for way in WAYS:
                number += 1
                yield way(self, f"{self.seed}-{number}", dice)

    def request(self, tag: Any, method: Any = "tools/list", /, **params: Any) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": tag, "method": method, "params": params | self.extra}


def dumped(message: Any) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode()


def truncated(era: Broken, tag: str, dice: random.Random) -> Line:
    text = dumped(era.request(tag, "tools/call", name="read_file", arguments={"path": "a.txt"}))
    return Line(text[: dice.randrange(1, len(text) - 1)], (PARSE_ERROR,))


def nested(era: Broken, tag: str, dice: random.Random) -> Line:
    return Line(dice.choice([b"[", b'{"a":']) * dice.randrange(300, 5_000), (PARSE_ERROR,))


def nested_and_closed(era: Broken, tag: str, dice: random.Random) -> Line:
    text = dumped(era.request(tag, cursor="here"))
    return Line(text.replace(b'"here"', b"[" * 300 + b"]" * 300), (INVALID_PARAMS,), tag)


def huge_number(era: Broken, tag: str, dice: random.Random) -> Line:
    number = dice.choice([b"1e999", b"-1e999", b"9" * 400, b"-" + b"9" * 4000, b"0.0000000001e-999"])
    text = dumped(era.request(tag, cursor="here")).replace(b'"here"', number)
    return Line(text, (INVALID_PARAMS,), tag)


def unspeakable_number(era: Broken, tag: str, dice: random.Random) -> Line:
    number = dice.choice([b"NaN", b"Infinity", b"-Infinity", b"9" * 6000])
    text = dumped(era.request(tag, cursor="here")).replace(b'"here"', number)
    return Line(text, (PARSE_ERROR,), None if number[0] == ord("9") else tag)


def no_message(era: Broken, tag: str, dice: random.Random) -> Line:
    return Line(dice.choice([b"5", b"null", b"true", b'"ping"', b"1.5e3", b"{}", b"[]"]), (INVALID_REQUEST,))


def batch(era: Broken, tag: str, dice: random.Random) -> Line:
    return Line(dumped([era.request(f"{tag}-{n}") for n in range(dice.randrange(1, 5))]), (INVALID_REQUEST,))


def wrong_version(era: Broken, tag: str, dice: random.Random) -> Line:
    message = era.request(tag) | {"jsonrpc": dice.choice(["1.0", 2, 2.0, None, [], {}, "2"])}
    return Line(dumped(message), (INVALID_REQUEST,), tag)


def wrong_method(era: Broken, tag: str, dice: random.Random) -> Line:
    return Line(dumped(era.request(tag, dice.choice([5, None, [], {}, True, 1.5]))), (INVALID_REQUEST,), tag)


def wrong_params(era: Broken, tag: str, dice: random.Random) -> Line:
    message = era.request(tag) | {"params": dice.choice([[1], "text", 5, True, [era.extra]])}
    return Line(dumped(message), (INVALID_REQUEST,), tag)


def wrong_id(era: Broken, tag: str, dice: random.Random) -> Line:
    return Line(dumped(era.request(dice.choice([1.5, None, True, [], {}, [1]]))), (INVALID_REQUEST,))


def no_method(era: Broken, tag: str, dice: random.Random) -> Line:
    message = era.request(tag)
    del message["method"]
    return Line(dumped(message), (INVALID_REQUEST,), tag)


def unknown_method(era: Broken, tag: str, dice: random.Random) -> Line:
    method = dice.choice(
        ["", "tools", "tools/listen", "TOOLS/LIST", "resources/list", "rpc.x", "名", "a" * 9999, "__init__"]
    )
    return Line(dumped(era.request(tag, method)), (METHOD_NOT_FOUND,), tag)


def bad_call(era: Broken, tag: str, dice: random.Random) -> Line:
    wrong: dict[str, Any] = dice.choice(
        [
            {},
            {"name": 5},
            {"name": None, "arguments": {}},
            {"name": "read_file", "arguments": [1]},
            {"name": "read_file", "arguments": "a.txt"},
            {"name": "no_such_tool", "arguments": {}},
            {"name": "", "arguments": {}},
            {"name": "x" * 5000},
        ]
    )
    return Line(dumped(era.request(tag, "tools/call", **wrong)), (INVALID_PARAMS,), tag)


def bad_arguments(era: Broken, tag: str, dice: random.Random) -> Line:
    """A mistake of the model is reported as a result for the model, not as a protocol error."""
    value = dice.choice([None, 5, [], {}, True, "", "\0", "a" * 100_000, {"path": {"path": []}}, -1, 2**70, "\u202e"])
    arguments = dice.choice(
        [{"path": value}, {"path": "a.txt", "offset": value}, {"": value}, {"path": value, "x": value}]
    )
    return Line(dumped(era.request(tag, "tools/call", name="read_file", arguments=arguments)), (FINE,), tag)


def same_id_twice(era: Broken, tag: str, dice: random.Random) -> Line:
    text = dumped(era.request(tag))
    return Line(text + b"\n" + text, (FINE, FINE), tag)


def with_nul(era: Broken, tag: str, dice: random.Random) -> Line:
    text = dumped(era.request(tag))
    at = dice.choice([0, len(text) // 2, len(text)])
    return Line(text[:at] + b"\0" + text[at:], (PARSE_ERROR,))


def not_utf8(era: Broken, tag: str, dice: random.Random) -> Line:
    wrong = dice.choice([b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xe2\x82", b"\xf5\x80\x80\x80"])
    return Line(dumped(era.request(tag, cursor="here")).replace(b"here", wrong), (PARSE_ERROR,), tag)


def half_a_character(era: Broken, tag: str, dice: random.Random) -> Line:
    """JavaScript clients send a lone surrogate for text that was cut inside an emoji. The tool reports it."""
    text = json.dumps(era.request(tag, "tools/call", name="read_file", arguments={"path": "\ud83d.txt"}))
    return Line(text.encode(), (FINE,), tag)


def half_a_character_elsewhere(era: Broken, tag: str, dice: random.Random) -> Line:
    message, code = dice.choice(
        [
            (era.request(f"{tag}\ud83d"), FINE),
            (era.request(tag, "\ud83d"), METHOD_NOT_FOUND),
            (era.request(tag, "tools/call", name="\ud83d"), INVALID_PARAMS),
            (era.request(tag) | {"\ud83d": 1}, FINE),
        ]
    )
    return Line(json.dumps(message).encode(), (code,), message["id"])


def noise(era: Broken, tag: str, dice: random.Random) -> Line:
    return Line(b"\x01" + dice.randbytes(dice.randrange(1, 300)).translate(None, b"\n"), (PARSE_ERROR,))


def blank(era: Broken, tag: str, dice: random.Random) -> Line:
    return Line(dice.choice([b"", b" ", b"\t\t", b"\r"]))


def not_asked(era: Broken, tag: str, dice: random.Random) -> Line:
    message: dict[str, Any] = dice.choice(
        [
            {"id": tag, "result": {}},
            {"id": tag, "error": {"code": 1, "message": "no"}},
            {"method": "notifications/cancelled", "params": {"requestId": tag}},
            {"method": "notifications/cancelled", "params": {"requestId": [tag]}},
            {"method": "notifications/progress", "params": {"progressToken": tag, "progress": "most"}},
            {"method": "notifications/initialized", "params": {}},
            {"method": "notifications/nothing"},
            {"method": "tools/call", "params": {"name": "write_file", "arguments": {"path": "no.txt", "content": ""}}},
        ]
    )
    return Line(dumped({"jsonrpc": "2.0", **message}))


Way = Callable[[Broken, str, random.Random], Line]
WAYS: tuple[Way, ...] = (
    truncated,
    nested,
    nested_and_closed,
    huge_number,
    unspeakable_number,
    no_message,
    batch,
    wrong_version,
    wrong_method,
    wrong_params,
    wrong_id,
    no_method,
    unknown_method,
    bad_call,
    bad_arguments,
    same_id_twice,
    with_nul,
    not_utf8,
    half_a_character,
    half_a_character_elsewhere,
    noise,
    blank,
    not_asked,
)
