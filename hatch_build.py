"""Compiles the two small C files of the shell, if there is a compiler, and keeps the wheel small (`slim.py`).

The wheel holds what was compiled, and then is for one platform only; without a compiler it is pure, and commands
run without the second wall (Landlock) and without the shim. An editable install gets them in the source tree.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHELL = Path("src/handhold/world/shell")
BUILT = "_built"
# The launcher is written without a C library: nothing may be put in that would call one.
ALONE = "-static -nostdlib -ffreestanding -fno-builtin -fno-stack-protector -fno-pie -no-pie"
SMALL = "-fno-asynchronous-unwind-tables -fno-ident -Wl,--build-id=none -Wl,-z,noseparate-code"
SOURCES = {
    "inside": ("inside.c", f"{ALONE} {SMALL}"),
    "rename.so": ("rename.c", f"-shared -fPIC -nostartfiles {SMALL}"),
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
            sys.path.insert(0, self.root)
            from slim import slim

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
