"""The kernel's answers to a command that asks for too much, as documented in docs/threat-model.md."""

import os
import re
from pathlib import Path

import pytest

from handhold.backends.shell.sandbox_support import detect_sandbox_support
from tests.backends.shell.kernel_probes import PROBES
from tests.backends.shell.people import USERS, Person, each_person, system_python

PAGE = Path(__file__).parents[3] / "docs/threat-model.md"
ROW = re.compile(r"^\| `(?P<answer>\w+)` \| (?P<stops>[^|]+) \| (?P<tried>[^|]+) \|$", re.MULTILINE)


def table() -> dict[str, str]:
    section = PAGE.read_text().partition("## What stops each\n")[2].partition("\n## ")[0]
    return {tried: row["answer"] for row in ROW.finditer(section) for tried in re.findall(r"`([^`]+)`", row["tried"])}


who = pytest.fixture(each_person, params=USERS)


def test_the_page_and_the_probes_name_the_same():
    assert sorted(table()) == sorted(PROBES)


@pytest.mark.skipif(detect_sandbox_support().bubblewrap is None, reason="nothing confines commands on this machine")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the probes have numbers of x86_64")
@pytest.mark.parametrize(
    ("shadow", "shared"),
    [(True, False), (True, True), (False, True)],
    ids=["in the foreground", "beside a job", "as a job"],
)
def test_each_answers_as_the_page_says(who: Person, shadow: bool, shared: bool):
    """A job runs in the same sandbox, directly on the files; after the first one, commands share a loopback."""
    who.write(who.root / "probes.py", Path(__file__).with_name("kernel_probes.py").read_text())
    done = who.contained(f"{system_python()} probes.py", shadow=shadow, shared=shared)
    answers = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())
    assert answers == table(), done.stderr
