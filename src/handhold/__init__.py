"""Handhold: the tool layer of a coding agent.

from handhold import Toolbox

box = Toolbox.open("path/to/repo", dialect="claude")
reply = box.call("Read", {"file_path": "/path/to/repo/a.py"})
"""

from handhold.version import VERSION

TYPE_CHECKING = False  # as typing's own: to import that would cost `handhold --version` half its time
if TYPE_CHECKING:
    from handhold.core.errors import ToolboxClosed, ToolError
    from handhold.core.policy.rules import Rule
    from handhold.core.ports.approvals import Question, RunPaused
    from handhold.core.ports.journal import JournalEntry
    from handhold.core.results import Block, OutputChunk, Reply, ToolSpec
    from handhold.toolbox import Toolbox

__all__ = [
    "Block",
    "JournalEntry",
    "OutputChunk",
    "Question",
    "Reply",
    "Rule",
    "RunPaused",
    "ToolError",
    "ToolSpec",
    "Toolbox",
    "ToolboxClosed",
    "__version__",
]
__version__ = VERSION

_HOMES = {
    "Toolbox": "handhold.toolbox",
    "ToolError": "handhold.core.errors",
    "ToolboxClosed": "handhold.core.errors",
    "Rule": "handhold.core.policy.rules",
    "JournalEntry": "handhold.core.ports.journal",
    "Question": "handhold.core.ports.approvals",
    "RunPaused": "handhold.core.ports.approvals",
    "Block": "handhold.core.results",
    "OutputChunk": "handhold.core.results",
    "Reply": "handhold.core.results",
    "ToolSpec": "handhold.core.results",
}


def __getattr__(name: str) -> object:
    """Each public name is imported when it is first used: `handhold --version` needs none of them."""
    if name not in _HOMES:
        raise AttributeError(f"module 'handhold' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
