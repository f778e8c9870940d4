"""A workspace whose commands run on an overlay, with their effects committed, undone and compared."""

import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.shell.overlay import WorkspaceOverlay
from handhold.backends.shell.sandbox import ShellMode, create_sandbox
from handhold.core.plans import Effects, FileChange, FolderMtime, StagedContent
from tests.backends.shell.forked import as_user
from tests.faults.trees import Kept

OLD = 1_600_000_000_000_000_000  # a time that no file gets by itself

Facts = dict[str, tuple[Any, ...]]


class Desk:
    def __init__(self, place: Path) -> None:
        self.place = place
        self.ws = place / "ws"
        self.state = place / "state"
        self.scratch = self.state / "scratch"
        self.tmp = self.state / "tmp"
        self.home = self.state / "home"
        for folder in (self.ws, self.scratch, self.tmp, self.home):
            folder.mkdir(parents=True, exist_ok=True)
        self.state.chmod(0o700)
        self.lifelines: list[int] = []  # while these pipes are open, brokers run
        self.kept = Kept()
        self.files = Workspace([self.ws], self.kept, state=self.state)
        shelf = self.files.get_staging_area(self.files.open_roots[0])
        assert shelf is not None
        self.shelf = shelf

    def lay(self, script: str) -> None:
        """Create the initial files, all with an old time."""
        subprocess.run(["bash", "-ec", script], cwd=self.ws, check=True)
        for folder, _, files in os.walk(self.ws):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.utime(path, ns=(OLD, OLD), follow_symlinks=False)

    def shadow(self) -> WorkspaceOverlay:
        return WorkspaceOverlay.create(self.files.open_roots, self.files.get_staging_area, scratch=self.scratch)

    def bash(self, shadow: WorkspaceOverlay, script: str, *, shim: str = "") -> subprocess.CompletedProcess[str]:
        launch = create_sandbox("contained").prepare_launch(
            ["bash", "-c", script],
            mounts=shadow.mounts,
            folder=str(self.ws),
            tmp=str(self.tmp),
            home=str(self.home),
            results=None,
            shim=shim,
        )
        try:
            return subprocess.run(
                launch.argv,
                env=launch.env,
                pass_fds=launch.pass_fds,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            launch.close()

    @contextmanager
    def ran(
        self,
        script: str,
        *,
        meanwhile: Callable[[], None] | None = None,
        protected: Callable[[str], bool] = lambda _: False,
        shim: str = "",
        fails: bool = False,
    ) -> Iterator[Effects]:
        """Run a script and collect its effects; `meanwhile` is what somebody else changes before they are collected."""
        shadow = self.shadow()
        try:
            ended = self.bash(shadow, script, shim=shim)
            assert fails or ended.returncode == 0, ended
            if meanwhile:
                meanwhile()
            yield shadow.collect_effects(protected)
        finally:
            shadow.discard()

    def commit(self, changes: Sequence[FileChange], times: Sequence[FolderMtime] = ()) -> None:
        things = [change.after or change.before for change in changes]
        self.kept.commands |= {thing.slot.split("/")[0] for thing in things if isinstance(thing, StagedContent)}
        with self.files.transaction(changes, times) as transaction:
            transaction.apply()
            transaction.clean_up()

    def undo(self, changes: Sequence[FileChange]) -> None:
        self.commit([change.invert() for change in changes])

    def things(self, effects: Effects) -> dict[str, StagedContent]:
        """What each path becomes, or what it was if it is deleted."""
        sides = {os.path.relpath(change.path, self.ws): change.after or change.before for change in effects.files}
        return {way: side for way, side in sides.items() if isinstance(side, StagedContent)}

    def ways(self, effects: Effects) -> dict[str, str]:
        """Each changed path, with what happened to it."""
        return {os.path.relpath(change.path, self.ws): _verb(change) for change in effects.files}

    def see(self) -> Facts:
        return seen(self.ws)


def _verb(change: FileChange) -> str:
    if change.before is None:
        return "new"
    return "gone" if change.after is None else "other"


def seen(top: Path, *, times: bool = True) -> Facts:
    """Everything below: kind, mode, content, attributes, hard links, and the times of files and links."""
    facts: Facts = {}
    names: dict[tuple[int, int], str] = {}
    for folder, folders, files in os.walk(top):
        for name in sorted((*folders, *files)):
            path = os.path.join(folder, name)
            way = os.path.relpath(path, top)
            found = os.lstat(path)
            mode = found.st_mode
            what: object = ""
            if stat.S_ISLNK(mode):
                what = os.readlink(path)
            elif stat.S_ISREG(mode):
                what = _content(path, mode)
            attributes = () if stat.S_ISLNK(mode) else tuple(sorted(os.listxattr(path)))
            one = names.setdefault((found.st_dev, found.st_ino), way) if not stat.S_ISDIR(mode) else ""
            when = found.st_mtime_ns if times else 0
            facts[way] = (stat.S_IFMT(mode), stat.S_IMODE(mode), what, attributes, one, when)
    return facts


def _content(path: str, mode: int) -> bytes:
    if not mode & stat.S_IRUSR:
        os.chmod(path, 0o600)
    try:
        return Path(path).read_bytes()
    finally:
        if not mode & stat.S_IRUSR:
            os.chmod(path, stat.S_IMODE(mode))


def both(test: Callable[[Desk], None]) -> Callable[..., None]:
    """As root and as an unprivileged user."""
    return _as_both(test, "contained")


def both_without_overlay(test: Callable[[Desk], None]) -> Callable[..., None]:
    """As root and as an unprivileged user, if commands can be brokered."""
    return _as_both(test, "brokered")


def _as_both(test: Callable[[Desk], None], mode: ShellMode) -> Callable[..., None]:
    def wrapped(who: str, place: Path) -> None:
        if not create_sandbox(mode).status.shadow:
            pytest.skip("no overlay on this machine")
        as_user(who, lambda: test(Desk(place)))

    wrapped.__name__ = test.__name__
    wrapped.__doc__ = test.__doc__
    wrapped.__module__ = test.__module__
    return pytest.mark.usefixtures("who", "place")(wrapped)
