"""Compiles the shell's C files, which the wheel contains next to the source.

HANDHOLD_PLATFORM names a platform in PLATFORMS to compile for with zig, or `any` for a wheel without binaries; `just
build` builds them all. If it is not set, the system's compiler builds for this machine. Without a compiler the wheel is
pure, and `handhold doctor` reports what is missing. An editable install gets the binaries in the source tree.
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

SHELL = Path("src/handhold/backends/shell")
BUILT = "_built"
# The launcher has no C library, so the compiler must not insert calls to one.
ALONE = "-static -nostdlib -ffreestanding -fno-builtin -fno-stack-protector -fno-pie -no-pie"
# The broker has its C library inside: it must start in any container.
SOURCES = {
    "inside": ("inside.c", ALONE),
    "rename.so": ("rename.c", "-shared -fPIC"),
    "broker": ("broker/*.c", "-static -std=gnu11"),
}
FLAGS = "-Os -s -Wall -Wextra -fno-asynchronous-unwind-tables"
MACHINES = ("x86_64", "aarch64")
ZIG = "ziglang==0.17.0"
LIBRARIES = {"manylinux_2_17": "linux-gnu.2.17", "musllinux_1_2": "linux-musl"}  # zig's names
PLATFORMS = {f"{name}_{machine}": (machine, of) for name, of in LIBRARIES.items() for machine in MACHINES}


class CustomBuildHook(BuildHookInterface[Any]):
    folder: "tempfile.TemporaryDirectory[str] | None" = None

    def dependencies(self) -> list[str]:
        return [ZIG] if wanted() in PLATFORMS else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if wanted() not in ("", "any", *PLATFORMS):
            raise ValueError(f"HANDHOLD_PLATFORM is {wanted()!r}, not one of: any, {', '.join(PLATFORMS)}")
        compiler = zig(*PLATFORMS[wanted()]) if wanted() in PLATFORMS else local()
        if not compiler or wanted() == "any":
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
            build_data["force_include"][str(path)] = f"handhold/backends/shell/{BUILT}/{path.name}"
        build_data["pure_python"] = False
        here = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{wanted() or here}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.folder:
            self.folder.cleanup()

    def compiled(self, name: str, compiler: list[str], folder: Path) -> Path | None:
        source, flags = SOURCES[name]
        path = folder / name
        files = sorted(map(str, (Path(self.root) / SHELL).glob(source)))
        if "linux-gnu" in " ".join(compiler) and name == "broker":  # the other library can be linked statically
            compiler = [word.replace(LIBRARIES["manylinux_2_17"], LIBRARIES["musllinux_1_2"]) for word in compiler]
        given = [*FLAGS.split(), *flags.split(), "-o", str(path), *files]
        done = subprocess.run([*compiler, *given], capture_output=True, text=True, check=False)
        if done.returncode and wanted():
            raise RuntimeError(f"{source} does not compile for {wanted()}: {done.stderr.strip()}")
        if done.returncode:
            self.app.display_warning(f"{source} was left out: {done.stderr.strip()}")
            return None
        path.chmod(0o755)
        return path

    def put(self, path: Path) -> None:
        """In the source tree, by rename: the old one may be running."""
        folder = Path(self.root) / SHELL / BUILT
        folder.mkdir(exist_ok=True)
        beside = folder / f".{path.name}.{os.getpid()}"
        shutil.copy2(path, beside)
        beside.replace(folder / path.name)


def wanted() -> str:
    return os.environ.get("HANDHOLD_PLATFORM", "")


def local() -> list[str]:
    """The compiler for this machine, or nothing."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return []
    given = shlex.split(os.environ.get("CC", ""))
    return given or [found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))][:1]


def zig(machine: str, library: str) -> list[str]:
    """The compiler for that machine. The kernel's headers are named, since zig has them only with a C library."""
    import ziglang

    headers = Path(ziglang.__file__).parent / "lib/libc/include"
    kinds = ("x86-linux-any" if machine == "x86_64" else f"{machine}-linux-any", "any-linux-any")
    found = [each for kind in kinds for each in ("-isystem", str(headers / kind))]
    return [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-{library}", *found]
