"""Makes the pictures of the documentation that are not plots: a terminal session, the path of a call, a window, forks.

    python checks/pictures.py            write docs/pictures/
    python checks/pictures.py --check    fail if a picture would change

The session is real: the commands are run in an empty folder, and the picture shows what they print. Only times and the
name of the folder, which differ every time, are replaced. The picture is narrow, so that a phone can show it.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from xml.sax.saxutils import escape

FOLDER = Path(__file__).parents[1] / "docs/pictures"
SETUP = "mkdir shop && cd shop && echo draft > notes.txt && echo 'print(1)' > app.py"
SESSION = (  # a comment, and what is typed
    ("# What would this command change?", """handhold call bash \\\n  '{"command": "rm -rf *", "preview": true}'"""),
    ("# Run it.", """handhold call bash '{"command": "rm -rf *"}'"""),
    ("# Undo it. No git needed.", "handhold undo"),
    ("", "cat notes.txt"),
)
COLUMNS, LINE, MARGIN = 46, 19, 16
SHOWN_WIDTH = 460  # pixels on a wide screen; a phone shrinks it
VARYING = ((r"after [\d.]+ s", "after 0.03 s"),)
TERMINAL = """
  .screen { fill: #15181d; stroke: #33383f }
  text { font: 13px ui-monospace, 'DejaVu Sans Mono', 'Cascadia Mono', Menlo, Consolas, monospace }
  text { fill: #d5d9e0; white-space: pre }
  .typed { fill: #ffffff; font-weight: 600 } .prompt { fill: #4fc3a1 } .comment { fill: #8f98a5 }
  .note { fill: #e9c46a }"""
DIAGRAM = """
  .card { fill: #fdfdfb; stroke: #d9d9d2 }
  .box { fill: #f1f3f0; stroke: #b9c1bb } .commit { fill: #d7ebe4; stroke: #1f6f5c; stroke-width: 2 }
  text { font: 14px system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #2b2f36 }
  .small { font-size: 12px; fill: #676d76 } .name { font-weight: 600 }
  .way { stroke: #676d76; stroke-width: 1.5; fill: none } .tip { fill: #676d76 }
  @media (prefers-color-scheme: dark) {
    .card { fill: #1c1f24; stroke: #33383f }
    .box { fill: #272b32; stroke: #49505a } .commit { fill: #1d3d35; stroke: #4fc3a1 }
    text { fill: #e4e6ea } .small { fill: #9aa1ac }
    .way { stroke: #9aa1ac } .tip { fill: #9aa1ac }
  }"""
# Column, row, name, what it does; columns and rows count from 0.
STEPS = (
    (0, 0, "model", "name and arguments"),
    (1, 0, "dialect", "arguments → request"),
    (2, 0, "policy", "may it touch these paths?"),
    (3, 0, "core", "request → plan"),
    (3, 1, "overlay", "a command runs there;\nits effects are the plan"),
    (2, 1, "policy", "the change itself:\nallow, ask, deny"),
    (1, 1, "commit", "journal · compare ·\nall or none · journal"),
    (0, 1, "dialect", "result → words"),
)


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    made = {"demo.svg": terminal(list(session())), "call.svg": call_diagram(), "snapshots.svg": window_diagram()}
    made["forks.svg"] = fork_diagram()
    different = [name for name, drawn in made.items() if not same(FOLDER / name, drawn)]
    for name in different:
        sys.stdout.write(f"{name} {'differs' if check else 'drawn'}\n")
        if not check:
            FOLDER.mkdir(exist_ok=True)
            (FOLDER / name).write_text(made[name], encoding="utf-8")
    return check and bool(different)


def same(file: Path, drawn: str) -> bool:
    return file.exists() and file.read_text(encoding="utf-8") == drawn


# --- the session


def session() -> Iterator[tuple[str, str]]:
    """Each line with its style."""
    programs = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as place:
        outer = {name: value for name, value in os.environ.items() if not name.startswith(("HANDHOLD", "XDG"))}
        variables = outer | {"HOME": place, "PATH": f"{programs}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}

        def run(command: str, folder: str) -> str:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            return done.stdout + done.stderr

        run(SETUP, place)
        for comment, command in SESSION:
            if comment:
                yield comment, "comment"
            for at, line in enumerate(command.split("\n")):
                yield line if at else f"$ {line}", "typed"
            for line in steady(run(command, f"{place}/shop"), place).splitlines():
                yield from ((part, "note" if line.startswith("[") else "") for part in wrap(line, COLUMNS) or [""])
            yield "", ""


def steady(printed: str, place: str) -> str:
    for pattern, instead in VARYING:
        printed = re.sub(pattern, instead, printed)
    return printed.replace(place, "~")


def terminal(lines: list[tuple[str, str]]) -> str:
    while lines and not lines[-1][0]:
        lines.pop()
    width, height = 2 * MARGIN + 8 * COLUMNS, 2 * MARGIN + LINE * len(lines)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{SHOWN_WIDTH}" '
        f'height="{SHOWN_WIDTH * height / width:.0f}" role="img">',
        "<title>A command is previewed, run and undone</title>",
        f"<style>{TERMINAL}\n</style>",
        f'<rect class="screen" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
    ]
    for at, (line, style) in enumerate(lines):
        y = MARGIN + LINE * at + 13
        x = MARGIN
        if line.startswith("$ "):
            line, x = line.removeprefix("$ "), x + 16
            drawn.append(f'<text x="{MARGIN}" y="{y}" class="prompt">$</text>')
        drawn.append(f'<text x="{x}" y="{y}" class="{style}">{escape(line)}</text>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


# --- the path of a call


def call_diagram() -> str:
    wide, tall, across, down, left, top = 170, 76, 194, 138, 20, 22
    width, height = left * 2 + across * 3 + wide, top * 2 + down + tall
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>The path of a call: dialect, policy, core, overlay, policy, commit, dialect</title>",
        f"<style>{DIAGRAM}\n</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
    ]
    places = [(left + across * column, top + down * row) for column, row, _, _ in STEPS]
    for (x, y), (next_x, next_y) in pairwise(places):
        if y == next_y:
            start, end = (x + wide, next_x) if next_x > x else (x, next_x + wide)
            way = f"M{start} {y + tall // 2} L{end} {y + tall // 2}"
        else:
            way = f"M{x + wide // 2} {y + tall} L{x + wide // 2} {next_y}"
        drawn.append(f'<path class="way" marker-end="url(#tip)" d="{way}"/>')
    x, under, above = left + wide // 2, top + tall, top + down
    drawn.append(f'<path class="way" marker-end="url(#tip)" d="M{x} {above} L{x} {under}"/>')
    drawn.append(f'<text class="small" x="{x + 8}" y="{under + 36}">reply</text>')
    for (x, y), (_, _, name, does) in zip(places, STEPS, strict=True):
        style = "commit" if name == "commit" else "box"
        drawn.append(f'<rect class="{style}" x="{x}" y="{y}" width="{wide}" height="{tall}" rx="6"/>')
        drawn.append(f'<text class="name" x="{x + 12}" y="{y + 24}">{escape(name)}</text>')
        for at, line in enumerate(does.split("\n")):
            drawn.append(f'<text class="small" x="{x + 12}" y="{y + 44 + 17 * at}">{escape(line)}</text>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


# --- the window of a call that others make

# What happens on the line of time: where it begins and ends, its style, name and what it does.
TIMES = (
    (16, 164, "box", "you edit", "foreign: undone\nonly if you ask"),
    (196, 424, "commit", "an agent's own Bash", "changed while it ran:\none entry, one undo"),
    (456, 604, "box", "a script", "foreign again"),
)


def window_diagram() -> str:
    width, height, line = 620, 206, 118
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>A scan before a call and a scan after it: what differs was changed while the call ran</title>",
        f"<style>{DIAGRAM}\n</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        f'<path class="way" d="M16 {line} L604 {line}"/>',
    ]
    for start, end, style, name, does in TIMES:
        drawn.append(f'<rect class="{style}" x="{start}" y="20" width="{end - start}" height="80" rx="6"/>')
        drawn.append(f'<text class="name" x="{start + 10}" y="42">{escape(name)}</text>')
        for at, words in enumerate(does.split("\n")):
            drawn.append(f'<text class="small" x="{start + 10}" y="{62 + 17 * at}">{escape(words)}</text>')
    for x, words in ((180, "scan before"), (440, "scan after")):
        drawn.append(f'<path class="way" d="M{x} 12 L{x} {line + 8}"/>')
        drawn.append(f'<text class="name" x="{x}" y="{line + 26}" text-anchor="middle">{words}</text>')
    below = ("Each scan compares the folder with the baseline, a copy outside it,", "and then brings it up to date.")
    for at, words in enumerate(below):
        drawn.append(f'<text class="small" x="16" y="{line + 56 + 17 * at}">{words}</text>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


# --- forks of a workspace

# Where it is (x, y, width), its style, name and what it does.
BOXES = (
    (16, 44, 186, "box", "an agent", "sees /home/you/shop"),
    (217, 44, 186, "box", "another agent", "sees /home/you/shop"),
    (418, 44, 186, "box", "you, your editor", "see /home/you/shop"),
    (16, 158, 186, "box", "layer of try-1", "what it changed, on disk"),
    (217, 158, 186, "box", "layer of try-2", "what it changed, on disk"),
    (16, 272, 588, "commit", "/home/you/shop", "the workspace: sources, .git, .env, node_modules, .venv"),
)
FORKS = ((26, "fork try-1"), (227, "fork try-2"))
# From where to where, and the words beside it.
WAYS = (
    ("M60 102 L60 158", (68, 134), "writes"),
    ("M261 102 L261 158", (269, 134), "writes"),
    ("M150 272 L150 102", (158, 134), "reads"),
    ("M351 272 L351 102", (359, 134), "reads"),
    ("M511 102 L511 272", (519, 190), "reads, writes"),
    ("M60 216 L60 272", (68, 242), "merge"),
)


def fork_diagram() -> str:
    width, height, tall = 620, 382, 58
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        "<title>Two forks: each agent reads the workspace and writes to a layer of its own, to be merged</title>",
        f"<style>{DIAGRAM}\n  .way.dashed {{ stroke-dasharray: 4 4 }}\n</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
    ]
    for way, place, words in WAYS:
        style = "way dashed" if words == "reads" else "way"
        drawn.append(f'<path class="{style}" marker-end="url(#tip)" d="{way}"/>')
        drawn.append(f'<text class="small" x="{place[0]}" y="{place[1]}">{words}</text>')
    drawn += [f'<text class="name" x="{x}" y="30">{words}</text>' for x, words in FORKS]
    for x, y, wide, style, name, does in BOXES:
        drawn.append(f'<rect class="{style}" x="{x}" y="{y}" width="{wide}" height="{tall}" rx="6"/>')
        drawn.append(f'<text class="name" x="{x + 10}" y="{y + 24}">{escape(name)}</text>')
        drawn.append(f'<text class="small" x="{x + 10}" y="{y + 44}">{escape(does)}</text>')
    below = ("A merge is one change set: policy, journal, commit, one undo.", "A dropped fork leaves nothing.")
    for at, words in enumerate(below):
        drawn.append(f'<text class="small" x="16" y="{352 + 17 * at}">{words}</text>')
    return "\n".join([*drawn, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
