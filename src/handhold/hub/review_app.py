"""The review page of a hub: read-only, for whoever has a token of a reader or an admin.

The pages are those of `handhold review`. A token sees its tenant, or the one workspace that it is for.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any
from urllib.parse import quote

from psycopg import OperationalError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from handhold.core.errors import ToolError
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.record_store import ChainId
from handhold.core.text.display_text import escape_invisible
from handhold.dialects.error_messages import format_plain_error
from handhold.hub.access import Access
from handhold.hub.app import LogLine, make_log_line
from handhold.hub.browser_sessions import SESSION_HOURS, BrowserSessions, HubSession
from handhold.hub.byte_budget import ByteBudget
from handhold.hub.held_response import HeldResponse
from handhold.hub.http_errors import HubHTTPError
from handhold.hub.metrics import HubMetrics
from handhold.hub.object_contents import ObjectContents, ObjectStoreError
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.postgres_records import PostgresRecords
from handhold.hub.request_values import is_workspace_name
from handhold.hub.shipped_changes import ShippedChanges
from handhold.hub.shipped_contents import MAX_AT_ONCE, ShippedContents
from handhold.hub.tenant_pools import TenantPools
from handhold.logs import log_swallowed
from handhold.review.access import COOKIE_NAME, CSRF_FIELD, AccessMiddleware, has_value, read_cookie
from handhold.review.pages import THEMES, PageRenderer, render_template
from handhold.review.record_pages import RECORD_ROUTES, RecordPages
from handhold.review.recorded_workspace import RecordedWorkspace
from handhold.review.static_files import send_static

BASE = "/review"
HOME, STATIC = f"{BASE}/", f"{BASE}/static"
MAX_OPEN_WORKSPACES = 100  # with their diffs and counts, in memory
PAGE_WORKSPACES = 100
WRONG_TOKEN = "This token does not open the page. It must have the role reader or admin, and not be expired or revoked."
OUTAGE = "The hub's storage does not answer. Try again in a moment."
ROUTE_LABEL = "/review"  # of all pages, in metrics and logs

Handler = Callable[[RecordPages, Request], Response]


class HubWorkspace(RecordedWorkspace):
    """One generation of a workspace on a hub."""

    def count_ahead(self, entries: Sequence[JournalEntry]) -> None:
        """The contents are objects, so they are fetched several at once."""
        with ThreadPoolExecutor(MAX_AT_ONCE) as pool:
            list(pool.map(self.count_lines, (each for each in entries if each.changed)))


class HubReview:
    """An ASGI application for everything below /review."""

    def __init__(
        self,
        store: PostgresRecordStore,
        sessions: BrowserSessions,
        objects: ObjectContents,
        origins: Sequence[str],
        *,
        pools: TenantPools,
        answers: ByteBudget,
        metrics: HubMetrics,
        log: LogLine | None = None,
    ) -> None:
        """`origins` is how browsers name this hub."""
        self._metrics, self._log = metrics, log
        self._pools, self._answers = pools, answers
        self._store, self._sessions, self._objects = store, sessions, objects
        self._is_secure = all(origin.startswith("https:") for origin in origins)
        self._lock = Lock()
        self._open: OrderedDict[tuple[ChainId, int], HubWorkspace] = OrderedDict()
        routes = [
            Route("/", self._make_page(self._show_workspaces)),
            Route("/enter", self._show_form),
            Route("/enter", self._enter, methods=["POST"]),
            Route("/leave", self._leave, methods=["POST"]),
            Route("/static/{name}", send_static),
            Route("/w/{workspace}/", self._redirect_to_timeline),
            *(Route(f"/w/{{workspace}}{path}", self._open_pages(handler)) for path, handler in RECORD_ROUTES),
        ]
        self._app = Starlette(
            routes=[Mount(BASE, routes=routes)],
            middleware=[
                Middleware(
                    AccessMiddleware, find_session=self._find_session, base=BASE, origins=origins, denied=self._deny
                )
            ],
            exception_handlers={
                404: self._handle_missing,
                ToolError: self._handle_error,
                HubHTTPError: self._handle_refusal,
                OperationalError: self._handle_outage,
                ObjectStoreError: self._handle_outage,
            },
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = time.perf_counter(), 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.requests.labels(ROUTE_LABEL, status).inc()
            self._metrics.seconds.labels(ROUTE_LABEL).observe(seconds)
            if self._log and scope["type"] == "http":
                request = Request(scope)
                if session := getattr(request.state, "session", None):
                    request.state.access = session.access
                self._log(make_log_line(request, ROUTE_LABEL, status, "", seconds))

    # --- entering

    def _find_session(self, cookie: str) -> HubSession | None:
        try:
            return self._sessions.find(cookie)
        except OperationalError:
            log_swallowed()  # `_deny` says so
            return None

    async def _deny(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The form; the browser may also have a cookie that it does not send along from another program's link."""
        try:
            await run_in_threadpool(self._sessions.find, "x")
        except OperationalError:  # nobody can be known now
            await PlainTextResponse(OUTAGE, 503)(scope, receive, send)
            return
        await self._render_form(403, again=scope["path"])(scope, receive, send)

    def _show_form(self, _: Request) -> Response:
        return self._render_form(200)

    def _render_form(self, status: int, *, again: str = "", problem: str = "") -> Response:
        """`again` is the page that somebody wanted."""
        link = quote(again, safe="/")
        values = {"base": BASE, "static": STATIC, "again": again, "link": link, "problem": problem}
        return render_template("hub_enter.html", status, values)

    async def _enter(self, request: Request) -> Response:
        form = await request.form(max_files=0, max_fields=5)
        token, again = str(form.get("token", "")).strip(), str(form.get("again", ""))
        cookie = await run_in_threadpool(self._sessions.start, token)
        if cookie is None:
            return self._render_form(403, again=again, problem=WRONG_TOKEN)
        response = RedirectResponse(quote(again if again.startswith(HOME) else HOME, safe="/"), 303)
        response.set_cookie(
            COOKIE_NAME,
            cookie,
            path=HOME,
            max_age=SESSION_HOURS * 3600,
            httponly=True,
            samesite="strict",
            secure=self._is_secure,
        )
        return response

    async def _leave(self, request: Request) -> Response:
        form = await request.form(max_files=0, max_fields=5)
        session: HubSession = request.state.session
        if not has_value(form, CSRF_FIELD, session.csrf):
            raise HTTPException(403, "This form is not from this page.")
        await run_in_threadpool(self._sessions.end, read_cookie(request.headers))
        response = RedirectResponse(f"{BASE}/enter", 303)
        response.delete_cookie(COOKIE_NAME, path=HOME, httponly=True, samesite="strict", secure=self._is_secure)
        return response

    # --- workspaces

    def _show_workspaces(self, request: Request) -> Response:
        access, start = _get_access(request), request.query_params.get("from", "")
        start = start if is_workspace_name(start) else ""
        only = access.workspace_name
        found = self._store.list_workspaces(access.tenant, only=only, start=start, limit=PAGE_WORKSPACES + 1)
        return self._render(
            request,
            "hub_workspaces.html",
            workspaces=[(each, _get_base(each.name)) for each in found[:PAGE_WORKSPACES]],
            next=found[PAGE_WORKSPACES].name if len(found) > PAGE_WORKSPACES else "",
            start=start,
            now=time.time(),
        )

    def _redirect_to_timeline(self, request: Request) -> Response:
        return RedirectResponse(f"{_get_base(request.path_params['workspace'])}/timeline", 303)

    def _make_page(self, handler: Callable[[Request], Response]) -> Callable[[Request], Awaitable[Response]]:
        """A page is made in a thread of the tenant's share, and counts for the tenant until it was sent."""

        async def handle(request: Request) -> Response:
            tenant = _get_access(request).tenant
            return HeldResponse(await self._pools.pages.run(tenant, handler, request), self._answers, tenant)

        return handle

    def _open_pages(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """A page of the workspace that the path names."""

        def handle(request: Request) -> Response:
            workspace = self._find_workspace(request)
            pages = PageRenderer(workspace, _get_base(workspace.name), home=HOME, static=STATIC)
            return handler(RecordPages(pages), request)

        return self._make_page(handle)

    def _find_workspace(self, request: Request) -> HubWorkspace:
        """The same answer for what does not exist and for what belongs to somebody else."""
        access, name = _get_access(request), request.path_params["workspace"]
        if access.workspace_name not in (None, name) or not is_workspace_name(name):
            raise HTTPException(404)
        found = self._store.find_generation(access.tenant, name)
        if found is None:
            raise HTTPException(404)
        chain, generation = found
        with self._lock:
            workspace = self._open.pop(found, None) or self._open_workspace(name, chain, generation)
            self._open[found] = workspace
            if len(self._open) > MAX_OPEN_WORKSPACES:
                self._open.popitem(last=False)
        return workspace

    def _open_workspace(self, name: str, chain: ChainId, generation: int) -> HubWorkspace:
        contents = ShippedContents(self._store, self._objects, chain)
        records = PostgresRecords(self._store, contents, chain, generation)
        return HubWorkspace(name, (), records, ShippedChanges(self._store, contents, chain, generation))

    # --- errors

    def _handle_missing(self, request: Request, _: Exception) -> Response:
        if not getattr(request.state, "session", None):
            return Response("Not found.", 404)
        return self._render(request, "error.html", 404, title="Not found", message="There is nothing here.")

    def _handle_error(self, request: Request, error: Exception) -> Response:
        message = escape_invisible(format_plain_error(error)) if isinstance(error, ToolError) else str(error)
        return self._render(request, "error.html", 500, title="This did not work", message=message)

    def _handle_outage(self, request: Request, error: Exception) -> Response:
        request.state.cause = f"{type(error).__name__}: {error}"[:500]
        return self._render(request, "error.html", 503, title="Not available", message=OUTAGE)

    def _handle_refusal(self, request: Request, error: Exception) -> Response:
        status = error.status if isinstance(error, HubHTTPError) else 500
        return self._render(request, "error.html", status, title="Not now", message=str(error))

    def _render(self, request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
        """A page that belongs to no workspace."""
        session: HubSession | None = getattr(request.state, "session", None)
        theme = request.cookies.get("theme", "")
        common = {
            "static": STATIC,
            "home": HOME,
            "base": BASE,
            "workspace": "",
            "can_act": False,
            "waiting": (),
            "theme": theme if theme in THEMES else "",
            "is_part": False,
            "csrf": session.csrf if session else "",
        }
        return render_template(template, status, {**common, **values})


def _get_base(workspace: str) -> str:
    return f"{HOME}w/{quote(workspace, safe='')}"


def _get_access(request: Request) -> Access:
    session: HubSession = request.state.session
    return session.access
