import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from handhold import Reply, Toolbox
from handhold.adapters.calls import AsyncCallSequencer, parse_arguments

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON))
def test_arguments_that_were_sent_as_json_are_always_what_was_sent(arguments: dict[str, Any]):
    assert parse_arguments(json.dumps(arguments)) == arguments


@given(st.text())
def test_arguments_that_are_no_object_are_never_lost(text: str):
    given = parse_arguments(text)
    assert given == text or isinstance(given, dict)


@given(st.permutations(range(6)))
def test_calls_that_are_started_at_once_are_always_carried_out_in_order(names: list[int]):
    async def started() -> list[Reply]:
        writes = [{"path": "a.py", "content": f"{name}\n"} for name in names]
        return await asyncio.gather(*(order.call("write_file", arguments) for arguments in writes))

    box = Toolbox.in_memory({})
    order = AsyncCallSequencer(box)
    assert [reply.status for reply in asyncio.run(started())] == ["success"] * 6
    assert box.call("read_file", {"path": "a.py"}).text.endswith(f"{names[-1]}")
