"""Commands, judged by the shell's grammar and never by looking for words in them."""

from handhold.core.policy.shell.call import CLASSES_BY_SEVERITY
from handhold.core.policy.shell.look import analyze_command, matches
from handhold.core.policy.shell.places import ShellContext

__all__ = ["CLASSES_BY_SEVERITY", "ShellContext", "matches", "analyze_command"]
