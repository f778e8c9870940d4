"""The messages of the dialect `hello`, verbatim where its source has one. JSON only where a write or an edit succeeds."""

import json
from collections.abc import Iterator
from typing import Any

from handhold.core import errors as e
from handhold.core.facts import ExitStatus
from handhold.core.requests import Read, Request
from handhold.core.results import (
    EditResult,
    ImageResult,
    NotebookResult,
    PdfResult,
    Result,
    RunResult,
    TextResult,
    WriteResult,
)
from handhold.dialects import commands
from handhold.dialects.chinese import format_chinese_error, format_media
from handhold.dialects.formatting import format_row

DEFAULT_PAGE_LINES = 2000  # of a page, unless more are requested
MAX_PAGE_CHARS = 120_000  # characters of a page
MAX_OUTPUT_BYTES = 80_000  # bytes of what a command printed: 20,000 tokens
UNREAD_MESSAGE = "错误:请先用 read_file 读取该文件,再调用 edit_file"
AMBIGUOUS_MESSAGE = "错误:old_string 出现多次,请扩大上下文使片段唯一,或设置 replace_all: true"
TRUNCATION_NOTICE = "\n...(truncated)"


def format_result(request: Request, result: Result) -> str:
    match result:
        case TextResult(lines=()):
            return format_row(result.first, "")
        case TextResult():
            assert isinstance(request, Read)
            return format_page(result, request.limit or DEFAULT_PAGE_LINES)
        case ImageResult() | PdfResult() | NotebookResult():
            text = format_media(result, "用 offset={next} 继续读取")
            return truncate_page(text) if len(text) > MAX_PAGE_CHARS else text
        case WriteResult(resolved_path=place, size=size):
            return format_success(path=place, bytes=size)
        case EditResult(resolved_path=place):
            return format_success(path=place)
        case RunResult():
            return "\n".join([format_command(result), *format_extra_notes(result)])
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_page(result: TextResult, max_lines: int) -> str:
    """At most `max_lines` lines. The empty text after the last line break counts as a line."""
    lines = [line.text for line in result.lines]
    if result.ends_with_newline and len(lines) < max_lines:
        lines.append("")
    text = "\n".join(format_row(number, line) for number, line in enumerate(lines, result.first))
    longer = len(text) > MAX_PAGE_CHARS or any(line.omitted_chars for line in result.lines) or result.omitted_lines
    return truncate_page(text) if longer else text


def truncate_page(text: str) -> str:
    return text[:MAX_PAGE_CHARS] + TRUNCATION_NOTICE


def format_success(**facts: Any) -> str:
    return json.dumps({"ok": True, **facts}, indent=2, ensure_ascii=False)


# --- commands, for which the source has no words


def format_command(result: RunResult) -> str:
    output = result.output
    text = output.head.removesuffix("\n") or "(无输出)"
    if output.handle or output.omitted_lines:
        text += TRUNCATION_NOTICE
    if result.exit_status.timed_out:
        return f"错误:执行超时({result.exit_status.seconds:.0f}s),已被终止\n{text}"
    if why := describe_failure(result.exit_status):
        return f"错误:执行失败 — {why}\n{text}"
    return text


def describe_failure(exit_status: ExitStatus) -> str:
    if exit_status.signal:
        return f"signal {exit_status.signal}"
    return f"exit status {exit_status.code}" if exit_status.code else ""


def format_extra_notes(result: RunResult) -> Iterator[str]:
    if result.output.handle:
        yield f"[完整输出: {result.output.handle}]"
    yield from commands.format_warnings(result)


# --- errors


def format_error(tool: str, error: e.ToolError) -> str:
    match error:
        case e.BadArguments(argument="file_path", got="empty" | "missing"):
            return "错误:file_path 为空"
        case e.OutsideWorkspace():
            return "错误:禁止访问工作区外的路径"
        case e.NotFound(was_read=False) if tool == "edit_file":
            return UNREAD_MESSAGE  # the source checks the read record before it checks the file
        case e.NotFound():
            return "错误:文件不存在"
        case e.Unread() if tool == "write_file":
            return "错误:目标文件已存在,请先用 read_file 读取后再 write_file(与先读后写策略一致)"
        case e.Unread():
            return UNREAD_MESSAGE
        case e.NoChange():
            return "错误:old_string 与 new_string 相同,无需修改"
        case e.NoMatch(old="", every=False):
            return AMBIGUOUS_MESSAGE  # the source finds nothing everywhere
        case e.NoMatch(every=True):
            return "错误:找不到任何 old_string"
        case e.NoMatch():
            return "错误:找不到 old_string,请与磁盘一致(可重新 read_file)"
        case e.Ambiguous():
            return AMBIGUOUS_MESSAGE
        case e.IsDirectory() | e.BinaryFile() | e.NotRegularFile() | e.PermissionDenied() if tool == "read_file":
            return f"错误:读取失败 — {format_chinese_error(error)}"
        case _:
            return f"错误:{format_chinese_error(error)}"
