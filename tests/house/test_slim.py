"""The wheel's modules are shorter than the source, and mean the same."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slim

PROJECT = Path(__file__).parents[2]
SOURCES = {path.relative_to(PROJECT / "src").as_posix(): path.read_text() for path in (PROJECT / "src").rglob("*.py")}
OURS = re.compile(r"^\s*(?:from|import) (handhold[\w.]*)", re.MULTILINE)


@pytest.fixture(scope="module")
def bare() -> dict[str, str]:
    shared = slim.taken(SOURCES.items())
    return {name: slim.leaner(name, source.encode(), shared).decode() for name, source in SOURCES.items()}


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_every_module_means_the_same_on_the_same_lines(bare: dict[str, str]):
    """`bared` compares the trees itself; here what it calls the same is looked at from outside."""
    for name, source in SOURCES.items():
        assert bare[name].count("\n") == source.count("\n"), name
        assert names(bare[name]) == names(source), name
        assert texts(bare[name]) <= texts(source) | {"."}, name
        if name.startswith(slim.PUBLIC):
            assert offered(bare[name]) == offered(source), name


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_what_one_module_takes_from_another_is_still_there(bare: dict[str, str]):
    known = {dotted(name): bound(text) for name, text in bare.items()}
    for name, text in bare.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                module = slim.whole(node, slim.Module(name))
                assert module in known or not module.startswith("handhold"), (name, module)
                for each in node.names if module in known else ():
                    assert each.name in known[module] or f"{module}.{each.name}" in known, (name, each.name)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_name_is_missing(bare: dict[str, str]):
    """What a module reads is bound in it, or builtin, as it was in the source."""
    for name, text in bare.items():
        missing = read(text) - bound(text) - set(dir(builtins))
        source = SOURCES[name]
        assert missing <= read(source) - bound(source) | {"__file__", "__name__"}, (name, missing)


def test_what_examples_and_documents_import_is_public():
    pages = [PROJECT / "README.md", *(PROJECT / "docs").glob("*.md"), *(PROJECT / "examples").rglob("*.py")]
    modules = {each for page in pages for each in OURS.findall(page.read_text(encoding="utf-8"))}
    assert "handhold.dialects.family" in modules
    for module in modules:
        way = module.replace(".", "/")
        assert any(each in SOURCES and each.startswith(slim.PUBLIC) for each in (f"{way}.py", f"{way}/__init__.py")), (
            way
        )


def test_everything_that_is_called_public_is_there():
    assert [each for each in slim.PUBLIC if not any(name.startswith(each) for name in SOURCES)] == []


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ('"""Idea."""\n# why\nx = 1  # what\n', "\n\nx=1\n"),
        ('def f() -> int:\n    """Says."""\n', "def f():\n pass\n"),
        ('def f():\n    """Says\n    more."""\n    return  1\n', "def f():\n\n\n return 1\n"),
        ('@dataclass\nclass A:\n    """Says."""\n\n    x: int = 1\n', "@dataclass\nclass A:\n '.'\n\n x:any=1\n"),
        (
            "@dataclass()\nclass A:\n x: ClassVar[int]\n y: list[int]\n",
            "@dataclass()\nclass A:\n x:ClassVar[int]\n y:any\n",
        ),
        ('@cli.command()\ndef f():\n    """Shown."""\n', '@cli.command()\ndef f():\n """Shown."""\n'),
        ("def f(a: int = 1, *b: str, c: 'é' = 2) -> dict[str, int]: ...\n", "def f(a=1,*b,c=2):...\n"),
        ("def f(é: int, b: (int)) -> (str): ...\n", "def f(é,b:(int))->(str):...\n"),
        ("def f(\n    a: int\n    | str,\n): ...\n", "def f(\na:int\n|str,\n):...\n"),
        ("x: list[int] = []\ny: int\n", "x=[]\ny:int\n"),
        ("class A:\n    if 1:\n        x: int = 1\n", "class A:\n if 1:\n  x:int=1\n"),
        ("class A:\n    def f(self):\n        self.x: int = 1\n", "class A:\n def f(self):\n  self.x=1\n"),
        ("from typing import Any, cast\nx: Any = cast(int, 1)\n", "from typing import cast\nx=cast(int,1)\n"),
        ("from typing import Any\n__all__ = ['Any']\n", "from typing import Any\n__all__=['Any']\n"),
        ("from ours import Any\nx: Any = 1\n", "from ours import Any\nx=1\n"),
        ("x = '' 'a' \"b\"  'c'\n", "x='' 'a'\"b\"'c'\n"),
        ("x = 1 .real if y else - 1\n", "x=1 .real if y else-1\n"),
        ("x = f'{ y !r}  {z}' if  y  else f\"{'a' 'b'}\"\n", "x=f'{ y !r}  {z}'if y else f\"{'a' 'b'}\"\n"),
        ("x = '''\n   # kept\n'''   \n", "x='''\n   # kept\n'''\n"),
        ("x = '\u2028\x0c' + 'é'  # é\ny = [\n    1,\n]\n", "x='\u2028\x0c'+'é'\ny=[\n1,\n]\n"),
        ("if a and \\\n        b:\n    pass\n", "if a and \\\nb:\n pass\n"),
        ("from . import  a\nfrom .. b import c\n", "from.import a\nfrom..b import c\n"),
    ],
)
def test_a_private_module_is_as_short_as_its_lines_allow(source: str, wanted: str):
    assert slim.bared(source) == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("for item in (1, 2):\n print(item)\n", "for item in(1,2):\n print(item)\n"),
        ("def f(item):\n other = item\n return other\n", "def f(item):\n a=item\n return a\n"),
        ("def f(a):\n one = a\n return lambda two=one: one + two\n", "def f(a):\n b=a\n return lambda two=b:b+two\n"),
        ("def f(x):\n [each.each for each in x]\n g(each=1)\n", "def f(x):\n [a.each for a in x]\n g(each=1)\n"),
        ("each = 1\ndef f(x):\n return [each for each in x]\n", "each=1\ndef f(x):\n return[each for each in x]\n"),
        ("def f():\n list = 1\n return list\n", "def f():\n list=1\n return list\n"),
        ("def f():\n item = 1\n return locals()\n", "def f():\n item=1\n return locals()\n"),
        ("def f():\n item = 1\n class A:\n  item = item\n", "def f():\n item=1\n class A:\n  item=item\n"),
        ("def f():\n import os.path\n os = os\n", "def f():\n import os.path\n os=os\n"),
        (
            "def f():\n item = 1\n def g():\n  nonlocal item\n  item = 2\n",
            "def f():\n item=1\n def g():\n  nonlocal item\n  item=2\n",
        ),
        (
            "def f():\n global item\n item = 1\ndef g():\n item = 2\n",
            "def f():\n global item\n item=1\ndef g():\n item=2\n",
        ),
        (
            "def f(x):\n try:\n  with x as item:\n   pass\n except (A, B) as error:\n  raise C(item) from error\n",
            "def f(x):\n try:\n  with x as a:\n   pass\n except(A,B)as b:\n  raise C(a)from b\n",
        ),
        (
            "def f(x):\n match x:\n  case A(item=item) | [item, *rest] if (size := item):\n   return rest, size\n",
            "def f(x):\n match x:\n  case A(item=a)|[a,*b]if(c:=a):\n   return b,c\n",
        ),
        (
            "def f(x):\n match x:\n  case {1: 2, **rest}:\n   rest\n",
            "def f(x):\n match x:\n  case{1:2,**rest}:\n   rest\n",
        ),
        ("def f():\n é = item = 1\n return 'é', é, item\n", "def f():\n é=a=1\n return'é',é,a\n"),
        ("def f():\n item = 1\n return f'é {item!r:>{item}}{{'\n", "def f():\n a=1\n return f'é {a!r:>{a}}{{'\n"),
        ("def f():\n item = 1\n return f'{item=}'\n", "def f():\n item=1\n return f'{item=}'\n"),
        ("def f():\n item = 1\n return f'item {item}'\n", "def f():\n item=1\n return f'item {item}'\n"),
    ],
)
def test_a_name_that_only_its_function_knows_is_short(source: str, wanted: str):
    assert slim.bared(source) == wanted


def test_modules_name_each_other_in_the_shorter_way():
    source = "from handhold.core.text.a import b\nfrom handhold.core import c\nfrom handhold.world import d\nimport handhold\n"
    there = slim.Module("handhold/core/tools/read.py", {("handhold.core.tools.read", each) for each in "bcd"})
    wanted = "from..text.a import b\nfrom..import c\nfrom...world import d\nimport handhold\n"
    assert slim.bared(source, there) == wanted


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("if TYPE_CHECKING:\n    from ours import A\nx: 'A' = 1\n", "\n\nx=1\n"),
        ("from handhold.a import A, B\nx: A = B\n", "from handhold.a import B\nx=B\n"),
        ("from handhold.a import A\nx: A = 1\n", "\nx=1\n"),
        ("from theirs import A, B\nx: A = B\n", "from theirs import B\nx=B\n"),
        ("from handhold.a import Given\nx: Given = 1\n", "from handhold.a import Given\nx=1\n"),
    ],
)
def test_what_only_types_needed_is_not_imported(source: str, wanted: str):
    assert slim.bared(source, slim.Module("ours.py", {("ours", "Given")})) == wanted


PUBLIC = """
class A:
    \"\"\"Says.\"\"\"

    def f(self, a: int) -> int:
        \"\"\"Says.\"\"\"
        return a  # why

    def _g(self, a: int) -> int:
        \"\"\"Says.\"\"\"
        return a
"""


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "handhold/toolbox.py",
            '\nclass A:\n """Says."""\n\n def f(self,a:int)->int:\n  """Says."""\n  return a\n\n def _g(self,a):\n\n  return a\n',
        ),
        (
            "handhold/core/ports.py",
            "\nclass A:\n\n\n def f(self,a:int)->int:\n\n  return a\n\n def _g(self,a):\n\n  return a\n",
        ),
    ],
)
def test_a_public_module_keeps_what_can_be_seen_of_it(name: str, wanted: str):
    assert slim.bared(PUBLIC, slim.Module(name)) == wanted


def test_an_adapter_keeps_all_types_for_frameworks_look_at_them():
    source = "def _f(a: int) -> int:\n    return a\n"
    assert slim.bared(source, slim.Module("handhold/adapters/some.py")) == "def _f(a:int)->int:\n return a\n"


def test_a_module_that_would_mean_something_else_is_refused():
    with pytest.raises(ValueError, match="changed what a module means"):
        slim.bared('"""Idea."""\n"second"\n')  # would become the docstring


def dotted(name: str) -> str:
    return name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def bound(text: str) -> set[str]:
    """The names that a module has, wherever in it they are given."""
    return set(_bound(ast.parse(text)))


def _bound(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler):
            yield node.name or ""
        elif isinstance(node, ast.MatchMapping):
            yield node.rest or ""


def read(text: str) -> set[str]:
    nodes = ast.walk(ast.parse(text))
    return {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def offered(text: str) -> list[str]:
    """What can be called from outside, by name and by types."""
    top = ast.parse(text).body
    classes = (node for node in top if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    functions = [*top, *(each for node in classes for each in node.body)]
    return [
        f"{node.name}({ast.unparse(node.args)})->{node.returns and ast.unparse(node.returns)}"
        for node in functions
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.name[0] != "_" or node.name[-2:] == "__")
    ]


def names(text: str) -> list[tuple[str, int]]:
    """Functions and classes, and the lines that they begin on."""
    return [
        (node.name, node.lineno)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def texts(text: str) -> set[str]:
    constants = (node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str)}
