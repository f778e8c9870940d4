"""Changes one letter at a time in every string of the dialects that a source prescribes, and expects a test to fail.

    python checks/mutate_sources.py                      the first, middle and last letter of every string
    python checks/mutate_sources.py --all                every letter of every string; takes hours
    python checks/mutate_sources.py --dialect tiny       one dialect only
    python checks/mutate_sources.py --list               only list the strings

A prescribed string is a literal of a dialect that occurs in a piece of tests/sources/, or contains one. The
project is copied first; each mutant is tested in its own process, forked from one that has loaded everything else.
Prints every mutant that no test noticed, and fails if there is one that EQUIVALENT does not explain.
"""

import argparse
import ast
import contextlib
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
DIALECTS: Mapping[str, tuple[str, str, str]] = {  # dialect: its source, its pieces, its tests
    "deepagents": ("000", r"(?!patch\.)", "test_deepagents.py"),
    "codex": ("000", r"patch\.", "test_codex.py"),
    "handhold": ("000", r"patch\.(grammar|example)", "test_codex.py"),
    "tiny": ("001", "", "test_tiny.py"),
    "claude": ("002", "", "test_seed_002.py"),
    "hello": ("003", "", "test_hello.py"),
    "mycode": ("004", "", "test_mycode.py"),
}
SCENARIOS = "tests/scenarios/test_scenarios.py"
PLACEHOLDER = re.compile(r"\$?\{[^{}]*\}|%[dsvw]|\n")
PLAIN_WORDS = {
    *("type", "object", "string", "number", "integer", "boolean", "array", "properties", "required", "items"),
    *("description", "default", "minItems", "additionalProperties", "enum", "true", "abs", "status"),
}
OURS = {"claude": ("Write", "Glob", "Grep", "LS", "Bash", "BashOutput", "KillShell", "NotebookEdit")}
"""Tools that the source does not describe, although one of its sentences may occur there."""
EQUIVALENT: Mapping[str, str] = {}
"""Mutants that no test can detect, by `file: string`, and why."""


@dataclass(frozen=True)
class Site:
    """A prescribed string in a file: its position and its spelling there."""

    dialect: str
    file: Path
    start: int
    text: str

    @property
    def letters(self) -> list[int]:
        return [n for n, char in enumerate(self.text) if char.isalnum() and not self._is_escape(n)]

    def _is_escape(self, n: int) -> bool:
        return n > 0 and self.text[n - 1] == "\\"


# --- prescribed strings


def strings_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from strings_in(each)
        case dict():
            for name, each in value.items():
                yield name
                yield from strings_in(each)
        case _:
            return


def prescribed(source: str, pieces: str) -> set[str]:
    (file,) = (PROJECT / "tests/sources").glob(f"{source}_*.json")
    rows = [row for row in json.loads(file.read_text("utf-8")) if re.match(pieces, row["name"])]
    return {text for row in rows for text in strings_in(row["value"])} - PLAIN_WORDS


# --- their places in our files


def literals(file: Path, text: str) -> list[str]:
    """The strings of a file, without docstrings."""
    match file.suffix:
        case ".json":
            specs = [spec for spec in json.loads(text) if spec["name"] not in OURS.get(file.parent.name, ())]
            return [each for spec in specs for each in strings_in({**spec, "title": ""})]  # titles are not prescribed
        case ".py":
            tree = ast.parse(text)
            documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            constants = (
                node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in documented
            )
            return [node.value for node in constants if isinstance(node.value, str)]
        case _:
            return [text]


def sites(dialect: str) -> list[Site]:
    source, pieces, _ = DIALECTS[dialect]
    wanted = prescribed(source, pieces)
    parts = {part for text in wanted for part in PLACEHOLDER.split(text) if is_telling(part)}
    found: set[Site] = set()
    for file in sorted((PROJECT / "src/handhold/dialects" / dialect).iterdir()):
        if file.suffix in (".json", ".py", ".md"):
            text = file.read_text("utf-8")
            for part in spans(literals(file, text), wanted, parts):
                found |= {Site(dialect, file.relative_to(PROJECT), *each) for each in occurrences(file, text, part)}
    return sorted(outermost(found), key=lambda site: (str(site.file), site.start))


def spans(strings: Sequence[str], wanted: set[str], parts: set[str]) -> set[str]:
    """Which of these strings are prescribed: a name exactly, a sentence in whole or in part."""
    exact = {each for each in strings if each in wanted}
    lines = {line for each in strings for line in PLACEHOLDER.split(each)}
    within = {part for part in parts if any(part in line for line in lines)}
    whole = {line.strip() for line in lines if is_telling(line) and any(line.strip() in part for part in parts)}
    return {line for each in exact for line in each.split("\n") if line.strip()} | within | whole


def is_telling(text: str) -> bool:
    """Whether a text is too specific to match by chance."""
    stripped = text.strip()
    if re.search(r"[^\x00-\x7f]", stripped):
        return len(stripped) > 1
    return len(stripped) > 8 and " " in stripped


def occurrences(file: Path, text: str, part: str) -> Iterator[tuple[int, str]]:
    spelled = {part, json.dumps(part, ensure_ascii=False)[1:-1], part.replace("{", "{{").replace("}", "}}")}
    for each in spelled:
        if re.fullmatch(r"[\w.]+", each) and file.suffix != ".md":  # names are in quotation marks
            yield from ((found.start(1), each) for found in re.finditer(rf'["\']({re.escape(each)})["\']', text))
        else:
            yield from ((found.start(), each) for found in re.finditer(re.escape(each), text))


def outermost(found: set[Site]) -> Iterator[Site]:
    for site in found:
        around = (
            each
            for each in found
            if each.file == site.file
            and each != site
            and each.start <= site.start
            and site.start + len(site.text) <= each.start + len(each.text)
        )
        if not any(around):
            yield site


# --- mutants


def chosen(site: Site, *, every: bool) -> list[int]:
    letters = site.letters
    return letters if every or len(letters) < 4 else [letters[0], letters[len(letters) // 2], letters[-1]]


def other(char: str) -> str:
    """Another letter of the same kind, so that quoted text stays well-formed."""
    if char.isdigit():
        return str((int(char) + 1) % 10)
    if char.isascii():
        return "a" if char == "z" else "A" if char == "Z" else chr(ord(char) + 1)
    return "字" if char != "字" else "文"


def mutated(text: str, site: Site, letter: int) -> str | None:
    """The file with that letter changed; None if no string changes."""
    at = site.start + letter
    made = text[:at] + other(text[at]) + text[at + 1 :]
    return made if literals(site.file, made) != literals(site.file, text) else None


def is_noticed(dialect: str) -> bool:
    """Whether a test fails, in a separate process."""
    child = os.fork()
    if child == 0:
        import pytest

        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        quick = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no"]
        stages = [[f"tests/dialects/{DIALECTS[dialect][2]}"], [SCENARIOS, "-k", f"{dialect}_"]]
        order = FastestFirst(Path(f"{dialect}.json"))
        # pytest exits with 5 if a dialect has no scenario.
        passed = all(pytest.main([*quick, *stage], plugins=[order]) in (0, 5) for stage in stages)
        order.keep()
        os._exit(0 if passed else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


class FastestFirst:
    """A plugin that orders tests by their time without a mutant: most letters are noticed by a fast one."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
        self._measured: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: self._known.get(item.nodeid, 0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self._measured[report.nodeid] += report.duration

    def keep(self) -> None:
        if not self._known:
            self._file.write_text(json.dumps(self._measured))


def enter(copy: Path) -> None:
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(copy / "src"), str(copy)]
    os.chdir(copy)
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout"}


def preload(dialect: str) -> None:
    """Import everything that the tests of a dialect need, except the dialects and the tests themselves."""
    import pytest

    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", f"tests/dialects/{DIALECTS[dialect][2]}", SCENARIOS]
        )
    for name in list(sys.modules):
        if re.match(rf"tests\b|handhold\.dialects\.({'|'.join(DIALECTS)})\b", name):
            del sys.modules[name]
    for module in (handhold for name, handhold in sys.modules.items() if name.startswith("handhold")):
        assert Path(str(module.__file__)).is_relative_to(Path.cwd()), module


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--dialect", choices=DIALECTS, action="append")
    options = parser.parse_args()
    everywhere = {dialect: sites(dialect) for dialect in options.dialect or DIALECTS}
    if options.list:
        for site in (site for some in everywhere.values() for site in some):
            sys.stdout.write(f"{site.file}: {site.text}\n")
        return 0
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        for name in ("src", "tests", "pyproject.toml"):
            source, ignore = PROJECT / name, shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, copy / name, ignore=ignore) if source.is_dir() else shutil.copy(source, copy / name)
        enter(copy)
        for dialect, some in everywhere.items():
            preload(dialect)
            if is_noticed(dialect):
                sys.exit(f"checks/mutate_sources.py: the tests of {dialect} fail without a mutant")
            mutants = unnoticed = 0
            for site in some:
                file = copy / site.file
                text = file.read_text("utf-8")
                for letter in chosen(site, every=options.all):
                    if (made := mutated(text, site, letter)) is None:
                        continue
                    mutants += 1
                    file.write_text(made, "utf-8")
                    if not is_noticed(dialect):
                        why = EQUIVALENT.get(f"{site.file}: {site.text}", "")
                        unnoticed += not why
                        line = text.count("\n", 0, site.start) + 1
                        sys.stdout.write(f"not noticed: {site.file}:{line}: {site.text} (letter {letter}) {why}\n")
                        sys.stdout.flush()
                    file.write_text(text, "utf-8")
            sys.stdout.write(f"{dialect}: {len(some)} strings, {mutants} mutants, {unnoticed} not noticed\n")
            sys.stdout.flush()
            failed = failed or unnoticed > 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
