"""While a script works on an overlay, another works on the root: none of the other's changes are lost."""

import os
import subprocess

import pytest
from hypothesis import HealthCheck, event, given, settings

from tests.backends.shell.shadows import Desk, both
from tests.backends.shell.test_overlay_scripts import POWERS, empty, facts, lay, scripts
from tests.scale import scaled

NEVER = 1 << 62
RACES = scaled(10, 200)  # for each user


def check(desk: Desk, ours: list[str], theirs: list[str]) -> None:
    empty(desk.ws)
    lay(desk.ws)
    first = facts(desk.ws, NEVER)

    def meanwhile() -> None:
        powers = POWERS["contained"] if os.geteuid() == 0 else ()
        command = [*powers, "bash", "-c", "\n".join(theirs)]
        subprocess.run(command, cwd=desk.ws, capture_output=True, check=False, timeout=30)

    shadow = desk.shadow()
    try:
        desk.bash(shadow, "\n".join(ours))
        meanwhile()
        before = facts(desk.ws, NEVER)
        effects = shadow.collect_effects(lambda _: False)
        assert facts(desk.ws, NEVER) == before
        event(f"{'some' if effects.conflicts else 'no'} conflicts, {'some' if effects.files else 'no'} changes")
        desk.commit(effects.files)
        after = facts(desk.ws, NEVER)
        for way, fact in before.items():
            if first.get(way) != fact:
                assert after.get(way) == fact, way
        for conflict in effects.conflicts:
            way = os.path.relpath(conflict.path, desk.ws)
            assert after.get(way) == before.get(way), way
            assert not conflict.kept_path or os.path.lexists(conflict.kept_path)
        desk.undo(effects.files)
        assert facts(desk.ws, NEVER) == before
    finally:
        shadow.discard()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@both
def test_what_others_do_meanwhile_is_never_lost(desk: Desk):
    @settings(max_examples=RACES, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(scripts, scripts)
    def holds(ours: list[str], theirs: list[str]) -> None:
        check(desk, ours, theirs)

    holds()
