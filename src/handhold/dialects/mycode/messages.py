"""The form of the dialect `mycode`, and its words.

Every reply is one object: `status`, `data`, `text`, `stats` and `context`, and `error` after an error. A page is in
`data.content` only, since it may be long; `text` says what it shows. What was left
out is reported in `text` and in `data`, so that "nothing found" differs from "not everything searched".
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from handhold.core import errors as e
from handhold.core.ports.dialect import ReplyFrame
from handhold.core.results import (
    GlobResult,
    GrepResult,
    ImageResult,
    ListResult,
    NotebookResult,
    PdfResult,
    Reply,
    Result,
    TextResult,
)
from handhold.dialects.chinese import format_chinese_error, format_media
from handhold.dialects.formatting import format_row, truncate
from handhold.dialects.searches import AnySearchResult

MAX_VISITED_ENTRIES = 20_000  # by Glob
NO_MATCH = "没有找到匹配项"
ABORTED_NO_MATCH = {  # where a search stopped early
    "deadline": f"超时之前{NO_MATCH}",
    "entries": f"前 {MAX_VISITED_ENTRIES} 个条目中{NO_MATCH}",
}
DATA_KEYS = ("entries", "paths", "matches", "aborted_reason", "fallback_used", "encoding")


# --- results


def format_result(result: Result) -> str:
    match result:
        case TextResult():
            return "\n".join(format_page(result))
        case ImageResult() | PdfResult() | NotebookResult():
            return format_media(result, "用 start_line={next} 继续读取")
        case ListResult() | GlobResult() | GrepResult():
            return "\n".join((*format_search_rows(result), *format_search_notes(result)))
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_page(result: TextResult) -> Iterator[str]:
    for number, line in enumerate(result.lines, result.first):
        yield format_row(
            number, f"{line.text}… (本行还有 {line.omitted_chars} 个字符)" if line.omitted_chars else line.text
        )


def describe_read(data: Mapping[str, Any]) -> Iterator[str]:
    """What `data.content` shows, and why it is not everything."""
    path = truncate(data["path"])
    if "lines" not in data:  # an image, a PDF or a notebook, whose content has its own notes
        yield f"{path}: 内容见 data.content"
    elif not data["lines"]:
        yield f"{path} 是空文件"
    else:
        yield f"{path}: 第 {data['offset']}-{data['offset'] + data['lines'] - 1} 行"
    if data.get("next_offset"):
        yield f"(部分结果: 用 start_line={data['next_offset']} 继续读取)"
    if data.get("cut_lines"):
        yield "(部分结果: 过长的行只显示开头)"
    if data.get("undecodable"):
        yield "(部分字节无法解码,显示为 \ufffd)"
    if data["changed_since_last_read"]:
        yield "(modified_externally: 文件自上次读取后已被外部修改)"


def format_search_rows(found: AnySearchResult) -> Iterator[str]:
    match found:
        case ListResult(entries=entries):
            yield from (path + ("/" if kind == "directory" else "") for path, kind in entries)
        case GlobResult(paths=paths):
            yield from paths
        case GrepResult(files=files):
            for path, hit in files:
                yield from (f"{path}:{each.number}: {each.text}" for each in hit.rows if each.is_match)


def format_search_notes(found: AnySearchResult) -> Iterator[str]:
    search = found.summary
    if not search.shown_count:
        yield ABORTED_NO_MATCH.get(search.outcome.abort_reason, NO_MATCH)
    if isinstance(found, ListResult) and search.has_more:
        yield f"(部分结果: 用 offset={search.start + search.shown_count} 继续)"
    elif search.has_more:
        yield "(部分结果: 可能还有更多,请缩小 path 或 pattern)"
    if search.outcome.abort_reason == "deadline":
        yield "(aborted_reason: 搜索超时,结果可能不完整)"
    if search.outcome.abort_reason == "entries":
        yield f"(aborted_reason: 已访问 {MAX_VISITED_ENTRIES} 个条目,搜索停止,结果可能不完整)"
    if search.outcome.fallback_reason:
        yield f"(fallback_used: 未使用 ripgrep,而是 {search.outcome.engine})"
    left = sum(each.files for each in search.outcome.skipped)
    if left and not search.shown_count:
        yield f"({left} 个文件被跳过: {', '.join(dict.fromkeys(each.rule for each in search.outcome.skipped))})"


# --- errors


def format_error(tool: str, error: e.ToolError) -> str:
    match error:
        case e.IsDirectory():
            return f"{truncate(error.path)} 是目录,请用 LS"
        case e.NotDirectory() if tool in ("LS", "Glob"):
            return f"{truncate(error.path)} 不是目录,请用 Read"
        case _:
            return format_chinese_error(error)


# --- the form


def format_reply(reply: Reply, frame: ReplyFrame) -> str:
    form: dict[str, Any] = {
        "status": reply.status,
        "data": {} if reply.code else build_data(reply),
        "text": "\n".join(describe_read(reply.data)) if is_read(reply) else reply.text,
    }
    if reply.code:
        form["error"] = {"code": reply.code, "message": reply.text}
    form["stats"] = {"time_ms": round(float(reply.data["time_ms"]))} | count_items(reply)
    form["context"] = {"cwd": frame.folder, "params_input": json.loads(frame.arguments)}
    if place := frame.resolve_path():
        form["context"]["path_resolved"] = place
    return replace_control_characters(json.dumps(form, ensure_ascii=False))


def replace_control_characters(form: str) -> str:
    """Replace control characters by their Unicode pictures: escaped, they would take six times the space."""
    return re.sub(
        r"\\\\|\\u00([01][0-9a-f])", lambda found: chr(0x2400 + int(found[1], 16)) if found[1] else found[0], form
    )


def is_read(reply: Reply) -> bool:
    return not reply.code and "changed_since_last_read" in reply.data


def build_data(reply: Reply) -> dict[str, Any]:
    facts = {name: reply.data[name] for name in DATA_KEYS if reply.data.get(name) is not None}
    if is_read(reply):
        facts |= {"content": reply.text, "modified_externally": reply.data["changed_since_last_read"]}
        facts |= {"file_mtime_ms": reply.data["mtime_ms"]}
    return facts | {"truncated": any(reply.data.get(name) for name in ("truncated", "more", "left_out"))}


def count_items(reply: Reply) -> dict[str, int]:
    """The number of results of each kind."""
    return {name: len(reply.data[name]) for name in ("entries", "paths", "matches") if name in reply.data}
