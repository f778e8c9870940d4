"""The messages of the dialect `tiny`, verbatim where its source has one."""

from collections.abc import Iterator

from handhold.core import errors as e
from handhold.core.facts import ExitStatus
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
from handhold.dialects.formatting import truncate

MAX_BYTES = 8000  # bytes
NO_OUTPUT_MESSAGE = "命令执行成功,无终端输出。"
TRUNCATION_NOTICE = f"\n\n...[由于内容过长,已被系统截断至前 {MAX_BYTES} 字节]..."
TIMEOUT_NOTICE = "\n[警告: 命令执行超时({seconds:.0f}s),已被系统强制终止。如果是启动常驻服务,请尝试将其转入后台。]"

BACKGROUND_NOTE = (
    "[后台进程(&、nohup)会随命令一起结束,不会留下。常驻服务请用户自行启动;测试时可在同一条命令中启动、使用并结束它。]"
)
PAGE_MARK = "#L"  # between a path and the number of the line from which it is read


def format_result(result: Result) -> str:
    match result:
        case TextResult():
            return format_content(result)
        case ImageResult() | PdfResult() | NotebookResult():
            return truncate_bytes(format_media(result), TRUNCATION_NOTICE)
        case WriteResult(path=path):
            return f"成功将内容写入到文件: {path}"
        case EditResult(path=path):
            return f"✅ 成功修改文件: {path}"
        case RunResult():
            return format_command(result)
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def format_content(page: TextResult) -> str:
    text = "\n".join(line.text for line in page.lines) + ("\n" if page.ends_with_newline else "")
    longer = page.has_more or any(line.omitted_chars for line in page.lines)
    shown = truncate_bytes(text, TRUNCATION_NOTICE, has_more=longer)
    next_line = page.first + sum(not line.omitted_chars for line in page.lines)
    if longer and next_line > page.first:  # of a line that is longer than a page, no page shows the rest
        return f"{shown}\n[继续读取: read_file 的 path 用 {format_page_path(page.path, next_line)}]"
    return shown


def format_page_path(path: str, line: int) -> str:
    return f"{truncate(path)}{PAGE_MARK}{line}"


def truncate_bytes(text: str, notice: str, *, has_more: bool = False) -> str:
    """The first bytes of a text, without splitting a character, and the notice that there was more."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_BYTES and not has_more:
        return text
    return data[:MAX_BYTES].decode("utf-8", "ignore") + notice


def format_command(result: RunResult) -> str:
    return "\n".join([format_output(result), *format_extra_notes(result)])


def format_output(result: RunResult) -> str:
    longer = bool(result.output.handle or result.output.omitted_lines)
    text = truncate_bytes(result.output.head, f"\n\n...[终端输出过长,已截断至前 {MAX_BYTES} 字节]...", has_more=longer)
    if result.exit_status.timed_out:
        return text + TIMEOUT_NOTICE.format(seconds=result.exit_status.seconds)
    if why := describe_failure(result.exit_status):
        return f"执行报错: {why}\n输出:\n{text}"
    return text or NO_OUTPUT_MESSAGE


def describe_failure(exit_status: ExitStatus) -> str:
    if exit_status.signal:
        return f"signal: {exit_status.signal}"
    return f"exit status {exit_status.code}" if exit_status.code else ""


def format_extra_notes(result: RunResult) -> Iterator[str]:
    """What the source does not have: what the background means here, where the whole output is, discarded changes,
    conflicts."""
    if result.exit_status.timed_out:
        yield BACKGROUND_NOTE
    if result.output.handle:
        yield f"[完整输出: {result.output.handle}]"
    yield from commands.format_warnings(result)


# --- errors


def format_error(tool: str, error: e.ToolError) -> str:
    match error:
        case e.NotFound() if tool == "edit_file":
            return f"读取文件失败,请确认路径是否正确: open {truncate(error.path)}: no such file or directory"
        case e.NotFound():
            return f"打开文件失败: open {truncate(error.path)}: no such file or directory"
        case e.IsDirectory() if tool == "read_file":
            return f"读取文件内容失败: read {truncate(error.path)}: is a directory"
        case e.IsDirectory() if tool == "edit_file":
            return f"读取文件失败,请确认路径是否正确: read {truncate(error.path)}: is a directory"
        case e.NotDirectory() if tool == "write_file":
            return f"创建父目录失败: mkdir {truncate(error.path)}: not a directory"
        case e.IsDirectory() | e.PermissionDenied() | e.NoSpace() if tool == "write_file":
            return f"写入文件失败: {format_chinese_error(error)}"
        case e.PermissionDenied() | e.NoSpace() if tool == "edit_file":
            return f"写回文件失败: {format_chinese_error(error)}"
        case e.PartlyRead(seen=seen):
            rest = format_page_path(error.path, seen[0][1] + 1 if seen and seen[0][0] == 1 else 1)
            return f"{truncate(error.path)} 只读取了一部分,不能整体覆盖。请先读完其余部分(path 用 {rest}),或者请用 edit_file 修改"
        case e.BadArguments():
            return f"参数解析失败: {format_chinese_error(error)}"
        case e.NoMatch(longer=True):
            return "找不到该代码片段"
        case e.NoMatch():
            return "在文件中未找到 old_text,请大模型先调用 read_file 仔细确认文件内容和缩进"
        case e.Ambiguous(lines=lines, matched_by="exact"):
            return f"old_text 匹配到了 {len(lines)} 处,请提供更多的上下文代码以确保唯一性"
        case e.Ambiguous(lines=lines):
            return f"模糊匹配到了 {len(lines)} 处相似代码,请提供更多上下行代码以精确定位"
        case _:
            return format_chinese_error(error)
