"""Recognize a command that is nothing but a call of apply_patch. Anything the shell would add, such as a value, a
redirection or a second command, makes it a different command."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handhold.core.errors import NoShell, NotOnlyPatch
from handhold.core.policy.shell.grammar import AnalysisError, SyntaxTree, iter_nodes
from handhold.core.policy.shell.heredocs import Heredoc
from handhold.core.policy.shell.quoting import DOUBLE_QUOTED, SINGLE_QUOTED, UNQUOTED, decode_ansi_c, remove_backslashes

if TYPE_CHECKING:
    from tree_sitter import Node

NOT_THE_COMMAND = "it is not the command itself"
PATCH_PROGRAMS = ("apply_patch", "applypatch")
SHELLS = re.compile(r"(?:/usr/bin/|/bin/|/usr/local/bin/)?(?:bash|sh|zsh|dash)")
SCRIPT_FLAGS = (("-lc",), ("-c",), ("-l", "-c"), ("-cl",))

REASONS = {
    "pipeline": "it is in a pipe",
    "|": "it is in a pipe",
    "|&": "it is in a pipe",
    "list": "there is another command next to it",
    "&&": "there is another command next to it",
    "||": "there is another command next to it",
    ";": "another command may follow it",
    "&": "it would run in the background",
    "negated_command": "its outcome is negated",
    "subshell": "it is in a subshell",
    "compound_statement": "it is in a group",
    "function_definition": "it is in a function",
    "if_statement": "it is in a condition",
    "while_statement": "it is in a loop",
    "for_statement": "it is in a loop",
    "c_style_for_statement": "it is in a loop",
    "case_statement": "it is in a condition",
    "variable_assignment": "a variable is set for it",
    "file_redirect": "its input or output is redirected",
    "herestring_redirect": "its input is a here-string",
    "heredoc_redirect": "it has a second heredoc",
    "command_substitution": "the shell would insert the output of another command",
    "process_substitution": "the shell would insert the output of another command",
    "simple_expansion": "the shell would insert a value",
    "expansion": "the shell would insert a value",
    "arithmetic_expansion": "the shell would insert a value",
    "ansi_c_string": "its $'…' has escapes other than \\n, \\t, \\\\ and quotes",
    "$": "the shell would insert a value",
    "ERROR": "it is incomplete",
}
"""Why a part of the command, by its grammar node type, makes it a different command."""

_GLOB = re.compile(r"[*?\[\]{}~!]")
_ANSI_C = re.compile(r"\$'(?:[^\\']|\\[nt\\'\"])*'")


@dataclass(frozen=True)
class PatchCall:
    """A call of apply_patch: the patch, and the folder of a preceding `cd`."""

    patch: str
    folder: str = ""


def parse_patch_call(command: Sequence[str]) -> PatchCall:
    """Parse the call. Raise NotOnlyPatch if the command does more, NoShell if it does not call apply_patch."""
    match [*command]:
        case [name, patch] if name in PATCH_PROGRAMS:
            return PatchCall(patch)
        case [name, *rest] if name in PATCH_PROGRAMS:
            raise NotOnlyPatch(f"it has {len(rest)} arguments, but the patch must be the only one")
        case [shell, *flags, script] if SHELLS.fullmatch(shell) and tuple(flags) in SCRIPT_FLAGS:
            return _parse_script(script)
        case _:
            mentions = any(word in PATCH_PROGRAMS for word in command)
            raise _make_refusal(" ".join(command), names_patch=mentions, because=NOT_THE_COMMAND)


def _make_refusal(command: str, *, names_patch: bool, because: str) -> NotOnlyPatch | NoShell:
    return NotOnlyPatch(because) if names_patch else NoShell(command=command)


# --- scripts


def _parse_script(script: str) -> PatchCall:
    tree = SyntaxTree.from_text(script, extra="codex")
    try:
        if tree.root.has_error:
            raise AnalysisError(REASONS["ERROR"])
        return _ScriptParser(tree).parse_call(tree.root)
    except AnalysisError as error:
        raise _make_refusal(script, names_patch=_has_patch_word(tree.root), because=error.because) from None


def _has_patch_word(root: "Node") -> bool:
    """Whether apply_patch is one of the words, so that the error can mention it."""
    return any(node.type == "word" and node.text in (b"apply_patch", b"applypatch") for node in iter_nodes(root))


@dataclass(frozen=True)
class _ScriptParser:
    tree: SyntaxTree

    def parse_call(self, root: "Node") -> PatchCall:
        self._check_gaps(root)
        statement, *rest = [node for node in root.children if node.type != "comment"] or [root]
        for node in rest:
            raise AnalysisError(REASONS.get(node.type, REASONS[";"]))
        heredoc = None
        if statement.type == "redirected_statement":
            statement, *redirects = statement.children
            heredoc = self._read_heredoc(redirects)
        folder = ""
        if statement.type == "list":
            folder, statement = self._split_cd(statement)
        if statement.type != "command":
            raise AnalysisError(REASONS.get(statement.type, NOT_THE_COMMAND))
        name, *arguments = self._read_words(statement)
        if heredoc is None and (shell := [name, *arguments])[1:] and SHELLS.fullmatch(name) and not folder:
            return self._parse_nested(shell)
        if name not in PATCH_PROGRAMS:
            raise AnalysisError(NOT_THE_COMMAND)
        if len(arguments) != (heredoc is None):
            raise AnalysisError("the patch is not its only argument" if arguments else "it is called without a patch")
        return PatchCall(arguments[0] if heredoc is None else heredoc, folder)

    def _parse_nested(self, command: list[str]) -> PatchCall:
        try:
            return parse_patch_call(command)
        except NoShell:
            raise AnalysisError(NOT_THE_COMMAND) from None

    def _split_cd(self, node: "Node") -> tuple[str, "Node"]:
        """Split `cd folder && …` into the folder and the rest."""
        if len(node.children) != 3:
            raise AnalysisError("it has a comment in the middle")
        first, operator, second = node.children
        if operator.type != "&&" or first.type not in ("command", "list"):
            raise AnalysisError(REASONS[operator.type])
        if first.type == "list":
            raise AnalysisError("more than one command is before it")
        match [*self._read_words(first)]:
            case ["cd", folder] if folder and not folder.startswith("-"):
                return folder, second
            case ["cd", *_]:
                raise AnalysisError("the cd before it does not name one folder")
            case _:
                raise AnalysisError(REASONS["list"])

    def _check_gaps(self, node: "Node") -> None:
        """Reject text that no node covers unless it is blank: the parser skips some escapes."""
        if node.type not in ("program", "redirected_statement", "list", "command", "concatenation"):
            return
        for gap in self.tree.iter_gaps(node):
            if gap.strip() or (node.type == "concatenation" and gap):
                raise AnalysisError("it contains an unsupported escape")
        for part in node.children:
            self._check_gaps(part)

    # --- words

    def _read_words(self, command: "Node") -> Iterator[str]:
        for node in command.children:
            yield self._read_word(node.children[0] if node.type == "command_name" else node)

    def _read_word(self, node: "Node") -> str:
        """The value of a word, if it is known without running the shell.

        Parsed again character by character, since the grammar accepts some words that bash reads differently.
        """
        text = self.tree.get_text(node)
        match node.type:
            case "concatenation":
                return "".join(self._read_word(part) for part in node.children)
            case "word" | "number" if _GLOB.search(text):
                raise AnalysisError("the shell would expand a pattern in it")
            case "word" | "number" if UNQUOTED.fullmatch(text) and not text.startswith("#"):
                return re.sub(r"\\(.)", r"\1", text)
            case "raw_string" if SINGLE_QUOTED.fullmatch(text):
                return text[1:-1]
            case "string" if DOUBLE_QUOTED.fullmatch(text[1:-1]) and "$" not in re.sub(
                r"\\.", "", text, flags=re.DOTALL
            ):
                return remove_backslashes(text[1:-1])
            case "ansi_c_string" if _ANSI_C.fullmatch(text):
                return decode_ansi_c(text[2:-1])
            case "string":
                unexpected = (part.type for part in node.children if part.type not in ('"', "string_content"))
                raise AnalysisError(REASONS.get(next(unexpected, "expansion"), REASONS["expansion"]))
            case kind:
                raise AnalysisError(REASONS.get(kind, f"it contains a {kind.replace('_', ' ')}"))

    # --- heredocs

    def _read_heredoc(self, redirects: Sequence["Node"]) -> str:
        if not redirects:
            raise AnalysisError(NOT_THE_COMMAND)
        for node in redirects:
            if node.type != "heredoc_redirect" or len(redirects) > 1:
                raise AnalysisError(REASONS.get(node.type, "it is redirected"))
        parts = {node.type: node for node in redirects[0].children}
        for kind in parts:
            if kind not in ("<<", "<<-", "heredoc_start", "heredoc_body", "heredoc_end"):
                raise AnalysisError(REASONS.get(kind, "something follows the heredoc's delimiter"))
        document = Heredoc(self.tree, parts["heredoc_start"], strip_tabs="<<-" in parts)
        if document.rest_of_line.strip():
            raise AnalysisError(REASONS["ERROR"])
        if any(line.strip() and not line.lstrip().startswith("#") for line in document.following_lines):
            raise AnalysisError(REASONS[";"])
        if document.has_expansions:
            raise AnalysisError("the heredoc's delimiter is not quoted, so the shell would expand the patch")
        return document.body
