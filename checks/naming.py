"""Finds names that a reader could not guess: a class name defined twice, or a word with a meaning only here.

    python checks/naming.py [src/handhold]

Whether a name is good remains a matter of judgement; `docs/glossary.md` has the terms we use.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# Metaphors that earlier names used. The glossary has the standard term for each.
BANNED = frozenset(
    {
        *("counter", "desk", "door", "doubt", "errand", "glance", "hand", "house", "kin", "lane", "manner", "matter"),
        *("needle", "road", "rung", "sheet", "shelf", "shelved", "study", "thing", "twin", "world"),
    }
)
ALLOWED: dict[str, str] = {}  # an identifier with a banned word, and why it has no alternative
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def words(identifier: str) -> Iterator[str]:
    """The words of an identifier in lower case, without a plural s: `shelf_of`, `ShelfReader`, `SHELVES_MAX`."""
    for word in WORD.findall(identifier):
        yield word.lower()
        yield word.lower().removesuffix("s")


def defined(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every identifier that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.lineno, node.name
            case ast.arg():
                yield node.lineno, node.arg
            case ast.Name(ctx=ast.Store()):
                yield node.lineno, node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.lineno, node.attr
            case ast.alias(asname=str(name)):
                yield node.lineno, name
            case _:
                pass


def find_problems(source: Path) -> Iterator[str]:
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for part in path.relative_to(source).with_suffix("").parts:
            if banned := BANNED.intersection(words(part)):
                yield f"{path}: the file or folder name has the word {', '.join(sorted(banned))}"
        for line, name in defined(tree):
            if name not in ALLOWED and (banned := BANNED.intersection(words(name))):
                yield f"{path}:{line}: {name} has the word {', '.join(sorted(banned))}"
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(f"{path}:{node.lineno}")
    for name, places in sorted(classes.items()):
        if len(places) > 1:
            yield f"{name} is defined more than once: {', '.join(places)}"


def main() -> int:
    problems = list(find_problems(Path(sys.argv[1] if len(sys.argv) > 1 else "src/handhold")))
    sys.stdout.write("\n".join(problems or ["Class names are unique, and no name has a banned word."]) + "\n")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
