"""What every store does. Inherit StoreSuite, and LastingStoreSuite if it outlives the process."""

import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.core.errors import Busy, NothingAsked
from handhold.core.facts import Identity
from handhold.core.plans import Bytes, Directory, FileChange, Folder, Shelved, Stored, digest
from handhold.core.ports import Asked, Call, Consent, Decision, Entry, Mark, Outcome, Seen, Store
from handhold.world.state import asked as rules

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # half characters too: models send them
ALLOWED = Decision("allowed", "mode edit (built in)", "ann@desk")
ABSENT = digest(b"never kept")


def call(tool: str = "Edit", *, session: str = "s", turn: str = "t", call_id: str = "c") -> Call:
    return Call(session, turn, call_id, tool, "{}", "claude")


def success(reply: str | None = None) -> Outcome:
    return Outcome("success", None, 1.5, reply)


def failure() -> Outcome:
    return Outcome("error", "NO_MATCH", 1.5, None)


def change(path: str = "/ws/a.py", before: bytes | None = b"old\n", after: bytes | None = b"new\n") -> FileChange:
    return FileChange(path, None if before is None else Bytes(before), None if after is None else Bytes(after))


def shelved(slot: str, before: bytes | None, after: bytes | None, path: str = "/ws/a.py") -> FileChange:
    """A file that changes places with its slot."""

    def thing(data: bytes | None, number: int) -> Shelved | None:
        if data is None:
            return None
        return Shelved(slot, "file", digest(data), len(data), 0o640, (2**63 + 5, 2**64 - number), -7 * number)

    return FileChange(path, thing(before, 1), thing(after, 2))


def begun(store: Store, *files: FileChange, asked: Call | None = None, takes_back: Sequence[int] = ()) -> int:
    """A call up to its intent."""
    seq = store.begin(asked or call())
    store.intend(seq, f"x{seq}", files, decision=ALLOWED, takes_back=takes_back)
    return seq


def done(store: Store, *files: FileChange, asked: Call | None = None, takes_back: Sequence[int] = ()) -> int:
    """A call from end to end."""
    seq = begun(store, *files, asked=asked, takes_back=takes_back)
    store.settle(seq, success(), durable=True)
    store.finish(seq)
    return seq


def asked(what: str = "rm -rf build", *, session: str = "s", hash: str = "") -> Asked:
    return Asked(
        id="",
        hash=hash or digest(what.encode("utf-8", "surrogatepass")),
        session=session,
        at=1000.5,
        tool="Bash",
        because="it deletes",
        command=what,
        diff="-old\n+new\n",
        allows=(f"run={what}",),
        patterns=("run rm *",),
    )


def noise(n: int, size: int) -> bytes:
    """Bytes that no compression makes smaller."""
    return random.Random(n).randbytes(size)


def only(store: Store) -> Entry:
    (entry,) = store.entries()
    return entry


def turned_away(store: Store) -> bool:
    """Whether another thread finds the state held."""
    found: list[bool] = []

    def look() -> None:
        try:
            with store.alone(wait=False):
                found.append(False)
        except Busy:
            found.append(True)

    thread = Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


class StoreSuite:
    def opened(self, folder: Path, *, bound: int = 1024**3) -> Store:
        raise NotImplementedError

    @contextmanager
    def fresh(self, *, bound: int = 1024**3) -> Iterator[Store]:
        """A store of one example of a property."""
        with tempfile.TemporaryDirectory() as folder, closing(self.opened(Path(folder), bound=bound)) as store:
            yield store

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        with closing(self.opened(tmp_path / "state")) as store:
            yield store

    # --- calls and entries

    def test_a_new_journal_is_empty(self, store: Store):
        assert list(store.entries()) == []
        assert list(store.entries(last=20)) == []
        assert list(store.broken()) == []
        assert store.recall("s", "t", "c") is None
        assert store.files(1) == ()

    def test_a_call_is_in_the_journal_before_anything_came_of_it(self, store: Store):
        seq = store.begin(call("Read"))
        entry = only(store)
        assert (entry.seq, entry.call, entry.outcome) == (seq, call("Read"), None)
        assert (entry.paths, entry.changed, entry.takes_back) == ((), 0, ())
        assert (entry.undone, entry.kept) == (False, True)

    def test_what_is_recorded_in_a_hurry_is_recorded_as_ever(self, store: Store):
        with store.hurried() as free:
            assert free
            seq = store.begin(call())
            store.settle(seq, success(), durable=False, decision=ALLOWED)
            store.marks("s").put(Mark("/ws/a.py", Identity(1, 2, 3, 4, 5), ABSENT, ((1, 2),), True))
        (entry,) = store.entries()
        assert (entry.seq, entry.decision, entry.outcome) == (seq, "allowed", success())
        assert list(store.marks("s").paths()) == ["/ws/a.py"]
        assert store.verify().problem is None

    def test_entries_come_oldest_first(self, store: Store):
        seqs = [store.begin(call(call_id=f"c{n}")) for n in range(5)]
        assert seqs == sorted(set(seqs))
        assert [entry.seq for entry in store.entries()] == seqs
        assert [entry.seq for entry in store.entries(last=2)] == seqs[-2:]
        assert [entry.seq for entry in store.entries(last=99)] == seqs
        assert list(store.entries(last=0)) == []

    def test_entries_of_one_session(self, store: Store):
        mine = [store.begin(call(session=session)) for session in ("s", "other", "s", "s")]
        assert [entry.seq for entry in store.entries(session="s")] == [mine[0], *mine[2:]]
        assert [entry.seq for entry in store.entries(session="s", last=1)] == mine[3:]
        assert list(store.entries(session="nobody")) == []

    def test_an_entry_tells_what_was_decided_and_what_came_of_it(self, store: Store):
        seq = begun(store, change())
        store.settle(seq, success(), durable=True)
        entry = only(store)
        assert (entry.decision, entry.rule, entry.approver) == ("allowed", "mode edit (built in)", "ann@desk")
        assert entry.outcome == success()
        assert (entry.paths, entry.changed) == (("/ws/a.py",), 1)

    def test_c91_what_only_read_or_was_refused_has_its_decision_with_its_outcome(self, store: Store):
        store.settle(store.begin(call("Read")), success(), durable=False, decision=ALLOWED)
        store.settle(store.begin(call()), failure(), durable=False, decision=Decision("refused", "no keys (a.toml)"))
        store.settle(store.begin(call("Unknown")), failure(), durable=False)
        store.begin(call())
        said = [(entry.decision, entry.rule, entry.approver) for entry in store.entries()]
        assert said == [
            ("allowed", "mode edit (built in)", "ann@desk"),
            ("refused", "no keys (a.toml)", ""),
            ("", "", ""),
            ("", "", ""),
        ]

    def test_c91_the_decision_before_a_change_is_the_one_that_counts(self, store: Store):
        store.settle(begun(store, change()), failure(), durable=True, decision=Decision("refused"))
        assert only(store).decision == "allowed"

    @given(ANY_TEXT, ANY_TEXT)
    @settings(max_examples=20)
    def test_rules_and_approvers_of_any_name_always_come_back(self, rule: str, by: str):
        with self.fresh() as store:
            seq = store.begin(call())
            store.intend(seq, "x", [change()], decision=Decision("approved", rule, by))
            assert (only(store).rule, only(store).approver) == (rule, by)
            assert store.verify().problem is None

    def test_an_error_is_an_outcome(self, store: Store):
        store.settle(store.begin(call()), failure(), durable=False)
        assert only(store).outcome == failure()

    def test_an_entry_lists_a_hundred_paths_and_counts_all(self, store: Store):
        done(store, *(change(f"/ws/{n:03}") for n in range(150)))
        entry = only(store)
        assert entry.paths == tuple(f"/ws/{n:03}" for n in range(100))
        assert entry.changed == 150

    @given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
    @settings(max_examples=30)
    def test_a_call_always_comes_back_as_it_was_asked(
        self, session: str, turn: str, call_id: str, tool: str, arguments: str, reply: str
    ):
        with self.fresh() as store:
            asked = Call(session, turn, call_id, tool, arguments, "claude")
            store.settle(store.begin(asked), success(reply), durable=False)
            recalled = store.recall(session, turn, call_id)
            assert recalled
            assert recalled.call == asked
            assert recalled.outcome == success(reply)

    def test_long_arguments_come_back(self, store: Store):
        asked = Call("s", "t", "c", "Write", '{"content":"' + "x" * 100_000 + '"}', "claude")
        store.begin(asked)
        assert only(store).call == asked

    # --- append-only

    def test_what_was_settled_stays_settled(self, store: Store):
        seq = begun(store, change())
        store.settle(seq, success(), durable=True)
        with pytest.raises(Exception):  # noqa: B017, PT011 - each engine has its own word for it
            store.settle(seq, failure(), durable=True)
        assert only(store).outcome == success()

    def test_what_was_intended_stays_intended(self, store: Store):
        seq = begun(store, change("/ws/a"))
        with pytest.raises(Exception):  # noqa: B017, PT011
            store.intend(seq, "again", [change("/ws/b")], decision=Decision("refused"))
        assert (only(store).paths, only(store).decision) == (("/ws/a",), "allowed")

    # --- the files of a call

    def test_changes_come_back_by_hash(self, store: Store):
        seq = done(store, change("/ws/a", b"1", b"22"), change("/ws/b", None, b"333"), change("/ws/c", b"4444", None))
        assert store.files(seq) == (
            FileChange("/ws/a", Stored(digest(b"1"), 1), Stored(digest(b"22"), 2)),
            FileChange("/ws/b", None, Stored(digest(b"333"), 3)),
            FileChange("/ws/c", Stored(digest(b"4444"), 4), None),
        )

    def test_directories_and_modes_come_back(self, store: Store):
        files = (
            FileChange("/ws/d", None, Directory()),
            FileChange("/ws/d/run", None, Stored(ABSENT, 3), 0o755),
            FileChange("/ws/old", Directory(), None, 0o700),
        )
        assert store.files(done(store, *files)) == files

    def test_things_that_change_places_and_folders_come_back(self, store: Store):
        unread = "unread 100000000 5"
        files = (
            shelved("c/1", b"old", b"new"),
            shelved("c/2", None, b"made", "/ws/b"),
            shelved("c/3", b"gone", None, "/ws/c"),
            FileChange(
                "/ws/d",
                Shelved("c/4", "tree", digest(b"tree"), 10**12, 0o755, (1, 2), 3, 40_000),
                Shelved("c/4", "other", "10000 0", 0, 0o600, (1, 3), 4),
            ),
            FileChange("/ws/e", Shelved("c/5", "file", unread, 10**8, 0o4755, (1, 4), 5), None),
            FileChange("/ws/f", Folder(0o755), Folder(0o1777)),
        )
        assert store.files(done(store, *files)) == files
        assert only(store).changed == 6

    def test_names_that_are_not_utf8_come_back(self, store: Store):
        path = os.fsdecode(b"/ws/\xff\xfe\n\xe9.txt")
        seq = done(store, change(path, None, b"new"))
        assert store.files(seq)[0].path == path
        assert only(store).paths == (path,)
        assert store.writer(path, digest(b"new")) == "s"

    # --- transactions that a dead process left

    def test_an_intent_without_an_outcome_is_broken(self, store: Store):
        seq = begun(store, change())
        (broken,) = store.broken()
        assert (broken.seq, broken.transaction, broken.settled) == (seq, f"x{seq}", False)
        assert broken.files == store.files(seq)

    def test_a_success_that_was_not_cleaned_up_is_broken_but_settled(self, store: Store):
        seq = begun(store, change())
        store.settle(seq, success(), durable=True)
        assert [(broken.seq, broken.settled) for broken in store.broken()] == [(seq, True)]

    @pytest.mark.parametrize("status", ["error", "interrupted"])
    def test_a_failure_after_an_intent_was_taken_back(self, store: Store, status: str):
        store.settle(begun(store, change()), Outcome(status, None, 0.0, None), durable=True)
        assert list(store.broken()) == []

    def test_what_is_finished_is_not_broken(self, store: Store):
        seq = done(store, change())
        assert list(store.broken()) == []
        store.finish(seq)  # two processes may find the same thing to clean up
        assert list(store.broken()) == []

    def test_a_call_without_an_intent_is_not_broken(self, store: Store):
        store.begin(call("Read"))
        assert list(store.broken()) == []

    # --- calls that come again (F-3)

    def test_f3_a_call_is_recalled_by_session_turn_and_id(self, store: Store):
        store.settle(store.begin(call(call_id="c1")), success("hello"), durable=False)
        recalled = store.recall("s", "t", "c1")
        assert recalled
        assert recalled.outcome == success("hello")
        for other in (("x", "t", "c1"), ("s", "x", "c1"), ("s", "t", "x")):
            assert store.recall(*other) is None

    @given(st.lists(st.sampled_from(["success", "partial", "error", "interrupted", None]), min_size=1, max_size=6))
    @settings(max_examples=30)
    def test_f3_what_succeeded_is_always_recalled_before_what_did_not(self, statuses: list[str | None]):
        with self.fresh() as store:
            seqs: list[int] = []
            for n, status in enumerate(statuses):
                seqs.append(store.begin(call()))
                if status:
                    store.settle(seqs[-1], Outcome(status, None, 1.5, f"reply {n}"), durable=False)
                store.settle(store.begin(call(call_id="another")), success("another"), durable=False)
            done = [n for n, status in enumerate(statuses) if status in ("success", "partial")]
            wanted = done[-1] if done else len(statuses) - 1
            recalled = store.recall("s", "t", "c")
            assert recalled
            assert recalled.seq == seqs[wanted]
            assert (recalled.outcome.reply if recalled.outcome else None) == (
                f"reply {wanted}" if statuses[wanted] else None
            )

    def test_f3_the_log_leaves_replies_out(self, store: Store):
        store.settle(store.begin(call()), success("a long page"), durable=False)
        assert only(store).outcome == success(None)

    # --- who wrote it (U-13)

    def test_u13_the_writer_of_a_content_is_the_last_session_that_gave_it(self, store: Store):
        done(store, change("/ws/a", None, b"x"), asked=call(session="one"))
        done(store, change("/ws/a", b"x", b"y"), asked=call(session="two"))
        assert store.writer("/ws/a", digest(b"x")) == "one"
        assert store.writer("/ws/a", digest(b"y")) == "two"
        done(store, change("/ws/a", b"y", b"x"), asked=call(session="three"))
        assert store.writer("/ws/a", digest(b"x")) == "three"
        assert store.writer("/ws/b", digest(b"x")) == ""
        assert store.writer("/ws/a", ABSENT) == ""

    def test_u13_what_failed_or_is_not_settled_was_not_written(self, store: Store):
        store.settle(begun(store, change("/ws/a", None, b"x")), failure(), durable=True)
        begun(store, change("/ws/a", None, b"x"))
        assert store.writer("/ws/a", digest(b"x")) == ""

    # --- taking back

    def test_c92_an_undo_is_about_the_calls_it_names(self, store: Store):
        first, second = done(store, change("/ws/a")), done(store, change("/ws/b"))
        done(store, change("/ws/a", b"new\n", b"old\n"), asked=call("undo"), takes_back=(second, first))
        assert [entry.takes_back for entry in store.entries()] == [(), (), (second, first)]
        assert [entry.undone for entry in store.entries()] == [True, True, False]

    @pytest.mark.parametrize("outcome", [failure(), Outcome("interrupted", None, 0.0, None), None])
    def test_c92_an_undo_that_did_not_happen_undid_nothing(self, store: Store, outcome: Outcome | None):
        first = done(store, change())
        seq = begun(store, change("/ws/a.py", b"new\n", b"old\n"), asked=call("undo"), takes_back=(first,))
        if outcome:
            store.settle(seq, outcome, durable=True)
        assert [entry.undone for entry in store.entries()] == [False, False]

    @given(st.data())
    def test_c92_undone_is_always_what_a_list_of_the_standing_says(self, data: st.DataObject):
        """Against a model: the calls that stand, and the undos that stand with what they took."""
        standing: set[int] = set()
        undos: dict[int, frozenset[int]] = {}
        undone: set[int] = set()
        with self.fresh() as store:
            for _ in range(data.draw(st.integers(1, 8))):
                works = data.draw(st.booleans())
                match data.draw(st.sampled_from(["change", "undo", "redo"])):
                    case "undo" if standing:
                        chosen = data.draw(st.sets(st.sampled_from(sorted(standing)), min_size=1))
                        seq = begun(store, asked=call("undo"), takes_back=sorted(chosen))
                        if works:
                            undos[seq] = frozenset(chosen)
                            standing -= chosen
                            undone |= chosen
                    case "redo" if undos:
                        taken = data.draw(st.sampled_from(sorted(undos)))
                        seq = begun(store, asked=call("redo"), takes_back=(taken,))
                        if works:
                            undone = (undone | {taken}) - undos[taken]
                            standing |= undos.pop(taken)
                    case _:
                        seq = begun(store)
                        if works:
                            standing.add(seq)
                store.settle(seq, success() if works else failure(), durable=False)
                entries = store.entries()
                assert {entry.seq for entry in entries if entry.undone} == undone
                assert {entry.seq for entry in store.entries(last=2) if entry.undone} == undone & {
                    entry.seq for entry in entries[-2:]
                }

    @given(st.lists(st.sampled_from(["begin", "intend", "settle", "fail", "finish", "keep"]), max_size=12))
    @settings(max_examples=40)
    def test_c91_what_the_journal_once_said_it_always_says(self, steps: list[str]):
        with self.fresh(bound=50) as store:
            said: dict[int, tuple[object, ...]] = {}
            open_calls, settled = [], []
            for n, step in enumerate(steps):
                if step == "keep":
                    store.keep([noise(n, 40)])
                elif step == "finish" and settled:
                    store.finish(settled[-1])
                elif step in ("settle", "fail") and open_calls:
                    settled.append(open_calls.pop())
                    store.settle(settled[-1], success() if step == "settle" else failure(), durable=False)
                else:
                    open_calls.append(begun(store, change(f"/ws/{n}", noise(n, 30), noise(-n, 30))))
                for entry in store.entries():
                    facts = (entry.at, entry.call, entry.decision, entry.paths, entry.changed, store.files(entry.seq))
                    assert said.setdefault(entry.seq, facts) == facts
                assert len(said) == len(store.entries())

    # --- the chain

    def test_c91_an_empty_journal_is_whole(self, store: Store):
        assert (store.verify().count, store.verify().problem, store.verify().before) == (0, None, 0)

    def test_c91_every_record_makes_another_head(self, store: Store):
        heads = [store.verify().head]
        seq = store.begin(call())
        heads.append(store.verify().head)
        store.intend(seq, "x", [change(), shelved("c/1", b"old", b"new", "/ws/b")], decision=ALLOWED, takes_back=(seq,))
        heads.append(store.verify().head)
        store.settle(seq, success("said"), durable=True)
        heads.append(store.verify().head)
        store.finish(seq)
        heads.append(store.verify().head)
        assert len(set(heads)) == 5
        assert store.verify().count == 4
        store.finish(seq)  # which says nothing new
        assert store.verify().head == heads[-1]
        assert [store.verify(head).noted_at for head in heads] == [0, 1, 2, 3, 4]
        assert store.verify(heads[2].upper()).noted_at == 2
        assert store.verify(digest(b"another")).noted_at is None

    def test_c91_what_is_no_journal_leaves_the_head_as_it_is(self, tmp_path: Path):
        """Contents that have to go, marks, questions and answers: none of it is the journal."""
        with closing(self.opened(tmp_path, bound=2500)) as store:
            done(store, change("/ws/a", noise(1, 1000), b"new"), shelved("c/1", noise(2, 1000), None, "/ws/b"))
            head = store.verify().head
            for n in range(3, 8):
                store.keep([noise(n, 1000)])
            store.marks("s").put(self.mark())
            store.ask(asked())
            store.answer(asked().hash, "once", by="ann")
            store.spend(asked().hash, "s")
            store.allow("s", "changes", by="ann")
            assert (store.verify().head, store.verify().problem) == (head, None)

    def test_c91_a_record_that_came_to_nothing_leaves_the_chain_whole(self, store: Store):
        seq = done(store, change())
        for again in (
            lambda: store.settle(seq, failure(), durable=True),
            lambda: store.intend(seq, "again", [change("/ws/b")], decision=ALLOWED),
        ):
            with pytest.raises(Exception):  # noqa: B017, PT011 - each engine has its own word for it
                again()
        assert (store.verify().count, store.verify().problem) == (4, None)
        done(store, change("/ws/c"))
        assert (store.verify().count, store.verify().problem) == (8, None)

    # --- questions and answers (U-21)

    def test_u21_a_question_waits_until_it_is_answered(self, store: Store):
        store.ask(asked())
        (waiting,) = store.waiting()
        assert waiting == replace(asked(), id=asked().hash[:8])
        answered = store.answer(waiting.id, "once", by="ann@desk")
        assert (answered.hash, answered.answer, answered.by, answered.spent) == (
            asked().hash,
            "once",
            "ann@desk",
            False,
        )
        assert list(store.waiting()) == []

    def test_u21_questions_wait_oldest_first_and_by_session(self, store: Store):
        for what, session in (("one", "s"), ("two", "other"), ("three", "s")):
            store.ask(asked(what, session=session))
        assert [each.command for each in store.waiting()] == ["one", "two", "three"]
        assert [each.command for each in store.waiting("s")] == ["one", "three"]
        assert list(store.waiting("nobody")) == []

    @pytest.mark.parametrize("answer", ["once", "session", "pattern", "no"])
    def test_u21_an_answer_is_used_once(self, store: Store, answer: Consent):
        store.ask(asked())
        assert store.spend(asked().hash, "s") is None
        store.answer(asked().hash, answer, by="ann")
        spent = store.spend(asked().hash, "s")
        assert spent
        assert (spent.answer, spent.by, spent.spent, spent.command) == (answer, "ann", True, asked().command)
        assert (spent.allows, spent.patterns) == (asked().allows, asked().patterns)
        assert store.spend(asked().hash, "s") is None

    def test_u21_an_answer_is_for_what_was_asked_and_nothing_else(self, store: Store):
        store.ask(asked())
        store.answer(asked().hash, "once", by="ann")
        for hash, session in (
            (digest(b"rm -rf /"), "s"),
            (asked().hash, "other"),
            (asked().hash[:8], "s"),
            (asked().hash.upper(), "s"),
            ("", "s"),
        ):
            assert store.spend(hash, session) is None
        assert store.spend(asked().hash, "s")

    def test_u21_an_answer_is_given_once(self, store: Store):
        store.ask(asked())
        store.answer(asked().hash, "no", by="ann")
        with pytest.raises(NothingAsked, match="by ann"):
            store.answer(asked().hash, "once", by="bob")
        spent = store.spend(asked().hash, "s")
        assert spent
        assert spent.answer == "no"
        with pytest.raises(NothingAsked):
            store.answer(asked().hash, "once", by="bob")

    def test_u21_only_the_id_of_one_question_is_taken(self, store: Store):
        one, other = "abcdef0123" + "0" * 54, "abcdef0124" + "0" * 54
        store.ask(asked("one", hash=one))
        assert store.waiting()[0].id == "abcdef01"
        store.ask(asked("other", hash=other))
        assert [each.id for each in store.waiting()] == ["abcdef0123", "abcdef0124"]
        for wanted in ("", "a", "abcdef0", "abcdef01", "abcdef012", "00000000", one + "0", "abcdef0123 ", "%" * 8):
            with pytest.raises(NothingAsked) as refused:
                store.answer(wanted, "once", by="ann")
            assert refused.value.wanted == wanted
            with pytest.raises(NothingAsked):
                store.asked(wanted)
        assert store.asked("abcdef0123").command == "one"
        assert store.answer("ABCDEF0124", "once", by="ann").command == "other"
        assert [each.command for each in store.waiting()] == ["one"]

    def test_u21_an_id_of_two_sessions_is_nobodys(self, store: Store):
        store.ask(asked(session="one"))
        store.ask(asked(session="two"))
        with pytest.raises(NothingAsked):
            store.answer(asked().hash, "once", by="ann")

    def test_u21_to_ask_again_takes_nothing_away(self, store: Store):
        store.ask(asked())
        store.ask(replace(asked(), at=2000.0, because="another reason"))
        assert [each.at for each in store.waiting()] == [1000.5]
        store.answer(asked().hash, "once", by="ann")
        store.ask(asked())
        assert list(store.waiting()) == []
        assert store.spend(asked().hash, "s")
        store.ask(asked())  # it was used, so this is a new question
        assert len(store.waiting()) == 1
        assert store.spend(asked().hash, "s") is None

    def test_u21_an_answer_does_not_come_with_the_question(self, store: Store):
        store.ask(replace(asked(), answer="once", by="the model"))
        assert store.spend(asked().hash, "s") is None
        assert len(store.waiting()) == 1

    def test_u21_an_answer_is_good_for_a_day(self, store: Store, monkeypatch: pytest.MonkeyPatch):
        assert rules.GOOD_FOR == 24 * 3600
        store.ask(asked())
        store.answer(asked().hash, "once", by="ann")
        monkeypatch.setattr(rules, "GOOD_FOR", -1.0)
        assert store.spend(asked().hash, "s") is None
        store.ask(asked())
        assert len(store.waiting()) == 1
        monkeypatch.undo()
        assert store.spend(asked().hash, "s") is None

    def test_u21_the_last_thousand_questions_are_kept(self, store: Store, monkeypatch: pytest.MonkeyPatch):
        assert rules.MOST == 1000
        monkeypatch.setattr(rules, "MOST", 3)
        for n in range(5):
            store.ask(asked(f"{n}"))
        assert [each.command for each in store.waiting()] == ["2", "3", "4"]

    @given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
    @settings(max_examples=20)
    def test_u21_a_question_always_comes_back_as_it_was_asked(self, session: str, command: str, diff: str, key: str):
        with self.fresh() as store:
            put = replace(asked(command, session=session), diff=diff, allows=(key,), patterns=(key, command))
            store.ask(put)
            assert list(store.waiting(session)) == [replace(put, id=put.hash[:8])]

    def test_what_is_allowed_for_a_session_is_allowed_for_no_other(self, store: Store):
        assert store.allowed("s") == {}
        store.allow("s", "changes", by="ann")
        store.allow("s", "run ls *", by="ann")
        store.allow("s", "run ls *", by="bob")
        assert store.allowed("s") == {"changes": "ann", "run ls *": "bob"}
        assert store.allowed("other") == {}

    # --- contents

    @given(st.lists(st.binary(max_size=2000), max_size=5))
    @settings(max_examples=40)
    def test_what_is_kept_always_comes_back(self, datas: list[bytes]):
        with self.fresh() as store:
            store.keep(datas)
            assert all(store.has(digest(data)) for data in datas)
            assert [store.get(digest(data)) for data in datas] == datas

    def test_what_was_never_kept_is_not_there(self, store: Store):
        assert store.get(ABSENT) is None
        assert not store.has(ABSENT)

    def test_large_contents_come_back(self, store: Store):
        datas = [noise(1, 3_000_000), b"compressible\n" * 100_000]
        store.keep(datas)
        assert [store.get(digest(data)) for data in datas] == datas

    def test_an_intent_keeps_the_contents_at_hand(self, store: Store):
        begun(store, change("/ws/a", b"old", b"new"), FileChange("/ws/b", Stored(ABSENT, 5), Directory()))
        assert store.get(digest(b"old")) == b"old"
        assert store.get(digest(b"new")) == b"new"
        assert not store.has(ABSENT)

    @given(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
    @settings(max_examples=30)
    def test_a_content_is_never_kept_twice(self, datas: list[bytes]):
        with self.fresh(bound=sum(map(len, set(datas)))) as store:  # any copy would be one too many
            for _ in range(3):
                store.keep(datas + datas)
                begun(store, *(change(f"/ws/{n}", data, data) for n, data in enumerate(datas)))
            assert all(store.has(digest(data)) for data in datas)

    # --- slots

    def test_nothing_of_a_slot_is_kept_as_content(self, store: Store):
        done(store, shelved("c/1", b"old", b"new"))
        assert not store.has(digest(b"old"))
        assert not store.has(digest(b"new"))
        assert only(store).kept
        assert store.writer("/ws/a.py", digest(b"new")) == "s"

    def test_slots_are_needed_from_the_intent_on(self, store: Store):
        assert not store.slots()
        seq = begun(store, shelved("c/1", b"old", b"new"), shelved("other/1", None, b"new", "/ws/b"))
        assert set(store.slots()) == {"c", "other"}
        store.settle(seq, success(), durable=True)
        store.finish(seq)
        assert set(store.slots()) == {"c", "other"}

    @pytest.mark.parametrize("status", ["error", "interrupted"])
    def test_slots_of_a_call_that_came_to_nothing_are_not_needed(self, store: Store, status: str):
        seq = begun(store, shelved("c/1", b"old", b"new"))
        assert not store.gone()
        store.settle(seq, Outcome(status, None, 0.0, None), durable=True)
        assert not store.slots()
        assert list(store.gone()) == ["c"]
        assert not store.gone(), "it is told once"

    def test_a_failed_undo_leaves_the_slots_that_it_was_about(self, store: Store):
        first = done(store, shelved("c/1", b"old", b"new"))
        undo = begun(store, shelved("c/1", b"old", b"new").reversed(), asked=call("undo"), takes_back=(first,))
        store.settle(undo, failure(), durable=True)
        assert set(store.slots()) == {"c"}
        assert not store.gone()
        assert store.entries()[0].kept

    def test_slots_count_within_the_bound_and_the_oldest_go_first(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=3500)) as store:
            done(store, change("/ws/edited", noise(1, 400), b"new"))
            seen = noise(2, 900)
            store.keep([seen])
            done(store, shelved("a/1", noise(3, 900), b"small"))
            done(store, shelved("b/1", b"small", noise(4, 900), "/ws/b"))
            assert (set(store.slots()), store.has(digest(seen))) == ({"a", "b"}, True)
            done(store, shelved("c/1", noise(5, 1000), None, "/ws/c"))
            assert (set(store.slots()), store.has(digest(seen))) == ({"a", "b", "c"}, False)
            done(store, shelved("d/1", noise(6, 1000), None, "/ws/d"))
            assert set(store.slots()) == {"b", "c", "d"}
            assert list(store.gone()) == ["a"]
            assert [entry.kept for entry in store.entries()] == [True, False, True, True, True]

    def test_slots_that_are_used_again_go_later(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            first = done(store, shelved("a/1", noise(1, 1000), None))
            done(store, shelved("b/1", noise(2, 1000), None, "/ws/b"))
            undone = shelved("a/1", noise(1, 1000), None).reversed()
            done(store, undone, asked=call("undo"), takes_back=(first,))
            done(store, shelved("c/1", noise(3, 1000), None, "/ws/c"))
            assert set(store.slots()) == {"a", "c"}

    def test_slots_of_an_open_intent_never_go_and_too_many_go_once_it_is_finished(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            seq = begun(store, shelved("a/1", noise(1, 5000), None))
            store.keep([noise(2, 1000)])
            assert set(store.slots()) == {"a"}
            store.settle(seq, success(), durable=True)
            store.finish(seq)
            assert not store.slots()
            assert not only(store).kept

    def test_a_call_about_slots_that_had_to_go_is_not_kept(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            done(store, shelved("a/1", noise(1, 5000), None))
            begun(store, shelved("a/1", noise(1, 5000), None).reversed(), asked=call("undo"))
            assert not store.slots()

    def test_a_content_that_had_to_go_is_no_loss_for_a_slot(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            data = noise(1, 400)
            store.keep([data])
            done(store, shelved("a/1", data, b"new"))
            store.keep([noise(2, 1000)])
            assert not store.has(digest(data))
            assert only(store).kept

    # --- the bound

    def test_the_longest_unused_go_first(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=3500)) as store:
            datas = [noise(n, 1000) for n in range(5)]
            for data in datas[:3]:
                store.keep([data])
            assert store.get(digest(datas[0])) == datas[0]
            for data in datas[3:]:
                store.keep([data])
            assert [store.has(digest(data)) for data in datas] == [True, False, False, True, True]

    def test_an_entry_says_when_it_can_no_longer_be_taken_back(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            old = noise(1, 400)
            done(store, change("/ws/a", old, b"new"), change("/ws/b", old, b"newer"))
            done(store, change("/ws/c", b"small", b"other"))
            done(store, change("/ws/d", None, noise(2, 1500)))
            assert [entry.kept for entry in store.entries()] == [True, True, True]
            done(store, change("/ws/e", None, noise(3, 1900)))
            assert not store.has(digest(old))
            assert [entry.kept for entry in store.entries()] == [False, store.has(digest(b"small")), True, True]
            store.keep([old])
            assert store.entries()[0].kept

    def test_what_was_only_seen_goes_before_what_can_be_taken_back(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=3500)) as store:
            old, seen, newer = noise(1, 1000), noise(2, 1000), noise(3, 1000)
            done(store, change("/ws/a", old, b"new"))
            store.keep([seen])
            store.keep([newer])
            store.keep([noise(4, 1000)])
            assert [store.has(digest(data)) for data in (old, seen, newer)] == [True, False, True]
            done(store, change("/ws/b", noise(5, 1000), noise(6, 1000)))
            assert [store.has(digest(data)) for data in (old, newer, noise(5, 1000))] == [True, False, True]
            assert all(entry.kept for entry in store.entries())

    def test_of_what_can_be_taken_back_the_oldest_goes_first(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            for n in range(3):
                done(store, change(f"/ws/{n}", noise(n, 1000), None))
            assert [entry.kept for entry in store.entries()] == [False, True, True]

    @pytest.mark.parametrize("at_hand", [True, False])
    def test_what_was_seen_is_raised_by_an_intent(self, tmp_path: Path, at_hand: bool):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            old = noise(1, 1000)
            store.keep([old])
            done(store, FileChange("/ws/a", Bytes(old) if at_hand else Stored(digest(old), 1000), None))
            store.keep([old])  # seen once more: that takes nothing away
            for n in range(2, 6):
                store.keep([noise(n, 1000)])
            assert store.get(digest(old)) == old
            assert only(store).kept

    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12))
    @settings(max_examples=40)
    def test_what_is_seen_never_costs_an_undo(self, steps: list[tuple[bool, int]]):
        """As long as the contents of intents alone are within the bound, all of them are there."""
        with self.fresh(bound=650) as store:
            for intended, n in steps:
                if intended:
                    done(store, change(f"/ws/{n}", noise(n, 100), None))
                else:
                    store.keep([noise(n, 100), noise(n + 6, 100)])
            assert all(entry.kept for entry in store.entries())

    def test_an_entry_whose_old_content_never_came_is_not_kept(self, store: Store):
        done(store, FileChange("/ws/a", Stored(ABSENT, 5), None))
        assert not only(store).kept

    def test_a_created_file_needs_no_content_to_be_taken_back(self, store: Store):
        done(store, FileChange("/ws/d", None, Directory()), FileChange("/ws/d/a", None, Stored(ABSENT, 5)))
        assert only(store).kept

    def test_the_contents_of_an_open_intent_never_go(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            before, after = noise(1, 1000), noise(2, 1000)
            seq = begun(store, change("/ws/a", before, after))
            store.keep([noise(3, 1000)])
            store.keep([noise(4, 1000)])
            assert store.has(digest(before))
            assert store.has(digest(after))
            store.settle(seq, success(), durable=True)
            store.keep([noise(5, 1000)])
            assert not (store.has(digest(before)) and store.has(digest(after)))

    # --- marks

    def mark(self, path: str = "/ws/a", inode: int = 7, **facts: object) -> Mark:
        identity = Identity(1, inode, 100, 2**62, 2**62 + 1)
        return Mark(**{"path": path, "identity": identity, "hash": "ab", "lines": ((1, 5),), "whole": True, **facts})  # pyright: ignore[reportArgumentType]

    def test_c10_a_mark_comes_back_as_it_was(self, store: Store):
        marks = [self.mark(), self.mark("/ws/b", 8, hash=None, lines=((1, 2), (9, 9)), pages=(Seen(0, 9, "cd"),))]
        for each in marks:
            store.marks("s").put(each)
        assert [store.marks("s").get(each.path, None) for each in marks] == marks

    def test_c10_a_new_mark_replaces_the_old(self, store: Store):
        store.marks("s").put(self.mark())
        store.marks("s").put(self.mark(whole=False))
        assert store.marks("s").get("/ws/a", None) == self.mark(whole=False)

    def test_c15_sessions_do_not_see_each_others_marks(self, store: Store):
        store.marks("s").put(self.mark())
        assert store.marks("other").get("/ws/a", self.mark().identity) is None

    def test_u15_a_mark_is_found_under_another_name_of_the_file(self, store: Store):
        marks = store.marks("s")
        marks.put(self.mark("/ws/a", 2**64 - 1))
        marks.put(self.mark("/ws/b", 2**64 - 1))
        assert marks.get("/ws/link", self.mark(inode=2**64 - 1).identity) == self.mark("/ws/b", 2**64 - 1)
        marks.put(self.mark("/ws/a", 2**64 - 1))
        assert marks.get("/ws/link", self.mark(inode=2**64 - 1).identity) == self.mark("/ws/a", 2**64 - 1)
        assert marks.get("/ws/link", self.mark(inode=9).identity) is None
        assert marks.get("/ws/link", None) is None

    def test_the_mark_of_the_name_itself_goes_before(self, store: Store):
        marks = store.marks("s")
        marks.put(self.mark("/ws/a", 7))
        marks.put(self.mark("/ws/b", 8))
        assert marks.get("/ws/a", self.mark(inode=8).identity) == self.mark("/ws/a", 7)

    def test_a_dropped_mark_is_gone(self, store: Store):
        marks = store.marks("s")
        marks.put(self.mark())
        marks.drop("/ws/a")
        marks.drop("/ws/never")
        assert marks.get("/ws/a", self.mark().identity) is None

    def test_c15_a_session_can_list_what_it_has_seen(self, store: Store):
        marks = store.marks("s")
        marks.put(self.mark("/ws/a"))
        marks.put(self.mark("/ws/\udcff", 8))
        marks.put(self.mark("/ws/gone", 9))
        marks.drop("/ws/gone")
        store.marks("other").put(self.mark("/ws/theirs", 10))
        assert set(marks.paths()) == {"/ws/a", "/ws/\udcff"}

    def test_names_of_marks_need_not_be_utf8(self, store: Store):
        mark = self.mark(os.fsdecode(b"/ws/\xff"))
        store.marks("s").put(mark)
        assert store.marks("s").get(mark.path, None) == mark

    # --- alone

    def test_nobody_else_holds_the_state_meanwhile(self, store: Store):
        with store.alone():
            assert turned_away(store)
            with pytest.raises(Busy) as refused, store.alone(wait=False):
                pass
            assert refused.value.seconds == 0
        assert not turned_away(store)

    def test_the_state_is_let_go_when_something_fails(self, store: Store):
        with pytest.raises(ValueError, match="ours"), store.alone():
            raise ValueError("ours")
        with pytest.raises(OSError, match="ours"), store.alone(wait=False):
            raise OSError("ours")  # and it is told as it is
        with store.alone(wait=False):
            pass

    def test_who_waits_comes_next(self, store: Store):
        order: list[str] = []
        started = Event()

        def work() -> None:
            started.set()
            with store.alone():
                order.append("second")

        thread = Thread(target=work)
        with store.alone():
            thread.start()
            started.wait()
            thread.join(0.05)
            order.append("first")
        thread.join()
        assert order == ["first", "second"]

    def test_the_journal_goes_on_while_somebody_is_alone(self, store: Store):
        with store.alone():
            seq = done(store, change())
            thread = Thread(target=done, args=(store, change("/ws/b")))
            thread.start()
            thread.join()
            assert len(store.entries()) == 2
            assert store.files(seq)

    # --- several at once

    def test_threads_share_a_store(self, store: Store):
        errors: list[BaseException] = []

        def work(session: str) -> None:
            try:
                for n in range(20):
                    done(
                        store,
                        change(f"/ws/{session}/{n}", None, f"{session} {n}".encode()),
                        asked=call(session=session),
                    )
            except BaseException as error:  # noqa: BLE001 - a thread would swallow it
                errors.append(error)

        threads = [Thread(target=work, args=(f"s{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len({entry.seq for entry in store.entries()}) == 80
        assert [len(store.entries(session=f"s{n}")) for n in range(4)] == [20] * 4
        assert list(store.broken()) == []


class LastingStoreSuite(StoreSuite):
    """For stores that outlive the process, and are shared by several."""

    def test_c15_all_of_it_outlives_the_process(self, tmp_path: Path):
        mark = self.mark()
        with closing(self.opened(tmp_path)) as store:
            first = done(store, change())
            done(store, change("/ws/a.py", b"new\n", b"old\n"), asked=call("undo", call_id="u"), takes_back=(first,))
            store.settle(store.begin(call("Read", call_id="r")), success("a page"), durable=False)
            broken = begun(store, change("/ws/b", None, b"half"))
            store.marks("s").put(mark)
            before = store.entries()
        with closing(self.opened(tmp_path)) as store:
            assert store.entries() == before
            assert [entry.undone for entry in store.entries()] == [True, False, False, False]
            assert [each.seq for each in store.broken()] == [broken]
            assert store.get(digest(b"old\n")) == b"old\n"
            assert store.marks("s").get("/ws/a", None) == mark
            recalled = store.recall("s", "t", "r")
            assert recalled
            assert recalled.outcome == success("a page")

    def test_u21_an_answer_given_by_another_process_is_used_by_one(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as one, closing(self.opened(tmp_path)) as two:
            for n in range(20):
                one.ask(asked(f"{n}"))
                two.answer(asked(f"{n}").hash, "once", by="ann")
                found: list[object] = []
                both = Barrier(2)

                def use(store: Store, hash: str, both: Barrier = both, found: list[object] = found) -> None:
                    both.wait()
                    found.append(store.spend(hash, "s"))

                threads = [Thread(target=use, args=(store, asked(f"{n}").hash)) for store in (one, two)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len(found) == 2
                assert found.count(None) == 1

    def test_u21_questions_answers_and_what_is_allowed_outlive_the_process(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as store:
            store.ask(asked("one"))
            store.ask(asked("two"))
            store.answer(asked("two").hash, "session", by="ann")
            store.allow("s", "changes", by="ann")
        with closing(self.opened(tmp_path)) as store:
            assert [each.command for each in store.waiting()] == ["one"]
            assert store.spend(asked("two").hash, "s")
            assert store.allowed("s") == {"changes": "ann"}

    def test_two_stores_on_one_workspace_see_each_other(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as one, closing(self.opened(tmp_path)) as two:
            first = done(one, change("/ws/a", None, b"x"), asked=call(session="one"))
            assert two.writer("/ws/a", digest(b"x")) == "one"
            second = done(two, change("/ws/a", b"x", b"y"), asked=call(session="two"))
            assert [entry.seq for entry in one.entries()] == [first, second]
            assert one.get(digest(b"y")) == b"y"

    def test_stores_on_one_workspace_hold_each_other_off(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as one, closing(self.opened(tmp_path)) as two:
            with one.alone():
                assert turned_away(two)
            with two.alone():
                assert turned_away(one)

    def test_states_of_two_workspaces_do_not_meet(self, tmp_path: Path):
        with closing(self.opened(tmp_path / "a")) as one, closing(self.opened(tmp_path / "b")) as two, one.alone():
            assert not turned_away(two)
