"""Analyze shell code in execution order, without running any of it.

The analyzer tracks what is known: the working directory, and variables set to known values. Where execution may
branch, anything that differs between the branches becomes unknown. Each simple command goes to the function that
analyzes its program.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from handhold.core.policy.shell import predicted_output
from handhold.core.policy.shell.analysis_state import MAX_ANALYZED_COMMANDS, AnalysisLimitExceeded, AnalysisState
from handhold.core.policy.shell.arithmetic import COMPARISONS, check_key
from handhold.core.policy.shell.control_flow import ControlFlow, InheritedContext
from handhold.core.policy.shell.grammar import DROPPED_DASH, AnalysisError, iter_nodes, parse
from handhold.core.policy.shell.heredocs import read_heredoc
from handhold.core.policy.shell.nodes import (
    get_destinations,
    is_simple_substitution,
    iter_tokens,
    split_after_heredoc,
)
from handhold.core.policy.shell.placeholders import ELLIPSIS, PLACEHOLDERS, UNKNOWN, UNKNOWN_NUMBER, is_number
from handhold.core.policy.shell.programs import analyze_program
from handhold.core.policy.shell.simple_command import SimpleCommand, StdinContent
from handhold.core.policy.shell.words import Word, split_words

if TYPE_CHECKING:
    from tree_sitter import Node

WRITE_OPERATORS = frozenset((">", ">>", ">|", "&>", "&>>", ">&", "<>"))
RESERVED_WORDS = split_words(
    "if then else elif fi do done case esac while until for select function in coproc { } ! [[ ]]"
)
_EVALUATING_OPERATOR = re.compile(r"(?<=\s)-(?:eq|ne|lt|le|gt|ge|v|R)(?=\s)")


class ShellAnalyzer(ControlFlow):
    """The `Analyzer` for all commands in a text: what each reads, writes, sets and runs."""

    # --- code

    def analyze_text(self, text: str) -> None:
        """Analyze a text in the current state."""
        tree = parse(text)
        before, self.expander = self.expander, self._make_expander(tree)
        try:
            with self._nested():
                self._visit_sequence(tree.root.children, InheritedContext())
        finally:
            self.expander = before

    def analyze_script(self, text: str, command: SimpleCommand) -> None:
        """Analyze code for a new shell; `eval` runs in the current one."""
        if command.name == "eval":
            self.analyze_text(text)
            return
        with self._subshell():
            self.state = AnalysisState(self._initial_variables(), command.cwds)
            self.analyze_text(text)

    # --- statements

    def _visit(self, node: "Node", inherited: InheritedContext) -> None:
        match node.type:
            case "command":
                self._visit_command(node, inherited)
            case "redirected_statement":
                self._visit_redirected(node, inherited)
            case "variable_assignment":
                self._visit_assignment(node)
                self._reject_words(inherited)
            case "variable_assignments":
                for part in node.named_children:
                    self._visit_assignment(part)
                self._reject_words(inherited)
            case "declaration_command" | "unset_command":
                self._visit_declaration(node)
                self._reject_words(inherited)
            case "test_command":
                self._visit_test(node)
                self._reject_words(inherited)
            case _:
                super()._visit(node, inherited)

    # --- redirections

    def _visit_redirected(self, node: "Node", inherited: InheritedContext) -> None:
        """Apply redirections to the last command before them; words after a redirection belong to that command."""
        body = node.child_by_field_name("body")
        redirects = [part for part in node.children if part != body]
        following: list[Node] = []
        words: list[Node] = []
        for redirect in redirects:
            if redirect.type == "heredoc_redirect":
                more, after_heredoc = split_after_heredoc(redirect)
                words += more
                following += after_heredoc
            elif redirect.type == "file_redirect":
                words += get_destinations(redirect)[1:]
        nested_redirects = [part for each in redirects for part in each.children if part.type.endswith("_redirect")]
        inner = replace(
            inherited,
            redirects=(*redirects, *nested_redirects, *inherited.redirects),
            extra_words=(*words, *inherited.extra_words),
            dropped_words=self._recover_dropped_words(node, body, has_no_words=not words and not inherited.extra_words),
        )
        start = len(self.commands)
        if body is None:
            self._analyze_simple([], words, inner)
        else:
            self._visit(body, inner)
        if following:
            self._visit_after_heredoc(
                following,
                inherited,
                predicted_output.predict_stdin(self.commands[start:], inner.stdin, self.state.cwds),
            )

    def _recover_dropped_words(self, node: "Node", body: "Node | None", *, has_no_words: bool) -> tuple[Word, ...]:
        if not any(DROPPED_DASH.fullmatch(gap) for gap in self.expander.tree.iter_gaps(node)):
            return ()
        redirect_type = node.children[1].type if len(node.children) == 2 else ""
        if body is None or redirect_type != "heredoc_redirect" or not has_no_words:
            raise AnalysisError("one of its words cannot be parsed")
        return (Word("-"),)

    def _visit_after_heredoc(self, parts: Sequence["Node"], inherited: InheritedContext, stdin: StdinContent) -> None:
        """Visit what follows a `|` or `&&` on the line where a heredoc begins."""
        for part in parts:
            if part.type == "pipeline":
                self._visit_pipeline(
                    [each for each in part.children if each.is_named], InheritedContext(stdin, inherited.background)
                )
            else:
                self._visit_statement(part, InheritedContext(inherited.stdin, inherited.background))

    def _apply_redirects(self, inherited: InheritedContext) -> StdinContent | None:
        """Check what the redirections read and write; return the resulting standard input."""
        stdin = inherited.stdin
        for node in inherited.redirects:
            match node.type:
                case "file_redirect":
                    stdin = self._apply_file_redirect(node, stdin)
                case "herestring_redirect":
                    text = self.expander.expand_text(node.named_children[-1])
                    stdin = StdinContent(None if UNKNOWN in text else text)
                case "heredoc_redirect":
                    stdin = StdinContent(read_heredoc(node, self.expander))
                case _:
                    raise AnalysisError("a redirection in it cannot be parsed")
        return stdin

    def _apply_file_redirect(self, node: "Node", stdin: StdinContent | None) -> StdinContent | None:
        operators = [part.type for part in node.children if not part.is_named]
        targets = get_destinations(node)
        operator = operators[0] if operators else ""
        if operator in (">&-", "<&-") or not targets:
            return stdin
        words = self.expander.expand_words(targets[0])
        if len(words) != 1 or words[0].can_split:
            raise AnalysisError("where it writes is not known before it runs")
        word = words[0]
        if operator not in ("<", "<&") and self.expander.tree.get_text(node.children[0]) != "2":
            self.redirect_count += 1
        if operator in (">&", "<&") and (word.text.rstrip("-").isdigit() or word.text == "-"):
            return StdinContent() if operator == "<&" else stdin
        command = SimpleCommand((Word(operator), word), self.context, self.state.cwds, self)
        if operator in WRITE_OPERATORS:
            command.check_write(word)
            return stdin
        if operator not in ("<", "<&"):
            raise AnalysisError("a redirection in it cannot be parsed")
        command.check_read(word)
        return StdinContent(file=word.text)

    # --- simple commands

    def _visit_command(self, node: "Node", inherited: InheritedContext) -> None:
        assignments: list[Node] = []
        words: list[Node] = []
        redirects: list[Node] = []
        for part in node.children:
            if part.type == "variable_assignment":
                assignments.append(part)
            elif part.type.endswith("_redirect"):
                redirects.append(part)
                words += get_destinations(part)[1:]
            else:
                words.append(part.children[0] if part.type == "command_name" else part)
        self._analyze_simple(
            assignments,
            [*words, *inherited.extra_words],
            replace(inherited, redirects=(*redirects, *inherited.redirects)),
        )

    def _analyze_simple(
        self, assignments: Sequence["Node"], nodes: Sequence["Node"], inherited: InheritedContext
    ) -> None:
        if nodes and self.expander.tree.get_text(nodes[0]) in RESERVED_WORDS:
            raise AnalysisError("a shell keyword is where the name of a program should be")
        with self._subshell() if nodes else _current_shell():
            for node in assignments:
                self._visit_assignment(node)
        words = [*(word for node in nodes for word in self.expander.expand_words(node)), *inherited.dropped_words]
        stdin = self._apply_redirects(inherited)
        if words:
            self.analyze_command(
                SimpleCommand(tuple(words), self.context, self.state.cwds, self, stdin, inherited.background)
            )

    def analyze_command(self, command: SimpleCommand) -> None:
        """Analyze one command, or a command that another one runs."""
        self.commands.append(command.words)
        if len(self.commands) > MAX_ANALYZED_COMMANDS:
            raise AnalysisLimitExceeded("it runs too many commands to analyze")
        word = command.words[0]
        if not word.is_known or word.has_glob or ELLIPSIS in word.text or not word.text:
            raise AnalysisError("which program it runs is not known before it runs")
        if word.text in self.function_stack:
            command.report_dangerous(f"the function `{word.display_text}` calls itself")
            return
        with self._nested():
            analyze_program(command)

    def _visit_assignment(self, node: "Node") -> None:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None or self.expander.tree.get_text(name)[:1].isdigit():
            raise AnalysisError("one of its variables cannot be parsed")
        text = self.expander.tree.get_text(name)
        is_append = any(part.type == "+=" for part in node.children)
        if name.type != "variable_name":  # name[subscript]
            self.expander.check_substitutions(name)
            text, is_append = text.partition("[")[0], True
        word = self.expander.expand_assigned(value, is_associative=text in self.state.associative_arrays)
        if is_append:
            is_numeric = is_number(word.text) and is_number(self._lookup_operand(text) or "")
            word = Word(UNKNOWN_NUMBER if is_numeric else UNKNOWN)
        self.assign_variable(text, word)

    def _visit_declaration(self, node: "Node") -> None:
        keyword = self.expander.tree.get_text(node.children[0])
        words: list[Word] = [Word(keyword)]
        names = [self.expander.tree.get_text(part).partition("=")[0] for part in node.children[1:]]
        if keyword == "unset":
            self.state = replace(self.state, associative_arrays=frozenset())
        elif any(re.fullmatch(r"-\w*A\w*", name) for name in names):
            new = [name for name in names if name not in self.assigned_names]
            self.state = replace(self.state, associative_arrays=self.state.associative_arrays.union(new))
        for part, name in zip(node.children[1:], names, strict=True):
            if part.type == "variable_assignment":
                self._visit_assignment(part)
                words.append(Word(name.partition("[")[0] if "[" in name else self.expander.tree.get_text(part)))
            elif part.type == "variable_name":
                words.append(Word(self.expander.tree.get_text(part)))
            else:
                words += self.expander.expand_words(part)
        self.analyze_command(SimpleCommand(tuple(words), self.context, self.state.cwds, self))

    def _visit_test(self, node: "Node") -> None:
        self.expander.check_substitutions(node)
        is_single_bracket = node.children[0].type == "["
        self._evaluate_test_operands(node, is_single_bracket=is_single_bracket)
        if is_single_bracket and any(part.type in ("&&", "||", "<", ">", "(", ")") for part in iter_tokens(node)):
            raise AnalysisError("a condition in it cannot be parsed")
        self.commands.append((Word("[" if is_single_bracket else "[["),))

    def _evaluate_test_operands(self, node: "Node", *, is_single_bracket: bool) -> None:
        """Evaluate the operands that a test evaluates: of -v, and of numeric comparisons between `[[` and `]]`."""
        operator_count = 0
        for part in iter_nodes(node):
            operators = [self.expander.tree.get_text(each) for each in part.children if each.type == "test_operator"]
            operator = operators[0] if len(operators) == 1 else ""
            operator_count += operator in ("-v", "-R") or operator in COMPARISONS
            if operator in ("-v", "-R"):
                self.check_variable_name(
                    self.expander.expand_operands(part, part.children[0].end_byte, part.end_byte).strip()
                )
            elif operator in COMPARISONS and not is_single_bracket:
                for each in part.children:
                    self.expander.evaluate(self.expander.expand_operand(each) if each.type != "test_operator" else "")
        if len(_EVALUATING_OPERATOR.findall(self.expander.tree.get_text(node))) > operator_count:
            raise AnalysisError("a condition in it cannot be parsed")

    def check_variable_name(self, text: str) -> None:
        """Check a variable name given to a builtin; raise AnalysisError if it has a subscript that may run code."""
        name, bracket, rest = text.partition("[")
        if PLACEHOLDERS.search(name) or re.search("[*?]", name):  # a glob may have expanded to a file name
            raise AnalysisError("which variable it names is not known before it runs")
        if bracket and name in self.state.associative_arrays:
            check_key(rest)
        elif bracket and rest.rstrip("]") not in ("@", "*"):
            self.evaluate_arithmetic(rest)

    def evaluate_arithmetic(self, text: str) -> None:
        self.expander.evaluate(text)

    def _reject_words(self, inherited: InheritedContext) -> None:
        if inherited.extra_words or inherited.dropped_words:
            raise AnalysisError("it has words in an unexpected place")
        self._apply_redirects(inherited)

    # --- substitutions

    def _substitute(self, node: "Node") -> str:
        text = self.expander.tree.get_expansion_text(node)
        if text.startswith("`") and "\\" in text:
            raise AnalysisError("a substitution in it cannot be parsed")
        start, redirects_before = len(self.commands), self.redirect_count
        with self._subshell():
            if redirects := [part for part in node.children if part.type.endswith("_redirect")]:
                self._analyze_simple([], [], InheritedContext(redirects=tuple(redirects)))
                return UNKNOWN
            with self._nested():
                self._visit_sequence(
                    node.children[1:-1], InheritedContext(StdinContent() if text.startswith(">") else None)
                )
            commands = self.commands[start:]
            if self.redirect_count != redirects_before or any(
                words[0].text in self.defined_functions for words in commands
            ):
                return UNKNOWN
            if commands and is_simple_substitution(node) and predicted_output.is_numeric_output(commands[-1]):
                return UNKNOWN_NUMBER
            return predicted_output.predict_text(self.commands[start:], self.state.cwds, self.context)


@contextmanager
def _current_shell() -> Generator[None]:
    yield
