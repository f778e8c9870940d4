"""Start an installed server once, as the client will, and count its tools."""

import json
import os
from collections.abc import Iterable, Sequence
from threading import Timer
from typing import Any, cast

from handhold.backends.programs import PIPE, start_for_user
from handhold.cli.clients import WORKSPACE_VARIABLE
from handhold.cli.programs import find_on_path

WAIT_SECONDS = 30
LIST_ID = 2
REQUESTS = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "handhold install", "version": "1"},
        },
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": LIST_ID, "method": "tools/list"},
)


class ServerFailed(OSError):
    """Why a client could not start the server."""

    def __init__(self, because: str) -> None:
        super().__init__(f"Nothing changed: the client could not start Handhold: {because}")


def count_tools(command: Sequence[str]) -> int:
    """Raise ServerFailed if the server does not start, and say why."""
    program, *arguments = command
    found = program if os.path.isabs(program) else find_on_path(program)
    if not found:
        raise ServerFailed(f"{program} is not on the PATH")
    argv = [found, *(os.getcwd() if each == WORKSPACE_VARIABLE else each for each in arguments)]
    try:
        server = start_for_user(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    except OSError as error:
        raise ServerFailed(str(error)) from None
    timer = Timer(WAIT_SECONDS, server.kill)
    timer.start()
    try:
        assert server.stdin
        assert server.stdout
        server.stdin.write("".join(json.dumps(request) + "\n" for request in REQUESTS).encode())
        server.stdin.flush()
        tools = _read_tools(server.stdout)
        _, errors = server.communicate()
    except BrokenPipeError:
        tools, (_, errors) = None, server.communicate()
    finally:
        timer.cancel()
    if tools is None:
        raise ServerFailed(errors.decode(errors="replace").strip() or "it lists no tools")
    return tools


def _read_tools(lines: Iterable[bytes]) -> int | None:
    for line in lines:
        try:
            reply = cast(dict[str, Any], json.loads(line)) if line.startswith(b"{") else {}
            if reply.get("id") == LIST_ID:
                return len(reply["result"]["tools"])
        except (ValueError, LookupError, TypeError):
            return None
    return None
