"""Forks of a workspace: copies made in milliseconds, for any program, to be merged or dropped. See `docs/forks.md`."""

import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import inf
from pathlib import Path
from shlex import join
from signal import Signals
from typing import Any
from weakref import WeakSet

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.workspace import Workspace
from handhold.backends.forks.ancestors import RootAncestors
from handhold.backends.forks.copies import measure_tree
from handhold.backends.forks.fork_changes import ForkContents, list_changes
from handhold.backends.forks.fork_folder import ForkFolder, ForkRun, open_base
from handhold.backends.forks.fork_mount import MountedFork, RunningProgram, Support, find_mount_support, mount_fork
from handhold.backends.forks.fork_store import FORK_NAME, ForkStore
from handhold.backends.forks.ignored_files import Capture, capture_in_base, find_git_folder, find_ignored
from handhold.backends.forks.root_merge import MergeReport, Take
from handhold.backends.forks.tool_process import Approve, ToolProcess
from handhold.backends.forks.tree_merge import Side
from handhold.backends.forks.workspace_merge import WorkspaceMerge
from handhold.backends.shell.overlay import WorkspaceOverlay, can_hold_layers, read_clock_ns
from handhold.backends.shell.preflight import find_mount_obstacle
from handhold.backends.shell.sandbox_layout import Mount, find_enclosing_repository
from handhold.backends.shell.worktrees import find_linked_repository
from handhold.backends.state.state_folder import ensure_private_folder, find_surrounding_fork
from handhold.core.change_diff import shorten_path
from handhold.core.errors import ForkUnavailable, MergeConflict
from handhold.core.facts import ExitStatus
from handhold.core.plans import FileChange, hash_or_none
from handhold.core.ports.shell import PathGuard
from handhold.core.requests import Run
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import suppress_and_log, warn_once
from handhold.pipeline.change_contents import ChangeContents
from handhold.pipeline.merge import MergeCommitter

RESERVED_NAMES = frozenset(("diff", "drop", "list", "merge", "new", "run", "start"))  # commands of `handhold fork`
MARKER = "fork-marker"  # in a staging area, to read the clock of its file system
NAME_RULE = (
    "a name begins with a letter or digit, has only letters, digits, '.', '_' and '-',"
    " could be a branch of git, and is not that of a command"
)


class Fork:
    """One fork of a workspace."""

    def __init__(self, forks: "Forks", folder: ForkFolder) -> None:
        self._forks = forks
        self.folder = folder
        self.name = folder.name

    @property
    def created(self) -> float:
        """When it was made, in seconds since 1970."""
        return self.folder.info.created

    @property
    def is_running(self) -> bool:
        """Whether a program runs in it now."""
        return self.folder.is_running

    @property
    def last_run(self) -> ForkRun | None:
        """The last command that ended in it, by `run` or `run_contained`."""
        return self.folder.last_run

    def run(
        self, command: Sequence[str], *, cwd: str = "", wait: Callable[[RunningProgram], int] = RunningProgram.wait
    ) -> int:
        """Run a program in the fork with the streams of this process; returns its exit status. Nothing is contained.

        cwd: where it starts; by default in the first root.
        wait: replaces waiting for the program, to pass on signals.
        """
        started = time.time()
        with self.start(command, cwd=cwd) as program:
            status = wait(program)
        return self._record_run(command, status, started)

    def run_contained(self, command: Sequence[str], *, cwd: str = "", network: bool = False) -> int:
        """`run` in the sandbox of commands: what rules hide is hidden, and nothing outside the fork can be changed."""
        started = time.time()
        status = self._forks.run_contained(self.folder, command, cwd, network=network)
        return self._record_run(command, status, started)

    def _record_run(self, command: Sequence[str], status: int, started: float) -> int:
        ended = time.time()
        self.folder.save_run(ForkRun(tuple(command), status, ended, max(0.0, ended - started)))
        return status

    @contextmanager
    def start(self, command: Sequence[str], *, cwd: str = "") -> Generator[RunningProgram]:
        """`run` for a program that works while this block does other things; leaving it waits for its end."""
        with self._forks.start(self.folder, command, cwd) as program:
            yield program

    def open_tools(self, approve: Approve) -> ToolProcess:
        """A process in the fork with a toolbox that is configured as this one. It is started with its first use."""
        return self._forks.open_tools(self, approve)

    def diff(self) -> str:
        """What the fork changed, as a diff."""
        return self.inspect().diff

    def inspect(self) -> ForkContents:
        """What the fork changed, and a digest to `merge` only that."""
        return self._forks.inspect(self.folder)

    @property
    def roots(self) -> tuple[str, ...]:
        """Where programs in the fork see the roots: at their own paths, if anything can be mounted here."""
        return self._forks.find_roots(self.folder)

    @property
    def path(self) -> str:
        """Where everything that belongs to it is kept."""
        return str(self.folder.folder)

    def merge(
        self, *, take: Take | Side = "", include_ignored: bool = False, expected_digest: str | None = None
    ) -> MergeReport:
        """Merge into the workspace, as one change set that `undo` takes back.

        take: which side wins where both changed a path: "fork" or "base", for all conflicts or by path, which is
            relative to the first root or absolute.
        include_ignored: also merge files that git ignores.
        expected_digest: that of `inspect`; ForkUnavailable if the fork changed since.

        Raises MergeConflict if both changed a path and no side was chosen; then nothing is written. Raises Denied or
        NotApproved if the policy does not allow a change.
        """
        taken: Take = {"": take} if isinstance(take, str) else take
        return self._forks.merge(self.folder, taken, include_ignored, expected_digest)

    def drop(self) -> None:
        """Remove the fork and everything in it. Raises ForkUnavailable if a program runs in it."""
        self._forks.store.drop(self.folder)


class Forks:
    """The forks of a workspace that is open."""

    def __init__(
        self,
        files: Workspace,
        state: Path,
        guard: PathGuard,
        contents: ChangeContents,
        committer: MergeCommitter,
        run_on_layers: Callable[[Run, Sequence[Mount], Sequence[int]], ExitStatus],
        options: Mapping[str, Any],
    ) -> None:
        """`run_on_layers` runs a sandboxed command; `options` are the keywords for toolboxes in a fork."""
        self._files = files
        self._state = state
        self._guard = guard
        self._contents = contents
        self._committer = committer
        self._run_on_layers = run_on_layers
        self._options = options
        self._processes: WeakSet[ToolProcess] = WeakSet()
        self.store = ForkStore(state)

    def __iter__(self) -> Iterator[Fork]:
        return (Fork(self, folder) for folder in self.store)

    def __contains__(self, name: str) -> bool:
        return any(fork.name == name for fork in self)

    def get(self, name: str) -> Fork:
        """ForkUnavailable if there is none of that name."""
        return Fork(self, self.store.get(name))

    def create(self, name: str) -> Fork:
        """A new fork. ForkUnavailable if there is one of that name, or if there can be none here."""
        if not FORK_NAME.fullmatch(name) or name in RESERVED_NAMES:
            raise ForkUnavailable(name, NAME_RULE)
        self._check_support(name)
        with ExitStack() as opened:
            folders = list(self._writable_roots)
            for real in self._find_outside_repositories():
                repository = Root.open(real, writable=True)
                opened.callback(repository.close)
                folders.append(repository)
            for folder in folders:
                if obstacle := find_mount_obstacle(folder.real):
                    raise ForkUnavailable(name, f"{folder.real} cannot be overlaid: {obstacle}")
            support = find_mount_support(str(self._state))
            if support == "overlay" and can_hold_layers(str(self._state)):
                return Fork(self, self.store.create(name, folders))
            return self._create_copy(name, folders, support)

    def _create_copy(self, name: str, folders: Sequence[Root], support: Support) -> Fork:
        """A fork where there can be no overlay. Its size is said first."""
        if not support and len(folders) > len(self._writable_roots):
            because = f"its repository is outside the workspace, at {folders[-1].real}, and nothing can be mounted here"
            raise ForkUnavailable(name, because)
        sizes = [measure_tree(folder.real) for folder in folders]
        count, size = (sum(each) for each in zip(*sizes, strict=True))
        place = (
            "at its own path" if support else f"at {self.store.folder / name / 'layers'}: nothing can be mounted here"
        )
        warn_once(
            "forks", f"There can be no overlay here, so {name} is a copy of {count:,} files, {size:,} bytes, {place}."
        )
        started_ns = read_clock_ns(self._find_marker(name, folders[0]))
        return Fork(self, self.store.create(name, folders, started_ns))

    def _check_support(self, name: str) -> None:
        if surrounding := find_surrounding_fork(self._state):
            raise ForkUnavailable(name, f"this is the fork {surrounding}, and forks have no forks")
        roots = self._writable_roots
        if not roots:
            raise ForkUnavailable(name, "every root is read-only")
        for root in roots:
            if str(self._state).startswith(root.prefix):
                raise ForkUnavailable(name, f"the state folder is in the workspace, at {self._state}")
            self._find_marker(name, root)

    def _find_marker(self, name: str, root: Root) -> str:
        area = self._files.get_staging_area(root)
        if area is None:
            raise ForkUnavailable(name, f"there is no place on the file system of {root.real} for what is merged")
        return os.path.join(area.folder, MARKER)

    @property
    def _writable_roots(self) -> list[Root]:
        return [root for root in {root.real: root for root in self._files.open_roots}.values() if root.writable]

    def _find_outside_repositories(self) -> list[str]:
        """Git directories of the roots that are in no root: a program in the fork must not commit there."""
        reals = [root.real for root in self._writable_roots]
        found = (find_linked_repository(real) or find_enclosing_repository(real) for real in reals)
        return [each for each in dict.fromkeys(found) if each and not any(_is_inside(each, real) for real in reals)]

    # --- running and looking

    def find_roots(self, folder: ForkFolder) -> tuple[str, ...]:
        mounted = MountedFork(folder, self._state, -1)
        return tuple(mounted.find_path(root.real) for root in self._writable_roots)

    @contextmanager
    def start(self, folder: ForkFolder, command: Sequence[str], cwd: str) -> Generator[RunningProgram]:
        first = self._writable_roots[0]
        with (
            mount_fork(folder, self._state, self._find_marker(folder.name, first)) as mounted,
            mounted.start(command, cwd or first.real) as program,
        ):
            yield program

    @contextmanager
    def start_own(
        self, folder: ForkFolder, command: Sequence[str], pass_fds: Sequence[int]
    ) -> Generator[RunningProgram]:
        """Start a program of ours in the fork."""
        with (
            mount_fork(folder, self._state, self._find_marker(folder.name, self._writable_roots[0])) as mounted,
            mounted.start_own(command, pass_fds) as program,
        ):
            yield program

    def run_contained(self, folder: ForkFolder, command: Sequence[str], cwd: str, *, network: bool) -> int:
        first = self._writable_roots[0]
        if folder.info.is_copy:
            raise ForkUnavailable(folder.name, "a program in a copy cannot be contained: that needs an overlay")
        with mount_fork(folder, self._state, self._find_marker(folder.name, first)) as mounted:
            mounts = [
                Mount(real, "overlay", folder.upper(n), folder.work(n)) for n, real in enumerate(folder.info.roots)
            ]
            run = Run(join(command), inf, 0, folder=cwd or first.real, network=network, streams=(0, 1, 2))
            ended = self._run_on_layers(run, mounts, (mounted.lock,))
        return -Signals[ended.signal] if ended.signal else ended.code or 0

    def open_tools(self, fork: Fork, approve: Approve) -> ToolProcess:
        def start(command: Sequence[str], pass_fds: Sequence[int]) -> AbstractContextManager[RunningProgram]:
            return self.start_own(fork.folder, command, pass_fds)

        options = {**self._options}
        if not MountedFork(fork.folder, self._state, -1).is_mounted:  # then it is another workspace
            options |= {"root": fork.roots, "state": str(fork.folder.inner_state)}
        process = ToolProcess(fork.name, start, options, approve)
        self._processes.add(process)
        return process

    def close(self) -> None:
        """End the tools of all forks."""
        for process in list(self._processes):
            process.close()

    def inspect(self, folder: ForkFolder) -> ForkContents:
        """What git ignores is left out of the diff, if that is known."""
        try:
            with folder.locked(wait_seconds=0) as lock:
                known = self._record_ancestors(folder)
                return self._inspect(folder, known, MountedFork(folder, self._state, lock).capture)
        except ForkUnavailable:
            if not folder.is_running:
                raise
            return self._inspect(folder, folder.record_ancestors(save=False), capture_in_base)

    def _record_ancestors(self, folder: ForkFolder) -> Mapping[str, RootAncestors]:
        folder.merged_ancestors.restore_undone(self._committer.is_undone)
        return folder.record_ancestors()

    def _inspect(self, folder: ForkFolder, ancestors: Mapping[str, RootAncestors], capture: Capture) -> ForkContents:
        changes: list[FileChange] = []
        notes: list[str] = []
        hashes: dict[str, str] = {}
        digest = folder.compute_digest()
        for n, real in enumerate(folder.info.roots):
            if real not in self._real_roots:
                continue
            known = ancestors.get(real, RootAncestors())
            with folder.open_layer(n) as layer, open_base(real) as base, translate_os_errors(real):
                items = folder.list_items(n, layer)
                paths = {rel for rel in (*known.records, *(item.rel for item in items)) if not find_git_folder(rel)}
                with suppress_and_log(ForkUnavailable):  # then everything is shown
                    paths -= find_ignored(folder.name, real, sorted(paths), layer, base, capture)
                for each in list_changes(paths, items, layer, base, known, folder.texts):
                    path = escape_ambiguous(os.path.join(real, each.rel))
                    if each.before != each.after:
                        changes.append(FileChange(path, each.before, each.after, each.new_mode))
                    if each.old_mode is not None and each.new_mode not in (None, each.old_mode):
                        shown = shorten_path(path, self._files.roots)
                        notes.append(f"[{shown}: mode {each.old_mode:o} -> {each.new_mode:o}]\n")
                        hashes[shown] = f"mode {each.new_mode:o}"
        visible = self._contents.list_visible(sorted(changes, key=lambda change: change.path))
        for change in visible:
            shown = shorten_path(change.path, self._files.roots)
            hashes[shown] = f"{hash_or_none(change.after)} {hashes.get(shown, change.mode)}"
        return ForkContents(self._contents.diff(visible) + "".join(notes), hashes, digest)

    @property
    def _real_roots(self) -> set[str]:
        return {root.real for root in self._writable_roots}

    # --- merging

    def merge(
        self,
        folder: ForkFolder,
        take: Take,
        include_ignored: bool,  # noqa: FBT001
        expected_digest: str | None,
    ) -> MergeReport:
        with folder.locked() as lock, ExitStack() as opened:
            known = self._record_ancestors(folder)
            if expected_digest not in (None, folder.compute_digest()):
                raise ForkUnavailable(folder.name, "it changed since it was shown")
            roots = [root for root in self._writable_roots if root.real in folder.info.roots]
            if missing := {*folder.info.roots} & {*self._real_roots} ^ self._real_roots:
                raise ForkUnavailable(folder.name, f"it was not made of {', '.join(sorted(missing))}")
            scratch = ensure_private_folder(self._state / "results")
            overlay = WorkspaceOverlay.create(roots, self._files.get_staging_area, scratch=scratch, checked=True)
            opened.callback(overlay.discard)
            merge = WorkspaceMerge(MountedFork(folder, self._state, lock), [root.real for root in roots], known, take)
            merge.fill({mount.real: mount.upper for mount in overlay.mounts}, include_ignored=include_ignored)
            with self._guard.judging():
                effects = overlay.collect_effects(self._guard.needs_review, self._guard.is_masked)
            if effects.conflicts:
                paths = tuple(conflict.path for conflict in effects.conflicts)
                raise MergeConflict(folder.name, paths, ("changed in the workspace just now",) * len(paths))
            report = merge.report
            report.paths = [change.path for change in effects.files]
            report.notes += effects.notes
            call = None
            if effects.files:
                arguments = {"fork": folder.name, "take": dict(take), "include_ignored": include_ignored}
                call = self._committer.commit(arguments, effects, merge.add_objects)
            if report.ignored or report.notes:
                merge.record(call)
            else:
                self.store.remove(folder)
                report.dropped = True
        return report


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
