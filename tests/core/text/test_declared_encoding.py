"""Who may say what a file is encoded in, and which file is meant."""

import pytest

from handhold.core.facts import DeclaredEncoding
from handhold.core.text.declared_encoding import (
    EditorConfigSection,
    EncodingSettings,
    find_declared_encoding,
    parse_editorconfig,
    resolve_encoding,
)


@pytest.mark.parametrize(
    ("pattern", "path", "applies"),
    [
        ("*", "a/b.txt", True),
        ("*.txt", "a/b.txt", True),
        ("*.txt", "a/b.txtx", False),
        ("b.*", "a/b.txt", True),
        ("a/*.txt", "a/b.txt", True),
        ("a/*.txt", "a/c/b.txt", False),
        ("a/*.txt", "x/a/b.txt", False),
        ("/*.txt", "b.txt", True),
        ("/*.txt", "a/b.txt", False),
        ("a/**.txt", "a/c/b.txt", True),
        ("a/**/b.txt", "a/c/d/b.txt", True),
        ("a**z", "abcz", True),
        ("?.txt", "b.txt", True),
        ("?.txt", "bb.txt", False),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("[!ab].txt", "c.txt", True),
        ("*.{txt,ini}", "c.ini", True),
        ("*.{txt,ini}", "c.md", False),
        ("{a,b/c}.txt", "b/c.txt", True),
        ("{only}.txt", "only.txt", False),
        ("{only}.txt", "{only}.txt", True),
        ("f{1..3}.txt", "f2.txt", True),
        ("f{1..3}.txt", "f4.txt", False),
        ("f{-1..1}.txt", "f0.txt", True),
        ("f{1..999999}.txt", "f2.txt", False),
        ("\\*.txt", "*.txt", True),
        ("\\*.txt", "b.txt", False),
        ("a{b", "a{b", False),
        ("*a*a*a*a*a*a*a*a*b", "a" * 200, False),
    ],
)
def test_u4_a_section_is_about_the_files_that_its_pattern_names(pattern: str, path: str, applies: bool):
    assert EditorConfigSection(pattern, "latin1").applies_to(path) is applies


def test_u4_the_last_word_of_the_nearest_configuration_counts():
    near = parse_editorconfig(b"[*]\ncharset = latin1\n[*.md]\nCharset: no\ncharset=UTF-8\n; charset = x\n")
    above = parse_editorconfig(b"\xef\xbb\xbfroot = true\n[*]\ncharset = utf-16le\n")
    top = parse_editorconfig(b"[*]\ncharset = utf-8-bom\n")
    assert find_declared_encoding([(near, "a.txt"), (above, "d/a.txt")]) == resolve_encoding("latin1", ".editorconfig")
    assert find_declared_encoding([(near, "a.md"), (above, "d/a.md")]) == resolve_encoding("utf-8", ".editorconfig")
    assert find_declared_encoding([(parse_editorconfig(b""), "a"), (above, "d/a"), (top, "x/d/a")]) == resolve_encoding(
        "utf-16le", ".editorconfig"
    )
    assert find_declared_encoding([(parse_editorconfig(b"root=TRUE\n"), "a"), (top, "d/a")]) is None
    assert find_declared_encoding([(parse_editorconfig(b"[*]\ncharset = unset\n"), "a"), (top, "d/a")]) is None
    assert find_declared_encoding([(top, "a")]) == DeclaredEncoding("utf-8", b"\xef\xbb\xbf", ".editorconfig")


def test_u4_a_configuration_may_be_anything():
    for data in (b"", b"\xff\xfe\0[*", b"[", b"[]\ncharset", b"=\n[*]\n=\ncharset\n", b"[" * 10_000):
        assert parse_editorconfig(data).find_charset("a") is None


def test_u4_of_settings_the_last_pattern_that_fits_counts():
    settings = EncodingSettings({"*.txt": "windows-1251", "/old/**": "shift_jis", "a.txt": "UTF-8-BOM"})
    found = {path: settings.find_encoding(path) for path in ("x/b.txt", "old/b.txt", "x/a.txt", "x/b.md")}
    names = {path: each and (each.name, each.bom) for path, each in found.items()}
    marked = ("utf-8", b"\xef\xbb\xbf")
    assert names == {
        "x/b.txt": ("cp1251", b""),
        "old/b.txt": ("shift_jis", b""),
        "x/a.txt": marked,
        "x/b.md": None,
    }


@pytest.mark.parametrize(
    "name", ["", "utf-7", "rot13", "hex", "hz", "unicode_escape", "cp037", "big5hkscs", "nonsense"]
)
def test_u4_an_encoding_that_no_file_can_be_edited_in_is_refused_at_once(name: str):
    with pytest.raises(ValueError, match="encoding"):
        resolve_encoding(name, "settings")


@pytest.mark.parametrize("glob", ["", "# x", "!*.txt", "dir/", "[a", "{a"])
def test_u4_a_setting_must_have_a_pattern_for_files(glob: str):
    with pytest.raises(ValueError, match="pattern"):
        EncodingSettings({glob: "utf-8"})
