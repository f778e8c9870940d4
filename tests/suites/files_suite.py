"""What every workspace does. Inherit from FilesSuite and implement how to create one."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.errors import (
    BadPath,
    BinaryFile,
    ContentDropped,
    IsDirectory,
    NotDirectory,
    NotFound,
    OutsideWorkspace,
    PastEnd,
    Stale,
    ToolError,
)
from handhold.core.facts import FileHead, FileIdentity, PageLine
from handhold.core.plans import Content, ContentRef, Directory, FileChange, InlineContent, StagedContent, digest
from handhold.core.ports.files import Files
from handhold.core.ports.journal import Call, CallDecision, IncompleteTransaction, Outcome
from handhold.core.ports.store import Store
from handhold.core.text.path_escaping import escape_path
from tests.scale import examples


class Kept(Protocol):
    """A workspace and its store."""

    @property
    def files(self) -> Files: ...

    @property
    def store(self) -> Store: ...


class Ground(Kept, Protocol):
    """And a way to change files without the tools."""

    def put(self, name: str, data: bytes | None) -> None:
        """As another program would; None removes it."""
        ...

    def shelve(self, name: str, data: bytes | None) -> FileChange:
        """A command rewrote or removed this file: the new one is in its slot, and the change puts it in place."""
        ...

    def tree(self) -> dict[str, bytes | None]:
        """Everything there, by name below the root: contents of files, None for directories."""
        ...


Make = Callable[[Mapping[str, bytes]], Ground]

TREE = {
    "a.py": b"one\ntwo\nthree\n",
    "d/b.py": b"bee\n",
    "d/e/deep.txt": b"deep",
    "empty": b"",
    "binary": b"\x7fELF\0\0\0",
}
ALL = {**TREE, "d": None, "d/e": None}


class FilesSuite:
    @pytest.fixture
    def make(self) -> Make:
        """Create a workspace with these files, and close it afterwards."""
        raise NotImplementedError

    @pytest.fixture
    def ground(self, make: Make) -> Ground:
        return make(TREE)

    @pytest.fixture
    def files(self, ground: Ground) -> Files:
        return ground.files

    # --- places

    def test_a_place_is_absolute_and_beneath_the_root(self, files: Files):
        root = files.roots[0]
        assert files.resolve("a.py") == f"{root}/a.py"
        assert files.resolve("new/made.py") == f"{root}/new/made.py"

    @pytest.mark.parametrize("spelling", ["./d/b.py", "d//b.py", "d/./b.py", "d/e/../b.py", "/{root}/d/b.py"])
    def test_u15_all_spellings_are_one_place(self, files: Files, spelling: str):
        spelling = spelling.replace("/{root}", files.roots[0])
        assert files.resolve(spelling) == files.resolve("d/b.py")
        assert files.stat(spelling) == files.stat("d/b.py")
        assert files.read(spelling) == files.read("d/b.py")

    def test_c4_a_slash_means_the_first_root(self, files: Files):
        look = files.stat("/")
        assert look
        assert (look.path, look.kind) == (files.roots[0], "directory")

    @pytest.mark.parametrize("path", ["", ".", "..", "a.py/", "d/", "d/.", "d/..", "a\0b", "./"])
    def test_nasty_25_a_path_that_names_no_file_is_bad(self, files: Files, path: str):
        for ask in (files.resolve, files.stat, files.read, files.count_lines, files.fingerprint):
            with pytest.raises(BadPath):
                ask(path)

    @pytest.mark.parametrize("path", ["../x", "d/../../x", "/etc/passwd", "/x", "{root}-secrets/x", "{root}/../x"])
    def test_c2_a_path_that_leads_out_is_refused(self, files: Files, path: str):
        path = path.replace("{root}", files.roots[0])
        for ask in (files.resolve, files.stat, files.read, files.count_lines, files.fingerprint):
            with pytest.raises(OutsideWorkspace):
                ask(path)

    # --- invisible names

    @pytest.mark.parametrize("name", ["two\nlines", os.fsdecode(b"\xff\xfe.txt"), "ev\u202etxt", "d\t/e\x1b"])
    def test_nasties_19_to_21_a_name_is_accepted_as_it_is_shown(self, make: Make, name: str):
        files = make({name: b"x\n"}).files
        shown = escape_path(name)
        assert shown != name
        for path in (shown, f"{files.roots[0]}/{shown}", name):
            assert files.read(path).data == b"x\n"
            assert files.resolve(path) == f"{files.roots[0]}/{name}"
            assert files.stat(path) == files.stat(name)

    def test_nasty_19_where_both_stand_what_is_shown_is_meant(self, make: Make):
        files = make({"a\nb": b"a line break\n", r"a\nb": b"a backslash\n"}).files
        assert files.read(r"a\nb").data == b"a line break\n"
        assert files.read(r"a\\nb").data == b"a backslash\n"
        for path in (r"a\nb", r"a\\nb"):
            place = files.resolve(path)
            assert files.read(place) == files.read(path)  # a place means one file, whatever is next to it
            assert files.resolve(place) == place

    def test_a_backslash_is_itself_where_nothing_else_stands(self, make: Make):
        files = make({r"C:\new": b"x\n", r"back\slash": b"y\n"}).files
        assert files.read(r"C:\new").data == b"x\n"
        assert files.read(r"back\slash").data == b"y\n"
        with pytest.raises(NotFound):
            files.read(r"absent\n")

    @pytest.mark.parametrize("name", [r"C:\new", r"d\n/e\t", "d\n/new"])
    def test_a_new_file_gets_the_name_that_was_meant(self, make: Make, name: str):
        ground = make({"d\n/there": b""})
        place = ground.files.resolve(name)
        with ground.files.transaction([FileChange(place, None, InlineContent(b"new\n"), 0o644)]) as transaction:
            transaction.apply()
            transaction.clean_up()
        assert ground.tree()[name if not name.startswith("d\\n") else "d\n/" + name[4:]] == b"new\n"
        assert ground.files.read(place).data == b"new\n"

    # --- stat and near matches

    def test_look_tells_a_file_from_a_directory_from_nothing(self, files: Files):
        file, directory = files.stat("d/b.py"), files.stat("d")
        assert file
        assert (file.path, file.kind, file.identity.size) == (files.resolve("d/b.py"), "file", 4)
        assert directory
        assert directory.kind == "directory"
        assert files.stat("absent") is None
        assert files.stat("d/absent/deeper") is None

    def test_a_file_is_no_directory(self, files: Files):
        for ask in (files.stat, files.resolve, files.read):
            with pytest.raises(NotDirectory):
                ask("a.py/x")

    def test_an_identity_stays_until_the_file_is_written(self, ground: Ground):
        before = identity(ground.files, "a.py")
        assert identity(ground.files, "a.py") == before
        ground.put("a.py", b"other")
        assert identity(ground.files, "a.py") != before
        assert identity(ground.files, "d/b.py") != before

    @pytest.mark.parametrize(
        ("path", "meant"),
        [
            ("src/toolbx.py", ("src/toolbox.py",)),  # a typo
            ("src/README.md", ("src/Readme.md",)),  # other case
            ("src/io.js", ("src/io.ts",)),  # another kind of file
            ("toolbox.py", ("src/toolbox.py",)),  # another folder
            ("lib/core/toolbox.py", ("src/toolbox.py",)),
            ("srcs/toolbox.py", ("src/toolbox.py", "src")),  # a typo in a folder
            ("b/src/other.c", ("src/other.c", "tests/other.c")),  # below a folder of the same name first
            ("src/zzzzzzz", ()),
        ],
    )
    def test_c24_a_missing_path_names_what_may_be_meant(self, make: Make, path: str, meant: tuple[str, ...]):
        names = ("src/toolbox.py", "src/Readme.md", "src/io.ts", "src/other.c", "tests/other.c")
        assert make({name: b"" for name in names}).files.suggest_paths(path) == meant

    def test_what_is_denied_is_found_wherever_it_comes(self, make: Make):
        ground = make({"a.py": b"", "d/.env": b"", "d/e/f/.env": b"", "odd\\x41/.env": b""})
        root = ground.files.roots[0]
        hiding = ground.files.hidden_paths(lambda place: place.endswith("/.env"))
        assert sorted(hiding.paths()) == [f"{root}/{name}/.env" for name in ("d", "d/e/f", "odd\\x41")]
        ground.put("d/e/.env", b"")
        ground.put("d/.env", None)
        assert sorted(hiding.paths()) == [f"{root}/{name}/.env" for name in ("d/e", "d/e/f", "odd\\x41")]
        assert hiding.hard_links() == {}

    def test_a_file_has_one_name_unless_somebody_gave_it_another(self, ground: Ground):
        look = ground.files.stat("a.py")
        assert look
        assert look.link_count == 1
        assert not ground.files.has_outside_link("a.py")
        assert not ground.files.has_outside_link("not there")

    # --- reading

    def test_read_gives_the_whole_file(self, files: Files):
        whole = files.read("a.py")
        assert (whole.path, whole.data, whole.hash) == (files.resolve("a.py"), TREE["a.py"], digest(TREE["a.py"]))
        assert whole.identity == identity(files, "a.py")
        assert files.fingerprint("a.py") == (whole.identity, whole.hash)
        assert files.read("empty").data == b""

    def test_a_small_file_is_there_from_its_beginning_on_and_a_large_one_begins(self, ground: Ground):
        files, whole = ground.files, ground.files.read("a.py")
        begun = files.read_head("a.py", 3)
        assert (begun.path, begun.data, begun.snapshot) == (whole.path, whole.data[:3], whole)
        assert begun.identity == whole.identity
        assert files.read_head("a.py", len(whole.data) + 10).data == whole.data
        ground.put("large", b"a line\n" * 1_000_000)
        assert files.read_head("large", 6) == FileHead(
            files.resolve("large"), b"a line", identity(files, "large"), None
        )
        with pytest.raises(NotFound):
            files.read_head("absent", 3)
        with pytest.raises(IsDirectory):
            files.read_head("/", 3)

    def test_a_page_of_a_file_that_was_read_is_of_what_was_read(self, ground: Ground):
        files = ground.files
        whole, page = files.read("a.py"), files.read_page("a.py", 1, 99, 80)
        ground.put("a.py", b"something else\n")
        assert files.read_page("a.py", 1, 99, 80, snapshot=whole) == page

    def test_c24_a_missing_file_and_a_directory_have_their_own_answers(self, files: Files):
        for ask in (files.read, files.count_lines, files.fingerprint, lambda path: files.read_page(path, 1, 1, 80)):
            with pytest.raises(NotFound):
                ask("absent")
            with pytest.raises(IsDirectory):
                ask("d")

    # --- pages

    def test_c21_a_page_starts_where_it_is_asked_to(self, files: Files):
        page = files.read_page("a.py", 2, 1, 80)
        assert (page.path, page.first, page.lines) == (files.resolve("a.py"), 2, (PageLine("two"),))
        assert page.has_more
        assert page.identity == identity(files, "a.py")
        assert not files.read_page("a.py", 2, 2, 80).has_more
        assert files.read_page("a.py", 1, 99, 80).lines == (PageLine("one"), PageLine("two"), PageLine("three"))

    def test_c21_a_page_knows_which_bytes_it_showed(self, files: Files):
        page = files.read_page("a.py", 2, 1, 80)
        shown = TREE["a.py"][slice(*page.byte_span)]
        assert shown.rstrip(b"\n") == b"two"
        assert page.span_hash == digest(shown)

    def test_c22_a_long_line_is_cut_with_a_count(self, files: Files):
        assert files.read_page("a.py", 3, 1, 2).lines == (PageLine("th", 3),)

    def test_c24_an_offset_past_the_end_tells_how_many_lines_there_are(self, files: Files):
        with pytest.raises(PastEnd) as refused:
            files.read_page("a.py", 4, 1, 80)
        assert (refused.value.offset, refused.value.lines) == (4, 3)

    def test_c24_a_file_without_lines_has_one_page_with_nothing_on_it(self, files: Files):
        page = files.read_page("empty", 1, 10, 80)
        assert (page.lines, page.has_more, page.total) == ((), False, 0)
        with pytest.raises(PastEnd):
            files.read_page("empty", 2, 10, 80)

    def test_c25_a_binary_file_is_refused_by_content(self, files: Files):
        with pytest.raises(BinaryFile):
            files.read_page("binary", 1, 1, 80)

    @given(st.text("ab\r\n\ufeffé", max_size=30))
    @settings(max_examples=examples(50))
    def test_c21_pages_always_add_up_to_the_file(self, text: str):
        ground = self.fresh({"a": text.encode()})
        total = ground.files.count_lines("a")
        pages = [ground.files.read_page("a", n + 1, 1, 80) for n in range(total)]
        assert [page.has_more for page in pages] == [n + 1 < total for n in range(total)]
        lines = [line for page in pages for line in page.lines]
        assert len(lines) == total
        if total:
            assert tuple(lines) == ground.files.read_page("a", 1, total, 80).lines

    def fresh(self, tree: Mapping[str, bytes]) -> Ground:
        """A workspace for one example of a property."""
        raise NotImplementedError

    def test_count_counts_lines(self, files: Files):
        assert [files.count_lines(path) for path in ("a.py", "d/e/deep.txt", "empty")] == [3, 1, 0]

    # --- changing

    def test_a_change_is_performed_and_known_by_its_identity(self, ground: Ground):
        path = ground.files.resolve("a.py")
        with ground.files.transaction([change(ground, "a.py", TREE["a.py"], b"new\n")]) as transaction:
            identities = transaction.apply()
            transaction.clean_up()
        assert ground.tree() == {**ALL, "a.py": b"new\n"}
        assert identities == {path: identity(ground.files, "a.py")}

    def test_nothing_happens_before_perform(self, ground: Ground):
        with ground.files.transaction([change(ground, "a.py", TREE["a.py"], b"new\n")]):
            assert ground.tree() == ALL
        assert ground.tree() == ALL

    def test_transactions_have_ids_of_their_own(self, ground: Ground):
        ids: set[str] = set()
        for _ in range(3):
            with ground.files.transaction([change(ground, "a.py", TREE["a.py"], b"new\n")]) as transaction:
                ids.add(transaction.id)
        assert len(ids) == 3

    def test_c40_a_file_is_created_with_its_parents(self, ground: Ground):
        with ground.files.transaction([change(ground, "x/y/new", None, b"1")]) as transaction:
            made = [(each.path, each.before, each.after) for each in transaction.files]
            transaction.apply()
            transaction.clean_up()
        place = ground.files.resolve
        assert made == [
            (place("x"), None, Directory()),
            (place("x/y"), None, Directory()),
            (place("x/y/new"), None, InlineContent(b"1")),
        ]
        assert ground.tree() == {**ALL, "x": None, "x/y": None, "x/y/new": b"1"}

    def test_a_deleted_file_leaves_its_directory_and_its_mode_is_known(self, ground: Ground):
        with ground.files.transaction([change(ground, "d/e/deep.txt", b"deep", None)]) as transaction:
            (gone,) = transaction.files
            transaction.apply()
            transaction.clean_up()
        assert gone.mode is not None
        assert ground.tree() == {name: data for name, data in ALL.items() if name != "d/e/deep.txt"}

    def test_an_empty_directory_is_made_and_removed(self, ground: Ground):
        made = FileChange(ground.files.resolve("new"), None, Directory())
        commit(ground, made)
        assert ground.tree() == {**ALL, "new": None}
        commit(ground, made.invert())
        assert ground.tree() == ALL

    def test_a_directory_that_is_not_empty_stays(self, ground: Ground):
        commit(ground, FileChange(ground.files.resolve("d"), Directory(), None))
        assert ground.tree() == ALL

    def test_a_whole_tree_goes_and_comes_back(self, ground: Ground):
        ground.store.keep(TREE.values())
        removal = [change(ground, name, data, None) for name, data in TREE.items()]
        removal += [FileChange(ground.files.resolve(name), Directory(), None) for name in ("d", "d/e")]
        done = commit(ground, *removal)
        assert ground.tree() == {}
        commit(ground, *(each.invert() for each in reversed(done)))
        assert ground.tree() == ALL

    def test_c92_the_reverse_set_takes_all_of_it_back(self, ground: Ground):
        changes = [
            change(ground, "a.py", TREE["a.py"], b"new\n"),
            change(ground, "x/y/new", None, b"1"),
            change(ground, "d/b.py", b"bee\n", None),
        ]
        done = commit(ground, *changes)
        assert ground.tree() != ALL
        commit(ground, *(each.invert() for each in reversed(done)))
        assert ground.tree() == ALL

    def test_a_performed_change_can_be_taken_back_before_it_is_finished(self, ground: Ground):
        changes = [
            change(ground, "a.py", TREE["a.py"], b"new\n"),
            change(ground, "x/y/new", None, b"1"),
            change(ground, "d/b.py", b"bee\n", None),
        ]
        with ground.files.transaction(changes) as transaction:
            transaction.apply()
            transaction.roll_back()
        assert ground.tree() == ALL

    def test_contents_that_the_store_holds_can_be_written(self, ground: Ground):
        ground.store.keep([b"from the store"])
        commit(ground, change(ground, "a.py", TREE["a.py"], ContentRef(digest(b"from the store"), 14)))
        assert ground.tree()["a.py"] == b"from the store"

    def test_contents_that_the_store_lost_change_nothing(self, ground: Ground):
        lost = change(ground, "d/b.py", b"bee\n", ContentRef(digest(b"lost"), 4))
        with pytest.raises(ContentDropped):
            commit(ground, change(ground, "a.py", TREE["a.py"], b"new\n"), lost)
        assert ground.tree() == ALL

    def test_the_old_content_may_be_named_by_its_hash(self, ground: Ground):
        commit(ground, change(ground, "a.py", ContentRef(digest(TREE["a.py"]), 14), b"new\n"))
        assert ground.tree()["a.py"] == b"new\n"

    # --- stale

    @pytest.mark.parametrize(
        ("name", "before", "after"),
        [
            ("a.py", b"not what is there", b"new"),
            ("a.py", b"not what is there", None),
            ("a.py", None, b"new"),
            ("absent", b"it was here", b"new"),
            ("absent", b"it was here", None),
            ("d", None, b"new"),
            ("d", b"a file", b"new"),
            ("a.py", Directory(), None),
            ("a.py", None, Directory()),
        ],
    )
    def test_c12_a_file_that_is_not_its_before_is_stale_and_nothing_changes(
        self, ground: Ground, name: str, before: bytes | Directory | None, after: bytes | Directory | None
    ):
        with (
            pytest.raises(Stale) as refused,
            ground.files.transaction(
                [change(ground, "d/b.py", b"bee\n", b"buzz\n"), change(ground, name, before, after)]
            ) as transaction,
        ):
            transaction.apply()
        assert refused.value.path == ground.files.resolve(name)
        assert ground.tree() == ALL

    def test_a_stale_file_is_told_by_the_hash_of_what_is_there(self, ground: Ground):
        with pytest.raises(Stale) as refused, ground.files.transaction([change(ground, "a.py", b"old", b"new")]):
            pass
        assert refused.value.now == digest(TREE["a.py"])

    def test_nasty_40_a_file_written_behind_an_open_transaction_is_stale(self, ground: Ground):
        changes = [change(ground, "d/b.py", b"bee\n", b"buzz\n"), change(ground, "a.py", TREE["a.py"], b"new\n")]
        with ground.files.transaction(changes) as transaction:
            ground.put("a.py", b"somebody else's")
            with pytest.raises(Stale):
                transaction.apply()
        assert ground.tree() == {**ALL, "a.py": b"somebody else's"}

    def test_nasty_40_a_file_that_appears_behind_an_open_transaction_is_kept(self, ground: Ground):
        with ground.files.transaction([change(ground, "new", None, b"mine")]) as transaction:
            ground.put("new", b"theirs")
            with pytest.raises(Stale):
                transaction.apply()
        assert ground.tree() == {**ALL, "new": b"theirs"}

    def test_a_parent_that_is_a_file_is_no_directory(self, ground: Ground):
        path = f"{ground.files.roots[0]}/a.py/new"
        with pytest.raises(NotDirectory), ground.files.transaction([FileChange(path, None, InlineContent(b""))]):
            pass
        assert ground.tree() == ALL

    def test_c2_a_change_outside_is_refused(self, ground: Ground):
        with (
            pytest.raises(OutsideWorkspace),
            ground.files.transaction([FileChange("/etc/new", None, InlineContent(b""))]),
        ):
            pass

    # --- what a command left

    def test_c92_shelved_files_change_places_and_come_back(self, ground: Ground):
        changes = [
            ground.shelve("a.py", b"by a command"),
            ground.shelve("d/made", b"made"),
            ground.shelve("empty", None),
        ]
        after = {**ALL, "a.py": b"by a command", "d/made": b"made"}
        del after["empty"]
        for _ in range(2):
            identities = journalled(ground, changes)
            assert ground.tree() == after
            assert identities == {
                ground.files.resolve(name): identity(ground.files, name) for name in ("a.py", "d/made")
            }
            journalled(ground, [each.invert() for each in reversed(changes)])
            assert ground.tree() == ALL

    def test_what_was_put_in_place_can_be_taken_back_before_it_is_finished(self, ground: Ground):
        changes = [ground.shelve("a.py", b"by a command"), ground.shelve("empty", None), ground.shelve("new", b"1")]
        with ground.files.transaction(changes) as transaction:
            transaction.apply()
            transaction.roll_back()
        assert ground.tree() == ALL
        journalled(ground, changes)
        assert ground.tree()["new"] == b"1"

    def test_where_a_thing_is_can_be_told_and_what_it_holds(self, ground: Ground):
        change = ground.shelve("a.py", b"by a command")
        files, before, after = ground.files, change.before, change.after
        assert isinstance(before, StagedContent)
        assert isinstance(after, StagedContent)
        for old, new in ((before, after), (after, before)):
            assert files.is_current(change.path, old)
            assert not files.is_current(change.path, new)
            assert files.is_staged(new)
            assert not files.is_staged(old)
            assert files.read_staged(before, change.path) == TREE["a.py"]
            assert files.read_staged(after, change.path) == b"by a command"
            journalled(ground, [change])
            change = change.invert()
        ground.put("a.py", b"somebody else's")
        assert not files.is_current(change.path, before)
        assert files.read_staged(before, change.path) is None
        assert files.is_staged(after)

    def test_what_stands_is_told_of_any_content(self, ground: Ground):
        place, stands = ground.files.resolve, ground.files.is_current
        assert stands(place("a.py"), InlineContent(TREE["a.py"]))
        assert stands(place("a.py"), ContentRef(digest(TREE["a.py"]), 14))
        assert not stands(place("a.py"), InlineContent(b"other"))
        assert not stands(place("a.py"), Directory())
        assert stands(place("d"), Directory())
        assert not stands(place("d"), InlineContent(b""))
        assert not stands(place("absent"), InlineContent(b""))
        assert not stands(place("absent/deeper"), Directory())

    @pytest.mark.parametrize("name", ["a.py", "new"])
    def test_c12_what_somebody_changed_is_stale_and_stays(self, ground: Ground, name: str):
        changes = [ground.shelve("d/b.py", b"mine"), ground.shelve(name, b"mine")]
        ground.put(name, b"theirs")
        with pytest.raises(Stale) as refused:
            commit(ground, *changes)
        assert refused.value.path == ground.files.resolve(name)
        assert ground.tree() == {**ALL, name: b"theirs"}
        changes = [ground.shelve("d/b.py", b"mine"), ground.shelve(name, b"mine")]
        with ground.files.transaction(changes) as transaction:
            ground.put(name, b"theirs again")
            with pytest.raises(Stale):
                transaction.apply()
        assert ground.tree() == {**ALL, name: b"theirs again"}

    # --- recovery

    def test_there_is_nothing_to_mend_after_a_whole_transaction(self, ground: Ground):
        done = commit(ground, change(ground, "a.py", TREE["a.py"], b"new\n"))
        with ground.files.exclusive():
            left = ground.files.recover(IncompleteTransaction(1, "x1", done, is_recorded=True))
        assert left == ()
        assert ground.tree() == {**ALL, "a.py": b"new\n"}

    # --- properties

    @given(st.data())
    @settings(max_examples=examples(60))
    def test_c62_a_set_is_always_performed_whole_or_not_at_all_and_taken_back_whole(self, data: st.DataObject):
        names = ["a", "b", "d/c", "d/e/f", "g/h"]
        content = st.none() | st.binary(max_size=3)
        here = {name: each for name in names if (each := data.draw(content, name)) is not None}
        ground = self.fresh(here)
        before = ground.tree()
        wanted = {name: data.draw(content, f"new {name}") for name in data.draw(st.sets(st.sampled_from(names)))}
        believed = {name: data.draw(st.sampled_from([here.get(name), b"wrong"])) for name in wanted}
        changes = [change(ground, name, believed[name], after) for name, after in wanted.items()]
        try:
            done = commit(ground, *changes)
        except ToolError:
            assert believed != {name: here.get(name) for name in wanted}
            assert ground.tree() == before
            return
        result = ground.tree()
        assert {name: result.get(name) for name in names} == {name: here.get(name) for name in names} | wanted
        ground.store.keep(here.values())
        commit(ground, *(each.invert() for each in reversed(done)))
        assert ground.tree() == before


def identity(files: Files, path: str) -> FileIdentity:
    look = files.stat(path)
    assert look
    return look.identity


def change(ground: Ground, name: str, before: bytes | Content | None, after: bytes | Content | None) -> FileChange:
    def content(given: bytes | Content | None) -> Content | None:
        return InlineContent(given) if isinstance(given, bytes) else given

    return FileChange(os.path.join(ground.files.roots[0], name), content(before), content(after))


def commit(ground: Ground, *changes: FileChange) -> tuple[FileChange, ...]:
    with ground.files.transaction(changes) as transaction:
        transaction.apply()
        transaction.clean_up()
        return transaction.files


def journalled(ground: Kept, changes: Sequence[FileChange]) -> Mapping[str, FileIdentity]:
    """Commit as the toolbox does: slots are kept as long as the journal needs them."""
    seq = ground.store.begin(Call("s", "", "", "bash", "{}", "none"))
    with ground.files.transaction(changes) as transaction:
        assert transaction.files == tuple(changes)
        calls = ground.store.record_intent(seq, transaction.id, transaction.files, decision=CallDecision("allowed"))
        identities = transaction.apply()
        given_up = [entry.seq for entry in calls]
        ground.store.record_outcome(seq, Outcome("success", None, 0.0, None), durable=True, dropped_undo=given_up)
        transaction.clean_up()
        ground.store.mark_cleaned_up(seq)
        return identities
