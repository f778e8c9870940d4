"""The process that has the tools of a fork: `fork_tools DESCRIPTOR`

It is started in the fork and answers requests on a socket; see `handhold.backends.forks.tool_process`.
"""

import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Literal

from handhold.backends.forks.tool_operations import AnyTarget, decode_options
from handhold.backends.forks.tool_server import ToolServer, take_socket
from handhold.config import ToolboxConfig
from handhold.core.choices import Resolution
from handhold.core.errors import ToolError
from handhold.factory import open_workspace
from handhold.pipeline.cancellation import CancelToken
from handhold.toolbox import Toolbox


class ForkTools:
    """Answers requests by a toolbox, which is opened meanwhile."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._is_decided = threading.Event()  # whether the toolbox can be opened
        self._box: Toolbox | None = None
        self._handlers: Mapping[str, Callable[..., Any]] = {}

    def open(self, options: Any) -> None:
        try:
            known = decode_options(options)
            asks = known.pop("asks")
            self._box = box = Toolbox(open_workspace(ToolboxConfig(**known, approver=self._server if asks else None)))
            box.approver = self._server
            self._handlers = {
                "reverse": self._reverse,
                "check": box.check,
                "decide": box.decide,
                "decide_command": box.decide_command,
                "log": box.log,
                "diff": box.diff,
                "masked_paths": box.masked_paths,
                "resolve": box.files.resolve,
                "read": box.files.read,
                "record_truncation": box.record_truncation,
                "list_pending": box.store.list_pending,
                "get_pending": box.store.get_pending,
                "answer": box.store.answer,
            }
        except (ToolError, OSError) as error:
            self._server.send_error(0, error)
        finally:
            self._is_decided.set()

    def close(self) -> None:
        self._is_decided.wait()
        if self._box:
            self._box.close()

    def handle(self, number: int, operation: str, arguments: Mapping[str, Any]) -> Any:
        self._is_decided.wait()
        box = self._box
        assert box is not None  # else the other end got an error for everything
        if operation != "call":
            return self._handlers[operation](**arguments)
        token = CancelToken(lambda text: self._server.send(number, "output", text))

        def cancel() -> None:
            token.cancel()
            if token.thread is not None:
                box.interrupt(token.thread)

        with self._server.cancelled_by(number, cancel):
            reply = box.call(**arguments, cancel_token=token)
        self._server.send(0, "busy", box.is_busy)
        return reply

    def _reverse(
        self,
        direction: Literal["undo", "redo"],
        target: AnyTarget,
        *,
        preview: bool,
        keep_times: bool,
        with_foreign: bool,
        take: Resolution | None,
    ) -> Any:
        assert self._box
        if direction == "redo":
            return self._box.redo(target, preview=preview, keep_times=keep_times, take=take)
        return self._box.undo(target, preview=preview, keep_times=keep_times, with_foreign=with_foreign, take=take)


def main() -> None:
    server = take_socket(int(sys.argv[1]))
    tools = ForkTools(server)
    server.serve(tools.open, tools.handle, tools.close)
    tools.close()
