"""Predict what commands print, where possible: echoed words, file names, numbers."""

import re
from collections.abc import Collection, Sequence

from handhold.core.policy.shell.paths import ShellContext, is_below, normalize_path
from handhold.core.policy.shell.placeholders import PLACEHOLDERS, UNKNOWN, UNKNOWN_NAME, is_number
from handhold.core.policy.shell.simple_command import StdinContent
from handhold.core.policy.shell.words import Word, split_words

NAME_PRINTERS = split_words("""
    ls find fd fdfind basename dirname date wc nproc seq whoami hostname id uname arch git mktemp realpath readlink tty
    du stat pwd getconf which
""")
"""Programs that print names of existing things, or numbers."""
LISTING_OPTION = re.compile(r"-[a-dg-zA-Z]*[lLc][a-dg-zA-Z0]*|--files(?:-with(?:out)?-match(?:es)?)?|--count")
FILTER_PROGRAMS = split_words("sort uniq head tail grep rg wc cut tr rev tac nl xargs shuf")
"""Programs that print parts of their input."""
_COUNT_OPTION = re.compile(r"-[lwcmL]+|--(?:lines|words|bytes|chars)")
_DATE_FORMAT = re.compile(r"\+(?:%-?[a-zA-Z])+")
_GIT_CONTENT_COMMANDS = split_words("show log cat-file blame grep diff config for-each-ref notes")


def predict_text(commands: Sequence[Sequence[Word]], cwds: Collection[str], context: ShellContext) -> str:
    """What a substitution expands to."""
    if len(commands) == 1:
        match [word.text for word in commands[0]]:
            case ["pwd"] if len(cwds) == 1:
                return next(iter(cwds))
            case ["mktemp", *_]:
                return f"/tmp/{UNKNOWN_NAME}"
            case ["git", "rev-parse", "--show-toplevel"] if len(cwds) == 1:
                folder = next(iter(cwds))
                roots = (normalize_path(root) for root in context.roots)
                return next((root for root in roots if folder == root or is_below(folder, root)), UNKNOWN)
            case ["echo", *words] if _is_literal(words):
                return " ".join(words)
            case _:
                pass
    output = predict_stdin(commands, None, cwds)
    return UNKNOWN_NAME if output.is_names_only else output.text.rstrip("\n") if output.text is not None else UNKNOWN


def predict_stdin(
    commands: Sequence[Sequence[Word]], before: StdinContent | None, cwds: Collection[str]
) -> StdinContent:
    """What consecutive commands pass to the next one in a pipe."""
    if not commands:
        return StdinContent()
    if len(commands) == 1:
        match [word.text for word in commands[0]]:
            case ["echo", *words] if _is_literal(words):
                return StdinContent(" ".join(words) + "\n")
            case ["printf", "%s" | "%s\\n", one] if _is_literal([one]):
                return StdinContent(one)
            case ["cat"] if before:
                return before
            case _:
                pass
    is_names_only = before is not None and before.is_names_only
    for words in commands:
        is_names_only = _is_names_only(words, has_names_input=is_names_only)
        if not is_names_only:
            return StdinContent()
    return StdinContent(is_names_only=UNKNOWN not in cwds)


def _is_literal(words: Sequence[str]) -> bool:
    return not any(PLACEHOLDERS.search(word) or "\\" in word or word.startswith("-") for word in words)


def _is_names_only(words: Sequence[Word], *, has_names_input: bool) -> bool:
    """Whether a command prints only names, given whether its input is only names."""
    name, *rest = [word.text.rpartition("/")[2] if at == 0 else word.text for at, word in enumerate(words)]
    if any(UNKNOWN in each for each in rest) or any(each.startswith(("/", "-printf", "--format")) for each in rest):
        return False
    if name == "git":
        return not any(each in _GIT_CONTENT_COMMANDS for each in rest) or "--name-only" in rest or "--format=%H" in rest
    if name in ("grep", "rg", "ag") and any(LISTING_OPTION.fullmatch(each) for each in rest):
        return True
    return name in NAME_PRINTERS or (has_names_input and name in FILTER_PROGRAMS)


def is_numeric_output(words: Sequence[Word]) -> bool:
    """Whether a command prints only numbers."""
    match [word.text for word in words]:
        case ["nproc"] | ["id", "-u" | "-g"] | ["tput", "cols" | "lines"] | ["git", "rev-list", "--count", *_]:
            return True
        case ["wc", *options]:
            return all(_COUNT_OPTION.fullmatch(each) for each in options)
        case ["seq", *rest]:
            return all(is_number(each) for each in rest)
        case ["date", form] | ["date", "-u", form]:
            return _DATE_FORMAT.fullmatch(form) is not None
        case ["grep" | "rg", option, pattern, *files]:
            is_count = re.fullmatch(r"-[ciEFvwx]*c[iEFvwx]*", option) is not None
            return (
                is_count
                and not pattern.startswith("-")
                and len(files) <= 1
                and not any(each.has_glob for each in words)
            )
        case _:
            return False
