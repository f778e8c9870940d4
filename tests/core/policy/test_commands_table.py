"""C-84: two lists of commands and what they would do. None that could do harm runs unasked, none that cannot is asked about."""

import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.shell import ShellContext, analyze_command
from handhold.core.ports.policy import CommandAnalysis, Verdict

KNOWN = Path(__file__).with_name("known_commands.json")
OURS = Path(__file__).with_name("commands.json")
HARMLESS = ("read-only", "workspace-write")
STANDING = ShellContext(roots=("/ws/project",), cwd="/ws/project", home="/home/user")


class Row(NamedTuple):
    command: str
    expect: str
    study: CommandAnalysis
    verdict: Verdict

    @property
    def shown(self) -> str:
        return f"{self.expect:<16} {self.study.kind:<17} {self.verdict:<6} {self.command[:90]!r}"


def rows(source: Path, mode: str) -> list[Row]:
    policy = ModePolicy(mode)  # type: ignore[arg-type]
    found = json.loads(source.read_text(encoding="utf-8"))
    studies = [analyze_command(each["command"], STANDING) for each in found]
    return [
        Row(each["command"], each["expect"], studied, policy.decide_command(studied).verdict)
        for each, studied in zip(found, studies, strict=True)
    ]


def wrongly_judged(table: list[Row]) -> list[str]:
    print(f"\n{'expected':<16} {'class':<17} {'':<6} command")
    for row in table:
        print(row.shown)
    print(Counter((row.expect, str(row.verdict)) for row in table))
    return [row.shown for row in table if (row.verdict is Verdict.ALLOW) != (row.expect in HARMLESS)]


def test_c84_none_of_the_82_runs_unasked_in_mode_edit_and_none_of_the_15_is_asked_about():
    table = rows(KNOWN, "edit")
    expected = Counter(row.expect in HARMLESS for row in table)
    assert expected == {False: 82, True: 15}
    assert wrongly_judged(table) == []


def test_c84_the_ten_that_only_read_are_not_asked_about_in_mode_ask():
    table = [row for row in rows(KNOWN, "ask") if row.expect == "read-only"]
    assert len(table) == 10
    assert [row.shown for row in table if row.verdict is not Verdict.ALLOW or row.study.kind != "read-only"] == []


def test_c84_our_own_list_is_judged_the_same_way():
    table = rows(OURS, "edit")
    expected = Counter(row.expect in HARMLESS for row in table)
    assert expected[True] >= 80
    assert expected[False] >= 120
    assert wrongly_judged(table) == []


def test_what_our_own_list_calls_read_only_is_found_to_be():
    assert [row.shown for row in rows(OURS, "ask") if row.expect == "read-only" and row.study.kind != "read-only"] == []
