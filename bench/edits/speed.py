"""How long the match strategies take: on the corpus, on text that is absent from a large file, on a very large file.

python -m bench.edits.speed [--folder …]
"""

import argparse
import random
import statistics
import time
from pathlib import Path

from bench.edits import corpus
from bench.edits.__main__ import build
from bench.edits.editor import editor
from bench.edits.score import Editor, scored
from handhold.core.errors import ToolError

MEGABYTE = 1_000_000
WORDS = ("value", "result", "index", "buffer", "request", "parse", "write_all", "stream", "none", "self", "return")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path, default=corpus.default_folder())
    given = options.parse_args()
    edit = editor("bold")
    build(given.folder / "dev", "dev")
    files = [row["text"] for row in corpus.read_rows(given.folder / "dev" / "files.jsonl.gz")]
    cases = scored(corpus.read_trials(given.folder / "dev", every=False), edit).timings()
    print(f"a case of the corpus      median {cases['median_ms']:8.2f} ms   p99 {cases['p99_ms']:8.2f} ms")
    absent_from_a_megabyte(files, edit)
    very_large(edit)


def absent_from_a_megabyte(files: list[str], edit: Editor) -> None:
    """Blocks of 1 to 40 lines from other files, in 1 MB files made of real ones."""
    rng = random.Random(1)
    times: list[float] = []
    for n in range(200):
        if n % 20 == 0:
            text = ""
            while len(text) < MEGABYTE:
                text += rng.choice(files)
            if n % 40 == 20:
                text = text.replace("\n", "\r\n")
        lines = rng.choice(files).split("\n")
        at = rng.randrange(len(lines))
        old = "\n".join(lines[at : at + rng.randint(1, 40)]) + f"\nabsent_{n}()"
        times.append(timed(edit, text, old, old + "\nadded"))
    print(f"absent from 1 MB          median {statistics.median(times):8.2f} ms   p99 {p99(times):8.2f} ms")


def very_large(edit: Editor) -> None:
    """200 lines in 10 MB: absent, with a typo, with other indentation, in two places, all lines the same."""
    rng = random.Random(2)
    lines = [f"    {' '.join(rng.choices(WORDS, k=6))} {n % 5000}" for n in range(10 * MEGABYTE // 48)]
    text = "\n".join(lines)
    block = lines[90_000:90_200]
    slip = [*block[:100], block[100].replace("e", "ee", 1), *block[101:]]
    for name, before, old in (
        ("exact", text, block),
        ("exact, typographic file", text + "\n“”", block),
        ("dedented", text, [line.strip() for line in block]),
        ("dedented, typographic file", text + "\n“”", [line.strip() for line in block]),
        ("a slip", text, slip),
        ("two lines differ", text, [*slip[:50], "nowhere", *slip[51:]]),
        ("absent", text, [f"absent {n}" for n in range(200)]),
        ("lines of elsewhere", text, rng.sample(lines, 200)),
        ("all lines alike", "    x = 1\n" * (MEGABYTE), ["x = 1"] * 199 + ["y = 1"]),
        ("one line of 10 MB", "ab" * (5 * MEGABYTE), block),
        ("CRLF, absent", text.replace("\n", "\r\n"), [*slip[:-1], "nowhere"]),
    ):
        quoted = "\n".join(old)
        print(f"10 MB: {name:28}{timed(edit, before, quoted, quoted + chr(10) + 'added'):8.0f} ms")


def timed(edit: Editor, text: str, old: str, new: str) -> float:
    started = time.process_time()
    try:
        edit("absent.txt", text, old, new)
    except ToolError:
        pass
    return (time.process_time() - started) * 1000


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


if __name__ == "__main__":
    main()
