"""Searching with ripgrep: what it finds, in which order, and which results may be shown."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.search.events import FoundLine
from handhold.backends.search.ripgrep import RipgrepSearch
from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep
from handhold.backends.search.search_folder import LineVerifier
from handhold.backends.search.search_process import EngineFailed
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import BadGlob, BadRegex, NotFound
from handhold.core.facts import MatchRow, SearchHit
from handhold.core.plans import Search
from handhold.core.requests import Grep
from handhold.core.text.cursor import checksum_hit
from tests.backends.search.looking import Looking, children, descriptors, looking, planted
from tests.scale import scaled

NASTY = [  # rows 19 to 21 and 24
    *("two\nlines", "a\ttab", "\x1b[31mred", b"\xff\xfe.txt", "\u202egpj.exe", "zero\u200bwidth"),
    *("-rf", "--pre=x", "~", "$(id)", "*", " lead", "trail ", "con", "a:b", "a\\b", "[x]", "{y}", "!not"),
]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Looking]:
    with looking(tmp_path, "ripgrep") as look:
        yield look


# --- names


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("*.py", ["top.py"]),
        ("agents/*.py", ["agents/one.py"]),
        ("**/*.py", ["agents/deep/two.py", "agents/one.py", "top.py"]),
        ("agents/**/*.py", ["agents/deep/two.py", "agents/one.py"]),
        ("agents/**", ["agents/deep/two.py", "agents/notes.md", "agents/one.py"]),
        ("*/one.??", ["agents/one.py"]),
        ("{top,agents/one}.py", ["agents/one.py", "top.py"]),
        ("agents/[m-o]*", ["agents/notes.md", "agents/one.py"]),
        ("agents", []),
    ],
)
def test_c71_a_star_stays_in_one_directory_and_two_cross(
    disk: Looking, tmp_path: Path, pattern: str, matched: list[str]
):
    planted(tmp_path, dict.fromkeys(["top.py", "agents/one.py", "agents/deep/two.py", "agents/notes.md"], ""))
    assert disk.names(disk.glob(pattern, sort="none")) == matched


def test_c71_a_glob_is_anchored_at_the_folder_it_looks_in(disk: Looking, tmp_path: Path):
    planted(tmp_path, dict.fromkeys(["src/a.py", "src/src/a.py"], ""))
    assert disk.names(disk.glob("src/*.py", below="src")) == ["src/src/a.py"]


def test_c71_the_newest_come_first_and_of_the_same_age_the_first_by_path(disk: Looking, tmp_path: Path):
    planted(tmp_path, dict.fromkeys(["z", "y", "a-b/c", "a/c", "a/b"], "needle"))
    for name in ("a-b/c", "a/c", "a/b"):
        os.utime(tmp_path / name, (0, 0))
    wanted = ["z", "y", "a/b", "a/c", "a-b/c"]
    assert disk.names(disk.glob("**")) == wanted
    assert disk.names(disk.grep("needle")) == wanted
    assert disk.names(disk.grep("needle", mode="content")) == wanted
    assert disk.glob("**").order == "modified"


def test_unsorted_is_by_path_folder_by_folder(disk: Looking, tmp_path: Path):
    planted(tmp_path, dict.fromkeys(["b", "a/z", "a-b", "a.txt", "B"], "needle"))
    wanted = ["B", "a/z", "a-b", "a.txt", "b"]
    for scan in (disk.glob("**", sort="none"), disk.grep("needle", sort="none")):
        assert disk.names(scan) == wanted
        assert (scan.order, scan.abort_reason, scan.has_more) == ("path", "", False)


@pytest.mark.parametrize("sort", ["modified", "none"])
def test_nasty_19_to_24_every_name_comes_back_as_it_is(disk: Looking, tmp_path: Path, sort: str):
    names = {os.fsdecode(name) for name in NASTY}
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("a needle\n")
    wanted = {f"{name}/{name}" for name in names}
    assert set(disk.names(disk.glob("**/*", sort=sort))) == wanted
    assert set(disk.names(disk.grep("needle", sort=sort))) == wanted
    assert set(disk.names(disk.grep("needle", sort=sort, mode="count"))) == wanted
    assert {name for name, _, _ in disk.lines(disk.grep("needle", sort=sort, mode="content"))} == wanted
    for name in wanted:
        assert disk.names(disk.grep("needle", sort=sort, mode="content", below=name)) == [name]


def test_gits_own_folder_stays_out_unless_everything_is_asked_for(disk: Looking, tmp_path: Path):
    planted(tmp_path, dict.fromkeys([".git/config", ".github/flow.yml", "a"], "needle"))
    assert disk.names(disk.glob("**", hidden=True, sort="none")) == [".github/flow.yml", "a"]
    assert disk.names(disk.grep("needle", hidden=True, sort="none")) == [".github/flow.yml", "a"]
    assert disk.names(disk.grep("needle", glob="**/*", sort="none")) == [".github/flow.yml", "a"]
    assert disk.names(disk.grep("needle", sort="none")) == ["a"]
    everything = [".git/config", ".github/flow.yml", "a"]
    assert disk.names(disk.grep("needle", hidden=True, ignored=True, sort="none")) == everything


# --- contents


def test_c72_a_pattern_is_literal_unless_a_regex_is_asked_for(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"literal": "a.c", "other": "abc", "case": "A.C"})
    assert disk.names(disk.grep("a.c", sort="none")) == ["literal"]
    assert disk.names(disk.grep("a.c", sort="none", regex=True)) == ["literal", "other"]
    assert disk.names(disk.grep("a.c", sort="none", ignore_case=True)) == ["case", "literal"]
    assert disk.names(disk.grep("--files", sort="none")) == []


def test_c72_a_glob_filter_has_ripgreps_meaning(disk: Looking, tmp_path: Path):
    planted(tmp_path, dict.fromkeys(["a.py", "src/b.py", "src/c.txt", "lib/src/d.py"], "needle"))
    assert disk.names(disk.grep("needle", glob="*.py", sort="none")) == ["a.py", "lib/src/d.py", "src/b.py"]
    assert disk.names(disk.grep("needle", glob="src/**", sort="none")) == ["src/b.py", "src/c.txt"]
    assert disk.names(disk.grep("needle", glob="!*.py", sort="none")) == ["src/c.txt"]


@pytest.mark.parametrize("sort", ["modified", "none"])
def test_c72_counts_are_of_matching_lines(disk: Looking, tmp_path: Path, sort: str):
    planted(tmp_path, {"a": "x x\nx\ny\n", "b": "y\n", "c": "x"})
    scan = disk.grep("x", mode="count", sort=sort)
    assert [(hit.place[-1], hit.count) for hit in scan.hits] == [("a", 2), ("c", 1)]
    alone = disk.grep("x", mode="count", sort=sort, below="a")
    assert [(hit.place[-1], hit.count) for hit in alone.hits] == [("a", 2)]


@pytest.mark.parametrize("sort", ["modified", "none"])
def test_c72_lines_come_with_their_numbers_and_those_around_them(disk: Looking, tmp_path: Path, sort: str):
    planted(tmp_path, {"a": "1\n2\n3 hit\n4\n5\n6\n7\n8 hit\n9\n"})
    (hit,) = disk.grep("hit", mode="content", sort=sort, before=1, after=2).hits
    assert [(row.number, row.text, row.is_match) for row in hit.rows] == [
        *((2, "2", False), (3, "3 hit", True), (4, "4", False), (5, "5", False)),
        *((7, "7", False), (8, "8 hit", True), (9, "9", False)),
    ]
    assert [hit.rows[1].text[row.start : row.end] for row in hit.rows[1:2]] == ["hit"]


def test_lines_around_a_match_that_is_on_another_page_stay_there(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "1\n2 hit\n3\n4 hit\n5\n6 hit\n7\n"})
    (hit,) = disk.grep("hit", mode="content", sort="none", before=1, after=1, limit=1, start=1).hits
    assert [row.number for row in hit.rows] == [3, 4, 5]


ENCODED = {
    "crlf": (b"x\r\na needle\r\n", 2, "a needle"),
    "latin": (b"caf\xe9 needle\n", 1, "caf\ufffd needle"),
    "bom": ("\ufeffx\nneedle é\n".encode(), 2, "needle é"),
    "utf-16": ("x\nä needle\n".encode("utf-16"), 2, "ä needle"),
    "utf-16-be": (b"\xfe\xff" + "x\nä needle\n".encode("utf-16-be"), 2, "ä needle"),
    "no end": (b"x\nneedle", 2, "needle"),
    "cr": (b"x\rneedle\ry\n", 1, "x\rneedle\ry"),
}


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.parametrize("sort", ["modified", "none"])
def test_nasty_16_a_line_is_shown_whatever_its_encoding(disk: Looking, tmp_path: Path, name: str, sort: str):
    data, number, text = ENCODED[name]
    planted(tmp_path, {name: data})
    scan = disk.grep("needle", mode="content", sort=sort)
    assert disk.lines(scan) == [(name, number, text)]
    row = scan.hits[0].rows[0]
    assert row.text[row.start : row.end] == "needle"
    assert scan.unstable_count == 0


@pytest.mark.parametrize("width", [20, 100])
def test_a_long_line_is_cut_around_its_match(disk: Looking, tmp_path: Path, width: int):
    planted(tmp_path, {"a": "ä" * 300 + "needle" + "ö" * 500 + "\n"})
    ((row,),) = (hit.rows for hit in disk.grep("needle", mode="content", width=width).hits)
    assert row.text[row.start : row.end] == "needle"
    assert len(row.text) == width
    assert (row.omitted_chars[0] + row.start, row.omitted_chars[1] + len(row.text) - row.end) == (300, 500)


@pytest.mark.parametrize("size", [70_000, 3_000_000])
@pytest.mark.parametrize("tail", ["\n", "\r\nnext\n", ""])
def test_a_line_too_long_to_be_held_is_cut_the_same_way(disk: Looking, tmp_path: Path, size: int, tail: str):
    planted(tmp_path, {"a": f'first\n{"é" * size} "needle" {"€" * size}{tail}'})
    scan = disk.grep("needle", mode="content", after=1)
    row = next(row for hit in scan.hits for row in hit.rows if row.is_match)
    assert row.number == 2
    assert row.text[row.start : row.end] == "needle"
    assert len(row.text) <= 500
    assert (row.omitted_chars[0] + row.start, row.omitted_chars[1] + len(row.text) - row.end) == (size + 2, size + 2)


def test_context_too_long_to_be_held_is_cut_too(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "needle\n" + "€" * 100_000 + "\n"})
    ((_, context),) = (hit.rows for hit in disk.grep("needle", mode="content", after=1).hits)
    assert (context.number, context.is_match, context.text, context.omitted_chars) == (2, False, "€" * 500, (0, 99_500))


def test_a_match_too_long_to_be_held_is_shown_from_its_start(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "x" * 5 + "y" * 200_000 + "z\n"})
    ((row,),) = (hit.rows for hit in disk.grep("y+", regex=True, mode="content", width=50).hits)
    assert row.text[row.start : row.end] == "y" * (row.end - row.start)
    assert row.omitted_chars[0] + row.start == 5
    assert sum(row.omitted_chars) + len(row.text) == 200_006


@pytest.mark.parametrize("pattern", ["a(", "a{1000}{1000}{1000}", "[z-a]", "a\\nb"])
def test_a_regex_that_is_none_is_told_in_ripgreps_words(disk: Looking, tmp_path: Path, pattern: str):
    planted(tmp_path, {"a": "a"})
    with pytest.raises(BadRegex) as told:
        disk.grep(pattern, regex=True)
    assert told.value.because


@pytest.mark.parametrize("pattern", ["a{b", "[z-a]"])
def test_a_glob_that_is_none_is_told(disk: Looking, tmp_path: Path, pattern: str):
    planted(tmp_path, {"a": "a"})
    for look in (lambda: disk.glob(pattern), lambda: disk.grep("a", glob=pattern)):
        with pytest.raises(BadGlob) as told:
            look()
        assert told.value.because


def test_nasty_18_a_regex_that_explodes_elsewhere_is_linear_here(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "a" * 50_000 + "\n"})
    scan = disk.grep("(a+)+$b|(a|aa)+c", regex=True, timeout_seconds=2.0)
    assert (scan.hits, scan.abort_reason) == ((), "")


# --- explicitly named files are searched


@pytest.mark.parametrize("name", [".hidden", "ignored.log", "deep/.in/x"])
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
def test_u11_a_file_that_is_named_is_always_searched(disk: Looking, tmp_path: Path, name: str, mode: str):
    planted(tmp_path, {".ignore": "*.log\nx\n", name: "needle\n"})
    assert disk.names(disk.grep("needle", mode=mode)) == []
    assert disk.names(disk.grep("needle", mode=mode, below=name, glob="*.never")) == [name]


@pytest.mark.parametrize("sort", ["modified", "none"])
def test_u11_a_binary_file_is_searched_if_it_is_named(disk: Looking, tmp_path: Path, sort: str):
    planted(tmp_path, {"a": b"needle one\nb\0c\nneedle two\n"})
    assert disk.names(disk.grep("needle", mode="content", sort=sort)) == []
    found = disk.lines(disk.grep("needle", mode="content", sort=sort, below="a"))
    assert [text for _, _, text in found] == ["needle one", "needle two"]


def test_u11_a_folder_that_is_named_is_always_entered(disk: Looking, tmp_path: Path):
    planted(tmp_path, {".ignore": "/build/\n", "build/x": "needle", ".venv/x": "needle"})
    assert disk.names(disk.grep("needle")) == []
    assert disk.names(disk.grep("needle", below="build")) == ["build/x"]
    assert disk.names(disk.grep("needle", below=".venv")) == [".venv/x"]


def test_a_place_where_nothing_stands_is_told(disk: Looking):
    with pytest.raises(NotFound):
        disk.grep("needle", below="missing")


# --- pages


@pytest.mark.parametrize("sort", ["modified", "none"])
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
def test_pages_put_together_are_the_whole(disk: Looking, tmp_path: Path, sort: str, mode: str):
    planted(tmp_path, {f"f{n:02}": "needle\n\nneedle\n" for n in range(10)})
    whole = disk.grep("needle", mode=mode, sort=sort)
    found = disk.lines(whole) if mode == "content" else disk.names(whole)
    assert not whole.has_more
    pages: list[object] = []
    state, more = None, True
    while more:
        page = disk.grep("needle", mode=mode, sort=sort, limit=3, start=len(pages), checksum=state)
        assert not page.changed_since_cursor
        state = page.checksum if page.is_checksum_of_all else behind(page.checksum, page.hits)
        pages += disk.lines(page) if mode == "content" else disk.names(page)
        more = page.has_more
    assert pages == found


def behind(state: int, hits: tuple[SearchHit, ...]) -> int:
    for hit in hits:
        state = checksum_hit(state, hit)
    return state


@pytest.mark.parametrize("sort", ["modified", "none"])
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
def test_a_page_says_that_something_changed_since_the_one_before(disk: Looking, tmp_path: Path, sort: str, mode: str):
    planted(tmp_path, {f"f{n}": "needle\n" for n in range(6)})
    page = disk.grep("needle", mode=mode, sort=sort, limit=2)
    state = page.checksum if page.is_checksum_of_all else behind(page.checksum, page.hits)
    (tmp_path / "a").write_text("needle\n")
    assert disk.grep("needle", mode=mode, sort=sort, limit=2, start=2, checksum=state).changed_since_cursor


def test_c74_a_scan_that_stops_at_its_limit_says_so(disk: Looking, tmp_path: Path):
    planted(tmp_path, {f"f{n}": "needle\n" * 3 for n in range(5)})
    early = disk.grep("needle", sort="none", limit=2)
    assert (len(early.hits), early.has_more, early.abort_reason, early.is_checksum_of_all) == (2, True, "limit", False)
    lines = disk.grep("needle", sort="none", mode="content", limit=4)
    assert [(name, number) for name, number, _ in disk.lines(lines)] == [("f0", 1), ("f0", 2), ("f0", 3), ("f1", 1)]
    assert (lines.has_more, lines.abort_reason) == (True, "limit")
    newest = disk.grep("needle", limit=2)
    assert (len(newest.hits), newest.has_more, newest.abort_reason, newest.is_checksum_of_all) == (2, True, "", True)


@pytest.mark.parametrize("files", [40, 200])
def test_the_newest_lines_are_the_same_however_many_there_are(disk: Looking, tmp_path: Path, files: int):
    planted(tmp_path, {f"f{n:03}": "x\nneedle\n" * 60 for n in range(files)})
    scan = disk.grep("needle", mode="content", limit=130, start=50)
    wanted = [(f"f{n // 60:03}", n % 60 * 2 + 2, "needle") for n in range(50, 180)]
    assert disk.lines(scan) == wanted
    assert (scan.order, scan.has_more, scan.abort_reason) == ("modified", True, "")


# --- the boundary


def test_a_place_that_may_not_be_seen_is_neither_shown_nor_counted(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"secret": "needle\n", "open": "needle\n", "also": "needle\n"})
    visible = lambda place: not place.endswith("secret")  # noqa: E731
    for sort in ("modified", "none"):
        for mode in ("files_with_matches", "content", "count"):
            scan = disk.grep("needle", mode=mode, sort=sort, limit=2, visible=visible)
            assert sorted(disk.names(scan)) == ["also", "open"]
            assert not scan.has_more
            before = disk.grep("needle", mode=mode, sort=sort, visible=visible).checksum
            (tmp_path / "secret").write_text("needle or not\n")
            assert disk.grep("needle", mode=mode, sort=sort, visible=visible).checksum == before


def test_links_are_not_followed(disk: Looking, tmp_path: Path):
    outside = planted(tmp_path / "outside", {"x": "needle"})
    inside = planted(tmp_path / "inside", {"real/x": "needle"})
    (inside / "file").symlink_to(outside / "x")
    (inside / "folder").symlink_to(outside)
    (inside / "real/up").symlink_to("..")
    with looking(inside, "ripgrep") as look:
        for sort in ("modified", "none"):
            assert look.names(look.grep("needle", sort=sort)) == ["real/x"]
            assert look.names(look.glob("**", sort=sort)) == ["real/x"]


def test_the_boundary_holds_without_openat2_too(tmp_path: Path):
    root = planted(tmp_path / "ws", {"sub/a": "needle\n", "b": "needle\n"})
    (root / "link").symlink_to("/etc")
    workspace = Workspace([root], SqliteStore.in_memory(), "walk")
    look = Looking(workspace, ["ripgrep"])
    for sort in ("modified", "none"):
        for mode in ("files_with_matches", "content", "count"):
            assert sorted(look.names(look.grep("needle", mode=mode, sort=sort))) == ["b", "sub/a"]
        assert look.names(look.grep("needle", below="sub", sort=sort)) == ["sub/a"]
    workspace.close()


def test_a_line_that_the_file_does_not_bear_out_is_left_out(tmp_path: Path):
    planted(tmp_path, {"a": "inside\n"})
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        assert LineVerifier(fd).verify(FoundLine(1, 0, 0, 7, b"outside\n"), 100) is None
        assert LineVerifier(fd).verify(FoundLine(1, 0, 0, 6, b"inside\n"), 100) == MatchRow(1, "inside", 0, 6)
    finally:
        os.close(fd)


def test_what_was_there_a_moment_ago_is_counted_and_not_shown(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "needle\n", "b": "needle\n", "c": "needle\n"})

    def meddling(place: str) -> bool:
        (tmp_path / "b").unlink(missing_ok=True)
        (tmp_path / "c").unlink(missing_ok=True)
        (tmp_path / "c").symlink_to("/etc/passwd")
        return True

    for mode in ("files_with_matches", "content"):
        planted(tmp_path, {"b": "needle\n"})
        (tmp_path / "c").unlink(missing_ok=True)
        planted(tmp_path, {"c": "needle\n"})
        scan = disk.grep("needle", mode=mode, sort="none", visible=meddling)
        assert disk.names(scan) == ["a"]
        assert scan.unstable_count == 2


@pytest.mark.parametrize("sort", ["modified", "none"])
@pytest.mark.parametrize("mode", ["files_with_matches", "content"])
def test_files_over_a_gibibyte_are_left_out_unless_they_are_named(disk: Looking, tmp_path: Path, sort: str, mode: str):
    planted(tmp_path, {"large": "needle\n" + "text\n" * 100_000, "small": "needle\n"})
    os.truncate(tmp_path / "large", (1 << 30) + 1)  # the hole makes it binary, but not at the match
    scan = disk.grep("needle", mode=mode, sort=sort)
    assert disk.names(scan) == ["small"]
    assert [(each.rule, each.files) for each in scan.skipped] == [("too large", 1)]
    assert disk.names(disk.grep("needle", mode=mode, sort=sort, below="large", limit=1)) == ["large"]
    assert disk.names(disk.glob("*", sort="none")) == ["large", "small"]


def test_nothing_of_the_users_settings_reaches_it(disk: Looking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    planted(tmp_path, {"ws/a": "needle\n", "config": "--files-without-match\n--pre=/bin/false\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "config"))
    with looking(tmp_path / "ws", "ripgrep") as look:
        assert look.names(look.grep("needle")) == ["a"]


# --- failures


@pytest.mark.slow
def test_nasty_14_a_tree_too_deep_for_it_is_told_as_such(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "needle\n"})
    deep = os.open(tmp_path, os.O_RDONLY)
    for _ in range(scaled(2_500, 5_000)):
        os.mkdir("d", dir_fd=deep)
        below = os.open("d", os.O_RDONLY, dir_fd=deep)
        os.close(deep)
        deep = below
    os.close(deep)
    try:
        for sort in ("modified", "none"):
            scan = disk.grep("needle", sort=sort)
            assert disk.names(scan) == ["a"]
            assert [(each.rule, each.at_least) for each in scan.skipped] == [("too deep", True)]
            assert disk.names(disk.glob("*", sort=sort)) == ["a"]
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "d"], check=True)


BY_NOBODY = (
    "import os, sys\n"
    "from pathlib import Path\n"
    "from handhold.core.errors import PermissionDenied\n"
    "from tests.backends.search.looking import looking\n"
    "def skipped(scan):\n"
    "    return [(each.rule, each.files) for each in scan.skipped]\n"
    "def refused(below):\n"
    "    try:\n"
    "        look.grep('needle', below=below)\n"
    "    except PermissionDenied as error:\n"
    "        return error.path.removeprefix(look.root + '/')\n"
    "with looking(Path(sys.argv[1]), sys.argv[2]) as look:\n"
    "    look.grep('needle'), look.grep('absent'), look.grep('needle', below='closed')\n"
    "    os.seteuid(65534)\n"
)


def by_nobody(root: Path, engine: str, *lines: str) -> list[str]:
    """The reply to a user who owns nothing here."""
    script = BY_NOBODY + "".join(f"    print({line})\n" for line in lines)
    ran = subprocess.run(
        [sys.executable, "-c", script, root, engine], capture_output=True, text=True, cwd=Path.cwd(), check=False
    )
    assert not ran.returncode, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    planted(tmp_path, {"a": "needle\n", "closed": "needle\n", "folder/x": "needle\n"})
    (tmp_path / "closed").chmod(0)
    (tmp_path / "folder").chmod(0)
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.mark.root
def test_nasty_42_what_cannot_be_read_is_told_as_such(closed: Path):
    lines = ("look.names(look.grep('needle')), skipped(look.grep('needle'))", "sorted(look.names(look.glob('**')))")
    assert by_nobody(closed, "ripgrep", *lines) == ["['a'] [('unreadable', 2)]", "['a', 'closed']"]


# Lines are fetched in two passes if there are too many to hold.
MANY = {f"m{n}": "needle\n" * 100 for n in range(30)}


@pytest.mark.root
def test_nasty_42_what_cannot_be_read_counts_once_in_two_goes(closed: Path):
    planted(closed, MANY)
    assert by_nobody(closed, "walk", "skipped(look.grep('needle', mode='content'))") == ["[('unreadable', 2)]"]


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """For programs that replace ripgrep and start others."""
    monkeypatch.setattr("handhold.backends.search.confinement.find_needed_files", lambda _: "switched off")


@pytest.mark.usefixtures("unconfined")
def test_nasty_42_what_ripgrep_cannot_read_counts_once_in_two_goes(disk: Looking, tmp_path: Path):
    ripgrep = find_ripgrep()
    assert isinstance(ripgrep, RipgrepBinary)
    complaint = "rg: ./x: Permission denied (os error 13)"
    says = f"#!/bin/sh\necho '{complaint}' >&2\nsleep 0.2\nexec {ripgrep.path} \"$@\"\n"
    program = planted(tmp_path, {".bin/rg": says, **MANY}) / ".bin/rg"
    program.chmod(0o755)
    search = Search(Grep(pattern="needle", limit=100, chars=1, mode="content"), disk.root, 20.0)
    scan = RipgrepSearch(disk.workspace, RipgrepBinary(str(program), "14")).search(
        search, lambda _: True, monotonic() + 20
    )
    assert len(disk.lines(scan)) == 100
    # We can see that the file does not exist: ripgrep's refusal means that it changed meanwhile.
    assert (scan.unstable_count, scan.skipped) == (1, ())


@pytest.mark.root
@pytest.mark.parametrize("engine", ["ripgrep", "walk"])
def test_nasty_42_what_cannot_be_read_is_not_told_as_searched(closed: Path, engine: str):
    assert by_nobody(closed, engine, "look.grep('absent').searched_count, skipped(look.grep('absent'))") == [
        "1 [('unreadable', 2)]"
    ]


@pytest.mark.root
@pytest.mark.parametrize("engine", ["ripgrep", "walk"])
def test_nasty_42_what_was_named_and_cannot_be_read_is_refused_by_its_own_name(closed: Path, engine: str):
    assert by_nobody(closed, engine, "refused('closed'), refused('folder')") == ["closed folder"]


@pytest.mark.usefixtures("unconfined")
def test_of_what_ripgrep_says_when_it_fails_only_the_first_line_is_told(disk: Looking, tmp_path: Path):
    program = (
        planted(tmp_path, {"rg": "#!/bin/sh\nprintf 'out of memory\\nnote: a trace of it\\n' >&2\nexit 134\n"}) / "rg"
    )
    program.chmod(0o755)
    search = Search(Grep(pattern="x", limit=1, chars=1), disk.root, 20.0)
    with pytest.raises(EngineFailed) as failed:
        RipgrepSearch(disk.workspace, RipgrepBinary(str(program), "14")).search(
            search, lambda _: True, monotonic() + 20
        )
    assert str(failed.value) == "ripgrep failed: out of memory"


def test_no_process_and_no_descriptor_is_left(disk: Looking, tmp_path: Path):
    planted(tmp_path, {f"{n}/f": "needle\n" * 50 for n in range(300)})
    disk.glob("**")
    before, processes = descriptors(), children()

    class Halt(Exception):
        pass

    def halting(place: str) -> bool:
        raise Halt

    for sort in ("modified", "none"):
        for mode in ("files_with_matches", "content", "count"):
            disk.grep("needle", mode=mode, sort=sort, limit=3)
            disk.grep("needle", mode=mode, sort=sort, timeout_seconds=0.001)
            with pytest.raises(Halt):
                disk.grep("needle", mode=mode, sort=sort, visible=halting)
    assert descriptors() <= before
    assert children() <= processes
