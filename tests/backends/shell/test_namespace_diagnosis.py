"""Why no sandbox can be created and how to fix it, as a user reads it in `doctor` and in a refusal."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from errno import EINVAL, ENOSPC, EPERM
from pathlib import Path

import pytest

from handhold.backends.shell.namespace_diagnosis import (
    APPARMOR_SYSCTL,
    MAX_NAMESPACES_SYSCTL,
    UNPRIVILEGED_CLONE_SYSCTL,
    diagnose,
)
from tests.backends.shell import without_namespaces
from tests.backends.shell.people import ROOT, Person, person

OPEN: dict[str, int | None] = {MAX_NAMESPACES_SYSCTL: 1000, UNPRIVILEGED_CLONE_SYSCTL: None, APPARMOR_SYSCTL: None}
ROWS: dict[str, tuple[tuple[int, int], dict[str, int | None], dict[str, bool], str, str]] = {
    "nothing": ((0, 0), {}, {}, "", ""),
    "no kernel": ((EINVAL, 0), {}, {}, "no user namespaces", "CONFIG_USER_NS"),
    "none allowed": (
        (ENOSPC, 0),
        {MAX_NAMESPACES_SYSCTL: 0},
        {},
        "user.max_user_namespaces is 0",
        "sysctl -w user.max_user_namespaces=",
    ),
    "only root": (
        (EPERM, 0),
        {UNPRIVILEGED_CLONE_SYSCTL: 0},
        {},
        "only root",
        "sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    "AppArmor refuses": ((EPERM, 0), {APPARMOR_SYSCTL: 1}, {}, "AppArmor", "apparmor_parser --replace"),
    "AppArmor takes the rights": ((0, EPERM), {APPARMOR_SYSCTL: 1}, {}, "AppArmor", "apparmor_parser --replace"),
    "a filter": ((EPERM, 0), {}, {"is_filtered": True}, "system-call filter", "seccomp profile"),
    "a filter, for root": (
        (EPERM, 0),
        {APPARMOR_SYSCTL: 1, UNPRIVILEGED_CLONE_SYSCTL: 0},
        {"is_filtered": True, "is_root": True},
        "system-call filter",
        "seccomp profile",
    ),
    "unknown": ((EPERM, 0), {}, {}, "", ""),
}


@pytest.mark.parametrize("row", ROWS)
def test_e20_causes_are_told_apart(row: str):
    errors, settings, facts, why, remedy = ROWS[row]
    found = diagnose(
        *errors, OPEN | settings, **{"is_filtered": False, "is_root": False} | facts, bubblewrap="/x/bwrap"
    )
    assert (found is None) == (not why)
    if found:
        assert why in found.why
        assert remedy in found.remedy


def parser_version() -> int:
    if not (parser := shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")):
        pytest.skip("no apparmor_parser on this machine")
    said = subprocess.run([parser, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.split("version ")[1].split(".")[0])


@pytest.mark.parametrize(
    "path", ["/usr/bin/bwrap", "/home/ann lee/.venv/it's {odd} [*]/bwrap", '/a"b\\c/@{HOME}/bwrap']
)
def test_e20_apparmor_reads_the_profile(path: str, tmp_path: Path):
    version = parser_version()
    found = diagnose(0, EPERM, OPEN | {APPARMOR_SYSCTL: 1}, is_filtered=False, is_root=False, bubblewrap=path)
    assert found
    profile = found.remedy.partition("<<'END'\n")[2].partition("END\n")[0]
    if version < 4:  # it supports neither this version of the rules nor the one about user namespaces
        profile = profile.replace("abi <abi/4.0>,\n", "").replace("  userns,\n", "")
    (tmp_path / "profile").write_text(profile)
    parsed = subprocess.run(
        ["apparmor_parser", "--skip-kernel-load", "--skip-cache", "--debug", tmp_path / "profile"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/sbin:/sbin:/usr/bin"},
    )
    assert parsed.returncode == 0, parsed.stderr
    assert "handhold-bwrap" in parsed.stdout


@pytest.fixture
def plain() -> Iterator[Person]:
    made = person("plain")
    yield made
    shutil.rmtree(made.base)


SAYS = """
import sys
from handhold import Toolbox
from handhold.cli import main
with Toolbox.open({root!r}, state={state!r}, settings=False) as box:
    print(box.call("bash", {{"command": "true"}}).text)
sys.stdout.flush()
sys.argv[1:] = ["doctor", "--root", {root!r}]
main()
"""


@pytest.mark.skipif(not ROOT, reason="only root can set how many namespaces there may be")
def test_e20_a_plain_user_without_namespaces_is_told_why_and_what_to_do(plain: Person):
    plain.within = (sys.executable, without_namespaces.__file__)
    program = plain.write(plain.base / "says.py", SAYS.format(root=str(plain.root), state=str(plain.state / "s")))
    said = plain.python(str(program))
    _, _, doctor = said.stdout.partition("\n")
    assert "Commands are held by the broker, without namespaces" in doctor, said
    assert "user.max_user_namespaces is 0\n" in doctor
    assert "How to allow it\nsudo sysctl -w user.max_user_namespaces=15000\n" in doctor
