"""The process that has the tools of a fork: python -m handhold.cli.fork_tools DESCRIPTOR

It is started in the fork and answers requests on a socket; see `handhold.backends.forks.tool_process`.
"""

import os
import pickle
import sys
from dataclasses import is_dataclass
from functools import reduce
from multiprocessing.connection import Connection
from typing import Any

from handhold.backends.forks.tool_process import ToolServer
from handhold.config import ToolboxConfig
from handhold.core.errors import ToolError
from handhold.factory import open_workspace
from handhold.logs import log_swallowed
from handhold.pipeline.cancellation import CancelToken
from handhold.toolbox import Toolbox


class ForkTools:
    """Answers requests about the parts of a toolbox."""

    def __init__(self, server: ToolServer, options: dict[str, Any]) -> None:
        asks = options.pop("asks")
        self._server = server
        self._parts = open_workspace(ToolboxConfig(**options, approver=server if asks else None))
        self.box = Toolbox(self._parts)
        self.box.approver = server

    def handle(self, number: int, kind: str, payload: Any) -> tuple[str, Any]:
        if kind == "get":
            found = self._find(payload)
            return ("value", found) if is_value(found) else ("reference", None)
        if kind == "call":
            path, args, kwargs = payload
            return "value", self._find(path)(*args, **kwargs)
        tool, arguments, call_id, turn = payload
        token = CancelToken(lambda text: self._server.send(number, "output", text))

        def cancel() -> None:
            token.cancel()
            if token.thread is not None:
                self.box.interrupt(token.thread)

        with self._server.cancelled_by(number, cancel):
            reply = self.box.call(tool, arguments, call_id=call_id, turn=turn, cancel_token=token)
        self._server.send(0, "busy", self.box.is_busy)
        return "value", reply

    def _find(self, path: str) -> Any:
        return reduce(getattr, path.split("."), self._parts)


def is_value(found: Any) -> bool:
    """Whether a copy of it serves as well: it is data."""
    if callable(found) or not (
        is_dataclass(found) or isinstance(found, str | int | float | bytes | tuple | list | None)
    ):
        return False
    try:
        pickle.dumps(found)
    except Exception:  # noqa: BLE001 — whatever it has inside
        log_swallowed()
        return False
    return True


def main() -> None:
    fd = int(sys.argv[1])
    os.set_inheritable(fd, False)  # noqa: FBT003
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # both belong to whoever started us
    os.dup2(2, 1)
    connection = Connection(fd)
    server = ToolServer(connection)
    _, _, options = connection.recv()
    try:
        tools = ForkTools(server, options)
    except (ToolError, OSError) as error:
        server.send(0, "error", error)
        return
    with tools.box:
        server.serve(tools.handle)


if __name__ == "__main__":
    main()
