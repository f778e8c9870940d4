"""Who says what about the encodings of a workspace's files: its settings, and every .editorconfig above a file."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple

from handhold.core.facts import Declared
from handhold.core.text.declarations import EditorConfig, Settings, parsed, said

EDITORCONFIG = ".editorconfig"
MOST_CONFIG = 64 * 1024  # bytes of one; nobody writes more


class Kept(NamedTuple):
    """A configuration as it was read, and the state that the file was in."""

    state: Hashable
    config: EditorConfig


class Declarations:
    """A configuration is read again when its file is in another state; `state` is None where there is none."""

    def __init__(
        self, encodings: Mapping[str, str] | None, state: Callable[[str], Hashable | None], read: Callable[[str], bytes]
    ) -> None:
        self._settings = settings(encodings) if encodings else None
        self._state = state
        self._read = read
        self._kept: dict[str, Kept] = {}

    def of(self, root: str, way: str) -> Declared | None:
        """What is said about the file at `way` below a root, whose name ends with a slash. Nothing above it counts."""
        if self._settings and (declared := self._settings.of(way)):
            return declared
        configs = list(self._configs(root, way))
        if not configs:
            return None
        return said(configs)

    def _configs(self, root: str, way: str) -> Iterator[tuple[EditorConfig, str]]:
        """The nearest first, each with the way from its folder."""
        folder = way
        while folder:
            folder = folder.rpartition("/")[0]
            below = f"{folder}/" if folder else ""
            if config := self._config(f"{root}{below}{EDITORCONFIG}"):
                yield config, way.removeprefix(below)

    def _config(self, place: str) -> EditorConfig | None:
        state = self._state(place)
        if state is None:
            return None
        kept = self._kept.get(place)
        if kept is None or kept.state != state:
            self._kept[place] = kept = Kept(state, parsed(self._read(place)))
        return kept.config


def settings(encodings: Mapping[str, str]) -> Settings:
    return Settings(encodings)
