"""Which syntax errors a change made: those of the text after it that were not in the text before.

A parser that has lost its way reports different errors after every edit. So in a file that was broken before, an error
is new only if it is apart from what was broken: anything else might be the old error in another shape.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from handhold.backends.checks import c_errors, data_errors, python_errors, tree_sitter_errors
from handhold.core.ports.checks import TextError
from handhold.core.text.encoding import Text
from handhold.core.text.notebook import Cell, InvalidNotebook, parse_notebook

MAX_BYTES, MAX_SLOW_BYTES = 200 * 1024, 100 * 1024  # of a file that is checked: about 50 ms
_SLOW = ("bash", "c", "c++", "php")
FindErrors = Callable[[str], Sequence[TextError]]
LANGUAGES: dict[str, str] = {
    **dict.fromkeys(("py", "pyi", "pyw"), "python"),
    **dict.fromkeys(("js", "mjs", "cjs", "jsx"), "javascript"),
    **dict.fromkeys(("ts", "mts", "cts"), "typescript"),
    "tsx": "tsx",
    "go": "go",
    "rs": "rust",
    "java": "java",
    "c": "c",
    **dict.fromkeys(("cc", "cpp", "cxx", "hh", "hpp", "hxx"), "c++"),
    "cs": "c#",
    "rb": "ruby",
    "php": "php",
    **dict.fromkeys(("sh", "bash"), "bash"),
    "json": "json",
    "jsonc": "jsonc",
    "toml": "toml",
    **dict.fromkeys(("yaml", "yml"), "yaml"),
    "ipynb": "notebook",
}
# Settings of editors and compilers, in which comments are usual although their names end in .json.
_WITH_COMMENTS = re.compile(
    r"(?:^|/)(?:[tj]sconfig[^/]*|\.eslintrc|api-extractor|\.?devcontainer|\.?babel(?:rc|\.config)?|\.swcrc|deno|turbo)\.json$"
    r"|/\.vscode/"
)
# YAML and the like that a program completes first. A file becomes that only by lines or values of this kind.
_TEMPLATE = re.compile(r"\{\{|\{%|<%|^\s*#\{", re.MULTILINE)
_TEMPLATE_LINE = re.compile(r"\{%|<%|(?:^|[:=-][ \t])[ \t]*[{#]\{", re.MULTILINE)
# How a file begins that is in another language than its name says: Flow, Qt's translations, other shells.
_OTHER_LANGUAGE = {
    "javascript": re.compile(r"\s*/[/*][^;{]{0,2000}?@flow\b"),
    "typescript": re.compile(r"\s*<(?:\?xml|!DOCTYPE TS|TS)\b"),
    "bash": re.compile(r"#!(?!.*\b(?:ba|da|k|mk|a)?sh\b)|#(?:compdef|autoload)\b"),
}
_CONFLICT_START = re.compile(r"^<<<<<<< ", re.MULTILINE)
_CONFLICT_END = re.compile(r"^>>>>>>> ", re.MULTILINE)
_LINE_NUMBER = re.compile(r"^ {0,5}\d+→", re.MULTILINE)
_FENCE = re.compile(r"^```", re.MULTILINE)
_MAGIC = r"(?:%{1,2}[A-Za-z]|!).*(?:(?<=\\)\n.*)*"  # with the lines that continue it
_MAGIC_LINE = re.compile(rf"^([ \t]*)(?:(?:[\w., \t]+=[ \t]*)?{_MAGIC}|\?.*|\w[\w.]*\?{{1,2}}[ \t]*$)", re.MULTILINE)
_MAGIC_CELL = re.compile(r"(?:[ \t]*(?:#.*)?\n)*[ \t]*%%")


class LanguageSyntax:
    """Checks by the name of a file. Parsers are imported with their first use."""

    def get_max_bytes(self, path: str) -> int:
        language = _get_language(path)
        return 0 if language is None else MAX_SLOW_BYTES if language in _SLOW else MAX_BYTES

    def find_new_errors(self, path: str, before: bytes | None, after: bytes) -> tuple[TextError, ...]:
        language, new = _get_language(path), _decode(after)
        if language is None or new is None:
            return ()
        old = None if before is None else _decode(before)
        if language == "notebook":
            return tuple(_find_new_cell_errors(old, new))
        found: Sequence[TextError] = [*_find_foreign_lines(old or "", new)]
        if not found and not _is_in_other_language(language, old, new):
            found = _find_new_errors(_get_finder(language), old, new)
        return tuple(_add_lines(found, new))


def _get_language(path: str) -> str | None:
    language = LANGUAGES.get(path.rpartition("/")[2].rpartition(".")[2].lower())
    if language == "json" and _WITH_COMMENTS.search(path):
        return "jsonc"
    if language in tree_sitter_errors.GRAMMARS and language != "python":
        return language if tree_sitter_errors.is_installed(language) else None
    if language == "yaml" and not data_errors.has_yaml_parser():
        return None
    return language


def _is_in_other_language(language: str, old: str | None, new: str) -> bool:
    if language in ("yaml", "toml"):
        if old is None:
            return bool(_TEMPLATE.search(new))
        return len(_TEMPLATE_LINE.findall(new)) > len(_TEMPLATE_LINE.findall(old))  # else it was YAML with them
    begins = _OTHER_LANGUAGE.get(language)
    return begins is not None and bool(begins.match(new))


def _decode(data: bytes) -> str | None:
    """The text; None if it is not one that parsers read. A byte that is not UTF-8 stands for one character."""
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _get_finder(language: str) -> FindErrors:
    match language:
        case "python":
            return python_errors.find_errors
        case "json":
            return data_errors.find_json_errors
        case "jsonc":
            return data_errors.find_jsonc_errors
        case "toml":
            return data_errors.find_toml_errors
        case "yaml":
            return data_errors.find_yaml_errors
        case "c" | "c++":
            return c_errors.CErrors(language).find
        case _:
            return tree_sitter_errors.TreeSitterErrors(language).find


def _find_foreign_lines(old: str, new: str) -> Iterator[TextError]:
    """What belongs to no language, though a parser may take it for operators: conflict markers of git, and line
    numbers as replies show them."""
    # Few texts have such characters at all: a search for them is a hundred times as fast as an expression.
    if ">>>>>>> " in new and _CONFLICT_END.search(new) and not _CONFLICT_START.search(old):
        for found in _CONFLICT_START.finditer(new):
            yield TextError(new.count("\n", 0, found.start()) + 1, 1, "conflict marker")
    if "→" in new and (found := _LINE_NUMBER.search(new)) and not _LINE_NUMBER.search(old):
        yield TextError(new.count("\n", 0, found.start()) + 1, 1, "line number of a reply, not of the file")


def _add_lines(errors: Sequence[TextError], text: str) -> list[TextError]:
    """The errors with their lines. One at the end of the text is told at the last line that is not blank."""
    if not errors:
        return []
    lines = [line.rstrip("\r") for line in text.split("\n")]
    last = next((n for n in range(len(lines), 0, -1) if lines[n - 1].strip()), 1)
    placed = (each if each.line <= last else replace(each, line=last, column=0) for each in errors)
    return [replace(each, text=lines[each.line - 1]) for each in placed]


# --- what is new


@dataclass(frozen=True)
class ChangedLines:
    """The lines that a change replaced: from `first` to before `old_end`, and to before `new_end`."""

    first: int
    old_end: int
    new_end: int

    def shift(self, line: int) -> int:
        """A line of the old text, where it is now."""
        return line if line < self.old_end else line + self.new_end - self.old_end


def _find_new_errors(find_errors: FindErrors, old: str | None, new: str) -> Sequence[TextError]:
    errors = find_errors(new)
    if not errors:
        return ()
    broken, changed = find_errors(old) if old is not None else (), _compare_lines(old or "", new)
    if not broken:
        return _order(errors, changed)
    places = [(changed.shift(each.line), changed.shift(max(each.last_line, each.line))) for each in broken]
    if any(first <= changed.new_end and changed.first <= last + 1 for first, last in places):
        # The change was made where the file was broken, if it was: a parser may just not know its syntax.
        return _order(errors, changed) if _has_lost_balance(old or "", new) else ()
    known = {(changed.shift(each.line), each.message) for each in broken}
    apart = [each for each in errors if (each.line, each.message) not in known]
    return _order([each for each in apart if not _overlaps(each, places)], changed)


def _has_lost_balance(old: str, new: str) -> bool:
    """Whether brackets matched before and do not now, or a code fence came in: no parser is needed to say so."""
    before, after = ([text.count(a) - text.count(b) for a, b in ("()", "[]", "{}")] for text in (old, new))
    return (not any(before) and any(after)) or bool(_FENCE.search(new) and not _FENCE.search(old))


def _overlaps(error: TextError, places: Sequence[tuple[int, int]]) -> bool:
    return any(error.line <= last + 1 and first - 1 <= max(error.last_line, error.line) for first, last in places)


def _compare_lines(old: str, new: str) -> ChangedLines:
    before, after = old.split("\n"), new.split("\n")
    shorter = min(len(before), len(after))
    first = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    same = next((n for n in range(shorter - first) if before[-1 - n] != after[-1 - n]), shorter - first)
    return ChangedLines(first + 1, len(before) - same + 1, len(after) - same + 1)


def _order(errors: Sequence[TextError], changed: ChangedLines) -> Sequence[TextError]:
    """Those in the changed lines first: the others follow from them more often than not."""
    return sorted(errors, key=lambda each: (not changed.first <= each.line <= changed.new_end, each.line))


# --- notebooks


def _find_new_cell_errors(old: str | None, new: str) -> list[TextError]:
    """Errors in cells of Python whose source is not one of the old notebook; errors of the JSON if it is none."""
    if json := _find_new_errors(data_errors.find_json_errors, old, new):
        return _add_lines(json, new)
    known = {cell.source for cell in _parse_cells(old or "")}
    found: list[TextError] = []
    for cell in _parse_cells(new):
        if cell.source not in known and not _MAGIC_CELL.match(cell.source) and python_errors.find_errors(cell.source):
            source = _MAGIC_LINE.sub(lambda found: f"{found[1]}pass" + "\n" * found[0].count("\n"), cell.source)
            errors = _add_lines(python_errors.find_errors(source), cell.source)
            found += (replace(each, cell=cell.name or str(cell.number)) for each in errors)
    return found


def _parse_cells(text: str) -> Sequence[Cell]:
    try:
        notebook = parse_notebook(Text.decode(text.encode()))
    except InvalidNotebook:
        return ()
    if notebook.language and not notebook.language.lower().startswith(("python", "ipython")):
        return ()
    return [cell for cell in notebook.cells if cell.kind == "code"]
