"""Answers whose bytes count for their tenant until they were sent: a reader that does not read holds its own share."""

from contextlib import ExitStack
from os import SEEK_END
from typing import IO

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from handhold.hub.byte_budget import ByteBudget

PIECE_BYTES = 256 * 1024  # what is on its way without being counted


class HeldResponse(Response):
    """Sends another response in pieces: each waits until most of those before were received."""

    def __init__(self, response: Response, budget: ByteBudget, tenant: int) -> None:
        """HubHTTPError if the tenant has too much on its way already."""
        self.status_code = response.status_code
        self._response, self._budget, self._tenant = response, budget, tenant
        self._size = len(response.body)
        budget.take(tenant, self._size)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_pieces(message: Message) -> None:
            body: bytes = message.get("body", b"")
            while len(body) > PIECE_BYTES:
                await send({"type": message["type"], "body": body[:PIECE_BYTES], "more_body": True})
                body = body[PIECE_BYTES:]
            await send({**message, "body": body} if "body" in message else message)

        try:
            await self._response(scope, receive, send_pieces)
        finally:
            self._budget.give_back(self._tenant, self._size)


class HeldFileResponse(Response):
    """Sends a file from its beginning, and closes what holds it."""

    def __init__(self, file: IO[bytes], held: ExitStack, media_type: str) -> None:
        super().__init__(media_type=media_type, headers={"content-length": str(file.seek(0, SEEK_END))})
        self._file, self._held = file, held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            self._file.seek(0)
            while piece := self._file.read(PIECE_BYTES):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
