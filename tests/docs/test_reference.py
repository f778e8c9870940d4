"""The reference pages are up to date with the code."""

import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from handhold.cli.commands import COMMANDS, handhold
from tests.docs.pages import PROJECT

SCRIPT = PROJECT / "checks/reference.py"


def test_the_reference_is_made_again_without_a_difference():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `just reference`:\n{done.stdout}{done.stderr}"


def test_every_command_that_the_help_names_is_told():
    told = (PROJECT / "docs/reference/cli.md").read_text(encoding="utf-8")
    shown = CliRunner().invoke(handhold, ["--help"]).output
    named = re.findall(r"^  ([a-z]+)  ", shown.partition("Work:")[2].partition("Exit status")[0], re.MULTILINE)
    assert len(named) >= 14
    hidden = [name for name, each in COMMANDS.items() if not each.group]
    assert re.findall(r"^## handhold (\w+)$", told, re.MULTILINE) == [*named, *hidden]


@pytest.mark.parametrize("page", ["tools.md", "configuration.md", "cli.md", "errors.md"])
def test_every_page_says_that_it_is_made(page: str):
    assert "Made by checks/reference.py" in (PROJECT / "docs/reference" / page).read_text(encoding="utf-8")
