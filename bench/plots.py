"""Draws the pictures of docs/numbers.md from bench/results.json.

    python -m bench.plots [--check]

Each picture is a card with its own background, light or dark as the reader's system is, so that it can be read on any
page. Its last line is the command that makes the figures again, and the machine they were made on.
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
WIDTH, LEFT, RIGHT, ROW, TOP = 760, 285, 24, 24, 74
REFUSED = 560  # where the second half of the edits begins
STYLE = """
  .card { fill: #fdfdfb; stroke: #d9d9d2 }
  text { font: 12.5px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #2b2f36 }
  .title { font-size: 16px; font-weight: 600 }
  .small { font-size: 11.5px; fill: #676d76 }
  .us { font-weight: 600 }
  .ours { fill: #1f6f5c } .soft { fill: #8fc4b5 } .theirs { fill: #8b93a1 } .pale { fill: #cfd4db }
  .bad { fill: #c2502f }
  .grid { stroke: #e3e3dc } .mark { stroke: #2b2f36; stroke-width: 2 } .link { stroke: #b9bfc8; stroke-width: 2 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1c1f24; stroke: #33383f }
    text { fill: #e4e6ea }
    .small { fill: #9aa1ac }
    .ours { fill: #4fc3a1 } .soft { fill: #2d6f5e } .theirs { fill: #7f8896 } .pale { fill: #444b55 }
    .bad { fill: #e8825f }
    .grid { stroke: #2b3037 } .mark { stroke: #e4e6ea } .link { stroke: #59616c }
  }"""


@dataclass(frozen=True)
class Scale:
    """From figures to places on the page."""

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
        print(f"{file.name} {'would be' if check else 'was'} drawn otherwise")
        if not check:
            PICTURES.mkdir(exist_ok=True)
            file.write_text(drawn, encoding="utf-8")
    return check and bool(different)


# --- the pictures


def edits(results: Any) -> str:
    group = results["groups"]["edits"]
    rows = sorted(group["rows"], key=lambda row: row["exact"])
    landed, wrong = Scale(0, 100, LEFT, 505), Scale(0, 100, REFUSED, WIDTH - RIGHT - 30)
    height = TOP + 20 + len(rows) * ROW
    parts = [*axis(landed, (0, 25, 50, 75, 100), TOP + 10, height), *axis(wrong, (0, 50, 100), TOP + 10, height)]
    parts += [text(LEFT, TOP - 8, "landed, %: byte for byte; with blanks off", "small")]
    parts += [text(REFUSED, TOP - 8, "written where it must refuse, %", "small")]
    for at, row in enumerate(rows):
        y = TOP + 16 + at * ROW
        solid, light = ("ours", "soft") if row["ours"] else ("theirs", "pale")
        parts += label(row["what"], y, us=row["ours"])
        parts += bar(LEFT, landed(row["exact"]), y, solid)
        parts += bar(landed(row["exact"]), landed(row["exact"] + row["loose"]), y, light)
        parts += [text(landed(row["exact"] + row["loose"]) + 5, y + 12, f"{row['exact']:g}", "small")]
        parts += bar(wrong(0), wrong(row["wrong_on_negatives"]), y, "bad")
        parts += [text(wrong(row["wrong_on_negatives"]) + 5, y + 12, f"{row['wrong_on_negatives']:g}", "small")]
    return card(group, results["machine"], parts, height)


def search(results: Any) -> str:
    group = results["groups"]["search"]
    rows = group["rows"]
    scale = Scale(3, 3000, LEFT + 14, WIDTH - RIGHT - 70, log=True)
    height = TOP + 20 + len(rows) * ROW
    parts = [*axis(scale, (3, 10, 30, 100, 300, 1000, 3000), TOP + 10, height)]
    parts += legend((("ours", "ours, ms"), ("theirs", "bare rg, ms")), "on the right: ours / bare")
    for at, row in enumerate(rows):
        y = TOP + 16 + at * ROW
        parts += label(row["what"], y)
        parts += [f'<line class="link" x1="{scale(row["ours"])}" x2="{scale(row["bare"])}" y1="{y + 8}" y2="{y + 8}"/>']
        parts += [dot(scale(row["bare"]), y + 8, "theirs"), dot(scale(row["ours"]), y + 8, "ours")]
        parts += [text(WIDTH - RIGHT, y + 12, times(row["ours"] / row["bare"]), "small", end=True)]
    return card(group, results["machine"], parts, height)


def shell(results: Any) -> str:
    group = results["groups"]["shell"]
    rows = group["rows"]
    tall = 58
    height = TOP + 10 + len(rows) * tall
    parts = legend((("ours", "ours"), ("theirs", "bare bash")), "each pair has a scale of its own")
    for at, row in enumerate(rows):
        y = TOP + 8 + at * tall
        scale = Scale(0, max(row["ours"], row["bare"]), LEFT, WIDTH - RIGHT - 170)
        parts += label(row["what"], y + 12)
        for offset, who, style in ((0, "ours", "ours"), (22, "bare", "theirs")):
            parts += bar(LEFT, scale(row[who]), y + offset, style)
            seen = f" (seen: {row['seen']})" if who == "ours" else ""
            parts += [text(scale(row[who]) + 6, y + offset + 12, f"{row[who]:g} {row['unit']}{seen}", "small")]
    return card(group, results["machine"], parts, height)


def faults(results: Any) -> str:
    """Crash and race: of how many attempts, how many did harm."""
    group = results["groups"]["faults"]
    rows = group["rows"]
    tall = 58
    height = TOP + 10 + len(rows) * tall
    parts = legend((("ours", "as it should be"), ("bad", "harm done")), "below: the usual way")
    for at, row in enumerate(rows):
        y = TOP + 8 + at * tall
        parts += label(row["what"], y + 12)
        for offset, who in ((0, "ours"), (22, "usual")):
            tried, harmed = row[f"{who}_tried"], row[f"{who}_harmed"]
            if not tried:
                continue
            scale = Scale(0, tried, LEFT, WIDTH - RIGHT - 230)
            style = "ours" if who == "ours" else "theirs"
            parts += bar(LEFT, scale(tried - harmed), y + offset, style)
            parts += bar(scale(tried - harmed), scale(tried), y + offset, "bad")
            said = f"{harmed:,} of {tried:,}" + ("" if who == "ours" else f": {row['usual']}")
            parts += [text(scale(tried) + 6, y + offset + 12, said, "small")]
    return card(group, results["machine"], parts, height)


PLOTS: dict[str, Callable[[Any], str]] = {"edits": edits, "search": search, "shell": shell, "faults": faults}


# --- what they are made of


def card(group: Any, machine: str, parts: Sequence[str], height: float) -> str:
    notes = [*wrapped(group["note"]), *wrapped(f"{group['command']}   ·   {machine}   ·   {group['date']}")]
    whole = height + 18 + 16 * len(notes)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {whole:g}" role="img">',
        f"<title>{escape(group['title'])}</title>",
        f"<style>{STYLE}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{whole - 1:g}" rx="8"/>',
        text(20, 32, group["title"], "title"),
        *parts,
        *(text(20, height + 16 + 16 * at, note, "small") for at, note in enumerate(notes)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def wrapped(note: str, most: int = 112) -> Iterator[str]:
    line = ""
    for word in note.split(" "):
        if len(line) + len(word) + 1 > most:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def text(x: float, y: float, words: str, style: str = "", *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x:g}" y="{y:g}" class="{style}"{anchor}>{escape(words)}</text>'


def label(words: str, y: float, *, us: bool = False) -> list[str]:
    return [text(LEFT - 10, y + 12, words, "us" if us else "", end=True)]


def bar(start: float, end: float, y: float, style: str) -> list[str]:
    width = end - start
    return (
        [f'<rect class="{style}" x="{start:g}" y="{y:g}" width="{width:.1f}" height="16" rx="2"/>'] if width > 0 else []
    )


def dot(x: float, y: float, style: str) -> str:
    return f'<circle class="{style}" cx="{x:g}" cy="{y:g}" r="6"/>'


def axis(scale: Scale, ticks: Sequence[float], top: float, bottom: float) -> Iterator[str]:
    for tick in ticks:
        yield f'<line class="grid" x1="{scale(tick)}" x2="{scale(tick)}" y1="{top:g}" y2="{bottom - 4:g}"/>'
        yield text(scale(tick) + 2, top + 2, f"{tick:,}", "small")


def legend(entries: Sequence[tuple[str, str]], note: str) -> list[str]:
    parts: list[str] = []
    x = float(LEFT)
    for style, words in entries:
        parts += [dot(x + 6, TOP - 12, style), text(x + 18, TOP - 8, words, "small")]
        x += 40 + 7 * len(words)
    return [*parts, text(x + 10, TOP - 8, note, "small")]


def times(ratio: float) -> str:
    return f"{ratio:.2f} ×" if ratio >= 0.1 else f"{ratio:.2g} ×"


if __name__ == "__main__":
    sys.exit(main())
