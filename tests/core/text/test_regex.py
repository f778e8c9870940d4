import pytest

from handhold.core.errors import BadRegex
from handhold.core.text.regex import compile_regex


def found(pattern: str, text: str, *, ignore_case: bool = False) -> list[str]:
    return [match.group() for match in compile_regex(pattern, ignore_case=ignore_case).finditer(text)]


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        (r"a.c", "abc a\nc", ["abc"]),
        (r"^\w+$", "one\ntwo words\nthree", ["one", "three"]),
        (r"\Aone\z", "one\none", ["one", "one"]),
        (r"[^x]y", "\ny ay", [" y", "ay"][1:]),
        (r"a\s", "a\na b", ["a "]),
        (r"a*+b", "aab", ["aab"]),
        (r"a**", "aa", ["aa", ""]),
        (r"(?P<n>a)(?<m>b)", "ab", ["ab"]),
        (r"(?i)foo|BAR", "FOO bar", ["FOO", "bar"]),
        (r"a(?i)b|c", "aB C A", ["aB", "C"]),
        (r"\x{e9}\u00e9\u{e9}", "ééé", ["ééé"]),
        (r"\p{Lu}\P{L}", "É1", ["É1"]),
        (r"[[:digit:][:space:]]+", "1 2", ["1 2"]),
        (r"\<b\w*\>", "ab bc", ["bc"]),
        (r"\b{start}b", "ab bc", ["b"]),
        (r"[\]a-]+", "]-a", ["]-a"]),
        (r".", "a\udcffb", ["a", "b"]),
        (r"a{2,3}", "aaaa", ["aaa"]),
    ],
)
def test_what_ripgrep_reads_python_finds(pattern: str, text: str, matches: list[str]):
    assert found(pattern, text) == matches


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "[",
        "a{",
        "*a",
        "a|*",
        r"\1",
        "(?=a)",
        "(?<!a)b",
        r"a\nb",
        r"\q",
        "\\",
        r"[a&&b]",
        "[a[bc]]",
        "(?x)a",
        r"\p{Greek}",
        "[z-a]",
        r"\x{d800}",
        r"(?P=n)",
    ],
)
def test_what_it_cannot_say_is_refused(pattern: str):
    with pytest.raises(BadRegex) as refused:
        compile_regex(pattern, ignore_case=False)
    assert refused.value.pattern == pattern
    assert refused.value.because


def test_case_may_be_ignored():
    assert found("straße", "STRASSE Straße", ignore_case=True) == ["Straße"]
