"""A walk through a text in the order in which a shell would run it, without running any of it.

It keeps what is known meanwhile: the folder, and variables that were set to something known. Where a text may take two
ways, what differs between them is no longer known. Every simple command is handed to whoever knows its program.
"""

import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, pairwise
from typing import TYPE_CHECKING

from handhold.core.policy.shell import predicted_output
from handhold.core.policy.shell.arithmetic import COMPARISONS, NUMERIC_VARIABLES, check_key
from handhold.core.policy.shell.grammar import DROPPED_DASH, AnalysisError, SyntaxTree, iter_nodes, parse
from handhold.core.policy.shell.heredocs import read_heredoc
from handhold.core.policy.shell.nodes import (
    get_bodies,
    get_destinations,
    is_simple_substitution,
    iter_tokens,
    split_after_heredoc,
    split_list,
)
from handhold.core.policy.shell.paths import ShellContext, normalize_path
from handhold.core.policy.shell.placeholders import ELLIPSIS, PLACEHOLDERS, UNKNOWN, UNKNOWN_NUMBER, is_number
from handhold.core.policy.shell.programs import analyze_program
from handhold.core.policy.shell.simple_command import CommandFinding, SimpleCommand, StdinContent
from handhold.core.policy.shell.variables import find_assignment_risk
from handhold.core.policy.shell.words import SUBSCRIPT_CODE, Word, WordExpander, split_words

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_ANALYZED_COMMANDS = 400  # commands looked at, each wrapper and each round of a loop counted
MAX_NESTING = 30  # statements within statements, also of texts within texts
MAX_LOOP_WORDS = 12  # of a loop over known words
IFS_VARIABLE = "IFS"  # while it is another than at first, nobody knows what a value is split into
WRITE_OPERATORS = frozenset((">", ">>", ">|", "&>", "&>>", ">&", "<>"))
RESERVED_WORDS = split_words(
    "if then else elif fi do done case esac while until for select function in coproc { } ! [[ ]]"
)


_EVALUATING_OPERATOR = re.compile(r"(?<=\s)-(?:eq|ne|lt|le|gt|ge|v|R)(?=\s)")


class AnalysisLimitExceeded(AnalysisError):
    """It is not worth going on."""


@dataclass(frozen=True)
class AnalysisState:
    """What is known at one point of the text."""

    variables: dict[str, str]
    cwds: frozenset[str]
    associative_arrays: frozenset[str] = frozenset()  # arrays whose subscripts are texts

    def join(self, other: "AnalysisState") -> "AnalysisState":
        same: dict[str, str] = {}
        for name, value in self.variables.items():
            other_value = other.variables.get(name)
            if other_value == value:
                same[name] = value
            elif other_value is not None and is_number(value) and is_number(other_value):
                same[name] = UNKNOWN_NUMBER
        if IFS_VARIABLE in self.variables or IFS_VARIABLE in other.variables:
            same[IFS_VARIABLE] = UNKNOWN
        return AnalysisState(same, self.cwds | other.cwds, self.associative_arrays & other.associative_arrays)


@dataclass(frozen=True)
class InheritedContext:
    """What a statement gets from where it stands: its input, redirections and words that follow it."""

    stdin: StdinContent | None = None
    background: bool = False
    redirects: tuple["Node", ...] = ()
    extra_words: tuple["Node", ...] = ()
    dropped_words: tuple[Word, ...] = ()  # that the grammar's parser did not see


class ShellAnalyzer:
    def __init__(self, context: ShellContext) -> None:
        self.context = context
        self.findings: list[CommandFinding] = []
        self.commands: list[tuple[Word, ...]] = []
        self.function_stack: list[str] = []
        self.defined_functions: set[str] = set()
        self.assigned_names: set[str] = set()
        self.redirect_count = 0  # outputs that went elsewhere
        self.untracked_names: set[str] = set()
        self.state = AnalysisState(self._initial_variables(), frozenset((normalize_path(context.cwd),)))
        self.depth = self.loop_rounds = 0
        self.expander = self._make_expander(SyntaxTree.from_text(""))

    def _initial_variables(self) -> dict[str, str]:
        home = {"HOME": self.context.home} if self.context.home else {}
        return {"PWD": self.context.cwd, "TMPDIR": "/tmp", "PATH": "/usr/bin:/bin", **home}

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

    # --- what is known

    def _lookup(self, name: str) -> str | None:
        if name in self.untracked_names or IFS_VARIABLE in self.state.variables or IFS_VARIABLE in self.untracked_names:
            return None
        return self.state.variables.get(name)

    def _lookup_operand(self, name: str) -> str | None:
        """What a variable holds where it is evaluated: it is not split."""
        if name in NUMERIC_VARIABLES and name not in self.assigned_names:
            return UNKNOWN_NUMBER
        return None if name in self.untracked_names else self.state.variables.get(name)

    def assign_variable(self, name: str, value: Word) -> None:
        """A variable is set. It may be one that decides what runs."""
        if because := find_assignment_risk(name, value):
            self.add_finding(CommandFinding("unknown", because))
        if SUBSCRIPT_CODE.search(value.text):
            raise AnalysisError("a subscript in it would be run as code")
        self.assigned_names.add(name)
        values = {each: text for each, text in self.state.variables.items() if each != name}
        if UNKNOWN not in value.text or name == IFS_VARIABLE:
            values[name] = value.text
        self.state = replace(self.state, variables=values)

    def change_directory(self, path: str) -> None:
        if path.startswith(UNKNOWN):
            cwds = frozenset((UNKNOWN,))
        elif path.startswith("/"):
            cwds = frozenset((normalize_path(path),))
        else:
            cwds = frozenset(at if at == UNKNOWN else normalize_path(f"{at}/{path}") for at in self.state.cwds)
        values = {name: value for name, value in self.state.variables.items() if name != "PWD"}
        if len(cwds) == 1 and UNKNOWN not in (only := next(iter(cwds))):
            values["PWD"] = only
        self.state = replace(self.state, variables=values, cwds=cwds)

    def add_finding(self, finding: CommandFinding) -> None:
        self.findings.append(finding)

    @contextmanager
    def _subshell(self) -> Generator[None]:
        """What happens here does not last: a shell within the shell."""
        before = self.state
        try:
            yield
        finally:
            self.state = before

    @contextmanager
    def _nested(self) -> Generator[None]:
        self.depth += 1
        try:
            if self.depth > MAX_NESTING:
                raise AnalysisLimitExceeded("it is nested too deeply to look at")
            yield
        finally:
            self.depth -= 1

    # --- texts

    def analyze_text(self, text: str) -> None:
        """All of a text, in what is known now."""
        tree = parse(text)
        before, self.expander = self.expander, self._make_expander(tree)
        try:
            with self._nested():
                self._visit_sequence(tree.root.children, InheritedContext())
        finally:
            self.expander = before

    def analyze_script(self, text: str, command: SimpleCommand) -> None:
        """Code for a shell: of its own, except for `eval`."""
        if command.name == "eval":
            self.analyze_text(text)
            return
        with self._subshell():
            self.state = AnalysisState(self._initial_variables(), command.cwds)
            self.analyze_text(text)

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
            case "command":
                self._visit_command(node, inherited)
            case "redirected_statement":
                self._visit_redirected(node, inherited)
            case "list":
                self._visit_list(node, inherited)
            case "pipeline":
                self._visit_pipeline([part for part in node.children if part.is_named], inherited)
            case "negated_command":
                self._visit_sequence(node.children, inherited)
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
            case "ERROR":
                raise AnalysisError("it is not complete")
            case _:
                self._visit_compound(node, inherited)

    def _visit_compound(self, node: "Node", inherited: InheritedContext) -> None:
        inner = InheritedContext(self._apply_redirects(inherited), inherited.background)
        if inherited.extra_words or inherited.dropped_words:
            raise AnalysisError("words stand where none belong")
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
                raise AnalysisError(f"it holds a {kind.replace('_', ' ')}, which is not looked into")

    def _visit_list(self, node: "Node", inherited: InheritedContext) -> None:
        """`a && b || c`: what comes later may not run."""
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
        """A loop: what one round leaves, the next one finds, until a round leaves nothing new."""
        for iteration in count():
            self.loop_rounds += 1
            if self.loop_rounds > MAX_ANALYZED_COMMANDS:
                raise AnalysisLimitExceeded("its loops have too many rounds to look at")
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
        """`for ((first; condition; last))`."""
        delimiters = [part for part in node.children if part.type in ("((", ";", "))")][:4]
        if [part.type for part in delimiters] != ["((", ";", ";", "))"]:
            raise AnalysisError("a loop in it cannot be read")
        first, condition, last = [(left.end_byte, right.start_byte) for left, right in pairwise(delimiters)]
        expander = self.expander

        def visit_body() -> None:
            expander.evaluate(expander.expand_operands(node, *condition))
            self._visit_sequence(get_bodies(node), inherited)
            expander.evaluate(expander.expand_operands(node, *last))

        expander.evaluate(expander.expand_operands(node, *first))
        self._iterate_to_fixpoint(visit_body)

    def _visit_function(self, node: "Node", inherited: InheritedContext) -> None:
        """Looked into where it is made, whoever calls it later: its arguments are holes."""
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

    # --- redirections

    def _visit_redirected(self, node: "Node", inherited: InheritedContext) -> None:
        """Redirections stand behind the last command of what they follow, and words may stand behind them."""
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
            raise AnalysisError("a word of it cannot be read")
        return (Word("-"),)

    def _visit_after_heredoc(self, parts: Sequence["Node"], inherited: InheritedContext, stdin: StdinContent) -> None:
        """What stands on the line of a heredoc's beginning, after a `|` or `&&`."""
        for part in parts:
            if part.type == "pipeline":
                self._visit_pipeline(
                    [each for each in part.children if each.is_named], InheritedContext(stdin, inherited.background)
                )
            else:
                self._visit_statement(part, InheritedContext(inherited.stdin, inherited.background))

    def _apply_redirects(self, inherited: InheritedContext) -> StdinContent | None:
        """What the redirections read and write; the input that they leave."""
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
                    raise AnalysisError("a redirection in it cannot be read")
        return stdin

    def _apply_file_redirect(self, node: "Node", stdin: StdinContent | None) -> StdinContent | None:
        operators = [part.type for part in node.children if not part.is_named]
        targets = get_destinations(node)
        operator = operators[0] if operators else ""
        if operator in (">&-", "<&-") or not targets:
            return stdin
        words = self.expander.expand_words(targets[0])
        if len(words) != 1 or words[0].can_split:
            raise AnalysisError("where it would write is not known before it runs")
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
            raise AnalysisError("a redirection in it cannot be read")
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
            raise AnalysisError("a word of the shell's grammar stands where a program should")
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
        """One command, also one that another command runs."""
        self.commands.append(command.words)
        if len(self.commands) > MAX_ANALYZED_COMMANDS:
            raise AnalysisLimitExceeded("it runs too many commands to look at")
        word = command.words[0]
        if not word.is_known or word.has_glob or ELLIPSIS in word.text or not word.text:
            raise AnalysisError("which program it would run is not known before it runs")
        if word.text in self.function_stack:
            command.report_dangerous(f"the function `{word.display_text}` calls itself")
            return
        with self._nested():
            analyze_program(command)

    def _visit_assignment(self, node: "Node") -> None:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None or self.expander.tree.get_text(name)[:1].isdigit():
            raise AnalysisError("a variable of it cannot be read")
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
            raise AnalysisError("a condition in it cannot be read")
        self.commands.append((Word("[" if is_single_bracket else "[["),))

    def _evaluate_test_operands(self, node: "Node", *, is_single_bracket: bool) -> None:
        """Operands that a condition evaluates: of -v, and between `[[` and `]]` those of a comparison of numbers."""
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
            raise AnalysisError("a condition in it cannot be read")

    def check_variable_name(self, text: str) -> None:
        """The name of a variable, as a builtin reads it; Unsure if it holds a subscript that may run code."""
        name, bracket, rest = text.partition("[")
        if PLACEHOLDERS.search(name) or re.search("[*?]", name):  # a pattern may have become the name of a file
            raise AnalysisError("which variable it names is not known before it runs")
        if bracket and name in self.state.associative_arrays:
            check_key(rest)
        elif bracket and rest.rstrip("]") not in ("@", "*"):
            self.evaluate_arithmetic(rest)

    def evaluate_arithmetic(self, text: str) -> None:
        self.expander.evaluate(text)

    def _reject_words(self, inherited: InheritedContext) -> None:
        if inherited.extra_words or inherited.dropped_words:
            raise AnalysisError("words stand where none belong")
        self._apply_redirects(inherited)

    # --- substitutions

    def _substitute(self, node: "Node") -> str:
        text = self.expander.tree.get_expansion_text(node)
        if text.startswith("`") and "\\" in text:
            raise AnalysisError("a substitution in it cannot be read")
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
