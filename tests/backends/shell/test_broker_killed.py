"""Whoever is killed while a brokered command runs: afterwards the workspace is exactly as before the command."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from handhold.backends.files.staging_area import UNDO_LOG
from handhold.backends.files.undo_log import read_undo_log
from handhold.backends.shell.brokered_run import BrokeredRun
from handhold.backends.shell.sandbox import create_sandbox
from handhold.toolbox import Toolbox
from tests.backends.shell.shadows import Desk, both_without_overlay
from tests.backends.shell.test_overlay_scripts import empty, facts, lay
from tests.scale import scaled

NEVER = 1 << 62
POINTS = scaled(10, 200)  # at which the broker is killed
SPREAD_SECONDS = 0.08  # about as long as the script takes
# Changes of every kind, again and again, so that a kill hits one of them.
SCRIPT = """
for i in 1 2 3 4 5 6 7 8; do
    echo $i >>-x; echo $i >a/a; mv a/b b/moved$i; mkdir new$i; mv c/a new$i/; echo n >new$i/x; ln c/b linked$i
    rm -rf 'd e'; mkdir 'd e'; chmod 700 b/a; touch -d @5 b/a/c; mv b/moved$i a/b; mv new$i/a c/a; mv -T new$i new; rm -rf new
done
sleep 30
"""


def launch(desk: Desk, run: BrokeredRun, script: str) -> "subprocess.Popen[bytes]":
    prepared = create_sandbox("brokered").prepare_launch(
        ["bash", "-c", script],
        mounts=run.mounts,
        folder=str(desk.ws),
        tmp=str(desk.tmp),
        home=str(desk.home),
        results=None,
    )
    lifeline, other_end = os.pipe()
    try:
        return subprocess.Popen(
            [prepared.argv[0], "-L", str(lifeline), *prepared.argv[1:]],
            cwd=desk.ws,
            env=dict(prepared.env),
            pass_fds=(*prepared.pass_fds, lifeline),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    finally:
        os.close(lifeline)
        desk.lifelines.append(other_end)
        prepared.close()


def wait_for(file: Path) -> None:
    """Until the command has created it."""
    until = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.timeout(600)
@both_without_overlay
def test_the_workspace_is_exact_after_the_broker_was_killed(desk: Desk):
    changed = 0
    for point in range(POINTS):
        empty(desk.ws)
        lay(desk.ws)
        before = facts(desk.ws, NEVER)
        run = BrokeredRun.create(desk.files.open_roots, desk.files.get_staging_area, scratch=desk.scratch)
        broker = launch(desk, run, SCRIPT)
        time.sleep(SPREAD_SECONDS * (point + 1) / POINTS)
        broker.send_signal(signal.SIGKILL)
        broker.wait()
        changed += facts(desk.ws, NEVER) != before
        run.discard()
        assert facts(desk.ws, NEVER) == before
    assert changed > POINTS // 2  # otherwise nothing was tried


@pytest.mark.slow
@pytest.mark.timeout(600)
@both_without_overlay
def test_the_next_toolbox_recovers_what_a_killed_one_left(desk: Desk):
    state = desk.place / "kept"
    for point in range(scaled(2, 20)):
        empty(desk.ws)
        lay(desk.ws)
        before = facts(desk.ws, NEVER)
        handhold = os.fork()
        if not handhold:
            Toolbox.open(desk.ws, state=state, policy="open", shell="brokered").call("bash", {"command": SCRIPT})
            os._exit(1)
        wait_for_log(state)
        time.sleep(SPREAD_SECONDS * (point + 1) / scaled(2, 20))
        os.kill(handhold, signal.SIGKILL)
        os.waitpid(handhold, 0)
        Toolbox.open(desk.ws, state=state, policy="open").close()
        assert facts(desk.ws, NEVER) == before


def wait_for_log(state: Path) -> None:
    until = time.monotonic() + 30
    while not any(UNDO_LOG in names for _, _, names in os.walk(state)):  # it passes over what is removed meanwhile
        assert time.monotonic() < until
        time.sleep(0.001)


@both_without_overlay
def test_what_survives_its_broker_can_change_nothing(desk: Desk):
    lay(desk.ws)
    run = BrokeredRun.create(desk.files.open_roots, desk.files.get_staging_area, scratch=desk.scratch)
    script = (
        "(setsid sh -c 'trap : TERM; while :; do echo x >survived; sleep 0.01; done' &) ; sleep 0.3; : >ready; sleep 30"
    )
    before = facts(desk.ws, NEVER)
    broker = launch(desk, run, script)
    wait_for(desk.ws / "ready")
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    (desk.ws / "survived").unlink(missing_ok=True)
    time.sleep(0.1)
    assert not (desk.ws / "survived").exists()
    run.discard()
    assert facts(desk.ws, NEVER) == before


def test_names_in_folders_of_the_command_are_recorded_before_they_appear(tmp_path: Path):
    """Whoever recovers must be able to tell them from what others put there."""
    desk = Desk(tmp_path)
    run = BrokeredRun.create(desk.files.open_roots, desk.files.get_staging_area, scratch=desk.scratch)
    broker = launch(desk, run, "mkdir d; : >d/x; : >ready; sleep 30")
    wait_for(desk.ws / "ready")
    broker.send_signal(signal.SIGKILL)
    broker.wait()
    (log,) = Path(desk.shelf.folder).glob(f"*/{UNDO_LOG}")
    assert os.fsencode(desk.ws / "d/x") in log.read_bytes()
    assert [record.first for record in read_undo_log(log) if record.kind == "create"] == [
        str(desk.ws / name) for name in ("d", "ready")
    ]
    run.discard()
    assert os.listdir(desk.ws) == []
