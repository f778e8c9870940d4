"""What the wheel holds: with a compiler two small binaries, without one nothing that is for one machine only."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BUILT = "handhold/world/shell/_built"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def built(folder: Path, **variables: str) -> Path:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    command = [uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(PROJECT)]
    subprocess.run(command, env=os.environ | variables, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_with_a_compiler_the_wheel_is_for_this_platform_and_its_binaries_run(tmp_path: Path):
    if shutil.which("cc") is None:
        pytest.skip("no compiler")
    wheel = built(tmp_path / "dist")
    assert wheel.name.endswith(f"-py3-none-linux_{os.uname().machine}.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".c")]
    target = tmp_path / "installed"
    install = [shutil.which("uv") or "", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel]
    subprocess.run([*install, "--python", sys.executable], check=True)
    launcher = target / BUILT / "inside"
    assert subprocess.run([launcher, "--", "echo", "hi"], capture_output=True, check=True).stdout == b"hi\n"
    assert (target / BUILT / "rename.so").exists()


def test_without_a_compiler_the_wheel_is_pure(tmp_path: Path):
    wheel = built(tmp_path / "dist", CC="/bin/false")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if BUILT in name]
