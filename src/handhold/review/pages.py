"""The pages: each request reads what it shows, and a form is carried out only as it was shown."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from handhold.core.entry_summary import find_target
from handhold.core.ports.approvals import PendingApproval
from handhold.core.ports.records import CallFilter
from handhold.core.text.path_escaping import is_visible
from handhold.review import display, timeline
from handhold.review.access import AccessKeys, FormSession
from handhold.review.call_view import read_output
from handhold.review.fork_view import count_forks
from handhold.review.questions import QuestionView, build_question
from handhold.review.recorded_workspace import RecordedWorkspace
from handhold.review.workspace import ReviewedWorkspace
from handhold.run_picture import draw_run
from handhold.version import VERSION

MAX_MARKS = 20_000  # calls in the picture of a run
TAIL_LINES = 8  # of the output of a running command
MAX_ANSWERED = 5
FOLDER = Path(__file__).parent
THEMES = ("light", "dark")


@dataclass(frozen=True)
class RunningView:
    seq: int
    title: Markup
    session: str
    turn: str
    age: str
    tail: Markup | None


@cache
def load_templates() -> Environment:
    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., Any]] = {
        "show": display.show,
        "plain": display.spell_out,
        "quoted": quote_query,
        "name": display.show_name,
        "path": display.show_path,
        "output": display.show_output,
        "plural": display.plural,
        "duration": display.format_duration,
        "size": display.format_size,
        "clock": format_clock,
        "session_facts": timeline.describe_session,
    }
    templates.filters.update(filters)  # pyright: ignore[reportUnknownMemberType]
    return templates


def render_template(template: str, status: int, values: Mapping[str, Any]) -> Response:
    text = load_templates().get_template(template).render({"version": VERSION, **values})
    # Bytes of names that are not text are shown as tokens; only the value of a field can still have them.
    return HTMLResponse(text.encode("utf-8", "replace"), status)


class PageRenderer:
    """Renders templates with what every page of a workspace shows: here, what is recorded."""

    def __init__(self, workspace: RecordedWorkspace, base: str, *, home: str, static: str) -> None:
        """`base` is the path of the workspace's pages; `home` is where the name of the program leads."""
        self.workspace = workspace
        self.base = base
        self._places = {"base": base, "home": home, "static": static}

    def render(self, request: Request, template: str, status: int = 200, /, **values: Any) -> Response:
        session: FormSession | None = getattr(request.state, "session", None)
        questions: Sequence[PendingApproval] = values.pop("pending", None) or self.list_pending()
        theme = request.cookies.get("theme", "")
        workspace = self.workspace
        common: Mapping[str, Any] = {
            **self._places,
            "workspace": workspace.name,
            "root": workspace.roots[0] if workspace.roots else workspace.name,
            "can_act": workspace.can_act,
            "csrf": session.csrf if session else "",
            "waiting": questions,
            "oldest": self._describe_oldest(questions),
            "fork_count": self._count_forks(),
            "theme": theme if theme in THEMES else "",
            "is_part": request.headers.get("hx-request") == "true",
        }
        return render_template(template, status, {**common, **values})

    def list_pending(self) -> list[PendingApproval]:
        return []

    def list_running_calls(self) -> set[int]:
        return {each.entry.seq for each in self.workspace.records.list_running()}

    def _count_forks(self) -> int:
        return 0

    def _describe_oldest(self, pending: Sequence[PendingApproval]) -> QuestionView | None:
        if not pending:
            return None
        return build_question(replace(pending[0], diff=""), is_waiting=False, commands_reach_page=False)

    def draw_run(self, session: str, pending: Sequence[PendingApproval]) -> Markup:
        marks = self.workspace.records.list_marks(session, limit=MAX_MARKS)
        running = self.list_running_calls()
        waiting = [each.at for each in pending if each.session == session and each.seq in running]
        return Markup(draw_run(session, marks, now=time.time(), waiting_since=waiting))


class ReviewRenderer(PageRenderer):
    """Adds what waits and what runs on this machine."""

    def __init__(self, workspace: ReviewedWorkspace, keys: AccessKeys, base: str) -> None:
        super().__init__(workspace, base, home=f"{base}/now", static=f"{base}/static")
        self.reviewed = workspace
        self.keys = keys

    def render_plain(self, template: str, status: int, **values: Any) -> Response:
        """A page for somebody who is not known yet: it shows nothing of the workspace."""
        return render_template(template, status, {"base": self.base, **values})

    # --- what waits and what runs

    def list_pending(self) -> list[PendingApproval]:
        """Those that a call waits for come first, each group oldest first."""
        pending, running = self.reviewed.store.list_pending(), self.list_running_calls()
        return sorted(pending, key=lambda each: (each.seq not in running, each.at))

    def view_question(self, pending: PendingApproval) -> QuestionView:
        return build_question(
            pending,
            is_waiting=pending.seq in self.list_running_calls(),
            commands_reach_page=self.reviewed.commands_reach_page(),
        )

    def _count_forks(self) -> int:
        return count_forks(self.reviewed)

    def list_running(self) -> list[RunningView]:
        asked = {each.seq for each in self.reviewed.store.list_pending()}
        found: list[RunningView] = []
        for each in self.workspace.records.list_running():
            entry = each.entry
            if entry.seq in asked:
                continue
            target, _ = find_target(entry, self.workspace.roots)
            output = read_output(self.workspace, entry)[0]
            tail = None if output is None else Markup("\n").join(output.split("\n")[-TAIL_LINES:])
            title = display.show((target or entry.call.tool)[: timeline.MAX_TARGET_CHARS], lines=False)
            age = display.format_duration(time.time() - entry.at)
            found.append(RunningView(entry.seq, title, entry.call.session, entry.call.turn, age, tail))
        return found

    def list_answered(self) -> Sequence[PendingApproval]:
        return self.reviewed.store.list_answered(MAX_ANSWERED)


def format_clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at):%H:%M:%S}"


def quote_query(text: str) -> str:
    """A value in the query of a link. Bytes that are not text stay themselves."""
    errors = "surrogateescape" if all(not "\ud800" <= char <= "\udc7f" for char in text) else "replace"
    return quote(text, safe="", errors=errors)


def read_query(request: Request) -> dict[str, str]:
    """The query of a request, where a byte that is not text is what a file name has for it."""
    query = request.scope["query_string"].decode("latin-1")
    return dict(parse_qsl(query, keep_blank_values=True, errors="surrogateescape", max_num_fields=50))


def remove_invisible(text: str) -> str:
    """A filter as it is shown in its field: a link could bring characters that nobody sees."""
    return "".join(char for char in text if is_visible(char))


def parse_filter(request: Request) -> CallFilter:
    given = read_query(request)
    decision = given.get("decision", "")
    return CallFilter(
        session=given.get("session", ""),
        turn=given.get("turn"),
        path=remove_invisible(given.get("path", "")).strip(),
        tool=given.get("tool", ""),
        decision=cast(Any, decision if decision in ("allowed", "approved", "refused") else ""),
        text=remove_invisible(given.get("q", "")).strip(),
    )
