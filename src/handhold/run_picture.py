"""A whole run as one picture: calls by kind over time, failures, questions, and what was undone. Drawn as SVG."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape

from handhold.core.ports.records import CallMark
from handhold.core.text.display_text import to_single_line

LEFT, RIGHT, TOP, BOTTOM = 72.0, 1104.0, 20, 166
TRACKS = ("Questions", "Commands", "Edits", "Searches", "Reads")
TRACK_Y = {name: 34 + 28 * n for n, name in enumerate(TRACKS)}
COMMAND_TOOL = re.compile(r"bash|shell|run|exec|terminal|command|cmd", re.IGNORECASE)
SEARCH_TOOL = re.compile(r"grep|glob|search|find|list|ls\b", re.IGNORECASE)
READ_TOOL = re.compile(r"read|view|cat|open|fetch", re.IGNORECASE)
TICKS = 9
MIN_SPAN_SECONDS = 60.0
MAX_LABELS = 3
# The colours of the page, for a picture that stands alone.
TOKENS = """
:root {color-scheme: light dark; --line: #dedbd4; --edge: #85817a; --dim: #56595d; --accent: #0a5a70; --wait: #824500;
  --wait-bg: #fcf0da; --add: #14613a; --del: #9f1f1b; --undone: #563b99; --name: #174f9c; --card: #fff}
@media (prefers-color-scheme: dark) {:root {--line: #2d3236; --edge: #747c84; --dim: #a6adb4; --accent: #74c8dc;
  --wait: #f3b962; --wait-bg: #2f2512; --add: #83d6a5; --del: #f5a29a; --undone: #c3b1f5; --name: #93bdf5;
  --card: #1b1e21}}
svg {background: var(--card); font: 11px system-ui, sans-serif; fill: var(--dim)}
"""


def classify_tool(mark: CallMark) -> str:
    kind = _classify_name(mark.tool)
    return "Edits" if kind == "Reads" and mark.changed else kind


@lru_cache(maxsize=1024)
def _classify_name(tool: str) -> str:
    kinds = (("Commands", COMMAND_TOOL), ("Searches", SEARCH_TOOL), ("Reads", READ_TOOL))
    return next((kind for kind, pattern in kinds if pattern.search(tool)), "Edits")


def draw_run(
    session: str,
    marks: Sequence[CallMark],
    *,
    now: float,
    waiting_since: Sequence[float] = (),
    standalone: bool = False,
) -> str:
    """The picture; with `standalone`, as a file of its own."""
    picture = RunPicture(marks, now, waiting_since)
    title, description = picture.describe(session)
    style = f"<style>{TOKENS}</style>" if standalone else ""
    xmlns = ' xmlns="http://www.w3.org/2000/svg" width="1120" height="196"' if standalone else ""
    head = (
        f'<svg class="run" viewBox="0 0 1120 196" role="img" aria-labelledby="run-t run-d"{xmlns}>'
        f'<title id="run-t">{title}</title><desc id="run-d">{description}</desc>{style}'
        '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<path d="M0 0v6" stroke="var(--undone)" stroke-opacity=".4" stroke-width="2"/></pattern></defs>'
    )
    return head + "".join(picture.draw()) + "</svg>"


class RunPicture:
    def __init__(self, marks: Sequence[CallMark], now: float, waiting_since: Sequence[float]) -> None:
        self._marks = marks
        self._waiting = waiting_since
        self._start = marks[0].at if marks else now
        ends = [mark.at + (mark.seconds or 0) for mark in marks] or [now]
        self._is_live = bool(waiting_since) or any(mark.seconds is None for mark in marks)
        self._end = max(now if self._is_live else max(ends), self._start + MIN_SPAN_SECONDS)
        self._scale = (RIGHT - LEFT) / (self._end - self._start)

    def describe(self, session: str) -> tuple[str, str]:
        name = escape(to_single_line(session))
        failed = sum(mark.failed for mark in self._marks)
        undone = sum(mark.undone for mark in self._marks)
        span = f"{_clock(self._start)} to {_clock(self._end)}"
        waits = f" {len(self._waiting)} questions wait." if self._waiting else ""
        facts = f"{len(self._marks):,} calls in five rows. {failed:,} failed, {undone:,} undone.{waits}"
        return f"Run of session {name}, {span}", facts

    def draw(self) -> Iterator[str]:
        yield self._draw_grid()
        yield from self._draw_undone()
        yield self._draw_marks()
        yield self._draw_failures()
        yield self._draw_questions()
        if self._is_live:
            yield f'<path stroke="var(--add)" stroke-width="2" d="M{RIGHT:g} {TOP}V{BOTTOM}"/>'

    def _x(self, at: float) -> float:
        return round(LEFT + (max(self._start, min(at, self._end)) - self._start) * self._scale, 1)

    def _draw_grid(self) -> str:
        rows = "".join(f"M{LEFT:g} {TRACK_Y[name] + 12}H{RIGHT:g}" for name in TRACKS)
        times = [self._start + (self._end - self._start) * n / TICKS for n in range(TICKS + 1)]
        columns = "".join(f"M{self._x(at)} {TOP}V{BOTTOM}" for at in times)
        names = "".join(f'<text x="0" y="{TRACK_Y[name] + 4}">{name}</text>' for name in TRACKS)
        anchors = {0: "start", TICKS: "end"}
        clocks = "".join(
            f'<text x="{self._x(at)}" y="182" text-anchor="{anchors.get(n, "middle")}">'
            f"{_clock(at, self._end - self._start)}</text>"
            for n, at in enumerate(times)
        )
        return f'<path fill="none" stroke="var(--line)" d="{rows}{columns}"/>{names}{clocks}'

    def _draw_undone(self) -> Iterator[str]:
        """Stretches of calls of which every change was undone."""
        stretch: list[CallMark] = []
        labels = 0
        for mark in [*(mark for mark in self._marks if mark.changed), None]:
            if mark and mark.undone:
                stretch.append(mark)
                continue
            if stretch:
                x, end = self._x(stretch[0].at), self._x(stretch[-1].at + (stretch[-1].seconds or 0))
                width = max(8.0, round(end - x, 1))
                yield (
                    f'<rect fill="url(#hatch)" stroke="var(--undone)" stroke-dasharray="3 3" x="{x - 2:.1f}"'
                    f' y="{TOP}" width="{width + 4:.1f}" height="{BOTTOM - TOP}"/>'
                )
                if labels < MAX_LABELS:
                    labels += 1
                    yield f'<text fill="var(--undone)" x="{x - 2:.1f}" y="14">↶ {len(stretch)} undone</text>'
                stretch = []

    def _draw_marks(self) -> str:
        """One mark for each kind and pixel, so that ten thousand calls are no larger than a thousand."""
        reads, searches, edits = (
            sorted({round(self._x(mark.at)) for mark in self._marks if classify_tool(mark) == kind})
            for kind in ("Reads", "Searches", "Edits")
        )
        bars: dict[int, float] = {}
        for mark in self._marks:
            if classify_tool(mark) == "Commands":
                x = round(self._x(mark.at))
                seconds = self._end - mark.at if mark.seconds is None else mark.seconds
                bars[x] = max(bars.get(x, 4.0), round(min(seconds * self._scale, RIGHT - x), 1))
        lines = "".join(f"M{x} {TRACK_Y['Reads'] - 6}v12" for x in reads)
        rings = "".join(f"M{x - 3} {TRACK_Y['Searches']}a3 3 0 1 0 6 0a3 3 0 1 0-6 0" for x in searches)
        boxes = "".join(f"M{x} {TRACK_Y['Edits'] - 7}h5v14h-5z" for x in edits)
        wide = "".join(f"M{x} {TRACK_Y['Commands'] - 5}h{width:g}v10h-{width:g}z" for x, width in sorted(bars.items()))
        return (
            f'<path stroke="var(--dim)" stroke-width="1.5" d="{lines}"/>'
            f'<path fill="none" stroke="var(--name)" d="{rings}"/>'
            f'<path fill="var(--accent)" d="{boxes}"/><path fill="var(--edge)" d="{wide}"/>'
        )

    def _draw_failures(self) -> str:
        places = sorted(
            {(round(self._x(mark.at)), TRACK_Y[classify_tool(mark)]) for mark in self._marks if mark.failed}
        )
        crosses = "".join(f"M{x - 5} {y - 5}l10 10m0-10l-10 10" for x, y in places)
        return f'<path stroke="var(--del)" stroke-width="2" d="{crosses}"/>'

    def _draw_questions(self) -> str:
        y = TRACK_Y["Questions"]
        asked = sorted({round(self._x(mark.at)) for mark in self._marks if mark.asked})
        waiting = sorted({round(self._x(at)) for at in self._waiting})
        shapes = "".join(f"M{x} {y - 6}l6 6-6 6-6-6z" for x in (*asked, *waiting))
        open_ends = "".join(f"M{x} {y}H{RIGHT:g}" for x in waiting)
        label = f'<text x="{RIGHT - 4:g}" y="{y - 10}" text-anchor="end">waiting</text>' if waiting else ""
        return (
            f'<g fill="var(--wait-bg)" stroke="var(--wait)" stroke-width="1.5">'
            f'<path stroke-dasharray="3 3" d="{open_ends}"/><path d="{shapes}"/></g>{label}'
        )


def _clock(at: float, span: float = 0.0) -> str:
    moment = datetime.fromtimestamp(at)
    if span > 2 * 86_400:
        return f"{moment:%d %b}"
    return f"{moment:%H:%M:%S}" if span and span < 600 else f"{moment:%H:%M}"
