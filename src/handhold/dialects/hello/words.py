"""The messages of the dialect `hello`, verbatim where its source has one. JSON only where a write or an edit succeeds."""

import json
from typing import Any

from handhold.core import errors as e
from handhold.core.results import Edited, Result, Shown, Written
from handhold.dialects.chinese import chinese
from handhold.dialects.quoting import row

MOST = 120_000  # characters of a page


def said(result: Result) -> str:
    match result:
        case Shown():
            return page(result)
        case Written(place=place, size=size):
            return done(path=place, bytes=size)
        case Edited(place=place):
            return done(path=place)
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(shown: Shown) -> str:
    text = "\n".join(row(number, line.text) for number, line in enumerate(shown.lines, shown.first))
    cut = len(text) > MOST or any(line.cut for line in shown.lines) or shown.rest
    return f"{text[:MOST]}\n...(truncated)" if cut else text


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
