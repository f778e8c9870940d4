"""Compiles the two small C files of the shell, if there is a compiler, and keeps the wheel small.

The wheel holds what was compiled, and then is for one platform only; without a compiler it is pure, and commands
run without the second wall (Landlock) and without the shim. An editable install gets them in the source tree.

What is private comes without comments and docstrings, which are a fifth of it; every line keeps its number, so that a
traceback fits the source. They are in the source distribution, and in the public modules.
"""

import ast
import base64
import hashlib
import io
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tokenize
import zipfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHELL = Path("src/handhold/world/shell")
BUILT = "_built"
# The launcher is written without a C library: nothing may be put in that would call one.
ALONE = "-static -nostdlib -ffreestanding -fno-builtin -fno-stack-protector -fno-pie -no-pie"
SOURCES = {
    "inside": ("inside.c", f"{ALONE} -fno-asynchronous-unwind-tables"),
    "rename.so": ("rename.c", "-shared -fPIC"),
}
MACHINES = ("x86_64", "aarch64")


class CustomBuildHook(BuildHookInterface[Any]):
    folder: "tempfile.TemporaryDirectory[str] | None" = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = (
            shlex.split(os.environ.get("CC", ""))
            or [found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))][:1]
        )
        if sys.platform != "linux" or platform.machine() not in MACHINES or not compiler:
            return
        self.folder = tempfile.TemporaryDirectory()
        compiled = [path for name in SOURCES if (path := self.compiled(name, compiler, Path(self.folder.name)))]
        if not compiled:
            return
        if version == "editable":
            for path in compiled:
                self.put(path)
            return
        for path in compiled:
            build_data["force_include"][str(path)] = f"handhold/world/shell/{BUILT}/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.folder:
            self.folder.cleanup()
        if version != "editable":
            slim(Path(artifact_path))

    def compiled(self, name: str, compiler: list[str], folder: Path) -> Path | None:
        source, flags = SOURCES[name]
        path = folder / name
        given = [
            "-Os",
            "-s",
            "-Wall",
            "-Wextra",
            *flags.split(),
            "-o",
            str(path),
            str(Path(self.root) / SHELL / source),
        ]
        done = subprocess.run([*compiler, *given], capture_output=True, text=True, check=False)
        if done.returncode:
            self.app.display_warning(f"{source} was left out: {done.stderr.strip()}")
            return None
        path.chmod(0o755)
        return path

    def put(self, path: Path) -> None:
        """In the source tree, by rename: somebody may be running the old one."""
        folder = Path(self.root) / SHELL / BUILT
        folder.mkdir(exist_ok=True)
        beside = folder / f".{path.name}.{os.getpid()}"
        shutil.copy2(path, beside)
        beside.replace(folder / path.name)


# --- a small wheel

PRIVATE = ("handhold/core/", "handhold/world/")
PUBLIC = ("handhold/core/ports.py", "handhold/core/requests.py", "handhold/core/results.py", "handhold/core/errors.py")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def slim(wheel: Path) -> None:
    """The same wheel, what is private in it bare, and its list of files made anew."""
    beside = wheel.with_suffix(".slim")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        rows: list[str] = []
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("/RECORD"):
                data = "".join((*rows, f"{entry.filename},,\n")).encode()
            elif entry.filename.endswith(".py") and entry.filename.startswith(PRIVATE) and entry.filename not in PUBLIC:
                data = bared(data.decode()).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{entry.filename},sha256={digest},{len(data)}\n")
            new.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
    beside.replace(wheel)


def bared(source: str) -> str:
    """A module without comments and docstrings. What is left means the same, on the same lines: that is looked at."""
    lines = source.splitlines(keepends=True)
    texts = [node.body[0] for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED) and documented(node)]
    for text in texts:
        first, last = text.lineno - 1, (text.end_lineno or text.lineno) - 1
        ending = lines[last][text.end_col_offset :]
        if not lines[first].isascii() or not lines[last].isascii():  # columns are counted in bytes
            continue
        lines[first : last + 1] = [f'{lines[first][: text.col_offset]}""{ending}', *["\n"] * (last - first)]
    bare = "".join(lines)
    lines = bare.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(bare).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip() + "\n"
    bare = "".join(lines)
    if meaning(bare) != meaning(source):
        raise ValueError("taking the comments out changed what a module means")
    return bare


def documented(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return ast.get_docstring(node, clean=False) is not None


def meaning(source: str) -> str:
    """A module's tree, with line numbers and without docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and documented(node):
            node.body[0] = ast.Pass()
    return ast.dump(tree)
