"""The messages of the dialect `hello`, verbatim where its source has one. JSON only where a write or an edit succeeds."""

import json
from typing import Any

from handhold.core import errors as e
from handhold.core.results import Edited, NotebookShown, PdfShown, Pictured, Result, Shown, Written
from handhold.dialects.chinese import chinese, shown
from handhold.dialects.quoting import row

MOST = 120_000  # characters of a page


def said(result: Result) -> str:
    match result:
        case Shown(lines=()):
            return row(1, "")
        case Shown():
            return page(result)
        case Pictured() | PdfShown() | NotebookShown():
            text = shown(result, "用 offset={next} 继续读取")
            return cut(text) if len(text) > MOST else text
        case Written(place=place, size=size):
            return done(path=place, bytes=size)
        case Edited(place=place):
            return done(path=place)
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(result: Shown) -> str:
    text = "\n".join(row(number, line.text) for number, line in enumerate(result.lines, result.first))
    longer = len(text) > MOST or any(line.cut for line in result.lines) or result.rest
    return cut(text) if longer else text


def cut(text: str) -> str:
    return f"{text[:MOST]}\n...(truncated)"


def done(**facts: Any) -> str:
    return json.dumps({"ok": True, **facts}, indent=2, ensure_ascii=False)


def refused(tool: str, error: e.ToolError) -> str:
    match error:
        case e.BadArguments(argument="file_path", got="empty" | "missing"):
            return "错误:file_path 为空"
        case e.OutsideWorkspace():
            return "错误:禁止访问工作区外的路径"
        case e.NotFound():
            return "错误:文件不存在"
        case e.Unread() if tool == "write_file":
            return "错误:目标文件已存在,请先用 read_file 读取后再 write_file(与先读后写策略一致)"
        case e.Unread():
            return "错误:请先用 read_file 读取该文件,再调用 edit_file"
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
