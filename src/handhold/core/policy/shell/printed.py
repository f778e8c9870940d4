"""What commands print, where that can be told: words that were echoed, names of files, numbers."""

import re
from collections.abc import Collection, Sequence

from handhold.core.policy.shell.call import Feed
from handhold.core.policy.shell.marks import HOLE, MARKS, NAME, is_number
from handhold.core.policy.shell.places import Standing, below, normal
from handhold.core.policy.shell.words import Word, listed

NAMERS = listed("""
    ls find fd fdfind basename dirname date wc nproc seq whoami hostname id uname arch git mktemp realpath readlink tty
    du stat pwd getconf which
""")
"""Programs that print names of what is there, or numbers."""
LISTING = re.compile(r"-[a-dg-zA-Z]*[lLc][a-dg-zA-Z0]*|--files(?:-with(?:out)?-match(?:es)?)?|--count")
PASSING = listed("sort uniq head tail grep rg wc cut tr rev tac nl xargs shuf")
"""Programs that print some of what they are fed."""
_COUNTED = re.compile(r"-[lwcmL]+|--(?:lines|words|bytes|chars)")
_TIME = re.compile(r"\+(?:%-?[a-zA-Z])+")
_SPEAKERS = listed("show log cat-file blame grep diff config for-each-ref notes")


def text(commands: Sequence[Sequence[Word]], folders: Collection[str], standing: Standing) -> str:
    """What a substitution becomes."""
    if len(commands) == 1:
        match [word.text for word in commands[0]]:
            case ["pwd"] if len(folders) == 1:
                return next(iter(folders))
            case ["mktemp", *_]:
                return f"/tmp/{NAME}"
            case ["git", "rev-parse", "--show-toplevel"] if len(folders) == 1:
                folder = next(iter(folders))
                roots = (normal(root) for root in standing.roots)
                return next((root for root in roots if folder == root or below(folder, root)), HOLE)
            case ["echo", *words] if _plainly(words):
                return " ".join(words)
            case _:
                pass
    shown = feed(commands, None, folders)
    return NAME if shown.names else shown.text.rstrip("\n") if shown.text is not None else HOLE


def feed(commands: Sequence[Sequence[Word]], before: Feed | None, folders: Collection[str]) -> Feed:
    """What commands that ran one after another give to the next one in a pipe."""
    if not commands:
        return Feed()
    if len(commands) == 1:
        match [word.text for word in commands[0]]:
            case ["echo", *words] if _plainly(words):
                return Feed(" ".join(words) + "\n")
            case ["printf", "%s" | "%s\\n", one] if _plainly([one]):
                return Feed(one)
            case ["cat"] if before:
                return before
            case _:
                pass
    fed = before is not None and before.names
    for words in commands:
        fed = _names(words, fed=fed)
        if not fed:
            return Feed()
    return Feed(names=HOLE not in folders)


def _plainly(words: Sequence[str]) -> bool:
    return not any(MARKS.search(word) or "\\" in word or word.startswith("-") for word in words)


def _names(words: Sequence[Word], *, fed: bool) -> bool:
    """Whether what a command prints is nothing but names, given whether its input is."""
    name, *rest = [word.text.rpartition("/")[2] if at == 0 else word.text for at, word in enumerate(words)]
    if any(HOLE in each for each in rest) or any(each.startswith(("/", "-printf", "--format")) for each in rest):
        return False
    if name == "git":
        return not any(each in _SPEAKERS for each in rest) or "--name-only" in rest or "--format=%H" in rest
    if name in ("grep", "rg", "ag") and any(LISTING.fullmatch(each) for each in rest):
        return True
    return name in NAMERS or (fed and name in PASSING)


def is_numeric(words: Sequence[Word]) -> bool:
    """Whether a command prints nothing but numbers."""
    match [word.text for word in words]:
        case ["nproc"] | ["id", "-u" | "-g"] | ["tput", "cols" | "lines"] | ["git", "rev-list", "--count", *_]:
            return True
        case ["wc", *options]:
            return all(_COUNTED.fullmatch(each) for each in options)
        case ["seq", *rest]:
            return all(is_number(each) for each in rest)
        case ["date", form] | ["date", "-u", form]:
            return _TIME.fullmatch(form) is not None
        case ["grep" | "rg", option, pattern, *files]:
            count = re.fullmatch(r"-[ciEFvwx]*c[iEFvwx]*", option) is not None
            return count and not pattern.startswith("-") and len(files) <= 1 and not any(each.glob for each in words)
        case _:
            return False
