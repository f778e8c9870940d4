"""The HTTP interface of a hub. docs/decisions/0037-hub.md describes the protocol.

GET  /v1/chain                         the head of the token's chain
POST /v1/records                       append a batch
POST /v1/contents/have                 which contents need not be uploaded
PUT  /v1/contents/{hash}               upload one
GET  /v1/workspaces                    the tenant's workspaces
GET  /v1/calls                         calls: ?workspace= &session= &path= &last= &cursor=
GET  /v1/workspaces/{name}/records     records: ?after= &limit= &seq=
GET  /v1/workspaces/{name}/contents/{hash}
POST /v1/workspaces/{name}/restart     accept a diverged chain as a new generation
POST /v1/tokens, DELETE /v1/tokens/{id}
"""

import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict
from typing import Any, cast

from prometheus_client import generate_latest
from psycopg import OperationalError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
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
    parse_batch,
)
from handhold.hub.access import ROLES, Access, TokenStore
from handhold.hub.authorization import TokenAuthorizer
from handhold.hub.byte_budget import ByteBudget
from handhold.hub.http_errors import RETRY_AFTER_SECONDS, HubHTTPError, not_found
from handhold.hub.metrics import HubMetrics
from handhold.hub.object_contents import HashMismatch, ObjectContents, ObjectStoreError
from handhold.hub.readers import MAX_ANSWER_BYTES, HubReaders
from handhold.hub.readiness import Readiness
from handhold.hub.request_bodies import BodyReader
from handhold.hub.request_values import (
    MAX_NAME_CHARS,
    check_hash,
    format_head,
    is_count,
    is_workspace_name,
    read_count,
    read_length,
)
from handhold.hub.stored_contents import StoredContents
from handhold.hub.tenant_pools import TenantPools

LARGE_BATCH_BYTES = 16 * 1024 * 1024  # in memory; such batches are appended one at a time
MAX_HAVE_HASHES = 1_000
MAX_HAVE_BYTES = 100 * MAX_HAVE_HASHES
MAX_SMALL_BODY_BYTES = 64 * 1024
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
        self._ready = Readiness(tokens)
        authorizer = TokenAuthorizer(tokens)
        self._authorize, self._authorize_chain = authorizer.authorize, authorizer.authorize_chain
        self.metrics = HubMetrics()
        self._bodies = BodyReader(self.metrics)
        self._pools = self.pools = TenantPools()
        self.answers = ByteBudget(MAX_ANSWER_BYTES)
        self._readers = HubReaders(authorizer, store, self._contents, self._bodies, self.pools, self.answers)
        self._log = log
        self.asgi = Starlette(routes=[*self._list_routes()])

    def _list_routes(self) -> Iterator[Route]:
        for path, method, handler in (
            ("/v1/chain", "GET", self._get_chain),
            ("/v1/records", "POST", self._post_records),
            ("/v1/contents/have", "POST", self._post_have),
            ("/v1/contents/{hash}", "PUT", self._put_content),
            ("/v1/workspaces", "GET", self._readers.get_workspaces),
            ("/v1/calls", "GET", self._readers.get_calls),
            ("/v1/workspaces/{name}/records", "GET", self._readers.get_records),
            ("/v1/workspaces/{name}/contents/{hash}", "GET", self._readers.get_content),
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

    # --- for sandboxes

    async def _get_chain(self, request: Request) -> Response:
        chain = await self._authorize_chain(request)
        return JSONResponse(format_head(await self._pools.records.run(chain.tenant, self._store.head, chain)))

    async def _post_records(self, request: Request) -> Response:
        chain = await self._authorize_chain(request)
        claimed = read_count(request.headers.get("handhold-head"), 0)
        async with self._bodies.read(request, MAX_BATCH_BYTES) as body:
            pool = self._pools.large if is_large(body) else self._pools.records
            head = await pool.run(chain.tenant, self._append, chain, body, claimed)
        return JSONResponse(format_head(head))

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
            raise HubHTTPError(409, "GAP", str(gap), **format_head(gap.head)) from None
        except ChainDiverged as found:
            refused.labels("diverged").inc()
            raise HubHTTPError(409, "DIVERGED", str(found), **format_head(found.head)) from None
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
        hashes = [check_hash(each) for each in cast(list[Any], given)]
        present = await self._pools.records.run(chain.tenant, self._store.select_present, chain, hashes)
        return JSONResponse({"present": sorted(present)})

    async def _put_content(self, request: Request) -> Response:
        chain = await self._authorize_chain(request)
        hash = check_hash(request.path_params["hash"])

        try:
            await self._pools.records.run(chain.tenant, self._store.check_room, chain, read_length(request))
            async with self._bodies.spool(request, MAX_CONTENT_BYTES) as file:
                size = await self._pools.contents.run(chain.tenant, self._contents.add, chain, hash, file)
        except HashMismatch:
            raise HubHTTPError(422, "HASH_MISMATCH", "the content does not have this hash") from None
        except QuotaExceeded as quota:
            self.metrics.refused.labels("quota").inc()
            raise _refuse_quota(quota) from None
        self.metrics.contents.inc()
        self.metrics.content_bytes.inc(size)
        return JSONResponse({"hash": hash})

    # --- for people

    async def _post_restart(self, request: Request) -> Response:
        access = await self._authorize(request, "admin")
        name = request.path_params["name"]
        await self._pools.records.run(access.tenant, self._restart, access, name)
        return JSONResponse(format_head(ChainHead()))

    def _restart(self, access: Access, name: str) -> None:
        if not self._store.restart(self._readers.find_chain(access, name)):
            raise HubHTTPError(409, "NOT_DIVERGED", "the chain did not diverge, so there is nothing to accept")

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
        if access.workspace is not None or not is_count(number):
            raise not_found()
        if not await run_in_threadpool(self._tokens.revoke_token, access.tenant, int(number)):
            raise not_found()
        return JSONResponse({})

    # --- for operators

    async def _get_health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _get_ready(self, request: Request) -> Response:
        if not await run_in_threadpool(self._ready.is_ready):
            raise HubHTTPError(503, "UNAVAILABLE", "the database does not answer", RETRY_AFTER_SECONDS)
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


def is_large(body: bytes) -> bool:
    """Whether parsing it takes much memory. The values of a body are counted only if its text alone does not."""
    return 2 * len(body) > LARGE_BATCH_BYTES or estimate_memory(body) > LARGE_BATCH_BYTES


def _refuse_quota(quota: QuotaExceeded) -> HubHTTPError:
    return HubHTTPError(429, "QUOTA", str(quota), QUOTA_RETRY_SECONDS)


def make_log_line(request: Request, route: str, status: int, code: str, seconds: float) -> dict[str, Any]:
    access: Access | None = getattr(request.state, "access", None)
    line: dict[str, Any] = {"at": round(time.time(), 3), "method": request.method, "route": route, "status": status}
    line |= {"ms": round(seconds * 1000, 2), "bytes": read_length(request)}
    if code:
        line["code"] = code
    if access:
        line |= {"tenant": access.tenant, "workspace": access.workspace, "role": access.role}
    if cause := getattr(request.state, "cause", ""):
        line["cause"] = cause
    return line
