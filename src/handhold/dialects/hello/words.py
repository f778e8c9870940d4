"""The messages of the dialect `hello`, verbatim where its source has one. JSON only where a write or an edit succeeds."""

import json
from collections.abc import Iterator
from typing import Any

from handhold.core import errors as e
from handhold.core.facts import Exit
from handhold.core.requests import Read, Request
from handhold.core.results import Edited, NotebookShown, PdfShown, Pictured, Ran, Result, Shown, Written
from handhold.dialects import commands
from handhold.dialects.chinese import chinese, shown
from handhold.dialects.quoting import row

LINES = 2000  # of a page, unless more are asked for
MOST = 120_000  # characters of a page
MOST_OUTPUT = 80_000  # bytes of what a command printed: 20,000 tokens
UNREAD = "错误:请先用 read_file 读取该文件,再调用 edit_file"
TRUNCATED = "\n...(truncated)"


def said(request: Request, result: Result) -> str:
    match result:
        case Shown(lines=()):
            return row(1, "")
        case Shown():
            assert isinstance(request, Read)
            return page(result, request.limit or LINES)
        case Pictured() | PdfShown() | NotebookShown():
            text = shown(result, "用 offset={next} 继续读取")
            return cut(text) if len(text) > MOST else text
        case Written(place=place, size=size):
            return done(path=place, bytes=size)
        case Edited(place=place):
            return done(path=place)
        case Ran():
            return "\n".join([ran(result), *besides(result)])
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(result: Shown, most: int) -> str:
    """At most so many lines. What follows the last line break counts as one, though it is empty."""
    lines = [line.text for line in result.lines]
    if result.newline_at_end and len(lines) < most:
        lines.append("")
    text = "\n".join(row(number, line) for number, line in enumerate(lines, result.first))
    longer = len(text) > MOST or any(line.cut for line in result.lines) or result.rest
    return cut(text) if longer else text


def cut(text: str) -> str:
    return text[:MOST] + TRUNCATED


def done(**facts: Any) -> str:
    return json.dumps({"ok": True, **facts}, indent=2, ensure_ascii=False)


# --- commands, which the source lists and does not word


def ran(result: Ran) -> str:
    output = result.output
    text = output.head.removesuffix("\n") or "(无输出)"
    if output.handle or output.left_out:
        text += TRUNCATED
    if result.exit.timed_out:
        return f"错误:执行超时({result.exit.seconds:.0f}s),已被终止\n{text}"
    if why := failure(result.exit):
        return f"错误:执行失败 — {why}\n{text}"
    return text


def failure(end: Exit) -> str:
    if end.signal:
        return f"signal {end.signal}"
    return f"exit status {end.code}" if end.code else ""


def besides(result: Ran) -> Iterator[str]:
    if result.output.handle:
        yield f"[完整输出: {result.output.handle}]"
    yield from commands.warnings(result)


# --- what was refused


def refused(tool: str, error: e.ToolError) -> str:
    match error:
        case e.BadArguments(argument="file_path", got="empty" | "missing"):
            return "错误:file_path 为空"
        case e.OutsideWorkspace():
            return "错误:禁止访问工作区外的路径"
        case e.NotFound(was_read=False) if tool == "edit_file":
            return UNREAD  # the source asks for the mark before it looks at the file
        case e.NotFound():
            return "错误:文件不存在"
        case e.Unread() if tool == "write_file":
            return "错误:目标文件已存在,请先用 read_file 读取后再 write_file(与先读后写策略一致)"
        case e.Unread():
            return UNREAD
        case e.NoChange():
            return "错误:old_string 与 new_string 相同,无需修改"
        case e.NoMatch(every=True):
            return "错误:找不到任何 old_string"
        case e.NoMatch():
            return "错误:找不到 old_string,请与磁盘一致(可重新 read_file)"
        case e.Ambiguous():
            return "错误:old_string 出现多次,请扩大上下文使片段唯一,或设置 replace_all: true"
        case e.IsDirectory() | e.BinaryFile() | e.NotRegularFile() | e.PermissionRefused() if tool == "read_file":
            return f"错误:读取失败 — {chinese(error)}"
        case _:
            return f"错误:{chinese(error)}"
