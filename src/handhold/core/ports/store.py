"""The state on disk."""

from contextlib import AbstractContextManager
from typing import Protocol

from handhold.core.ports.approvals import ApprovalStore
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.journal import Journal
from handhold.core.ports.read_records import ReadRecords


class Store(Journal, ContentStore, ApprovalStore, Protocol):
    """The state on disk."""

    def read_records(self, session: str) -> ReadRecords: ...

    def one_transaction(self) -> AbstractContextManager[None]:
        """Everything that is recorded inside takes effect at once, or not at all. Others wait: read no files here."""
        ...

    def close(self) -> None: ...
