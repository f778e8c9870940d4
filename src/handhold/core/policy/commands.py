"""Commands, judged by the shell's grammar and never by looking for words in them.

So far there is one question: is a command nothing but a call of apply_patch? What the shell would add to it (a
value, a file, a second command) makes it another command.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from handhold.core.errors import ExtraMissing, NoShell, NotOnlyPatch

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

NOT_ITSELF = "it is not the command itself"
NAMES = ("apply_patch", "applypatch")
SHELLS = re.compile(r"(?:/usr/bin/|/bin/|/usr/local/bin/)?(?:bash|sh|zsh|dash)")
SCRIPT_FLAGS = (("-lc",), ("-c",), ("-l", "-c"), ("-cl",))

REASONS = {
    "pipeline": "it stands in a pipe",
    "|": "it stands in a pipe",
    "|&": "it stands in a pipe",
    "list": "another command stands beside it",
    "&&": "another command stands beside it",
    "||": "another command stands beside it",
    ";": "another command may follow it",
    "&": "it would run in the background",
    "negated_command": "its outcome is negated",
    "subshell": "it stands in a subshell",
    "compound_statement": "it stands in a group",
    "function_definition": "it stands in a function",
    "if_statement": "it stands in a condition",
    "while_statement": "it stands in a loop",
    "for_statement": "it stands in a loop",
    "c_style_for_statement": "it stands in a loop",
    "case_statement": "it stands in a condition",
    "variable_assignment": "a variable is set for it",
    "file_redirect": "its input or output is redirected",
    "herestring_redirect": "its input is a here-string",
    "heredoc_redirect": "a second heredoc stands beside it",
    "command_substitution": "the shell would put the output of another command into it",
    "process_substitution": "the shell would put the output of another command into it",
    "simple_expansion": "the shell would put a value into it",
    "expansion": "the shell would put a value into it",
    "arithmetic_expansion": "the shell would put a value into it",
    "ansi_c_string": "its $'…' has escapes other than \\n, \\t, \\\\ and quotes",
    "$": "the shell would put a value into it",
    "ERROR": "it is not complete",
}
"""Why a part of a command, by its name in the grammar, makes it another command."""

_GLOB = re.compile(r"[*?\[\]{}~!]")
_EXPANDS = re.compile(r"[$`]|\\[\\\n]")  # in a heredoc whose delimiter is not quoted
_DELIMITER = re.compile(r"'[\w .-]+'|\"[\w .-]+\"|\\?[\w.-]+")
_WORD = re.compile(r"(?:[^\s\\'\"$`;&|<>()#]|(?<!^)#|\\[^\n])+")
_RAW = re.compile(r"'[^']*'")
_STRING = re.compile(r'"(?:[^"\\$`]|\\.)*"', re.DOTALL)
_ANSI_C = re.compile(r"\$'(?:[^\\']|\\[nt\\'\"])*'")
_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}


@dataclass(frozen=True)
class PatchCall:
    """A call of apply_patch: the patch, and the folder that a `cd` before it led to."""

    patch: str
    folder: str = ""


def patch_call(command: Sequence[str]) -> PatchCall:
    """The call that this command is. NotOnlyPatch if it is one and more, NoShell if it is none."""
    match [*command]:
        case [name, patch] if name in NAMES:
            return PatchCall(patch)
        case [name, *rest] if name in NAMES:
            raise NotOnlyPatch(f"it has {len(rest)} arguments, and the patch is the only one")
        case [shell, *flags, script] if SHELLS.fullmatch(shell) and tuple(flags) in SCRIPT_FLAGS:
            return _in_script(script)
        case _:
            mentions = any(word in NAMES for word in command)
            raise _another(" ".join(command), mentions=mentions, because=NOT_ITSELF)


def _another(command: str, *, mentions: bool, because: str) -> NotOnlyPatch | NoShell:
    return NotOnlyPatch(because) if mentions else NoShell(command=command)


# --- scripts


class _Other(Exception):
    """This part makes it another command."""

    def __init__(self, because: str) -> None:
        super().__init__(because)
        self.because = because


def _in_script(script: str) -> PatchCall:
    source = script.encode("utf-8", "surrogatepass")
    root = _parser().parse(source).root_node
    try:
        if root.has_error:
            raise _Other(REASONS["ERROR"])
        return _Script(source).call(root)
    except _Other as other:
        raise _another(script, mentions=_calls(root), because=other.because) from None


@cache
def _parser() -> "Parser":
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise ExtraMissing("codex") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _calls(root: "Node") -> bool:
    """Whether apply_patch is a word of it, so that the refusal can speak of that."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.type == "word" and node.text in (b"apply_patch", b"applypatch"):
            return True
        nodes += node.children
    return False


@dataclass(frozen=True)
class _Script:
    source: bytes

    def call(self, root: "Node") -> PatchCall:
        self._only_blanks_between(root)
        statement, *rest = [node for node in root.children if node.type != "comment"] or [root]
        for node in rest:
            raise _Other(REASONS.get(node.type, REASONS[";"]))
        heredoc = None
        if statement.type == "redirected_statement":
            statement, *redirects = statement.children
            heredoc = self._heredoc(redirects)
        folder = ""
        if statement.type == "list":
            folder, statement = self._after_cd(statement)
        if statement.type != "command":
            raise _Other(REASONS.get(statement.type, NOT_ITSELF))
        name, *arguments = self._words(statement)
        if heredoc is None and (shell := [name, *arguments])[1:] and SHELLS.fullmatch(name) and not folder:
            return self._nested(shell)
        if name not in NAMES:
            raise _Other(NOT_ITSELF)
        if len(arguments) != (heredoc is None):
            raise _Other("the patch is not its only argument" if arguments else "it is called without a patch")
        return PatchCall(arguments[0] if heredoc is None else heredoc, folder)

    def _nested(self, command: list[str]) -> PatchCall:
        try:
            return patch_call(command)
        except NoShell:
            raise _Other(NOT_ITSELF) from None

    def _after_cd(self, both: "Node") -> tuple[str, "Node"]:
        """`cd folder && …`: the folder, and the rest."""
        if len(both.children) != 3:
            raise _Other("a comment stands in the middle of it")
        first, operator, second = both.children
        if operator.type != "&&" or first.type not in ("command", "list"):
            raise _Other(REASONS[operator.type])
        if first.type == "list":
            raise _Other("more than one command stands before it")
        match [*self._words(first)]:
            case ["cd", folder] if folder and not folder.startswith("-"):
                return folder, second
            case ["cd", *_]:
                raise _Other("the cd before it does not name one folder")
            case _:
                raise _Other(REASONS["list"])

    def _only_blanks_between(self, node: "Node") -> None:
        """The grammar's parser passes over some escapes: what no part of the tree stands for must be blank."""
        if node.type not in ("program", "redirected_statement", "list", "command", "concatenation"):
            return
        ends = [node.start_byte, *(part.end_byte for part in node.children)]
        starts = [*(part.start_byte for part in node.children), node.end_byte]
        for end, start in zip(ends, starts, strict=True):
            if self.source[end:start].strip() or (node.type == "concatenation" and end < start):
                raise _Other("it holds an escape that is not taken")
        for part in node.children:
            self._only_blanks_between(part)

    # --- words

    def _words(self, command: "Node") -> Iterator[str]:
        for node in command.children:
            yield self._word(node.children[0] if node.type == "command_name" else node)

    def _word(self, node: "Node") -> str:
        """What the shell makes of a word, if that can be said without running it.

        Read again by letters, since the grammar's parser lets some through that bash does not.
        """
        text = self._text(node)
        match node.type:
            case "concatenation":
                return "".join(self._word(part) for part in node.children)
            case "word" | "number" if _GLOB.search(text):
                raise _Other("the shell would complete a pattern in it")
            case "word" | "number" if _WORD.fullmatch(text):
                return re.sub(r"\\(.)", r"\1", text)
            case "raw_string" if _RAW.fullmatch(text):
                return text[1:-1]
            case "string" if _STRING.fullmatch(text):
                return re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), text[1:-1])
            case "ansi_c_string" if _ANSI_C.fullmatch(text):
                return re.sub(r"\\(.)", lambda found: _ANSI[found[1]], text[2:-1])
            case "string":
                odd = (part.type for part in node.children if part.type not in ('"', "string_content"))
                raise _Other(REASONS.get(next(odd, "expansion"), REASONS["expansion"]))
            case kind:
                raise _Other(REASONS.get(kind, f"it holds a {kind.replace('_', ' ')}"))

    def _text(self, node: "Node") -> str:
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")

    # --- heredocs

    def _heredoc(self, redirects: Sequence["Node"]) -> str:
        if not redirects:
            raise _Other(NOT_ITSELF)
        for node in redirects:
            if node.type != "heredoc_redirect" or len(redirects) > 1:
                raise _Other(REASONS.get(node.type, "it is redirected"))
        parts = {node.type: node for node in redirects[0].children}
        for kind in parts:
            if kind not in ("<<", "<<-", "heredoc_start", "heredoc_body", "heredoc_end"):
                raise _Other(REASONS.get(kind, "something stands behind the heredoc's delimiter"))
        return self._body(parts["heredoc_start"], tabs="<<-" in parts)

    def _body(self, start: "Node", *, tabs: bool) -> str:
        """The text between, as bash takes it: up to the first line that is the delimiter and nothing else."""
        spelled = self._text(start)
        if not _DELIMITER.fullmatch(spelled):
            raise _Other("the heredoc's delimiter is not one word")
        delimiter = spelled.strip("'\"\\")
        quoted = delimiter != spelled
        behind, _, below = self.source[start.end_byte :].decode("utf-8", "surrogatepass").partition("\n")
        lines = [line.lstrip("\t") if tabs else line for line in below.split("\n")]
        if behind.strip() or delimiter not in lines:
            raise _Other(REASONS["ERROR"])
        end = lines.index(delimiter)
        if any(line.strip() and not line.lstrip().startswith("#") for line in lines[end + 1 :]):
            raise _Other(REASONS[";"])
        body = "".join(f"{line}\n" for line in lines[:end])
        if not quoted and _EXPANDS.search(body):
            raise _Other("the heredoc's delimiter is not quoted, so the shell would expand what is in the patch")
        return body
