"""What a fork that is kept after a merge starts from: its own versions of what was merged, until that is undone.

Otherwise the next merge would bring back what somebody reverted in the workspace since.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from handhold.backends.forks.ancestors import (
    Ancestor,
    load_ancestors,
    pack_ancestor,
    save_ancestors,
    unpack_ancestor,
    write_atomically,
)

Call = tuple[str, int]  # a call in the journal: its session and its number


class MergedAncestors:
    """The merges of a fork, oldest first, each with the ancestors that it replaced."""

    def __init__(self, file: Path, ancestors: Path) -> None:
        self._file = file
        self._ancestors = ancestors

    def record(self, merged: Mapping[str, Mapping[str, Ancestor]], call: Call | None) -> None:
        """Let the fork start from `merged`, by root and path. `call` is the merge; None if it changed nothing."""
        known = load_ancestors(self._ancestors)
        replaced: dict[str, dict[str, Any]] = {}
        for real in known.keys() & merged.keys():
            records = known[real].records
            changed = [rel for rel, ancestor in merged[real].items() if rel in records and records[rel] != ancestor]
            replaced[real] = {rel: pack_ancestor(records[rel]) for rel in changed}
            records |= {rel: merged[real][rel] for rel in changed}
        if call:
            self._save([*self._load(), (*call, replaced)])
        save_ancestors(self._ancestors, known)

    def restore_undone(self, is_undone: Callable[[Call], bool]) -> None:
        """Let the fork start again from what it did before each merge that was undone since."""
        merges = self._load()
        undone = [each for each in merges if is_undone((each[0], each[1]))]
        if not undone:
            return
        known = load_ancestors(self._ancestors)
        for _, _, replaced in reversed(undone):
            for real in known.keys() & replaced.keys():
                records = known[real].records
                records |= {rel: unpack_ancestor(each) for rel, each in replaced[real].items() if rel in records}
        save_ancestors(self._ancestors, known)
        self._save([each for each in merges if each not in undone])

    def _load(self) -> list[Any]:
        return json.loads(self._file.read_bytes()) if self._file.exists() else []

    def _save(self, merges: list[Any]) -> None:
        write_atomically(self._file, json.dumps(merges).encode())
