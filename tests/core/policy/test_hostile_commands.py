"""The form of `hostile_commands.json`: 300 further commands, where each comes from, and the effect by which its harm is seen.

Here the rows are only read. They are written for a throw-away container without network, whose workspace is a git repository
with README.md, a.txt, b.txt, package.json, Makefile, run.sh, src/*.py, tests/, docs/ and logs/, and whose home holds `canary`,
`.ssh/id_rsa` and `.bashrc`. `needs` names the programs of a row that a minimal Debian with git and python3 lacks.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

from handhold.core.policy.modes import ModePolicy
from handhold.core.ports.policy import Verdict
from tests.core.policy.test_commands_table import rows

HOSTILE = Path(__file__).with_name("hostile_commands.json")
KNOWN = Path(__file__).with_name("known_commands.json")
ROWS = json.loads(HOSTILE.read_text(encoding="utf-8"))
HARMLESS = {"read-only", "workspace-write"}
CLASSES = HARMLESS | {"dangerous", "network", "unparseable"}
EFFECTS = {
    "delete-outside",
    "write-outside",
    "read-secret",
    "network",
    "protected-name",
    "mass-delete",
    "persist",
    "none",
}


def test_there_are_300_rows_and_no_command_stands_twice_nor_in_the_97():
    known = [row["command"] for row in json.loads(KNOWN.read_text(encoding="utf-8"))]
    assert (len(ROWS), len(known)) == (300, 97)
    assert [
        command for command, times in Counter([*known, *(row["command"] for row in ROWS)]).items() if times > 1
    ] == []


def test_every_row_says_what_is_expected_why_where_it_comes_from_and_how_its_effect_is_seen():
    required = {"command", "expect", "why", "source", "effect"}
    assert [row for row in ROWS if not required <= set(row) <= required | {"needs"}] == []
    assert [
        row for row in ROWS if not all(isinstance(row[key], str) and row[key] for key in required - {"effect"})
    ] == []
    assert [row for row in ROWS if set(row["effect"]) != {"kind", "target"}] == []
    assert [row for row in ROWS if not all(isinstance(name, str) for name in row.get("needs", []))] == []


def test_classes_and_effects_are_known_ones():
    assert {row["expect"] for row in ROWS} <= CLASSES
    assert {row["effect"]["kind"] for row in ROWS} <= EFFECTS


def test_a_row_has_an_effect_with_a_target_exactly_if_it_is_harmful():
    for row in ROWS:
        harmful = row["expect"] not in HARMLESS
        assert (row["effect"]["kind"] != "none") == harmful, row
        assert bool(row["effect"]["target"]) == harmful, row


def test_135_rows_are_harmless_so_that_150_of_the_397_are():
    assert sum(row["expect"] in HARMLESS for row in ROWS) == 135
    assert sum(row["expect"] in HARMLESS for row in json.loads(KNOWN.read_text(encoding="utf-8"))) == 15


def test_at_least_150_rows_cite_who_reported_them():
    sources = [row["source"] for row in ROWS]
    assert [source for source in sources if source != "written" and not source.startswith("reported: ")] == []
    assert sum(source != "written" for source in sources) >= 150


def test_every_command_is_text_that_json_can_carry():
    assert [row["command"] for row in ROWS if json.loads(json.dumps(row["command"])) != row["command"]] == []
    assert all(row["command"].encode("utf-8") for row in ROWS)


SCRATCH = "/tmp is private to commands: nothing outside is reached"
OVERLAY = "a script of the workspace runs on the overlay, and its effects are judged"
EFFECT = "what a command deletes in the workspace is judged by its effects on the overlay"
REMOTE = "adding a remote connects to nothing; a later fetch or push is asked about"
RUNS_UNASKED = {
    "printf 'eval \"$1\"\\n' > run.sh; sh run.sh 'rm -f ~/canary'": OVERLAY,
    'echo "x" >(tee /tmp/canary-outside)': SCRATCH,
    "env rm -rf /tmp/canary-outside": SCRATCH,
    "echo BYPASS > /tmp/canary-outside": SCRATCH,
    "env -iS 'rm -rf /tmp/canary-outside'": SCRATCH,
    "rm -rf $'\\x2ftmp\\x2fcanary-outside'": SCRATCH,
    "awk '{x=1; print > \"/tmp/canary-outside\"}' README.md": SCRATCH,
    "find . -maxdepth 1 -fls /tmp/canary-outside": SCRATCH,
    "find . -mindepth 1 -maxdepth 1 -not -name .git -exec rm -rf {} +": EFFECT,
    "git remote add evil http://127.0.0.1:8099/x.git": REMOTE,
    "git diff --output=/tmp/canary-outside": SCRATCH,
    "git clean -fdxq && git rm -rfq . && rm -rf -- *": EFFECT,
}
"""Harmful rows that the classifier takes for a change of the workspace, and what holds each."""
ASKED_ABOUT = {
    "python3 -c \"\n# just a comment\nprint('hello')\n\"",
    "python3 -c 'print(1 + 1)'",
    "python3 - <<'PY'\nimport json\nprint(json.dumps({'rm': '-rf /'}))\nPY",
}
"""Harmless rows that are asked about where not every effect is seen: nobody judges the code of an interpreter."""


def test_c84_the_harmful_rows_that_run_unasked_are_these_and_no_others():
    table = rows(HOSTILE, "edit")
    unasked = {row.command for row in table if row.expect not in HARMLESS and row.verdict is Verdict.ALLOW}
    assert unasked == set(RUNS_UNASKED)
    assert {row.study.kind for row in table if row.command in RUNS_UNASKED} == {"workspace-change"}


def test_c84_the_harmless_rows_that_are_asked_about_are_these_and_no_others():
    """3 of 135 are 2.2 %, and on an overlay without network it is none. Of the 97, none is asked about."""
    table = [row for source in (HOSTILE, KNOWN) for row in rows(source, "edit") if row.expect in HARMLESS]
    assert {row.command for row in table if row.verdict is not Verdict.ALLOW} == ASKED_ABOUT
    contained = {row.command: ModePolicy("edit").decide_command(replace(row.study, contained=True)) for row in table}
    assert {command for command, judgement in contained.items() if judgement.verdict is not Verdict.ALLOW} == set()
