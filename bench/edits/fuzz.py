"""Fuzz the match strategies with random texts, quotes and edits: no crash, no write outside the spans.

    python -m bench.edits.fuzz --minutes 10 [--seed 1]

A file is made of a few odd lines; a quote is a piece of it, hurt several times over; now and then both are noise.
"""

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Callable

from handhold.core.choices import Matching
from handhold.core.errors import ToolError
from handhold.core.requests import Replacement
from handhold.core.text.edits import apply_edits
from handhold.core.text.encoding import Text
from handhold.core.text.match import find

LINES = (
    "", "", " ", "a", "  a", "\ta", "a  ", "}", "  }", "\t}", "if x:", "    go(1)", "    go(2)", "        go(1, 2)",
    "say “hi” – now", 'say "hi" - now', "caf\udce9", "caf\ufffd", "x\u00a0= 1", "x = 1", "x   =   1", "...", "  ...",
    "# ... existing code ...", "```", "```py", "12→a", "1: a", "a &lt; b", "a < b", '\\"q\\"', '"q"', "a\\nb", "\u2028",
    "\x0b", "\x1c", "value = compute(total)", "value = compute(toatl)", "ä", "\ufeff", "\ud83d", "e\u0301", "中文",
)  # fmt: skip
ENDINGS = ("\n", "\n", "\n", "\r\n", "\r", "\r\r\n")
NOISE = "ab \t\n\r'\"’\\&;→1:.`(){}\u00a0\ufffd\udc80…"
LEVELS: tuple[Matching, ...] = ("exact", "safe", "bold")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--minutes", type=float, default=10)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    rng = random.Random(given.seed)
    end = time.monotonic() + given.minutes * 60
    outcomes: Counter[str] = Counter()
    while time.monotonic() < end:
        body, old, new = texts(rng)
        every, matching = rng.random() < 0.3, rng.choice(LEVELS)
        try:
            outcomes[tried(body, old, new, every, matching)] += 1
        except Exception:
            print(f"{body=}\n{old=}\n{new=}\n{every=} {matching=}", file=sys.stderr)
            raise
    print(f"{outcomes.total()} edits: {dict(outcomes.most_common())}")
    return 0


def texts(rng: random.Random) -> tuple[str, str, str]:
    if rng.random() < 0.2:
        body, old, new = ("".join(rng.choices(NOISE, k=rng.randint(0, size))) for size in (60, 12, 12))
        return body, old, new
    lines = rng.choices(LINES, k=rng.randint(1, 30))
    usual = rng.choice(ENDINGS)
    body = "".join(line + (rng.choice(ENDINGS) if rng.random() < 0.1 else usual) for line in lines)
    start = rng.randrange(len(lines))
    quoted = lines[start : start + rng.randint(1, 8)]
    replaced = [each for line in quoted for each in changed(line, rng)]
    old, new = "\n".join(quoted), "\n".join(replaced)
    for hurt in rng.choices(HURTS, k=rng.randint(0, 4)):
        old, new = hurt(old, rng), hurt(new, rng) if rng.random() < 0.8 else new
    return body, old, new


def changed(line: str, rng: random.Random) -> list[str]:
    return rng.choice(([line], [line], [line], [], [line, rng.choice(LINES)], [rng.choice(LINES)]))


def each_line(text: str, change: Callable[[str], str]) -> str:
    return "\n".join(change(line) for line in text.split("\n"))


HURTS = (
    lambda text, _: each_line(text, str.strip),
    lambda text, _: each_line(text, str.rstrip),
    lambda text, _: each_line(text, lambda line: "    " + line),
    lambda text, _: text.replace("    ", "\t"),
    lambda text, _: text.replace("\t", "  "),
    lambda text, _: text.replace("\n", "\r\n"),
    lambda text, _: text.replace("\n\n", "\n"),
    lambda text, _: f"\n{text}\n",
    lambda text, _: f"```\n{text}\n```",
    lambda text, _: text.replace('"', '\\"'),
    lambda text, _: text.replace("<", "&lt;"),
    lambda text, _: "\n".join(f"{n}\t{line}" for n, line in enumerate(text.split("\n"), 1)),
    lambda text, _: "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text),
    lambda text, rng: "".join(char for char in text if rng.random() > 0.02),
    lambda text, rng: text[: rng.randint(0, len(text))],
    lambda text, rng: text[rng.randint(0, len(text)) :],
)


def tried(body: str, old: str, new: str, every: bool, matching: Matching) -> str:
    try:
        applied = apply_edits(Text(body), (Replacement(old, new, every),), path="a", matching=matching)
    except ToolError as error:
        return error.code
    found = find(old, body, matching, new=new)
    assert found is not None
    assert len(found.spans) == 1 or every
    after = applied.text.body
    at = where = 0
    for span in found.spans:
        between = body[at : span.start]
        where = len(between) if not at else after.index(between, where) + len(between)
        assert at or after.startswith(between)
        at = span.end
    assert after.endswith(body[at:])
    return applied.steps[0].matched_by


if __name__ == "__main__":
    sys.exit(main())
