"""Package managers know that the network is shut."""

import shutil
from pathlib import Path

import pytest

from handhold import Toolbox
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

INSTALLS = {
    "pip": ("python3 -m pip install --target x no-such-package", "No matching distribution found"),
    "npm": ("npm install no-such-package", "403"),
    "uv": ("uv pip install --target x no-such-package", "may only be read from the cache"),
}


@pytest.mark.parametrize("program", INSTALLS)
def test_e13_an_install_without_network_fails_at_once(program: str, tmp_path: Path):
    command, said = INSTALLS[program]
    if not shutil.which(program):
        pytest.skip(f"no {program} on this machine")
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", policy="open") as box:
        reply = box.call("bash", {"command": command, "timeout": 30})
        assert reply.data["timed_out"] is False
        assert reply.data["exit_status"] != 0
        assert said in reply.text
