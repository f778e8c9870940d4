"""The journal in pages: what people read of ten million records."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.state.journal_reader import MAX_EXAMINED
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.ports.journal import Call, CallDecision, JournalEntry, Outcome
from handhold.core.ports.records import CallFilter, Records
from tests.counting import sql_steps
from tests.scale import examples
from tests.suites.store_suite import ALLOWED, begun, change, done, failure, success

REFUSED = CallDecision("refused", "ask run", "")


def call(tool: str = "edit", *, session: str = "s", turn: str = "t1", arguments: str = "{}") -> Call:
    return Call(session, turn, "", tool, arguments, "handhold")


@pytest.fixture
def store() -> Iterator[SqliteStore]:
    with closing(SqliteStore.in_memory()) as store:
        yield store


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
        assert [entry.seq for entry in read_all(store.records, wanted, limit)] == expected


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), st.booleans()), max_size=30))
@settings(max_examples=examples(100))
def test_the_totals_of_sessions_and_turns_are_those_of_their_calls(calls: list[tuple[str, str, bool]]):
    with closing(SqliteStore.in_memory()) as store:
        for name, turn, works in calls:
            if works:
                done(store, change(), asked=call(session=name, turn=turn))
            else:
                store.record_call(call(session=name, turn=turn), failure())
        page = store.records.list_sessions(limit=10)
        assert store.records.count_sessions() == len(page.items) == len({name for name, *_ in calls})
        last = {name: n for n, (name, *_) in enumerate(calls)}
        assert [each.name for each in page.items] == sorted(last, key=lambda name: -last[name])
        for each in page.items:
            own = [one for one in calls if one[0] == each.name]
            assert (each.calls, each.turns) == (len(own), len({turn for _, turn, _ in own}))
            assert (each.failed, each.changes) == (sum(not works for *_, works in own), sum(works for *_, works in own))
            turns = store.records.list_turns(each.name, ["", "1", "2"])
            assert {turn.name: turn.calls for turn in turns} == {
                turn: sum(one[1] == turn for one in own) for _, turn, _ in own
            }


def test_a_path_filter_finds_what_a_call_changed_or_names_and_what_is_below_a_folder(store: SqliteStore):
    edited = done(store, change("/ws/shop/a.py"))
    store.record_call(call("read", arguments='{"path": "shop/templates/b.html"}'), success())
    done(store, change("/ws/other.py"))

    def found(path: str) -> list[int]:
        return [entry.seq for entry in read_all(store.records, CallFilter(path=path), 10)]

    assert found("shop/**") == found("shop") == [edited + 1, edited]
    assert found("*.py") == [edited + 2, edited]
    assert found("/ws/shop/a.py") == [edited]
    assert found("*.rs") == []


def test_who_changed_a_path_is_found_by_an_index(store: SqliteStore):
    first = done(store, change("/ws/a.py", b"1", b"2"))
    other = done(store, change("/ws/b.py"))
    second = done(store, change("/ws/a.py", b"2", b"3"), asked=call(session="other"))
    page = store.records.list_path_changes("/ws/a.py", limit=1)
    assert [entry.seq for entry in page.items] == [second]
    more = store.records.list_path_changes("/ws/a.py", cursor=page.next_cursor, limit=5)
    assert ([entry.seq for entry in more.items], more.next_cursor) == ([first], "")
    assert other not in (first, second)


def test_a_call_runs_until_its_outcome_and_only_in_a_living_process(store: SqliteStore, tmp_path: Path):
    seq = store.begin(call("bash"))
    assert [each.entry.seq for each in store.records.list_running()] == [seq]
    store.record_outcome(seq, success(), durable=False)
    assert not store.records.list_running()
    with closing(SqliteStore(tmp_path)) as lasting:
        killed = lasting.begin(call("bash"))
        with lasting.one_transaction():
            lasting._database.connection.__enter__().execute("UPDATE running SET process = '1:1'")  # pyright: ignore[reportPrivateUsage]
        assert killed not in [each.entry.seq for each in lasting.records.list_running()]


def test_marks_know_failures_questions_and_what_was_undone(store: SqliteStore):
    changed = done(store, change())
    done(store, change(), asked=call("undo"), takes_back=(changed,))
    store.record_call(call("bash"), failure(), decision=REFUSED)
    seq = begun(store, change(), asked=call())
    marks = store.records.list_marks("s", limit=10)
    assert [(mark.changed, mark.undone, mark.failed) for mark in marks] == [
        (True, True, False),
        (True, False, False),
        (False, False, True),
        (True, False, False),
    ]
    assert marks[-1].seq == seq
    assert marks[-1].seconds is None


def test_the_version_changes_with_each_record_question_and_answer(store: SqliteStore):
    seen = {store.records.version()}
    store.record_call(call(), success())
    seen.add(store.records.version())
    assert len(seen) == 2


def test_no_page_of_a_long_journal_is_a_full_scan(store: SqliteStore):
    """The cost of each request grows neither with the session nor with the journal."""
    requests = {
        "sessions": lambda: store.records.list_sessions(limit=20),
        "session": lambda: store.records.find_session("s"),
        "calls": lambda: store.records.list_calls(CallFilter(session="s"), limit=50),
        "tool": lambda: store.records.list_calls(CallFilter(session="s", tool="rare"), limit=50),
        "decision": lambda: store.records.list_calls(CallFilter(session="s", decision="refused"), limit=50),
        "path": lambda: store.records.list_path_changes("/ws/a.py", limit=20),
        "tools": lambda: store.records.list_tools("s"),
        "one": lambda: store.records.find_entry(3),
        "neighbours": lambda: store.records.find_neighbours(3),
        "version": store.records.version,
    }

    def grow(many: int) -> None:
        with store.one_transaction(durable=True):
            for n in range(many):
                store.record_call(call("read", session="s" if n % 2 else f"other{n % 50}"), success(), decision=ALLOWED)

    def measure() -> dict[str, int]:
        return {name: sql_steps(store, request)[1] for name, request in requests.items()}

    done(store, change())
    store.record_call(call("rare"), success(), decision=REFUSED)
    grow(300)
    before = measure()
    grow(6_000)
    after = measure()
    for name, cost in before.items():
        assert after[name] <= 2 * cost + 40, (name, cost, after[name])


def test_a_filter_without_an_index_examines_a_bounded_number_of_calls(store: SqliteStore):
    with store.one_transaction():
        store.record_call(call("read", arguments='{"x": "needle"}'), success())
        for _ in range(MAX_EXAMINED + 10):
            store.record_call(call("read"), success())
    page = store.records.list_calls(CallFilter(session="s", text="needle"), limit=10)
    assert (page.items, page.examined) == ((), MAX_EXAMINED)
    assert page.next_cursor
    rest = store.records.list_calls(CallFilter(session="s", text="needle"), cursor=page.next_cursor, limit=10)
    assert ([entry.seq for entry in rest.items], rest.next_cursor) == ([1], "")


def test_a_reply_is_read_with_one_call_and_searched_in(store: SqliteStore):
    store.record_call(call(), Outcome("success", None, 1.0, "the reply"))
    entry = store.records.find_entry(1)
    assert entry is not None
    assert entry.outcome is not None
    assert entry.outcome.reply == "the reply"
    assert store.records.find_entry(2) is None
    assert [each.seq for each in store.records.list_calls(CallFilter(text="THE REPLY"), limit=5).items] == [1]


def test_while_a_page_is_open_output_is_recorded_and_can_be_read_in_parts(tmp_path: Path):
    with closing(SqliteStore(tmp_path)) as store:
        heard: list[str] = []
        assert store.watch_output(7, heard.append) == heard.append
        with store.review_presence.hold():
            assert store.is_reviewed()
            watch = store.watch_output(7, heard.append)
            assert watch is not None
            watch("one\n")
            watch("\x1b[31mtwo\n")
            found = store.records.read_output(7)
            assert found == (b"one\n\x1b[31mtwo\n", 13)
            assert store.records.read_output(7, 4) == (b"\x1b[31mtwo\n", 13)
        assert not store.is_reviewed()
        assert heard == ["one\n", "\x1b[31mtwo\n"]
        assert store.records.read_output(8) is None


def test_presence_ends_with_the_process(tmp_path: Path):
    import subprocess
    import sys

    code = (
        "import sys, pathlib; from handhold.backends.state.review_presence import ReviewPresence\n"
        "with ReviewPresence(pathlib.Path(sys.argv[1])).hold(): print('held', flush=True); sys.stdin.read()"
    )
    with closing(SqliteStore(tmp_path)) as store:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        assert store.is_reviewed()
        process.kill()
        process.wait()
        until = time.monotonic() + 5
        while store.is_reviewed():
            assert time.monotonic() < until
        process.stdout.close()
        if process.stdin:
            process.stdin.close()
