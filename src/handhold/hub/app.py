"""The HTTP interface of a hub. docs/decisions/0037-hub.md describes the protocol.

GET  /v1/chain                         the head of the token's chain
POST /v1/records                       append a batch
POST /v1/contents/have                 which contents need not be uploaded
PUT  /v1/contents/{hash}               upload one
GET  /v1/workspaces                    the tenant's workspaces
GET  /v1/calls                         calls: ?workspace= &session= &path= &last=
GET  /v1/workspaces/{name}/records     records: ?after= &limit= &seq=
GET  /v1/workspaces/{name}/contents/{hash}
POST /v1/workspaces/{name}/restart     accept a diverged chain as a new generation
POST /v1/tokens, DELETE /v1/tokens/{id}
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict
from typing import Any, cast

from prometheus_client import generate_latest
from psycopg import OperationalError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from handhold.core.errors import ToolError
from handhold.core.ports.record_store import (
    ChainDiverged,
    ChainGap,
    ChainHead,
    ChainId,
    QuotaExceeded,
    RecordStore,
)
from handhold.core.shipped_records import (
    MAX_BATCH_BYTES,
    MAX_CONTENT_BYTES,
    BadBatch,
    estimate_memory,
    is_hash,
    parse_batch,
)
from handhold.http_listener.listener import assign_client
from handhold.hub.access import ROLES, Access, Role, TokenStore
from handhold.hub.access_cache import AccessCache
from handhold.hub.http_errors import HubHTTPError, not_found, unauthorized
from handhold.hub.metrics import HubMetrics
from handhold.hub.object_contents import HashMismatch, ObjectContents, ObjectStoreError
from handhold.hub.readiness import Readiness
from handhold.hub.request_bodies import BodyReader
from handhold.hub.stored_contents import StoredContents

LARGE_BATCH_BYTES = 16 * 1024 * 1024  # in memory; such batches are appended one at a time
MAX_HAVE_HASHES = 1_000
MAX_HAVE_BYTES = 100 * MAX_HAVE_HASHES
MAX_LISTED = 1_000
MAX_SMALL_BODY_BYTES = 64 * 1024
MAX_NAME_CHARS = 200
RETRY_AFTER_SECONDS = 1
QUOTA_RETRY_SECONDS = 30

Handler = Callable[[Request], Awaitable[Response]]
LogLine = Callable[[dict[str, Any]], None]


def log_to_stderr(line: dict[str, Any]) -> None:
    sys.stderr.write(json.dumps(line, separators=(",", ":")) + "\n")


class HubApp:
    """Stateless: everything that lasts is in the store and in the contents."""

    def __init__(
        self, store: RecordStore, tokens: TokenStore, contents: ObjectContents, *, log: LogLine | None = None
    ) -> None:
        self._store = store
        self._tokens = tokens
        self._contents = StoredContents(store, contents)
        self._ready = Readiness(tokens, contents)
        self._access = AccessCache(tokens)
        self.metrics = HubMetrics()
        self._bodies = BodyReader(self.metrics)
        self._large_batch = asyncio.Lock()
        self._log = log
        self.asgi = Starlette(routes=[*self._list_routes()])

    def _list_routes(self) -> Iterator[Route]:
        for path, method, handler in (
            ("/v1/chain", "GET", self._get_chain),
            ("/v1/records", "POST", self._post_records),
            ("/v1/contents/have", "POST", self._post_have),
            ("/v1/contents/{hash}", "PUT", self._put_content),
            ("/v1/workspaces", "GET", self._get_workspaces),
            ("/v1/calls", "GET", self._get_calls),
            ("/v1/workspaces/{name}/records", "GET", self._get_records),
            ("/v1/workspaces/{name}/contents/{hash}", "GET", self._get_content),
            ("/v1/workspaces/{name}/restart", "POST", self._post_restart),
            ("/v1/tokens", "POST", self._post_token),
            ("/v1/tokens/{id}", "DELETE", self._delete_token),
            ("/healthz", "GET", self._get_health),
            ("/readyz", "GET", self._get_ready),
            ("/metrics", "GET", self._get_metrics),
        ):
            yield Route(path, self._observe(path, handler), methods=[method])

    # --- every request

    def _observe(self, route: str, handler: Handler) -> Handler:
        """The handler with refusals as answers, metrics, and a line in the log."""

        async def handle(request: Request) -> Response:
            started = time.perf_counter()
            code = ""
            try:
                response = await handler(request)
            except HubHTTPError as error:
                code, response = error.code, error.to_response()
            except ClientDisconnect:
                code, response = "DISCONNECTED", Response(status_code=499)
            except (OperationalError, ObjectStoreError, TimeoutError, ToolError) as error:
                code = "UNAVAILABLE"
                refusal = HubHTTPError(503, code, "the hub's storage does not answer", RETRY_AFTER_SECONDS)
                response = refusal.to_response()
                request.state.cause = f"{type(error).__name__}: {error}"[:500]
            seconds = time.perf_counter() - started
            self.metrics.requests.labels(route, response.status_code).inc()
            self.metrics.seconds.labels(route).observe(seconds)
            if self._log:
                self._log(make_log_line(request, route, response.status_code, code, seconds))
            return response

        return handle

    async def _authorize(self, request: Request, *roles: Role) -> Access:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        access = None
        if scheme.lower() == "bearer" and token:
            access = await run_in_threadpool(self._access.find, token.strip())
        if access is None:
            raise unauthorized()
        request.state.access = access
        if not assign_client(request.scope.get("state", {}), access.client):
            raise HubHTTPError(503, "BUSY", "the tenant has too many connections", RETRY_AFTER_SECONDS)
        if access.role not in roles:
            raise HubHTTPError(403, "FORBIDDEN", f"this needs a token with the role {' or '.join(roles)}")
        return access

    async def _authorize_chain(self, request: Request) -> ChainId:
        """The chain of an agent's token."""
        access = await self._authorize(request, "agent")
        assert access.workspace is not None  # the database has no other agents
        return ChainId(access.tenant, access.workspace)

    # --- for sandboxes

    async def _get_chain(self, request: Request) -> Response:
        chain = await self._authorize_chain(request)
        return JSONResponse(_format_head(await run_in_threadpool(self._store.head, chain)))

    async def _post_records(self, request: Request) -> Response:
        chain = await self._authorize_chain(request)
        claimed = _read_count(request.headers.get("handhold-head"), 0)
        async with self._bodies.read(request, MAX_BATCH_BYTES) as body, self._wait_if_large(body):
            head = await run_in_threadpool(self._append, chain, body, claimed)
        return JSONResponse(_format_head(head))

    def _wait_if_large(self, body: bytes) -> AbstractAsyncContextManager[None]:
        return self._large_batch if estimate_memory(body) > LARGE_BATCH_BYTES else nullcontext()

    def _append(self, chain: ChainId, body: bytes, claimed: int) -> ChainHead:
        refused = self.metrics.refused
        try:
            batch = parse_batch(body)
            head = self._store.append(chain, batch, claimed=claimed)
        except BadBatch as error:
            refused.labels("invalid").inc()
            raise HubHTTPError(422, "INVALID_RECORDS", str(error)) from None
        except ChainGap as gap:
            refused.labels("gap").inc()
            raise HubHTTPError(409, "GAP", str(gap), **_format_head(gap.head)) from None
        except ChainDiverged as found:
            refused.labels("diverged").inc()
            raise HubHTTPError(409, "DIVERGED", str(found), **_format_head(found.head)) from None
        except QuotaExceeded as quota:
            refused.labels("quota").inc()
            raise _refuse_quota(quota) from None
        self.metrics.records.inc(len(batch.records))
        self.metrics.record_bytes.inc(batch.size)
        self.metrics.lag.observe(max(0, claimed - head.record))
        return head

    async def _post_have(self, request: Request) -> Response:
        chain = await self._authorize_chain(request)
        given: Any = (await self._read_json(request, MAX_HAVE_BYTES)).get("hashes")
        if not isinstance(given, list) or len(cast(list[Any], given)) > MAX_HAVE_HASHES:
            raise HubHTTPError(422, "INVALID", f"`hashes` must be a list of at most {MAX_HAVE_HASHES}")
        hashes = [_check_hash(each) for each in cast(list[Any], given)]
        present = await run_in_threadpool(self._store.select_present, chain, hashes)
        return JSONResponse({"present": sorted(present)})

    async def _put_content(self, request: Request) -> Response:
        chain = await self._authorize_chain(request)
        hash = _check_hash(request.path_params["hash"])

        try:
            await run_in_threadpool(self._store.check_room, chain, _read_length(request))
            async with self._bodies.spool(request, MAX_CONTENT_BYTES) as file:
                size = await run_in_threadpool(self._contents.add, chain, hash, file)
        except HashMismatch:
            raise HubHTTPError(422, "HASH_MISMATCH", "the content does not have this hash") from None
        except QuotaExceeded as quota:
            self.metrics.refused.labels("quota").inc()
            raise _refuse_quota(quota) from None
        self.metrics.contents.inc()
        self.metrics.content_bytes.inc(size)
        return JSONResponse({"hash": hash})

    # --- for people

    async def _get_workspaces(self, request: Request) -> Response:
        access = await self._authorize(request, "reader", "admin")
        found = await run_in_threadpool(self._store.list_workspaces, access.tenant)
        return JSONResponse(
            {
                "workspaces": [
                    {**_format_head(each.head), "name": each.name, "lag": each.lag, "seen_at": each.seen_at}
                    | {"stored_bytes": each.stored_bytes}
                    for each in found
                    if access.workspace_name in (None, each.name)
                ]
            }
        )

    async def _get_calls(self, request: Request) -> Response:
        access = await self._authorize(request, "reader", "admin")
        query = request.query_params
        workspace = access.workspace_name if access.workspace_name is not None else query.get("workspace")
        if query.get("workspace") not in (None, workspace):
            raise not_found()
        last = _read_count(query.get("last"), 20, MAX_LISTED)
        if path := query.get("path"):
            found = await run_in_threadpool(
                self._store.find_path, access.tenant, path, workspace=_storable(workspace), last=last
            )
        else:
            found = await run_in_threadpool(
                self._store.list_calls,
                access.tenant,
                workspace=_storable(workspace),
                session=query.get("session"),
                last=last,
            )
        entries = [{"workspace": each.workspace, **asdict(each.entry)} for each in found]
        return Response(json.dumps({"calls": entries}), media_type="application/json")  # surrogates as escapes

    async def _get_records(self, request: Request) -> Response:
        access, chain = await self._find_workspace(request)
        query = request.query_params
        after, limit = _read_count(query.get("after"), 0), _read_count(query.get("limit"), MAX_LISTED, MAX_LISTED)
        seq = query.get("seq")
        if seq is None:
            lines = await run_in_threadpool(self._store.read_lines, chain, after=after, limit=limit)
        else:
            lines = await run_in_threadpool(self._store.read_call, chain, _read_count(seq, 0))
        request.state.access = access
        return Response(b"".join(line + b"\n" for line in lines), media_type="application/x-ndjson")

    async def _get_content(self, request: Request) -> Response:
        _, chain = await self._find_workspace(request)
        hash = _check_hash(request.path_params["hash"])
        found = await run_in_threadpool(self._contents.read, chain, hash)
        if found is None:
            raise not_found()
        return StreamingResponse(found, media_type="application/octet-stream")

    async def _post_restart(self, request: Request) -> Response:
        _, chain = await self._find_workspace(request, "admin")
        await run_in_threadpool(self._store.restart, chain)
        return JSONResponse(_format_head(ChainHead()))

    async def _find_workspace(self, request: Request, *roles: Role) -> tuple[Access, ChainId]:
        access = await self._authorize(request, *(roles or ("reader", "admin")))
        name = request.path_params["name"]
        if access.workspace_name not in (None, name):
            raise not_found()
        chain = await run_in_threadpool(self._store.find_chain, access.tenant, _storable(name) or "")
        if chain is None:
            raise not_found()
        return access, chain

    async def _post_token(self, request: Request) -> Response:
        access = await self._authorize(request, "admin")
        wanted = await self._read_json(request, MAX_SMALL_BODY_BYTES)
        match wanted:
            case {"role": str(role), **rest} if role in ROLES:
                workspace, days = rest.get("workspace"), rest.get("days")
            case _:
                raise HubHTTPError(422, "INVALID", f"`role` must be one of {', '.join(ROLES)}")
        if workspace is not None and not is_workspace_name(workspace):
            raise HubHTTPError(422, "INVALID", f"`workspace` must be a name of 1 to {MAX_NAME_CHARS} characters")
        if role == "agent" and workspace is None:
            raise HubHTTPError(422, "INVALID", "an agent's token needs `workspace`")
        if days is not None and not (isinstance(days, int | float) and 0 < days < 36_500):
            raise HubHTTPError(422, "INVALID", "`days` must be a number above 0")
        if access.workspace_name not in (None, workspace):
            raise not_found()
        made = await run_in_threadpool(self._tokens.create_token, access.tenant, role, workspace, days)
        return JSONResponse(asdict(made), 201)

    async def _delete_token(self, request: Request) -> Response:
        access = await self._authorize(request, "admin")
        number = request.path_params["id"]
        if access.workspace is not None or not _is_count(number):
            raise not_found()
        if not await run_in_threadpool(self._tokens.revoke_token, access.tenant, int(number)):
            raise not_found()
        return JSONResponse({})

    # --- for operators

    async def _get_health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _get_ready(self, request: Request) -> Response:
        if missing := await run_in_threadpool(self._ready.find_missing):
            raise HubHTTPError(503, "UNAVAILABLE", f"{missing} does not answer", RETRY_AFTER_SECONDS)
        return JSONResponse({"status": "ready"})

    async def _get_metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.metrics.registry), media_type="text/plain; version=0.0.4")

    async def _read_json(self, request: Request, limit: int) -> dict[str, Any]:
        async with self._bodies.read(request, limit) as body:
            try:
                found = json.loads(body)
            except (ValueError, RecursionError):
                found = None
        if not isinstance(found, dict):
            raise HubHTTPError(422, "INVALID", "the body must be a JSON object")
        return found  # pyright: ignore[reportUnknownVariableType]


def _format_head(head: ChainHead) -> dict[str, Any]:
    return {"record": head.record, "digest": head.digest.hex(), "diverged_at": head.diverged_at}


def _refuse_quota(quota: QuotaExceeded) -> HubHTTPError:
    return HubHTTPError(429, "QUOTA", str(quota), QUOTA_RETRY_SECONDS)


def _check_hash(value: object) -> str:
    if not isinstance(value, str) or not is_hash(value):
        raise HubHTTPError(422, "INVALID", "a hash must be 64 lower-case hex digits")
    return value


def _read_count(text: str | None, default: int, most: int = 2**62) -> int:
    if text is None:
        return default
    if not _is_count(text):
        raise HubHTTPError(422, "INVALID", "a number is expected")
    return min(int(text), most)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def is_workspace_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and name.isprintable() and "/" not in name


def _storable(name: str | None) -> str | None:
    """A name for a query. PostgreSQL refuses some texts that no workspace can have."""
    if name is not None and not is_workspace_name(name):
        raise not_found()
    return name


def make_log_line(request: Request, route: str, status: int, code: str, seconds: float) -> dict[str, Any]:
    access: Access | None = getattr(request.state, "access", None)
    line: dict[str, Any] = {"at": round(time.time(), 3), "method": request.method, "route": route, "status": status}
    line |= {"ms": round(seconds * 1000, 2), "bytes": _read_length(request)}
    if code:
        line["code"] = code
    if access:
        line |= {"tenant": access.tenant, "workspace": access.workspace, "role": access.role}
    if cause := getattr(request.state, "cause", ""):
        line["cause"] = cause
    return line


def _read_length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if _is_count(length) else 0
