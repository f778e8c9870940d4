"""The state on disk."""

from collections.abc import Callable
from typing import Protocol

from handhold.core.ports.approvals import ApprovalStore
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.hub_link import HubStatus
from handhold.core.ports.journal import Journal
from handhold.core.ports.read_records import ReadRecords
from handhold.core.ports.records import Records


class Store(Journal, ContentStore, ApprovalStore, Protocol):
    """The state on disk."""

    @property
    def records(self) -> Records:
        """The journal in pages, for people."""
        ...

    def watch_output(self, seq: int, watch: Callable[[str], None] | None) -> Callable[[str], None] | None:
        """A watcher of a command's output that also records it while a review page is open."""
        ...

    def read_records(self, session: str) -> ReadRecords: ...

    def has_baseline(self) -> bool:
        """Whether what others change is recorded in some root."""
        ...

    def hub_status(self) -> HubStatus | None:
        """How far a hub has the journal; None if none was ever named."""
        ...

    def give_up_hub(self) -> HubStatus | None:
        """Ship nothing more, and keep nothing for the hub. Returns how far it was, or None if none was named."""
        ...

    def close(self) -> None: ...
