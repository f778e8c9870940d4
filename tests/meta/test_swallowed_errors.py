"""An error that is caught and not raised again leaves a trace: it is used, logged, or a comment says why not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src/handhold"
BROAD = {"BaseException", "Exception", "OSError", "ToolError", "EngineFailed", "subprocess.SubprocessError"}
LOGGING = ("log_swallowed", "LOG.", "warn_once", "logger.")


def find_silent(source: str) -> Iterator[int]:
    """The lines of blocks that swallow a broad class of errors without a trace."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            names = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            caught = {ast.unparse(each) if each else "BaseException" for each in names}
            inner = [each for statement in node.body for each in ast.walk(statement)]
            is_used = node.name and any(isinstance(each, ast.Name) and each.id == node.name for each in inner)
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            is_traced = is_used or "#" in text or any(name in text for name in LOGGING)
            if caught & BROAD and not is_traced and not any(isinstance(each, ast.Raise) for each in inner):
                yield node.lineno
        elif isinstance(node, ast.With) and "#" not in lines[node.lineno - 1]:
            for item in node.items:
                match item.context_expr:
                    case ast.Call(func=ast.Name("suppress"), args=kinds) if {*map(ast.unparse, kinds)} & BROAD:
                        yield node.lineno
                    case _:
                        pass


@pytest.mark.parametrize(
    ("body", "silent"),
    [
        ("except OSError:\n    pass", True),
        ("except (ValueError, OSError):\n    x = None", True),
        ("except Exception as error:\n    x = 1", True),
        ("except:\n    pass", True),
        ("except FileNotFoundError:\n    pass", False),
        ("except OSError:\n    pass  # nothing depends on it", False),
        ("except OSError:\n    log_swallowed()", False),
        ("except OSError as error:\n    x = str(error)", False),
        ("except OSError:\n    raise ValueError from None", False),
    ],
)
def test_what_counts_as_silent(body: str, silent: bool):
    assert bool(list(find_silent(f"try:\n    x = open('a')\n{body}\n"))) is silent
    assert list(find_silent("with suppress(OSError):\n    x = 1\n")) == [1]
    assert list(find_silent("with suppress_and_log(OSError):\n    x = 1\n")) == []


def test_no_broad_error_is_swallowed_without_a_trace():
    # core/ may not log: it has no access to the machine, and its errors are the caller's facts.
    files = [path for path in SOURCE.rglob("*.py") if SOURCE / "core" not in path.parents]
    silent = [f"{path.relative_to(SOURCE)}:{line}" for path in files for line in find_silent(path.read_text("utf-8"))]
    assert silent == []
