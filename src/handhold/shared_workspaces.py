"""The workspaces that are open in this process: one for all toolboxes with the same roots, state and options.

What is large belongs to the workspace: descriptors, the database, indexes, compiled rules. A toolbox adds a session,
which is small. The last toolbox to close closes the workspace.
"""

import os
import time
from collections.abc import Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from os import fspath
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.workspace import Workspace
from handhold.backends.state.database import translate_state_errors
from handhold.backends.state.disk_share import DiskShare
from handhold.backends.state.sqlite import SqliteStore
from handhold.backends.state.stamps import is_due
from handhold.backends.state.state_folder import ensure_state_folder, state_folder_path
from handhold.config import ToolboxConfig
from handhold.core.errors import SystemFailure
from handhold.core.plans import Content, StagedContent, hash_or_none
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.ports.files import Files
from handhold.core.ports.policy import Policy
from handhold.pipeline.transactions import recover
from handhold.pipeline.workspace_policy import WorkspacePolicy

if TYPE_CHECKING:
    from handhold.backends.files.roots import FolderId
    from handhold.backends.settings import FileSettings
    from handhold.backends.uplink.uplink import Uplink


DAY_SECONDS = 86_400
UPLINK_LOCK_FILE = "uplink"  # in the state folder: held by the process that ships
MAX_EARLIER, MAX_EARLIER_BYTES = 20, 64 * 1024  # changes of a small file that are looked at, and their contents
RETENTION_STAMP = "retention"  # in the state folder: when contents were last dropped for their age


@dataclass(frozen=True)
class RootKey:
    given: str
    real: str
    id: "FolderId"
    writable: bool


@dataclass(frozen=True)
class WorkspaceKey:
    """What toolboxes must have in common to share a workspace. A folder that was replaced is another one."""

    roots: tuple[RootKey, ...]
    state: Path
    state_id: "FolderId"
    undo_bytes: int | None  # None: a share of the free disk
    undo_days: int | None  # None: for ever
    baseline_bytes: int | None  # None: as the baseline decides
    encodings: tuple[tuple[str, str], ...]
    hub: str | None


class SharedWorkspace:
    """An open workspace, its store, and the policies of its toolboxes."""

    def __init__(self, key: WorkspaceKey, config: ToolboxConfig) -> None:
        self.state = key.state
        self.baseline_bytes = key.baseline_bytes
        with ExitStack() as opened:  # closed again if a later step fails
            self.store = SqliteStore(key.state, bound=key.undo_bytes or DiskShare(key.state, config.root))
            opened.callback(self.store.close)
            self.files = Workspace(
                config.root, self.store, read_only=config.read_only, state=key.state, encodings=config.encodings
            )
            opened.callback(self.files.close)
            for root, wanted in zip(self.files.open_roots, key.roots, strict=True):
                if (root.real, root.id) != (wanted.real, wanted.id):
                    raise SystemFailure(root.given, "another folder was put there while it was opened")
            recover(self.files, self.store)
            if key.undo_days and is_due(str(key.state / RETENTION_STAMP), DAY_SECONDS):
                self.store.forget(before=time.time() - key.undo_days * DAY_SECONDS)
            self.uplink = self._make_uplink(key) if key.hub else None
            opened.pop_all()
        self._lock = Lock()
        self._policies: WeakValueDictionary[Hashable, WorkspacePolicy] = WeakValueDictionary()  # owned by sessions

    def apply_policy(self, policy: Policy) -> WorkspacePolicy:
        """The policy on this workspace: the same for sessions whose policies are equal, so rules are compiled once."""
        key: Hashable = (policy, policy.warnings) if isinstance(policy, RulePolicy) else id(policy)
        with self._lock:
            found = self._policies.get(key)
            if found is None:
                found = self._policies[key] = WorkspacePolicy(self.files, policy)
            if self.uplink:
                self._shipping.add(found)
                self.uplink.start()
            return found

    def _make_uplink(self, key: WorkspaceKey) -> "Uplink":
        """SettingsBroken if there is no token, or tools could read it. It ships once there is a policy."""
        from handhold.backends.uplink.hub_client import HubClient
        from handhold.backends.uplink.hub_token import HubToken
        from handhold.backends.uplink.uplink import Uplink
        from handhold.pipeline.shipping import ShippingPolicy

        token = HubToken()
        token.check_place([root.real for root in key.roots])
        self._shipping = ShippingPolicy()
        state = self.store.open_uplink(lambda: self.uplink and self.uplink.wake())
        client = HubClient(key.hub or "", token)
        return Uplink(state, client, str(key.state / UPLINK_LOCK_FILE), self._read_content, self._shipping)

    def read_earlier(self, path: str) -> Iterator[bytes]:
        """The contents that a small file had before its recorded changes, newest first; none from where something else
        changed it. Empty where there was no file."""
        from handhold.pipeline.change_contents import is_current

        expected: str | None = None
        is_first = True
        for entry in self.store.records.list_path_changes(path, limit=MAX_EARLIER).items:
            changes = [each for each in self.store.changes_of(entry.seq) if each.path == path and entry.succeeded]
            for change in reversed(changes):
                is_next = (
                    is_current(self.files, path, change.after) if is_first else hash_or_none(change.after) == expected
                )
                if not is_next:
                    return
                is_first, expected = False, hash_or_none(change.before)
                data = b"" if change.before is None else self._read_content(change.before, path)
                if data is not None and len(data) <= MAX_EARLIER_BYTES:
                    yield data

    def _read_content(self, content: Content, path: str) -> bytes | None:
        data = self.files.read_staged(content, path) if isinstance(content, StagedContent) else None
        return data if data is not None else self.store.get(content.hash)

    def close(self) -> None:
        if self.uplink:
            self.uplink.close()
        self.files.close()
        self.store.close()


@dataclass(eq=False)
class RegistryEntry:
    key: WorkspaceKey
    lock: Lock = field(default_factory=Lock)  # held while it is opened
    users: int = 0
    workspace: SharedWorkspace | None = None


class WorkspaceLease:
    """The right of one toolbox to a workspace, until it is released."""

    def __init__(self, registry: "WorkspaceRegistry", entry: RegistryEntry, workspace: SharedWorkspace) -> None:
        self.workspace = workspace
        self._registry = registry
        self._entry = entry

    def release(self) -> None:
        """Call it once."""
        self._registry.release(self._entry)


class WorkspaceRegistry:
    """Thread-safe. Workspaces are opened without blocking others."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._entries: dict[WorkspaceKey, RegistryEntry] = {}

    def acquire(self, config: ToolboxConfig) -> WorkspaceLease:
        key = make_key(config)
        while True:
            with self._lock:
                entry = self._entries.setdefault(key, RegistryEntry(key))
                entry.users += 1
            try:
                with entry.lock:
                    if entry.workspace is None:
                        entry.workspace = SharedWorkspace(key, config)
                    if entry.workspace.store.is_current():
                        return WorkspaceLease(self, entry, entry.workspace)
            except BaseException:
                self.release(entry)
                raise
            with self._lock:  # its database was removed: those who have it open keep it, others get a new one
                self._forget(entry)
            self.release(entry)

    def share(self, files: Files) -> WorkspaceLease | None:
        """Another lease on an open workspace; None if these files do not belong to one."""
        with self._lock:
            for entry in self._entries.values():
                if entry.workspace is not None and entry.workspace.files is files:
                    entry.users += 1
                    return WorkspaceLease(self, entry, entry.workspace)
        return None

    def release(self, entry: RegistryEntry) -> None:
        with self._lock:
            entry.users -= 1
            if entry.users:
                return
            self._forget(entry)
        if entry.workspace is not None:
            entry.workspace.close()

    def _forget(self, entry: RegistryEntry) -> None:
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]


workspaces = WorkspaceRegistry()
os.register_at_fork(after_in_child=workspaces.__init__)  # a child opens its own


def make_key(config: ToolboxConfig) -> WorkspaceKey:
    """Creates the state folder if it is missing. Raises ToolError if a root or the state folder cannot be used."""
    roots = [_make_root_key(root, writable=True) for root in config.root]
    roots += [_make_root_key(root, writable=False) for root in config.read_only]
    state = _open_state_folder(config.state, [fspath(root) for root in config.root])
    found = state.stat()
    limits = _read_limits(config)
    return WorkspaceKey(
        tuple(roots),
        state,
        (found.st_dev, found.st_ino),
        config.undo_bytes or limits.undo_bytes,
        limits.undo_days,
        limits.baseline_bytes,
        tuple((config.encodings or {}).items()),
        config.hub,
    )


def _make_root_key(root: str | os.PathLike[str], *, writable: bool) -> RootKey:
    given = os.path.abspath(root)
    with translate_os_errors(given):
        found = os.stat(given)
        return RootKey(given, os.path.realpath(given), (found.st_dev, found.st_ino), writable)


def _open_state_folder(state: str | os.PathLike[str] | None, roots: Sequence[str]) -> Path:
    given = Path(state) if state is not None else None
    with translate_state_errors(state_folder_path(given, roots)):
        return ensure_state_folder(given, roots)


def _read_limits(config: ToolboxConfig) -> "FileSettings":
    from handhold.backends.settings import read_user_limits

    return read_user_limits(False if config.custom_policy is not None else config.settings)
