"""C-84: what bash runs is what was found. Bash itself is asked, in a folder of its own, with no program to be had."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.policy.modes import CLASSES_JUDGED_BY_EFFECTS
from handhold.core.policy.shell import ShellContext, analyze_command
from handhold.core.policy.shell.words import ELLIPSIS
from tests.scale import examples

STANDING = ShellContext(roots=("/ws/project",), cwd="/ws/project", home="/home/user")
TELLS = """PATH=/nowhere
command_not_found_handle() { printf '%s\\0' "$@" $'\\1' >&9; return 1; }
"""


def ran(script: str, folder: Path) -> tuple[list[tuple[str, ...]], list[str]]:
    """The commands that bash would have run, in its words, and the files that it made."""
    reading, writing = os.pipe()
    try:
        subprocess.run(
            ["bash", "-c", f"exec 9>&{writing}\n{TELLS}{script}"],
            cwd=folder,
            env={"given": "b[$(zz)]"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=(writing,),
            timeout=50,
            check=False,
        )
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as told:
        calls = told.read().decode("utf-8", "surrogateescape").split("\1\0")
    made = os.listdir(folder)
    for name in made:
        (folder / name).unlink()
    return [tuple(call.split("\0")[:-1]) for call in calls if call], made


def agrees(call: tuple[str, ...], found: tuple[str, ...]) -> bool:
    """A hole is any number of words, and a pattern may have been completed."""
    return call == found or (call[0] == found[0] and any(ELLIPSIS in word or set(word) & set("*?[") for word in found))


PIECES = st.sampled_from(
    ["aa", "bb", "cc", " ", " ", " ", "\n", ";", "&&", "||", "|", "&", "(", ")", "{ ", "; }", "'", '"', "`", "$(", ")", "$((", "))", "\\", "\\\n", "$x", "${x}", "${x:-", "}", "$'", "<<E", "\nE\n", "<<'E'", "#", " #", "!", "! ", "[", "]", "[[ ", " ]]", "if ", "then ", "fi", "else ", "for x in ", "do ", "done", "case ", "in ", " esac", ";;", "x=", "x=1 ", ">f ", "2>&1", "<f", " >", "<<<", ">&", "&>f", "f()", "time ", "*", "{a,b}", "=", "$", "-", "a[", "1", "<(", ">(", "(( ", "[ ", "é", "\t", ",", "echo ", '$"']
)  # fmt: skip
AROUND = ["{}", "aa {}", 'aa "{}"', "{}; bb", "aa <<E\n{}\nE\nbb", "if {}; then bb; fi", "$({})", "aa $({}) cc", "[[ {} ]]", "(({}))", "$(({}))", "f() {{ {}; }}; f", "for x in aa {}; do bb; done", "x={} bb", "bb ${{x:-{}}}", "case {} in aa) bb;; esac", "aa | {}", "{} | bb", "aa > {}"]  # fmt: skip


@given(st.lists(PIECES, min_size=1, max_size=8).map("".join), st.sampled_from(AROUND))
@settings(max_examples=examples(400))
def test_what_runs_unasked_runs_nothing_that_was_not_found(
    tmp_path_factory: pytest.TempPathFactory, text: str, around: str
):
    script = around.replace("{{", "{").replace("}}", "}").replace("{}", text)
    found = analyze_command(script, STANDING)
    if found.kind not in CLASSES_JUDGED_BY_EFFECTS:
        return
    calls, made = ran(script, tmp_path_factory.mktemp("bash"))
    assert [call for call in calls if not any(agrees(call, words) for words in found.commands)] == []
    assert not made or found.kind == "workspace-change"


EVALUATED = st.sampled_from(
    ["given", "$given", "${given}", '"$given"', "x", "$x", "y", "a", "1", "2", "x=given", "x=1", "x=$given", "y=x", "a[x]", "a[given]", "a[$x]", "${a[0]}", "${a[x]}", "${#a[@]}", "$?", "+", "*", "=", "++", ",", " && ", " ? ", " : ", "(", ")", "[", "]", "'", "\\\n", ";"]
)  # fmt: skip
EVALUATING = ["(({}))", "echo $(({}))", "echo $[{}]", 'let "{}"', "let {}", "[[ {} -eq 1 ]]", "[[ 1 -gt {} && 2 -lt x ]]", "[ {} -eq 1 ]", "[[ -v {} ]]", "test -v {}", "[ -v {} ]", "a[{}]=1", "a=([{}]=1)", "echo ${{a[{}]}}", 'echo "${{a[{}]}} ${{x:{}}}"', "echo ${{x:{}:1}}", "unset {}", "unset 'a[{}]'", 'read "a[{}]" <<< 1', 'printf -v "a[{}]" 1', "printf -v {} 1", "declare a[{}]=1", 'declare "a[{}]=1"', "declare -A a; ((a[{}]++))", "declare -A a; a[{}]=1", "for (({};0;)); do :; done", "for ((;x<1;{})); do x=1; done", "for x in {}; do ((x)); done", "x={}; ((x))", "a=({}); ((a[0] + a[1]))", "x={}; y=x; echo $((y))", "f() {{ x={}; }}; f; ((x))", "cat <<E\n${{a[{}]}}\nE", "echo ${{!{}}}", "while ((x < 1)); do x={}; ((y++)); break; done", "if ((x)); then x={}; fi; ((x))", "x+={}; ((x))"]  # fmt: skip


@given(st.lists(EVALUATED, min_size=1, max_size=4).map("".join), st.sampled_from(EVALUATING), st.booleans())
@settings(max_examples=examples(400))
def test_c84_what_runs_unasked_evaluates_no_value_that_is_not_known(
    tmp_path_factory: pytest.TempPathFactory, text: str, around: str, constant: bool
):
    """`given` comes with the environment, and holds a subscript that would run `zz`."""
    script = ("x=1; y=2; a=(1 2); " if constant else "") + around.replace("{{", "{").replace("}}", "}").replace(
        "{}", text
    )
    if analyze_command(script, STANDING).kind in CLASSES_JUDGED_BY_EFFECTS:
        calls, _ = ran(script, tmp_path_factory.mktemp("bash"))
        assert ("zz",) not in calls


@pytest.mark.parametrize(
    "script",
    [
        "((given))",
        "echo $((given + 1))",
        "[[ given -eq 1 ]]",
        "let x=given",
        "a[given]=1",
        "a=([x=$given+]=1)",
        "a=([ $given]=1)",
        "a=([ ? $given]=1)",
        "a=([1 + $given]=1)",
        "a=(1); unset 'a[x=given]'",
    ],
)
def test_c84_bash_runs_the_code_in_a_value_that_it_evaluates(script: str, tmp_path: Path):
    assert ("zz",) in ran(script, tmp_path)[0]
    assert analyze_command(script, STANDING).kind == "unknown"


@pytest.mark.parametrize(
    "script",
    [
        "x=\\\n bb",
        "éx=",
        "\\ aa; bb",
        "aa | !bb",
        "1=aa",
        "if -2>&1; then bb; fi",
        "aa <<E\n\\\naa\nE\nbb",
        "aa >f}\\bb",
        "x={a,b}\\~ bb",
        'bb $"cc"',
        "aa - <<E\nbb\nE",
        "time x=1 bb",
        "aa $(>f echo bb) cc",
    ],
)
def test_where_the_grammar_and_bash_disagree_it_is_asked_or_rightly_found(script: str, tmp_path: Path):
    """Each of these was read in one way by the grammar's parser and in another by bash."""
    found = analyze_command(script, STANDING)
    calls, _ = ran(script, tmp_path)
    assert found.kind not in CLASSES_JUDGED_BY_EFFECTS or all(
        any(agrees(call, words) for words in found.commands) for call in calls
    )


@pytest.mark.parametrize(
    ("script", "commands"),
    [
        ("r''m -f 'a b' \"c d\" e\\ f", [("rm", "-f", "a b", "c d", "e f")]),
        ('x=1; y="$x 2"; aa $y "$y"', [("aa", "1", "2", "1 2")]),
        ("aa {b,c}{d,e} {1..3}", [("aa", "bd", "be", "cd", "ce", "1", "2", "3")]),
        ("aa $'\\x62\\143\\t' \"\\$x\" '\\$x'", [("aa", "bc\t", "$x", "\\$x")]),
        ("aa >f bb 2>&1 cc", [("aa", "bb", "cc")]),
        ("aa && { bb || cc; } | dd; (ee) & ff", [("aa",), ("bb",), ("cc",), ("dd",), ("ee",), ("ff",)]),
        ("for x in aa bb; do $x 1; done", [("aa", "1"), ("bb", "1")]),
        ("aa <<E && bb\ncc\nE\ndd", [("aa",), ("bb",), ("dd",)]),
    ],
)
def test_words_are_what_bash_makes_of_them(script: str, commands: list[tuple[str, ...]], tmp_path: Path):
    found = analyze_command(script, STANDING)
    assert list(found.commands) == commands
    calls, _ = ran(script, tmp_path)
    assert calls
    assert set(calls) <= set(commands)
