"""E-5, E-19: everyday commands in the default mode with nobody to ask, each in a throw-away workspace, each undone."""

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from tests.scale import sampled
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.slow,
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

MOST_REFUSED = 0.03
ROW_SECONDS = 60
GROUPS: dict[str, dict[str, Any]] = {
    group["name"]: group
    for group in tomllib.loads(Path(__file__).with_name("everyday_commands.toml").read_text())["group"]
}


def rows(group: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"command": row} if isinstance(row, str) else row for row in group["commands"]]


def missing(row: dict[str, Any]) -> bool:
    return not all(map(shutil.which, row.get("needs", ())))


def fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    """Mode and content of everything below, a link by where it leads."""
    found: dict[str, tuple[int, str]] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            content = os.readlink(path) if path.is_symlink() else "" if path.is_dir() else digest(path)
            found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def faults(row: dict[str, Any], box: Toolbox) -> str:
    """How a command behaves other than its row says; empty if it does not. What it changed is undone."""
    reply = box.call("bash", {"command": row["command"], "timeout": ROW_SECONDS})
    refused = reply.error_source == "policy"
    if refused or "refused" in row:
        return "" if refused and "refused" in row else f"refused: {refused}\n{reply.text}"
    if bool(reply.data.get("refused_hosts")) is not row.get("names_host", False):
        return f"refused hosts: {reply.data.get('refused_hosts')}\n{reply.text}"
    if box.log(last=1)[-1].changed and (undone := box.undo()).status != "success":
        return f"not undone: {undone.text}"
    ended = reply.status, reply.data.get("exit_status"), reply.data.get("undo")
    return "" if ended == ("success", row.get("exit", 0), "all") else f"{ended}\n{reply.text}"


@pytest.mark.parametrize("name", sampled(list(GROUPS), 3))
def test_e5_everyday_commands_run_unless_their_effect_needs_a_person(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # A launcher in a home may choose among versions of Python by settings that commands do not see.
    monkeypatch.setenv("PATH", f"{sys.base_prefix}/bin{os.pathsep}{os.environ['PATH']}")
    workspace = tmp_path / "ws"
    workspace.mkdir()
    subprocess.run(["bash", "-euc", GROUPS[name]["setup"]], cwd=workspace, check=True, stdout=subprocess.DEVNULL)
    before = fingerprint(workspace)
    skipped = [row["command"] for row in rows(GROUPS[name]) if missing(row)]
    print(f"{name}: {len(skipped)} of {len(rows(GROUPS[name]))} skipped, for want of a program: {skipped}")
    with Toolbox.open(workspace, state=tmp_path / "state", settings=False) as box:
        tried = sampled([row for row in rows(GROUPS[name]) if not missing(row)], 8, lambda row: "refused" in row)
        found = {row["command"]: faults(row, box) for row in tried}
    assert {command: fault for command, fault in found.items() if fault} == {}
    assert fingerprint(workspace) == before


def test_e5_of_250_everyday_commands_and_more_at_most_3_percent_are_refused_each_for_a_reason():
    every = [row for group in GROUPS.values() for row in rows(group)]
    refused = [row for row in every if "refused" in row]
    runnable = [row for row in every if not missing(row)]
    print(f"{len(every)} commands, {len(refused)} refused; {len(runnable)} can run here")
    assert len({row["command"] for row in every}) == len(every)
    assert len(runnable) >= 250
    assert len(refused) <= MOST_REFUSED * len(runnable)
    assert all(len(row["refused"]) > 20 for row in refused)
