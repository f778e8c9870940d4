import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from handhold.cli.commands import handhold
from handhold.world.shell.abilities import abilities

contained = pytest.mark.skipif(abilities().bubblewrap is None, reason="nothing confines commands on this machine")


@contained
def test_it_tells_what_holds_here(tmp_path: Path):
    said = CliRunner().invoke(handhold, ["doctor", "--root", str(tmp_path)])
    assert said.exit_code == 0
    held = {line[7:25].strip() for line in said.output.splitlines() if line.startswith("  yes  ")}
    assert {"user namespace", "processes", "network", "capabilities", "system-call filter"} <= held
    assert "Commands are contained" in said.output


@contained
def test_it_tells_programs_the_same(tmp_path: Path):
    said = CliRunner().invoke(handhold, ["doctor", "--json", "--root", str(tmp_path)])
    told = json.loads(said.output)
    assert told["contained"] is True
    findings = {each["what"]: each for each in told["findings"]}
    network = findings["network"]
    assert (network["holds"], network["detail"], "reaches no host" in network["means"]) == (True, "shut", True)
    assert told["undo"] == ("all" if findings["layer"]["holds"] else "file tools only")


@pytest.mark.root
@contained
def test_a_root_that_no_layer_can_lie_over_is_named(tmp_path: Path):
    """As where a volume is mounted somewhere in it."""
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("needs root")
    (tmp_path / "root/volume").mkdir(parents=True)
    script = f'mount -t tmpfs none {tmp_path}/root/volume && exec "$0" -c "from handhold.cli import main; main()" doctor --json --root {tmp_path}/root'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable], capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout)
    assert told["contained"] is True
    assert told["undo"] == "file tools only"
    (layer,) = [each for each in told["findings"] if each["what"] == "layer"]
    assert f"{tmp_path}/root/volume is a mount point" in layer["detail"]
    assert done.returncode == 0


def test_where_commands_cannot_be_contained_it_ends_with_status_one(tmp_path: Path):
    """As on a machine without any bubblewrap."""
    program = (
        "import handhold.world.shell.abilities, sys\n"
        "module = sys.modules['handhold.world.shell.abilities']\n"
        "module.candidates = lambda: iter(())\n"
        "from handhold.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "doctor"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done
    assert "cannot be contained" in done.stdout
    assert "handhold[shell]" in done.stdout
