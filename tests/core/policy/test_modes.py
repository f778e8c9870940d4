"""The four modes are as docs/concepts/policy.md has them in its table, and nowhere else."""

from itertools import takewhile
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.choices import MODES, Mode
from handhold.core.policy.modes import ModePolicy
from handhold.core.ports.policy import CommandAnalysis, Verb

PAGE = Path(__file__).parents[3] / "docs/concepts/policy.md"
KINDS = ("read-only", "workspace-change", "network", "dangerous", "unknown")
JUDGED_IN_THE_SANDBOX = ("unknown", "network")

RUN_ROWS = {
    "run: `read-only`, `workspace-change`, if it can be undone": ("read-only", "workspace-change"),
    "run: without an overlay and without the broker": ("without undo",),
    "run: `unknown`, `network`, in the sandbox": ("unknown, in the sandbox", "network, in the sandbox"),
    "run: `unknown`, `network` elsewhere, `dangerous": ("unknown, elsewhere", "network, elsewhere", "dangerous"),
}


def table() -> dict[str, dict[str, str]]:
    """Of each thing that may happen, the verdict of each mode."""
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    start = next(at for at, row in enumerate(rows) if tuple(row[1:]) == MODES)
    below = takewhile(lambda row: len(row) == len(MODES) + 1, rows[start + 2 :])
    return {row[0]: dict(zip(MODES, row[1:], strict=True)) for row in below}


@pytest.mark.parametrize("mode", MODES)
def test_c90_the_table_of_modes_is_what_they_do(mode: Mode):
    policy = ModePolicy(mode)
    done = {verb: policy.decide(verb, "/ws/a").verdict for verb in Verb if verb is not Verb.RUN}
    run = {f"run, {kind}": policy.decide_command(CommandAnalysis("x", kind, "so")).verdict for kind in KINDS}
    for kind in JUDGED_IN_THE_SANDBOX:
        run[f"run, {kind}, elsewhere"] = run.pop(f"run, {kind}")
        contained = policy.decide_command(CommandAnalysis("x", kind, "so", contained=True)).verdict
        run[f"run, {kind}, in the sandbox"] = contained
    with Toolbox.in_memory({}, policy=mode) as box:
        _, decision = box.decide_command("ls", no_undo="there is no overlay")
    run["run, without undo"] = decision.verdict
    told = {what: verdicts[mode].split()[0] for what, verdicts in table().items()}
    for row, kinds in RUN_ROWS.items():
        told |= dict.fromkeys((f"run, {kind}" for kind in kinds), told.pop(row))
    assert told == {
        "read": done[Verb.READ],
        "change, create, delete": done[Verb.CHANGE],
        "connect": done[Verb.CONNECT],
        **run,
    }
    assert done[Verb.CHANGE] == done[Verb.CREATE] == done[Verb.DELETE]


@pytest.mark.parametrize("mode", MODES)
def test_c84_what_is_unknown_or_connects_is_judged_otherwise_where_effects_and_connections_are(mode: Mode):
    policy = ModePolicy(mode)
    for kind in KINDS:
        elsewhere, contained = (
            policy.decide_command(CommandAnalysis("x", kind, "so", contained=each)) for each in (False, True)
        )
        if kind in JUDGED_IN_THE_SANDBOX:
            assert contained.verdict == "allow"
        else:
            assert (contained.verdict, contained.rule) == (elsewhere.verdict, elsewhere.rule)


@pytest.mark.parametrize("mode", MODES)
def test_what_nobody_can_see_is_denied_in_every_mode(mode: Mode):
    assert ModePolicy(mode).decide_command(CommandAnalysis("ls", "read-only", "", invisible="U+200B")).verdict == "deny"
