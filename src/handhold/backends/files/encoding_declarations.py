"""Declared encodings of a workspace's files: from its settings, and from every .editorconfig above a file."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple

from handhold.core.facts import DeclaredEncoding
from handhold.core.text.declared_encoding import (
    EditorConfig,
    EncodingSettings,
    find_declared_encoding,
    parse_editorconfig,
)

EDITORCONFIG = ".editorconfig"
MAX_CONFIG_BYTES = 64 * 1024  # a longer file is not a real configuration


class CachedConfig(NamedTuple):
    """A parsed configuration, and the identity of the file it was read from."""

    state: Hashable
    config: EditorConfig


class EncodingDeclarations:
    """Configurations are read again when their file changes; `state` is None for a missing file."""

    def __init__(
        self,
        encodings: Mapping[str, str] | None,
        get_state: Callable[[str], Hashable | None],
        read: Callable[[str], bytes],
    ) -> None:
        self._settings = make_settings(encodings) if encodings else None
        self._get_state = get_state
        self._read = read
        self._cache: dict[str, CachedConfig] = {}

    def find(self, root: str, rel_path: str) -> DeclaredEncoding | None:
        """The encoding declared for `rel_path` below `root`, which ends with a slash. Nothing above it applies."""
        if self._settings and (declared := self._settings.find_encoding(rel_path)):
            return declared
        configs = list(self._iter_configs(root, rel_path))
        if not configs:
            return None
        return find_declared_encoding(configs)

    def _iter_configs(self, root: str, rel_path: str) -> Iterator[tuple[EditorConfig, str]]:
        """Configurations, nearest first, each with the file's path relative to its folder."""
        folder = rel_path
        while folder:
            folder = folder.rpartition("/")[0]
            below = f"{folder}/" if folder else ""
            if config := self._load_config(f"{root}{below}{EDITORCONFIG}"):
                yield config, rel_path.removeprefix(below)

    def _load_config(self, place: str) -> EditorConfig | None:
        state = self._get_state(place)
        if state is None:
            return None
        cached = self._cache.get(place)
        if cached is None or cached.state != state:
            self._cache[place] = cached = CachedConfig(state, parse_editorconfig(self._read(place)))
        return cached.config


def make_settings(encodings: Mapping[str, str]) -> EncodingSettings:
    return EncodingSettings(encodings)
