"""Our own files for the pages: style, scripts and icon."""

import gzip
from functools import cache
from mimetypes import guess_type
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

STATIC_FOLDER = Path(__file__).parent / "static"


def send_static(request: Request) -> Response:
    found = load_static().get(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    content, kind = found
    headers = {"content-type": kind, "cache-control": "private, max-age=600", "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        content, headers["content-encoding"] = compress(content), "gzip"
    return Response(content, headers=headers)


@cache
def load_static() -> dict[str, tuple[bytes, str]]:
    """Our own files by name, with their types; no name leads elsewhere."""
    found: dict[str, tuple[bytes, str]] = {}
    for file in STATIC_FOLDER.iterdir():
        kind = guess_type(file.name)[0] or "text/plain"
        found[file.name] = file.read_bytes(), f"{kind}; charset=utf-8" if kind.startswith("text/") else kind
    return found


@cache
def compress(content: bytes) -> bytes:
    return gzip.compress(content, 9)
