"""Which places a pattern is about, and that a glance never holds back one of them."""

import sys
from threading import Thread
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.policy.path_patterns import PathPatterns, escape_glob, find_fixed_tops

ROOT = "/ws"


def covered(pattern: str, way: str, **options: bool) -> bool:
    return PathPatterns((pattern,), (ROOT,), "/home/me", **options).covers(f"{ROOT}/{way}")


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        (".env", [".env", "a/b/.env", ".env/x/y"], [".envrc", "x.env", "a/.env2"]),
        ("*.pem", ["a.pem", "x/y.pem", "d.pem/e"], ["pem", "a.pem2"]),
        ("./.env", [".env", ".env/x"], ["a/.env"]),
        ("db/migrations", ["db/migrations", "db/migrations/1.py"], ["x/db/migrations", "db/migration"]),
        ("db/*", ["db/a", "db/a/b"], ["db", "x/db/a"]),
        ("db/**", ["db/a", "db/a/b"], ["db", "dbx/a"]),
        ("**/secret/*.json", ["secret/a.json", "x/y/secret/b.json/c"], ["secret/x/a.json", "secret"]),
        ("build/", ["build", "x/build/y"], ["rebuild"]),
        ("*", ["a", "a/b"], []),
        ("**", ["a", "a/b"], []),
        ("{a,b}.txt", ["a.txt", "x/b.txt"], ["c.txt"]),
        ("[ab].txt", ["a.txt"], ["c.txt"]),
        (r"\*.txt", ["*.txt"], ["a.txt"]),
        ("{x/a,y/b}", ["x/a", "y/b/c"], ["b", "a"]),
        ("é*", ["é1", "x/été"], ["e1"]),
    ],
)
def test_a_pattern_is_about_a_name_a_way_or_a_folder(pattern: str, inside: list[str], outside: list[str]):
    assert [way for way in inside if not covered(pattern, way)] == []
    assert [way for way in outside if covered(pattern, way)] == []


def test_a_root_stands_for_itself_and_what_is_above_it_does_not_matter():
    places = PathPatterns((".ssh", "ws/*"), ("/home/me/.ssh/ws",))
    assert not places.covers("/home/me/.ssh/ws/a")
    assert not places.covers("/home/me/.ssh/other")
    assert places.covers("/home/me/.ssh/ws/.ssh/a")


def test_a_walk_through_long_paths_finds_what_a_look_at_each_place_finds():
    """Also where it turns aside and comes back: the last long folder is remembered."""
    patterns = ("secret", "s/**", "*.pem")
    deep = ROOT + "/d" * 1000
    folders = [
        deep,
        f"{deep}/e",
        f"{deep}/secret",
        f"{deep}/secret/f",
        f"{deep}/e",
        f"{deep}/e/s",
        deep[:-2],
        f"{ROOT}/s",
    ]
    places = [f"{folder}/{name}" for folder in folders for name in ("x", "a.pem", "secret")]
    walked = PathPatterns(patterns, (ROOT, f"{deep}/e"))
    alone = [PathPatterns(patterns, (ROOT, f"{deep}/e")).covers(place) for place in places]
    assert [walked.covers(place) for place in places] == alone
    assert walked.covers(f"{deep}/e/s/x")
    assert not walked.covers(f"{deep}/s/x")


def test_a_pattern_is_about_every_root():
    places = PathPatterns(("a/b",), ("/one", "/one/two", "/"))
    assert places.covers("/one/a/b")
    assert places.covers("/one/two/a/b")
    assert places.covers("/a/b/c")
    assert not places.covers("/one/x/a/b")


def test_a_home_and_an_absolute_path_are_where_they_say():
    places = PathPatterns(("~/.npmrc", "/etc/*.conf"), (ROOT, "/home/me"), "/home/me")
    assert places.covers("/home/me/.npmrc")
    assert places.covers("/etc/a.conf/x")
    assert not places.covers(f"{ROOT}/.npmrc")
    assert not places.covers(f"{ROOT}/etc/a.conf")
    assert not PathPatterns(("~/.npmrc",), (ROOT,)).covers("/.npmrc")


def test_a_home_with_strange_letters_stands_for_itself():
    assert PathPatterns(("~/x",), ("/",), "/home/[a]*").covers("/home/[a]*/x")
    assert not PathPatterns(("~/x",), ("/",), "/home/[a]*").covers("/home/ab/x")


@pytest.mark.parametrize(
    "pattern", ["", "/", ".", "../x", "a/../b", "~", "~me/x", "a\0b", "[a", "{a", "a\\", "\ud800*"]
)
def test_what_is_no_pattern_is_refused(pattern: str):
    with pytest.raises(ValueError, match=r"pattern|encode"):
        PathPatterns((pattern,), (ROOT,), "/home/me")


def test_case_is_folded_where_it_is_wanted():
    assert covered(".Env", "A/.eNV", ignore_case=True)
    assert covered("ÉTÉ", "e\u0301te\u0301", ignore_case=True)
    assert not covered(".env", ".ENV")


parts = st.sampled_from(["a", "b", ".env", "x.pem", "*", "**", "?", "*.pem", "a*", "*a", "{a,b}", "[ab]*", "é", r"\*"])
patterns = st.lists(parts, min_size=1, max_size=3).map("/".join) | st.text("ab.*?[]{},\\/é", min_size=1, max_size=6)
ways = st.lists(
    st.sampled_from(["a", "b", ".env", "x.pem", "ab", "é", "*", "A"]) | st.text("ab.é*", min_size=1), min_size=1
)


@given(st.lists(patterns, max_size=4), st.lists(ways.map("/".join), max_size=4), st.booleans())
def test_asked_together_patterns_say_what_each_says_alone(patterns: list[str], ways: list[str], folds: bool):
    alone: list[PathPatterns] = []
    for pattern in list(patterns):
        try:
            alone.append(PathPatterns((pattern,), (ROOT,), ignore_case=folds))
        except ValueError:
            patterns.remove(pattern)
    together = PathPatterns(patterns, (ROOT,), ignore_case=folds)
    for way in ways:
        place = f"{ROOT}/{way}"
        assert together.covers(place) == any(each.covers(place) for each in alone)


@given(patterns, ways)
def test_what_covers_a_folder_always_covers_all_in_it(pattern: str, names: list[str]):
    try:
        places = PathPatterns((pattern,), (ROOT,))
    except ValueError:
        return
    covered = [places.covers("/".join((ROOT, *names[: end + 1]))) for end in range(len(names))]
    assert covered == sorted(covered)


@given(st.text(min_size=1).filter(lambda name: "/" not in name and "\0" not in name and name not in (".", "..")))
def test_a_name_made_literal_always_covers_itself(name: str):
    try:
        places = PathPatterns((f"./{escape_glob(name)}",), (ROOT,))
    except ValueError:
        assert any("\ud800" <= char <= "\udfff" for char in name)
        return
    assert places.covers(f"{ROOT}/{name}")
    assert not places.covers(f"{ROOT}/{name}x")


@given(st.text())
def test_no_place_whatever_is_too_strange_to_be_asked_about(place: str):
    assert PathPatterns(("*.pem", "~/x", "a/**"), (ROOT,), "/home/me", ignore_case=True).covers(place) in (True, False)


def test_several_threads_may_ask_while_folders_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("handhold.core.policy.path_patterns.MAX_CACHED_FOLDERS", 3)
    places = PathPatterns(("a/*/secret",), (ROOT,))
    wrong: list[str] = []

    def ask(mine: int) -> None:
        for n in range(3_000):
            place = f"{ROOT}/a/{mine}-{n % 7}/secret/x/y"
            if not places.covers(place):
                wrong.append(place)

    threads = [Thread(target=ask, args=(mine,)) for mine in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- where a pattern can match


@pytest.mark.parametrize(
    ("pattern", "tops"),
    [
        ("conf/secret.txt", ["/ws/conf/secret.txt"]),
        ("./.env", ["/ws/.env"]),
        ("secrets/**", ["/ws/secrets"]),
        ("a/b/*.pem", ["/ws/a/b"]),
        ("a/{b,c}/d", ["/ws/a"]),
        ("/etc/passwd", ["/etc/passwd"]),
        ("~/.ssh/*", ["/home/me/.ssh"]),
        (".env", None),
        ("*.pem", None),
        ("**/x/y", None),
        ("*/x", None),
        ("{x/a,y/b}", None),
        ("café/x", None),  # two spellings on disk
        ("Kelvin/x", None),  # its first letter has another code point, too
        ("x/Kelvin", ["/ws/x"]),
    ],
)
def test_g2_a_pattern_with_a_fixed_beginning_is_about_one_place(pattern: str, tops: list[str] | None):
    found = find_fixed_tops((pattern,), (ROOT,), "/home/me")
    assert (found and [*found]) == tops
    folded = find_fixed_tops((pattern,), (ROOT,), "/home/me", ignore_case=True)
    assert folded is None or not any(char.isalpha() for top in folded for char in top.removeprefix(ROOT))


@given(st.lists(patterns, max_size=2), st.lists(ways.map("/".join), max_size=8), st.booleans())
def test_g2_what_patterns_cover_is_always_in_their_places(patterns: list[str], ways: list[str], folds: bool):
    try:
        covers = PathPatterns(patterns, (ROOT,), "/home/me", ignore_case=folds).covers
    except ValueError:
        return
    tops = find_fixed_tops(patterns, (ROOT,), "/home/me", ignore_case=folds)
    for way in ways if tops is not None else ():
        place = f"{ROOT}/{way}"
        if covers(place):
            assert any(place == top or place.startswith(top + "/") for top in tops or ()), (patterns, place)


def test_g2_only_these_letters_are_composed_from_others():
    others = (chr(code) for code in range(0x80, sys.maxunicode + 1) if not 0xD800 <= code < 0xE000)
    assert {normalize("NFC", each) for each in others if normalize("NFC", each).isascii()} == {*"K;`"}
