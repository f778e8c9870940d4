"""The review page as an ASGI application."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from handhold.core.errors import NoPendingApproval, StateDamaged, ToolError
from handhold.core.ports.approvals import PendingApproval
from handhold.core.text.display_text import escape_invisible
from handhold.dialects.error_messages import format_plain_error
from handhold.review.access import COOKIE_NAME, CSRF_FIELD, AccessKeys, AccessMiddleware, BrowserSession, has_value
from handhold.review.events import EventHub
from handhold.review.fork_pages import ForkPages
from handhold.review.pages import ReviewRenderer
from handhold.review.questions import ANSWERS, MAX_WORD_CHARS, compute_digest, view_effect
from handhold.review.record_pages import RECORD_ROUTES, RecordPages, parse_int
from handhold.review.static_files import send_static
from handhold.review.takeback_pages import TakeBackPages
from handhold.review.workspace import ReviewedWorkspace

Handler = Callable[[Request, FormData], Response]


class ReviewApp:
    """The pages of one workspace. `base` is the path they are under, `origins` how browsers name the server."""

    def __init__(
        self, workspace: ReviewedWorkspace, keys: AccessKeys, base: str, origins: Sequence[str], by: str
    ) -> None:
        """`by` is who answers, for the journal."""
        self.workspace = workspace
        self.keys = keys
        self._by = by
        self._base = base
        self._pages = ReviewRenderer(workspace, keys, base)
        records = RecordPages(self._pages)
        self.events = EventHub(workspace)
        take_back = TakeBackPages(self._pages, by)
        forks = ForkPages(self._pages, by)
        routes = [
            Route("/", self._redirect_home),
            Route("/enter", self._enter),
            Route("/static/{name}", send_static),
            Route("/events", self._stream_events),
            Route("/now", self._show_now),
            Route("/now/side", self._show_side),
            Route("/now/cells", self._show_cells),
            Route("/question/{id}", self._show_question),
            Route("/question/{id}/effect/{number:int}", self._show_effect),
            Route("/question/{id}/answer", self._post(self._answer), methods=["POST"]),
            *(Route(path, partial(handler, records)) for path, handler in RECORD_ROUTES),
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
            middleware=[
                Middleware(
                    AccessMiddleware, find_session=keys.find_session, base=base, origins=origins, denied=self._deny
                )
            ],
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
        """Exchange the token of a link for a cookie; not if a program only looks whether there is something.

        The page leads on by itself: the browser sends a strict cookie only from one of our own pages, and the link may
        have been opened from somewhere else.
        """
        if request.method == "HEAD":
            return Response()
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
            if not has_value(form, CSRF_FIELD, session.csrf):
                raise HTTPException(403, "This form is not from this page.")
            return await run_in_threadpool(handler, request, form)

        return handle

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
        start = parse_int(request.query_params.get("start", ""))
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
        if not has_value(form, "shown", compute_digest(found)):
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
