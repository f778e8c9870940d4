import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BadGlob
from handhold.core.text.automaton import Automaton, to_regex
from handhold.core.text.globs import Overrides, compile_matcher, parse_glob, validate_glob


def matches(glob: str, path: str, *, directory: bool = False) -> bool:
    raw = path.encode("utf-8", "surrogateescape")
    return Overrides((glob,)).decide(raw, raw.rpartition(b"/")[2], directory=directory) is True


@pytest.mark.parametrize(
    ("glob", "inside", "outside"),
    [
        ("/*.py", ["a.py", ".py"], ["d/a.py", "a.pyc"]),
        ("/**/*.py", ["a.py", "d/a.py", "d/e/a.py"], ["a.pyc"]),
        ("agents/*.py", ["agents/a.py"], ["agents/deep/a.py", "x/agents/a.py"]),
        ("*.py", ["a.py", "d/e/a.py"], ["a.py/x"]),
        ("src/**", ["src/a", "src/d/a"], ["src", "x/src/a"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb"]),
        ("?.py", ["a.py"], ["ab.py", "é.py"]),
        ("[a-c].py", ["b.py"], ["d.py"]),
        ("[!a-c].py", ["d.py"], ["b.py"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["-", "a"], ["b"]),
        ("*.{py,pyi}", ["a.py", "a.pyi"], ["a.pyx"]),
        ("{a,{b,c}d}", ["a", "bd", "cd"], ["b", "ad"]),
        ("a,b", ["a,b"], ["a"]),
        (r"\*", ["*"], ["a"]),
        (r"a\ ", ["a "], ["a"]),
        ("a ", ["a"], ["a "]),
        ("\\!a", ["!a"], ["a"]),
        ("\\#a", ["#a"], ["a"]),
        ("a**b", ["axb", "ab"], ["a/b"]),
        ("文*", ["文書", "d/文"], ["本"]),
    ],
)
def test_c71_a_glob_means_what_ripgrep_means_by_it(glob: str, inside: list[str], outside: list[str]):
    assert [path for path in inside if not matches(glob, path)] == []
    assert [path for path in outside if matches(glob, path)] == []


@pytest.mark.parametrize("glob", ["[", "a[b", "{a", "a}", "a\\", "[z-a]", "{" * 60 + "}" * 60])
def test_a_glob_that_is_none_is_refused(glob: str):
    with pytest.raises(BadGlob) as refused:
        validate_glob(glob)
    assert refused.value.pattern == glob
    assert refused.value.because


def test_an_exclamation_mark_leaves_out():
    assert Overrides(("!*.py",)).decide(b"a.py", b"a.py", directory=False) is False
    assert Overrides(("!*.py",)).decide(b"a.c", b"a.c", directory=False) is None


def test_the_last_glob_decides():
    both = Overrides(("*.py", "!test_*"))
    assert both.decide(b"test_a.py", b"test_a.py", directory=False) is False
    assert both.decide(b"a.py", b"a.py", directory=False) is True
    assert both.decide(b"a.c", b"a.c", directory=False) is False
    assert both.decide(b"d", b"d", directory=True) is None  # there may be something in it


def test_a_slash_behind_means_directories():
    assert matches("build/", "build", directory=True)
    assert not matches("build/", "build")


@pytest.mark.parametrize(
    "glob", ["*a" * 12 + "b", "**/" * 12 + "b", "{*a,*aa}" * 8 + "b", "/" + "*/" * 3 + "*a*a*a*a*a*b"]
)
def test_nasty_18_no_glob_takes_long(glob: str):
    begun = process_time()
    for path in ("a" * 255, "a/" * 100 + "a", "/".join(["a" * 50] * 4)):
        matches(glob, path)
    assert process_time() - begun < 1


@given(
    st.lists(
        st.sampled_from(["a", "b", "*", "**", "?", "/", "[ab]", "[!a]", "{a,b}", "{*,b/a}", "**/"]), max_size=6
    ).map("".join),
    st.text(alphabet="ab/", max_size=8),
)
def test_both_ways_of_matching_agree(glob: str, path: str):
    asked = parse_glob(glob)
    by_regex = re.compile(to_regex(asked), re.DOTALL).fullmatch(path.encode())
    assert Automaton(asked).matches(path.encode()) == bool(by_regex)


def test_however_many_braces_a_pattern_has_it_does_not_take_long():
    whole = compile_matcher(parse_glob("{a,aa}" * 40 + "b"))
    assert whole(b"a" * 60 + b"b")
    assert not whole(b"a" * 60 + b"c")
