"""Settings: what the user's file and each root's `handhold.toml` say, and how much of it counts.

The user's file counts always. A project's file comes with the project, from whoever wrote that. What makes things
stricter in it (deny, ask, a narrower mode) counts always. What spares the mode's question (allow) counts once a person
has looked at the file (`handhold trust`), until it changes. A file that cannot be read or parsed is an error: nobody
works without the rules that it was to bring.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from shlex import quote

from handhold.core.choices import MODES, SETTINGS_FILE, Mode, Secrets
from handhold.core.errors import SettingsBroken
from handhold.core.policy.defaults import BUILT_IN
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.places import literal
from handhold.core.policy.rules import ON_PATHS, Book, Rule, RulePolicy
from handhold.core.ports import Verb, Verdict
from handhold.core.text.visible import on_one_line
from handhold.world.settings.reading import MOST_OF_PROJECT, Said, read, said_in
from handhold.world.state import trust

NAME = SETTINGS_FILE
VARIABLE = "HANDHOLD_CONFIG"  # names another file than the user's own; it must be there


@dataclass(frozen=True)
class Wanted:
    """What the code says. `mode` is None where it leaves that to the user's file, and to `otherwise`."""

    mode: Mode | None
    otherwise: Mode
    rules: tuple[Rule, ...] = ()
    secrets: Secrets | None = None  # None: as the user's file says, else usable


def load(
    roots: Sequence[str],
    wanted: Wanted,
    *,
    settings: bool | str | os.PathLike[str] = True,
    state: Path | None = None,
) -> RulePolicy:
    """The policy of these roots, which are spelled really. SettingsBroken if the user's file or a root's is.

    `settings` names another file, which must be there, or tells to read none; `state` is a state folder in use.
    """
    file, said = _users(settings)
    mode = wanted.mode or said.mode or wanted.otherwise
    secrets = wanted.secrets or said.secrets or "usable"
    books = [Book("user", file, said.rules), Book("code", "code", wanted.rules)]
    remarks: list[str] = []
    for root in roots if settings is not False else ():
        book, of_root, warning = of_project(root)
        books.append(book)
        mode = narrower(mode, of_root.mode)
        secrets = "strict" if of_root.secrets == "strict" else secrets
        remarks += [warning] if warning else []
    books = [book for book in books if book.rules]
    return RulePolicy(
        ModePolicy(mode),
        (*books, *_ours(roots, file, state), BUILT_IN),
        tuple(roots),
        home=os.path.realpath(os.path.expanduser("~")),
        folds=bool(books) and any(map(folds_case, roots)),
        secrets=secrets,
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


def users_undo_bytes(settings: bool | str | os.PathLike[str] = True) -> int | None:  # noqa: FBT001
    """How much the user wants to be kept for undo. A project's file has no say: it comes with the project."""
    return _users(settings)[1].undo_bytes


# --- what a project says


def of_project(root: str) -> tuple[Book, Said, str]:
    """What counts of a root's own file: its rules, and what it says besides them; and a warning if it is not trusted
    and some rules do not count.

    SettingsBroken if it cannot be read or parsed, trusted or not: it may hold rules that deny.
    """
    file = os.path.join(root, NAME)
    data = read(file, follow=False, most=MOST_OF_PROJECT)
    if data is None:
        return Book("project", file, (), root), Said(), ""
    said = said_in(data, file, of_project=True)
    trusted = trust.recorded(root)
    if trusted == trust.digest(data):
        return Book("project", file, said.rules, root), said, ""
    counted = tuple(rule for rule in said.rules if rule.verdict is not Verdict.ALLOW)
    book = Book("project", file, counted, root, trusted=False)
    ignored = len(said.rules) - len(counted)
    return book, said, _warning(root, ignored, changed=trusted is not None) if ignored else ""


def _warning(root: str, ignored: int, *, changed: bool) -> str:
    """It quotes nothing of the file: these words reach people, logs and models."""
    why = "has changed since it was trusted" if changed else "is not trusted"
    rules = "1 allow rule does" if ignored == 1 else f"{ignored} allow rules do"
    text = f"{os.path.join(root, NAME)} {why}: its {rules} not count. Review it with `handhold trust {quote(root)}`."
    return on_one_line(text)


def find_warnings(roots: Sequence[str], settings: bool | str | os.PathLike[str] = True) -> tuple[str, ...]:  # noqa: FBT001
    """What a person should know of the settings of these roots. No toolbox is opened; broken settings are a warning."""
    try:
        return load([os.path.realpath(root) for root in roots], Wanted(None, "edit"), settings=settings).remarks
    except SettingsBroken as broken:
        text = f"{broken.path} cannot be used: {broken.because}. Nothing is opened until it is corrected or removed."
        return (on_one_line(text),)


@lru_cache(maxsize=1024)
def log_warning(warning: str) -> None:
    """Once in a process: a server opens the same folder for every session. Without a handler it goes to stderr."""
    from logging import getLogger

    getLogger("handhold").warning("%s", warning)


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
