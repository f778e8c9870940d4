"""Files that a command left as they were are as they were for git as well."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Toolbox
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

START = """
git init -q; git config user.name a; git config user.email a@b
mkdir src; for i in $(seq 20); do echo $i > src/f$i; done
git add -A; git commit -qm one
"""
WORK = {
    "appended": "for each in src/*; do echo x >> $each; done; git commit -qam two",
    "replaced": "sed -i s/1/2/ src/*; git commit -qam two",
    "switched": "git checkout -q -b side; sed -i s/1/3/ src/*; git commit -qam side; git checkout -q -",
    "only read": "cat src/* | wc -l; git status",
}


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", policy="open") as opened:
        done(opened, START)
        yield opened


def done(box: Toolbox, command: str) -> list[str]:
    """What it changed, but for git's own files."""
    reply = box.call("bash", {"command": command})
    assert (reply.status, reply.data["exit_status"]) == ("success", 0), reply.text
    return [each["path"] for each in reply.data["files"] if "/.git/" not in each["path"]]


@pytest.mark.parametrize("work", WORK)
def test_e17_checkout_leaves_unchanged_files_alone(box: Toolbox, work: str):
    time.sleep(1)  # git compares whole seconds
    done(box, WORK[work])
    assert done(box, 'test -z "$(git diff-files)" && git checkout -- .') == []


def test_e17_checkout_after_undo_leaves_unchanged_files_alone(box: Toolbox):
    done(box, "sed -i s/1/2/ src/*")
    box.undo(keep_times=True)
    assert done(box, "git checkout -- .") == []


def test_e17_a_change_of_the_same_size_in_the_same_second_is_noticed(box: Toolbox):
    for before, after in (("aaaa", "bbbb"), ("cccc", "dddd")):
        done(box, f"printf {before} > same; git add same; git commit -qm {before}")
        reply = box.call("bash", {"command": f"printf {after} > same; git status --short; git checkout -- .; cat same"})
        assert reply.text.startswith(f" M same\n{before}")


def test_e17_a_change_that_a_file_tool_made_is_noticed(box: Toolbox):
    done(box, "echo same > same; git add same; git commit -qm one")
    box.call("read_file", {"path": "same"})
    assert box.call("edit_file", {"path": "same", "old": "same", "new": "SAME"}).status == "success"
    assert " M same" in box.call("bash", {"command": "git status --short"}).text


def test_e17_the_repository_decides_for_itself_what_git_compares(box: Toolbox, tmp_path: Path):
    assert box.call("bash", {"command": "git config core.checkStat"}).text.startswith("minimal\n")
    with (tmp_path / "ws/.git/config").open("a") as config:
        config.write("[core]\n\tcheckStat = default\n")
    assert box.call("bash", {"command": "git config core.checkStat"}).text.startswith("default\n")
