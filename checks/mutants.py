"""Small changes of the code, made by rule in a running process, and the tests that notice them.

A mutant changes one function, one constant, one field of a value, or one declared tool. It is planted in a forked
process in which everything is loaded already, so that trying one takes little more than the tests that run then.
"""

import ast
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from pathlib import Path
from time import monotonic
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

PROJECT = Path(__file__).parents[1]
CODE = PROJECT / "src/handhold"
SLOWER, GRACE_SECONDS = 10, 20  # a test that takes so many times its time with a mutant, and more, has noticed it
OUR_BUG = "AssertionError|unhandled_tool_error"
OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Mutant:
    """`plant` changes this process; `code` is the function that must run for a test to notice it, if there is one."""

    name: str
    plant: Callable[[], object]
    code: CodeType | None = None


# --- functions


@cache
def parse(file: str) -> ast.Module:
    tree = ast.parse(Path(file).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Slice):
            for each in ast.walk(node.slice):
                vars(each)["is_index"] = True
    return tree


def find_functions(modules: Sequence[ModuleType]) -> dict[CodeType, FunctionType]:
    """The functions and methods of modules, by their code."""
    found: dict[CodeType, FunctionType] = {}
    for module in modules:
        for value in list(vars(module).values()):
            members = vars(value).values() if isinstance(value, type) else (value,)
            for member in members:
                function = unwrap(member)
                if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                    found[function.__code__] = function
    return found


def unwrap(member: object) -> object:
    match member:
        case property():
            return member.fget
        case cached_property():
            return member.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        case staticmethod() | classmethod():
            return member.__func__  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        case _:
            return getattr(member, "__wrapped__", member)


def mutate_function(function: FunctionType, operators: Sequence["Operator"]) -> Iterator[Mutant]:
    """One mutant for each place in a function to which an operator applies."""
    code = function.__code__
    original = find_node(parse(code.co_filename), code)
    if original is None:
        return
    path = Path(code.co_filename).relative_to(PROJECT)
    body = list_body(original)
    for index, node in enumerate(ast.walk(original)):
        if node not in body:
            continue
        for operator in operators:
            if operator(deepcopy(node)) is not None:

                def plant(index: int = index, operator: Operator = operator) -> None:
                    tree = deepcopy(parse(code.co_filename))
                    here = find_node(tree, code)
                    assert here
                    target = list(ast.walk(here))[index]
                    changed = operator(target)
                    Replace(target, changed).visit(here)
                    compiled = compile(ast.fix_missing_locations(tree), code.co_filename, "exec")
                    function.__code__ = find_code(compiled, code)

                line = getattr(node, "lineno", code.co_firstlineno)
                yield Mutant(f"{path}:{line} {code.co_qualname}: {operator.__name__}", plant, code)


def find_node(tree: ast.Module, code: CodeType) -> ast.FunctionDef | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first == code.co_firstlineno:
                return node
    return None


def find_code(within: CodeType, like: CodeType) -> CodeType:
    waiting = [within]
    while waiting:
        each = waiting.pop()
        if (each.co_qualname, each.co_firstlineno) == (like.co_qualname, like.co_firstlineno):
            return each
        waiting += (const for const in each.co_consts if isinstance(const, CodeType))
    raise LookupError(like.co_qualname)


def list_body(function: ast.FunctionDef) -> set[ast.AST]:
    """What the code of a function is made of: no defaults, decorators, annotations or docstring."""
    statements = function.body[ast.get_docstring(function) is not None :]
    return {node for statement in statements for node in ast.walk(statement)}


REMOVED = ast.Pass()


class Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST | None) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        if node is self.old:
            return None if self.new is REMOVED else self.new
        return self.generic_visit(node)


# --- operators: the changed node, or None if they do not apply

Operator = Callable[[Any], ast.AST | None]


def one_more(node: Any) -> ast.AST | None:
    return move_limit(node, 1)


def one_less(node: Any) -> ast.AST | None:
    return move_limit(node, -1)


def move_limit(node: Any, by: int) -> ast.AST | None:
    """Another number; which element of a value is meant is no limit."""
    value: Any = node.value if isinstance(node, ast.Constant) and "is_index" not in vars(node) else None
    return ast.copy_location(ast.Constant(value + by), node) if type(value) in (int, float) else None


def flipped_flag(node: Any) -> ast.AST | None:
    is_flag = isinstance(node, ast.Constant) and isinstance(node.value, bool)
    return ast.copy_location(ast.Constant(not node.value), node) if is_flag else None


def disconnected_argument(node: Any) -> ast.AST | None:
    """A call without one of its keywords; without a default it fails, which is noticed as well."""
    return REMOVED if isinstance(node, ast.keyword) and node.arg is not None else None


def silent_refusal(node: Any) -> ast.AST | None:
    """Without a refusal; a bug of ours is none, and of an error that is only translated something else is left."""
    if not isinstance(node, ast.Raise) or node.exc is None or node.cause or re.search(OUR_BUG, ast.unparse(node)):
        return None
    return ast.copy_location(ast.Pass(), node)


def opposite(node: Any) -> ast.AST | None:
    if not isinstance(node, ast.Compare) or type(node.ops[0]) not in OPPOSITES:
        return None
    return ast.copy_location(
        ast.Compare(node.left, [OPPOSITES[type(node.ops[0])](), *node.ops[1:]], node.comparators), node
    )


def other_condition(node: Any) -> ast.AST | None:
    if not isinstance(node, ast.If | ast.IfExp):
        return None
    node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    return node


def no_result(node: Any) -> ast.AST | None:
    is_result = isinstance(node, ast.Return) and node.value is not None
    return ast.copy_location(ast.Return(None), node) if is_result else None


def other_text(node: Any) -> ast.AST | None:
    value: Any = node.value if isinstance(node, ast.Constant) else None
    return ast.copy_location(ast.Constant(change_text(value)), node) if isinstance(value, str) and value else None


BEHAVIOUR: Sequence[Operator] = (one_more, one_less, flipped_flag, disconnected_argument, silent_refusal)
EVERYTHING: Sequence[Operator] = (
    *(silent_refusal, disconnected_argument, opposite, other_condition, flipped_flag, one_more, other_text, no_result),
)


def change_text(text: str) -> str:
    return ("字" if text[0] != "字" else "文") + text[1:]


# --- values


def mutate_values(modules: Sequence[ModuleType]) -> Iterator[Mutant]:
    """Constants of modules, and the fields that they give to values: numbers moved by one, flags flipped.

    A constant that no function reads did its work while its module was loaded: what was made of it is changed.
    """
    read = set(find_read_names())
    for module in modules:
        for name, value in list(vars(module).items()):
            if name in read and name.isupper():
                for label, changed in change_value(value):
                    yield Mutant(f"{module.__name__}.{name}: {label}", make_rebinding(name, value, changed))
            if isinstance(value, type) and value.__module__ == module.__name__ and "options" in vars(value):
                yield from mutate_fields(f"{module.__name__}.{name}.options", vars(value)["options"], module)
            elif name.isupper() and is_dataclass(value) and not isinstance(value, type):
                yield from mutate_fields(f"{module.__name__}.{name}", value, module)


def find_read_names() -> Iterator[str]:
    waiting = [*find_functions([module for name, module in list(sys.modules.items()) if name.startswith("handhold.")])]
    while waiting:
        code = waiting.pop()
        yield from code.co_names
        waiting += (const for const in code.co_consts if isinstance(const, CodeType))


def change_value(value: object) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "flipped", not value
    elif isinstance(value, int | float):
        yield from (("one more", value + 1), ("one less", value - 1))


def mutate_fields(name: str, value: Any, module: ModuleType) -> Iterator[Mutant]:
    """What a module leaves to the default is not its own behaviour."""
    given = {node.arg for node in ast.walk(parse(str(module.__file__))) if isinstance(node, ast.keyword)}
    for field in fields(value):
        if field.name not in given:
            continue
        for label, changed in change_value(getattr(value, field.name)):

            def plant(field: str = field.name, changed: Any = changed) -> None:
                object.__setattr__(value, field, changed)

            yield Mutant(f"{name}.{field.name}: {label}", plant)


def make_rebinding(name: str, value: object, changed: object) -> Callable[[], None]:
    """Change a constant wherever it was imported, also in tests: they must not expect whatever it is."""

    def plant() -> None:
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith(("handhold", "tests")) and vars(module).get(name) is value:
                setattr(module, name, changed)

    return plant


def mutate_tools(dialect: Any) -> Iterator[Mutant]:
    """A tool with another name or description, or without one of its parameters."""
    for spec in dialect.specs:
        properties = spec.input_schema["properties"]
        changes: dict[str, tuple[str, Any]] = {
            "another name": ("name", change_text(spec.name)),
            "another description": ("description", change_text(spec.description)),
            "nothing required": ("input_schema", {**spec.input_schema, "required": []}),
        }
        for name, schema in properties.items():
            others = {each: part for each, part in properties.items() if each != name}
            for label, changed in (
                (f"no {name}", others),
                (f"another {name}", {**properties, name: {**schema, "type": "null"}}),
            ):
                changes[label] = ("input_schema", {**spec.input_schema, "properties": changed})
        for label, (field, changed) in changes.items():

            def plant(spec: Any = spec, field: str = field, changed: Any = changed) -> None:
                object.__setattr__(spec, field, changed)

            yield Mutant(f"{dialect.name} {spec.name}: {label}", plant)


# --- running


class Session:
    """Test items, what each of them calls, and whether they notice a mutant."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self.calls: dict[str, frozenset[CodeType]] = {}
        self.items: list[pytest.Item] = []
        self._seconds: dict[str, float] = {}
        for item in items:
            started = monotonic()
            called, outcomes = run_traced(item)
            self._seconds[item.nodeid] = monotonic() - started
            if "failed" in outcomes:
                sys.exit(f"{item.nodeid} fails without a mutant")
            if "skipped" not in outcomes:
                self.items.append(item)
                self.calls[item.nodeid] = called
        self.items.sort(key=lambda item: self._seconds[item.nodeid])  # most mutants are noticed by a fast test

    def is_noticed(self, mutant: Mutant, items: Sequence[pytest.Item]) -> bool:
        if mutant.code is not None:
            items = [item for item in items if mutant.code in self.calls[item.nodeid]]
        if not items:
            return False
        child = os.fork()
        if child == 0:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            try:
                mutant.plant()
                for item in items:
                    signal.alarm(GRACE_SECONDS + int(SLOWER * self._seconds[item.nodeid]))
                    if any(report.failed for report in runtestprotocol(item, log=False, nextitem=None)):
                        os._exit(1)
            except BaseException:  # noqa: BLE001 - a mutant that cannot run is noticed
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0


def run_traced(item: pytest.Item) -> tuple[frozenset[CodeType], set[str]]:
    called: set[CodeType] = set()
    prefix = str(CODE)

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(prefix):
            called.add(frame.f_code)

    sys.setprofile(note)
    try:
        reports = runtestprotocol(item, log=False, nextitem=None)
    finally:
        sys.setprofile(None)
    return frozenset(called), {report.outcome for report in reports}


class Collector:
    """A plugin that hands the collected items over instead of running them."""

    def __init__(self, run: Callable[[Sequence[pytest.Item]], None]) -> None:
        self._run = run

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._run(session.items)
        return True


def run_with_items(arguments: Sequence[str], run: Callable[[Sequence[pytest.Item]], None]) -> None:
    """Collect tests and hand them over. They run in this process, one after another."""
    os.chdir(PROJECT)
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "pytest_timeout"}
    quiet = ["-q", "-p", "no:cacheprovider", "--no-header", "-s"]
    if pytest.main([*quiet, *arguments], plugins=[Collector(run)]) != 0:
        sys.exit("the tests could not be collected")
