"""Who may do what at a hub: bearer tokens, each for one tenant, one of its workspaces or all, and one role.

A token is 32 random bytes, so a plain hash of it is as secure as a slow one. Only the hash is stored.
"""

from dataclasses import dataclass
from hashlib import sha256
from secrets import token_urlsafe
from typing import Literal, Protocol

Role = Literal["agent", "reader", "admin"]
ROLES: tuple[Role, ...] = ("agent", "reader", "admin")
TOKEN_PREFIX = "hhub_"


@dataclass(frozen=True)
class Access:
    """What a token gives. An agent ships the journal of its workspace; a reader reads; an admin also makes tokens."""

    tenant: int
    role: Role
    workspace: int | None  # None: all workspaces of the tenant
    workspace_name: str | None = None

    @property
    def client(self) -> str:
        """Whose connections are counted together."""
        return f"tenant {self.tenant}"


@dataclass(frozen=True)
class NewToken:
    """A token as it is shown once."""

    id: int
    token: str


class TokenStore(Protocol):
    """Thread-safe."""

    def authenticate(self, token: str) -> Access | None:
        """What a token gives; None if it is unknown, revoked or expired."""
        ...

    def create_token(
        self, tenant: int, role: Role, workspace: str | None = None, days: float | None = None
    ) -> NewToken: ...

    def revoke_token(self, tenant: int, number: int) -> bool:
        """Whether there was such a token."""
        ...


def generate_token() -> str:
    return TOKEN_PREFIX + token_urlsafe(32)


def hash_token(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()
