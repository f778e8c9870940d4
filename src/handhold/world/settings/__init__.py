"""Settings: what the user's file and each root's `handhold.toml` say, and how much of it counts.

The user's file counts always, and one that cannot be read is an error: nobody works without the rules they wrote. A
project's file comes with the project, from whoever wrote that. It counts once a person has looked at it (`handhold
trust`), for as long as it stays the same, and then it can only make things stricter or spare the mode's question.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from handhold.core.choices import MODES, Mode
from handhold.core.errors import SettingsBroken
from handhold.core.policy.defaults import BUILT_IN
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.places import literal
from handhold.core.policy.rules import ON_PATHS, Book, Rule, RulePolicy
from handhold.core.ports import Verb, Verdict
from handhold.world.settings.reading import Said, read, said_in
from handhold.world.state import trust

NAME = "handhold.toml"
VARIABLE = "HANDHOLD_CONFIG"  # names another file than the user's own; it must be there


@dataclass(frozen=True)
class Wanted:
    """What the code says. `mode` is None where it leaves that to the user's file, and to `otherwise`."""

    mode: Mode | None
    otherwise: Mode
    rules: tuple[Rule, ...] = ()


def load(
    roots: Sequence[str],
    wanted: Wanted,
    *,
    settings: bool | str | os.PathLike[str] = True,
    state: Path | None = None,
) -> RulePolicy:
    """The policy of these roots, which are spelled really. SettingsBroken if the user's file is.

    `settings` names another file, which must be there, or tells to read none; `state` is a state folder in use.
    """
    file, said = _users(settings)
    mode = wanted.mode or said.mode or wanted.otherwise
    books = [Book("user", file, said.rules), Book("code", "code", wanted.rules)]
    remarks: list[str] = []
    for root in roots if settings is not False else ():
        said, remark = of_project(root)
        books.append(Book("project", os.path.join(root, NAME), said.rules, root))
        mode = narrower(mode, said.mode)
        remarks += [remark] if remark else []
    books = [book for book in books if book.rules]
    return RulePolicy(
        ModePolicy(mode),
        (*books, *_ours(roots, file, state), BUILT_IN),
        tuple(roots),
        home=os.path.realpath(os.path.expanduser("~")),
        folds=bool(books) and any(map(folds_case, roots)),
        user_file=file,
        remarks=tuple(remarks),
    )


def user_file() -> tuple[str, bool]:
    """Where the user's settings are, and whether they must be."""
    if named := os.environ.get(VARIABLE):
        return os.path.abspath(named), True
    home = os.environ.get("XDG_CONFIG_HOME", "")
    folder = home if os.path.isabs(home) else os.path.expanduser("~/.config")
    if not os.path.isabs(folder):  # nobody's home: whatever stands there is not the user's
        return "", False
    return os.path.join(folder, "handhold", NAME), False


def _users(settings: bool | str | os.PathLike[str]) -> tuple[str, Said]:  # noqa: FBT001
    file, required = user_file() if isinstance(settings, bool) else (os.path.abspath(settings), True)
    if settings is False:
        return "", Said()
    data = read(file, follow=True) if file else None
    if data is None and required:
        raise SettingsBroken(file, "it is not there")
    return file, said_in(data, file) if data is not None else Said()


# --- what a project says


def of_project(root: str) -> tuple[Said, str]:
    """What counts of a root's own file, and what there is to say if none of it does."""
    file = os.path.join(root, NAME)
    if not os.path.lexists(file):
        return Said(), ""
    looked_at = trust.recorded(root)
    if looked_at is None:
        return Said(), f"{NAME} is there and not trusted, so nothing in it counts; see `handhold trust`"
    try:
        data = read(file, follow=False)
    except SettingsBroken as broken:
        return Said(), f"{NAME} does not count: {broken.because}"
    if data is None or trust.digest(data) != looked_at:
        return Said(), f"{NAME} has changed since it was trusted, so nothing in it counts; see `handhold trust`"
    return said_in(data, file, of_project=True), ""  # somebody relies on it: broken, it is an error


def narrower(mode: Mode, other: Mode | None) -> Mode:
    return other if other is not None and MODES.index(other) < MODES.index(mode) else mode


# --- our own files


def _ours(roots: Sequence[str], file: str, state: Path | None) -> Iterator[Book]:
    """What Handhold itself obeys or remembers, where it lies in a root: no tool writes its own permission."""
    beside = os.path.join(os.path.realpath(os.path.dirname(file)), os.path.basename(file)) if file else ""
    written = {os.path.realpath(file), beside} if file else set[str]()
    kept = {os.path.realpath(place) for place in (trust.folder(), state) if place is not None}
    changing = tuple(verb for verb in ON_PATHS if verb is not Verb.READ)
    for name, verbs, places in (("Handhold's settings", changing, written), ("Handhold's state", ON_PATHS, kept)):
        if inside := sorted(place for place in places if _in_one(place, roots)):
            rule = Rule(
                name,
                Verdict.DENY,
                verbs,
                because="what Handhold goes by is not for its own tools",
                paths=tuple(map(literal, inside)),
                covers=tuple(inside),
                spares=("README.md",),
            )
            yield Book("built in", "built in", (rule,))


def _in_one(place: str, roots: Sequence[str]) -> bool:
    return any(place.startswith(root.rstrip("/") + "/") for root in roots)


def folds_case(root: str) -> bool:
    """Whether a root takes A and a for one, as its first name with a letter in it tells."""
    try:
        with os.scandir(root) as entries:
            name = next((entry.name for entry in entries if entry.name.swapcase() != entry.name), None)
        return name is not None and os.path.samefile(os.path.join(root, name), os.path.join(root, name.swapcase()))
    except OSError:
        return False
