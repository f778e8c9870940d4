"""Which dialect a model knows best: a table that names its reasons.

The first row whose pattern is in the model's name decides. What makers and gateways put in front of a name
(`openai/`, `eu.anthropic.`, `models/`) and behind it (dates, sizes) does not matter.
"""

import re
from dataclasses import dataclass

DEFAULT = "handhold"
_START = r"(?:^|[/:.@ ])"  # of a name, behind whatever stands in front


@dataclass(frozen=True)
class Kin:
    """Models of one descent: a pattern in their names, the dialect that they know, and why it is theirs."""

    pattern: str
    dialect: str
    because: str

    def holds(self, model: str) -> bool:
        return re.search(_START + self.pattern, model, re.IGNORECASE) is not None


FAMILIES = (
    Kin("claude", "claude", "its maker's own coding agent has these tools, under these names"),
    Kin(r"gpt-[\w.-]*codex", "codex", "made for an agent whose files are changed by apply_patch"),
    Kin("codex", "codex", "made for an agent whose files are changed by apply_patch"),
    Kin(r"gpt-(?:4\.1|5)", "codex", "its maker's prompting guide says that it was trained on this patch format"),
    Kin(r"o[34](?:$|-)", "codex", "its maker's coding agent gave it apply_patch and a shell"),
    Kin("gemini", "gemini", "its maker's own command line has these tools, under these names"),
)


@dataclass(frozen=True)
class Choice:
    dialect: str
    because: str


def chosen(model: str) -> Choice:
    """The dialect for a model, and why; one that nobody here knows gets our own."""
    for kin in FAMILIES:
        if kin.holds(model):
            return Choice(kin.dialect, kin.because)
    return Choice(DEFAULT, "no family is known for this model, and these tools explain themselves")
