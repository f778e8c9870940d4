"""E-5: where everything that a command does is seen before it counts, its effects are judged and not its text."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handhold import Question, Rule, Toolbox
from handhold.core.ports.policy import Verdict
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

WRITES = "open('made.txt', 'w').write('x')"
HARMLESS = {
    "code on the command line": f'python3 -c "{WRITES}"',
    "code at the input": f"python3 - <<'EOF'\n{WRITES}\nEOF",
    "perl that edits in place": "cp a.txt made.txt && perl -pi -e 's/a/x/' made.txt",
    "arithmetic on an unknown value": "read -r i < number.txt; ((i++)); echo $i > made.txt",
    "a program whose name is not known": 'read -r x < program.txt; "$x" made.txt',
    "a target that is not known": 'read -r x < target.txt; echo x > "$x"',
    "too many commands to read": "; ".join([*["true"] * 60, "touch made.txt"]),
    "a server that this session started": "curl -s http://localhost:1/ || touch made.txt",
}


def opened(place: Path, **options: Any) -> Toolbox:
    return Toolbox.open(place, state=place.parent / "state", settings=False, **options)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    names = {"a.txt": "a\n", "number.txt": "41\n", "program.txt": "touch\n", "target.txt": "made.txt\n"}
    for name, text in names.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def box(ws: Path) -> Iterator[Toolbox]:
    """The default mode, with nobody to ask."""
    with opened(ws) as box:
        yield box


@pytest.mark.parametrize("what", HARMLESS)
def test_e5_what_the_text_does_not_tell_runs_and_can_be_undone(what: str, ws: Path, box: Toolbox):
    reply = box.call("bash", {"command": HARMLESS[what]})
    assert (reply.status, reply.data["exit_status"], reply.data["undo"]) == ("success", 0, "all"), reply.text
    assert (ws / "made.txt").exists()
    assert box.undo().status == "success"
    assert not (ws / "made.txt").exists()


HARMFUL = {
    "a hook": "import os; os.makedirs('.git/hooks'); open('.git/hooks/pre-commit', 'w').write('x')",
    "a setting that an editor obeys": "import os; os.mkdir('.vscode'); open('.vscode/tasks.json', 'w').write('{}')",
    "a path that a rule denies": "open('frozen.txt', 'w').write('x')",
}


@pytest.mark.parametrize("what", HARMFUL)
def test_e5_inline_code_does_not_commit_what_a_person_would_be_asked_about(what: str, ws: Path):
    frozen = Rule(
        "frozen", Verdict.DENY, ("change", "create"), paths=("frozen.txt",), because="it is frozen",
        covers=("frozen.txt",), does_not_cover=("a.txt",),
    )  # fmt: skip
    before = sorted(path.name for path in ws.rglob("*"))
    with opened(ws, rules=[frozen]) as box:
        reply = box.call("bash", {"command": f'python3 -c "{WRITES}; {HARMFUL[what]}"'})
    assert (reply.status, reply.error_source) == ("error", "policy"), reply.text
    assert sorted(path.name for path in ws.rglob("*")) == before


def test_e5_inline_code_reaches_no_network_no_process_of_others_and_nothing_outside(ws: Path, box: Toolbox):
    """What no overlay would show."""
    outside = ws.parent / "outside.txt"
    outside.write_text("as it was")
    code = (
        "import os, socket; s = socket.socket(); s.settimeout(2); print(s.connect_ex(('192.0.2.1', 80)) != 0, "
        "len([p for p in os.listdir('/proc') if p.isdigit()]) < 6, os.path.exists('../' + 'outside.txt')); "
        "open('../' + 'outside.txt', 'w').write('changed')"
    )
    reply = box.call("bash", {"command": f'python3 -c "{code}"'})
    assert "True True False" in reply.text
    assert outside.read_text() == "as it was"


INLINE = f'python3 -c "{WRITES}"'


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"network": True}, {}),
        ({}, {"background": True}),
    ],
    ids=["with a network", "in the background"],
)
def test_e5_where_not_every_effect_is_seen_the_text_is_judged(
    options: dict[str, Any], arguments: dict[str, Any], ws: Path
):
    with opened(ws, **options) as box:
        reply = box.call("bash", {"command": INLINE, **arguments})
    assert (reply.status, reply.code) == ("error", "NOT_APPROVED"), reply.text
    assert not (ws / "made.txt").exists()


@pytest.mark.parametrize("command", [f"{INLINE}; sudo ls", f"{INLINE}; cat ~/.netrc"])
def test_e5_a_line_that_also_reaches_outside_is_asked_about_before_it_runs(command: str, ws: Path, box: Toolbox):
    reply = box.call("bash", {"command": command})
    assert (reply.status, reply.code) == ("error", "NOT_APPROVED"), reply.text
    assert not (ws / "made.txt").exists()


def test_e5_a_rule_that_forbids_a_command_still_asks_about_what_cannot_be_read(ws: Path):
    forbidden = Rule(
        "no push", Verdict.DENY, ("run",), commands=("git push",), because="a person pushes",
        covers=("git push",), does_not_cover=("git status",),
    )  # fmt: skip
    with opened(ws, rules=[forbidden]) as box:
        reply = box.call("bash", {"command": 'read -r x < program.txt; "$x" made.txt'})
    assert (reply.status, reply.code) == ("error", "NOT_APPROVED"), reply.text


def test_e5_in_the_mode_ask_a_person_is_shown_what_inline_code_did_and_nothing_before(ws: Path):
    asked: list[Question] = []

    def approver(question: Question) -> str:
        asked.append(question)
        return "once"

    with opened(ws, approver=approver) as box:
        assert box.call("bash", {"command": "python3 -c 'print(1)'"}).status == "success"
        assert asked == []
        assert box.call("bash", {"command": INLINE}).status == "success"
    assert [len(question.files) for question in asked] == [1]
    assert "made.txt" in asked[0].diff
