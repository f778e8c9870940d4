"""Settings from the user's file and each root's `handhold.toml`, and how much of them applies.

The user's file always applies. A project's file comes with the project, from whoever wrote it. What makes things
stricter in it (deny, ask, a narrower mode) always applies. What lifts the mode's question (allow) applies once a person
has reviewed the file (`handhold trust`), until it changes. A file that cannot be read or parsed is an error: without
it, its rules would silently be missing. To look at changes and to undo them, also the one that broke the file, what a
project's file denied before that applies.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, to_exhausted_error
from handhold.backends.settings.settings_file import (
    MAX_PROJECT_FILE_BYTES,
    FileSettings,
    parse_settings,
    read_regular_file,
)
from handhold.backends.state import trust
from handhold.backends.state.state_folder import FORK_STAGING_FOLDER, find_surrounding_fork
from handhold.core.choices import MODES, SETTINGS_FILE, Mode, Secrets
from handhold.core.errors import SettingsBroken
from handhold.core.policy.default_rules import BUILT_IN_RULES
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.path_patterns import escape_glob
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.policy.rules import PATH_VERBS, Rule, RuleSet
from handhold.core.ports.policy import Verb, Verdict
from handhold.core.text.display_text import to_single_line
from handhold.logs import log_swallowed, warn_once

FILE_NAME = SETTINGS_FILE
ReadEarlier = Callable[[str], Iterable[bytes]]  # the contents that a file had before, newest first
CONFIG_VARIABLE = "HANDHOLD_CONFIG"  # names a file to use instead of the user's; it must exist


@dataclass(frozen=True)
class CodeSettings:
    """Settings from code. `mode` is None to leave it to the user's file, and then to `default_mode`."""

    mode: Mode | None
    default_mode: Mode
    rules: tuple[Rule, ...] = ()
    secrets: Secrets | None = None  # None: as in the user's file, otherwise usable


def load_policy(
    roots: Sequence[str],
    code: CodeSettings,
    *,
    settings: bool | str | os.PathLike[str] = True,
    state: Path | None = None,
    read_earlier: ReadEarlier | None = None,
) -> RulePolicy:
    """The policy for these roots, which are real paths. Raise SettingsBroken if the user's or a root's file is invalid.

    `settings` names another file, which must exist, or False for none; `state` is a state folder in use. With
    `read_earlier`, a project's file that is invalid counts as it was before that.
    """
    file, user = _load_user_settings(settings)
    mode = code.mode or user.mode or code.default_mode
    secrets = code.secrets or user.secrets or "usable"
    rule_sets = [RuleSet("user", file, user.rules), RuleSet("code", "code", code.rules)]
    remarks: list[str] = []
    for root in roots if settings is not False else ():
        rule_set, project, warning = load_project_settings(root, read_earlier)
        rule_sets.append(rule_set)
        mode = narrow_mode(mode, project.mode)
        secrets = "strict" if project.secrets == "strict" else secrets
        remarks += [warning] if warning else []
    rule_sets = [rule_set for rule_set in rule_sets if rule_set.rules]
    return RulePolicy(
        ModePolicy(mode),
        (*rule_sets, *_protect_own_files(roots, file, state), BUILT_IN_RULES),
        tuple(roots),
        home=os.path.realpath(os.path.expanduser("~")),
        ignore_case=bool(rule_sets) and any(map(is_case_insensitive, roots)),
        secrets=secrets,
        user_file=file,
        warnings=tuple(remarks),
    )


def find_user_file() -> tuple[str, bool]:
    """Where the user's settings are, and whether they must exist."""
    if named := os.environ.get(CONFIG_VARIABLE):
        return os.path.abspath(named), True
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = home if os.path.isabs(home) else os.path.expanduser("~/.config")
    if not os.path.isabs(folder):  # no home: a file there would not be the user's
        return "", False
    return os.path.join(folder, "handhold", FILE_NAME), False


def _load_user_settings(settings: bool | str | os.PathLike[str]) -> tuple[str, FileSettings]:  # noqa: FBT001
    file, required = find_user_file() if isinstance(settings, bool) else (os.path.abspath(settings), True)
    if settings is False:
        return "", FileSettings()
    data = read_regular_file(file, follow_links=True) if file else None
    if data is None and required:
        raise SettingsBroken(file, "it is not there")
    return file, parse_settings(data, file) if data is not None else FileSettings()


def read_user_limits(settings: bool | str | os.PathLike[str] = True) -> FileSettings:  # noqa: FBT001
    """The user's own settings, for what they want to keep for undo, and how long. A project's file cannot set this."""
    return _load_user_settings(settings)[1]


# --- project settings


def load_project_settings(root: str, read_earlier: ReadEarlier | None = None) -> tuple[RuleSet, FileSettings, str]:
    """What applies of a root's own file: its rules, its other settings, and a warning if it is not trusted and some
    rules do not apply.

    Raise SettingsBroken if it cannot be read or parsed, trusted or not: it may contain rules that deny.
    """
    file = os.path.join(root, FILE_NAME)
    try:
        data = read_regular_file(file, follow_links=False, max_bytes=MAX_PROJECT_FILE_BYTES)
        if data is None:
            return RuleSet("project", file, (), root), FileSettings(), ""
        project = parse_settings(data, file, is_project=True)
    except SettingsBroken as broken:
        return _load_earlier(root, broken, read_earlier)
    trusted = trust.read_trusted_digest(root)
    if trusted == trust.digest(data):
        return RuleSet("project", file, project.rules, root), project, ""
    rule_set = _restrict_only(project, file, root)
    ignored = len(project.rules) - len(rule_set.rules)
    return rule_set, project, _format_warning(root, ignored, changed=trusted is not None) if ignored else ""


def _load_earlier(
    root: str, broken: SettingsBroken, read_earlier: ReadEarlier | None
) -> tuple[RuleSet, FileSettings, str]:
    """The same of the last version that was valid, without what it allowed."""
    for data in read_earlier(broken.path) if read_earlier else ():
        try:
            project = parse_settings(data, broken.path, is_project=True)
        except SettingsBroken:
            log_swallowed()
            continue
        text = f"{broken.path} cannot be used: {broken.because}. What it denied before it was changed applies."
        return _restrict_only(project, broken.path, root), project, to_single_line(text)
    raise broken


def _restrict_only(project: FileSettings, file: str, root: str) -> RuleSet:
    effective = tuple(rule for rule in project.rules if rule.verdict is not Verdict.ALLOW)
    return RuleSet("project", file, effective, root, trusted=False)


def _format_warning(root: str, ignored: int, *, changed: bool) -> str:
    """Quotes nothing of the file: this text reaches people, logs and models."""
    why = "has changed since it was trusted" if changed else "is not trusted"
    rules = "1 allow rule is" if ignored == 1 else f"{ignored} allow rules are"
    text = f"{os.path.join(root, FILE_NAME)} {why}: its {rules} ignored. Review it with `handhold trust {quote(root)}`."
    return to_single_line(text)


def find_warnings(roots: Sequence[str], settings: bool | str | os.PathLike[str] = True) -> tuple[str, ...]:  # noqa: FBT001
    """Warnings about the settings of these roots, without opening a toolbox. Invalid settings are a warning, too."""
    try:
        return load_policy(
            [os.path.realpath(root) for root in roots], CodeSettings(None, "edit"), settings=settings
        ).warnings
    except SettingsBroken as broken:
        text = f"{broken.path} cannot be used: {broken.because}. Nothing is opened until it is corrected or removed."
        return (to_single_line(text),)


def log_warning(warning: str) -> None:
    """Once per process: a server opens the same folder for every session. Without a handler it goes to stderr."""
    warn_once("settings", warning)


def narrow_mode(mode: Mode, other: Mode | None) -> Mode:
    return other if other is not None and MODES.index(other) < MODES.index(mode) else mode


# --- our own files


def _protect_own_files(roots: Sequence[str], file: str, state: Path | None) -> Iterator[RuleSet]:
    """Protect Handhold's own settings and state inside a root: no tool may grant itself permissions."""
    beside = os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file)) if file else ""
    written = {os.path.realpath(file), beside} if file else set[str]()
    kept = {os.path.realpath(place) for place in (trust.find_state_root(), state) if place is not None}
    if state is not None and find_surrounding_fork(state):
        kept |= {os.path.join(root, FORK_STAGING_FOLDER) for root in roots}
    changing = tuple(verb for verb in PATH_VERBS if verb is not Verb.READ)
    for name, verbs, places in (("Handhold's settings", changing, written), ("Handhold's state", PATH_VERBS, kept)):
        if inside := sorted(place for place in places if _is_inside_any(place, roots)):
            rule = Rule(
                name,
                Verdict.DENY,
                verbs,
                because="Handhold's tools may not access its own settings and state",
                paths=tuple(map(escape_glob, inside)),
                covers=tuple(inside),
                does_not_cover=("README.md",),
            )
            yield RuleSet("built in", "built in", (rule,))


def _is_inside_any(place: str, roots: Sequence[str]) -> bool:
    return any(place.startswith(root.rstrip("/") + "/") for root in roots)


def is_case_insensitive(root: str) -> bool:
    """Whether a root is case-insensitive, according to its first name that contains a letter."""
    try:
        with os.scandir(root) as entries:
            name = next((entry.name for entry in entries if entry.name.swapcase() != entry.name), None)
        return name is not None and os.path.samefile(os.path.join(root, name), os.path.join(root, name.swapcase()))
    except OSError as error:
        if error.errno in EXHAUSTED_ERRNOS:
            raise to_exhausted_error(error, root) from error
        log_swallowed()
        return False
