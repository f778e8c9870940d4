"""What every reader of the journal in pages does. Inherit from RecordsSuite and say how a journal is read."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.state.sqlite import SqliteStore
from handhold.core.ports.journal import Call, CallDecision, JournalEntry, Outcome
from handhold.core.ports.records import CallFilter, Records
from tests.scale import examples
from tests.suites.store_suite import begun, change, done, failure, success

REFUSED = CallDecision("refused", "ask run", "")


def call(tool: str = "edit", *, session: str = "s", turn: str = "t1", arguments: str = "{}") -> Call:
    return Call(session, turn, "", tool, arguments, "handhold")


def read_all(records: Records, wanted: CallFilter, limit: int) -> list[JournalEntry]:
    found: list[JournalEntry] = []
    cursor = ""
    while True:
        page = records.list_calls(wanted, cursor=cursor, limit=limit)
        found += page.items
        assert len(page.items) <= limit
        cursor = page.next_cursor
        if not cursor:
            return found


class RecordsSuite:
    max_examined: int  # calls for one page of a search by text

    def read(self, store: SqliteStore) -> Records:
        """The records of this journal, up to now."""
        raise NotImplementedError

    @pytest.fixture
    def store(self) -> Iterator[SqliteStore]:
        with closing(SqliteStore.in_memory()) as store:
            yield store

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b"]),
                st.sampled_from(["", "t1", "t2"]),
                st.sampled_from(["read", "edit", "bash"]),
                st.sampled_from(["allowed", "approved", "refused", ""]),
                st.sampled_from(["needle", "hay", "UNICODE-é"]),
            ),
            max_size=40,
        ),
        st.sampled_from(["", "a", "b", "absent"]),
        st.sampled_from([None, "", "t1"]),
        st.sampled_from(["", "read", "bash"]),
        st.sampled_from(["", "allowed", "approved", "refused"]),
        st.sampled_from(["", "NEEDLE", "unicode-É", "hay"]),
        st.integers(1, 7),
    )
    @settings(max_examples=examples(200))
    def test_the_pages_together_are_what_the_filter_selects_each_call_once(
        self,
        calls: list[tuple[str, str, str, str, str]],
        session: str,
        turn: str | None,
        tool: str,
        decision: str,
        text: str,
        limit: int,
    ):
        with closing(SqliteStore.in_memory()) as store:
            for name, of_turn, of_tool, verdict, word in calls:
                decided = CallDecision(verdict) if verdict else None  # pyright: ignore[reportArgumentType]
                arguments = f'{{"x": "{word}"}}'
                store.record_call(
                    call(of_tool, session=name, turn=of_turn, arguments=arguments), success(), decision=decided
                )
            wanted = CallFilter(session=session, turn=turn, tool=tool, decision=decision, text=text)  # pyright: ignore[reportArgumentType]
            expected = [
                entry.seq
                for entry in reversed(store.entries())
                if session in ("", entry.call.session)
                and turn in (None, entry.call.turn)
                and tool in ("", entry.call.tool)
                and decision in ("", entry.decision)
                and text.lower() in entry.call.arguments.lower()
            ]
            assert [entry.seq for entry in read_all(self.read(store), wanted, limit)] == expected

    @given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), st.booleans()), max_size=30))
    @settings(max_examples=examples(100))
    def test_the_totals_of_sessions_and_turns_are_those_of_their_calls(self, calls: list[tuple[str, str, bool]]):
        with closing(SqliteStore.in_memory()) as store:
            for name, turn, works in calls:
                if works:
                    done(store, change(), asked=call(session=name, turn=turn))
                else:
                    store.record_call(call(session=name, turn=turn), failure())
            page = self.read(store).list_sessions(limit=10)
            assert self.read(store).count_sessions() == len(page.items) == len({name for name, *_ in calls})
            last = {name: n for n, (name, *_) in enumerate(calls)}
            assert [each.name for each in page.items] == sorted(last, key=lambda name: -last[name])
            for each in page.items:
                own = [one for one in calls if one[0] == each.name]
                assert (each.calls, each.turns) == (len(own), len({turn for _, turn, _ in own}))
                assert (each.failed, each.changes) == (
                    sum(not works for *_, works in own),
                    sum(works for *_, works in own),
                )
                turns = self.read(store).list_turns(each.name, ["", "1", "2"])
                assert {turn.name: turn.calls for turn in turns} == {
                    turn: sum(one[1] == turn for one in own) for _, turn, _ in own
                }

    def test_a_path_filter_finds_what_a_call_changed_or_names_and_what_is_below_a_folder(self, store: SqliteStore):
        edited = done(store, change("/ws/shop/a.py"))
        store.record_call(call("read", arguments='{"path": "shop/templates/b.html"}'), success())
        done(store, change("/ws/other.py"))

        def found(path: str) -> list[int]:
            return [entry.seq for entry in read_all(self.read(store), CallFilter(path=path), 10)]

        assert found("shop/**") == found("shop") == [edited + 1, edited]
        assert found("*.py") == [edited + 2, edited]
        assert found("/ws/shop/a.py") == [edited]
        assert found("*.rs") == []

    def test_who_changed_a_path_is_found_by_an_index(self, store: SqliteStore):
        first = done(store, change("/ws/a.py", b"1", b"2"))
        other = done(store, change("/ws/b.py"))
        second = done(store, change("/ws/a.py", b"2", b"3"), asked=call(session="other"))
        page = self.read(store).list_path_changes("/ws/a.py", limit=1)
        assert [entry.seq for entry in page.items] == [second]
        more = self.read(store).list_path_changes("/ws/a.py", cursor=page.next_cursor, limit=5)
        assert ([entry.seq for entry in more.items], more.next_cursor) == ([first], "")
        assert other not in (first, second)

    def test_marks_know_failures_questions_and_what_was_undone(self, store: SqliteStore):
        changed = done(store, change())
        done(store, change(), asked=call("undo"), takes_back=(changed,))
        store.record_call(call("bash"), failure(), decision=REFUSED)
        seq = begun(store, change(), asked=call())
        marks = self.read(store).list_marks("s", limit=10)
        assert [(mark.changed, mark.undone, mark.failed) for mark in marks] == [
            (True, True, False),
            (True, False, False),
            (False, False, True),
            (True, False, False),
        ]
        assert marks[-1].seq == seq
        assert marks[-1].seconds is None

    def test_the_version_changes_with_each_record_question_and_answer(self, store: SqliteStore):
        seen = {self.read(store).version()}
        store.record_call(call(), success())
        seen.add(self.read(store).version())
        assert len(seen) == 2

    def test_a_filter_without_an_index_examines_a_bounded_number_of_calls(self, store: SqliteStore):
        with store.one_transaction():
            store.record_call(call("read", arguments='{"x": "needle"}'), success())
            for _ in range(self.max_examined + 10):
                store.record_call(call("read"), success())
        page = self.read(store).list_calls(CallFilter(session="s", text="needle"), limit=10)
        assert (page.items, page.examined) == ((), self.max_examined)
        assert page.next_cursor
        rest = self.read(store).list_calls(CallFilter(session="s", text="needle"), cursor=page.next_cursor, limit=10)
        assert ([entry.seq for entry in rest.items], rest.next_cursor) == ([1], "")

    def test_a_reply_is_read_with_one_call_and_searched_in(self, store: SqliteStore):
        store.record_call(call(), Outcome("success", None, 1.0, "the reply"))
        entry = self.read(store).find_entry(1)
        assert entry is not None
        assert entry.outcome is not None
        assert entry.outcome.reply == "the reply"
        assert self.read(store).find_entry(2) is None
        assert [each.seq for each in self.read(store).list_calls(CallFilter(text="THE REPLY"), limit=5).items] == [1]

    def test_totals_know_what_was_undone_and_redone(self, store: SqliteStore):
        first, second = done(store, change("/ws/a")), done(store, change("/ws/b"), asked=call(session="other"))
        undo = done(store, change("/ws/a"), asked=call("undo"), takes_back=(first, second))

        def undone() -> dict[str, int]:
            return {each.name: each.undone for each in self.read(store).list_sessions(limit=9).items}

        assert undone() == {"s": 1, "other": 1}
        assert [each.undone for each in self.read(store).list_calls(CallFilter(), limit=9).items] == [False, True, True]
        done(store, change("/ws/a"), asked=call("redo"), takes_back=(undo,))
        assert undone() == {"s": 0, "other": 0}
        calls = self.read(store).list_calls(CallFilter(), limit=9).items
        assert [each.seq for each in calls if each.undone] == [undo]

    def test_a_call_that_ends_later_is_counted_then(self, store: SqliteStore):
        changed, failed = store.begin(call()), store.begin(call("bash"))
        summary = self.read(store).find_session("s")
        assert summary
        assert (summary.calls, summary.failed, summary.changes) == (2, 0, 0)
        store.record_intent(changed, "x", [change()], decision=CallDecision("approved"))
        self.read(store)  # a batch may end here, too
        store.record_outcome(changed, success(), durable=False)
        store.record_outcome(failed, failure(), durable=False)
        summary = self.read(store).find_session("s")
        assert summary
        assert (summary.calls, summary.turns, summary.failed, summary.changes) == (2, 1, 1, 1)
        assert [(each.asked, each.failed) for each in self.read(store).list_marks("s", limit=5)] == [
            (True, False),
            (False, True),
        ]

    def test_names_that_are_not_text_and_long_ones_are_found(self, store: SqliteStore):
        name = "\udcff\x00\ud800" + "é" * 700
        store.record_call(call("t\x00ol", session=name[:60], turn="\udcfe"), success())
        store.record_call(call("x" * 1500, session=name, turn=name), success())
        records = self.read(store)
        assert [each.seq for each in records.list_calls(CallFilter(session=name), limit=5).items] == [2]
        assert [
            each.seq for each in records.list_calls(CallFilter(session=name[:60], turn="\udcfe"), limit=5).items
        ] == [1]
        assert records.find_session(name) is not None
        assert [turn.calls for turn in records.list_turns(name, [name])] == [1]
        assert list(records.list_tools(name[:60])) == ["t\x00ol"]
        for each in records.list_sessions(limit=5).items:
            assert records.list_calls(CallFilter(session=each.name), limit=5).items  # as a link of the list leads there

    def test_neighbours_are_those_of_the_session(self, store: SqliteStore):
        for name in "abaab":
            store.record_call(call(session=name), success())
        records = self.read(store)
        assert [records.find_neighbours(seq) for seq in range(7)] == [
            *((0, 0), (0, 3), (0, 5), (1, 4), (3, 0), (2, 0), (0, 0))
        ]
