"""Convert replies to the result types of a deepagents backend."""

import mimetypes
from base64 import b64decode, b64encode
from collections.abc import Mapping
from io import BytesIO
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from handhold.core.errors import ToolError
from handhold.core.results import Block, Reply

if TYPE_CHECKING:
    from deepagents.backends.protocol import (
        DeleteResult,
        EditResult,
        ExecuteResponse,
        GlobResult,
        GrepResult,
        LsResult,
        ReadResult,
        WriteResult,
    )

    from handhold.toolbox import Toolbox

# High limits for lists, because the framework itself moves large results out of the model's context.
MAX_ITEMS, MAX_CHARS = 10_000, 1_000_000
PIL_FORMATS: Mapping[str, str] = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WEBP"}
PDF_MIME_TYPE, MAX_PDF_BYTES = "application/pdf", 20 * 1024 * 1024  # a PDF is sent as a whole


def strip_error_prefix(reply: Reply) -> str:
    """The error message without the prefix, which the framework adds itself."""
    return reply.text.removeprefix("Error: ")


def to_ls_result(reply: Reply) -> "LsResult":
    from deepagents.backends.protocol import LsResult

    if reply.status == "error":
        return LsResult(error=strip_error_prefix(reply))
    if reply.data["truncated"]:
        return LsResult(error=f"the folder has more than {MAX_ITEMS:,} entries; use glob")
    entries = reply.data["entries"]
    return LsResult(entries=[{"path": each["path"], "is_dir": each["type"] == "directory"} for each in entries])


def make_empty_read_result() -> "ReadResult":
    from deepagents.backends.protocol import ReadResult

    return ReadResult(file_data={"content": "", "encoding": "utf-8"}, no_lines_requested=True)


def to_read_result(box: "Toolbox", path: str, reply: Reply) -> "ReadResult":
    from deepagents.backends.protocol import ReadResult

    if reply.status == "error":
        return ReadResult(error=strip_error_prefix(reply))
    if medium := reply.data.get("medium"):
        sent = encode_pdf(box, path) if medium == "pdf" else encode_image(reply.images[0], path)
        if not sent:
            return ReadResult(error=f"{path} is not what its name says, or too large: copy it to a name that is right")
        return ReadResult(file_data={"content": sent, "encoding": "base64"})
    text, first, lines = reply.text, reply.data["offset"], reply.data.get("lines")
    if not lines:  # an empty file, or notebook cells
        return ReadResult(file_data={"content": text, "encoding": "utf-8"})
    last = first + lines - 1
    return ReadResult(
        file_data={"content": text, "encoding": "utf-8"},
        total_lines=reply.data["total_lines"],
        start_line=first,
        end_line=last,
        next_offset=last if reply.data["more"] else None,
    )


def guess_mime_type(path: str) -> str:
    """The type that the framework derives from the extension, regardless of the content."""
    return mimetypes.guess_type("file" + PurePosixPath(path).suffix)[0] or ""


def encode_pdf(box: "Toolbox", path: str) -> str:
    """The PDF in base64, as the framework sends it; empty if it is missing or too large."""
    try:
        data = box.files.read(path).data if guess_mime_type(path) == PDF_MIME_TYPE else b""
    except ToolError:  # it was deleted meanwhile
        return ""
    return b64encode(data).decode() if len(data) <= MAX_PDF_BYTES else ""


def encode_image(block: Block, path: str) -> str:
    """The image in the format of its extension, which the framework declares; empty for an unknown extension."""
    mime = guess_mime_type(path)
    if mime == block.mime or mime not in PIL_FORMATS:
        return block.base64 if mime == block.mime else ""
    from PIL import Image

    out, form = BytesIO(), PIL_FORMATS[mime]
    with Image.open(BytesIO(b64decode(block.base64))) as image:
        plain = {"JPEG": lambda: image.convert("RGB"), "WEBP": lambda: image}.get(form, image.quantize)
        plain().save(out, form)
    return b64encode(out.getvalue()).decode()


def to_glob_result(reply: Reply) -> "GlobResult":
    from deepagents.backends.protocol import GlobResult

    if reply.status == "error":
        return GlobResult(error=strip_error_prefix(reply))
    short = bool(reply.data["truncated"])
    matches: Any = [{"path": path, "is_dir": False} for path in reply.data["paths"]]
    return GlobResult(matches=matches, truncated=short, truncation_reason="budget" if short else None)


def to_grep_result(reply: Reply, max_count: int | None) -> "GrepResult":
    from deepagents.backends.protocol import GrepResult

    if reply.status == "error":
        return GrepResult(error=reply.text)
    matches: list[Any] = reply.data["matches"]
    over = max_count is not None and len(matches) > max_count
    return GrepResult(matches=matches[:max_count] if over else matches, truncated=over or bool(reply.data["truncated"]))


def to_write_result(path: str, reply: Reply) -> "WriteResult":
    from deepagents.backends.protocol import WriteResult

    return WriteResult(error=reply.text) if reply.status == "error" else WriteResult(path=path)


def to_edit_result(path: str, reply: Reply) -> "EditResult":
    from deepagents.backends.protocol import EditResult

    if reply.status == "error":
        return EditResult(error=reply.text)
    return EditResult(path=path, occurrences=sum(each["places"] for each in reply.data["edits"]))


def to_delete_result(path: str, reply: Reply) -> "DeleteResult":
    from deepagents.backends.protocol import DeleteResult

    if reply.status == "error":
        return DeleteResult(error=reply.text)
    return DeleteResult(path=path) if reply.data["exit_status"] == 0 else DeleteResult(error=f"Error: {reply.text}")


def to_execute_response(reply: Reply) -> "ExecuteResponse":
    """A refused command has no exit status; the framework can report the refusal only in the text."""
    from deepagents.backends.protocol import ExecuteResponse

    match reply.code:
        case None:
            output = reply.data["output"]
            lost = output["kept"] < output["bytes"] if output["handle"] else output["left_out"]
            return ExecuteResponse(reply.text, reply.data["exit_status"], truncated=bool(lost))
        case "NO_SHELL":
            raise NotImplementedError(strip_error_prefix(reply))
        case "BAD_ARGUMENTS":
            raise ValueError(strip_error_prefix(reply))
        case _:
            return ExecuteResponse(reply.text)
