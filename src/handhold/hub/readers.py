"""What a hub answers to people and their programs: everything it keeps, in pieces.

No answer has more than a few megabytes, or one record that is larger. It is made in a thread, of which a tenant has
few, and counts for the tenant until it was sent. So a reader gets everything in time, and others do not wait for it.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from handhold.core.ports.record_store import BadCallCursor, ChainId, HubEntry, RecordStore
from handhold.hub.access import Access
from handhold.hub.authorization import TokenAuthorizer
from handhold.hub.byte_budget import ByteBudget
from handhold.hub.held_response import HeldFileResponse, HeldResponse
from handhold.hub.http_errors import HubHTTPError, not_found
from handhold.hub.object_contents import HashMismatch
from handhold.hub.request_bodies import BodyReader
from handhold.hub.request_values import check_hash, check_name, format_head, read_count
from handhold.hub.stored_contents import StoredContents
from handhold.hub.tenant_pools import TenantPools

MAX_LISTED = 1_000
MAX_ANSWER_BYTES = 256 * 1024 * 1024  # on their way, of all tenants
JSON, LINES, BYTES = "application/json", "application/x-ndjson", "application/octet-stream"

P = ParamSpec("P")
T = TypeVar("T")


class HubReaders:
    def __init__(
        self,
        authorizer: TokenAuthorizer,
        store: RecordStore,
        contents: StoredContents,
        bodies: BodyReader,
        pools: TenantPools,
        answers: ByteBudget,
    ) -> None:
        self._authorizer, self._store, self._contents = authorizer, store, contents
        self._bodies, self._pools, self._answers = bodies, pools, answers

    async def get_workspaces(self, request: Request) -> Response:
        access = await self._authorizer.authorize(request, "reader", "admin")
        return await self._answer(access, JSON, self._list_workspaces, access)

    def _list_workspaces(self, access: Access) -> bytes:
        found = [
            {**format_head(each.head), "name": each.name, "lag": each.lag, "seen_at": each.seen_at}
            | {"stored_bytes": each.stored_bytes}
            for each in self._store.list_workspaces(access.tenant)
            if access.workspace_name in (None, each.name)
        ]
        return format_list("workspaces", found)

    async def get_calls(self, request: Request) -> Response:
        access = await self._authorizer.authorize(request, "reader", "admin")
        query = request.query_params
        workspace = access.workspace_name if access.workspace_name is not None else query.get("workspace")
        if query.get("workspace") not in (None, workspace):
            raise not_found()
        wanted: dict[str, Any] = {
            "workspace": check_name(workspace),
            "last": read_count(query.get("last"), 20, MAX_LISTED),
            "cursor": query.get("cursor", ""),
        }
        try:
            return await self._answer(
                access, JSON, self._list_calls, access.tenant, query.get("path"), query.get("session"), wanted
            )
        except BadCallCursor:
            raise HubHTTPError(422, "INVALID", "`cursor` must be the `next` of an earlier answer") from None

    def _list_calls(self, tenant: int, path: str | None, session: str | None, wanted: dict[str, Any]) -> bytes:
        if path:
            found = self._store.find_path(tenant, path, **wanted)
        else:
            found = self._store.list_calls(tenant, session=session, **wanted)
        return format_list("calls", map(format_entry, found.entries), next=found.older)

    async def get_records(self, request: Request) -> Response:
        access, query = await self._authorizer.authorize(request, "reader", "admin"), request.query_params
        after, limit = read_count(query.get("after"), 0), read_count(query.get("limit"), MAX_LISTED, MAX_LISTED)
        seq = None if query.get("seq") is None else read_count(query.get("seq"), 0)
        return await self._answer(
            access, LINES, self._read_lines, access, request.path_params["name"], seq, after, limit
        )

    def _read_lines(self, access: Access, name: str, seq: int | None, after: int, limit: int) -> bytes:
        chain = self.find_chain(access, name)
        if seq is None:
            lines = self._store.read_lines(chain, after=after, limit=limit)
        else:
            lines = self._store.read_call(chain, seq, after=after)
        return b"".join(line + b"\n" for line in lines)

    async def get_content(self, request: Request) -> Response:
        """It was verified before its first byte is sent."""
        access = await self._authorizer.authorize(request, "reader", "admin")
        hash = check_hash(request.path_params["hash"])
        run, tenant = self._pools.contents.run, access.tenant
        chain = await self._pools.reads.run(tenant, self.find_chain, access, request.path_params["name"])
        content = await self._pools.reads.run(tenant, self._store.find_content, chain, hash)
        if content is None:
            raise not_found()
        with ExitStack() as held:
            file = held.enter_context(self._bodies.reserve_file(tenant, content.size))
            try:
                if not await run(tenant, self._contents.fetch, chain, hash, content, file):
                    raise not_found()
            except HashMismatch:
                raise HubHTTPError(409, "CORRUPT", "what is stored does not have this hash any more") from None
            return HeldFileResponse(file, held.pop_all(), BYTES)

    def find_chain(self, access: Access, name: str) -> ChainId:
        """The same answer for what does not exist and for what belongs to somebody else."""
        if access.workspace_name not in (None, name):
            raise not_found()
        chain = self._store.find_chain(access.tenant, check_name(name) or "")
        if chain is None:
            raise not_found()
        return chain

    async def _answer(
        self, access: Access, media_type: str, make: Callable[P, bytes], *args: P.args, **options: P.kwargs
    ) -> Response:
        data = await self._pools.reads.run(access.tenant, make, *args, **options)
        return HeldResponse(Response(data, media_type=media_type), self._answers, access.tenant)


def format_entry(found: HubEntry) -> dict[str, Any]:
    return {"workspace": found.workspace, **asdict(found.entry)}


def format_list(name: str, items: Any, **more: str) -> bytes:
    """JSON, with surrogates as escapes. One by one: others have their turn in between."""
    parts = ", ".join(map(json.dumps, items))
    rest = "".join(f", {json.dumps(key)}: {json.dumps(value)}" for key, value in more.items())
    return f'{{"{name}": [{parts}]{rest}}}'.encode()
