"""The modules of the wheel say no more than is needed of them, on the same lines.

Every module loses its comments and the space between words, and what a function alone knows by a name gets a short one.
A private module, which nobody outside imports, also loses its docstrings, the annotations of functions and variables,
and what it imports for those alone. What others call keeps its name, and each line its number, so a traceback fits the
source. What is left means the same: its tree, by the old names, is compared with that of the source, minus
what was meant to go.
"""

import ast
import base64
import builtins
import hashlib
import io
import json
import keyword
import re
import struct
import sys
import tokenize
import zipfile
import zlib
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from string import ascii_letters
from token import EXACT_TOKEN_TYPES
from typing import cast

try:
    from zopfli.zlib import compress  # pyright: ignore[reportMissingImports]
except ImportError:
    compress = None

# What somebody imports who uses Handhold, adds a dialect, or catches an error. It keeps its types,
PUBLIC = (
    "handhold/__init__.py",
    "handhold/adapters/",
    "handhold/assembly.py",
    "handhold/core/errors.py",
    "handhold/core/facts.py",
    "handhold/core/plans.py",
    "handhold/core/policy/rules.py",
    "handhold/core/ports.py",
    "handhold/core/requests.py",
    "handhold/core/results.py",
    "handhold/dialects/__init__.py",
    "handhold/dialects/commands.py",
    "handhold/dialects/family.py",
    "handhold/dialects/hints.py",
    "handhold/dialects/plain.py",
    "handhold/dialects/searches.py",
    "handhold/server/app.py",
    "handhold/server/desks.py",
    "handhold/server/serving.py",
    "handhold/testing.py",
    "handhold/toolbox.py",
    "handhold/version.py",
)
# and, but for these, its words.
WORDLESS = tuple(f"handhold/core/{each}.py" for each in ("errors", "facts", "plans", "ports", "requests", "results"))
SHOWN = {"command", "group"}  # what click decorates with; it shows the docstring

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[int, int]  # a line, from 1, and a column, in characters
Cut = tuple[Place, Place, str]  # from, to, and what comes instead
Names = dict[str, str]


# --- the wheel


def slim(wheel: Path) -> None:
    """The same wheel, what is private in it bare, and its list of files made anew."""
    packed: list[tuple[zipfile.ZipInfo, bytes]] = []
    rows: list[str] = []
    with zipfile.ZipFile(wheel) as old:
        shared = taken((name, old.read(name).decode()) for name in old.namelist() if name.endswith(".py"))
        for entry in old.infolist():
            data = leaner(entry.filename, old.read(entry), shared)
            if entry.filename.endswith("/RECORD"):
                data = "".join((*rows, f"{entry.filename},,\n")).encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{entry.filename},sha256={digest},{len(data)}\n")
            packed.append((entry, data))
    beside = wheel.with_suffix(".slim")
    beside.write_bytes(archive(packed))
    beside.replace(wheel)


def leaner(name: str, data: bytes, shared: Collection[tuple[str, str]] = ()) -> bytes:
    if name.endswith(".py"):
        return bared(data.decode(), Module(name, shared)).encode()
    if name.endswith(".json"):
        return json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":")).encode()
    return data


def archive(entries: list[tuple[zipfile.ZipInfo, bytes]]) -> bytes:
    """A zip file. The standard library writes them too, but not with somebody else's compression."""
    body, directory = bytearray(), bytearray()
    for entry, data in entries:
        # Zopfli writes the same format, only closer. Splitting into blocks is most of its time, and a thousand bytes.
        small = compress(data, blocksplitting=0) if compress else zlib.compress(data, 9)
        small = small[2:-4]  # without the frame around it
        method, small = (zipfile.ZIP_DEFLATED, small) if len(small) < len(data) else (zipfile.ZIP_STORED, data)
        year, month, day, hour, minute, second = entry.date_time
        name = entry.filename.encode("ascii")
        facts = struct.pack(
            "<HHHHHIIIHH",
            *(20, 0, method, hour << 11 | minute << 5 | second // 2, year - 1980 << 9 | month << 5 | day),
            *(zlib.crc32(data), len(small), len(data), len(name), 0),
        )
        unix = 3 << 8 | 20  # whoever unpacks it shall heed the mode
        directory += struct.pack("<4sH", b"PK\1\2", unix) + facts
        directory += struct.pack("<HHHII", 0, 0, 0, entry.external_attr, len(body)) + name
        body += b"PK\3\4" + facts + name + small
    count = len(entries)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(directory), len(body), 0)
    return bytes(body + directory + end)


# --- a module


@dataclass(frozen=True)
class Module:
    """What is known of a module without reading it."""

    name: str
    shared: Collection[tuple[str, str]] = ()  # modules, and what others take from them

    @property
    def private(self) -> bool:
        return not self.name.startswith(PUBLIC)

    @property
    def wordless(self) -> bool:
        return self.private or self.name.startswith(WORDLESS)

    @property
    def dotted(self) -> str:
        return self.name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def package(self) -> list[str]:
        return self.name.split("/")[:-1]

    def gives(self, name: str) -> bool:
        return (self.dotted, name) in self.shared


SOME = Module("some/where/ours.py")


def bared(source: str, module: Module = SOME) -> str:
    layout, tree = read(source)
    cuts = [*comments(layout), *docstrings(tree, layout, module), *annotations(tree, layout, module)]
    if module.private:
        cuts += [(layout.start(node), layout.end(node), "") for node in tree.body if for_types(node)]
    layout, tree = read(layout.without(cuts))
    layout, tree = read(layout.without(imports(tree, layout, module)))
    shorter = list(renamings(tree, layout))
    bare = squeezed(layout.without(cut for _, cuts in shorter for cut in cuts))
    if meaning(bare, module, [names for names, _ in shorter]) != meaning(source, module):
        raise ValueError("taking out what nobody needs changed what a module means")
    return bare


def read(source: str) -> "tuple[Layout, ast.Module]":
    return Layout(source), ast.parse(source)


def meaning(source: str, module: Module, shorter: Iterable[Names] = ()) -> tuple[str, list[int]]:
    """A module's tree and the line of each of its parts, without what it loses, and by the names that it had."""
    tree = ast.parse(source)
    for function, names in zip(outermost(tree), shorter, strict=False):
        called(function, {short: name for name, short in names.items()})
    untold(tree, module)
    return ast.dump(tree), [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)]


def untold(tree: ast.Module, module: Module) -> None:
    for node in list(unread(tree, module)):
        node.body[:1] = [] if node.body[1:] else [ast.copy_location(ast.Pass(), node.body[0])]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            node.module, node.level = whole(node, module), 0
    for function in untyped(tree, module):
        function.returns = None
        for each in arguments(function):
            each.annotation = None
    if module.private:
        for body, at, node in list(loose(tree)):
            body[at] = ast.copy_location(ast.Assign([node.target], cast(ast.expr, node.value)), node)
        for node in fields(tree):
            node.annotation = ast.copy_location(ast.Name("any", ast.Load()), node.annotation)
        tree.body = [node for node in tree.body if not for_types(node)]
    for node, needed in idle(tree, module):
        node.names = needed
    tree.body = [node for node in tree.body if not isinstance(node, ast.ImportFrom) or node.names]


class Layout:
    """Where the words of a text stand. The columns of a tree are bytes; here they are characters."""

    def __init__(self, source: str) -> None:
        self.lines = io.StringIO(source).readlines()  # a form feed ends no line

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        return [ended(token) for token in tokenize.generate_tokens(iter(self.lines).__next__)]

    @cached_property
    def starts(self) -> list[Place]:
        return [token.start for token in self.tokens]

    def start(self, node: ast.expr | ast.stmt) -> Place:
        return self._place(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> Place:
        return self._place(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def around(self, start: Place, end: Place) -> tuple[tokenize.TokenInfo, tokenize.TokenInfo]:
        return self.tokens[bisect_left(self.starts, start) - 1], self.tokens[bisect_left(self.starts, end)]

    def without(self, cuts: Iterable[Cut]) -> str:
        lines = list(self.lines)
        for (top, left), (bottom, right), instead in sorted(cuts, reverse=True):
            head, tail = lines[top - 1][:left] + instead, lines[bottom - 1][right:]
            lines[top - 1 : bottom] = (
                [head + tail] if top == bottom else [head + "\n", *["\n"] * (bottom - top - 1), tail]
            )
        return "".join(lines)

    def spots(self, name: str, node: ast.AST) -> Iterator[Place]:
        """Where a name stands in what holds it."""
        if isinstance(node, ast.ExceptHandler):
            at = bisect_left(self.starts, self.end(cast(ast.expr, node.type)))
            yield from (token.start for token in self.tokens[at : at + 2] if token.string == name)
            return
        (top, left), (bottom, right) = self.start(cast(ast.expr, node)), self.end(cast(ast.expr, node))
        if not isinstance(node, ast.JoinedStr):
            top, left = bottom, right - len(name)  # of a pattern with `as`, or with a star, the end
        for row in range(top, bottom + 1):
            line = self.lines[row - 1]
            for found in re.finditer(rf"(?<![\w.]){name}(?![\w=])", line[: right if row == bottom else None]):
                if row > top or found.start() >= left:
                    yield row, found.start()

    def _place(self, row: int, column: int) -> Place:
        return row, len(self.lines[row - 1].encode()[:column].decode())


def ended(token: tokenize.TokenInfo) -> tokenize.TokenInfo:
    """With its true end: Python 3.12.1 tells a wrong one for a string of several lines in other scripts."""
    *above, last = token.string.split("\n")
    return token._replace(end=(token.start[0] + len(above), len(last))) if above and last else token


def docstrings(tree: ast.Module, layout: Layout, module: Module) -> Iterator[Cut]:
    for node in unread(tree, module):
        # A dataclass that has none writes itself one, which takes time at each start.
        kept = "'.'" if getattr(node, "decorator_list", ()) and isinstance(node, ast.ClassDef) else ""
        instead = kept or ("" if node.body[1:] else "pass")
        yield layout.start(node.body[0]), layout.end(node.body[0]), instead


def unread(tree: ast.Module, module: Module) -> Iterator[Documented]:
    """What has a docstring that is for readers of the source only."""
    for node, hidden in (tree, module.wordless), *scopes(tree, hidden=module.wordless):
        marks = [each.func for each in getattr(node, "decorator_list", ()) if isinstance(each, ast.Call)]
        shown = any(isinstance(mark, ast.Attribute) and mark.attr in SHOWN for mark in marks)
        if hidden and not shown and ast.get_docstring(node, clean=False) is not None:
            yield node


def scopes(node: ast.AST, *, hidden: bool) -> Iterator[tuple[ast.ClassDef | Function, bool]]:
    """Classes and functions, and whether each is out of sight: by its own name, or by that of what it is in."""
    for _, _, child in statements(node):
        named = isinstance(child, ast.ClassDef | Function)
        inside = hidden or (named and child.name.startswith("_") and not child.name.endswith("__"))
        if named:
            yield child, inside
        yield from scopes(child, hidden=inside)


def comments(layout: Layout) -> Iterator[Cut]:
    return ((token.start, token.end, "") for token in layout.tokens if token.type == tokenize.COMMENT)


def annotations(tree: ast.Module, layout: Layout, module: Module) -> Iterator[Cut]:
    """All that nothing reads, and that stand on one line without brackets around them."""
    for mark, note, followers in notes(tree, module):
        start, end = layout.start(note), layout.end(note)
        before, after = layout.around(start, end)
        if before.string == mark and after.string in followers and before.start[0] == end[0]:
            yield before.start, end, ""

    for node in fields(tree) if module.private else ():
        start, end = layout.start(node.annotation), layout.end(node.annotation)
        if start[0] == end[0]:
            yield start, end, "any"


def fields(tree: ast.Module) -> Iterator[ast.AnnAssign]:
    """Those of dataclasses and named tuples, which must have a type; which one nobody asks, if it is private."""
    for node, _ in scopes(tree, hidden=True):
        if isinstance(node, ast.ClassDef):
            made = {
                word for each in (*node.decorator_list, *node.bases) for word in re.findall(r"\w+", ast.unparse(each))
            }
            kinds = (
                each for each in node.body if isinstance(each, ast.AnnAssign) and made & {"dataclass", "NamedTuple"}
            )
            yield from (
                each for each in kinds if not re.search("ClassVar|InitVar|KW_ONLY", ast.unparse(each.annotation))
            )


def notes(tree: ast.Module, module: Module) -> Iterator[tuple[str, ast.expr, str]]:
    """Each annotation, with what stands before it and what may follow."""
    for function in untyped(tree, module):
        if function.returns:
            yield "->", function.returns, ":"
        yield from ((":", each.annotation, ",=)") for each in arguments(function) if each.annotation)
    for _, _, node in loose(tree) if module.private else ():
        yield ":", node.annotation, "="


def untyped(tree: ast.Module, module: Module) -> Iterator[Function]:
    """What nobody outside calls. Of an adapter all is seen: frameworks look at the types of what they are given."""
    found = scopes(tree, hidden=module.private) if not module.name.startswith("handhold/adapters/") else ()
    return (node for node, hidden in found if hidden and isinstance(node, Function))


def arguments(function: Function) -> Iterator[ast.arg]:
    return (node for node in ast.walk(function.args) if isinstance(node, ast.arg))


# --- imports


def taken(modules: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """What modules have that others import from them, or reach through them."""
    found: set[tuple[str, str]] = set()
    for name, source in modules:
        nodes = list(ast.walk(ast.parse(source)))
        known: dict[str, tuple[str, str]] = {}
        for node in nodes:
            if isinstance(node, ast.ImportFrom):
                known |= {each.asname or each.name: (whole(node, Module(name)), each.name) for each in node.names}
        found.update(known.values())
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                found.add((".".join(known[node.value.id]), node.attr))
    return found


def imports(tree: ast.Module, layout: Layout, module: Module) -> Iterator[Cut]:
    """Only what is needed, each from the shorter name of where it is."""
    unneeded = {node.lineno: needed for node, needed in idle(tree, module)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = unneeded.get(node.lineno, node.names)
            said = ast.unparse(ast.ImportFrom(nearer(node, module), names, 0)) if names else ""
            yield layout.start(node), layout.end(node), said


def for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not node.orelse


def whole(node: ast.ImportFrom, module: Module) -> str:
    """Where it imports from, from the root."""
    above = module.package[: len(module.package) + 1 - node.level] if node.level else []
    return ".".join((*above, *([node.module] if node.module else [])))


def nearer(node: ast.ImportFrom, module: Module) -> str:
    """The same from where the module is, if that is shorter."""
    far, here = whole(node, module).split("."), module.package
    same = next((at for at, (a, b) in enumerate(zip(far, here, strict=False)) if a != b), min(len(far), len(here)))
    near = "." * (len(here) + 1 - same) + ".".join(far[same:])
    return min(near, ".".join(far), key=len) if same else ".".join(far)


def idle(tree: ast.Module, module: Module) -> Iterator[tuple[ast.ImportFrom, list[ast.alias]]]:
    """Imports of which not everything is needed, with what is. What is not ours is still loaded."""
    if not module.private:
        return
    used: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.update(re.findall(r"\w+", node.value))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            names = ((each.asname or each.name, each) for each in node.names)
            needed = [each for name, each in names if name in used or module.gives(name)]
            root = whole(node, module).split(".")[0]
            idles = root == "handhold" or (root in sys.stdlib_module_names and root != "__future__")
            if len(needed) < len(node.names) and (needed or idles):
                yield node, needed


def loose(tree: ast.AST, *, field: bool = False) -> Iterator[tuple[list[ast.stmt], int, ast.AnnAssign]]:
    """Variables with a type and a value, and where they stand. Not a class's fields: dataclasses are made of them."""
    for body, at, node in statements(tree):
        if isinstance(node, ast.AnnAssign):
            if node.value and not field:
                yield body, at, node
        else:
            yield from loose(node, field=isinstance(node, ast.ClassDef) or (field and not isinstance(node, Function)))


def statements(node: ast.AST) -> Iterator[tuple[list[ast.stmt], int, ast.stmt]]:
    """Those directly in another, and where they stand."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        body = getattr(node, part, None)
        if isinstance(body, list):
            yield from ((body, at, each) for at, each in enumerate(cast(list[ast.stmt], body)))


# --- names that nobody sees outside of a function

SEEING = {"locals", "vars", "eval", "exec", "dir"}  # what could see them


def outermost(node: ast.AST) -> Iterator[Function]:
    for _, _, child in statements(node):
        if isinstance(child, Function):
            yield child
        else:
            yield from outermost(child)


def renamings(tree: ast.Module, layout: Layout) -> Iterator[tuple[Names, list[Cut]]]:
    """For each function, and all within it: shorter names for what it binds, and where to write them.

    A name is changed everywhere in the function or nowhere, and no other name of the module is like the new one, so
    whatever saw the same variable before sees the same one after.
    """
    every = list(ast.walk(tree))
    outside = {name for node in beyond(tree) for name in (*fixed(node), *free(node))} | set(dir(builtins))
    outside.update(name for node in every if isinstance(node, ast.Global) for name in node.names)
    known = {name for node in every for name in (*fixed(node), *free(node))} | outside | set(keyword.kwlist)
    fresh = [name for size in (1, 2) for name in map("".join, product(ascii_letters, repeat=size)) if name not in known]
    for function in outermost(tree):
        names: Names = {}
        cuts: list[Cut] = []
        for name, places in local(function, layout, outside):
            short = fresh[len(names)]
            if len(short) < len(name):
                names[name] = short
                cuts += [((row, column), (row, column + len(name)), short) for row, column in places]
        yield names, cuts


def beyond(node: ast.AST) -> Iterator[ast.AST]:
    """What is outside of functions, and they themselves."""
    yield node
    if not isinstance(node, Function):
        for child in ast.iter_child_nodes(node):
            yield from beyond(child)


def local(function: Function, layout: Layout, outside: set[str]) -> Iterator[tuple[str, set[Place]]]:
    """The names that a function binds and nothing outside of it knows, and where they stand."""
    inside = [node for each in function.body for node in ast.walk(each)]
    told = [use for each in function.body for use in uses(each)]
    if any(isinstance(node, ast.ClassDef) for node in inside) or any(name in SEEING for name, _ in told):
        return
    stays = outside.union(*(fixed(node) for node in (*inside, *ast.walk(function.args))))
    given = {name for node in inside if not isinstance(getattr(node, "ctx", None), ast.Load) for name in free(node)}
    for name in dict.fromkeys(name for name, _ in told):
        if name in given and name not in stays and not name.startswith("__"):
            holders = [node for each, node in told if each == name]
            places = [(node, set(layout.spots(name, node))) for node in set(holders)]
            if all(len(spots) == holders.count(node) for node, spots in places):
                yield name, set().union(*(spots for _, spots in places))


def uses(node: ast.AST, text: ast.JoinedStr | None = None) -> Iterator[tuple[str, ast.AST]]:
    """Names, and what holds them: a string as a whole, for not every Python knows where in it they are."""
    text = text or (node if isinstance(node, ast.JoinedStr) else None)
    yield from ((name, text or node) for name in free(node))
    for child in ast.iter_child_nodes(node):
        yield from uses(child, text)


def fixed(node: ast.AST) -> Iterator[str]:
    """The names that it gives, where others may call by them, or where they are hard to find."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name) | ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name.split(".")[0] for each in names)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case _:
            pass


def free(node: ast.AST) -> Iterator[str]:
    """The other names in it."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
            yield name
        case _:
            pass


def called(function: Function, names: Names) -> None:
    for node in (node for each in function.body for node in ast.walk(each)):
        for name in free(node):
            setattr(node, "id" if isinstance(node, ast.Name) else "name", names.get(name, name))


# --- the space between words

OPENS, CLOSES = ("FSTRING_START", "TSTRING_START"), ("FSTRING_END", "TSTRING_END")  # strings in parts, since 3.12


def squeezed(source: str) -> str:
    """One space for a step of indentation, and one between words that would else be one word."""
    layout = Layout(source)
    return layout.without(gaps(layout.tokens))


def gaps(tokens: list[tokenize.TokenInfo]) -> Iterator[Cut]:
    """What is between words on each line. A string in parts counts as one word."""
    depth = parts = 0
    last, begins = tokens[0], True  # whether a statement does
    for token in tokens:
        kind = tokenize.tok_name[token.type]
        depth += (kind == "INDENT") - (kind == "DEDENT")
        if kind in ("INDENT", "DEDENT", "ENDMARKER"):
            continue
        row, column = token.start
        ends = kind in ("NEWLINE", "NL")
        if parts:
            pass
        elif token is not last and last.end[0] == row:
            yield last.end, token.start, " " if not ends and apart(last.string, token.string) else ""
        else:
            yield (row, 0), (row, column), " " * depth if begins and not ends else ""
        parts += (kind in OPENS) - (kind in CLOSES)
        begins = kind == "NEWLINE" or (begins and ends)
        last = token


def apart(left: str, right: str) -> bool:
    """Whether two words would be read as others, or as one, if nothing stood between them."""
    both = left[-1] + right[0]
    a_word = all(char.isalnum() or char == "_" for char in both)
    a_point = left[0].isdigit() and right[0] == "."
    return a_word or a_point or both in EXACT_TOKEN_TYPES or both in ("''", '""')
