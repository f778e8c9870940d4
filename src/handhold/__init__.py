"""Handhold: the tool layer of a coding agent.

from handhold import Toolbox

with Toolbox.open("path/to/repo", dialect="claude") as box:
    reply = box.call("Read", {"file_path": "/path/to/repo/a.py"})
    print(reply.text if reply.ok else reply.code)
"""

from handhold.version import VERSION

TYPE_CHECKING = False  # as typing's own, whose import would take half the time of `handhold --version`
if TYPE_CHECKING:
    from handhold.core.checkers import Checker
    from handhold.core.errors import ToolboxClosed, ToolError
    from handhold.core.history import Target
    from handhold.core.policy.rules import Rule
    from handhold.core.ports.approvals import Approver, Consent, Question, RunPaused
    from handhold.core.ports.journal import JournalEntry
    from handhold.core.ports.policy import Decision, Policy, Verb, Verdict
    from handhold.core.problems import Problem, Problems
    from handhold.core.results import Block, OutputChunk, Reply, ToolSpec
    from handhold.toolbox import Toolbox

__all__ = [
    "Approver",
    "Block",
    "Checker",
    "Consent",
    "Decision",
    "JournalEntry",
    "OutputChunk",
    "Policy",
    "Problem",
    "Problems",
    "Question",
    "Reply",
    "Rule",
    "RunPaused",
    "Target",
    "ToolError",
    "ToolSpec",
    "Toolbox",
    "ToolboxClosed",
    "Verb",
    "Verdict",
    "__version__",
]
__version__ = VERSION

_MODULES = {
    "handhold.toolbox": ("Toolbox",),
    "handhold.core.checkers": ("Checker",),
    "handhold.core.errors": ("ToolError", "ToolboxClosed"),
    "handhold.core.history": ("Target",),
    "handhold.core.policy.rules": ("Rule",),
    "handhold.core.ports.approvals": ("Approver", "Consent", "Question", "RunPaused"),
    "handhold.core.ports.journal": ("JournalEntry",),
    "handhold.core.ports.policy": ("Decision", "Policy", "Verb", "Verdict"),
    "handhold.core.problems": ("Problem", "Problems"),
    "handhold.core.results": ("Block", "OutputChunk", "Reply", "ToolSpec"),
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: `handhold --version` needs none of them."""
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(module), name)
    raise AttributeError(f"module 'handhold' has no attribute {name!r}")
