"""The messages of the dialect `tiny`, verbatim where its source has one."""

from collections.abc import Iterator

from handhold.core import errors as e
from handhold.core.facts import Exit
from handhold.core.results import Edited, NotebookShown, PdfShown, Pictured, Ran, Result, Shown, Written
from handhold.dialects import commands
from handhold.dialects.chinese import chinese, shown
from handhold.dialects.quoting import clipped

MOST = 8000  # bytes
SILENCE = "命令执行成功,无终端输出。"
CUT = f"\n\n...[由于内容过长,已被系统截断至前 {MOST} 字节]..."
TIMED_OUT = "\n[警告: 命令执行超时({seconds:.0f}s),已被系统强制终止。如果是启动常驻服务,请尝试将其转入后台。]"


def said(result: Result) -> str:
    match result:
        case Shown():
            return content(result)
        case Pictured() | PdfShown() | NotebookShown():
            return cut(shown(result), CUT)
        case Written(path=path):
            return f"成功将内容写入到文件: {path}"
        case Edited(path=path):
            return f"✅ 成功修改文件: {path}"
        case Ran():
            return ran(result)
        case _:
            raise AssertionError(f"no tool of this dialect gives {type(result).__name__}")


def content(page: Shown) -> str:
    text = "\n".join(line.text for line in page.lines) + ("\n" if page.newline_at_end else "")
    longer = page.more or any(line.cut for line in page.lines)
    return cut(text, CUT, longer=longer)


def cut(text: str, told: str, *, longer: bool = False) -> str:
    """The first bytes of a text, in whole characters, and that there was more."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= MOST and not longer:
        return text
    return data[:MOST].decode("utf-8", "ignore") + told


def ran(result: Ran) -> str:
    return "\n".join([output(result), *besides(result)])


def output(result: Ran) -> str:
    longer = bool(result.output.handle or result.output.left_out)
    text = cut(result.output.head, f"\n\n...[终端输出过长,已截断至前 {MOST} 字节]...", longer=longer)
    if result.exit.timed_out:
        return text + TIMED_OUT.format(seconds=result.exit.seconds)
    if why := failure(result.exit):
        return f"执行报错: {why}\n输出:\n{text}"
    return text or SILENCE


def failure(end: Exit) -> str:
    if end.signal:
        return f"signal: {end.signal}"
    return f"exit status {end.code}" if end.code else ""


def besides(result: Ran) -> Iterator[str]:
    """What the source does not know of: where the whole lies, that nothing counts, what was in the way."""
    if result.output.handle:
        yield f"[完整输出: {result.output.handle}]"
    yield from commands.warnings(result)


# --- what was refused


def refused(tool: str, error: e.ToolError) -> str:
    match error:
        case e.NotFound() if tool == "edit_file":
            return f"读取文件失败,请确认路径是否正确: open {clipped(error.path)}: no such file or directory"
        case e.NotFound():
            return f"打开文件失败: open {clipped(error.path)}: no such file or directory"
        case e.IsDirectory() if tool == "read_file":
            return f"读取文件内容失败: read {clipped(error.path)}: is a directory"
        case e.IsDirectory() if tool == "edit_file":
            return f"读取文件失败,请确认路径是否正确: read {clipped(error.path)}: is a directory"
        case e.NotDirectory() if tool == "write_file":
            return f"创建父目录失败: mkdir {clipped(error.path)}: not a directory"
        case e.IsDirectory() | e.PermissionRefused() | e.NoSpace() if tool == "write_file":
            return f"写入文件失败: {chinese(error)}"
        case e.PermissionRefused() | e.NoSpace() if tool == "edit_file":
            return f"写回文件失败: {chinese(error)}"
        case e.PartlyRead():
            return f"{clipped(error.path)} 只读取了前 {MOST} 字节,不能整体覆盖,请用 edit_file 修改"
        case e.BadArguments():
            return f"参数解析失败: {chinese(error)}"
        case e.NoMatch(longer=True):
            return "找不到该代码片段"
        case e.NoMatch():
            return "在文件中未找到 old_text,请大模型先调用 read_file 仔细确认文件内容和缩进"
        case e.Ambiguous(lines=lines, matched_by="exact"):
            return f"old_text 匹配到了 {len(lines)} 处,请提供更多的上下文代码以确保唯一性"
        case e.Ambiguous(lines=lines):
            return f"模糊匹配到了 {len(lines)} 处相似代码,请提供更多上下行代码以精确定位"
        case _:
            return chinese(error)
