"""Who says what about the encodings of a workspace's files: its settings, and every .editorconfig above a file."""

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
MAX_CONFIG_BYTES = 64 * 1024  # bytes of one; nobody writes more


class CachedConfig(NamedTuple):
    """A configuration as it was read, and the state that the file was in."""

    state: Hashable
    config: EditorConfig


class EncodingDeclarations:
    """A configuration is read again when its file is in another state; `state` is None where there is none."""

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
        """What is said about the file at `rel_path` below a root (it ends with a slash). Nothing above it counts."""
        if self._settings and (declared := self._settings.find_encoding(rel_path)):
            return declared
        configs = list(self._iter_configs(root, rel_path))
        if not configs:
            return None
        return find_declared_encoding(configs)

    def _iter_configs(self, root: str, rel_path: str) -> Iterator[tuple[EditorConfig, str]]:
        """The nearest first, each with the way from its folder."""
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
