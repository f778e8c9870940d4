"""The screens in the docs match what the commands print."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale import nightly

SCREENS = Path(__file__).parents[2] / "docs/screens"
NAMES = ("log", "diff", "undo", "explain", "doctor", "approval")


@nightly(sampled_by="tests/cli/test_look.py::test_at_a_terminal_the_log_has_days_and_colours_and_no_foreign_ones")
@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_screens_show_what_is_printed_today(tmp_path: Path):
    if os.geteuid() or not shutil.which("tmux") or not shutil.which("unshare"):
        pytest.skip("needs root, tmux and unshare")
    subprocess.run([sys.executable, SCREENS / "make.py", tmp_path], check=True)
    for name in NAMES:
        kept, today = ((folder / f"{name}.txt").read_text() for folder in (SCREENS, tmp_path))
        if name == "doctor":  # the result depends on the machine
            assert list_checks(kept) & list_checks(today), name
            assert kept.split("\n")[0] == today.split("\n")[0]
        else:
            assert mask_times(today) == mask_times(kept), name
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg ")


def mask_times(screen: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", screen)


def list_checks(screen: str) -> set[str]:
    """The name and purpose of each check, whatever its result."""
    return set(re.findall(r"^  (?:yes|no|-) +(.*?)(?: \(.*)?$", screen, re.MULTILINE))


def test_no_screen_tells_of_the_machine_it_was_taken_on():
    for path in SCREENS.glob("*.*"):
        if path.suffix != ".py":
            assert not re.search(r"/(?:tmp|work|root|home/[a-z])/", path.read_text()), path
