"""HTTP for the protocol revision without sessions (2026-07-28): every request is self-contained."""

from typing import Any, cast

from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import check_accept_headers
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
)
from mcp_types import HEADER_MISMATCH, INVALID_REQUEST, JSONRPCNotification, JSONRPCRequest
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Send

from handhold.server.http_errors import RequestRejected
from handhold.server.http_exchange import HTTPExchange

VERSION_HEADER = "mcp-protocol-version"


async def handle(server: Server[Any], request: Request, send: Send) -> None:
    if request.method != "POST":
        raise RequestRejected(405, "Use POST", headers={"allow": "POST"})
    if check_accept_headers(request) != (True, True):
        raise RequestRejected(406, "The client must accept application/json and text/event-stream")
    body: Any = request.scope["state"]["message"]
    try:
        if isinstance(body, dict) and "id" not in body:
            JSONRPCNotification.model_validate(body)
            # Notifications have no effect here: a client cancels a call by closing its connection.
            if rejection := unsupported_protocol_version_rejection(request.headers[VERSION_HEADER]):
                raise build_rejection(rejection)
            await Response(status_code=202)(request.scope, request.receive, send)
            return
        message = JSONRPCRequest.model_validate(body)
    except ValidationError:
        raise RequestRejected(400, "The body must be one JSON-RPC request or notification", INVALID_REQUEST) from None
    if duplicate := find_duplicated_routing_header(request.headers.items()):
        raise RequestRejected(400, f"{duplicate} header appears more than once", HEADER_MISMATCH, id=message.id)
    # If a header is repeated, the first one is used, as everywhere.
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(request.headers.raw)}
    route = classify_inbound_request(cast(dict[str, Any], body), headers=headers)
    if isinstance(route, InboundLadderRejection):
        raise build_rejection(route, message.id)
    connection = Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)
    await HTTPExchange(request, send, message).respond(server, connection, use_error_status=True)


def build_rejection(rejection: InboundLadderRejection, id: str | int | None = None) -> RequestRejected:  # noqa: A002
    status = ERROR_CODE_HTTP_STATUS.get(rejection.code, 200)
    return RequestRejected(status, rejection.message, rejection.code, id=id, data=rejection.data)
