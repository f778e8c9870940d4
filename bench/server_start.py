"""How long a client waits for the first answer of `handhold mcp`, compared with the SDK's own echo server.

    python -m bench.server_start [rounds]

Each round starts both in sequence, and measures from the start of the process to its answer to `initialize`.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

FIRST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
ECHO = """
import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

async def listed(context, params):
    return types.ListToolsResult(tools=[types.Tool(name="echo", input_schema=SCHEMA)])

async def called(context, params):
    return types.CallToolResult(content=[types.TextContent(type="text", text=params.arguments["text"])])

async def main():
    server = Server("echo", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())

anyio.run(main)
"""


def first_answer(command: list[str]) -> float:
    started = perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdin
        assert server.stdout
        server.stdin.write(json.dumps(FIRST).encode() + b"\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        seconds = perf_counter() - started
        server.stdin.close()
    if b'"result"' not in answer:
        raise SystemExit(f"{command[0]} did not answer: {answer!r}")
    return seconds


def measured(rounds: int) -> tuple[float, float]:
    """Medians in seconds: of the echo server, and of Handhold."""
    with tempfile.TemporaryDirectory() as folder:
        echo = Path(folder, "echo.py")
        echo.write_text(ECHO)
        handhold = str(Path(sys.executable).with_name("handhold"))
        ours = [handhold, "mcp", "--root", folder, "--state", str(Path(folder, "state"))]
        pairs = [(first_answer([sys.executable, str(echo)]), first_answer(ours)) for _ in range(rounds + 1)]
    theirs, own = zip(*pairs[1:], strict=True)  # the first pair runs with a cold disk cache
    return median(theirs), median(own)


if __name__ == "__main__":
    echo, handhold = measured(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    print(f"first answer: echo {echo * 1000:.0f} ms, handhold {handhold * 1000:.0f} ms, {handhold / echo:.2f} times")
