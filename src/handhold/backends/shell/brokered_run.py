"""A command that the broker holds: it changes the workspace itself, and is rolled back before its changes count.

Implements what `WorkspaceOverlay` does where there is no overlay. Each writable root gets a folder in its staging area
for what the command displaces. Only one brokered command works on a root at a time, since the next would see what is
about to be rolled back.
"""

import fcntl
import os
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from handhold.backends.files.commit.recovery import RollbackOutcome, recover_command, roll_back
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import UNDO_LOG, StagingArea, remove_tree
from handhold.backends.files.undo_log import OTHER_ROOT_PREFIX, REMOVED_FOLDER, SAVED_FOLDER, UndoRecord, read_undo_log
from handhold.backends.shell.brokered_changes import BrokeredChanges
from handhold.backends.shell.layer_extraction import LayerExtractor
from handhold.backends.shell.overlay import OverlayUnavailable
from handhold.backends.shell.preflight import find_mount_below
from handhold.backends.shell.root_effects import join_effects, set_aside
from handhold.backends.shell.sandbox_layout import Mount
from handhold.backends.shell.shared_inodes import find_shared_inodes
from handhold.core.errors import NoShell, NoSpace, SystemFailure
from handhold.core.plans import Conflict, Effects, FileChange
from handhold.core.text.path_escaping import escape_ambiguous

TURN_TIMEOUT_SECONDS = 600.0  # for another brokered command on the same root to end
TURN_POLL_SECONDS = 0.01
KEPT_LOG = "kept.log"  # instead of the undo log, for a command whose changes stay


@dataclass(frozen=True)
class BrokeredRoot:
    """A writable root, and the folder of this command in its staging area."""

    root: Root
    staging_area: StagingArea
    command: str

    @property
    def folder(self) -> Path:
        return Path(self.staging_area.path(self.command))


class BrokeredRun:
    """The roots of one brokered command. Its creator must discard it, or release it if its changes stay."""

    def __init__(
        self,
        roots: Sequence[BrokeredRoot],
        others: Sequence[Root],
        scratch: Path,
        turns: ExitStack,
        is_alone: Callable[[], bool],
        log_name: str = UNDO_LOG,
    ) -> None:
        self._roots = roots
        self._scratch = scratch
        self._turns = turns
        self._is_alone = is_alone
        self._log = roots[0].folder / log_name if roots else None
        log = str(self._log or "")
        mounts = [Mount(each.root.real, "brokered", str(each.folder / SAVED_FOLDER), log) for each in roots]
        mounts += [Mount(root.real, "read-only") for root in others]
        self.mounts = tuple(sorted(mounts, key=lambda mount: mount.real))

    @classmethod
    def create(
        cls,
        roots: Sequence[Root],
        get_staging_area: Callable[[Root], StagingArea | None],
        *,
        scratch: Path,
        is_alone: Callable[[], bool] = lambda: True,
        keeps_changes: bool = False,
    ) -> "BrokeredRun":
        """Prepare all writable roots, or raise OverlayUnavailable.

        With `keeps_changes`, nothing is rolled back, not even after a kill. Otherwise waits for the commands that are.
        `is_alone` is asked when the command has ended: whether no other one could have a descriptor of what it wrote.
        """
        by_path = {root.real: root for root in roots}
        writable = [root for root in by_path.values() if root.writable]
        others = [root for root in by_path.values() if not root.writable]
        with ExitStack() as turns:
            prepared: list[BrokeredRoot] = []
            try:
                for root in sorted(
                    writable, key=lambda each: each.real
                ):  # in one order, so that nobody waits in a ring
                    if reason := find_broker_obstacle(root, get_staging_area):
                        raise OverlayUnavailable(reason)
                    area = get_staging_area(root)
                    assert area is not None
                    if not keeps_changes:
                        _wait_for_turn(root, area, turns)
                    area.recover_interrupted(recover_command)  # or refuse: another would make it worse
                    prepared.append(_prepare_root(root, area, () if keeps_changes else prepared))
            except BaseException:
                for each in prepared:
                    each.staging_area.drop(each.command)
                raise
            return cls(prepared, others, scratch, turns.pop_all(), is_alone, KEPT_LOG if keeps_changes else UNDO_LOG)

    def collect_effects(
        self, is_protected: Callable[[str], bool], is_withheld: Callable[[str], bool] = lambda _place: False
    ) -> Effects:
        """Roll the workspace back. What the command left is then in slots, and its effects are as on an overlay."""
        if self._log is None:
            return Effects()
        with ExitStack() as stack, translate_os_errors(str(self._log)):
            records = self._read_log()
            shared = find_shared_inodes(records, self._list_records_of_jobs())
            is_alone = self._is_alone()
            if all(record.kind != "started" for record in records):
                raise NoShell("the broker did not start the command")
            collected: list[BrokeredChanges] = []
            for each in self._roots:
                folder = each.staging_area.open_folder(each.command)
                stack.callback(os.close, folder)
                extractor = LayerExtractor(folder, each.command, self._scratch / "conflicts")
                changes = BrokeredChanges(
                    each.root.real,
                    records,
                    extractor,
                    folder,
                    is_protected=is_protected,
                    is_withheld=is_withheld,
                    shared=shared,
                    is_alone=is_alone,
                )
                changes.extract()
                collected.append(changes)
            outcome = self._roll_back(shared)
            if outcome and outcome.dropped_slots:
                raise NoSpace(self._roots[0].root.real, "the command filled the disk, so its changes were discarded")
            for changes in collected:
                changes.conclude(outcome.conflicts if outcome else ())
        notes = [*_explain_refusals(records), *(note for each in collected for note in each.explain_shared())]
        notes += _explain_denied(outcome.denied if outcome else ())
        denied = dict.fromkeys(escape_ambiguous(record.first) for record in records if record.kind == "denied")
        return join_effects(collected, notes, list(denied))

    def recall(self) -> None:
        """Before the effects of a command are collected whose changes stayed: wait for others, and be rolled back if
        Handhold is killed from now on."""
        if self._log is None:
            return
        for each in self._roots:
            _wait_for_turn(each.root, each.staging_area, self._turns)
        log = self._roots[0].folder / UNDO_LOG
        with translate_os_errors(str(log)):
            for each in self._roots[1:]:
                _link_folders(self._roots[0], each)
            self._log = self._log.rename(log)

    def _list_records_of_jobs(self) -> list[UndoRecord]:
        """What the background commands that work on one of the roots have changed so far."""
        logs = {log for each in self._roots for log in Path(each.staging_area.folder).glob(f"*/{KEPT_LOG}")}
        records: list[UndoRecord] = []
        for log in logs - {self._log}:
            with suppress(FileNotFoundError):  # it has just ended
                records += read_undo_log(log)
        return records

    def _read_log(self) -> list[UndoRecord]:
        assert self._log is not None
        try:
            return read_undo_log(self._log)
        except FileNotFoundError:
            return []

    def _roll_back(self, shared: Collection[tuple[int, int]] = ()) -> RollbackOutcome | None:
        """Restore the workspace, remove the log, and let the next command have its turn.

        Raise NotRestored if something could not be restored. The log is removed all the same: its old content is kept,
        so nothing is left that a second attempt would do better.
        """
        with self._turns:
            if self._log is None or not self._log.exists():
                return None
            outcome = roll_back(self._log, shared, is_alone=self._is_alone())
            for each in self._roots:
                (each.folder / UNDO_LOG).unlink(missing_ok=True)
                folder = each.staging_area.open_folder(each.command)
                try:
                    for name in (SAVED_FOLDER, REMOVED_FOLDER):
                        with suppress(FileNotFoundError):
                            remove_tree(name, folder)
                finally:
                    os.close(folder)
        if outcome.error:
            raise outcome.error
        return outcome

    def set_aside(self, change: FileChange) -> Conflict:
        return set_aside(change, self._roots, self._scratch)

    def release(self) -> None:
        """The changes stay, unless they were recalled; only what was needed to undo them is discarded."""
        if self._log and self._log.name == UNDO_LOG:
            self.discard()
        for each in self._roots:
            each.staging_area.drop(each.command)

    def discard(self) -> None:
        """Roll back what is not rolled back yet, and discard the slots that no commit took over. Idempotent."""
        try:
            with translate_os_errors("the shell"):
                self._roll_back()
        finally:
            for each in self._roots:
                if self._log and self._log.exists():
                    each.staging_area.abandon(each.command)
                else:
                    each.staging_area.drop(each.command)


def find_broker_obstacle(root: Root, get_staging_area: Callable[[Root], StagingArea | None] | None) -> str:
    """Why commands on this root cannot be brokered; empty if they can."""
    if root.real == "/":
        return "the workspace is the root of the file system"
    if get_staging_area and get_staging_area(root) is None:
        return f"there is no space for what a command displaces on the file system of {root.real}"
    if (mount := find_mount_below(root.real)) is not None:
        return f"{mount} is a mount point"
    return ""


def _prepare_root(root: Root, area: StagingArea, earlier: Sequence[BrokeredRoot]) -> BrokeredRoot:
    with translate_os_errors(root.real):
        found = os.stat(root.real)
        if (found.st_dev, found.st_ino) != root.id:
            raise SystemFailure(root.real, "another folder is there now")
        command = area.create_folder()
        prepared = BrokeredRoot(root, area, command)
        try:
            (prepared.folder / SAVED_FOLDER).mkdir(mode=0o700)
            if earlier:
                _link_folders(earlier[0], prepared)
        except BaseException:
            area.drop(command)
            raise
        return prepared


def _link_folders(first: BrokeredRoot, other: BrokeredRoot) -> None:
    """Whoever finds one of them after a kill finds the log, and from there all folders."""
    (first.folder / f"{OTHER_ROOT_PREFIX}{other.command}").symlink_to(other.folder)
    (other.folder / UNDO_LOG).symlink_to(first.folder / UNDO_LOG)


def _wait_for_turn(root: Root, area: StagingArea, turns: ExitStack) -> None:
    name = sha256(os.fsencode(root.real)).hexdigest()[:16]
    with translate_os_errors(area.folder):
        fd = os.open(f"{area.folder}.turn-{name}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        turns.callback(os.close, fd)
        until = time.monotonic() + TURN_TIMEOUT_SECONDS
        while True:
            try:
                return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise NoShell(f"another command is still changing {root.real}") from None
            time.sleep(TURN_POLL_SECONDS)


def _explain_refusals(records: Sequence[UndoRecord]) -> list[str]:
    """What the command was not allowed to change because it could not have been undone."""
    refused = {record.first: record.second for record in records if record.kind == "refused"}
    return [f"{path} was not changed, because it could not be saved: {why}" for path, why in list(refused.items())[:5]]


def _explain_denied(paths: Sequence[str]) -> list[str]:
    listed = ", ".join(map(escape_ambiguous, paths[:5]))
    return [f"{listed}: belongs to another user, so its time, mode or owner could not be restored"] if paths else []
