"""The pages that only read: timeline, one call, one file, who changed it. The same on this machine and on a hub."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from handhold.core.errors import BadGlob
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.records import CallFilter
from handhold.dialects.error_messages import format_plain_error
from handhold.review import diff_view
from handhold.review.call_view import build_call, build_history, convert_picture, view_file
from handhold.review.pages import PageRenderer, parse_filter, quote_query, read_query
from handhold.review.timeline import MAX_SESSIONS, build_timeline


class RecordPages:
    def __init__(self, pages: PageRenderer) -> None:
        self._pages = pages
        self._workspace = pages.workspace

    def show_timeline(self, request: Request) -> Response:
        sessions = self._workspace.records.list_sessions(
            cursor=request.query_params.get("sessions", ""), limit=MAX_SESSIONS
        )
        wanted = parse_filter(request)
        if not wanted.session and sessions.items and "session" not in request.query_params:
            wanted = replace(wanted, session=sessions.items[0].name)
        cursor, problem = request.query_params.get("before", ""), ""
        pending = self._pages.list_pending()
        try:
            view = build_timeline(self._workspace, wanted, cursor, pending)
        except BadGlob as error:
            problem = format_plain_error(error)
            view = build_timeline(self._workspace, CallFilter(session=wanted.session), cursor, pending)
        query = {"session": wanted.session, "path": wanted.path, "tool": wanted.tool, "q": wanted.text}
        query |= {"decision": wanted.decision} | ({} if wanted.turn is None else {"turn": wanted.turn})
        return self._pages.render(
            request,
            "timeline.html",
            pending=pending,
            timeline=view,
            sessions=sessions,
            session_count=self._workspace.records.count_sessions(),
            waiting_sessions={each.session for each in pending},
            run="" if request.headers.get("hx-target") == "calls" else self._pages.draw_run(wanted.session, pending),
            problem=problem,
            cursor=cursor,
            query=encode_query(query),
        )

    def show_call(self, request: Request) -> Response:
        entry = self._find_entry(request)
        view = build_call(self._workspace, entry)
        question = next((each for each in self._pages.list_pending() if each.seq == entry.seq), None)
        return self._pages.render(request, "call.html", call=view, question=question)

    def show_output(self, request: Request) -> Response:
        view = build_call(self._workspace, self._find_entry(request))
        return self._pages.render(request, "output.html", call=view)

    def show_file(self, request: Request) -> Response:
        entry = self._find_entry(request)
        change = self._workspace.history.find_change(entry, request.path_params["number"])
        if change is None:
            raise HTTPException(404)
        start, side = parse_int(request.query_params.get("start", "")), request.query_params.get("side", "")
        file = view_file(self._workspace, entry, change, start=start, limit=diff_view.PAGE_LINES)
        diff, problem = file.diff, file.problem
        if side in ("before", "after", "now"):
            history, path = self._workspace.history, change.change.path
            data = history.read_now(path) if side == "now" else history.read_side(change.change, side)
            text = "" if data is None else history.decode(data, path)
            diff, problem = diff_view.render_plain(change.effect.path, text, start=start), ""
            if data is None:
                diff, problem = None, "There is no such file at that moment, or its content is not kept."
        return self._pages.render(
            request, "file.html", entry=entry, file=file, diff=diff, problem=problem, side=side, here=request.url.path
        )

    def show_image(self, request: Request) -> Response:
        entry, side = self._find_entry(request), request.path_params["side"]
        change = self._workspace.history.find_change(entry, request.path_params["number"])
        if change is None or side not in ("before", "after"):
            raise HTTPException(404)
        found = convert_picture(self._workspace, change, side)
        if found is None:
            raise HTTPException(404)
        kind, data = found
        return Response(data, media_type=kind, headers={"content-security-policy": "sandbox; default-src 'none'"})

    def show_history(self, request: Request) -> Response:
        path = read_query(request).get("path", "")
        history = build_history(self._workspace, self._workspace.resolve(path))
        return self._pages.render(request, "history.html", history=history)

    def _find_entry(self, request: Request) -> JournalEntry:
        entry = self._workspace.records.find_entry(request.path_params["seq"])
        if entry is None:
            raise HTTPException(404)
        return entry


RECORD_ROUTES: Sequence[tuple[str, Callable[[RecordPages, Request], Response]]] = (
    ("/timeline", RecordPages.show_timeline),
    ("/call/{seq:int}", RecordPages.show_call),
    ("/call/{seq:int}/output", RecordPages.show_output),
    ("/call/{seq:int}/file/{number:int}", RecordPages.show_file),
    ("/call/{seq:int}/image/{number:int}/{side}", RecordPages.show_image),
    ("/history", RecordPages.show_history),
)


def encode_query(values: Mapping[str, str]) -> str:
    """A query without its empty fields, except an empty session: that stands for all."""
    return "&".join(f"{name}={quote_query(text)}" for name, text in values.items() if text)


def parse_int(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 10 else 0
