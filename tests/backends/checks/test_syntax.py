"""Which syntax errors a change made: new ones only, by the parser of each language."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_sitter import Node

from handhold.backends.checks.syntax import LANGUAGES, LanguageSyntax
from handhold.backends.checks.tree_sitter_errors import edit_tree, get_parser
from handhold.core.ports.checks import TextError
from tests.scale import examples

SYNTAX = LanguageSyntax()

# A valid text, the same with an error, and a text in the line that is told.
SAMPLES: dict[str, tuple[str, str, str]] = {
    "a.py": ("x = [1]\n", "x = [1\n", "x = [1"),
    "a.js": ("function f() {\n  return 1;\n}\n", "function f() {\n  return (1;\n}\n", "return (1"),
    "a.jsx": ("const a = <p>x</p>;\n", "const a = <p>x</p;\n", "<p>"),
    "a.ts": ("const a: number[] = [1];\n", "const a: number[] = [1;\n", "[1;"),
    "a.tsx": ("const a = <p>{1 as number}</p>;\n", "const a = <p>{1 as number</p>;\n", "number"),
    "a.go": ("package a\n\nfunc f() {\n\tg()\n}\n", "package a\n\nfunc f() {\n\tg(\n}\n", "g("),
    "a.rs": ("fn main() {\n    let x = 1;\n}\n", "fn main() {\n    let x = ;\n}\n", "let x"),
    "a.java": ("class A {\n  int x = 1;\n}\n", "class A {\n  int x = ;\n}\n", "int x"),
    "a.c": ("int f(void) {\n  return 1;\n}\n", "int f(void) {\n  return 1;\n", "return 1"),
    "a.cpp": ("int f() {\n  return 1;\n}\n", "int f( {\n  return 1;\n}\n", "int f"),
    "a.cs": ("class A {\n  int X = 1;\n}\n", "class A {\n  int X = ;\n}\n", "int X"),
    "a.rb": ("def f\n  1\nend\n", "def f(\n  1\nend\n", "def f("),
    "a.php": ("<?php\nfunction f() {\n  return 1;\n}\n", "<?php\nfunction f() {\n  return (1;\n}\n", "return (1"),
    "a.sh": ("if true; then\n  echo a\nfi\n", "if true; then\n  echo a\n", "echo a"),
    "a.json": ('{"a": 1}\n', "{'a': 1}\n", "'a'"),
    "tsconfig.json": ('{"a": 1, // why\n}\n', '{"a": 1 "b": 2, // why\n}\n', '"b"'),
    "a.toml": ("a = 1\n", "a = \n", "a = "),
    "a.yaml": ("a: [1]\n", "a: [1\nb: 2\n", "b: 2"),
}


def test_every_language_has_a_sample():
    suffixes = {name.rpartition(".")[2] for name in SAMPLES}
    assert {LANGUAGES[suffix] for suffix in suffixes} | {"jsonc", "notebook"} == set(LANGUAGES.values())


@pytest.mark.parametrize("name", SAMPLES)
def test_an_error_is_told_with_its_line(name: str):
    valid, broken, part = SAMPLES[name]
    assert SYNTAX.get_max_bytes(name)
    assert SYNTAX.find_new_errors(name, None, valid.encode()) == ()
    for before in (None, valid.encode()):
        found = SYNTAX.find_new_errors(name, before, broken.encode())
        assert found
        assert part in found[0].text
        assert broken.split("\n")[found[0].line - 1] == found[0].text


@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_broken_before_is_not_told_again(name: str):
    valid, broken, _ = SAMPLES[name]
    assert SYNTAX.find_new_errors(name, broken.encode(), broken.encode() + b"\n") == ()
    assert SYNTAX.find_new_errors(name, broken.encode(), broken.replace("x", "y").encode()) == ()
    assert SYNTAX.find_new_errors(name, broken.encode(), valid.encode()) == ()


@settings(max_examples=examples(400), deadline=None)
@given(name=st.sampled_from(sorted(SAMPLES)), text=st.text(max_size=60), more=st.integers(0, 3))
def test_a_text_is_never_newly_broken_by_blank_lines_at_its_end(name: str, text: str, more: int):
    before = text.encode("utf-8", "replace")
    assert SYNTAX.find_new_errors(name, before, before) == ()
    if SYNTAX.find_new_errors(name, None, before):
        assert SYNTAX.find_new_errors(name, before, before + b"\n" * more) == ()


@settings(max_examples=examples(400), deadline=None)
@given(name=st.sampled_from(sorted(SAMPLES)), before=st.binary(max_size=80), after=st.binary(max_size=80))
def test_any_bytes_are_read_without_an_exception(name: str, before: bytes, after: bytes):
    for error in SYNTAX.find_new_errors(name, before, after):
        assert error.line >= 1


# Lines with directives, brackets left open and macros: what makes a C parser parse a text again.
C_LINES = [
    "int a;",
    "int f(void) {",
    "}",
    "#if A",
    "#else",
    "#endif",
    "  g(1);",
    "  CALL(x)",
    "#define B (1 + \\",
    "",
    "  x = [;",
]


@settings(max_examples=examples(400), deadline=None)
@given(
    before=st.lists(st.sampled_from(C_LINES), max_size=12).map("\n".join),
    after=st.lists(st.sampled_from(C_LINES), max_size=12).map("\n".join),
)
def test_a_text_parsed_from_the_tree_of_another_always_has_the_tree_of_its_own(before: str, after: str):
    parser, old, new = get_parser("c"), before.encode(), after.encode()
    reused = parser.parse(new, edit_tree(old, parser.parse(old), new))
    assert _list_nodes(reused.root_node) == _list_nodes(parser.parse(new).root_node)


def _list_nodes(node: Node) -> list[tuple[str, int, int]]:
    here = (node.type, node.start_byte, node.end_byte)
    return [here, *(each for child in node.children for each in _list_nodes(child))]


def test_a_second_error_elsewhere_is_told_in_a_file_that_was_broken():
    lines = [f"function f{n}() {{ return {n}; }}" for n in range(40)]
    lines[2] = "var a = ;"
    before = "\n".join(lines)
    lines[30] = "var b = ;"
    (error,) = SYNTAX.find_new_errors("a.js", before.encode(), "\n".join(lines).encode())
    assert error.line == 31


@pytest.mark.parametrize(
    "text",
    [
        "type Point = tuple[int, int]\n",
        "def f[T](x: T) -> T:\n    return x\n",
        "try:\n    f()\nexcept A, B:\n    pass\n",
        "x = f'{a['b']}'\n",
    ],
)
def test_syntax_of_a_newer_python_is_no_error(text: str):
    assert SYNTAX.find_new_errors("a.py", b"x = 1\n", text.encode()) == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [("def f():\nreturn 1\n", 2), ("if x:\n    a\n  b\n", 3), ("f(a=1, 2)\n", 1), ("try:\n    x\ny = 1\n", 3)],
)
def test_python_errors_that_its_grammar_accepts_are_told(text: str, line: int):
    (error,) = SYNTAX.find_new_errors("a.py", b"x = 1\n", text.encode())
    assert error.line == line


@pytest.mark.parametrize("foreign", ["     2→echo b", "<<<<<<< HEAD\necho b\n=======\necho c\n>>>>>>> main"])
def test_lines_of_a_reply_and_conflict_markers_are_told_in_any_language(foreign: str):
    (error,) = SYNTAX.find_new_errors("a.sh", b"echo a\n", f"echo a\n{foreign}\n".encode())
    assert (error.line, error.text) == (2, foreign.partition("\n")[0])
    assert SYNTAX.find_new_errors("a.sh", f"{foreign}\n".encode(), f"{foreign}\necho d\n".encode()) == ()


def test_files_of_other_kinds_and_binary_ones_are_left_alone():
    assert not SYNTAX.get_max_bytes("a.txt")
    assert not SYNTAX.get_max_bytes("Makefile")
    assert SYNTAX.find_new_errors("a.py", None, b"\0\1(") == ()


def test_a_template_is_not_yaml():
    assert SYNTAX.find_new_errors("values.yaml", None, b"a: {{ .Values.a }}\n{{- if x }}\nb: 1\n{{- end }}\n") == ()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('a: "{{ x }}"\nb:\n  c: 1\n', 'a: "{{ x }}"\nb:\n  {{- if y }}\n  c: 1\n  {{- end }}\n'),
        ("a:\n  b: 1\n", "a:\n  {{- toYaml .Values.a | nindent 2 }}\n"),
        ("a: 1\n", "{% if x %}\na: 1\n{% endif %}\n"),
        ("a: 1\n", "a: {{ x }} y\n"),
        ("- a\n", "- {{ x }} y\n"),
    ],
)
def test_yaml_may_become_a_template(before: str, after: str):
    assert SYNTAX.find_new_errors("a.yaml", before.encode(), after.encode()) == ()


@pytest.mark.parametrize("line", ['name: "{{ item }}"', "name: ${{ matrix.python }}", "name: x-{{ y }}"])
def test_yaml_with_expressions_in_its_values_is_yaml(line: str):
    assert SYNTAX.find_new_errors("a.yaml", f"{line}\na: [1]\n".encode(), f"{line}\na: [1\n".encode())


@pytest.mark.parametrize(
    "name",
    [".devcontainer.json", "devcontainer.json", "babel.config.json", ".babelrc.json", "deno.json", "turbo.json"],
)
def test_comments_are_usual_in_some_settings(name: str):
    assert SYNTAX.find_new_errors(f"/ws/{name}", b'{"a": 1}\n', b'{\n  // why\n  "a": 1,\n}\n') == ()
    assert SYNTAX.find_new_errors("/ws/a.json", b'{"a": 1}\n', b'{\n  // why\n  "a": 1\n}\n')


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("de.ts", '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS version="2.1" language="de"></TS>\n'),
        ("a.js", "/**\n * @flow strict\n */\ntype A = {| x: number |};\nexport function f(x: ?string): number {}\n"),
        ("a.sh", "#!/usr/bin/env zsh\nfor f in **/*(.); do echo ${f:t}; done\nprint -l ${(s:,:)x}\n"),
        ("a.sh", "#compdef a\nprint -l ${(s:,:)x}\n"),
    ],
)
def test_a_text_that_says_it_is_of_another_language_is_not_checked(name: str, text: str):
    for before in (None, text.encode() + b"\n"):
        assert SYNTAX.find_new_errors(name, before, text.encode()) == ()


@pytest.mark.parametrize("line", ["#!/bin/sh", "#!/usr/bin/env -S bash -e", "#!/bin/dash", "# flow"])
def test_a_script_of_a_shell_like_bash_is_checked(line: str):
    assert SYNTAX.find_new_errors("a.sh", None, f"{line}\nif true; then\n  echo a\n".encode())


def notebook(*sources: str) -> bytes:
    cells = [
        {"cell_type": "code", "id": f"c{n}", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for n, source in enumerate(sources)
    ]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}, indent=1).encode()


def test_a_notebook_is_checked_by_cell():
    before = notebook("x = (1", "y = 2")
    after = notebook("x = (1", "%matplotlib inline\n!ls\ny = (2")
    (error,) = SYNTAX.find_new_errors("a.ipynb", before, after)
    assert error == TextError(3, 5, "'(' was never closed", 3, "c1", "y = (2")
    assert SYNTAX.find_new_errors("a.ipynb", before, notebook("x = (1", "%%bash\nif", "await f()", "?print")) == ()
    assert SYNTAX.find_new_errors("a.ipynb", before, after[:-3])


@pytest.mark.parametrize(
    "source",
    [
        "files = !ls *.csv\nprint(files)",
        "a, b = !git status",
        "r = %timeit -o f()",
        "!pip install a \\\n    b \\\n    c\nx = 1",
        "%pip install a \\\n    b",
        "# a comment\n\n%%bash\nls -la | grep x",
        "if x:\n    !ls",
        "%matplotlib inline\nx = (\n    'a %s'\n    % b\n)",
        "x = (a\n     %b)",
    ],
)
def test_lines_for_ipython_are_no_errors(source: str):
    assert SYNTAX.find_new_errors("a.ipynb", notebook("x = 1"), notebook("x = 1", source)) == ()


def test_an_error_after_a_line_for_ipython_has_its_own_line():
    source = "!pip install a \\\n    b\nx = (1"
    (error,) = SYNTAX.find_new_errors("a.ipynb", notebook("x = 1"), notebook("x = 1", source))
    assert (error.line, error.text) == (3, "x = (1")
