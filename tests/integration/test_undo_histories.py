"""Undo is exact, and removes only what it can bring back: random histories of commands and edits, undone and redone."""

import os
import random
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handhold import Target, Toolbox
from handhold.backends.files import content_hash, manifest
from handhold.core.results import Reply
from tests.scale import scaled
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

HISTORIES = scaled(2, 300)  # each for the overlay and for the broker
STEPS = 7
NAMES = ("a", "b", "d", "d/e", "d/x", "d/e/y", "n")
Tree = dict[str, tuple[str, int, bytes]]


def describe(root: Path) -> Tree:
    """Everything below a folder: kind, mode, content."""
    found: Tree = {}
    for path in root.rglob("*"):
        status = path.lstat()
        name = str(path.relative_to(root))
        if stat.S_ISLNK(status.st_mode):
            found[name] = ("link", 0, os.fsencode(os.readlink(path)))
        elif path.is_dir():
            found[name] = ("folder", stat.S_IMODE(status.st_mode), b"")
        else:
            found[name] = ("file", stat.S_IMODE(status.st_mode), path.read_bytes())
    return found


def commands(rng: random.Random) -> Iterator[str]:
    """Commands that change something, or fail halfway."""
    makers: tuple[Callable[[str, str], str], ...] = (
        lambda a, b: f"echo {rng.randrange(99)} >> {a}",
        lambda a, b: f"mkdir -p {a} && head -c {rng.choice((10, 5000))} /dev/zero > {a}/big && echo s > {a}/small",
        lambda a, b: f"mv {a} {b}",
        lambda a, b: f"rm -rf {a}",
        lambda a, b: f"chmod {rng.choice(('600', '755', '700'))} {a}",
        lambda a, b: f"ln -sfn {b} {a}",
        lambda a, b: f"cp -r {a} {b}-copy; echo y >> {b}-copy",
        lambda a, b: f"ln {a} {b}-hard",
        lambda a, b: f"rm -rf {a} && echo file > {a}",
        lambda a, b: "git init -q . && git add -A && git commit -qm one",
        lambda a, b: f"touch -d @1 {a}; echo z > {b}",
        lambda a, b: f"sed -i s/1/2/ {a} {b}; find . -name big -exec sh -c 'echo x >> $0' {{}} ';'",
    )
    while True:
        yield rng.choice(makers)(rng.choice(NAMES), rng.choice(NAMES))


@pytest.mark.parametrize("shell", ["contained", "brokered"])
@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.timeout(120)
def test_c92_undo_and_redo_lead_through_the_same_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, shell: str
):
    monkeypatch.setattr(manifest, "MAX_HASHED_FILE_BYTES", 100)
    monkeypatch.setattr(manifest, "MAX_HASHED_TREE_BYTES", 1000)
    for module in (content_hash, manifest):
        monkeypatch.setattr(module, "MAX_EDITABLE_BYTES", 2000)
    for kind in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{kind}_NAME", "n")
        monkeypatch.setenv(f"GIT_{kind}_EMAIL", "n@example.com")
    rng, root = random.Random(f"{seed} {shell}"), tmp_path / "ws"
    root.mkdir()
    (root / "a").write_text("1\n")
    (root / "d").mkdir()
    (root / "d/x").write_bytes(bytes(3000))
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False, shell=shell) as box:  # pyright: ignore[reportArgumentType]
        states, at = [describe(root)], 0

        def check(reply: Reply) -> None:
            assert reply.ok, (commands_run, at, reply.text)
            now = describe(root)
            wrong = {name for name in now.keys() | states[at].keys() if now.get(name) != states[at].get(name)}
            assert not wrong, (commands_run, at, wrong)

        commands_run: list[str] = []
        for command in commands(rng):
            box.call("bash", {"command": command})
            if (now := describe(root)) != states[-1] or box.log(last=1)[0].changed:
                states.append(now)
                commands_run.append(command)
            if len(states) > STEPS or len(box.log()) > 3 * STEPS:
                break
        at = len(states) - 1
        for _ in range(2 * STEPS):
            if at and (at == len(states) - 1 or rng.random() < 0.6):
                at -= 1
                check(box.undo())
            elif at < len(states) - 1:
                at += 1
                check(box.redo())
        if at:
            at = 0
            check(box.undo(Target.session()))
