"""Runs the blocks of a page one after another, in a folder that is empty at first.

In a `console` block, the lines after `$ ` are run and must print what follows them: `…` matches anything, and times,
hashes and ids match others of their kind. Comments of a `python` block that have a line of their own are its output.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import Block

ID = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,12}\b|\b[0-9a-z]{4}(?:-[0-9a-z]{4}){2}\b")
VARYING = (  # differs from run to run, and is replaced by a word before it is compared
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (ID, "ID"),
    (re.compile(r"\b\d+(\.\d+)? s\b"), "SECONDS"),
)


GOING_ON = 'ended=$?; pwd > "$HOME/../where"; exit $ended'  # the next command starts in the folder where this one ended


class Reader:
    """`programs` is the folder with the python and handhold that are used."""

    def __init__(self, folder: Path, programs: Path, **variables: str) -> None:
        self.folder, self.programs, self.variables = folder, programs, variables
        (folder / "home").mkdir()
        self.desk = folder / "desk"
        self.ids: dict[str, str] = {}  # those that the page shows, and those that were printed
        self.desk.mkdir()

    def tries(self, block: Block) -> None:
        if block.before:
            self.does(["bash", "-euo", "pipefail", "-c", block.before], block)
        if block.kind == "python":
            (self.folder / "block.py").write_text(block.text, encoding="utf-8")
            printed = self.does([self.programs / "python", self.folder / "block.py"], block)
            for said in re.findall(r"(?:^ *# .*\n|^ *#\n)+", block.text, re.MULTILINE):
                assert like(re.sub(r"^ *# ?", "", said, flags=re.MULTILINE), printed), f"{block} prints\n{printed}"
        elif block.kind == "sh":
            self.does(["bash", "-euo", "pipefail", "-c", block.text], block)
        else:
            assert block.text.startswith("$ "), f"{block} shows no command"
            for command, expected in commands(block.text):
                for shown, real in self.ids.items():
                    command = command.replace(shown, real)
                printed = self.does(["bash", "-c", f"{command}\n{GOING_ON}"], block, refused=bool(expected))
                self.ids |= dict(zip(ID.findall(expected), ID.findall(printed), strict=False))
                self.desk = Path((self.folder / "where").read_text().strip())
                assert not expected or like(expected, printed), f"{block}: {command}\n{printed}"

    def does(self, command: list[str | Path], block: Block, *, refused: bool = False) -> str:
        """The output. A command of a console that shows its output may fail."""
        done = subprocess.run(
            command,
            cwd=self.desk,
            env=self.surroundings,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert refused or done.returncode == 0, f"{block}\n{done.stdout}"
        return done.stdout

    @property
    def surroundings(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HANDHOLD", "XDG", "PYTHON"))}
        return kept | {
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "HOME": str(self.folder / "home"),
            "NO_COLOR": "1",
            **self.variables,
        }


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console, with the output shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        ends = next(at for at, line in enumerate(lines) if not line.rstrip("\n").endswith("\\"))
        yield "".join(lines[: ends + 1]), "".join(lines[ends + 1 :])


def like(expected: str, printed: str) -> bool:
    """Whether the expected text is in the output, in one piece."""
    for pattern, word in VARYING:
        expected, printed = pattern.sub(word, expected), pattern.sub(word, printed)
    wanted = ".*?".join(map(re.escape, expected.strip().split("…")))
    return re.search(wanted, printed, re.DOTALL) is not None
