"""The review page as an ASGI application."""

import gzip
import hmac
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from mimetypes import guess_type
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from handhold.core.errors import BadGlob, NoPendingApproval, StateDamaged, ToolError
from handhold.core.ports.approvals import PendingApproval
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.records import CallFilter
from handhold.core.text.display_text import escape_invisible
from handhold.dialects.error_messages import format_plain_error
from handhold.review import diff_view
from handhold.review.access import COOKIE_NAME, CSRF_FIELD, AccessKeys, AccessMiddleware, BrowserSession
from handhold.review.call_view import build_call, build_history, convert_picture, view_file
from handhold.review.events import EventHub
from handhold.review.fork_pages import ForkPages
from handhold.review.pages import PageRenderer, parse_filter, quote_query, read_query
from handhold.review.questions import ANSWERS, MAX_WORD_CHARS, compute_digest, view_effect
from handhold.review.takeback_pages import TakeBackPages
from handhold.review.timeline import MAX_SESSIONS, build_timeline
from handhold.review.workspace import ReviewedWorkspace

STATIC_FOLDER = Path(__file__).parent / "static"
Handler = Callable[[Request, FormData], Response]


class ReviewApp:
    """The pages of one workspace. `base` is the path they are under, `hosts` the names of the server with its port."""

    def __init__(
        self, workspace: ReviewedWorkspace, keys: AccessKeys, base: str, hosts: tuple[str, ...], by: str
    ) -> None:
        """`by` is who answers, for the journal."""
        self.workspace = workspace
        self.keys = keys
        self._by = by
        self._base = base
        self._pages = PageRenderer(workspace, keys, base)
        self.events = EventHub(workspace)
        take_back = TakeBackPages(self._pages, by)
        forks = ForkPages(self._pages, by)
        routes = [
            Route("/", self._redirect_home),
            Route("/enter", self._enter),
            Route("/static/{name}", self._send_static),
            Route("/events", self._stream_events),
            Route("/now", self._show_now),
            Route("/now/side", self._show_side),
            Route("/now/cells", self._show_cells),
            Route("/question/{id}", self._show_question),
            Route("/question/{id}/effect/{number:int}", self._show_effect),
            Route("/question/{id}/answer", self._post(self._answer), methods=["POST"]),
            Route("/timeline", self._show_timeline),
            Route("/call/{seq:int}", self._show_call),
            Route("/call/{seq:int}/output", self._show_output),
            Route("/call/{seq:int}/file/{number:int}", self._show_file),
            Route("/call/{seq:int}/image/{number:int}/{side}", self._show_image),
            Route("/history", self._show_history),
            Route("/call/{seq:int}/undo", take_back.show),
            Route("/call/{seq:int}/undo", self._post(take_back.commit), methods=["POST"]),
            Route("/call/{seq:int}/redo", self._post(take_back.redo), methods=["POST"]),
            Route("/forks", forks.show),
            Route("/forks/{name}", forks.show_one),
            Route("/forks/{name}/merge", self._post(forks.merge), methods=["POST"]),
            Route("/forks/{name}/drop", self._post(forks.drop), methods=["POST"]),
        ]
        self._app = Starlette(
            routes=[Mount(base, routes=routes)],
            middleware=[Middleware(AccessMiddleware, keys=keys, base=base, hosts=hosts, denied=self._deny)],
            exception_handlers={
                404: self._handle_missing,
                StateDamaged: self._handle_error,
                ToolError: self._handle_error,
            },
            lifespan=self._live,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def _live(self, _: ASGIApp) -> AsyncGenerator[None]:
        yield
        await self.events.close()

    # --- entering

    def _redirect_home(self, _: Request) -> Response:
        return RedirectResponse(f"{self._base}/now", 303)

    def _enter(self, request: Request) -> Response:
        """Exchange the token of a link for a cookie.

        The page leads on by itself: the browser sends a strict cookie only from one of our own pages, and the link may
        have been opened from somewhere else.
        """
        cookie = self.keys.exchange(request.query_params.get("token", ""))
        if cookie is None:
            return self._pages.render_plain("expired.html", 403)
        response = self._pages.render_plain("enter.html", 200)
        response.set_cookie(COOKIE_NAME, cookie, path=f"{self._base}/", httponly=True, samesite="strict")
        return response

    async def _deny(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._pages.render_plain("expired.html", 403, again=scope["path"])(scope, receive, send)

    def _handle_missing(self, request: Request, _: Exception) -> Response:
        if not getattr(request.state, "session", None):
            return Response("Not found.", 404)
        return self._pages.render(request, "error.html", 404, title="Not found", message="There is nothing here.")

    def _handle_error(self, request: Request, error: Exception) -> Response:
        message = escape_invisible(format_plain_error(error)) if isinstance(error, ToolError) else str(error)
        return self._pages.render(request, "error.html", 500, title="This did not work", message=message)

    def _post(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """A form of one of our pages: its token must be that of the cookie's session."""

        async def handle(request: Request) -> Response:
            form = await request.form(max_files=0, max_fields=300)
            session: BrowserSession = request.state.session
            if not hmac.compare_digest(str(form.get(CSRF_FIELD, "")).encode(), session.csrf.encode()):
                raise HTTPException(403, "This form is not from this page.")
            return await run_in_threadpool(handler, request, form)

        return handle

    def _send_static(self, request: Request) -> Response:
        found = read_static(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        content, kind = found
        headers = {"content-type": kind, "cache-control": "private, max-age=600", "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            content, headers["content-encoding"] = compress(content), "gzip"
        return Response(content, headers=headers)

    async def _stream_events(self, _: Request) -> Response:
        if self.events.is_full:
            raise HTTPException(503, "Too many open pages.")
        return StreamingResponse(self.events.stream(), media_type="text/event-stream")

    # --- now

    def _show_now(self, request: Request) -> Response:
        pending = self._pages.list_pending()
        questions = [self._pages.view_question(each) for each in pending]
        return self._pages.render(
            request,
            "now.html",
            pending=pending,
            questions=questions,
            running=self._pages.list_running(),
            answered=self._pages.list_answered(),
            sessions=self.workspace.records.count_sessions(),
            opened="",
        )

    def _show_side(self, request: Request) -> Response:
        return self._pages.render(
            request, "side.html", running=self._pages.list_running(), answered=self._pages.list_answered()
        )

    def _show_cells(self, request: Request) -> Response:
        questions = [self._pages.view_question(each) for each in self._pages.list_pending()]
        return self._pages.render(request, "cells.html", questions=questions)

    def _show_question(self, request: Request) -> Response:
        wanted = request.path_params["id"]
        pending = self._pages.list_pending()
        found = next((each for each in pending if each.id == wanted), None)
        if found is None:
            return self._show_answered(request, wanted, "")
        opened = request.query_params.get("open", "")
        view, number = self._pages.view_question(found), pending.index(found) + 1
        return self._pages.render(
            request, "question_page.html", pending=pending, question=view, number=number, opened=opened
        )

    def _show_effect(self, request: Request) -> Response:
        pending = self._find_pending(request.path_params["id"])
        start = _parse_int(request.query_params.get("start", ""))
        view = view_effect(pending, request.path_params["number"], start=start)
        if view is None:
            raise HTTPException(404)
        return self._pages.render(request, "effect.html", question=pending, diff=view, here=str(request.url.path))

    def _find_pending(self, wanted: str) -> PendingApproval:
        found = next((each for each in self.workspace.store.list_pending() if each.id == wanted), None)
        if found is None:
            raise HTTPException(404)
        return found

    def _answer(self, request: Request, form: FormData) -> Response:
        """Record an answer, if the question is still the one that was shown."""
        wanted, choice = request.path_params["id"], str(form.get("answer", ""))
        found = next((each for each in self.workspace.store.list_pending() if each.id == wanted), None)
        if found is None:
            return self._show_answered(request, wanted, choice)
        if choice not in ANSWERS:
            raise HTTPException(400, "Unknown answer.")
        if not hmac.compare_digest(str(form.get("shown", "")), compute_digest(found)):
            return self._ask_again(request, found, "changed", 409)
        view, consent = self._pages.view_question(found), ANSWERS[choice]
        is_offered = {"session": bool(found.allows), "like": bool(found.patterns)}.get(choice, True)
        if not is_offered:
            raise HTTPException(400, "This answer is not offered for this question.")
        is_refusal = choice in ("no", "word")
        if view.needs_token and not is_refusal and not self.keys.is_approval_token(str(form.get("token", ""))):
            return self._ask_again(request, found, "token", 403)
        word = str(form.get("word", "")).strip()[:MAX_WORD_CHARS] if choice == "word" else ""
        try:
            self.workspace.store.answer(found.hash, consent, by=f"{self._by} on the review page", word=word)
        except NoPendingApproval:
            return self._show_answered(request, wanted, choice)
        if request.headers.get("hx-request") != "true":
            return RedirectResponse(f"{self._base}/now", 303)
        return self._pages.render(request, "answered.html", question=view, choice=choice, word=word)

    def _ask_again(self, request: Request, pending: PendingApproval, problem: str, status: int) -> Response:
        ids = [each.id for each in self._pages.list_pending()]
        view, number = self._pages.view_question(pending), ids.index(pending.id) + 1 if pending.id in ids else 1
        return self._pages.render(
            request, "question_page.html", status, question=view, number=number, opened="", problem=problem
        )

    def _show_answered(self, request: Request, wanted: str, choice: str) -> Response:
        """Somebody else was first, or the question is gone."""
        answered = next((each for each in self.workspace.store.list_answered(1000) if each.id == wanted), None)
        return self._pages.render(
            request, "too_late.html", 409 if choice else 200, wanted=wanted, answered=answered, choice=choice
        )

    # --- timeline and calls

    def _show_timeline(self, request: Request) -> Response:
        sessions = self.workspace.records.list_sessions(
            cursor=request.query_params.get("sessions", ""), limit=MAX_SESSIONS
        )
        wanted = parse_filter(request)
        if not wanted.session and sessions.items and "session" not in request.query_params:
            wanted = replace(wanted, session=sessions.items[0].name)
        cursor, problem = request.query_params.get("before", ""), ""
        pending = self._pages.list_pending()
        try:
            view = build_timeline(self.workspace, wanted, cursor, pending)
        except BadGlob as error:
            problem = format_plain_error(error)
            view = build_timeline(self.workspace, CallFilter(session=wanted.session), cursor, pending)
        query = {"session": wanted.session, "path": wanted.path, "tool": wanted.tool, "q": wanted.text}
        query |= {"decision": wanted.decision} | ({} if wanted.turn is None else {"turn": wanted.turn})
        return self._pages.render(
            request,
            "timeline.html",
            pending=pending,
            timeline=view,
            sessions=sessions,
            session_count=self.workspace.records.count_sessions(),
            waiting_sessions={each.session for each in pending},
            run="" if request.headers.get("hx-target") == "calls" else self._pages.draw_run(wanted.session, pending),
            problem=problem,
            cursor=cursor,
            query=encode_query(query),
        )

    def _show_call(self, request: Request) -> Response:
        entry = self._find_entry(request)
        view = build_call(self.workspace, entry)
        question = next((each for each in self.workspace.store.list_pending() if each.seq == entry.seq), None)
        return self._pages.render(request, "call.html", call=view, question=question)

    def _show_output(self, request: Request) -> Response:
        view = build_call(self.workspace, self._find_entry(request))
        return self._pages.render(request, "output.html", call=view)

    def _show_file(self, request: Request) -> Response:
        entry = self._find_entry(request)
        change = self.workspace.history.find_change(entry, request.path_params["number"])
        if change is None:
            raise HTTPException(404)
        start, side = _parse_int(request.query_params.get("start", "")), request.query_params.get("side", "")
        file = view_file(self.workspace, entry, change, start=start, limit=diff_view.PAGE_LINES)
        diff, problem = file.diff, file.problem
        if side in ("before", "after", "now"):
            history, path = self.workspace.history, change.change.path
            data = history.read_now(path) if side == "now" else history.read_side(change.change, side)
            text = "" if data is None else history.decode(data, path)
            diff, problem = diff_view.render_plain(change.effect.path, text, start=start), ""
            if data is None:
                diff, problem = None, "There is no such file at that moment, or its content is not kept."
        return self._pages.render(
            request, "file.html", entry=entry, file=file, diff=diff, problem=problem, side=side, here=request.url.path
        )

    def _show_image(self, request: Request) -> Response:
        entry, side = self._find_entry(request), request.path_params["side"]
        change = self.workspace.history.find_change(entry, request.path_params["number"])
        if change is None or side not in ("before", "after"):
            raise HTTPException(404)
        found = convert_picture(self.workspace, change, side)
        if found is None:
            raise HTTPException(404)
        kind, data = found
        return Response(data, media_type=kind, headers={"content-security-policy": "sandbox; default-src 'none'"})

    def _show_history(self, request: Request) -> Response:
        path = read_query(request).get("path", "")
        place = path if path.startswith("/") else f"{self.workspace.roots[0]}/{path}"
        history = build_history(self.workspace, place)
        return self._pages.render(request, "history.html", history=history)

    def _find_entry(self, request: Request) -> JournalEntry:
        entry = self.workspace.records.find_entry(request.path_params["seq"])
        if entry is None:
            raise HTTPException(404)
        return entry


def encode_query(values: Mapping[str, str]) -> str:
    """A query without its empty fields, except an empty session: that stands for all."""
    return "&".join(f"{name}={quote_query(text)}" for name, text in values.items() if text)


def _parse_int(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0


@cache
def read_static(name: str) -> tuple[bytes, str] | None:
    """One of our own files; no name leads elsewhere."""
    file = next((each for each in STATIC_FOLDER.iterdir() if each.name == name), None)
    if file is None:
        return None
    kind = guess_type(name)[0] or "text/plain"
    return file.read_bytes(), f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


@cache
def compress(content: bytes) -> bytes:
    return gzip.compress(content, 9)
