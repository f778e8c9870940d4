"""Analyze commands by the shell's grammar, never by searching for words in them."""

from handhold.core.policy.shell.command_analysis import analyze_command, matches
from handhold.core.policy.shell.paths import ShellContext
from handhold.core.policy.shell.simple_command import CLASSES_BY_SEVERITY

__all__ = ["CLASSES_BY_SEVERITY", "ShellContext", "matches", "analyze_command"]
