"""For any two trees, the patch that leads from the one to the other leads there."""

from hypothesis import given
from hypothesis import strategies as st

from handhold import Toolbox
from tests.suites.patches import patch_of

LINES = st.sampled_from(["a", "b", "", " a", "\ta", "a ", "def f():", "@@ x", "*** End Patch", "+a", "-a", "“a”"])
TEXTS = st.one_of(
    st.builds(lambda lines, end: "\n".join(lines) + end, st.lists(LINES, max_size=25), st.sampled_from(["", "\n"])),
    st.builds(lambda lines: "".join(f"{line}\r\n" for line in lines), st.lists(LINES, max_size=9)),
    st.text(alphabet="ab\r\n", max_size=12),
)
TREES = st.dictionaries(st.sampled_from(["a.py", "b c.txt", "d/e.md", "d/f"]), TEXTS.map(str.encode), max_size=4)


@given(TREES, TREES)
def test_c60_a_patch_between_two_trees_leads_from_one_to_the_other(before: dict[str, bytes], after: dict[str, bytes]):
    if before == after:
        return
    box = Toolbox.in_memory(before, dialect="codex")
    reply = box.call("apply_patch", {"input": patch_of(before, after)})
    assert reply.status == "success", reply.text
    assert box.files.files == after  # pyright: ignore[reportAttributeAccessIssue]
    assert box.undo().status == "success"
    assert box.files.files == before  # pyright: ignore[reportAttributeAccessIssue]
