"""The dialect that each model family knows best, with the reason.

The first family whose pattern matches the model's name decides. Prefixes of vendors and gateways (`openai/`,
`eu.anthropic.`, `models/`) and suffixes (dates, sizes) are ignored.
"""

import re
from dataclasses import dataclass

DEFAULT_DIALECT = "handhold"
_NAME_START = r"(?:^|[/:.@ ])"  # where a name starts, after any prefix


@dataclass(frozen=True)
class ModelFamily:
    """Related models: a pattern of their names, the dialect for them, and the reason."""

    pattern: str
    dialect: str
    because: str

    def matches(self, model: str) -> bool:
        return re.search(_NAME_START + self.pattern, model, re.IGNORECASE) is not None


MODEL_FAMILIES = (
    ModelFamily("claude", "claude", "the vendor's own coding agent uses these tool names"),
    ModelFamily(r"gpt-[\w.-]*codex", "codex", "built for an agent that edits files with apply_patch"),
    ModelFamily("codex", "codex", "built for an agent that edits files with apply_patch"),
    ModelFamily(
        r"gpt-(?:4\.1|5)", "codex", "the vendor's prompting guide says that it was trained on this patch format"
    ),
    ModelFamily(r"o[34](?:$|-)", "codex", "the vendor's coding agent gave it apply_patch and a shell"),
    ModelFamily("gemini", "gemini", "the vendor's own command line uses these tool names"),
)


@dataclass(frozen=True)
class DialectChoice:
    dialect: str
    because: str


def match_model(model: str) -> DialectChoice:
    """The dialect for a model, with the reason. An unknown model gets `handhold`."""
    for family in MODEL_FAMILIES:
        if family.matches(model):
            return DialectChoice(family.dialect, family.because)
    return DialectChoice(DEFAULT_DIALECT, "the model's family is unknown, and these tools explain themselves")
