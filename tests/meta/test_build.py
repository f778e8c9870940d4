"""What the wheels contain: the unmodified source, and two small binaries for their platform."""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

from tests.scale import NIGHTLY, sampled

PROJECT = Path(__file__).parents[2]
BUILT = "handhold/backends/shell/_built"
LIBRARIES = {"manylinux_2_17": "libc.so.6", "musllinux_1_2": "libc.so"}
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
PLATFORMS = [f"{library}_{machine}" for library in LIBRARIES for machine in MACHINES]
SCRIPTS = Path(sys.executable).parent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]  # zig compiles a C library, too


@cache
def made(folder: Path, **variables: str) -> Path:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    command = [uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(PROJECT)]
    subprocess.run(command, env=os.environ | variables, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Build a wheel with these variables, once."""
    folder = tmp_path_factory.mktemp("built")
    return lambda **variables: made(folder / "-".join(variables.values()).replace("/", "_"), **variables)


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist() if ".dist-info/" not in name}


def source() -> dict[str, bytes]:
    files = (path for path in (PROJECT / "src").rglob("*") if path.is_file())
    return {
        name: path.read_bytes()
        for path in files
        if "__pycache__" not in (name := path.relative_to(PROJECT / "src").as_posix()) and BUILT not in name
    }


def shown(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("platform", PLATFORMS if NIGHTLY else PLATFORMS[-1:])
def test_f4_the_wheel_of_a_platform_is_the_source_and_binaries_for_it(
    tmp_path: Path, platform: str, built: Callable[..., Path]
):
    wheel = built(HANDHOLD_PLATFORM=platform)
    assert wheel.name.endswith(f"-py3-none-{platform}.whl")
    held = contents(wheel)
    binaries = {name.removeprefix(f"{BUILT}/"): held.pop(name) for name in list(held) if name.startswith(BUILT)}
    assert held == source()
    assert set(binaries) == {"broker", "inside", "rename.so"}
    for name, content in binaries.items():
        (tmp_path / name).write_bytes(content)
        with (tmp_path / name).open("rb") as opened:
            elf = ELFFile(opened)
            assert elf["e_machine"] == next(of for machine, of in MACHINES.items() if platform.endswith(machine))
            dynamic = [section for section in elf.iter_sections() if isinstance(section, DynamicSection)]
            needed = [vars(tag)["needed"] for section in dynamic for tag in section.iter_tags("DT_NEEDED")]
            wanted = next(of for library, of in LIBRARIES.items() if platform.startswith(library))
            assert needed == ([wanted] if name == "rename.so" else []), "the launcher runs with any library, or none"
    assert "PASSED" in shown(SCRIPTS / "twine", "check", "--strict", wheel)
    if platform == "manylinux_2_17_x86_64":
        assert f'following platform tag: "{platform}"' in shown(SCRIPTS / "auditwheel", "show", wheel)


def test_the_binaries_of_this_platform_run(tmp_path: Path, built: Callable[..., Path]):
    wheel = built(HANDHOLD_PLATFORM=f"manylinux_2_17_{os.uname().machine}")
    target = tmp_path / "installed"
    install = [shutil.which("uv") or "", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel]
    subprocess.run([*install, "--python", sys.executable], check=True)
    assert shown(target / BUILT / "inside", "--", "echo", "hi") == "hi\n"
    assert shown("env", f"LD_PRELOAD={target / BUILT / 'rename.so'}", "echo", "hi") == "hi\n"


@pytest.mark.parametrize("variables", sampled([{"HANDHOLD_PLATFORM": "any"}, {"CC": "/bin/false"}], 1))
def test_without_a_compiler_the_wheel_is_pure(variables: dict[str, str], built: Callable[..., Path]):
    wheel = built(**variables)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert contents(wheel) == source()


def test_with_the_systems_compiler_the_wheel_is_for_this_machine(wheel: Path):
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    assert wheel.name.endswith(f"-py3-none-linux_{os.uname().machine}.whl")
    assert {f"{BUILT}/{name}" for name in ("broker", "inside", "rename.so")} == contents(wheel).keys() - source().keys()


def test_the_extra_all_brings_every_other():
    extras = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (named,) = extras.pop("all")
    assert named == f"handhold[{','.join(extras)}]"
