"""The form of the dialect `mycode`, and the words in it.

One object for every reply: `status`, `data`, `text`, `stats` and `context`, and `error` where there is one. What was left
out is said in `text` and marked in `data`, so that nothing found is told from not everything looked at.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from handhold.core import errors as e
from handhold.core.ports import Frame
from handhold.core.results import Globbed, Grepped, Listed, NotebookShown, PdfShown, Pictured, Reply, Result, Shown
from handhold.dialects.chinese import chinese, shown
from handhold.dialects.quoting import clipped, row
from handhold.dialects.searches import Found

MOST_VISITED = 20_000  # entries that Glob visits
MISS = "没有找到匹配项"
MISSES = {  # where a search ended early
    "deadline": f"超时之前{MISS}",
    "entries": f"前 {MOST_VISITED} 个条目中{MISS}",
}
DATA = ("entries", "paths", "matches", "aborted_reason", "fallback_used", "encoding")


# --- what was found


def said(result: Result) -> str:
    match result:
        case Shown(lines=()):
            return f"{clipped(result.path)} 是空文件"
        case Shown():
            return "\n".join((*page(result), *rest(result)))
        case Pictured() | PdfShown() | NotebookShown():
            return shown(result, "用 start_line={next} 继续读取")
        case Listed() | Globbed() | Grepped():
            return "\n".join((*rows(result), *notes(result)))
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def page(result: Shown) -> Iterator[str]:
    for number, line in enumerate(result.lines, result.first):
        yield row(number, f"{line.text}… (本行还有 {line.cut} 个字符)" if line.cut else line.text)


def rest(result: Shown) -> Iterator[str]:
    if result.more:
        yield f"(部分结果: 用 start_line={result.first + len(result.lines)} 继续读取)"
    if result.replaced:
        yield "(部分字节无法解码,显示为 \ufffd)"
    if result.stale:
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
        yield MISSES.get(search.scan.aborted, MISS)
    if isinstance(found, Listed) and search.more:
        yield f"(部分结果: 用 offset={search.start + search.shown} 继续)"
    elif search.more:
        yield "(部分结果: 可能还有更多,请缩小 path 或 pattern)"
    if search.scan.aborted == "deadline":
        yield "(aborted_reason: 搜索超时,结果可能不完整)"
    if search.scan.aborted == "entries":
        yield f"(aborted_reason: 已访问 {MOST_VISITED} 个条目,搜索停止,结果可能不完整)"
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
    return visible(json.dumps(form, ensure_ascii=False))


def visible(form: str) -> str:
    """Control characters as the pictures that there are for them: escaped they would take six times their room."""
    return re.sub(
        r"\\\\|\\u00([01][0-9a-f])", lambda found: chr(0x2400 + int(found[1], 16)) if found[1] else found[0], form
    )


def data(reply: Reply) -> dict[str, Any]:
    facts = {name: reply.data[name] for name in DATA if reply.data.get(name) is not None}
    if "changed_since_last_read" in reply.data:  # something that was read
        facts |= {"content": reply.text, "modified_externally": reply.data["changed_since_last_read"]}
        facts |= {"file_mtime_ms": reply.data["mtime_ms"]}
    return facts | {"truncated": any(reply.data.get(name) for name in ("truncated", "more", "left_out"))}


def counts(reply: Reply) -> dict[str, int]:
    """How much of each was found."""
    return {name: len(reply.data[name]) for name in ("entries", "paths", "matches") if name in reply.data}
