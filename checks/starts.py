"""Only `backends/programs.py` may start a program: finds every other place in the source that could.

A program that is started elsewhere may be found in the workspace, or import from it, and then runs outside the sandbox.
The same for `pickle`, `marshal` and their like: reading one runs what another process wrote.

    python checks/starts.py [src/handhold]
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MAY_START = "backends/programs.py"
EXCEPTIONS = {
    "backends/shell/reaper.py": "a program of its own that imports nothing of ours: starts the command it was given",
}
MODULES = {
    *("_posixsubprocess", "subprocess", "multiprocessing", "pty", "runpy", "webbrowser", "code", "codeop"),
    *("_pickle", "dill", "marshal", "pickle", "shelve", "cloudpickle", "joblib"),
}
FUNCTIONS = {
    *("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe", "fork", "forkpty", "popen"),
    *("posix_spawn", "posix_spawnp", "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv", "spawnve", "spawnvp"),
    *("spawnvpe", "startfile", "system"),
}
# Of any module or object: nothing else has such a name.
NAMES = {
    *(
        "ProcessPoolExecutor",
        "create_subprocess_exec",
        "create_subprocess_shell",
        "subprocess_exec",
        "subprocess_shell",
    ),
    *("open_process", "run_process", "posix_spawn", "posix_spawnp"),
}
IMPORTERS = {"__import__", "import_module"}


def main() -> int:
    source = Path(sys.argv[1] if len(sys.argv) > 1 else "src/handhold")
    found = [
        f"{file}:{line}: {what} may start a program or run what it reads; use {MAY_START}\n"
        for file in sorted(source.rglob("*.py"))
        if (place := file.relative_to(source).as_posix()) != MAY_START and place not in EXCEPTIONS
        for line, what in find_starts(ast.parse(file.read_text(encoding="utf-8")))
    ]
    sys.stdout.write("".join(found) or "One module starts programs.\n")
    return bool(found)


def find_starts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The lines that could start a program, with what does."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for name in names:
                    if is_module(name.name) or (name.name == "os" and name.asname not in (None, "os")):
                        yield node.lineno, f"import {name.name}" + (f" as {name.asname}" if name.asname else "")
            case ast.ImportFrom(module=str(module), names=names):
                for name in names:
                    if is_module(module) or is_start(module, name.name):
                        yield node.lineno, f"{module}.{name.name}"
            case ast.Attribute(value=ast.Name(id=str(base)), attr=name) if is_start(base, name):
                yield node.lineno, f"{base}.{name}"
            case ast.Attribute(attr=name) if name in NAMES:
                yield node.lineno, f".{name}"
            case ast.Call(func=ast.Name(id="getattr" | "vars" as name), args=[ast.Name(id="os"), *rest]):
                match rest:
                    case [ast.Constant(value=str(attribute)), *_] if attribute not in FUNCTIONS:
                        pass
                    case _:
                        yield node.lineno, f"{name}(os, …)"
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(module)), *_]
            ):
                if name in IMPORTERS and is_module(module):
                    yield node.lineno, f"{name}({module!r})"
            case _:
                pass


def is_module(name: str) -> bool:
    return name.partition(".")[0] in MODULES


def is_start(module: str, name: str) -> bool:
    return (
        (module in ("os", "posix") and (name in FUNCTIONS or name == "*"))
        or (module == "shutil" and name == "which")  # it also looks in relative folders, and in the workspace
        or name in NAMES
    )


if __name__ == "__main__":
    sys.exit(main())
