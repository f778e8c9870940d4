"""Mistakes that models make when they quote: one small function per fault, so that faults can be combined."""

import html
import json
import re
import string
from collections.abc import Sequence
from random import Random

from bench.edits.material import WORD, blank, indent_of

SMART = {"'": "’", '"': "”", "-": "–"}
SMART_OPEN = {"'": "‘", '"': "“"}
NUMBERINGS = ["{:>6}→{}", "{:>6}\t{}", "{}\t{}", "{:>4} | {}", "{}: {}"]


def reindented(lines: Sequence[str], strip: str, add: str = "") -> list[str]:
    return [line if blank(line) else add + line[len(strip) :] for line in lines]


def retabbed(lines: Sequence[str], width: int) -> list[str]:
    """Spaces instead of tabs."""
    return [
        line if blank(line) else indent_of(line).replace("\t", " " * width) + line[len(indent_of(line)) :]
        for line in lines
    ]


def rescaled(lines: Sequence[str], unit: int, width: int) -> list[str]:
    """The right nesting with another indent width."""
    return [line if blank(line) else " " * (len(indent_of(line)) // unit * width) + line.lstrip() for line in lines]


def smartened(line: str, rng: Random) -> str:
    out: list[str] = []
    first = True
    for char in line:
        if char in SMART and (char != "-" or rng.random() < 0.5):
            out.append(SMART_OPEN.get(char, SMART[char]) if first else SMART[char])
            first = not first
        else:
            out.append(char)
    return "".join(out)


def hardened(line: str, rng: Random) -> str:
    """A no-break space instead of one of the spaces between words."""
    spots = [found.start() for found in re.finditer(r"(?<=\S) (?=\S)", line)]
    if not spots:
        return line
    at = rng.choice(spots)
    return line[:at] + "\u00a0" + line[at + 1 :]


def numbered(lines: Sequence[str], style: str, above: int) -> list[str]:
    return [style.format(above + 1 + at, line) for at, line in enumerate(lines)]


def json_escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def html_escaped(text: str, *, quote: bool) -> str:
    return html.escape(text, quote=quote).replace("&#x27;", "'")


def fenced(text: str, tag: str) -> str:
    return f"```{tag}\n{text}\n```"


def with_typo(line: str, rng: Random) -> str | None:
    """The line with one letter swapped, dropped, doubled or replaced; None if the line is too short."""
    spots = [found.start() for found in re.finditer(r"[A-Za-z]", line)]
    if len(spots) < 6:
        return None
    at = rng.choice(spots)
    kind = rng.choice(["swap", "drop", "double", "sub"])
    if kind == "swap" and at + 1 < len(line) and line[at + 1].isalpha() and line[at] != line[at + 1]:
        return line[:at] + line[at + 1] + line[at] + line[at + 2 :]
    if kind == "drop":
        return line[:at] + line[at + 1 :]
    if kind == "double":
        return line[:at] + line[at] + line[at:]
    other = rng.choice([letter for letter in string.ascii_lowercase if letter != line[at].lower()])
    return line[:at] + other + line[at + 1 :]


def outdated(line: str, rng: Random) -> str:
    """The line with half of its words replaced."""
    words = WORD.findall(line)
    chosen = set(rng.sample(words, max(1, len(words) // 2)))
    return WORD.sub(lambda found: f"legacy_{found[0][::-1]}" if found[0] in chosen else found[0], line)
