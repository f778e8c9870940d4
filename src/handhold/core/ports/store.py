"""The state on disk."""

from typing import Protocol

from handhold.core.ports.approvals import ApprovalStore
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.journal import Journal
from handhold.core.ports.read_records import ReadRecords


class Store(Journal, ContentStore, ApprovalStore, Protocol):
    """The state on disk."""

    def read_records(self, session: str) -> ReadRecords: ...

    def has_baseline(self) -> bool:
        """Whether what others change is recorded in some root."""
        ...

    def close(self) -> None: ...
