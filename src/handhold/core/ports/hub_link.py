"""The hub that a journal is shipped to, as calls see it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class HubStatus:
    """How far a hub has the journal. Times are in seconds since 1970; 0: never."""

    hub: str
    head: int  # the last record here
    acknowledged: int  # the last record that the hub has
    unsent_bytes: int  # of contents that wait, and are kept for it
    reached_at: float
    problem: str  # why records wait; empty if nothing is wrong
    diverged_at: int  # the first record that the hub refuses as no continuation of what it has; 0 if there is none

    @property
    def lag(self) -> int:
        return max(0, self.head - self.acknowledged)

    def describe(self) -> str:
        """The status in one sentence."""
        if self.diverged_at:
            return (
                f"The hub at {self.hub} refuses this journal from record {self.diverged_at} on: "
                "it is no continuation of what the hub has."
            )
        if not self.lag:
            return f"The hub at {self.hub} has all {self.head} records."
        because = f" ({self.problem})" if self.problem else ""
        return f"The hub at {self.hub} lacks {self.lag} of {self.head} records{because}."


class HubLink(Protocol):
    """Thread-safe."""

    @property
    def warning(self) -> str:
        """What a reply must tell about the hub; empty if nothing. Costs nothing."""
        ...

    def wait_until_acknowledged(self) -> None:
        """Wait until the hub has everything that is recorded now. HubUnreachable if it has not in time."""
        ...
