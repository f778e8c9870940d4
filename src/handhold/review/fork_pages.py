"""The pages that compare, merge and drop forks."""

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from handhold.core.errors import ForkUnavailable, MergeConflict, ToolError
from handhold.core.text.display_text import escape_invisible
from handhold.dialects.error_messages import format_plain_error
from handhold.forks import MergeReport
from handhold.review.access import has_value
from handhold.review.diff_view import PAGE_LINES, build_view, parse_unified
from handhold.review.fork_view import (
    MAX_FILES,
    MAX_LINES,
    ForkView,
    build_fork,
    compare_forks,
    describe_conflict,
    diff_versions,
    list_forks,
)
from handhold.review.pages import ReviewRenderer, quote_query, read_query
from handhold.review.takeback import PageApprover

SESSION = "review"  # of merges in the journal
EXPLANATIONS = {
    "token": "Allowing needs the token from your terminal.",
    "changed": "The fork changed while you looked at it. This is what it has now.",
}


class ForkPages:
    def __init__(self, pages: ReviewRenderer, by: str) -> None:
        self._pages = pages
        self._by = f"{by} on the review page"

    def show(self, request: Request) -> Response:
        forks = list_forks(self._pages.reviewed)
        chosen = request.query_params.getlist("fork")[:2]
        selected = [fork for name in chosen for fork in forks if fork.name == name]
        if (path := read_query(request).get("path")) is None:
            return self._render(request, forks, selected)
        compared = compare_forks(*selected) if len(selected) == 2 else []
        file = next((each for each in compared if each.path == path and each.relation == "differ"), None)
        if file is None:
            raise HTTPException(404)
        view, here = diff_versions(file, start=_read_start(request), limit=PAGE_LINES), f"{self._pages.base}/forks"
        return self._pages.render(request, "fork_file.html", forks=selected, view=view, here=here)

    def show_one(self, request: Request) -> Response:
        fork, path = self._find(request), read_query(request).get("path")
        if path is None:
            return self._pages.render(request, "fork.html", fork=fork, note="", conflicts=())
        file = next((each for each in fork.files if each.path == path), None)
        if file is None:
            raise HTTPException(404)
        hunks, notes = parse_unified(file.text)
        view = build_view(path, hunks, start=_read_start(request), limit=PAGE_LINES, notes=notes)
        here = f"{self._pages.base}/forks/{quote_query(fork.name)}"
        return self._pages.render(request, "fork_file.html", forks=[fork], view=view, here=here)

    def merge(self, request: Request, form: FormData) -> Response:
        fork = self._find(request)
        if problem := self._find_problem(form, fork):
            return self._refuse(request, fork, problem)
        with self._pages.reviewed.open_session(SESSION, PageApprover(self._by)) as box:
            try:
                report = box.forks.get(fork.name).merge(expected_digest=fork.digest)
            except MergeConflict as error:
                conflicts = describe_conflict(error, self._pages.reviewed)
                return self._pages.render(request, "fork.html", 409, fork=fork, note="", conflicts=conflicts)
            except ToolError as error:
                return self._refuse(request, fork, escape_invisible(format_plain_error(error)))
        return self._render(request, list_forks(self._pages.reviewed), [], note=self._describe(report))

    def drop(self, request: Request, form: FormData) -> Response:
        fork = self._find(request)
        if problem := self._find_problem(form, fork):
            return self._refuse(request, fork, problem)
        try:
            self._pages.reviewed.forks.forks.get(fork.name).drop()
        except ToolError as error:
            return self._refuse(request, fork, escape_invisible(format_plain_error(error)))
        return self._render(request, list_forks(self._pages.reviewed), [], note=f"The fork {fork.name} was dropped.")

    def _render(self, request: Request, forks: list[ForkView], selected: list[ForkView], note: str = "") -> Response:
        compared = compare_forks(*selected) if len(selected) == 2 else []
        differing = [file for file in compared if file.relation == "differ"]
        return self._pages.render(
            request,
            "forks.html",
            forks=forks,
            selected=selected,
            compared=compared,
            between=[diff_versions(file, limit=MAX_LINES) for file in differing[:MAX_FILES]],
            left_out=differing[MAX_FILES:],
            note=note,
            needs_token=self._pages.reviewed.commands_reach_page(),
        )

    def _refuse(self, request: Request, fork: ForkView, problem: str) -> Response:
        note = EXPLANATIONS.get(problem, problem)
        return self._pages.render(request, "fork.html", 409, fork=fork, note=note, conflicts=())

    def _find_problem(self, form: FormData, fork: ForkView) -> str:
        """Why a form does not count: `token`, `changed`, or nothing."""
        if self._pages.reviewed.commands_reach_page() and not self._pages.keys.is_approval_token(
            str(form.get("token", ""))
        ):
            return "token"
        return "" if has_value(form, "shown", fork.digest) else "changed"

    def _find(self, request: Request) -> ForkView:
        try:
            return build_fork(self._pages.reviewed.forks.forks.get(request.path_params["name"]))
        except ForkUnavailable:
            raise HTTPException(404) from None

    def _describe(self, report: MergeReport) -> str:
        left = f" {len(report.ignored)} files that git ignores stay in the fork." if report.ignored else ""
        notes = "".join(f" {note}." for note in report.notes)
        many = f"{len(report.paths)} files changed"
        return f"Merged {report.fork}: {many}. You can take it back in the timeline.{left}{notes}"


def _read_start(request: Request) -> int:
    start = read_query(request).get("start", "0")
    return int(start) if start.isascii() and start.isdigit() and len(start) < 10 else 0
