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

from handhold.core.policy.shell import printed
from handhold.core.policy.shell.arithmetic import COMPARISONS, NUMBERS, check_key
from handhold.core.policy.shell.call import Call, Feed, Finding
from handhold.core.policy.shell.grammar import LOST, Source, Unsure, every, parse
from handhold.core.policy.shell.heredocs import heredoc
from handhold.core.policy.shell.marks import HOLE, MARKS, NUMBER, SHOWN, is_number
from handhold.core.policy.shell.nodes import behind_heredoc, bodies, destinations, ends_simply, three, tokens
from handhold.core.policy.shell.places import Standing, normal
from handhold.core.policy.shell.programs import judge
from handhold.core.policy.shell.variables import why_it_rules
from handhold.core.policy.shell.words import EVALUATED, Reader, Word, listed

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_RUNS = 400  # commands looked at, each wrapper and each round of a loop counted
DEEPEST = 30  # statements within statements, also of texts within texts
MOST_ROUNDS = 12  # of a loop over known words
SPLITS = "IFS"  # while it is another than at first, nobody knows what a value is split into
WRITING = frozenset((">", ">>", ">|", "&>", "&>>", ">&", "<>"))
RESERVED = listed("if then else elif fi do done case esac while until for select function in coproc { } ! [[ ]]")


_EVALUATING = re.compile(r"(?<=\s)-(?:eq|ne|lt|le|gt|ge|v|R)(?=\s)")


class Enough(Unsure):
    """It is not worth going on."""


@dataclass(frozen=True)
class Known:
    """What is known at one point of the text."""

    values: dict[str, str]
    folders: frozenset[str]
    associative: frozenset[str] = frozenset()  # arrays whose subscripts are texts

    def joined(self, other: "Known") -> "Known":
        same: dict[str, str] = {}
        for name, value in self.values.items():
            there = other.values.get(name)
            if there == value:
                same[name] = value
            elif there is not None and is_number(value) and is_number(there):
                same[name] = NUMBER
        if SPLITS in self.values or SPLITS in other.values:
            same[SPLITS] = HOLE
        return Known(same, self.folders | other.folders, self.associative & other.associative)


@dataclass(frozen=True)
class Around:
    """What a statement gets from where it stands: its input, redirections and words that follow it."""

    feed: Feed | None = None
    background: bool = False
    redirects: tuple["Node", ...] = ()
    words: tuple["Node", ...] = ()
    lost: tuple[Word, ...] = ()  # that the grammar's parser did not see


class Walk:
    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.findings: list[Finding] = []
        self.commands: list[tuple[Word, ...]] = []
        self.defining: list[str] = []
        self.functions: set[str] = set()
        self.ever_assigned: set[str] = set()
        self.redirected = 0  # outputs that went elsewhere
        self.never_known: set[str] = set()
        self.known = Known(self._at_first(), frozenset((normal(standing.folder),)))
        self.deep = self.rounds = 0
        self.reader = self._reader(Source.read(""))

    def _at_first(self) -> dict[str, str]:
        home = {"HOME": self.standing.home} if self.standing.home else {}
        return {"PWD": self.standing.folder, "TMPDIR": "/tmp", "PATH": "/usr/bin:/bin", **home}

    def _reader(self, source: Source) -> Reader:
        return Reader(
            source,
            self._value,
            self._printed,
            self._operand,
            self.assigned,
            lambda name: name in self.known.associative,
            self.standing.home or HOLE,
        )

    # --- what is known

    def _value(self, name: str) -> str | None:
        if name in self.never_known or SPLITS in self.known.values or SPLITS in self.never_known:
            return None
        return self.known.values.get(name)

    def _operand(self, name: str) -> str | None:
        """What a variable holds where it is evaluated: it is not split."""
        if name in NUMBERS and name not in self.ever_assigned:
            return NUMBER
        return None if name in self.never_known else self.known.values.get(name)

    def assigned(self, name: str, value: Word) -> None:
        """A variable is set. It may be one that decides what runs."""
        if because := why_it_rules(name, value):
            self.found(Finding("unknown", because))
        if EVALUATED.search(value.text):
            raise Unsure("a subscript in it would be run as code")
        self.ever_assigned.add(name)
        values = {each: text for each, text in self.known.values.items() if each != name}
        if HOLE not in value.text or name == SPLITS:
            values[name] = value.text
        self.known = replace(self.known, values=values)

    def moved(self, folder: str) -> None:
        if folder.startswith(HOLE):
            folders = frozenset((HOLE,))
        elif folder.startswith("/"):
            folders = frozenset((normal(folder),))
        else:
            folders = frozenset(at if at == HOLE else normal(f"{at}/{folder}") for at in self.known.folders)
        values = {name: value for name, value in self.known.values.items() if name != "PWD"}
        if len(folders) == 1 and HOLE not in (only := next(iter(folders))):
            values["PWD"] = only
        self.known = replace(self.known, values=values, folders=folders)

    def found(self, finding: Finding) -> None:
        self.findings.append(finding)

    @contextmanager
    def _aside(self) -> Generator[None]:
        """What happens here does not last: a shell within the shell."""
        before = self.known
        try:
            yield
        finally:
            self.known = before

    @contextmanager
    def _deeper(self) -> Generator[None]:
        self.deep += 1
        try:
            if self.deep > DEEPEST:
                raise Enough("it is nested too deeply to look at")
            yield
        finally:
            self.deep -= 1

    # --- texts

    def text(self, text: str) -> None:
        """All of a text, in what is known now."""
        source = parse(text)
        before, self.reader = self.reader, self._reader(source)
        try:
            with self._deeper():
                self._sequence(source.root.children, Around())
        finally:
            self.reader = before

    def script(self, text: str, call: Call) -> None:
        """Code for a shell: of its own, except for `eval`."""
        if call.name == "eval":
            self.text(text)
            return
        with self._aside():
            self.known = Known(self._at_first(), call.folders)
            self.text(text)

    # --- statements

    def _sequence(self, nodes: Sequence["Node"], around: Around) -> None:
        for at, node in enumerate(nodes):
            if node.is_named and node.type != "comment":
                ends = nodes[at + 1].type if at + 1 < len(nodes) else ""
                self._statement(node, replace(around, background=around.background or ends == "&"))

    def _statement(self, node: "Node", around: Around) -> None:
        try:
            with self._deeper():
                if around.background:
                    with self._aside():
                        self._visit(node, around)
                else:
                    self._visit(node, around)
        except Enough:
            raise
        except Unsure as unsure:
            self.found(Finding("unknown", unsure.because))

    def _visit(self, node: "Node", around: Around) -> None:
        match node.type:
            case "command":
                self._command(node, around)
            case "redirected_statement":
                self._redirected(node, around)
            case "list":
                self._list(node, around)
            case "pipeline":
                self._pipeline([part for part in node.children if part.is_named], around)
            case "negated_command":
                self._sequence(node.children, around)
            case "variable_assignment":
                self._assignment(node)
                self._no_words(around)
            case "variable_assignments":
                for part in node.named_children:
                    self._assignment(part)
                self._no_words(around)
            case "declaration_command" | "unset_command":
                self._declaration(node)
                self._no_words(around)
            case "test_command":
                self._test(node)
                self._no_words(around)
            case "ERROR":
                raise Unsure("it is not complete")
            case _:
                self._compound(node, around)

    def _compound(self, node: "Node", around: Around) -> None:
        inner = Around(self._redirect(around), around.background)
        if around.words or around.lost:
            raise Unsure("words stand where none belong")
        match node.type:
            case "compound_statement" if node.children[0].type == "((":
                self.reader.arithmetic(node)
            case "compound_statement" | "do_group":
                self._sequence(node.children, inner)
            case "subshell":
                with self._aside():
                    self._sequence(node.children, inner)
            case "if_statement" | "elif_clause" | "else_clause":
                self._condition(node, inner)
            case "case_statement":
                self._case(node, inner)
            case "while_statement":
                self._rounds(lambda: self._sequence(node.children, inner))
            case "for_statement":
                self._for(node, inner)
            case "c_style_for_statement":
                self._counting(node, inner)
            case "function_definition":
                self._function(node, inner)
            case kind:
                raise Unsure(f"it holds a {kind.replace('_', ' ')}, which is not looked into")

    def _list(self, node: "Node", around: Around) -> None:
        """`a && b || c`: what comes later may not run."""
        links: list[tuple[str, Node]] = []
        while node.type == "list":
            left, operator, right = three(node)
            links.insert(0, (operator.type, right))
            node = left
        alone = Around(around.feed, around.background)
        failed = self.known
        self._statement(node, alone)
        reached = ends = self.known
        failed = failed.joined(ends)
        for at, (operator, right) in enumerate(links):
            self.known = reached if operator == "&&" else failed
            self._statement(right, around if at == len(links) - 1 else alone)
            reached = self.known if operator == "&&" else reached.joined(self.known)
            ends, failed = ends.joined(self.known), failed.joined(self.known)
        self.known = ends

    def _pipeline(self, parts: Sequence["Node"], around: Around) -> None:
        feed = around.feed
        for at, part in enumerate(parts):
            last = at == len(parts) - 1
            with self._aside():
                start = len(self.commands)
                elsewhere = self.redirected
                self._statement(part, replace(around, feed=feed) if last else Around(feed, around.background))
                shown = self.redirected == elsewhere
                feed = printed.feed(self.commands[start:], feed, self.known.folders) if shown else Feed()

    def _condition(self, node: "Node", around: Around) -> None:
        thens = [at for at, part in enumerate(node.children) if part.type == "then"]
        split = thens[0] if thens else 0
        self._sequence(node.children[:split], around)
        reached = self.known
        clauses = [part for part in node.children if part.type in ("elif_clause", "else_clause")]
        ends = reached
        for group in [[p for p in node.children[split:] if p not in clauses], *([each] for each in clauses)]:
            self.known = reached
            self._sequence(group, around)
            ends = ends.joined(self.known)
        self.known = ends

    def _case(self, node: "Node", around: Around) -> None:
        reached = ends = self.known
        for part in node.children:
            if part.type == "case_item":
                body = [each for at, each in enumerate(part.children) if part.field_name_for_child(at) != "value"]
                for at, each in enumerate(part.children):
                    if part.field_name_for_child(at) == "value":
                        self.reader.inside(each)
                self.known = reached
                self._sequence(body, around)
                ends = ends.joined(self.known)
            elif part.is_named and part.type != "comment":
                self.reader.inside(part)
        self.known = ends

    def _rounds(self, once: Callable[[], None]) -> None:
        """A loop: what one round leaves, the next one finds, until a round leaves nothing new."""
        for turn in count():
            self.rounds += 1
            if self.rounds > MOST_RUNS:
                raise Enough("its loops have too many rounds to look at")
            before = self.known
            once()
            after = before.joined(self.known)
            wanders = turn > 0 and after.folders != before.folders
            self.known = replace(after, folders=frozenset((HOLE,))) if wanders else after
            if self.known == before:
                return

    def _for(self, node: "Node", around: Around) -> None:
        fields = [(node.field_name_for_child(at), part) for at, part in enumerate(node.children)]
        name = self.reader.source.text(next(part for field, part in fields if field == "variable"))
        words = [word for field, part in fields if field == "value" for word in self.reader.words(part)]
        if not words or len(words) > MOST_ROUNDS:
            words = [Word(NUMBER if words and all(is_number(word.text) for word in words) else HOLE)]
        for word in words:

            def once(word: Word = word) -> None:
                self.assigned(name, replace(word, loose=False))
                self._sequence(bodies(node), around)

            self._rounds(once)

    def _counting(self, node: "Node", around: Around) -> None:
        """`for ((first; condition; last))`."""
        marks = [part for part in node.children if part.type in ("((", ";", "))")][:4]
        if [part.type for part in marks] != ["((", ";", ";", "))"]:
            raise Unsure("a loop in it cannot be read")
        first, condition, last = [(left.end_byte, right.start_byte) for left, right in pairwise(marks)]
        reader = self.reader

        def once() -> None:
            reader.evaluate(reader.expanded(node, *condition))
            self._sequence(bodies(node), around)
            reader.evaluate(reader.expanded(node, *last))

        reader.evaluate(reader.expanded(node, *first))
        self._rounds(once)

    def _function(self, node: "Node", around: Around) -> None:
        """Looked into where it is made, whoever calls it later: its arguments are holes."""
        name = self.reader.source.text(node.children[1] if node.children[0].type == "function" else node.children[0])
        self.defining.append(name)
        self.functions.add(name)
        before, assigned_before = self.known, self.ever_assigned
        self.ever_assigned = set()
        try:
            redirects = tuple(part for part in node.children if part.type.endswith("_redirect"))
            self.known = replace(before, values={}, associative=frozenset())
            self._sequence(bodies(node), replace(around, redirects=redirects))
        finally:
            self.never_known |= self.ever_assigned
            self.ever_assigned |= assigned_before
            self.defining.pop()
            self.known = replace(before, folders=before.folders | self.known.folders)

    # --- redirections

    def _redirected(self, node: "Node", around: Around) -> None:
        """Redirections stand behind the last command of what they follow, and words may stand behind them."""
        body = node.child_by_field_name("body")
        redirects = [part for part in node.children if part != body]
        follow: list[Node] = []
        words: list[Node] = []
        for redirect in redirects:
            if redirect.type == "heredoc_redirect":
                more, behind = behind_heredoc(redirect)
                words += more
                follow += behind
            elif redirect.type == "file_redirect":
                words += destinations(redirect)[1:]
        within = [part for each in redirects for part in each.children if part.type.endswith("_redirect")]
        inner = replace(
            around,
            redirects=(*redirects, *within, *around.redirects),
            words=(*words, *around.words),
            lost=self._lost(node, body, bare=not words and not around.words),
        )
        start = len(self.commands)
        if body is None:
            self._simple([], words, inner)
        else:
            self._visit(body, inner)
        if follow:
            self._behind(follow, around, printed.feed(self.commands[start:], inner.feed, self.known.folders))

    def _lost(self, node: "Node", body: "Node | None", *, bare: bool) -> tuple[Word, ...]:
        if not any(LOST.fullmatch(gap) for gap in self.reader.source.gaps(node)):
            return ()
        behind = node.children[1].type if len(node.children) == 2 else ""
        if body is None or behind != "heredoc_redirect" or not bare:
            raise Unsure("a word of it cannot be read")
        return (Word("-"),)

    def _behind(self, parts: Sequence["Node"], around: Around, feed: Feed) -> None:
        """What stands on the line of a heredoc's beginning, after a `|` or `&&`."""
        for part in parts:
            if part.type == "pipeline":
                self._pipeline([each for each in part.children if each.is_named], Around(feed, around.background))
            else:
                self._statement(part, Around(around.feed, around.background))

    def _redirect(self, around: Around) -> Feed | None:
        """What the redirections read and write; the input that they leave."""
        feed = around.feed
        for node in around.redirects:
            match node.type:
                case "file_redirect":
                    feed = self._file(node, feed)
                case "herestring_redirect":
                    text = self.reader.text_of(node.named_children[-1])
                    feed = Feed(None if HOLE in text else text)
                case "heredoc_redirect":
                    feed = Feed(heredoc(node, self.reader))
                case _:
                    raise Unsure("a redirection in it cannot be read")
        return feed

    def _file(self, node: "Node", feed: Feed | None) -> Feed | None:
        operators = [part.type for part in node.children if not part.is_named]
        targets = destinations(node)
        operator = operators[0] if operators else ""
        if operator in (">&-", "<&-") or not targets:
            return feed
        words = self.reader.words(targets[0])
        if len(words) != 1 or words[0].loose:
            raise Unsure("where it would write is not known before it runs")
        word = words[0]
        if operator not in ("<", "<&") and self.reader.source.text(node.children[0]) != "2":
            self.redirected += 1
        if operator in (">&", "<&") and (word.text.rstrip("-").isdigit() or word.text == "-"):
            return Feed() if operator == "<&" else feed
        call = Call((Word(operator), word), self.standing, self.known.folders, self)
        if operator in WRITING:
            call.writes(word)
            return feed
        if operator not in ("<", "<&"):
            raise Unsure("a redirection in it cannot be read")
        call.reads(word)
        return Feed(file=word.text)

    # --- simple commands

    def _command(self, node: "Node", around: Around) -> None:
        assignments: list[Node] = []
        words: list[Node] = []
        redirects: list[Node] = []
        for part in node.children:
            if part.type == "variable_assignment":
                assignments.append(part)
            elif part.type.endswith("_redirect"):
                redirects.append(part)
                words += destinations(part)[1:]
            else:
                words.append(part.children[0] if part.type == "command_name" else part)
        self._simple(assignments, [*words, *around.words], replace(around, redirects=(*redirects, *around.redirects)))

    def _simple(self, assignments: Sequence["Node"], nodes: Sequence["Node"], around: Around) -> None:
        if nodes and self.reader.source.text(nodes[0]) in RESERVED:
            raise Unsure("a word of the shell's grammar stands where a program should")
        with self._aside() if nodes else _here():
            for node in assignments:
                self._assignment(node)
        words = [*(word for node in nodes for word in self.reader.words(node)), *around.lost]
        feed = self._redirect(around)
        if words:
            self.run(Call(tuple(words), self.standing, self.known.folders, self, feed, around.background))

    def run(self, call: Call) -> None:
        """One command, also one that another command runs."""
        self.commands.append(call.words)
        if len(self.commands) > MOST_RUNS:
            raise Enough("it runs too many commands to look at")
        word = call.words[0]
        if not word.known or word.glob or SHOWN in word.text or not word.text:
            raise Unsure("which program it would run is not known before it runs")
        if word.text in self.defining:
            call.dangerous(f"the function `{word.shown}` calls itself")
            return
        with self._deeper():
            judge(call)

    def _assignment(self, node: "Node") -> None:
        name = node.child_by_field_name("name")
        value = node.child_by_field_name("value")
        if name is None or self.reader.source.text(name)[:1].isdigit():
            raise Unsure("a variable of it cannot be read")
        text = self.reader.source.text(name)
        more = any(part.type == "+=" for part in node.children)
        if name.type != "variable_name":  # name[subscript]
            self.reader.inside(name)
            text, more = text.partition("[")[0], True
        word = self.reader.value_of(value, keys=text in self.known.associative)
        if more:
            numbers = is_number(word.text) and is_number(self._operand(text) or "")
            word = Word(NUMBER if numbers else HOLE)
        self.assigned(text, word)

    def _declaration(self, node: "Node") -> None:
        keyword = self.reader.source.text(node.children[0])
        words: list[Word] = [Word(keyword)]
        names = [self.reader.source.text(part).partition("=")[0] for part in node.children[1:]]
        if keyword == "unset":
            self.known = replace(self.known, associative=frozenset())
        elif any(re.fullmatch(r"-\w*A\w*", name) for name in names):
            new = [name for name in names if name not in self.ever_assigned]
            self.known = replace(self.known, associative=self.known.associative.union(new))
        for part, name in zip(node.children[1:], names, strict=True):
            if part.type == "variable_assignment":
                self._assignment(part)
                words.append(Word(name.partition("[")[0] if "[" in name else self.reader.source.text(part)))
            elif part.type == "variable_name":
                words.append(Word(self.reader.source.text(part)))
            else:
                words += self.reader.words(part)
        self.run(Call(tuple(words), self.standing, self.known.folders, self))

    def _test(self, node: "Node") -> None:
        self.reader.inside(node)
        single = node.children[0].type == "["
        self._evaluated_by(node, single=single)
        if single and any(part.type in ("&&", "||", "<", ">", "(", ")") for part in tokens(node)):
            raise Unsure("a condition in it cannot be read")
        self.commands.append((Word("[" if single else "[["),))

    def _evaluated_by(self, node: "Node", *, single: bool) -> None:
        """Operands that a condition evaluates: of -v, and between `[[` and `]]` those of a comparison of numbers."""
        read = 0
        for part in every(node):
            operators = [self.reader.source.text(each) for each in part.children if each.type == "test_operator"]
            operator = operators[0] if len(operators) == 1 else ""
            read += operator in ("-v", "-R") or operator in COMPARISONS
            if operator in ("-v", "-R"):
                self.check_name(self.reader.expanded(part, part.children[0].end_byte, part.end_byte).strip())
            elif operator in COMPARISONS and not single:
                for each in part.children:
                    self.reader.evaluate(self.reader.operand_of(each) if each.type != "test_operator" else "")
        if len(_EVALUATING.findall(self.reader.source.text(node))) > read:
            raise Unsure("a condition in it cannot be read")

    def check_name(self, text: str) -> None:
        """The name of a variable, as a builtin reads it; Unsure if it holds a subscript that may run code."""
        name, bracket, rest = text.partition("[")
        if MARKS.search(name) or re.search("[*?]", name):  # a pattern may have become the name of a file
            raise Unsure("which variable it names is not known before it runs")
        if bracket and name in self.known.associative:
            check_key(rest)
        elif bracket and rest.rstrip("]") not in ("@", "*"):
            self.evaluate(rest)

    def evaluate(self, text: str) -> None:
        self.reader.evaluate(text)

    def _no_words(self, around: Around) -> None:
        if around.words or around.lost:
            raise Unsure("words stand where none belong")
        self._redirect(around)

    # --- substitutions

    def _printed(self, node: "Node") -> str:
        text = self.reader.source.expansion(node)
        if text.startswith("`") and "\\" in text:
            raise Unsure("a substitution in it cannot be read")
        start, elsewhere = len(self.commands), self.redirected
        with self._aside():
            if bare := [part for part in node.children if part.type.endswith("_redirect")]:
                self._simple([], [], Around(redirects=tuple(bare)))
                return HOLE
            with self._deeper():
                self._sequence(node.children[1:-1], Around(Feed() if text.startswith(">") else None))
            ran = self.commands[start:]
            if self.redirected != elsewhere or any(words[0].text in self.functions for words in ran):
                return HOLE
            if ran and ends_simply(node) and printed.is_numeric(ran[-1]):
                return NUMBER
            return printed.text(self.commands[start:], self.known.folders, self.standing)


@contextmanager
def _here() -> Generator[None]:
    yield
