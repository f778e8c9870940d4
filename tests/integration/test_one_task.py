"""One task in every dialect: find, read, edit, patch, run the tests, undo.

Each dialect takes the steps that it has tools for, `handhold` the rest, in the same session. What comes of it, in the
workspace and in the journal, is the same for all of them, but for the names of the tools.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from handhold import Reply, Toolbox
from handhold.core.choices import DIALECTS
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

FILES = {
    "shop/cart.py": "class Cart:\n\tdef __init__(self):\n\t\tself.prices = []\n\n\tdef total(self):\n\t\treturn 0\n",
    "shop/tests.py": "from cart import Cart\n\ncart = Cart()\ncart.prices += [2, 3]\nassert cart.total() == 5\nprint('all is well')\n",
    "README.md": "# Shop\r\n\r\nIt adds up.\r\n",
}
OLD, NEW = "\t\treturn 0\n", "\t\treturn sum(self.prices)\n"
PATCH = (
    "*** Begin Patch\n*** Update File: README.md\n\n-It adds up.\n+It adds up now.\n"
    "*** Add File: NOTES.md\n+The total was 0.\n*** End Patch\n"
)
MENDED = (
    "*** Begin Patch\n*** Update File: shop/cart.py\n\n-\t\treturn 0\n+\t\treturn sum(self.prices)\n*** End Patch\n"
)
TESTS = "cd shop && python3 -B tests.py"
EDITOR = "str_replace_based_edit_tool"

Step = tuple[str, Mapping[str, Any]]
STEPS = ("find", "read", "edit", "look", "patch", "run")
HANDHOLD: Mapping[str, Step] = {
    "find": ("grep", {"pattern": "def total"}),
    "read": ("read_file", {"path": "shop/cart.py"}),
    "edit": ("edit_file", {"path": "shop/cart.py", "old_string": OLD, "new_string": NEW}),
    "look": ("read_file", {"path": "README.md"}),
    "patch": ("apply_patch", {"patch": PATCH}),
    "run": ("bash", {"command": TESTS}),
}
SCRIPTS: Mapping[str, Mapping[str, Step]] = {
    "handhold": HANDHOLD,
    "claude": {
        "find": ("Grep", {"pattern": "def total"}),
        "read": ("Read", {"file_path": "shop/cart.py"}),
        "edit": ("Edit", {"file_path": "shop/cart.py", "old_string": OLD, "new_string": NEW}),
        "look": ("Read", {"file_path": "README.md"}),
        "run": ("Bash", {"command": TESTS}),
    },
    "deepagents": {
        "find": ("grep", {"pattern": "def total"}),
        "read": ("read_file", {"file_path": "shop/cart.py"}),
        "edit": ("edit_file", {"file_path": "shop/cart.py", "old_string": OLD, "new_string": NEW}),
        "look": ("read_file", {"file_path": "README.md"}),
        "run": ("execute", {"command": TESTS}),
    },
    "codex": {
        "find": ("shell", {"command": ["grep", "-rn", "def total", "."]}),
        "read": ("shell", {"command": ["cat", "shop/cart.py"]}),
        "look": ("shell", {"command": ["cat", "README.md"]}),
        "edit": ("apply_patch", {"input": MENDED}),
        "patch": ("shell", {"command": ["apply_patch", PATCH]}),
        "run": ("shell", {"command": ["bash", "-lc", TESTS]}),
    },
    "tiny": {
        "find": ("bash", {"command": "grep -rn 'def total' ."}),
        "read": ("read_file", {"path": "shop/cart.py"}),
        "edit": ("edit_file", {"path": "shop/cart.py", "old_text": OLD, "new_text": NEW}),
        "look": ("read_file", {"path": "README.md"}),
        "run": ("bash", {"command": TESTS}),
    },
    "hello": {
        "read": ("read_file", {"file_path": "shop/cart.py"}),
        "edit": ("edit_file", {"file_path": "shop/cart.py", "old_string": OLD, "new_string": NEW}),
        "look": ("read_file", {"file_path": "README.md"}),
    },
    "mycode": {
        "find": ("Grep", {"pattern": "def total"}),
        "read": ("Read", {"path": "shop/cart.py"}),
        "look": ("Read", {"path": "README.md"}),
    },
    "anthropic": {
        "find": ("bash", {"command": "grep -rn 'def total' ."}),
        "read": (EDITOR, {"command": "view", "path": "shop/cart.py"}),
        "edit": (EDITOR, {"command": "str_replace", "path": "shop/cart.py", "old_str": OLD, "new_str": NEW}),
        "look": (EDITOR, {"command": "view", "path": "README.md"}),
        "run": ("bash", {"command": TESTS}),
    },
    "gemini": {
        "find": ("search_file_content", {"pattern": "def total"}),
        "read": ("read_file", {"file_path": "shop/cart.py"}),
        "edit": ("replace", {"file_path": "shop/cart.py", "old_string": OLD, "new_string": NEW}),
        "look": ("read_file", {"file_path": "README.md"}),
        "run": ("run_shell_command", {"command": TESTS}),
    },
}
AFTERWARDS = {**{name: text.encode() for name, text in FILES.items()}, "shop/cart.py": FILES["shop/cart.py"].replace(OLD, NEW).encode()}  # fmt: skip


def performed(place: Path, dialect: str) -> tuple[dict[str, bytes], list[Any]]:
    """The workspace in the end, and the journal without the names in it."""
    root = place / "ws"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text.encode())
    with (
        Toolbox.open(root, state=place / "state", session="task", dialect=dialect) as own,
        Toolbox.open(root, state=place / "state", session="task") as rest,
    ):
        for step in STEPS:
            box, (tool, arguments) = (
                (own, SCRIPTS[dialect][step]) if step in SCRIPTS[dialect] else (rest, HANDHOLD[step])
            )
            reply = box.call(tool, arguments, turn="one")
            assert reply.status == "success", (step, reply.text)
            assert seen(step, reply), (step, reply.text)
        assert own.undo().status == "success"
        files = {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
        return files, [told(own, entry, root) for entry in own.log()]


def seen(step: str, reply: Reply) -> bool:
    """Whether a reply says what the next step needs to know."""
    needed = {"find": "cart.py", "read": "return 0", "look": "It adds up.", "run": "all is well"}
    return needed.get(step, "") in reply.text


def told(box: Toolbox, entry: Any, root: Path) -> Any:
    def hashed(content: Any) -> str | None:
        return content and content.hash

    changes = [
        (change.path.removeprefix(str(root)), hashed(change.before), hashed(change.after))
        for change in box.store.changes_of(entry.seq)
    ]
    return entry.seq, entry.call.turn, entry.outcome.status, entry.decision, changes, entry.takes_back, entry.undone


def test_every_dialect_has_a_script():
    assert set(SCRIPTS) == set(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_task_ends_the_same_in_every_dialect(dialect: str, tmp_path: Path):
    files, journal = performed(tmp_path / "own", dialect)
    assert files == AFTERWARDS
    assert journal == performed(tmp_path / "handhold", "handhold")[1]
    assert [len(changes) for _, _, _, _, changes, _, _ in journal] == [0, 0, 1, 0, 2, 0, 2]
