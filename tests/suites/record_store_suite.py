"""What every record store of a hub does. Inherit from RecordStoreSuite and give it a store."""

import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from threading import Barrier

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.backends.state.records import (
    CallRecord,
    FinishRecord,
    IntentRecord,
    JournalRecord,
    OutcomeRecord,
    encode_record,
)
from handhold.core.plans import ContentRef, FileChange, digest
from handhold.core.ports import record_store
from handhold.core.ports.journal import Call, CallDecision
from handhold.core.ports.record_store import (
    BadCallCursor,
    ChainDiverged,
    ChainGap,
    ChainHead,
    ChainId,
    RecordStore,
    StoredContent,
)
from handhold.core.shipped_records import START_DIGEST, BadBatch, RecordBatch, parse_batch
from handhold.hub import local_records, postgres_calls

NAMES = (f"workspace-{n}" for n in range(10**9))
ALLOWED = CallDecision("allowed", "mode edit (built in)")


def encode_chain(records: Sequence[JournalRecord], *, first: int = 1, previous: bytes = START_DIGEST) -> list[bytes]:
    lines: list[bytes] = []
    for number, record in enumerate(records, first):
        lines.append(encode_record(record, number, previous))
        previous = sha256(lines[-1]).digest()
    return lines


def call_records(
    seq: int,
    *paths: str,
    session: str = "s",
    tool: str = "edit_file",
    takes_back: tuple[int, ...] = (),
    status: str = "success",
    arguments: str = "{}",
) -> list[JournalRecord]:
    """A call from its beginning to its end."""
    call = Call(session, "t", f"c{seq}", tool, arguments, "handhold")
    files = tuple(
        FileChange(path, None, ContentRef(digest(path.encode("utf-8", "surrogatepass")), 1)) for path in paths
    )
    found: list[JournalRecord] = [CallRecord(seq, 1_000_000 * seq, call)]
    if files or takes_back:
        found.append(IntentRecord(seq, 1_000_000 * seq, f"x{seq}", ALLOWED, files, takes_back))
    found.append(OutcomeRecord(seq, 1_000_000 * seq, status, None, 1500, None, None))
    return [*found, FinishRecord(seq, 1_000_000 * seq)] if files or takes_back else found


def batch(lines: Sequence[bytes]) -> RecordBatch:
    return parse_batch(b"\n".join(lines))


def journal(calls: int) -> list[bytes]:
    return encode_chain([record for seq in range(1, calls + 1) for record in call_records(seq, f"/ws/f{seq}")])


class RecordStoreSuite:
    @pytest.fixture
    def store(self) -> RecordStore:
        raise NotImplementedError

    @pytest.fixture
    def tenants(self) -> tuple[int, int]:
        """Two tenants that the store knows."""
        return 1, 2

    @pytest.fixture
    def chain(self, store: RecordStore, tenants: tuple[int, int]) -> ChainId:
        return store.open_chain(tenants[0], next(NAMES))

    # --- appending

    def test_a_new_chain_is_empty(self, store: RecordStore, chain: ChainId):
        assert store.head(chain) == ChainHead(0, START_DIGEST)
        assert store.read_lines(chain) == []

    def test_a_workspace_has_one_chain_by_its_name(self, store: RecordStore, tenants: tuple[int, int]):
        name = next(NAMES)
        assert store.open_chain(tenants[0], name) == store.open_chain(tenants[0], name)
        assert store.open_chain(tenants[0], name).workspace != store.open_chain(tenants[1], name).workspace

    def test_what_is_appended_is_read_back_byte_for_byte(self, store: RecordStore, chain: ChainId):
        lines = encode_chain(call_records(1, "/ws/ä\udcff", "/ws/\x00\n", session="\ud800"))
        head = store.append(chain, batch(lines), claimed=9)
        assert head == ChainHead(len(lines), sha256(lines[-1]).digest()) == store.head(chain)
        assert store.read_lines(chain) == lines
        assert store.read_lines(chain, after=1, limit=2) == lines[1:3]
        assert store.read_call(chain, 1) == lines
        assert store.read_call(chain, 2) == []

    def test_a_batch_that_is_sent_again_lands_once(self, store: RecordStore, chain: ChainId):
        lines = journal(5)
        for part in (lines[:8], lines[:8], lines[3:12], lines, lines[:2]):
            store.append(chain, batch(part), claimed=len(lines))
        assert store.read_lines(chain) == lines

    def test_a_gap_is_refused_and_told(self, store: RecordStore, chain: ChainId):
        lines = journal(5)
        store.append(chain, batch(lines[:4]), claimed=4)
        with pytest.raises(ChainGap) as gap:
            store.append(chain, batch(lines[6:]), claimed=len(lines))
        assert gap.value.head == store.head(chain) == ChainHead(4, sha256(lines[3]).digest())
        assert store.read_lines(chain) == lines[:4]

    def test_an_empty_chain_asks_for_the_first_record(self, store: RecordStore, chain: ChainId):
        with pytest.raises(ChainGap) as gap:
            store.append(chain, batch(journal(2)[3:]), claimed=8)
        assert gap.value.head.record == 0

    @pytest.mark.parametrize(("start", "diverged_at"), [(0, 2), (2, 3), (8, 9)])  # the first record is the same
    def test_a_diverged_chain_is_refused_and_kept_apart(
        self, store: RecordStore, chain: ChainId, start: int, diverged_at: int
    ):
        lines = journal(3)[:9]
        store.append(chain, batch(lines), claimed=9)
        rewritten = encode_chain([record for seq in range(1, 5) for record in call_records(seq, f"/ws/other{seq}")])
        with pytest.raises(ChainDiverged) as refused:
            store.append(chain, batch(rewritten[start:]), claimed=16)
        assert refused.value.head.diverged_at == diverged_at
        assert store.head(chain) == ChainHead(9, sha256(lines[-1]).digest(), diverged_at)
        assert store.read_lines(chain) == lines
        assert store.read_diverged(chain) == rewritten[start:]

    def test_after_it_diverged_nothing_is_appended_until_it_is_restarted(self, store: RecordStore, chain: ChainId):
        lines, others = journal(4), encode_chain(call_records(7, "/ws/x"))
        store.append(chain, batch(lines[:4]), claimed=4)
        with pytest.raises(ChainDiverged):
            store.append(chain, batch(others), claimed=4)
        with pytest.raises(ChainDiverged):
            store.append(chain, batch(lines), claimed=16)
        assert store.read_lines(chain) == lines[:4]
        store.restart(chain)
        assert store.head(chain) == ChainHead()
        store.append(chain, batch(others), claimed=4)
        assert store.read_lines(chain) == others

    def test_h8_a_healthy_chain_is_not_restarted(self, store: RecordStore, chain: ChainId):
        store.append(chain, batch(journal(1)), claimed=4)
        assert not store.restart(chain)
        assert store.read_lines(chain) == journal(1)
        with pytest.raises(ChainDiverged):
            store.append(chain, batch(encode_chain(call_records(7, "/ws/x"))), claimed=4)
        assert store.restart(chain)
        assert not store.restart(chain)

    def test_what_is_kept_apart_is_bounded_and_counted_for_each_divergence(
        self, store: RecordStore, chain: ChainId, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(record_store, "MAX_DIVERGED_RECORDS", 6)
        first, second, third = (encode_chain(call_records(seq, "/ws/x") * 2) for seq in (7, 8, 9))
        store.append(chain, batch(journal(1)), claimed=4)
        for sent in (first[:4], first[:4], first, second):
            with pytest.raises(ChainDiverged):
                store.append(chain, batch(sent), claimed=4)
        assert store.read_diverged(chain) == [*first[:4], *second[:2]]
        assert self.stored_bytes(store, chain) == sum(map(len, [*journal(1), *first[:4], *second[:2]]))
        store.restart(chain)
        store.append(chain, batch(journal(1)), claimed=4)
        monkeypatch.setattr(record_store, "MAX_DIVERGED_BYTES", sum(map(len, third[:3])) + 1)
        with pytest.raises(ChainDiverged):
            store.append(chain, batch(third), claimed=4)
        assert store.read_diverged(chain) == [*first[:4], *second[:2], *third[:3]]

    def test_of_many_senders_of_the_same_records_each_record_lands_once(self, store: RecordStore, chain: ChainId):
        """The compare-and-swap: without it this fails, as test_the_suite_bites shows."""
        lines = journal(10)
        senders = 8
        start = Barrier(senders)

        def send(number: int) -> None:
            choose = random.Random(number)
            start.wait()
            for end in range(1, len(lines) + 1, 3):
                store.append(chain, batch(lines[max(0, end - choose.randint(3, 9)) : end + 2]), claimed=len(lines))

        with ThreadPoolExecutor(senders) as pool:
            list(pool.map(send, range(senders)))
        assert store.read_lines(chain) == lines

    # --- what may not come in

    @given(place=st.integers(0, 4000), bit=st.integers(0, 7))
    def test_no_single_bit_can_change_unnoticed(self, place: int, bit: int):
        body = bytearray(b"\n".join(journal(3)))
        body[place % len(body)] ^= 1 << bit
        try:
            changed = parse_batch(bytes(body))
        except BadBatch:
            return
        # Only the last record has no successor that names its hash: its sender finds the difference in the answer.
        assert [each.digest for each in changed.records[:-1]] == [
            each.digest for each in batch(journal(3)).records[:-1]
        ]
        assert changed.last.digest != batch(journal(3)).last.digest

    @pytest.mark.parametrize(
        "line",
        [
            b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"version":2}',
            *(
                json.dumps({"at": 1, "body": {}, "kind": "finish", "previous": "00" * 32, "record": 1, "seq": 1, "version": 1} | change).encode()
                for change in ({"record": 0}, {"record": 1.0}, {"record": True}, {"record": 2**63}, {"seq": -1}, {"at": 10**30}, {"kind": "x"}, {"previous": "zz"}, {"previous": "11" * 32}, {"kind": "call"}, {"kind": "intent", "body": {"files": [{}], "takes_back": []}})
            ),
        ],
    )  # fmt: skip
    def test_what_is_no_record_is_refused(self, line: bytes):
        with pytest.raises(BadBatch):
            parse_batch(line)

    # --- reading

    def test_the_last_calls_of_a_session(self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]):
        name = self.name_of(store, chain)
        records = [record for seq in range(1, 31) for record in call_records(seq, f"/ws/f{seq}", session=f"s{seq % 3}")]
        store.append(chain, batch(encode_chain(records)), claimed=0)
        found = store.list_calls(tenants[0], workspace=name, session="s1", last=4).entries
        assert [each.entry.seq for each in found] == [19, 22, 25, 28]
        last = found[-1].entry
        assert (last.call.session, last.call.call_id, last.paths, last.decision) == (
            "s1",
            "c28",
            ("/ws/f28",),
            "allowed",
        )
        assert last.succeeded
        assert [each.entry.seq for each in store.list_calls(tenants[0], workspace=name, last=2).entries] == [29, 30]
        assert store.list_calls(tenants[0], workspace=name, session="nobody").entries == []

    def test_a_session_with_a_long_name(self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]):
        long = "\U0001f600" * 3000
        store.append(chain, batch(encode_chain(call_records(1, "/ws/" + "x" * 4000, session=long))), claimed=4)
        assert [each.entry.seq for each in store.list_calls(tenants[0], session=long).entries] == [1]

    def test_calls_of_all_workspaces_come_in_the_order_of_arrival(self, store: RecordStore, tenants: tuple[int, int]):
        names = [next(NAMES) for _ in range(3)]
        for name in names:
            store.append(
                store.open_chain(tenants[0], name),
                batch(encode_chain(call_records(1, "/ws/a", session="all-of-us"))),
                claimed=4,
            )
        assert [each.workspace for each in store.list_calls(tenants[0], session="all-of-us").entries] == names

    def test_calls_are_found_by_path_and_by_folder(self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]):
        name = self.name_of(store, chain)
        paths = [
            (f"/{name}/src/a.py", f"/{name}/b"),
            (f"/{name}/src.py",),
            (f"/{name}/src/deep/c.py",),
            (f"/{name}/src",),
        ]
        records = [record for seq, each in enumerate(paths, 1) for record in call_records(seq, *each)]
        store.append(chain, batch(encode_chain(records)), claimed=0)

        def find(path: str) -> list[int]:
            return [each.entry.seq for each in store.find_path(tenants[0], path).entries]

        assert find(f"/{name}/src") == [1, 3, 4]
        assert find(f"/{name}/src/a.py") == find(f"/{name}/b") == [1]
        assert find(f"/{name}/sr") == []
        assert find(f"/{name}/src/") == [1, 3, 4]
        assert find("/")[-4:] == [1, 2, 3, 4]
        assert [each.entry.seq for each in store.find_path(tenants[0], f"/{name}", last=2).entries] == [3, 4]
        assert store.find_path(tenants[0], f"/{name}", workspace="another").entries == []

    @pytest.mark.parametrize("by", ["tenant", "workspace", "path", "common path"])
    def test_h3_a_list_comes_in_pages_that_lose_nothing(
        self, store: RecordStore, tenants: tuple[int, int], monkeypatch: pytest.MonkeyPatch, by: str
    ):
        """Small pages, and two workspaces; of a common path, more changes match than are sorted."""
        monkeypatch.setattr(postgres_calls, "MAX_MATCHES", 10 if by == "common path" else 1000)
        monkeypatch.setattr(postgres_calls, "MAX_WALKED", 4)
        names, folder = [next(NAMES), next(NAMES)], next(NAMES)
        for name in names:
            # The paths of others are in between.
            calls = [call_records(seq, f"/{folder if seq % 3 else name}/{seq}", f"/{name}/b") for seq in range(1, 20)]
            lines = encode_chain([record for each in calls for record in each])
            chain = store.open_chain(tenants[0], name)
            for start in range(0, len(lines), 8):
                store.append(chain, batch(lines[start : start + 8]), claimed=0)
        for module in (postgres_calls, local_records):
            monkeypatch.setattr(module, "MAX_PAGE_BYTES", 3 * len(b"".join(lines)) // 19)
        found: list[tuple[str, int]] = []
        cursor, pages = "", 0
        while cursor or not pages:
            match by:
                case "tenant":
                    page = store.list_calls(tenants[0], last=38 - len(found), cursor=cursor)
                case "workspace":
                    page = store.list_calls(tenants[0], workspace=names[0], last=100, cursor=cursor)
                case _:
                    page = store.find_path(tenants[0], f"/{folder}", last=5, cursor=cursor)
            assert len(page.entries) <= 5
            found[:0] = [(each.workspace, each.entry.seq) for each in page.entries]
            cursor, pages = page.older, pages + 1
            if by == "tenant" and len(found) == 38:
                break
        seqs = [seq for seq in range(1, 20) if seq % 3 or by in ("tenant", "workspace")]
        assert found == [(name, seq) for name in (names[:1] if by == "workspace" else names) for seq in seqs]
        assert pages > 5

    @pytest.mark.parametrize("cursor", ["x", "1.2.3.4", "-1", "9" * 40, "1.", "٣"])
    def test_a_cursor_of_another_list_is_refused(self, store: RecordStore, tenants: tuple[int, int], cursor: str):
        for ask in (
            lambda: store.list_calls(tenants[0], cursor=cursor),
            lambda: store.list_calls(tenants[0], workspace="w", cursor=cursor),
            lambda: store.find_path(tenants[0], "/", cursor=cursor),
        ):
            with pytest.raises(BadCallCursor):
                ask()

    def test_h3_a_list_shows_long_records_in_short_and_they_are_read_whole(
        self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]
    ):
        name = self.name_of(store, chain)
        paths = [f"/{name}/{n}" for n in range(1_000)]
        sent = json.dumps({"content": "ä\n" * 50_000})
        lines = encode_chain(call_records(1, *paths, arguments=sent))
        store.append(chain, batch(lines), claimed=4)
        ((found,),) = (store.find_path(tenants[0], paths[0]).entries,)
        assert (found.entry.changed, found.entry.paths) == (1_000, tuple(paths[:100]))
        shown = json.loads(found.entry.call.arguments)
        assert shown["bytes"] == len(sent)
        assert sent.startswith(shown["shortened"])
        assert len(found.entry.call.arguments) < 40_000
        assert store.read_call(chain, 1) == store.read_lines(chain) == lines

    def test_the_short_form_of_a_record_is_never_taken_for_one(self):
        record = json.loads(encode_chain(call_records(1, "/ws/a"))[1])
        parse_batch(json.dumps({**record, "record": 2}).encode())
        record["body"]["file_count"] = 5
        with pytest.raises(BadBatch):
            parse_batch(json.dumps({**record, "record": 2}).encode())

    def test_undone_calls_are_said_to_be(self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]):
        steps = [
            *call_records(1, "/ws/a"),
            *call_records(2, "/ws/b"),
            *call_records(3, "/ws/b", tool="undo", takes_back=(2,)),
            *call_records(4, "/ws/a", tool="undo", takes_back=(1,), status="error"),
        ]
        redo = call_records(5, "/ws/b", tool="redo", takes_back=(3,))
        lines = encode_chain([*steps, *redo])
        name = self.name_of(store, chain)

        def undone() -> list[int]:
            return [
                each.entry.seq for each in store.list_calls(tenants[0], workspace=name).entries if each.entry.undone
            ]

        store.append(chain, batch(lines[: len(steps)]), claimed=0)
        assert undone() == [2]
        store.append(chain, batch(lines), claimed=0)
        assert undone() == [3]

    def test_a_workspace_tells_its_head_its_lag_and_its_divergence(
        self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]
    ):
        store.append(chain, batch(journal(2)[:4]), claimed=10)
        (found,) = (each for each in store.list_workspaces(tenants[0]) if each.name == self.name_of(store, chain))
        assert (found.head.record, found.lag, found.head.diverged_at) == (4, 6, 0)
        assert found.stored_bytes == sum(map(len, journal(2)[:4]))

    def test_large_records_come_in_several_answers(
        self, store: RecordStore, chain: ChainId, monkeypatch: pytest.MonkeyPatch
    ):
        lines = journal(3)
        store.append(chain, batch(lines), claimed=12)
        for module in ("postgres", "local_records"):
            monkeypatch.setattr(f"handhold.hub.{module}.MAX_READ_BYTES", sum(map(len, lines[:3])))
        assert store.read_lines(chain) == lines[:3]
        assert store.read_lines(chain, limit=2) == lines[:2]
        for module in ("postgres", "local_records"):
            monkeypatch.setattr(f"handhold.hub.{module}.MAX_READ_BYTES", 1)
        assert store.read_lines(chain, after=3) == [lines[3]]
        assert [store.read_call(chain, 2, after=after) for after in (0, 5, 8)] == [[lines[4]], [lines[5]], []]

    # --- contents

    def test_only_what_this_workspace_uploaded_is_present(
        self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]
    ):
        known, unknown = digest(b"known"), digest(b"unknown")
        assert store.find_content(chain, known) is None
        assert store.add_content(chain, known, StoredContent("first", 5))
        assert not store.add_content(chain, known, StoredContent("second", 5))
        assert store.select_present(chain, [known, unknown]) == {known}
        assert store.find_content(chain, known) == StoredContent("first", 5)
        assert store.find_content(chain, unknown) is None
        assert self.stored_bytes(store, chain) == 5
        for tenant in tenants:
            assert store.select_present(store.open_chain(tenant, next(NAMES)), [known]) == set()

    # --- tenants

    def test_another_tenant_sees_nothing(self, store: RecordStore, chain: ChainId, tenants: tuple[int, int]):
        mine, theirs = tenants
        store.append(chain, batch(journal(2)), claimed=8)
        store.add_content(chain, digest(b"mine"), StoredContent("first", 4))
        name = self.name_of(store, chain)
        stranger = ChainId(theirs, chain.workspace)  # as if a check above had been forgotten
        assert store.head(stranger) == ChainHead()
        assert store.read_lines(stranger) == []
        assert store.select_present(stranger, [digest(b"mine")]) == set()
        assert store.find_content(stranger, digest(b"mine")) is None
        assert store.list_calls(theirs, workspace=name).entries == []
        assert store.read_call(stranger, 1) == []
        assert store.find_chain(theirs, name) is None
        assert store.find_chain(mine, name) == chain
        assert all(each.workspace != name for each in store.find_path(theirs, "/ws").entries)
        assert all(each.name != name for each in store.list_workspaces(theirs))
        assert mine != theirs

    def stored_bytes(self, store: RecordStore, chain: ChainId) -> int:
        name = self.name_of(store, chain)
        return next(each.stored_bytes for each in store.list_workspaces(chain.tenant) if each.name == name)

    def name_of(self, store: RecordStore, chain: ChainId) -> str:
        return next(
            each.name
            for each in store.list_workspaces(chain.tenant)
            if store.open_chain(chain.tenant, each.name) == chain
        )
