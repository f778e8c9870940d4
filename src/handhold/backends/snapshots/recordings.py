"""The recorders of a workspace, one for each root that is recorded."""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from os import fsdecode
from typing import TYPE_CHECKING

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.files.workspace import Workspace
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import NotRecorded
from handhold.core.ports.policy import Policy, Verb, Verdict
from handhold.core.text.path_escaping import escape_ambiguous

if TYPE_CHECKING:
    from handhold.backends.snapshots.copies import Copies
    from handhold.backends.snapshots.recorder import Recorder


class WorkspaceRecording:
    """Implements the port Recording. What the policy denies to commands is not copied."""

    def __init__(
        self,
        files: Workspace,
        store: SqliteStore,
        policy: Policy,
        recover: Callable[[], None],
        max_bytes: int | None = None,
    ) -> None:
        """`recover` undoes what dead processes left of their change sets; it needs the journal held exclusively."""
        self._files = files
        self._recover = recover
        self._max_bytes = max_bytes
        self._store = store
        self._policy = policy
        self._recorders: dict[str, Recorder] = {}  # by root

    def settle(self, paths: Collection[str]) -> None:
        for recorder in self._recorded():
            with translate_os_errors(recorder.root):
                recorder.settle(paths)

    def follow(self, paths: Collection[str]) -> Callable[[], Callable[[], None]]:
        steps: list[Callable[[], Callable[[], None]]] = []
        for recorder in self._recorded():
            with translate_os_errors(recorder.root):
                steps.append(recorder.follow(paths))

        def follow_all() -> Callable[[], None]:
            removals = [step() for step in steps]

            def remove_all() -> None:
                for remove in removals:
                    remove()

            return remove_all

        return follow_all

    def keep(self, paths: Collection[str]) -> None:
        for recorder in self._recorded():
            with translate_os_errors(recorder.root):
                recorder.follow(paths)()()
                recorder.copy_some()

    def recorder(self, root: Root) -> "Recorder":
        if (found := self._recorders.get(root.real)) is None:
            found = self._recorders[root.real] = self._open_recorder(root)
        return found

    def close(self) -> None:
        while self._recorders:
            self._recorders.popitem()[1].close()

    @property
    def is_on(self) -> bool:
        """Whether some root has a baseline."""
        return self._store.has_baseline()

    def _recorded(self) -> Iterator["Recorder"]:
        """The recorders of roots that have a baseline; nothing is imported if there is none."""
        if self.is_on:
            for root in self._files.open_roots:
                if root.writable and self._store.baseline(root.real).exists:
                    yield self.recorder(root)

    def _open_recorder(self, root: Root) -> "Recorder":
        from handhold.backends.snapshots.recorder import Recorder

        area = self._files.get_staging_area(root)
        if area is None:
            raise NotRecorded(root.real, "there is no place for copies on the same file system")
        with translate_os_errors(area.folder):
            copies = self._open_copies(root, area)
        return Recorder(root, area, self._store, copies, self._recover)

    def _open_copies(self, root: Root, area: StagingArea) -> "Copies":
        from handhold.backends.snapshots.copies import Copies

        denied = partial(self._is_denied, root)
        return Copies(area.folder, self._store.baseline(root.real), is_denied=denied, max_bytes=self._max_bytes)

    def _is_denied(self, root: Root, path: bytes) -> bool:
        place = root.prefix + escape_ambiguous(fsdecode(path))
        return self._policy.decide(Verb.READ, place).verdict is Verdict.DENY
