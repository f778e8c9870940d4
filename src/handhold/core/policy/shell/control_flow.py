"""Track state through the lists, pipelines, branches, loops and functions of shell code."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

from handhold.core.policy.shell import predicted_output
from handhold.core.policy.shell.analysis_state import MAX_ANALYZED_COMMANDS, AnalysisLimitExceeded, StateTracker
from handhold.core.policy.shell.grammar import AnalysisError, SyntaxTree
from handhold.core.policy.shell.nodes import get_bodies, split_list
from handhold.core.policy.shell.paths import ShellContext
from handhold.core.policy.shell.placeholders import UNKNOWN, UNKNOWN_NUMBER, is_number
from handhold.core.policy.shell.simple_command import CommandFinding, StdinContent
from handhold.core.policy.shell.words import Word, WordExpander

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_LOOP_WORDS = 12  # longer loops are not unrolled


@dataclass(frozen=True)
class InheritedContext:
    """What a statement inherits from its context: standard input, redirections, and words that follow it."""

    stdin: StdinContent | None = None
    background: bool = False
    redirects: tuple["Node", ...] = ()
    extra_words: tuple["Node", ...] = ()
    dropped_words: tuple[Word, ...] = ()  # words that the parser lost


class ControlFlow(StateTracker, ABC):
    """Visits compound statements; the subclass visits the others."""

    def __init__(self, context: ShellContext) -> None:
        super().__init__(context)
        self.commands: list[tuple[Word, ...]] = []
        self.function_stack: list[str] = []
        self.defined_functions: set[str] = set()
        self.redirect_count = 0  # redirected outputs
        self.loop_rounds = 0
        self.expander = self._make_expander(SyntaxTree.from_text(""))

    def _make_expander(self, tree: SyntaxTree) -> WordExpander:
        return WordExpander(
            tree,
            self._lookup,
            self._substitute,
            self._lookup_operand,
            self.assign_variable,
            lambda name: name in self.state.associative_arrays,
            self.context.home or UNKNOWN,
        )

    @abstractmethod
    def _substitute(self, node: "Node") -> str: ...

    @abstractmethod
    def _apply_redirects(self, inherited: InheritedContext) -> StdinContent | None:
        """Check what the redirections read and write; return the resulting standard input."""

    # --- statements

    def _visit_sequence(self, nodes: Sequence["Node"], inherited: InheritedContext) -> None:
        for at, node in enumerate(nodes):
            if node.is_named and node.type != "comment":
                ends = nodes[at + 1].type if at + 1 < len(nodes) else ""
                self._visit_statement(node, replace(inherited, background=inherited.background or ends == "&"))

    def _visit_statement(self, node: "Node", inherited: InheritedContext) -> None:
        try:
            with self._nested():
                if inherited.background:
                    with self._subshell():
                        self._visit(node, inherited)
                else:
                    self._visit(node, inherited)
        except AnalysisLimitExceeded:
            raise
        except AnalysisError as error:
            self.add_finding(CommandFinding("unknown", error.because))

    def _visit(self, node: "Node", inherited: InheritedContext) -> None:
        match node.type:
            case "list":
                self._visit_list(node, inherited)
            case "pipeline":
                self._visit_pipeline([part for part in node.children if part.is_named], inherited)
            case "negated_command":
                self._visit_sequence(node.children, inherited)
            case "ERROR":
                raise AnalysisError("it is incomplete")
            case _:
                self._visit_compound(node, inherited)

    def _visit_compound(self, node: "Node", inherited: InheritedContext) -> None:
        inner = InheritedContext(self._apply_redirects(inherited), inherited.background)
        if inherited.extra_words or inherited.dropped_words:
            raise AnalysisError("it has words in an unexpected place")
        match node.type:
            case "compound_statement" if node.children[0].type == "((":
                self.expander.evaluate_node(node)
            case "compound_statement" | "do_group":
                self._visit_sequence(node.children, inner)
            case "subshell":
                with self._subshell():
                    self._visit_sequence(node.children, inner)
            case "if_statement" | "elif_clause" | "else_clause":
                self._visit_if(node, inner)
            case "case_statement":
                self._visit_case(node, inner)
            case "while_statement":
                self._iterate_to_fixpoint(lambda: self._visit_sequence(node.children, inner))
            case "for_statement":
                self._visit_for(node, inner)
            case "c_style_for_statement":
                self._visit_c_style_for(node, inner)
            case "function_definition":
                self._visit_function(node, inner)
            case kind:
                raise AnalysisError(f"it contains a {kind.replace('_', ' ')}, which is not analyzed")

    def _visit_list(self, node: "Node", inherited: InheritedContext) -> None:
        """`a && b || c`: later commands may not run."""
        links: list[tuple[str, Node]] = []
        while node.type == "list":
            left, operator, right = split_list(node)
            links.insert(0, (operator.type, right))
            node = left
        without_redirects = InheritedContext(inherited.stdin, inherited.background)
        state_if_failed = self.state
        self._visit_statement(node, without_redirects)
        state_if_reached = end_state = self.state
        state_if_failed = state_if_failed.join(end_state)
        for at, (operator, right) in enumerate(links):
            self.state = state_if_reached if operator == "&&" else state_if_failed
            self._visit_statement(right, inherited if at == len(links) - 1 else without_redirects)
            state_if_reached = self.state if operator == "&&" else state_if_reached.join(self.state)
            end_state, state_if_failed = end_state.join(self.state), state_if_failed.join(self.state)
        self.state = end_state

    def _visit_pipeline(self, parts: Sequence["Node"], inherited: InheritedContext) -> None:
        stdin = inherited.stdin
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            with self._subshell():
                start = len(self.commands)
                redirects_before = self.redirect_count
                self._visit_statement(
                    part, replace(inherited, stdin=stdin) if last else InheritedContext(stdin, inherited.background)
                )
                is_piped = self.redirect_count == redirects_before
                stdin = (
                    predicted_output.predict_stdin(self.commands[start:], stdin, self.state.cwds)
                    if is_piped
                    else StdinContent()
                )

    def _visit_if(self, node: "Node", inherited: InheritedContext) -> None:
        thens = [at for at, part in enumerate(node.children) if part.type == "then"]
        split = thens[0] if thens else 0
        self._visit_sequence(node.children[:split], inherited)
        start_state = self.state
        clauses = [part for part in node.children if part.type in ("elif_clause", "else_clause")]
        end_state = start_state
        for group in [[p for p in node.children[split:] if p not in clauses], *([each] for each in clauses)]:
            self.state = start_state
            self._visit_sequence(group, inherited)
            end_state = end_state.join(self.state)
        self.state = end_state

    def _visit_case(self, node: "Node", inherited: InheritedContext) -> None:
        start_state = end_state = self.state
        for part in node.children:
            if part.type == "case_item":
                body = [each for at, each in enumerate(part.children) if part.field_name_for_child(at) != "value"]
                for at, each in enumerate(part.children):
                    if part.field_name_for_child(at) == "value":
                        self.expander.check_substitutions(each)
                self.state = start_state
                self._visit_sequence(body, inherited)
                end_state = end_state.join(self.state)
            elif part.is_named and part.type != "comment":
                self.expander.check_substitutions(part)
        self.state = end_state

    def _iterate_to_fixpoint(self, visit_body: Callable[[], None]) -> None:
        """Analyze a loop body until an iteration no longer changes the state."""
        for iteration in count():
            self.loop_rounds += 1
            if self.loop_rounds > MAX_ANALYZED_COMMANDS:
                raise AnalysisLimitExceeded("its loops have too many iterations to analyze")
            before = self.state
            visit_body()
            after = before.join(self.state)
            changes_cwd = iteration > 0 and after.cwds != before.cwds
            self.state = replace(after, cwds=frozenset((UNKNOWN,))) if changes_cwd else after
            if self.state == before:
                return

    def _visit_for(self, node: "Node", inherited: InheritedContext) -> None:
        fields = [(node.field_name_for_child(at), part) for at, part in enumerate(node.children)]
        name = self.expander.tree.get_text(next(part for field, part in fields if field == "variable"))
        words = [word for field, part in fields if field == "value" for word in self.expander.expand_words(part)]
        if not words or len(words) > MAX_LOOP_WORDS:
            words = [Word(UNKNOWN_NUMBER if words and all(is_number(word.text) for word in words) else UNKNOWN)]
        for word in words:

            def visit_body(word: Word = word) -> None:
                self.assign_variable(name, replace(word, can_split=False))
                self._visit_sequence(get_bodies(node), inherited)

            self._iterate_to_fixpoint(visit_body)

    def _visit_c_style_for(self, node: "Node", inherited: InheritedContext) -> None:
        """`for ((init; condition; step))`."""
        delimiters = [part for part in node.children if part.type in ("((", ";", "))")][:4]
        if [part.type for part in delimiters] != ["((", ";", ";", "))"]:
            raise AnalysisError("a loop in it cannot be parsed")
        first, condition, last = [(left.end_byte, right.start_byte) for left, right in pairwise(delimiters)]
        expander = self.expander

        def visit_body() -> None:
            expander.evaluate(expander.expand_operands(node, *condition))
            self._visit_sequence(get_bodies(node), inherited)
            expander.evaluate(expander.expand_operands(node, *last))

        expander.evaluate(expander.expand_operands(node, *first))
        self._iterate_to_fixpoint(visit_body)

    def _visit_function(self, node: "Node", inherited: InheritedContext) -> None:
        """Analyze a function where it is defined, with unknown arguments."""
        name = self.expander.tree.get_text(
            node.children[1] if node.children[0].type == "function" else node.children[0]
        )
        self.function_stack.append(name)
        self.defined_functions.add(name)
        before, assigned_before = self.state, self.assigned_names
        self.assigned_names = set()
        try:
            redirects = tuple(part for part in node.children if part.type.endswith("_redirect"))
            self.state = replace(before, variables={}, associative_arrays=frozenset())
            self._visit_sequence(get_bodies(node), replace(inherited, redirects=redirects))
        finally:
            self.untracked_names |= self.assigned_names
            self.assigned_names |= assigned_before
            self.function_stack.pop()
            self.state = replace(before, cwds=before.cwds | self.state.cwds)
