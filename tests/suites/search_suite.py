"""What every search does, with any engine. Inherit from SearchSuite and implement how to create one."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from handhold.core.errors import BadGlob, BadRegex, NotDirectory, NotFound
from handhold.core.facts import SearchOutcome, SkippedFiles
from handhold.core.plans import Search
from handhold.core.ports.search import Searcher
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.text.cursor import checksum_hit


@dataclass
class Ground:
    """A searcher on files whose root is called `root`; `put` changes them as another program would."""

    searcher: Searcher
    root: str
    put: Callable[[str, bytes | None], None]

    def listing(self, **how: Any) -> SearchOutcome:
        return self._search(ListFiles, how)

    def glob(self, pattern: str, **how: Any) -> SearchOutcome:
        return self._search(Glob, {"pattern": pattern, "sort": "none", **how})

    def grep(self, pattern: str, **how: Any) -> SearchOutcome:
        return self._search(Grep, {"pattern": pattern, "sort": "none", **how})

    def names(self, scan: SearchOutcome) -> list[str]:
        return [hit.place.removeprefix(self.root + "/") for hit in scan.hits]

    def lines(self, scan: SearchOutcome) -> list[tuple[str, int, str]]:
        named = zip(self.names(scan), scan.hits, strict=True)
        return [(name, row.number, row.text) for name, hit in named for row in hit.rows if row.is_match]

    def _search(self, kind: type[ListFiles] | type[Glob] | type[Grep], how: dict[str, Any]) -> SearchOutcome:
        visible: Callable[[str], bool] = how.pop("visible", lambda _: True)
        where: dict[str, Any] = {"timeout_seconds": 20.0}
        where |= {name: how.pop(name) for name in ("start", "checksum", "timeout_seconds") if name in how}
        if kind is ListFiles and "after" in how:
            where["after"] = how.pop("after")
        below = how.pop("below", "")
        request = kind(**{"limit": 100, "chars": 10_000, **how})
        return self.searcher.search(
            Search(request, f"{self.root}/{below}" if below else self.root, **where), visible=visible
        )


Make = Callable[[Mapping[str, str | bytes]], Ground]

TREE = {
    "main.py": "import agents\n",
    "readme.md": "# Readme\n",
    "agents/one.py": "class One: pass\n",
    "agents/two.py": "class Two: pass\n",
    "agents/deep/three.py": "class Three: pass\n",
    "agents/deep/er/four.py": "class Four: pass\n",
    ".hidden.py": "class Hidden: pass\n",
}
LINES = {
    "a.txt": "one\nneedle two\nthree\nfour needle needle\nfive\n",
    "b/c.txt": "needle\r\nother\r\n",
    "z.txt": "nothing\n",
}


class SearchSuite:
    @pytest.fixture
    def make(self) -> Make:
        """Create a workspace with these files, each older than the one before, and close it afterwards."""
        raise NotImplementedError

    @pytest.fixture
    def tree(self, make: Make) -> Ground:
        return make(TREE)

    @pytest.fixture
    def lines(self, make: Make) -> Ground:
        return make(LINES)

    # --- names

    def test_seed_004_a_star_does_not_cross_a_directory(self, tree: Ground):
        assert set(tree.names(tree.glob("*.py"))) == {
            ".hidden.py",
            "main.py",
        }  # as in ripgrep: a glob that names it finds it
        assert set(tree.names(tree.glob("*.md"))) == {"readme.md"}
        assert set(tree.names(tree.glob("m*"))) == {"main.py"}

    def test_seed_004_two_stars_cross_directories(self, tree: Ground):
        assert tree.names(tree.glob("**/t*.py")) == ["agents/deep/three.py", "agents/two.py"]
        assert tree.names(tree.glob("**/*.md")) == ["readme.md"]

    def test_seed_004_agents_star_py_does_not_match_deeper(self, tree: Ground):
        assert tree.names(tree.glob("agents/*.py")) == ["agents/one.py", "agents/two.py"]

    def test_seed_004_no_pattern_matches_a_suffix_of_a_path(self, tree: Ground):
        assert tree.names(tree.glob("deep/*.py")) == []
        assert tree.names(tree.glob("three.py")) == []

    def test_c71_braces_classes_and_question_marks_work(self, tree: Ground):
        assert tree.names(tree.glob("agents/{one,two}.py")) == ["agents/one.py", "agents/two.py"]
        assert tree.names(tree.glob("agents/[o-p]??.py")) == ["agents/one.py"]
        assert tree.names(tree.glob("{main.py,*.md}")) == ["main.py", "readme.md"]

    def test_c71_the_newest_come_first(self, tree: Ground):
        scan = tree.glob("**/[a-z]*.py", sort="modified")
        assert tree.names(scan) == [name for name in TREE if name.endswith(".py") and not name.startswith(".")]
        assert scan.order == "modified"

    def test_c71_a_glob_can_look_below_a_folder(self, tree: Ground):
        assert tree.names(tree.glob("*.py", below="agents/deep")) == ["agents/deep/three.py"]

    def test_a_glob_that_is_none_is_refused(self, tree: Ground):
        with pytest.raises(BadGlob):
            tree.glob("a[")

    # --- lines

    def test_c72_lines_come_with_their_numbers(self, lines: Ground):
        scan = lines.grep("needle", mode="content")
        assert lines.lines(scan) == [
            ("a.txt", 2, "needle two"),
            ("a.txt", 4, "four needle needle"),
            ("b/c.txt", 1, "needle"),
        ]
        assert [(row.start, row.end) for row in scan.hits[0].rows] == [(0, 6), (5, 11)]

    def test_c72_files_and_counts(self, lines: Ground):
        assert lines.names(lines.grep("needle")) == ["a.txt", "b/c.txt"]
        counted = lines.grep("needle", mode="count")
        assert [(name, hit.count) for name, hit in zip(lines.names(counted), counted.hits, strict=True)] == [
            ("a.txt", 2),
            ("b/c.txt", 1),
        ]

    def test_c72_lines_around_a_match(self, lines: Ground):
        scan = lines.grep("two", mode="content", before=1, after=1)
        assert [(row.number, row.text, row.is_match) for row in scan.hits[0].rows] == [
            (1, "one", False),
            (2, "needle two", True),
            (3, "three", False),
        ]

    def test_c72_a_pattern_is_literal_unless_a_regex_is_asked_for(self, make: Make):
        ground = make({"a": "f(x)\n", "b": "fx\n"})
        assert ground.names(ground.grep("f(x)")) == ["a"]
        assert ground.names(ground.grep("f(x)", regex=True)) == ["b"]
        assert ground.names(ground.grep(r"^f.?x", regex=True)) == ["a", "b"]

    def test_c72_case_may_be_ignored(self, make: Make):
        ground = make({"a": "Straße\n", "b": "straße\n", "c": "strasse\n"})
        assert ground.names(ground.grep("STRAẞE", ignore_case=True)) == ["a", "b"]
        assert ground.names(ground.grep("STRA.E", ignore_case=True, regex=True)) == ["a", "b"]

    def test_c72_a_glob_filters_the_files_at_any_depth(self, tree: Ground):
        assert tree.names(tree.grep("class", glob="t*.py")) == ["agents/deep/three.py", "agents/two.py"]
        assert tree.names(tree.grep("class", glob="agents/*.py")) == ["agents/one.py", "agents/two.py"]
        assert tree.names(tree.grep("class", glob="!agents/deep")) == ["agents/one.py", "agents/two.py"]

    def test_c72_one_file_can_be_searched(self, lines: Ground):
        assert lines.names(lines.grep("needle", below="a.txt")) == ["a.txt"]
        assert lines.names(lines.grep("needle", below="z.txt")) == []

    def test_a_regex_that_is_none_is_refused(self, lines: Ground):
        with pytest.raises(BadRegex):
            lines.grep("(", regex=True)

    def test_nasty_10_a_long_line_is_cut_around_its_match(self, make: Make):
        ground = make({"a": "x" * 200_000 + "needle" + "y" * 200_000 + "\n"})
        (hit,) = ground.grep("needle", mode="content", width=100).hits
        (row,) = hit.rows
        assert len(row.text) <= 100
        assert row.text[row.start : row.end] == "needle"
        assert sum(row.omitted_chars) + len(row.text) == 400_006

    def test_undecodable_text_is_shown_replaced(self, make: Make):
        ground = make({"a": b"caf\xe9 needle\n"})
        assert ground.lines(ground.grep("needle", mode="content")) == [("a", 1, "caf\ufffd needle")]

    def test_text_in_utf_16_with_a_mark_is_read(self, make: Make):
        ground = make({"a": "\ufeffeins\nnädel\n".encode("utf-16-le"), "b": "\ufeffnädel\n".encode("utf-16-be")})
        assert ground.lines(ground.grep("nädel", mode="content")) == [("a", 2, "nädel"), ("b", 1, "nädel")]

    def test_nasty_18_a_regex_that_backtracks_does_not_hang(self, make: Make):
        ground = make({"a": "a" * 40 + "!\n"})
        scan = ground.grep("(a+)+$", regex=True, timeout_seconds=2.0)
        assert scan.hits == ()

    # --- rules

    def test_hidden_files_are_found_on_request(self, tree: Ground):
        assert ".hidden.py" not in tree.names(tree.grep("class"))
        assert ".hidden.py" in tree.names(tree.grep("class", hidden=True))

    def test_ignore_files_count_and_ignored_takes_them_back(self, make: Make):
        ground = make({".ignore": "*.log\n!keep.log\n", "a.log": "x\n", "keep.log": "x\n", "d/.ignore": "b.txt\n", "d/b.txt": "x\n", "d/c.txt": "x\n"})  # fmt: skip
        assert ground.names(ground.grep("x")) == ["d/c.txt", "keep.log"]
        assert ground.names(ground.grep("x", ignored=True)) == ["a.log", "d/b.txt", "d/c.txt", "keep.log"]

    def test_gitignore_counts_in_a_repository(self, make: Make):
        files = {".gitignore": "*.log\n", "a.log": "x\n", "b.txt": "x\n"}
        ground = make(files)
        assert ground.names(ground.grep("x")) == ["a.log", "b.txt"]
        ground = make({**files, ".git/HEAD": "x\n"})
        assert ground.names(ground.grep("x")) == ["b.txt"]
        assert ".git/HEAD" not in ground.names(ground.grep("x", hidden=True))
        assert ".git/HEAD" in ground.names(ground.grep("x", hidden=True, ignored=True))

    def test_u11_an_explicit_path_is_always_searched(self, make: Make):
        ground = make({".ignore": "d\n*.log\n", "d/a": "x\n", "b.log": "x\n", ".h": "x\n", "bin": b"\0\nx\n"})
        for path in ("b.log", ".h", "bin"):
            assert ground.names(ground.grep("x", below=path)) == [path]
        assert ground.names(ground.grep("x", below="d")) == ["d/a"]

    def test_u11_a_miss_says_what_was_not_searched(self, make: Make):
        ground = make(
            {".ignore": "# these\nout/\n", "out/a": "x\n", "out/b/c": "x\n", ".h": "x\n", "bin": b"x\0\n", "a": "y\n"}
        )
        scan = ground.grep("x")
        assert scan.hits == ()
        assert scan.searched_count in (1, None)  # git does not report it
        said = {
            (each.rule, each.source.removeprefix(ground.root + "/"), each.line, each.pattern): each.files
            for each in scan.skipped
        }
        assert said.pop(("ignore file", ".ignore", 2, "out/")) == 2
        assert said.pop(("hidden", "", 0, "")) == 2  # the ignore file itself is hidden
        assert said.pop(("binary", "", 0, "")) == 1
        assert said == {}

    def test_what_the_policy_denies_is_not_found_and_not_told_from(self, make: Make):
        ground = make({"a": "x\n", "secret/b": "x\n"})

        def visible(place: str) -> bool:
            return "secret" not in place

        for scan in (
            ground.grep("x", visible=visible),
            ground.glob("**", visible=visible),
            ground.listing(depth=3, visible=visible),
        ):
            assert [name for name in ground.names(scan) if "secret" in name] == []
        missed = ground.grep("absent", visible=visible)
        assert [each for each in missed.skipped if "secret" in repr(each)] == []

    @pytest.mark.parametrize("sort", ["modified", "none"])
    def test_u6_no_pattern_tells_which_names_are_denied(self, make: Make, sort: str):
        ground = make({"a": "x\n", "closed/key.pem": "x\n", "closed/other.txt": "x\n"})

        def told(scan: SearchOutcome) -> tuple[object, ...]:
            return scan.searched_count, scan.skipped, scan.checksum, scan.has_more

        def visible(place: str) -> bool:
            return "/closed" not in place

        for hits, misses in (("**/*.pem", "**/*.gem"), ("closed/k*", "closed/z*"), ("closed/*", "open/*")):
            there, nowhere = (ground.glob(each, visible=visible, sort=sort) for each in (hits, misses))
            assert told(there) == told(nowhere)
            there, nowhere = (ground.grep("x", glob=each, visible=visible, sort=sort) for each in (hits, misses))
            assert told(there) == told(nowhere)
            assert SkippedFiles("denied", 2) in there.skipped

    @pytest.mark.parametrize("closed", ["closed", ".hidden", "node_modules"])
    def test_u6_a_listing_does_not_tell_that_something_changed_where_it_does_not_look(self, make: Make, closed: str):
        ground = make({"a/x": "", "b/y": "", f"{closed}/z": ""})

        def visible(place: str) -> bool:
            return "/closed" not in place

        first = ground.listing(depth=2, limit=1, visible=visible)
        ground.put(f"{closed}/new", b"")
        last = first.hits[-1].place.removeprefix(f"{ground.root}/")
        second = ground.listing(depth=2, limit=9, visible=visible, start=1, after=last, checksum=first.checksum)
        assert (ground.names(second), second.changed_since_cursor) == (["a/x", "b", "b/y"], False)
        ground.put("b/new", b"")
        assert ground.listing(
            depth=2, limit=9, visible=visible, start=1, after=last, checksum=first.checksum
        ).changed_since_cursor

    # --- pages

    @pytest.mark.parametrize("sort", ["none", "modified"])
    @pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
    def test_pages_follow_each_other_without_gap_or_overlap(self, make: Make, sort: str, mode: str):
        ground = make({f"d{n % 3}/f{n:02}": "x\n" * (n % 4) for n in range(20)})
        whole = ground.grep("x", sort=sort, mode=mode)
        pages: list[Any] = []
        start, state = 0, None
        for _ in range(100):
            page = ground.grep("x", sort=sort, mode=mode, limit=4, start=start, checksum=state)
            assert not page.changed_since_cursor
            found = ground.lines(page) if mode == "content" else [(hit.place, hit.count) for hit in page.hits]
            pages += found
            start, state = start + len(found), page.checksum
            if not page.is_checksum_of_all:
                for hit in page.hits:
                    state = checksum_hit(state, hit)
            if not page.has_more:
                break
        assert pages == (ground.lines(whole) if mode == "content" else [(hit.place, hit.count) for hit in whole.hits])

    def test_a_page_says_when_something_changed(self, make: Make):
        ground = make({f"f{n}": "x\n" for n in range(6)})
        for sort in ("none", "modified"):
            first = ground.glob("*", sort=sort, limit=3)
            state = first.checksum
            if not first.is_checksum_of_all:
                for hit in first.hits:
                    state = checksum_hit(state, hit)
            ground.put("f00", b"x\n")
            assert ground.glob("*", sort=sort, limit=3, start=3, checksum=state).changed_since_cursor
            ground.put("f00", None)

    # --- listing

    def test_c70_directories_come_first_then_files(self, make: Make):
        ground = make({"b.txt": "", "a/x": "", "c/y": "", "A.txt": "", "é": ""})
        scan = ground.listing()
        assert [(name, hit.kind) for name, hit in zip(ground.names(scan), scan.hits, strict=True)] == [
            ("a", "directory"),
            ("c", "directory"),
            ("A.txt", "file"),
            ("b.txt", "file"),
            ("é", "file"),
        ]

    def test_c70_deeper_entries_stand_below_their_folder(self, tree: Ground):
        assert tree.names(tree.listing(depth=2)) == [
            "agents",
            "agents/deep",
            "agents/one.py",
            "agents/two.py",
            "main.py",
            "readme.md",
        ]
        assert "agents/deep/er/four.py" in tree.names(tree.listing(depth=9))

    def test_c70_hidden_entries_and_heavy_folders_are_told(self, make: Make):
        ground = make({"a": "", ".env": "", "node_modules/x/y": "", ".git/HEAD": "", "dist": "a file"})
        scan = ground.listing()
        assert ground.names(scan) == ["a", "dist"]
        assert set(scan.skipped) == {SkippedFiles("hidden", 1), SkippedFiles("heavy folder", 2)}
        assert ground.names(ground.listing(hidden=True)) == [".env", "a", "dist"]
        assert ground.names(ground.listing(ignored=True)) == ["node_modules", "a", "dist"]
        assert ground.names(ground.listing(hidden=True, ignored=True)) == [".git", "node_modules", ".env", "a", "dist"]

    def test_c70_own_patterns_leave_out(self, tree: Ground):
        assert tree.names(tree.listing(ignore=("*.md", "deep/"), depth=3)) == [
            "agents",
            "agents/one.py",
            "agents/two.py",
            "main.py",
        ]

    @pytest.mark.parametrize("depth", [1, 2, 5])
    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    def test_c70_pages_of_a_listing_go_on_behind_a_name(self, tree: Ground, depth: int, limit: int):
        whole = tree.listing(depth=depth)
        places: list[str] = []
        state = None
        for _ in range(50):
            page = tree.listing(depth=depth, limit=limit, after=places[-1] if places else "", checksum=state)
            assert not page.changed_since_cursor
            places += [hit.place for hit in page.hits]
            state = page.checksum
            if not page.has_more:
                break
        assert places == [hit.place for hit in whole.hits]

    def test_c70_a_listing_says_when_something_changed(self, tree: Ground):
        first = tree.listing(depth=2, limit=2)
        tree.put("agents/new.py", b"")
        second = tree.listing(depth=2, limit=2, after=first.hits[-1].place, checksum=first.checksum)
        assert second.changed_since_cursor
        assert tree.names(second)[0] == "agents/new.py"

    def test_c70_a_page_goes_on_though_its_last_name_is_gone(self, make: Make):
        ground = make({"a": "", "b": "", "c": ""})
        first = ground.listing(limit=2)
        ground.put("b", None)
        second = ground.listing(after=first.hits[-1].place, checksum=first.checksum)
        assert second.changed_since_cursor
        assert "c" in ground.names(second)

    def test_nasty_7_a_file_is_not_listed(self, tree: Ground):
        with pytest.raises(NotDirectory):
            tree.listing(below="main.py")

    def test_a_missing_folder_names_near_ones(self, tree: Ground):
        with pytest.raises(NotFound) as missing:
            tree.listing(below="agent")
        assert missing.value.near == ("agents",)

    # --- names

    def test_nasties_19_and_20_strange_names_are_found(self, make: Make):
        names = ["two\nlines", os.fsdecode(b"\xff\xfe"), "-rf", "a\\nb", "ev\u202ek"]
        ground = make({name: "x\n" for name in names})
        for scan in (ground.grep("x"), ground.glob("*"), ground.listing()):
            assert sorted(ground.names(scan)) == sorted(names)
