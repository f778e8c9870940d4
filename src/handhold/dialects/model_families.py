"""Which dialect a model knows best: a table, with reasons.

The first row whose pattern is in the model's name decides. Prefixes of vendors and gateways (`openai/`,
`eu.anthropic.`, `models/`) and suffixes (dates, sizes) do not matter.
"""

import re
from dataclasses import dataclass

DEFAULT_DIALECT = "handhold"
_NAME_START = r"(?:^|[/:.@ ])"  # of a name, after any prefix


@dataclass(frozen=True)
class ModelFamily:
    """Related models: a pattern in their names, their dialect, and why it is theirs."""

    pattern: str
    dialect: str
    because: str

    def matches(self, model: str) -> bool:
        return re.search(_NAME_START + self.pattern, model, re.IGNORECASE) is not None


MODEL_FAMILIES = (
    ModelFamily("claude", "claude", "its vendor's own coding agent has these tools, under these names"),
    ModelFamily(r"gpt-[\w.-]*codex", "codex", "made for an agent that changes files with apply_patch"),
    ModelFamily("codex", "codex", "made for an agent that changes files with apply_patch"),
    ModelFamily(
        r"gpt-(?:4\.1|5)", "codex", "its vendor's prompting guide says that it was trained on this patch format"
    ),
    ModelFamily(r"o[34](?:$|-)", "codex", "its vendor's coding agent gave it apply_patch and a shell"),
    ModelFamily("gemini", "gemini", "its vendor's own command line has these tools, under these names"),
)


@dataclass(frozen=True)
class DialectChoice:
    dialect: str
    because: str


def match_model(model: str) -> DialectChoice:
    """The dialect for a model, and why; an unknown model gets our own."""
    for family in MODEL_FAMILIES:
        if family.matches(model):
            return DialectChoice(family.dialect, family.because)
    return DialectChoice(DEFAULT_DIALECT, "no family is known for this model, and these tools explain themselves")
