"""The pages that take calls back and redo them."""

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from handhold.core.choices import RESOLUTIONS, Resolution
from handhold.core.errors import ToolError
from handhold.core.ports.journal import JournalEntry
from handhold.review.access import has_value
from handhold.review.pages import ReviewRenderer
from handhold.review.takeback import (
    SCOPES,
    ReversalRefused,
    Scope,
    build_take_back,
    describe_error,
    redo,
    take_back,
)


class TakeBackPages:
    def __init__(self, pages: ReviewRenderer, by: str) -> None:
        self._pages = pages
        self._by = f"{by} on the review page"

    def show(self, request: Request) -> Response:
        scope = self._parse_scope(request.query_params.get("scope", "call"))
        return self._show(
            request, self._find_entry(request), scope, self._parse_take(request.query_params.get("take", ""))
        )

    def commit(self, request: Request, form: FormData) -> Response:
        """Take back what was shown, unless something changed since."""
        entry, scope = self._find_entry(request), self._parse_scope(str(form.get("scope", "call")))
        take = self._parse_take(str(form.get("take", "")))
        if not self._has_token(form):
            return self._show(request, entry, scope, take, problem="token", status=403)
        view = build_take_back(self._pages.reviewed, entry, scope, take)
        if not has_value(form, "shown", view.digest):
            return self._show(request, entry, scope, take, problem="changed", status=409)
        chosen = [int(each) for each in form.getlist("file") if isinstance(each, str) and each.isdecimal()]
        if not view.can_commit or (scope == "call" and not take and not chosen):
            return self._show(request, entry, scope, take, problem="nothing", status=400)
        if scope == "call" and not view.can_choose:
            chosen = [file.change.number for file in view.restored]
        try:
            done = take_back(self._pages.reviewed, view, chosen, self._by)
        except (ToolError, ReversalRefused) as error:
            return self._show(request, entry, scope, take, problem=describe_error(error), status=409)
        return self._show(request, self._find_entry(request), scope, done=done)

    def redo(self, request: Request, form: FormData) -> Response:
        entry = self._find_entry(request)
        if not self._has_token(form):
            return self._show(request, entry, "call", problem="token", status=403)
        try:
            done = redo(self._pages.reviewed, entry, self._by)
        except (ToolError, ReversalRefused) as error:
            return self._show(request, entry, "call", problem=describe_error(error), status=409)
        return self._show(request, self._find_entry(request), "call", done=done)

    def _show(
        self,
        request: Request,
        entry: JournalEntry,
        scope: Scope,
        take: Resolution | None = None,
        *,
        problem: str = "",
        done: str = "",
        status: int = 200,
    ) -> Response:
        view = build_take_back(self._pages.reviewed, entry, scope, take)
        return self._pages.render(
            request,
            "undo.html",
            status,
            view=view,
            problem=problem,
            done=done,
            needs_token=self._pages.reviewed.commands_reach_page(),
        )

    def _has_token(self, form: FormData) -> bool:
        needs = self._pages.reviewed.commands_reach_page()
        return not needs or self._pages.keys.is_approval_token(str(form.get("token", "")))

    def _find_entry(self, request: Request) -> JournalEntry:
        entry = self._pages.reviewed.records.find_entry(request.path_params["seq"])
        if entry is None:
            raise HTTPException(404)
        return entry

    def _parse_scope(self, text: str) -> Scope:
        if text not in SCOPES:
            raise HTTPException(400, "Unknown scope.")
        return text

    def _parse_take(self, text: str) -> Resolution | None:
        if text and text not in RESOLUTIONS:
            raise HTTPException(400, "Unknown choice.")
        return next((each for each in RESOLUTIONS if each == text), None)
