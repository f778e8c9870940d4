"""Commands, judged by the shell's grammar and never by looking for words in them."""

from handhold.core.policy.shell.call import WEIGHT
from handhold.core.policy.shell.look import matches, study
from handhold.core.policy.shell.places import Standing

__all__ = ["WEIGHT", "Standing", "matches", "study"]
