"""C-92: undo and redo against an independent model, over random histories of an agent and a person.

The model knows texts, changes and `git merge-file`, and nothing of slots, journals and transactions. Each undo equals it
or is refused with the paths in conflict, and no line that a person wrote is ever lost by one.
"""

import random
import re
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from handhold import Target, Toolbox
from handhold.core.results import Reply
from tests.scale import scaled
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

HISTORIES = scaled(4, 2_000)
STEPS = 14
NAMES = ("a", "b", "c", "d")
Texts = dict[str, str]
Change = tuple[str | None, str | None]
Changes = dict[str, Change]
Step = list[tuple[str, Change]]


@dataclass
class Made:
    """A call of the agent, and what is in effect of it."""

    seq: int
    by_command: bool
    changes: Changes  # in effect: what a redo found done is not the call's any more
    undo: Changes | None = None  # what its undo did, while it is undone


class Conflict(Exception):
    pass


def reverse(change: Change, now: str | None) -> str | None:
    """The text without what a change did, from `before` to `after`."""
    before, after = change
    if now in (before, after):
        return before
    if before is None or after is None or now is None:
        raise Conflict
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("now", now), ("after", after), ("before", before)):
            (Path(folder) / name).write_text(text)
        done = subprocess.run(
            ["git", "merge-file", "-p", "now", "after", "before"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise Conflict
    return done.stdout


def reverse_all(steps: list[Step], now: Texts) -> tuple[Texts, set[str]]:
    """What is left after these steps, newest first, and the paths in conflict."""
    left, conflicts = dict(now), set[str]()
    for name, change in (each for step in steps for each in step):
        try:
            text = reverse(change, left.get(name))
        except Conflict:
            conflicts.add(name)
            continue
        left.pop(name, None)
        if text is not None:
            left[name] = text
    return left, conflicts


def combine(calls: list[Made]) -> Step:
    """Consecutive calls of file tools as one change, newest first; several where somebody else came in between."""
    total: dict[str, list[Change]] = {}
    for name, change in ((name, change) for call in calls for name, change in call.changes.items()):
        known = total.setdefault(name, [])
        if known and known[-1][1] == change[0]:
            known[-1] = (known[-1][0], change[1])
        else:
            known.append(change)
    return [(name, each) for name, changes in total.items() for each in reversed(changes) if each[0] != each[1]]


def difference(before: Texts, after: Texts) -> Changes:
    names = before.keys() | after.keys()
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


class History:
    def __init__(self, root: Path, box: Toolbox, rng: random.Random) -> None:
        self.root, self.box, self.rng = root, box, rng
        self.calls: list[Made] = []  # in the order in which they took effect
        self.before: Texts = {}
        self.refused = 0
        self.merged = 0

    def read(self) -> Texts:
        return {path.name: path.read_text() for path in self.root.iterdir()}

    def write(self, texts: Texts) -> None:
        for name, (_, text) in difference(self.read(), texts).items():
            if text is None:
                (self.root / name).unlink()
            else:
                (self.root / name).write_text(text)

    def alter(self, text: str, mark: str) -> str:
        """A text with one line more, less or changed."""
        lines, rng = text.splitlines(keepends=True), self.rng
        at = rng.randrange(len(lines) + 1)
        word = f"{mark}{rng.randrange(10**6)}\n"
        kept = at + (1 if rng.random() < 0.5 else 0)
        return "".join([*lines[:at], *([word] if rng.random() < 0.8 else []), *lines[kept:]])

    def act(self, mark: str) -> Texts:
        """What somebody makes of the files."""
        texts, rng = self.read(), self.rng
        name, other = rng.choice(NAMES), rng.choice(NAMES)
        if name not in texts:
            texts[name] = "".join(f"{mark}{rng.randrange(10**6)}\n" for _ in range(16))
        elif (luck := rng.random()) < 0.08:
            del texts[name]
        elif luck < 0.16 and other not in texts:
            texts[other] = texts.pop(name)
        else:
            texts[name] = self.alter(texts[name], mark)
        return texts

    # --- steps

    def person(self) -> None:
        self.write(self.act("p"))

    def agent(self) -> None:
        before, wanted = self.read(), self.act("agent")
        by_command = self.rng.random() < 0.5
        last = self.box.log(last=1)
        if by_command:
            scripts = [
                f"rm {name}" if text is None else f"cat > {name} <<'END'\n{text}END"
                for name, (_, text) in difference(before, wanted).items()
            ]
            self.box.call("bash", {"command": "\n".join(scripts)})
        else:
            for name in before:
                self.box.call("read_file", {"path": name})
            parts: list[str] = []
            for name, (old, text) in difference(before, wanted).items():
                if text is None:
                    parts.append(f"*** Delete File: {name}\n")
                elif old is None:
                    parts.append(f"*** Add File: {name}\n" + "".join(f"+{line}\n" for line in text.splitlines()))
                else:
                    assert self.box.call("write_file", {"path": name, "content": text}).ok
            if parts:
                self.box.call("apply_patch", {"patch": f"*** Begin Patch\n{''.join(parts)}*** End Patch\n"})
        changes = difference(before, self.read())
        entry = self.box.log(last=1)[0]
        if changes and entry.changed and (not last or entry.seq != last[0].seq):
            self.calls.append(Made(entry.seq, by_command, changes))

    def undo_one(self) -> None:
        if done := [call for call in self.calls if call.undo is None]:
            call = self.rng.choice(done)
            if self.check(self.box.undo(Target.call(call.seq)), [[*call.changes.items()]], is_undo=True):
                call.undo = difference(self.before, self.read())

    def redo_one(self) -> None:
        if undone := [call for call in self.calls if call.undo is not None]:
            call = self.rng.choice(undone)
            assert call.undo is not None
            if self.check(self.box.redo(Target.call(call.seq)), [[*call.undo.items()]], is_undo=False):
                left = {name: each for name, each in call.changes.items() if name not in call.undo}
                call.changes = {**left, **difference(self.before, self.read())}
                call.undo = None
                self.calls.remove(call)
                self.calls.append(call)

    def undo_all(self) -> None:
        done = [call for call in self.calls if call.undo is None]
        if done:
            steps: list[Step] = []
            for by_command, group in groupby(done, key=lambda call: call.by_command):
                together = list(group)
                steps += [[*call.changes.items()] for call in together] if by_command else [combine(together)]
            self.check(self.box.undo(Target.session()), steps[::-1], is_undo=True)

    def check(self, reply: Reply, steps: list[Step], *, is_undo: bool) -> bool:
        """Whether it was carried out. It equals the model, or is refused with the paths in conflict."""
        wanted, conflicts = reverse_all(steps, self.before)
        now = self.read()
        if conflicts:
            assert reply.code == "UNDO_CONFLICT", (self, reply)
            assert {Path(path).name for path in reply.data["paths"]} == conflicts
            assert now == self.before
            self.refused += 1
            return False
        assert reply.ok, reply.text
        assert now == wanted
        if is_undo:
            assert find_words(self.before) <= find_words(now), "a line of the person is lost"
        self.merged += bool(reply.data.get("kept_lines"))
        return True


def find_words(texts: Texts) -> set[str]:
    """What the person wrote."""
    return {word for text in texts.values() for word in re.findall(r"^p[0-9]+$", text, re.MULTILINE)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(HISTORIES))
def test_c92_undo_and_redo_in_any_order_equal_the_model_or_are_refused(tmp_path: Path, seed: int):
    rng, root = random.Random(seed), tmp_path / "ws"
    root.mkdir()
    for name in NAMES[:2]:
        (root / name).write_text("".join(f"{name}{n}\n" for n in range(16)))
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as box:
        history = History(root, box, rng)
        for _ in range(STEPS):
            step = rng.choices(
                (history.agent, history.person, history.undo_one, history.redo_one), weights=(4, 3, 3, 2)
            )[0]
            history.before = history.read()
            step()
        history.before = history.read()
        history.undo_all()
