"""Malformed input gets JSON-RPC errors, and the server keeps serving."""

import json
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.clients.line import ENVELOPE, connected
from tests.clients.malformed import FINE, INVALID_REQUEST, PARSE_ERROR, Broken
from tests.scale import scaled


def workspace(place: Path) -> tuple[Path, Path]:
    root = place / "root"
    root.mkdir()
    (root / "a.txt").write_text("still here\n")
    return root, place / "state"


@pytest.mark.slow
@pytest.mark.parametrize(("era", "many"), [("legacy", scaled(200, 10_000)), ("modern", scaled(100, 2_000))])
def test_thousands_of_malformed_messages_are_answered_rightly(era: str, many: int, tmp_path: Path):
    meta: dict[str, Any] = {"_meta": ENVELOPE} if era == "modern" else {}
    lines = list(islice(Broken(seed=many, extra=meta).lines(), many))
    wanted = Counter((line.id, code) for line in lines for code in line.answers)
    with connected(*workspace(tmp_path)) as wire:
        if era == "legacy":
            wire.greet()
        else:
            wire.ask("hello", "tools/list", **meta)
        saying = wire.say_all(line.text for line in lines)
        answers = [wire.next() or {} for _ in range(wanted.total())]
        saying.join()
        assert Counter((each["id"], each.get("error", {}).get("code", FINE)) for each in answers) == wanted
        last = wire.ask("last", "tools/call", name="read_file", arguments={"path": "a.txt"}, **meta)
        assert last["result"]["content"] == [{"type": "text", "text": "     1→still here"}]
        ended, said = wire.gone()
        assert wire.next() is None
    assert (ended, "Traceback" in said) == (0, False), said[-2000:]
    assert not (tmp_path / "root/no.txt").exists()


def test_lines_of_ten_megabytes(tmp_path: Path):
    much = "x" * 10_000_000
    with connected(*workspace(tmp_path)) as wire:
        wire.greet()
        wire.say(much.encode(), json.dumps({"jsonrpc": "2.0", "id": much, "method": 5}).encode())
        noise, no_method = wire.next() or {}, wire.next() or {}
        read = wire.ask("read", "tools/call", name="read_file", arguments={"path": much})
        written = wire.ask("write", "tools/call", name="write_file", arguments={"path": "b.txt", "content": much})
    assert (noise["id"], noise["error"]["code"]) == (None, PARSE_ERROR)
    assert (no_method["id"], no_method["error"]["code"]) == (much, INVALID_REQUEST)
    assert read["result"]["isError"]
    assert len(read["result"]["content"][0]["text"]) < 10_000
    assert not written["result"]["isError"]
    assert (tmp_path / "root/b.txt").stat().st_size == len(much)
