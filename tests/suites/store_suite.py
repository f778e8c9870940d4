"""What every store does. Inherit from StoreSuite, and from LastingStoreSuite if it outlives the process."""

import os
import random
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.state import approval_rules as rules
from handhold.backends.state.space_totals import DiskOverhead
from handhold.core.errors import Busy, NoPendingApproval
from handhold.core.facts import FileIdentity
from handhold.core.plans import (
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    InlineContent,
    StagedContent,
    digest,
)
from handhold.core.ports.approvals import Consent, PendingApproval
from handhold.core.ports.journal import Call, CallDecision, JournalEntry, Outcome
from handhold.core.ports.read_records import ReadRecord, SeenPage
from handhold.core.ports.store import Store
from tests.scale import examples

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=20)  # lone surrogates too: models send them
ALLOWED = CallDecision("allowed", "mode edit (built in)", "ann@desk")
ABSENT = digest(b"never kept")
ASKED_AT = round(time.time(), 1)
NO_OVERHEAD = DiskOverhead(0, 0, 0)  # so that a test can count in bytes of data


def call(tool: str = "Edit", *, session: str = "s", turn: str = "t", call_id: str = "c") -> Call:
    return Call(session, turn, call_id, tool, "{}", "claude")


def success(reply: str | None = None) -> Outcome:
    return Outcome("success", None, 1.5, reply)


def failure() -> Outcome:
    return Outcome("error", "NO_MATCH", 1.5, None)


def change(path: str = "/ws/a.py", before: bytes | None = b"old\n", after: bytes | None = b"new\n") -> FileChange:
    return FileChange(
        path, None if before is None else InlineContent(before), None if after is None else InlineContent(after)
    )


def shelved(slot: str, before: bytes | None, after: bytes | None, path: str = "/ws/a.py") -> FileChange:
    """A file that is exchanged with its slot."""

    def thing(data: bytes | None, number: int) -> StagedContent | None:
        if data is None:
            return None
        inode, mtime = (2**63 + 5, 2**64 - number), -7 * number
        return StagedContent(slot, "file", digest(data), len(data), 0o640, inode, mtime, allocated=len(data))

    return FileChange(path, thing(before, 1), thing(after, 2))


def begun(store: Store, *files: FileChange, asked: Call | None = None, takes_back: Sequence[int] = ()) -> int:
    """A call up to its intent."""
    seq = store.begin(asked or call())
    store.record_intent(seq, f"x{seq}", files, decision=ALLOWED, reverses=takes_back)
    return seq


def done(store: Store, *files: FileChange, asked: Call | None = None, takes_back: Sequence[int] = ()) -> int:
    """A call from beginning to end."""
    return replied(store, *files, asked=asked, takes_back=takes_back)[0]


def replied(
    store: Store, *files: FileChange, asked: Call | None = None, takes_back: Sequence[int] = ()
) -> tuple[int, list[int]]:
    """The same, and the calls whose undo will be dropped, according to its reply."""
    seq = store.begin(asked or call())
    given_up = [
        entry.seq for entry in store.record_intent(seq, f"x{seq}", files, decision=ALLOWED, reverses=takes_back)
    ]
    store.record_outcome(seq, success(), durable=True, dropped_undo=given_up)
    store.mark_cleaned_up(seq)
    return seq, given_up


def asked(what: str = "rm -rf build", *, session: str = "s", hash: str = "") -> PendingApproval:
    return PendingApproval(
        id="",
        hash=hash or digest(what.encode("utf-8", "surrogatepass")),
        session=session,
        at=ASKED_AT,
        tool="Bash",
        because="it deletes",
        command=what,
        diff="-old\n+new\n",
        allows=(f"run={what}",),
        patterns=("run rm *",),
    )


def put(store: Store, question: PendingApproval) -> PendingApproval:
    """Enqueue a question for which there is room."""
    waiting = store.enqueue(question)
    assert waiting
    return waiting


def noise(n: int, size: int) -> bytes:
    """Incompressible bytes."""
    return random.Random(n).randbytes(size)


def slots_of(store: Store) -> set[str]:
    """The commands whose slots are needed, of all that calls have used."""
    used = {
        side.command
        for entry in store.entries()
        for each in store.changes_of(entry.seq)
        for side in (each.before, each.after)
        if isinstance(side, StagedContent)
    }
    return set(store.needed_slots(used))


def only(store: Store) -> JournalEntry:
    (entry,) = store.entries()
    return entry


def turned_away(store: Store) -> bool:
    """Whether another thread finds the state locked."""
    found: list[bool] = []

    def look() -> None:
        try:
            with store.exclusive(wait=False):
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
        """A store for one example of a property."""
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
        assert list(store.incomplete_transactions()) == []
        assert store.find_call("s", "t", "c") is None
        assert store.changes_of(1) == ()

    def test_a_call_is_in_the_journal_before_anything_came_of_it(self, store: Store):
        seq = store.begin(call("Read"))
        entry = only(store)
        assert (entry.seq, entry.call, entry.outcome) == (seq, call("Read"), None)
        assert (entry.paths, entry.changed, entry.takes_back) == ((), 0, ())
        assert (entry.undone, entry.kept) == (False, True)

    def test_c91_a_call_that_is_recorded_when_it_ends_is_recorded_as_ever(self, store: Store):
        store.record_outcome(store.begin(call()), success(), durable=False, decision=ALLOWED)
        store.record_call(call(), success(), decision=ALLOWED)
        first, second = store.entries()
        assert replace(second, seq=first.seq, at=first.at) == first
        assert second.seq == first.seq + 1
        assert store.verify() == replace(store.verify(), count=4, problem=None)

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
        store.record_outcome(seq, success(), durable=True)
        entry = only(store)
        assert (entry.decision, entry.rule, entry.approver) == ("allowed", "mode edit (built in)", "ann@desk")
        assert entry.outcome == success()
        assert (entry.paths, entry.changed) == (("/ws/a.py",), 1)

    def test_c91_what_only_read_or_was_refused_has_its_decision_with_its_outcome(self, store: Store):
        store.record_outcome(store.begin(call("Read")), success(), durable=False, decision=ALLOWED)
        store.record_outcome(
            store.begin(call()), failure(), durable=False, decision=CallDecision("refused", "no keys (a.toml)")
        )
        store.record_outcome(store.begin(call("Unknown")), failure(), durable=False)
        store.begin(call())
        said = [(entry.decision, entry.rule, entry.approver) for entry in store.entries()]
        assert said == [
            ("allowed", "mode edit (built in)", "ann@desk"),
            ("refused", "no keys (a.toml)", ""),
            ("", "", ""),
            ("", "", ""),
        ]

    def test_c91_the_decision_before_a_change_is_the_one_that_counts(self, store: Store):
        store.record_outcome(begun(store, change()), failure(), durable=True, decision=CallDecision("refused"))
        assert only(store).decision == "allowed"

    @given(ANY_TEXT, ANY_TEXT)
    @settings(max_examples=examples(20))
    def test_rules_and_approvers_of_any_name_always_come_back(self, rule: str, by: str):
        with self.fresh() as store:
            seq = store.begin(call())
            store.record_intent(seq, "x", [change()], decision=CallDecision("approved", rule, by))
            assert (only(store).rule, only(store).approver) == (rule, by)
            assert store.verify().problem is None

    def test_an_error_is_an_outcome(self, store: Store):
        store.record_outcome(store.begin(call()), failure(), durable=False)
        assert only(store).outcome == failure()

    def test_an_entry_lists_a_hundred_paths_and_counts_all(self, store: Store):
        done(store, *(change(f"/ws/{n:03}") for n in range(150)))
        entry = only(store)
        assert entry.paths == tuple(f"/ws/{n:03}" for n in range(100))
        assert entry.changed == 150

    @given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
    @settings(max_examples=examples(30))
    def test_a_call_always_comes_back_as_it_was_asked(
        self, session: str, turn: str, call_id: str, tool: str, arguments: str, reply: str
    ):
        with self.fresh() as store:
            asked = Call(session, turn, call_id, tool, arguments, "claude")
            store.record_outcome(store.begin(asked), success(reply), durable=False)
            recalled = store.find_call(session, turn, call_id)
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
        store.record_outcome(seq, success(), durable=True)
        with pytest.raises(Exception):  # noqa: B017, PT011 - each engine has its own word for it
            store.record_outcome(seq, failure(), durable=True)
        assert only(store).outcome == success()

    def test_what_was_intended_stays_intended(self, store: Store):
        seq = begun(store, change("/ws/a"))
        with pytest.raises(Exception):  # noqa: B017, PT011
            store.record_intent(seq, "again", [change("/ws/b")], decision=CallDecision("refused"))
        assert (only(store).paths, only(store).decision) == (("/ws/a",), "allowed")

    # --- the files of a call

    def test_changes_come_back_by_hash(self, store: Store):
        seq = done(store, change("/ws/a", b"1", b"22"), change("/ws/b", None, b"333"), change("/ws/c", b"4444", None))
        assert store.changes_of(seq) == (
            FileChange("/ws/a", ContentRef(digest(b"1"), 1), ContentRef(digest(b"22"), 2)),
            FileChange("/ws/b", None, ContentRef(digest(b"333"), 3)),
            FileChange("/ws/c", ContentRef(digest(b"4444"), 4), None),
        )

    def test_directories_and_modes_come_back(self, store: Store):
        files = (
            FileChange("/ws/d", None, Directory()),
            FileChange("/ws/d/run", None, ContentRef(ABSENT, 3), 0o755),
            FileChange("/ws/old", Directory(), None, 0o700),
        )
        assert store.changes_of(done(store, *files)) == files

    def test_things_that_change_places_and_folders_come_back(self, store: Store):
        unread = "unread 100000000 5"
        files = (
            shelved("c/1", b"old", b"new"),
            shelved("c/2", None, b"made", "/ws/b"),
            shelved("c/3", b"gone", None, "/ws/c"),
            FileChange(
                "/ws/d",
                StagedContent("c/4", "tree", digest(b"tree"), 10**12, 0o755, (1, 2), 3, 40_000),
                StagedContent("c/4", "other", "10000 0", 0, 0o600, (1, 3), 4),
            ),
            FileChange("/ws/e", StagedContent("c/5", "file", unread, 10**8, 0o4755, (1, 4), 5), None),
            FileChange("/ws/f", DirectoryMetadata(0o755), DirectoryMetadata(0o1777)),
            FileChange(
                "/ws/g",
                DirectoryMetadata(0o755, (1, 2), ()),
                DirectoryMetadata(0o755, (3, 4), (("user.\udcff", b"\0\xff"),)),
            ),
        )
        assert store.changes_of(done(store, *files)) == files
        assert only(store).changed == 7

    def test_names_that_are_not_utf8_come_back(self, store: Store):
        path = os.fsdecode(b"/ws/\xff\xfe\n\xe9.txt")
        seq = done(store, change(path, None, b"new"))
        assert store.changes_of(seq)[0].path == path
        assert only(store).paths == (path,)
        assert store.last_writer(path, digest(b"new")) == "s"

    # --- transactions of a dead process

    def test_an_intent_without_an_outcome_is_broken(self, store: Store):
        seq = begun(store, change())
        (broken,) = store.incomplete_transactions()
        assert (broken.seq, broken.transaction, broken.is_recorded) == (seq, f"x{seq}", False)
        assert broken.files == store.changes_of(seq)

    def test_a_success_that_was_not_cleaned_up_is_broken_but_settled(self, store: Store):
        seq = begun(store, change())
        store.record_outcome(seq, success(), durable=True)
        assert [(broken.seq, broken.is_recorded) for broken in store.incomplete_transactions()] == [(seq, True)]

    @pytest.mark.parametrize("status", ["error", "interrupted"])
    def test_a_failure_after_an_intent_was_taken_back(self, store: Store, status: str):
        store.record_outcome(begun(store, change()), Outcome(status, None, 0.0, None), durable=True)
        assert list(store.incomplete_transactions()) == []

    def test_what_is_finished_is_not_broken(self, store: Store):
        seq = done(store, change())
        assert list(store.incomplete_transactions()) == []
        store.mark_cleaned_up(seq)  # two processes may find the same leftovers
        assert list(store.incomplete_transactions()) == []

    def test_a_call_without_an_intent_is_not_broken(self, store: Store):
        store.begin(call("Read"))
        assert list(store.incomplete_transactions()) == []

    # --- repeated calls (F-3)

    def test_f3_a_call_is_recalled_by_session_turn_and_id(self, store: Store):
        store.record_outcome(store.begin(call(call_id="c1")), success("hello"), durable=False)
        recalled = store.find_call("s", "t", "c1")
        assert recalled
        assert recalled.outcome == success("hello")
        for other in (("x", "t", "c1"), ("s", "x", "c1"), ("s", "t", "x")):
            assert store.find_call(*other) is None

    @given(st.lists(st.sampled_from(["success", "partial", "error", "interrupted", None]), min_size=1, max_size=6))
    @settings(max_examples=examples(30))
    def test_f3_what_succeeded_is_always_recalled_before_what_did_not(self, statuses: list[str | None]):
        with self.fresh() as store:
            seqs: list[int] = []
            for n, status in enumerate(statuses):
                seqs.append(store.begin(call()))
                if status:
                    store.record_outcome(seqs[-1], Outcome(status, None, 1.5, f"reply {n}"), durable=False)
                store.record_outcome(store.begin(call(call_id="another")), success("another"), durable=False)
            done = [n for n, status in enumerate(statuses) if status in ("success", "partial")]
            wanted = done[-1] if done else len(statuses) - 1
            recalled = store.find_call("s", "t", "c")
            assert recalled
            assert recalled.seq == seqs[wanted]
            assert (recalled.outcome.reply if recalled.outcome else None) == (
                f"reply {wanted}" if statuses[wanted] else None
            )

    def test_f3_the_log_leaves_replies_out(self, store: Store):
        store.record_outcome(store.begin(call()), success("a long page"), durable=False)
        assert only(store).outcome == success(None)

    # --- who wrote it (U-13)

    def test_u13_the_writer_of_a_content_is_the_last_session_that_gave_it(self, store: Store):
        done(store, change("/ws/a", None, b"x"), asked=call(session="one"))
        done(store, change("/ws/a", b"x", b"y"), asked=call(session="two"))
        assert store.last_writer("/ws/a", digest(b"x")) == "one"
        assert store.last_writer("/ws/a", digest(b"y")) == "two"
        done(store, change("/ws/a", b"y", b"x"), asked=call(session="three"))
        assert store.last_writer("/ws/a", digest(b"x")) == "three"
        assert store.last_writer("/ws/b", digest(b"x")) == ""
        assert store.last_writer("/ws/a", ABSENT) == ""

    def test_u13_what_failed_or_is_not_settled_was_not_written(self, store: Store):
        store.record_outcome(begun(store, change("/ws/a", None, b"x")), failure(), durable=True)
        begun(store, change("/ws/a", None, b"x"))
        assert store.last_writer("/ws/a", digest(b"x")) == ""

    # --- undo

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
            store.record_outcome(seq, outcome, durable=True)
        assert [entry.undone for entry in store.entries()] == [False, False]

    @given(st.data())
    def test_c92_undone_is_always_what_a_list_of_the_standing_says(self, data: st.DataObject):
        """Against a model: the calls in effect, and the undos in effect with what they undid."""
        standing: set[int] = set()
        undos: dict[int, frozenset[int]] = {}
        undone: set[int] = set()
        redone: set[int] = set()  # undos
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
                            redone.add(taken)
                            undone = (undone | {taken}) - undos[taken]
                            standing |= undos.pop(taken)
                    case _:
                        seq = begun(store, change())
                        if works:
                            standing.add(seq)
                store.record_outcome(seq, success() if works else failure(), durable=False)
                entries = store.entries()
                assert {entry.seq for entry in entries if entry.undone} == undone
                assert {entry.seq for entry in store.entries(last=2) if entry.undone} == undone & {
                    entry.seq for entry in entries[-2:]
                }
                assert {entry.seq for entry in store.find_undos("s")} == undos.keys()
                assert {entry.seq for entry in store.find_changes("s", undone=False)} == standing
                assert {entry.seq for entry in store.find_changes("s", undone=True)} == undone - redone

    @given(st.lists(st.sampled_from(["begin", "intend", "settle", "fail", "finish", "keep"]), max_size=12))
    @settings(max_examples=examples(40))
    def test_c91_what_the_journal_once_said_it_always_says(self, steps: list[str]):
        with self.fresh(bound=50) as store:
            said: dict[int, tuple[object, ...]] = {}
            open_calls, settled = [], []
            for n, step in enumerate(steps):
                if step == "keep":
                    store.keep([noise(n, 40)])
                elif step == "finish" and settled:
                    store.mark_cleaned_up(settled[-1])
                elif step in ("settle", "fail") and open_calls:
                    settled.append(open_calls.pop())
                    store.record_outcome(settled[-1], success() if step == "settle" else failure(), durable=False)
                else:
                    open_calls.append(begun(store, change(f"/ws/{n}", noise(n, 30), noise(-n, 30))))
                for entry in store.entries():
                    facts = (
                        entry.at,
                        entry.call,
                        entry.decision,
                        entry.paths,
                        entry.changed,
                        store.changes_of(entry.seq),
                    )
                    assert said.setdefault(entry.seq, facts) == facts
                assert len(said) == len(store.entries())

    # --- the chain

    def test_c91_an_empty_journal_is_whole(self, store: Store):
        assert (store.verify().count, store.verify().problem) == (0, None)

    def test_c91_every_record_makes_another_head(self, store: Store):
        heads = [store.verify().head]
        seq = store.begin(call())
        heads.append(store.verify().head)
        store.record_intent(
            seq, "x", [change(), shelved("c/1", b"old", b"new", "/ws/b")], decision=ALLOWED, reverses=(seq,)
        )
        heads.append(store.verify().head)
        store.record_outcome(seq, success("said"), durable=True)
        heads.append(store.verify().head)
        store.mark_cleaned_up(seq)
        heads.append(store.verify().head)
        assert len(set(heads)) == 5
        assert store.verify().count == 4
        store.mark_cleaned_up(seq)  # which records nothing new
        assert store.verify().head == heads[-1]
        assert [store.verify(head).noted_at for head in heads] == [0, 1, 2, 3, 4]
        assert store.verify(heads[2].upper()).noted_at == 2
        assert store.verify(digest(b"another")).noted_at is None

    def test_c91_what_is_no_journal_leaves_the_head_as_it_is(self, tmp_path: Path):
        """Dropped contents, read records, questions and answers: none of them is part of the journal."""
        with closing(self.opened(tmp_path, bound=2500)) as store:
            done(store, change("/ws/a", noise(1, 1000), b"new"), shelved("c/1", noise(2, 1000), None, "/ws/b"))
            head = store.verify().head
            for n in range(3, 8):
                store.keep([noise(n, 1000)])
            store.read_records("s").put(self.mark())
            store.enqueue(asked())
            store.answer(asked().hash, "once", by="ann")
            store.consume_approval(asked().hash, "s")
            store.grant("s", "changes", by="ann")
            assert (store.verify().head, store.verify().problem) == (head, None)

    def test_c91_a_record_that_came_to_nothing_leaves_the_chain_whole(self, store: Store):
        seq = done(store, change())
        for again in (
            lambda: store.record_outcome(seq, failure(), durable=True),
            lambda: store.record_intent(seq, "again", [change("/ws/b")], decision=ALLOWED),
        ):
            with pytest.raises(Exception):  # noqa: B017, PT011 - each engine has its own word for it
                again()
        assert (store.verify().count, store.verify().problem) == (4, None)
        done(store, change("/ws/c"))
        assert (store.verify().count, store.verify().problem) == (8, None)

    # --- questions and answers (U-21)

    def test_u21_a_question_waits_until_it_is_answered(self, store: Store):
        store.enqueue(asked())
        (waiting,) = store.list_pending()
        assert waiting == replace(asked(), id=waiting.id)
        answered = store.answer(waiting.id, "once", by="ann@desk")
        assert (answered.hash, answered.answer, answered.by, answered.spent) == (
            asked().hash,
            "once",
            "ann@desk",
            False,
        )
        assert list(store.list_pending()) == []

    def test_u21_questions_wait_oldest_first_and_by_session(self, store: Store):
        for what, session in (("one", "s"), ("two", "other"), ("three", "s")):
            store.enqueue(asked(what, session=session))
        assert [each.command for each in store.list_pending()] == ["one", "two", "three"]
        assert [each.command for each in store.list_pending("s")] == ["one", "three"]
        assert list(store.list_pending("nobody")) == []

    @pytest.mark.parametrize("answer", ["once", "session", "pattern", "no"])
    def test_u21_an_answer_is_used_once(self, store: Store, answer: Consent):
        store.enqueue(asked())
        assert store.consume_approval(asked().hash, "s") is None
        store.answer(asked().hash, answer, by="ann")
        spent = store.consume_approval(asked().hash, "s")
        assert spent
        assert (spent.answer, spent.by, spent.spent, spent.command) == (answer, "ann", True, asked().command)
        assert (spent.allows, spent.patterns) == (asked().allows, asked().patterns)
        assert store.consume_approval(asked().hash, "s") is None

    def test_u21_an_answer_is_for_what_was_asked_and_nothing_else(self, store: Store):
        store.enqueue(asked())
        store.answer(asked().hash, "once", by="ann")
        for hash, session in (
            (digest(b"rm -rf /"), "s"),
            (asked().hash, "other"),
            (asked().hash[:8], "s"),
            (asked().hash.upper(), "s"),
            ("", "s"),
        ):
            assert store.consume_approval(hash, session) is None
        assert store.consume_approval(asked().hash, "s")

    def test_u21_an_answer_is_given_once(self, store: Store):
        store.enqueue(asked())
        store.answer(asked().hash, "no", by="ann")
        with pytest.raises(NoPendingApproval, match="by ann"):
            store.answer(asked().hash, "once", by="bob")
        spent = store.consume_approval(asked().hash, "s")
        assert spent
        assert spent.answer == "no"
        with pytest.raises(NoPendingApproval):
            store.answer(asked().hash, "once", by="bob")

    def test_u21_only_the_whole_id_of_a_question_is_taken(self, store: Store):
        one, other = put(store, asked("one")), put(store, asked("other"))
        for wanted in ("", "-", "a", one.id[:-1], one.id + "0", one.hash[:12], one.hash + "0", "%" * 8):
            with pytest.raises(NoPendingApproval) as refused:
                store.answer(wanted, "once", by="ann")
            assert refused.value.wanted == wanted
            with pytest.raises(NoPendingApproval):
                store.get_pending(wanted)
        assert store.get_pending(one.id).command == "one"
        assert store.get_pending(one.hash).command == "one"
        typed = other.id.upper().replace("-", "").replace("1", "L").replace("0", "O")
        assert store.answer(typed, "once", by="ann").command == "other"
        assert [each.command for each in store.list_pending()] == ["one"]

    @pytest.mark.parametrize("answer", ["deny", "yes", "", "Once"])
    def test_r1_only_a_documented_answer_is_kept(self, store: Store, answer: Any):
        question = put(store, asked("one"))
        with pytest.raises(ValueError, match="the answer must be one of"):
            store.answer(question.id, answer, by="ann")
        assert store.consume_approval(question.hash, question.session) is None

    def test_r15_ids_never_follow_from_what_is_asked(self, store: Store):
        """A caller who chooses the call can choose the beginning of its hash, but must not choose the id."""
        alike = [put(store, asked(f"{n}", hash="abcdef0123456789" + f"{n:048x}")) for n in range(20)]
        assert len({each.id for each in alike}) == 20
        assert all(re.fullmatch(r"[0-9a-z]{4}-[0-9a-z]{4}-[0-9a-z]{4}", each.id) for each in alike)
        assert not [each for each in alike if each.id.replace("-", "")[:4] == each.hash[:4]]
        assert {store.get_pending(each.id).command for each in alike} == {each.command for each in alike}
        with self.fresh() as another:
            assert put(another, asked("0")).id != put(store, asked("0")).id

    @given(st.lists(st.sampled_from(["s", "other"]), max_size=12))
    @settings(max_examples=examples(20))
    def test_r15_a_question_that_waits_is_never_evicted(self, sessions: list[str]):
        """Whatever is asked later: questions that do not fit are refused."""
        with pytest.MonkeyPatch.context() as patched, self.fresh() as store:
            patched.setattr(rules, "MAX_PENDING_PER_SESSION", 3)
            patched.setattr(rules, "MAX_PENDING", 5)
            waiting: list[str] = []
            for n, session in enumerate(sessions):
                of_session = [each for each in waiting if each.startswith(session)]
                has_room = len(of_session) < 3 and len(waiting) < 5
                question = store.enqueue(asked(f"{session} {n}", session=session))
                assert (question is not None) == has_room
                waiting += [f"{session} {n}"] if has_room else []
                assert [each.command for each in store.list_pending()] == waiting

    def test_r15_long_questions_take_their_room(self, store: Store, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(rules, "MAX_PENDING_BYTES_PER_SESSION", 13_000)
        long = noise(1, 6_000).hex()
        assert store.enqueue(replace(asked("one"), diff=long))
        assert store.enqueue(replace(asked("two"), diff=noise(2, 12_000).hex())) is None
        assert store.enqueue(replace(asked("one"), diff=long))  # it is already pending
        assert store.enqueue(asked("three"))
        assert [each.command for each in store.list_pending()] == ["one", "three"]

    def test_r15_an_answer_makes_room(self, store: Store, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(rules, "MAX_PENDING_PER_SESSION", 1)
        one = put(store, asked("one"))
        assert store.enqueue(asked("two")) is None
        store.answer(one.id, "no", by="ann")
        assert store.enqueue(asked("two"))

    def test_r15_a_question_that_nobody_answers_is_dropped_after_a_week(self, store: Store):
        assert rules.PENDING_TTL_SECONDS == 7 * 24 * 3600
        old = put(store, replace(asked("old"), at=ASKED_AT - rules.PENDING_TTL_SECONDS - 60))
        put(store, asked("new"))
        assert [each.command for each in store.list_pending()] == ["new"]
        with pytest.raises(NoPendingApproval):
            store.get_pending(old.id)

    def test_r15_the_last_thousand_answers_are_known(self, store: Store, monkeypatch: pytest.MonkeyPatch):
        assert rules.MAX_CLOSED_KEPT == 1000
        monkeypatch.setattr(rules, "MAX_CLOSED_KEPT", 2)
        ids: list[str] = []
        for n in range(4):
            ids.append(put(store, asked(f"{n}")).id)
            store.answer(ids[-1], "once", by="ann")
            store.consume_approval(asked(f"{n}").hash, "s")
        put(store, asked("next"))
        for n, because in enumerate(("dropped", "dropped", "by ann", "by ann")):
            with pytest.raises(NoPendingApproval, match=because):
                store.get_pending(ids[n])

    def test_u21_an_id_of_two_sessions_is_nobodys(self, store: Store):
        store.enqueue(asked(session="one"))
        store.enqueue(asked(session="two"))
        with pytest.raises(NoPendingApproval):
            store.answer(asked().hash, "once", by="ann")

    def test_u21_to_ask_again_takes_nothing_away(self, store: Store):
        store.enqueue(asked())
        first = store.list_pending()[0].id
        again = store.enqueue(replace(asked(), at=ASKED_AT + 5, because="another reason"))
        assert again
        assert [(each.id, each.at) for each in store.list_pending()] == [(first, ASKED_AT)]
        assert again.id == first
        store.answer(asked().hash, "once", by="ann")
        store.enqueue(asked())
        assert list(store.list_pending()) == []
        assert store.consume_approval(asked().hash, "s")
        store.enqueue(asked())  # it was used, so this is a new question
        assert len(store.list_pending()) == 1
        assert store.consume_approval(asked().hash, "s") is None

    def test_u21_an_answer_does_not_come_with_the_question(self, store: Store):
        store.enqueue(replace(asked(), answer="once", by="the model"))
        assert store.consume_approval(asked().hash, "s") is None
        assert len(store.list_pending()) == 1

    def test_u21_an_answer_is_good_for_a_day(self, store: Store, monkeypatch: pytest.MonkeyPatch):
        assert rules.ANSWER_TTL_SECONDS == 24 * 3600
        store.enqueue(asked())
        store.answer(asked().hash, "once", by="ann")
        monkeypatch.setattr(rules, "ANSWER_TTL_SECONDS", -1.0)
        assert store.consume_approval(asked().hash, "s") is None
        store.enqueue(asked())
        assert len(store.list_pending()) == 1
        monkeypatch.undo()
        assert store.consume_approval(asked().hash, "s") is None

    @given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
    @settings(max_examples=examples(20))
    def test_u21_a_question_always_comes_back_as_it_was_asked(self, session: str, command: str, diff: str, key: str):
        with self.fresh() as store:
            question = replace(asked(command, session=session), diff=diff, allows=(key,), patterns=(key, command))
            waiting = put(store, question)
            assert list(store.list_pending(session)) == [waiting] == [replace(question, id=waiting.id)]

    def test_what_is_allowed_for_a_session_is_allowed_for_no_other(self, store: Store):
        assert store.list_grants("s") == {}
        store.grant("s", "changes", by="ann")
        store.grant("s", "run ls *", by="ann")
        store.grant("s", "run ls *", by="bob")
        assert store.list_grants("s") == {"changes": "ann", "run ls *": "bob"}
        assert store.list_grants("other") == {}

    # --- contents

    @given(st.lists(st.binary(max_size=2000), max_size=5))
    @settings(max_examples=examples(40))
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
        begun(store, change("/ws/a", b"old", b"new"), FileChange("/ws/b", ContentRef(ABSENT, 5), Directory()))
        assert store.get(digest(b"old")) == b"old"
        assert store.get(digest(b"new")) == b"new"
        assert not store.has(ABSENT)

    @given(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
    @settings(max_examples=examples(30))
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
        assert store.last_writer("/ws/a.py", digest(b"new")) == "s"

    def test_slots_are_needed_from_the_intent_on(self, store: Store):
        assert not slots_of(store)
        seq = begun(store, shelved("c/1", b"old", b"new"), shelved("other/1", None, b"new", "/ws/b"))
        assert slots_of(store) == {"c", "other"}
        store.record_outcome(seq, success(), durable=True)
        store.mark_cleaned_up(seq)
        assert slots_of(store) == {"c", "other"}

    @pytest.mark.parametrize("status", ["error", "interrupted"])
    def test_slots_of_a_call_that_came_to_nothing_are_not_needed(self, store: Store, status: str):
        seq = begun(store, shelved("c/1", b"old", b"new"))
        assert not store.dropped_slots(9)
        store.record_outcome(seq, Outcome(status, None, 0.0, None), durable=True)
        assert not slots_of(store)
        assert list(store.dropped_slots(9)) == ["c"]
        store.forget_dropped_slots(["c"])
        assert not store.dropped_slots(9)

    def test_a_failed_undo_leaves_the_slots_that_it_was_about(self, store: Store):
        first = done(store, shelved("c/1", b"old", b"new"))
        undo = begun(store, shelved("c/1", b"old", b"new").invert(), asked=call("undo"), takes_back=(first,))
        store.record_outcome(undo, failure(), durable=True)
        assert slots_of(store) == {"c"}
        assert not store.dropped_slots(9)
        assert store.entries()[0].kept

    def test_e1_slots_count_by_what_lies_there(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=3500)) as store:
            seen = noise(1, 900)
            store.keep([seen])
            done(store, shelved("a/1", noise(2, 900), b"small"))
            done(store, shelved("b/1", None, noise(3, 90_000), "/ws/b"))  # it only created files: its slot is empty
            done(store, shelved("c/1", noise(4, 1000), None, "/ws/c"))
            assert (slots_of(store), store.has(digest(seen))) == ({"a", "b", "c"}, True)
            assert replied(store, shelved("d/1", noise(5, 1000), None, "/ws/d"))[1] == []
            assert (slots_of(store), store.has(digest(seen))) == ({"a", "b", "c", "d"}, False)
            assert all(entry.kept for entry in store.entries())

    def test_e1_an_undo_is_given_up_by_one_reply_and_dropped_by_a_later_change(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            first, second = (done(store, shelved(f"{n}/1", noise(n, 1000), None, f"/ws/{n}")) for n in range(2))
            third, given_up = replied(store, shelved("2/1", noise(2, 1000), None, "/ws/2"))
            assert given_up == [first]
            assert slots_of(store) == {"0", "1", "2"}
            assert all(entry.kept for entry in store.entries())
            fourth, given_up = replied(store, shelved("3/1", noise(3, 1000), None, "/ws/3"))
            assert given_up == [second]
            assert (slots_of(store), list(store.dropped_slots(9))) == ({"1", "2", "3"}, ["0"])
            assert {entry.seq: entry.kept for entry in store.entries()} == {
                first: False,
                second: True,
                third: True,
                fourth: True,
            }

    def test_e1_a_change_that_failed_gives_nothing_up(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            first = done(store, shelved("a/1", noise(1, 1000), None))
            for n in range(3):
                seq = store.begin(call())
                proposed = store.record_intent(
                    seq, f"x{seq}", [shelved(f"{n}/1", noise(n, 1000), None)], decision=ALLOWED
                )
                assert [entry.seq for entry in proposed] == [first]
                store.record_outcome(seq, failure(), durable=True, dropped_undo=[first])
                assert store.entries()[0].kept
                assert slots_of(store) == {"a"}

    def test_slots_that_are_used_again_go_later(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            deletes = shelved("a/1", noise(1, 1000), None)
            first = done(store, deletes)
            second = done(store, shelved("b/1", noise(2, 1000), None, "/ws/b"))
            undo = done(store, deletes.invert(), asked=call("undo"), takes_back=(first,))
            done(store, deletes, asked=call("redo"), takes_back=(undo,))
            assert replied(store, shelved("c/1", noise(3, 1000), None, "/ws/c"))[1] == [second]
            done(store, change("/ws/d", None, b""))
            assert slots_of(store) == {"a", "c"}

    def test_e1_an_undo_never_costs_another_and_what_only_a_redo_needs_goes_first(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            first = done(store, shelved("a/1", noise(1, 1000), None))
            creates = shelved("b/1", None, noise(2, 2000), "/ws/b")
            second = done(store, creates)
            _, given_up = replied(store, creates.invert(), asked=call("undo"), takes_back=(second,))
            assert (given_up, slots_of(store)) == ([], {"a", "b"})  # the last undo can be redone
            assert replied(store, change("/ws/c", None, b""))[1] == []
            assert slots_of(store) == {"a"}
            assert store.entries()[0].seq == first
            assert store.entries()[0].kept

    def test_e1_the_last_change_can_be_undone_whatever_its_size(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            first, given_up = replied(store, shelved("a/1", noise(1, 5000), None))
            store.keep([noise(2, 1000)])
            assert (given_up, slots_of(store), only(store).kept) == ([], {"a"}, True)
            assert replied(store, change("/ws/b", None, b""))[1] == [first]
            assert store.entries()[0].kept
            assert replied(store, change("/ws/c", None, b""))[1] == []
            assert not slots_of(store)
            assert not store.entries()[0].kept

    def test_a_call_about_slots_that_had_to_go_is_not_kept(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            done(store, shelved("a/1", noise(1, 5000), None))
            for n in range(2):
                done(store, change(f"/ws/{n}", None, b""))
            begun(store, shelved("a/1", noise(1, 5000), None).invert(), asked=call("undo"))
            assert not slots_of(store)

    def test_a_content_that_had_to_go_is_no_loss_for_a_slot(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            data = noise(1, 400)
            store.keep([data])
            done(store, shelved("a/1", data, b"new"))
            store.keep([noise(2, 1000)])
            assert not store.has(digest(data))
            assert only(store).kept

    # --- the size limit

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
            done(store, change("/ws/d", noise(2, 1500), b"new"))
            assert [entry.kept for entry in store.entries()] == [True, True, True]
            done(store, change("/ws/e", noise(3, 1900), b"new"))
            done(store, change("/ws/f", None, b"new"))
            assert not store.has(digest(old))
            others = [store.has(digest(data)) for data in (b"small", noise(2, 1500))]
            assert [entry.kept for entry in store.entries()] == [False, *others, True, True]
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
            for n in range(4):
                done(store, change(f"/ws/{n}", noise(n, 1000), None))
            assert [entry.kept for entry in store.entries()] == [False, True, True, True]

    def test_e1_new_contents_go_before_any_undo(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            done(store, change("/ws/a", noise(1, 1000), None))
            for n in range(2, 6):
                assert replied(store, change(f"/ws/{n}", None, noise(n, 1400)))[1] == []
            assert all(entry.kept for entry in store.entries())
            assert store.has(digest(noise(1, 1000)))

    @pytest.mark.parametrize("at_hand", [True, False])
    def test_what_was_seen_is_raised_by_an_intent(self, tmp_path: Path, at_hand: bool):
        with closing(self.opened(tmp_path, bound=2500)) as store:
            old = noise(1, 1000)
            store.keep([old])
            done(store, FileChange("/ws/a", InlineContent(old) if at_hand else ContentRef(digest(old), 1000), None))
            store.keep([old])  # seen once more: that drops nothing
            for n in range(2, 6):
                store.keep([noise(n, 1000)])
            assert store.get(digest(old)) == old
            assert only(store).kept

    @given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12))
    @settings(max_examples=examples(40))
    def test_what_is_seen_never_costs_an_undo(self, steps: list[tuple[bool, int]]):
        """As long as the contents of intents alone are within the limit, all of them are kept."""
        with self.fresh(bound=650) as store:
            for intended, n in steps:
                if intended:
                    done(store, change(f"/ws/{n}", noise(n, 100), None))
                else:
                    store.keep([noise(n, 100), noise(n + 6, 100)])
            assert all(entry.kept for entry in store.entries())

    @given(
        st.integers(100, 2000),
        st.lists(
            st.tuples(
                st.sampled_from(["edit", "command", "undo", "redo", "fail", "keep"]),
                st.integers(0, 9),
                st.integers(0, 900),
                st.integers(0, 900),
            ),
            max_size=25,
        ),
    )
    @settings(max_examples=examples(60), deadline=None)
    def test_e1_an_undo_works_until_a_reply_has_given_it_up(self, bound: int, steps: list[tuple[str, int, int, int]]):
        with self.fresh(bound=bound) as store:
            made: dict[int, FileChange] = {}  # by call
            promised: set[int] = set()
            undos: dict[int, int] = {}  # what is currently undone, and by which call

            def check() -> None:
                kept = {entry.seq: entry.kept for entry in store.entries()}
                for seq in promised - {*undos}:
                    before = made[seq].before
                    assert kept[seq], f"call {seq} was never given up"
                    if isinstance(before, StagedContent):
                        assert before.slot.partition("/")[0] in slots_of(store)
                    elif before:
                        assert store.has(before.hash)

            def commit(what: FileChange) -> None:
                seq, given_up = replied(store, what)
                promised.difference_update(given_up)
                made[seq] = what
                promised.add(seq)
                assert seq not in given_up

            for n, (step, which, old, new) in enumerate(steps):
                standing = sorted(made.keys() - undos.keys())
                match step:
                    case "edit":
                        commit(change(f"/ws/{which}", noise(which, old) if old else None, noise(n + 100, new)))
                    case "command":
                        commit(shelved(f"{n}/1", noise(n, old) if old else None, noise(-n, new), f"/ws/{which}"))
                    case "undo" if standing:
                        seq = standing[which % len(standing)]
                        kept = {entry.seq: entry.kept for entry in store.entries()}
                        if kept[seq]:
                            undos[seq] = done(store, made[seq].invert(), asked=call("undo"), takes_back=(seq,))
                    case "redo" if undos:
                        seq = sorted(undos)[which % len(undos)]
                        kept = {entry.seq: entry.kept for entry in store.entries()}
                        if kept[undos[seq]]:
                            done(store, made[seq], asked=call("redo"), takes_back=(undos.pop(seq),))
                    case "fail":
                        seq = begun(store, shelved(f"{n}/1", noise(n, old), None), change("/ws/f", noise(-n, new), b""))
                        store.record_outcome(seq, failure(), durable=True)
                    case "keep":
                        store.keep([noise(n, old)])
                    case _:
                        pass
                check()
            # Dropped content is deleted, so that the limit holds in the end.
            for n in range(len(made) + 2):
                commit(change(f"/ws/last{n}", None, b""))
                check()
            sides = (each.before for seq, each in made.items() if seq not in undos)
            lying = [side for side in sides if isinstance(side, StagedContent)]
            on_shelf = sum(side.size for side in lying if side.slot.partition("/")[0] in slots_of(store))
            sides = (side for each in made.values() for side in (each.before, each.after))
            contents = {
                side.hash: side.size for side in sides if isinstance(side, InlineContent) and store.has(side.hash)
            }
            assert sum(contents.values()) + on_shelf <= bound

    def test_an_entry_whose_old_content_never_came_is_not_kept(self, store: Store):
        done(store, FileChange("/ws/a", ContentRef(ABSENT, 5), None))
        assert not only(store).kept

    def test_a_created_file_needs_no_content_to_be_taken_back(self, store: Store):
        done(store, FileChange("/ws/d", None, Directory()), FileChange("/ws/d/a", None, ContentRef(ABSENT, 5)))
        assert only(store).kept

    def test_the_contents_of_an_open_intent_never_go(self, tmp_path: Path):
        with closing(self.opened(tmp_path, bound=1500)) as store:
            before, after = noise(1, 1000), noise(2, 1000)
            seq = begun(store, change("/ws/a", before, after))
            store.keep([noise(3, 1000)])
            store.keep([noise(4, 1000)])
            assert store.has(digest(before))
            assert store.has(digest(after))
            store.record_outcome(seq, success(), durable=True)
            done(store, change("/ws/b", None, b""))
            assert (store.has(digest(before)), store.has(digest(after))) == (True, False)

    # --- read records

    def mark(self, path: str = "/ws/a", inode: int = 7, **facts: object) -> ReadRecord:
        identity = FileIdentity(1, inode, 100, 2**62, 2**62 + 1)
        return ReadRecord(
            **{"path": path, "identity": identity, "hash": "ab", "lines": ((1, 5),), "is_complete": True, **facts}
        )  # pyright: ignore[reportArgumentType]

    def test_c10_a_mark_comes_back_as_it_was(self, store: Store):
        marks = [self.mark(), self.mark("/ws/b", 8, hash=None, lines=((1, 2), (9, 9)), pages=(SeenPage(0, 9, "cd"),))]
        for each in marks:
            store.read_records("s").put(each)
        assert [store.read_records("s").get(each.path, None) for each in marks] == marks

    def test_c10_a_new_mark_replaces_the_old(self, store: Store):
        store.read_records("s").put(self.mark())
        store.read_records("s").put(self.mark(is_complete=False))
        assert store.read_records("s").get("/ws/a", None) == self.mark(is_complete=False)

    def test_c15_sessions_do_not_see_each_others_marks(self, store: Store):
        store.read_records("s").put(self.mark())
        assert store.read_records("other").get("/ws/a", self.mark().identity) is None

    def test_u15_a_mark_is_found_under_another_name_of_the_file(self, store: Store):
        marks = store.read_records("s")
        marks.put(self.mark("/ws/a", 2**64 - 1))
        marks.put(self.mark("/ws/b", 2**64 - 1))
        assert marks.get("/ws/link", self.mark(inode=2**64 - 1).identity) == self.mark("/ws/b", 2**64 - 1)
        marks.put(self.mark("/ws/a", 2**64 - 1))
        assert marks.get("/ws/link", self.mark(inode=2**64 - 1).identity) == self.mark("/ws/a", 2**64 - 1)
        assert marks.get("/ws/link", self.mark(inode=9).identity) is None
        assert marks.get("/ws/link", None) is None

    def test_the_mark_of_the_name_itself_goes_before(self, store: Store):
        marks = store.read_records("s")
        marks.put(self.mark("/ws/a", 7))
        marks.put(self.mark("/ws/b", 8))
        assert marks.get("/ws/a", self.mark(inode=8).identity) == self.mark("/ws/a", 7)

    def test_a_dropped_mark_is_gone(self, store: Store):
        marks = store.read_records("s")
        marks.put(self.mark())
        marks.drop("/ws/a")
        marks.drop("/ws/never")
        assert marks.get("/ws/a", self.mark().identity) is None

    def test_c15_a_session_can_list_what_it_has_seen(self, store: Store):
        marks = store.read_records("s")
        marks.put(self.mark("/ws/a"))
        marks.put(self.mark("/ws/\udcff", 8))
        marks.put(self.mark("/ws/gone", 9))
        marks.drop("/ws/gone")
        store.read_records("other").put(self.mark("/ws/theirs", 10))
        assert set(marks.paths_within(["/ws"])) == {"/ws/a", "/ws/\udcff"}

    @given(st.data())
    @settings(max_examples=examples(40), deadline=None)
    def test_c15_what_was_seen_within_changed_paths_is_found_and_nothing_else(self, data: st.DataObject):
        names = st.lists(st.sampled_from(["a", "b", "a ", "a0", "a.", "\udcff", "\U0010ffff"]), min_size=1, max_size=3)
        paths = st.lists(names.map(lambda parts: "/ws/" + "/".join(parts)), max_size=6)
        seen, changed = data.draw(paths), data.draw(paths)
        with self.fresh() as store:
            marks = store.read_records("s")
            for path in seen:
                marks.put(self.mark(path))
            found = list(marks.paths_within(changed))
            assert sorted(found) == sorted(
                path for path in {*seen} if any(path == each or path.startswith(f"{each}/") for each in changed)
            )

    def test_names_of_marks_need_not_be_utf8(self, store: Store):
        mark = self.mark(os.fsdecode(b"/ws/\xff"))
        store.read_records("s").put(mark)
        assert store.read_records("s").get(mark.path, None) == mark

    # --- exclusive access

    def test_nobody_else_holds_the_state_meanwhile(self, store: Store):
        with store.exclusive():
            assert turned_away(store)
            with pytest.raises(Busy) as refused, store.exclusive(wait=False):
                pass
            assert refused.value.seconds == 0
        assert not turned_away(store)

    def test_the_state_is_let_go_when_something_fails(self, store: Store):
        with pytest.raises(ValueError, match="ours"), store.exclusive():
            raise ValueError("ours")
        with pytest.raises(OSError, match="ours"), store.exclusive(wait=False):
            raise OSError("ours")  # and the original error is raised
        with store.exclusive(wait=False):
            pass

    def test_who_waits_comes_next(self, store: Store):
        order: list[str] = []
        started = Event()

        def work() -> None:
            started.set()
            with store.exclusive():
                order.append("second")

        thread = Thread(target=work)
        with store.exclusive():
            thread.start()
            started.wait()
            thread.join(0.05)
            order.append("first")
        thread.join()
        assert order == ["first", "second"]

    def test_the_journal_goes_on_while_somebody_is_alone(self, store: Store):
        with store.exclusive():
            seq = done(store, change())
            thread = Thread(target=done, args=(store, change("/ws/b")))
            thread.start()
            thread.join()
            assert len(store.entries()) == 2
            assert store.changes_of(seq)

    # --- concurrency

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
        assert list(store.incomplete_transactions()) == []


class LastingStoreSuite(StoreSuite):
    """For stores that outlive the process and are shared by several."""

    def test_c15_all_of_it_outlives_the_process(self, tmp_path: Path):
        mark = self.mark()
        with closing(self.opened(tmp_path)) as store:
            first = done(store, change())
            done(store, change("/ws/a.py", b"new\n", b"old\n"), asked=call("undo", call_id="u"), takes_back=(first,))
            store.record_outcome(store.begin(call("Read", call_id="r")), success("a page"), durable=False)
            broken = begun(store, change("/ws/b", None, b"half"))
            store.read_records("s").put(mark)
            before = store.entries()
        with closing(self.opened(tmp_path)) as store:
            assert store.entries() == before
            assert [entry.undone for entry in store.entries()] == [True, False, False, False]
            assert [each.seq for each in store.incomplete_transactions()] == [broken]
            assert store.get(digest(b"old\n")) == b"old\n"
            assert store.read_records("s").get("/ws/a", None) == mark
            recalled = store.find_call("s", "t", "r")
            assert recalled
            assert recalled.outcome == success("a page")

    def test_u21_an_answer_given_by_another_process_is_used_by_one(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as one, closing(self.opened(tmp_path)) as two:
            for n in range(20):
                one.enqueue(asked(f"{n}"))
                two.answer(asked(f"{n}").hash, "once", by="ann")
                found: list[object] = []
                both = Barrier(2)

                def use(store: Store, hash: str, both: Barrier = both, found: list[object] = found) -> None:
                    both.wait()
                    found.append(store.consume_approval(hash, "s"))

                threads = [Thread(target=use, args=(store, asked(f"{n}").hash)) for store in (one, two)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                assert len(found) == 2
                assert found.count(None) == 1

    def test_u21_questions_answers_and_what_is_allowed_outlive_the_process(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as store:
            store.enqueue(asked("one"))
            store.enqueue(asked("two"))
            store.answer(asked("two").hash, "session", by="ann")
            store.grant("s", "changes", by="ann")
        with closing(self.opened(tmp_path)) as store:
            assert [each.command for each in store.list_pending()] == ["one"]
            assert store.consume_approval(asked("two").hash, "s")
            assert store.list_grants("s") == {"changes": "ann"}

    def test_two_stores_on_one_workspace_see_each_other(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as one, closing(self.opened(tmp_path)) as two:
            first = done(one, change("/ws/a", None, b"x"), asked=call(session="one"))
            assert two.last_writer("/ws/a", digest(b"x")) == "one"
            second = done(two, change("/ws/a", b"x", b"y"), asked=call(session="two"))
            assert [entry.seq for entry in one.entries()] == [first, second]
            assert one.get(digest(b"y")) == b"y"

    def test_stores_on_one_workspace_hold_each_other_off(self, tmp_path: Path):
        with closing(self.opened(tmp_path)) as one, closing(self.opened(tmp_path)) as two:
            with one.exclusive():
                assert turned_away(two)
            with two.exclusive():
                assert turned_away(one)

    def test_states_of_two_workspaces_do_not_meet(self, tmp_path: Path):
        with closing(self.opened(tmp_path / "a")) as one, closing(self.opened(tmp_path / "b")) as two, one.exclusive():
            assert not turned_away(two)
