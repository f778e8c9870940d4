"""What a rollback leaves: others' work stays, and one thing that cannot be restored does not keep the rest from it."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handhold.core.plans import Effects
from handhold.core.requests import Run
from tests.backends.shell.shells import Bench, bench

WAIT = "; while [ ! -e stop ]; do sleep 0.01; done"  # for somebody else to do something


@pytest.fixture
def shell(tmp_path: Path):
    with bench(tmp_path, mode="brokered") as opened:
        yield opened


def roll_back(shell: Bench, command: str, meanwhile: Callable[[], object]) -> Effects:
    """Run a command, of which nothing is applied; `meanwhile` is what somebody else does before it ends."""

    def act(_output: str) -> None:
        meanwhile()
        (shell.ws / "stop").touch()

    with shell.shell.run(Run(f"{command}; echo ready{WAIT}", 20, chars=1000), on_output=act) as finished:
        assert finished.effects
    (shell.ws / "stop").unlink()
    return finished.effects


def test_what_others_put_into_a_folder_of_the_command_stays(shell: Bench):
    (shell.ws / "theirs").mkdir()
    (shell.ws / "theirs/f").write_text("theirs\n")
    new = shell.ws / "new"

    def meanwhile() -> None:
        (new / "mine").write_text("mine\n")
        (shell.ws / "theirs").rename(new / "deep/theirs")

    effects = roll_back(shell, "mkdir -p new/deep/more other; echo 1 >new/x; echo 2 >new/deep/more/y", meanwhile)
    assert sorted(str(path.relative_to(new)) for path in new.rglob("*")) == [
        "deep",
        "deep/theirs",
        "deep/theirs/f",
        "mine",
    ]
    assert sorted(os.listdir(shell.ws)) == ["new"]
    assert [clash.path for clash in effects.conflicts] == [str(new)]
    created = [str(shell.ws / name) for name in ("new/deep/more", "new/x", "other")]
    assert [change.path for change in effects.files] == created


def test_they_stay_also_if_the_command_was_cancelled(shell: Bench):
    def meanwhile(_output: str) -> None:
        (shell.ws / "new/mine").write_text("mine\n")
        assert shell.shell.interrupt()

    shell("mkdir new; echo 1 >new/x; echo ready; sleep 20", watch=meanwhile)
    assert os.listdir(shell.ws / "new") == ["mine"]
