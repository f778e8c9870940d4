"""Generate the screenshots in this folder: make some calls on an example project and capture a terminal (tmux).

    sudo python docs/screens/make.py [FOLDER]

Everything happens in a mount namespace with its own /srv and host name, and is gone afterwards. Each screen is saved as
text (`.txt`), with colours (`.ansi`) and as a picture (`.svg`).
"""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path

HERE = Path(__file__).parent
SHOP, STATE, HOME = Path("/srv/shop"), Path("/srv/state"), Path("/srv/home")
COLUMNS, ROWS = 100, 40
CART = '''\
"""What a customer is about to buy."""

PRICES = {"apple": 30, "pear": 45}


def total(items):
    return sum(PRICES[item] for item in items)
'''
BETTER = '''\
def total(items):
    """In cents."""
    return sum(PRICES[item] for item in items if item in PRICES)
'''
HOOK = {"path": ".git/hooks/pre-commit", "content": "make check\n"}
CALLS = (
    ("read_file", {"path": "shop/cart.py"}),
    ("edit_file", {"path": "shop/cart.py", "old_string": CART.partition("\n\n\n")[2], "new_string": BETTER}),
    (
        "write_file",
        {"path": "tests/test_cart.py", "content": "def test_nothing_costs_nothing():\n    assert total([]) == 0\n"},
    ),
    ("bash", {"command": "sed -i s/30/35/ shop/cart.py && mv README.md docs.md"}),
    ("read_file", {"path": ".env"}),
    ("write_file", HOOK),
)
DEARER = {"path": "shop/cart.py", "old_string": "45", "new_string": "49"}
SCREENS = {
    "log": "handhold log",
    "diff": "handhold diff",
    "undo": "handhold undo 4",
    "explain": "handhold explain .env",
    "doctor": "handhold doctor",
    "approval": f"handhold call edit_file {shlex.quote(json.dumps(DEARER))}",
}


def main() -> None:
    folder = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else HERE
    folder.mkdir(parents=True, exist_ok=True)
    if os.environ.get("HANDHOLD_SCREENS") == "inside":
        take_screens(folder)
        return
    inside = 'mount -t tmpfs none /srv && hostname desk && HANDHOLD_SCREENS=inside exec "$@"'
    script = ["sh", "-c", inside, "sh", sys.executable, __file__, str(folder)]
    subprocess.run(["unshare", "--mount", "--uts", *script], check=True)


def take_screens(folder: Path) -> None:
    for place in (SHOP / "shop", SHOP / ".git/hooks", HOME):
        place.mkdir(parents=True)
    (SHOP / "shop/cart.py").write_text(CART)
    (SHOP / "README.md").write_text("# The shop\n")
    (SHOP / ".env").write_text("TOKEN=not for anybody\n")
    make_calls()
    capture_screens(folder)


def make_calls() -> None:
    for tool, arguments in CALLS:
        handhold("call", tool, json.dumps(arguments))
    (asked,) = json.loads(handhold("approve", "--json"))
    handhold("approve", asked["id"], "--yes")
    handhold("call", "write_file", json.dumps(HOOK))
    handhold("call", "bash", json.dumps({"command": "rm -rf tests"}))
    handhold("undo")


def handhold(*arguments: str) -> str:
    """The exit status is ignored: some calls are meant to be refused."""
    command = [os.path.join(os.path.dirname(sys.executable), "handhold"), *arguments]
    done = subprocess.run(command, cwd=SHOP, env=build_environment(), capture_output=True, text=True, check=False)
    return done.stdout


def build_environment() -> dict[str, str]:
    path = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"
    return {"LC_ALL": "C.UTF-8", "PATH": path, "HOME": str(HOME), "XDG_STATE_HOME": str(STATE)}


# --- the terminal


def capture_screens(folder: Path) -> None:
    tmux("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "exec env 'PS1=$ ' bash --norc")
    try:
        for name, command in SCREENS.items():
            save_screen(folder, name, capture_screen(command))
            tmux("send-keys", "n", "Enter")  # answer no to any question
            time.sleep(1)
    finally:
        tmux("kill-server")


def capture_screen(command: str) -> str:
    tmux("send-keys", "clear", "Enter")
    tmux("clear-history")
    time.sleep(0.3)
    tmux("send-keys", "-l", command)
    tmux("send-keys", "Enter")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        time.sleep(0.2)
        seen = tmux("capture-pane", "-e", "-p").rstrip()
        first, last = strip_colours(seen).partition("\n")[0], strip_colours(seen).rpartition("\n")[2]
        if first.startswith("$ handhold") and (last.strip() == "$" or last.rstrip().endswith("n (no):")):
            return (seen.rpartition("\n")[0] if last.strip() == "$" else seen) + "\n"
    raise TimeoutError(command)


def tmux(*arguments: str) -> str:
    command = ["tmux", "-S", "/srv/tmux", *arguments]
    done = subprocess.run(command, cwd=SHOP, env=build_environment(), capture_output=True, text=True, check=True)
    return done.stdout


# --- output

SGR = re.compile(r"\x1b\[([\d;]*)m")
PALETTE = {31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 36: "#56b6c2"}
PLAIN, GROUND, DIM = "#d7dae0", "#1e2127", "#7f848e"
WIDE, HIGH, MARGIN = 8.43, 19, 14  # the width of a character, the height of a line, the margin


def save_screen(folder: Path, name: str, seen: str) -> None:
    (folder / f"{name}.ansi").write_text(seen, "utf-8")
    (folder / f"{name}.txt").write_text(
        "".join(f"{line.rstrip()}\n" for line in strip_colours(seen).splitlines()), "utf-8"
    )
    (folder / f"{name}.svg").write_text(render_svg(seen.splitlines()), "utf-8")


def strip_colours(seen: str) -> str:
    return SGR.sub("", seen)


def render_svg(lines: list[str]) -> str:
    wide, high = COLUMNS * WIDE + 2 * MARGIN, len(lines) * HIGH + 2 * MARGIN
    style: set[int] = set()
    rows: list[str] = []
    for n, line in enumerate(lines):
        spans = "".join(f"<tspan{look}>{escape(text)}</tspan>" for text, look in split_runs(line, style))
        rows.append(f'<text x="{MARGIN}" y="{MARGIN + HIGH * n + 14}" xml:space="preserve">{spans}</text>')
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high}">',
            f'<rect width="100%" height="100%" rx="8" fill="{GROUND}"/>',
            f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="14" fill="{PLAIN}">',
            *rows,
            "</g>",
            "</svg>",
            "",
        ]
    )


def split_runs(line: str, style: set[int]) -> Iterator[tuple[str, str]]:
    """Split a line into pieces of one style, which continues from line to line as in a terminal."""
    for n, piece in enumerate(SGR.split(line)):
        if n % 2:
            for code in map(int, (piece or "0").split(";")):
                apply_code(style, code)
        elif piece:
            yield piece, format_style(style)


def apply_code(style: set[int], code: int) -> None:
    if code == 0:
        style.clear()
    elif code == 22:
        style -= {1, 2}
    elif code < 40:  # background colours are ignored
        style -= {each for each in style if each >= 30 <= code}
        style.add(code)


def format_style(style: set[int]) -> str:
    colour = next((PALETTE[code] for code in style if code in PALETTE), DIM if 2 in style else "")
    return (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if 1 in style else "")


if __name__ == "__main__":
    main()
