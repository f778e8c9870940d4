"""Words for the errors that a change made: one line each, after everything else in the reply."""

from collections.abc import Iterator, Sequence

from handhold.core.problems import Problem, Problems
from handhold.dialects.formatting import pluralize, truncate

MAX_MESSAGE_CHARS = 120


def format_problems(problems: Problems) -> Iterator[str]:
    """Plain words, for dialects without their own."""
    if problems.told:
        yield f"[{describe_cause(problems.told)}:]"
        yield from map(format_problem, problems.told)
        if problems.total > len(problems.told):
            yield f"[{format_rest(problems)}.]"
    for note in problems.unchecked:
        yield f"[{note}.]"


def describe_cause(told: Sequence[Problem]) -> str:
    kinds = sorted({each.source for each in told})
    return "New errors after your changes" + ("" if kinds == ["syntax"] else f" ({', '.join(kinds)})")


def format_problem(problem: Problem) -> str:
    """a.py:3:7: '(' was never closed | x = (1"""
    place = f"{truncate(problem.path)}{f' cell {problem.cell}, line ' if problem.cell else ':'}{problem.line}"
    column = f":{problem.column}" if problem.column and not problem.cell else ""
    text = f" | {problem.text}" if problem.text else ""
    return f"{place}{column}: {truncate(problem.message, MAX_MESSAGE_CHARS)}{text}"


def format_rest(problems: Problems) -> str:
    more = problems.total - len(problems.told)
    return f"{pluralize(more, 'more error')}, in {pluralize(problems.files, 'file')} altogether"


def format_refusal(problems: Sequence[Problem], total: int, files: int) -> str:
    rest = f"\n[{format_rest(Problems(tuple(problems), total, files))}.]" if total > len(problems) else ""
    return "\n".join(map(format_problem, problems)) + rest
