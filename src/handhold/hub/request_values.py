"""What comes with a request: numbers, names and hashes as they are expected, or a refusal."""

from typing import Any

from starlette.requests import Request

from handhold.core.ports.record_store import ChainHead
from handhold.core.shipped_records import is_hash
from handhold.hub.http_errors import HubHTTPError, not_found

MAX_NAME_CHARS = 200


def format_head(head: ChainHead) -> dict[str, Any]:
    return {"record": head.record, "digest": head.digest.hex(), "diverged_at": head.diverged_at}


def check_hash(value: object) -> str:
    if not isinstance(value, str) or not is_hash(value):
        raise HubHTTPError(422, "INVALID", "a hash must be 64 lower-case hex digits")
    return value


def read_count(text: str | None, default: int, most: int = 2**62) -> int:
    if text is None:
        return default
    if not is_count(text):
        raise HubHTTPError(422, "INVALID", "a number is expected")
    return min(int(text), most)


def is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19


def is_workspace_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARS and name.isprintable() and "/" not in name


def check_name(name: str | None) -> str | None:
    """A name for a query. PostgreSQL refuses some texts that no workspace can have."""
    if name is not None and not is_workspace_name(name):
        raise not_found()
    return name


def read_length(request: Request) -> int:
    length = request.headers.get("content-length", "")
    return int(length) if is_count(length) else 0
