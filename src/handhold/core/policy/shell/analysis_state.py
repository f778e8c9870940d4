"""What the analysis knows at one point of the code: variables, working directories and nesting."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from handhold.core.policy.shell.arithmetic import NUMERIC_VARIABLES
from handhold.core.policy.shell.grammar import AnalysisError
from handhold.core.policy.shell.paths import ShellContext, normalize_path
from handhold.core.policy.shell.placeholders import UNKNOWN, UNKNOWN_NUMBER, is_number
from handhold.core.policy.shell.simple_command import CommandFinding
from handhold.core.policy.shell.variables import find_assignment_risk
from handhold.core.policy.shell.words import SUBSCRIPT_CODE, Word

MAX_ANALYZED_COMMANDS = 400  # counting each wrapper and each loop iteration
MAX_NESTING = 30  # of statements, including nested code
IFS_VARIABLE = "IFS"  # while it is changed, how values are split is unknown


class AnalysisLimitExceeded(AnalysisError):
    """The code is too large to analyze further."""


@dataclass(frozen=True)
class AnalysisState:
    """What is known at one point of the code."""

    variables: dict[str, str]
    cwds: frozenset[str]
    associative_arrays: frozenset[str] = frozenset()  # arrays whose subscripts are strings

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


class StateTracker:
    """The current state, and the findings so far."""

    def __init__(self, context: ShellContext) -> None:
        self.context = context
        self.findings: list[CommandFinding] = []
        self.assigned_names: set[str] = set()
        self.untracked_names: set[str] = set()
        self.state = AnalysisState(self._initial_variables(), frozenset((normalize_path(context.cwd),)))
        self.depth = 0

    def _initial_variables(self) -> dict[str, str]:
        home = {"HOME": self.context.home} if self.context.home else {}
        return {"PWD": self.context.cwd, "TMPDIR": "/tmp", "PATH": "/usr/bin:/bin", **home}

    def _lookup(self, name: str) -> str | None:
        if name in self.untracked_names or IFS_VARIABLE in self.state.variables or IFS_VARIABLE in self.untracked_names:
            return None
        return self.state.variables.get(name)

    def _lookup_operand(self, name: str) -> str | None:
        """A variable's value where it is evaluated, without splitting."""
        if name in NUMERIC_VARIABLES and name not in self.assigned_names:
            return UNKNOWN_NUMBER
        return None if name in self.untracked_names else self.state.variables.get(name)

    def assign_variable(self, name: str, value: Word) -> None:
        """Set a variable, which may be one that decides what runs."""
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
        """Discard state changes afterwards, as a subshell does."""
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
                raise AnalysisLimitExceeded("it is nested too deeply to analyze")
            yield
        finally:
            self.depth -= 1
