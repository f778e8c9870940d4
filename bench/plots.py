"""Draws the plots of docs/numbers.md from bench/results.json.

    python -m bench.plots [--check]

Each plot reads without a legend: the title states the finding, every bar carries its own label, ours is green and
everything else is grey. It is a card with its own background, light or dark as the reader's system is, and narrow
enough for a phone. Its last lines are the command that measures it again and the machine it was measured on.
"""

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

RESULTS = Path(__file__).with_name("results.json")
PICTURES = Path(__file__).parents[1] / "docs/pictures"
WIDTH, MARGIN = 480, 18
SHOWN_WIDTH = 620  # pixels on a wide screen; a phone shrinks it
BAR = 14
TITLE_CHARACTERS, NOTE_CHARACTERS = 48, 68
STYLE = """
  .card { fill: #fdfdfb; stroke: #d9d9d2 }
  text { font: 13px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #2b2f36 }
  .title { font-size: 15px; font-weight: 600 }
  .small { font-size: 12px; fill: #5c626b }
  .us { font-weight: 600; fill: #17604e }
  .ours { fill: #1f6f5c } .ours-pale { fill: #8fc4b5 } .others { fill: #a3aab5 } .others-pale { fill: #d9dde3 }
  .grid { stroke: #e3e3dc } .zero { stroke: #5c626b }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1c1f24; stroke: #33383f }
    text { fill: #e4e6ea }
    .small { fill: #a5acb7 }
    .us { fill: #6fd6b8 }
    .ours { fill: #4fc3a1 } .ours-pale { fill: #2d6f5e } .others { fill: #737c8a } .others-pale { fill: #3f4650 }
    .grid { stroke: #2b3037 } .zero { stroke: #a5acb7 }
  }"""


@dataclass(frozen=True)
class Scale:
    """Maps values to x coordinates."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    different = 0
    for name, draw in PLOTS.items():
        file, drawn = PICTURES / f"{name}.svg", draw(results)
        if file.exists() and file.read_text(encoding="utf-8") == drawn:
            continue
        different += 1
        print(f"{file.name} {'differs' if check else 'drawn'}")
        if not check:
            PICTURES.mkdir(exist_ok=True)
            file.write_text(drawn, encoding="utf-8")
    return check and bool(different)


# --- the plots; each draws below y = 0, and `card` moves it under the title


def draw_edits(results: Any) -> str:
    """Two columns of bars: applied exactly, and applied although it had to be refused."""
    group = results["groups"]["edits"]
    rows = sorted(group["rows"], key=lambda row: -row["exact"])
    left, middle, line = 170, 366, 21
    applied, wrong = Scale(0, 100, left, 300), Scale(0, 100, middle, WIDTH - MARGIN - 32)
    parts = [
        text(left, 12, "applied, %: byte for byte", "small"),
        text(left, 27, "+ with only blanks off", "small"),
        text(middle, 12, "applied where it", "small"),
        text(middle, 27, "must refuse, %", "small"),
    ]
    for at, row in enumerate(rows):
        y = 38 + at * line
        style, label_style = ("ours", "us") if row["ours"] else ("others", "")
        exact, loose = row["exact"], row["loose"]
        parts += [text(left - 8, y + 11, row["what"], label_style, end=True)]
        parts += bar(applied(0), applied(exact), y, style)
        parts += bar(applied(exact), applied(exact + loose), y, f"{style}-pale")
        figures = f"{exact:g} + {loose:g}" if loose > 1 else f"{exact:g}"
        parts += [text(applied(exact + loose) + 5, y + 11, figures, label_style or "small")]
        parts += bar(wrong(0), wrong(row["wrong_on_negatives"]), y, style)
        parts += [zero_line(wrong(0), y)]
        figures = f"{row['wrong_on_negatives']:g}"
        parts += [text(wrong(row["wrong_on_negatives"]) + 5, y + 11, figures, label_style or "small")]
    ours = next(row for row in rows if row["ours"] and "safe" in row["what"])
    strict = next(row for row in rows if not row["ours"])
    title = f"Misquoted edits applied exactly: {ours['exact']:g} %. Exact matching: {strict['exact']:g} %"
    return card(title, group, results["machine"], parts, 38 + len(rows) * line)


def draw_search(results: Any) -> str:
    """How many times as long as bare ripgrep each search takes, on a logarithmic scale around 1."""
    group = results["groups"]["search"]
    rows = sorted(group["rows"], key=lambda row: row["ours"] / row["bare"])
    line = 38
    scale = Scale(0.003, 8, MARGIN, WIDTH - MARGIN, log=True)
    parts = [
        text(scale(1) - 34, 12, "← faster", "small", end=True),
        text(scale(1), 12, "ripgrep", "small", middle=True),
        text(scale(1) + 34, 12, "slower →", "small"),
    ]
    for at, row in enumerate(rows):
        y = 28 + at * line
        ratio = row["ours"] / row["bare"]
        start, end = sorted((scale(1), scale(ratio)))
        parts += [text(MARGIN, y + 10, row["what"])]
        figures = f"{row['ours']:g} ms, ripgrep {row['bare']:g} ms"
        parts += [text(WIDTH - MARGIN - 58, y + 10, figures, "small", end=True)]
        parts += [text(WIDTH - MARGIN, y + 10, format_times(ratio), "us", end=True)]
        parts += [*bar(start, end, y + 17, "ours", height=8), zero_line(scale(1), y + 14)]
    most = max(row["ours"] / row["bare"] for row in rows if "no ripgrep" not in row["what"])
    title = f"A full search takes 1.1 to {most:.1f} times as long as ripgrep; a first page comes sooner"
    return card(title, group, results["machine"], parts, 26 + len(rows) * line)


def draw_shell(results: Any) -> str:
    """Pairs of bars, each pair on its own scale."""
    group = results["groups"]["shell"]
    rows = group["rows"]
    tall = 66
    parts: list[str] = []
    for at, row in enumerate(rows):
        y = at * tall
        scale = Scale(0, max(row["ours"], row["bare"]), MARGIN, WIDTH - MARGIN - 190)
        parts += [text(MARGIN, y + 10, row["what"])]
        for offset, who, style in ((17, "ours", "ours"), (36, "bare", "others")):
            name = "Handhold" if who == "ours" else "bare bash"
            figures = f"{name} {row[who]:g} {row['unit']}"
            if who == "ours":
                figures += f" ({format_times(row['ours'] / row['bare'])})"
            parts += bar(MARGIN, scale(row[who]), y + offset, style)
            parts += [text(scale(row[who]) + 6, y + offset + 11, figures, "us" if who == "ours" else "small")]
    worst = max(row["ours"] / row["bare"] for row in rows if row["unit"] == "s")
    extra = rows[0]["ours"] - rows[0]["bare"]
    title = (
        f"A command takes {extra:.0f} ms longer than in bare bash; replacing many files takes {worst:.1f} times as long"
    )
    return card(title, group, results["machine"], parts, len(rows) * tall - 8)


def draw_faults(results: Any) -> str:
    """The share of attempts that did harm: a zero-length bar for Handhold, but not for the usual approach."""
    group = results["groups"]["faults"]
    parts: list[str] = []
    y = 0
    scale = Scale(0, 1, MARGIN, WIDTH - MARGIN - 200)
    for row in group["rows"]:
        harmed = f"{row['ours_harmed']:,} of {row['ours_tried']:,}"
        parts += [text(MARGIN, y + 10, row["what"])]
        parts += bar(MARGIN, scale(row["ours_harmed"] / row["ours_tried"]), y + 17, "ours")
        parts += [zero_line(MARGIN, y + 17), text(MARGIN + 8, y + 28, f"Handhold: {harmed}", "us")]
        y += 36
        if row["usual_tried"]:
            share = row["usual_harmed"] / row["usual_tried"]
            figures = f"{row['usual']}: {row['usual_harmed']:,} of {row['usual_tried']:,}"
            parts += bar(MARGIN, scale(share), y, "others")
            parts += [zero_line(MARGIN, y), text(max(scale(share), MARGIN) + 6, y + 11, figures, "small")]
            y += 20
        y += 8
    tried = sum(row["ours_tried"] for row in group["rows"])
    harmed = sum(row["ours_harmed"] for row in group["rows"])
    title = f"Crashes and races: harm in {harmed:,} of {tried:,} attempts"
    return card(title, group, results["machine"], parts, y)


def draw_growth(results: Any) -> str:
    """How many times as much a call costs at a hundred times the size, now and before, on a logarithmic scale."""
    group = results["groups"]["growth"]
    line = 58
    scale = Scale(1, 50, MARGIN, WIDTH - MARGIN - 150, log=True)
    parts: list[str] = []
    at = 0
    for row in group["rows"]:
        if (before := group["before"].get(row["curve"])) is None:
            continue
        y = at * line
        now = row["cpu_ms"][2] / row["cpu_ms"][0]
        small, large = (f"{row['sizes'][n]:,}" for n in (0, 2))
        parts += [text(MARGIN, y + 10, row["what"].replace("`", ""))]
        parts += bar(MARGIN, scale(max(now, 1)), y + 17, "ours")
        figures = f"{row['cpu_ms'][0]:.1f} ms with {small} {row['by']}, {row['cpu_ms'][2]:.1f} with {large}"
        parts += [zero_line(MARGIN, y + 17), text(scale(max(now, 1)) + 6, y + 28, figures, "us")]
        parts += bar(MARGIN, scale(before), y + 35, "others")
        parts += [
            zero_line(MARGIN, y + 35),
            text(scale(before) + 6, y + 46, f"before: {before:g} times as much", "small"),
        ]
        at += 1
    most = max(row["cpu_ms"][2] / row["cpu_ms"][0] for row in group["rows"] if row["curve"] in group["before"])
    title = f"A hundred times as many files, sessions or calls: a call costs at most {max(most, 1):.1f} times as much"
    return card(title, group, results["machine"], parts, at * line)


PLOTS: dict[str, Callable[[Any], str]] = {
    "edits": draw_edits,
    "search": draw_search,
    "shell": draw_shell,
    "faults": draw_faults,
    "growth": draw_growth,
}


# --- building blocks


def card(title: str, group: Any, machine: str, parts: Sequence[str], height: float) -> str:
    titles = list(wrap(title, TITLE_CHARACTERS))
    notes = [*wrap(group["note"], NOTE_CHARACTERS), group["command"], f"{machine}, {group['date']}"]
    top = 18 + 21 * len(titles) + 8
    whole = top + height + 14 + 16 * len(notes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole:g}" width="{SHOWN_WIDTH}" '
        f'height="{SHOWN_WIDTH * whole / WIDTH:.0f}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{whole - 1:g}" rx="8"/>',
        *(text(MARGIN, 30 + 21 * at, line, "title") for at, line in enumerate(titles)),
        f'<g transform="translate(0 {top})">',
        *parts,
        "</g>",
        *(text(MARGIN, top + height + 14 + 16 * at, note, "small") for at, note in enumerate(notes)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def wrap(note: str, most: int) -> Iterator[str]:
    line = ""
    for word in note.split(" "):
        if len(line) + len(word) + 1 > most:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def text(x: float, y: float, words: str, style: str = "", *, end: bool = False, middle: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ' text-anchor="middle"' if middle else ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}"{anchor}>{escape(words)}</text>'


def bar(start: float, end: float, y: float, style: str, *, height: int = BAR) -> list[str]:
    width = end - start
    shape = f'<rect class="{style}" x="{start:g}" y="{y:g}" width="{width:.1f}" height="{height}" rx="2"/>'
    return [shape] if width > 0 else []


def zero_line(x: float, y: float) -> str:
    """Where a bar begins, so that a zero-length bar is visible."""
    return f'<line class="zero" x1="{x:g}" x2="{x:g}" y1="{y:g}" y2="{y + BAR:g}"/>'


def format_times(ratio: float) -> str:
    return f"{ratio:.1f} ×" if ratio >= 0.1 else f"{ratio:.1g} ×"


if __name__ == "__main__":
    sys.exit(main())
