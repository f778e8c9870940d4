"""The form of the dialect `mycode`, and the words in it.

One object for every reply: `status`, `data`, `text`, `stats` and `context`, and `error` where there is one. What was left
out is said in `text` and marked in `data`, so that nothing found is told from not everything looked at.
"""

import json
from collections.abc import Iterator
from typing import Any

from handhold.core import errors as e
from handhold.core.ports import Frame
from handhold.core.results import Globbed, Grepped, Listed, Reply, Result, Shown
from handhold.dialects.chinese import chinese
from handhold.dialects.quoting import clipped, row
from handhold.dialects.searches import Found

DATA = ("entries", "paths", "matches", "aborted_reason", "fallback_used", "encoding")


# --- what was found


def said(result: Result) -> str:
    match result:
        case Shown(lines=()):
            return f"{clipped(result.path)} 是空文件"
        case Shown():
            return "\n".join((*page(result), *rest(result)))
        case Listed() | Globbed() | Grepped():
            return "\n".join((*rows(result), *notes(result)))
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(shown: Shown) -> Iterator[str]:
    for number, line in enumerate(shown.lines, shown.first):
        yield row(number, f"{line.text}… (本行还有 {line.cut} 个字符)" if line.cut else line.text)


def rest(shown: Shown) -> Iterator[str]:
    if shown.more:
        yield f"(部分结果: 用 start_line={shown.first + len(shown.lines)} 继续读取)"
    if shown.replaced:
        yield "(部分字节无法解码,显示为 \ufffd)"
    if shown.stale:
        yield "(modified_externally: 文件自上次读取后已被外部修改)"


def rows(found: Found) -> Iterator[str]:
    match found:
        case Listed(entries=entries):
            yield from (path + ("/" if kind == "directory" else "") for path, kind in entries)
        case Globbed(paths=paths):
            yield from paths
        case Grepped(files=files):
            for path, hit in files:
                yield from (f"{path}:{each.number}: {each.text}" for each in hit.rows if each.is_match)


def notes(found: Found) -> Iterator[str]:
    search = found.search
    if not search.shown:
        yield "没有找到匹配项" if not search.scan.aborted else "超时之前没有找到匹配项"
    if isinstance(found, Listed) and search.more:
        yield f"(部分结果: 用 offset={search.start + search.shown} 继续)"
    elif search.more:
        yield "(部分结果: 可能还有更多,请缩小 path 或 pattern)"
    if search.scan.aborted == "deadline":
        yield "(aborted_reason: 搜索超时,结果可能不完整)"
    if search.scan.weaker:
        yield f"(fallback_used: 未使用 ripgrep,而是 {search.scan.engine})"
    left = sum(each.files for each in search.scan.skipped)
    if left and not search.shown:
        yield f"({left} 个文件被跳过: {', '.join(dict.fromkeys(each.rule for each in search.scan.skipped))})"


# --- what was refused


def refused(tool: str, error: e.ToolError) -> str:
    match error:
        case e.IsDirectory():
            return f"{clipped(error.path)} 是目录,请用 LS"
        case e.NotDirectory() if tool in ("LS", "Glob"):
            return f"{clipped(error.path)} 不是目录,请用 Read"
        case _:
            return chinese(error)


# --- the form


def framed(reply: Reply, frame: Frame) -> str:
    form: dict[str, Any] = {
        "status": reply.status,
        "data": {} if reply.code else data(reply),
        "text": reply.text,
    }
    if reply.code:
        form["error"] = {"code": reply.code, "message": reply.text}
    form["stats"] = {"time_ms": round(float(reply.data["time_ms"]))} | counts(reply)
    form["context"] = {"cwd": frame.folder, "params_input": json.loads(frame.arguments)}
    if place := frame.place():
        form["context"]["path_resolved"] = place
    return json.dumps(form, ensure_ascii=False)


def data(reply: Reply) -> dict[str, Any]:
    facts = {name: reply.data[name] for name in DATA if reply.data.get(name) is not None}
    if "total_lines" in reply.data:
        facts |= {"content": reply.text, "modified_externally": reply.data["changed_since_last_read"]}
    return facts | {"truncated": bool(reply.data.get("truncated") or reply.data.get("more"))}


def counts(reply: Reply) -> dict[str, int]:
    """How much of each was found."""
    return {name: len(reply.data[name]) for name in ("entries", "paths", "matches") if name in reply.data}
