"""The files that an installation changes: what each becomes, and what it becomes again when it is removed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from handhold.backends.settings import client_config
from handhold.backends.settings.client_config import InstallRecord
from handhold.cli.config_steps import (
    Container,
    Item,
    Member,
    Step,
    WholeFile,
    apply_steps,
    decode_step,
    encode_step,
    remove_steps,
)
from handhold.cli.recording_hooks import is_our_hook
from handhold.core.errors import SettingsBroken
from handhold.core.text import jsonc, toml_table
from handhold.core.text.jsonc import TextEdit, revert_text_edits

T = TypeVar("T")
MIN_UNIQUE_CHARS = 8  # of a text that can be recognized


@dataclass(frozen=True)
class ConfigChange:
    """What a file is and will be; None if it does not exist. `record` is what will be known of it."""

    file: str
    before: str | None
    after: str | None
    record: InstallRecord | None = None
    created_folders: tuple[str, ...] = ()  # by an earlier installation

    @property
    def changes(self) -> bool:
        return self.before != self.after

    def carry_out(self, name: str) -> None:
        """Raises Stale if the file was changed meanwhile."""
        if self.after is None and self.before is not None:
            client_config.remove_file(self.file, self.before, self.created_folders)
        elif self.after is not None and self.changes:
            folders = client_config.replace_file(self.file, self.before, self.after)
            if self.record and not self.created_folders:
                return client_config.save_record(self.file, name, _with_folders(self.record, folders))
        return client_config.save_record(self.file, name, self.record)


def plan_installation(file: str, name: str, steps: Sequence[Step], *, follow_links: bool) -> ConfigChange:
    """Enter these steps. What an earlier installation entered goes first."""
    text = client_config.read_text(file, follow_links=follow_links)
    previous = client_config.load_record(file, name)
    was_created = previous.made if previous and text is not None else text is None
    folders = previous.folders if previous else ()

    def compute() -> tuple[str, InstallRecord | None]:
        base = _restore(text or "", previous, [each for each in steps if isinstance(each, Item)])
        after, layers, entered = apply_steps(base, steps)
        if not entered:
            return after, None
        kept = tuple(map(tuple, layers)), tuple(map(encode_step, entered))
        return after, InstallRecord(client_config.digest(after), *kept, was_created, folders)

    after, record = _catch_broken(file, compute)
    is_absent = was_created and _is_empty(after)
    return ConfigChange(file, text, None if is_absent else after, record, folders)


def plan_removal(file: str, name: str, steps: Sequence[Step], *, follow_links: bool) -> ConfigChange:
    """Remove what was entered. `steps` are what an installation enters by default, in case there is no record of it."""
    text = client_config.read_text(file, follow_links=follow_links)
    previous = client_config.load_record(file, name)
    if text is None:
        return ConfigChange(file, None, None)
    after = _catch_broken(file, lambda: _restore(text, previous, steps))
    is_unused = previous.made if previous else any(isinstance(step, WholeFile) for step in steps)
    return ConfigChange(
        file, text, None if is_unused and _is_empty(after) else after, None, previous.folders if previous else ()
    )


def list_entered_steps(file: str, name: str) -> list[Step | Container]:
    """What an earlier installation entered into a file."""
    record = client_config.load_record(file, name)
    return [decode_step(each) for each in record.entered] if record else []


def _restore(text: str, previous: InstallRecord | None, steps: Sequence[Step]) -> str:
    """The text without us: to the byte if nobody else has changed it, else without what we entered."""
    if previous and client_config.digest(text) == previous.after:
        for layer in reversed(previous.layers):
            text = revert_text_edits(text, layer)
        return text
    if previous:
        return _remove_entered(text, previous)
    return remove_steps(text, [found for step in steps for found in _find_ours(text, step)])


def _remove_entered(text: str, previous: InstallRecord) -> str:
    """For a file that somebody else has changed: each member or item is removed with the containers made for it. Where
    our text stands unchanged and cutting it out means the same, it is cut out, which leaves no blank behind."""
    layers = list(previous.layers)
    steps = [decode_step(each) for each in previous.entered]
    while steps:
        step, first = steps[-1], len(steps) - 1
        while first and isinstance(steps[first - 1], Container):
            first -= 1
        removed = remove_steps(text, steps[first:])
        del steps[first:]
        cut = _cut_out(text, layers.pop())
        text = cut if cut is not None and _is_without(cut, removed, step) else removed
    return text


def _cut_out(text: str, layer: Sequence[TextEdit]) -> str | None:
    for edit in layer:
        if len(edit.new) < MIN_UNIQUE_CHARS or text.count(edit.new) != 1:
            return None
        text = text.replace(edit.new, edit.old)
    return text


def _is_without(text: str, removed: str, step: Step | Container) -> bool:
    """Whether a text says the same as the one from which a step was removed. A member may have its former value."""
    if isinstance(step, WholeFile):
        return text == removed
    parse = toml_table.parse_toml if isinstance(step, Member) and step.is_toml else jsonc.parse_jsonc
    try:
        return parse(remove_steps(text, [step]) if isinstance(step, Member) else text) == parse(removed)
    except ValueError:
        return False


def _is_empty(text: str) -> bool:
    return text.strip() in ("", "{}")


def _find_ours(text: str, step: Step) -> list[Step | Container]:
    """What an installation without a record entered: hooks are recognized by their command."""
    if not isinstance(step, Item):
        return [step]
    found = jsonc.get_member(text, step.path)
    items = cast(list[Any], found) if isinstance(found, list) else []
    ours = [Item(step.path, item) for item in items if is_our_hook(item)]
    return [Container(step.path), *ours] if ours else []


def _with_folders(record: InstallRecord, folders: tuple[str, ...]) -> InstallRecord:
    return InstallRecord(record.after, record.layers, record.entered, record.made, folders)


def _catch_broken(file: str, compute: Callable[[], T]) -> T:
    try:
        return compute()
    except RecursionError:
        raise SettingsBroken(file, "it is nested too deeply") from None
    except ValueError as error:
        raise SettingsBroken(file, str(error)) from None
