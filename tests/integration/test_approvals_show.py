"""R-16: what needs approval comes first in what a person is shown, and none of it is cut."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.cli import prompt
from handhold.core import change_diff
from handhold.core.ports.approvals import ConsentName, Question
from handhold.pipeline.approvals import DIFF_TOO_LONG
from handhold.server import approvals
from tests.scale import examples
from tests.suites.held_by import held_by  # noqa: F401 — a fixture

SHOWN: list[Callable[[Question], Iterator[str]]] = [prompt.format_question, approvals.format_question]
HOOK = ".git/hooks/pre-commit"


class Person:
    """Who says no, and remembers the question."""

    name = "the tester"
    asked: Question

    def __call__(self, question: Question, /) -> ConsentName:
        self.asked = question
        return "no"


def added(path: str, lines: list[str]) -> str:
    return f"*** Add File: {path}\n" + "".join(f"+{line}\n" for line in lines)


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def box(tmp_path: Path, ws: Path) -> Iterator[Toolbox]:
    with Toolbox.open(ws, state=tmp_path / "state", session="s", policy="edit") as box:
        yield box


def run(box: Toolbox, ws: Path, script: str):
    (ws / "make.sh").write_text(script)
    return box.call("bash", {"command": "bash make.sh"})


@given(
    before=st.integers(0, 3),
    after=st.integers(0, 3),
    lines=st.lists(st.sampled_from(["short", "x" * 1_000, ""]), max_size=400),
)
@settings(max_examples=examples(25), deadline=None)
def test_r16_what_needs_approval_is_always_first_and_never_cut(before: int, after: int, lines: list[str]):
    content = [*(f"{n} {line}" for n, line in enumerate(lines)), "the last line"]
    others = [added(f"{n}.txt", [f"other {line}" for line in range(300)]) for n in range(before + after)]
    pieces = [*others[:before], added(HOOK, content), *others[before:]]
    person = Person()
    with Toolbox.in_memory({}, session="s", policy="edit", approver=person) as box:
        reply = box.call("apply_patch", {"patch": "*** Begin Patch\n" + "".join(pieces) + "*** End Patch"})
    assert reply.code == "NOT_APPROVED"
    for shown in SHOWN:
        told = list(shown(person.asked))
        first = next(n for n, line in enumerate(told) if f"+++ b/{HOOK}" in line)
        assert first <= 3
        for n, line in enumerate(content):
            assert f"+{line}" in told[first + 2 + n]
        if others:
            left = 302 * len(others) + len(others) - 200
            assert told[-1] == f"… and {left} more lines, which are not shown here"


@pytest.mark.parametrize("shown", SHOWN)
def test_r16_a_command_that_needs_approval_is_never_cut(shown: Callable[[Question], Iterator[str]]):
    command = "echo " + "x" * 1_000 + "; echo end of a long line\n" + "true\n" * 100 + "echo end"
    told = list(shown(Question("bash", (), "", "because", command)))
    assert "\n".join(f"    {line}" for line in command.split("\n")) in "\n".join(told)


@pytest.mark.usefixtures("held_by")
@pytest.mark.parametrize("folder", ["", "new/"])
def test_r16_a_waiting_question_holds_all_of_what_needs_approval_and_says_what_it_leaves_out(
    box: Toolbox, ws: Path, folder: str
):
    """Also in a folder that comes whole, beside more files than are shown of one."""
    script = (
        f"mkdir -p {folder}.vscode && for n in $(seq 300); do seq 200 >{folder}a$n; done\n"
        f"(seq 50000; echo the end) >{folder}.vscode/tasks.json"
    )
    asked = run(box, ws, script)
    assert asked.code == "NOT_APPROVED"
    waiting = box.store.get_pending(asked.data["approval"])
    lines = waiting.diff.splitlines()
    tasks = lines.index(f"+++ b/{folder}.vscode/tasks.json")
    assert tasks < 5
    assert lines[tasks + 2 : tasks + 50_003] == [*(f"+{n}" for n in range(1, 50_001)), "+the end"]
    assert waiting.uncut == tasks + 50_003
    assert any("are not shown]" in line for line in lines[waiting.uncut :])


@pytest.mark.usefixtures("held_by")
def test_r16_a_folder_that_needs_approval_is_shown_with_all_that_is_in_it(box: Toolbox, ws: Path):
    asked = run(box, ws, "mkdir -p .vscode/empty && for n in $(seq 250); do echo in $n >.vscode/$n; done")
    waiting = box.store.get_pending(asked.data["approval"])
    first = waiting.diff.splitlines()[: waiting.uncut]
    assert {f"+in {n}" for n in range(1, 251)} <= {*first}
    assert "not shown" not in waiting.diff


def test_r16_what_is_too_long_to_be_shown_is_refused(box: Toolbox, ws: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(change_diff, "MAX_APPROVAL_DIFF_CHARS", 10_000)
    reply = box.call("write_file", {"path": HOOK, "content": "x\n" * 10_000})
    assert (reply.code, reply.data["approval"]) == ("NOT_APPROVED", "")
    assert reply.data["unasked"] == DIFF_TOO_LONG
    assert not box.store.list_pending()


def test_r16_a_long_diff_of_one_file_says_what_it_leaves_out(box: Toolbox):
    box.call("write_file", {"path": "a", "content": "x\n" * 150_000})
    *_, last = box.diff().splitlines()
    assert last == "[250,043 more characters of a are not shown]"


@pytest.mark.usefixtures("held_by")
@pytest.mark.parametrize("folder", ["n", "n\\u200b"], ids=["plain", "that looks escaped"])
def test_r16_what_may_not_be_read_is_still_shown_to_who_approves_it(ws: Path, tmp_path: Path, folder: str):
    """A settings file that nobody trusts could otherwise hide from the person what it wants approved."""
    rule = '[[rule]]\nname = "t"\nverdict = "deny"\nverbs = ["read"]\npaths = ["**/tasks.json"]\nbecause = "secret"\n'
    (ws / "handhold.toml").write_text(f'{rule}covers = ["a/tasks.json"]\nspares = ["README.md"]\n')
    person = Person()
    script = f"mkdir -p 'new/{folder}/.vscode'; echo obeyed > 'new/{folder}/.vscode/tasks.json'; touch new/{{1..300}}"
    with Toolbox.open(ws, state=tmp_path / "state", policy="edit", approver=person) as box:
        assert run(box, ws, script).code == "NOT_APPROVED"
    assert "+obeyed" in person.asked.diff.split("\n")[: person.asked.uncut]
