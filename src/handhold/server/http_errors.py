"""Requests that are rejected before they reach a tool: an HTTP status, with the reason as a JSON-RPC error."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_types import INVALID_REQUEST
from starlette.responses import Response


@dataclass(eq=False)
class RequestRejected(Exception):
    """A rejected request. `id` is None if the request was not parsed yet."""

    status: int
    message: str
    code: int = INVALID_REQUEST
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    id: str | int | None = None
    data: Any = None

    @property
    def response(self) -> Response:
        error = {"code": self.code, "message": self.message} | ({"data": self.data} if self.data is not None else {})
        body = {"jsonrpc": "2.0", "id": self.id, "error": error}
        return Response(json.dumps(body), self.status, self.headers, "application/json")
