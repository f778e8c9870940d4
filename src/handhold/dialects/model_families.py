"""Which dialect a model knows best: a table that names its reasons.

The first row whose pattern is in the model's name decides. What makers and gateways put in front of a name
(`openai/`, `eu.anthropic.`, `models/`) and behind it (dates, sizes) does not matter.
"""

import re
from dataclasses import dataclass

DEFAULT_DIALECT = "handhold"
_NAME_START = r"(?:^|[/:.@ ])"  # of a name, behind whatever stands in front


@dataclass(frozen=True)
class ModelFamily:
    """Models of one descent: a pattern in their names, the dialect that they know, and why it is theirs."""

    pattern: str
    dialect: str
    because: str

    def matches(self, model: str) -> bool:
        return re.search(_NAME_START + self.pattern, model, re.IGNORECASE) is not None


MODEL_FAMILIES = (
    ModelFamily("claude", "claude", "its maker's own coding agent has these tools, under these names"),
    ModelFamily(r"gpt-[\w.-]*codex", "codex", "made for an agent whose files are changed by apply_patch"),
    ModelFamily("codex", "codex", "made for an agent whose files are changed by apply_patch"),
    ModelFamily(
        r"gpt-(?:4\.1|5)", "codex", "its maker's prompting guide says that it was trained on this patch format"
    ),
    ModelFamily(r"o[34](?:$|-)", "codex", "its maker's coding agent gave it apply_patch and a shell"),
    ModelFamily("gemini", "gemini", "its maker's own command line has these tools, under these names"),
)


@dataclass(frozen=True)
class DialectChoice:
    dialect: str
    because: str


def match_model(model: str) -> DialectChoice:
    """The dialect for a model, and why; one that nobody here knows gets our own."""
    for family in MODEL_FAMILIES:
        if family.matches(model):
            return DialectChoice(family.dialect, family.because)
    return DialectChoice(DEFAULT_DIALECT, "no family is known for this model, and these tools explain themselves")
