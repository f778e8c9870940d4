"""Plain words in Chinese, where the sources of these dialects have no words of their own."""

from collections.abc import Iterator

from handhold.core import errors as e
from handhold.core.requests import MAX_PDF_PAGES
from handhold.core.results import CellOutput, ImageResult, NotebookResult, PdfResult
from handhold.core.text.lines import merge_ranges
from handhold.dialects.arguments import MISSING, UNKNOWN_ARGUMENT
from handhold.dialects.error_messages import format_plain_error
from handhold.dialects.formatting import format_list, format_ranges, format_row, truncate
from handhold.dialects.media import FORMAT_NAMES, Media

OMISSION_REASONS = {
    "": f"每次最多 {MAX_PDF_PAGES} 页",
    "room": "超出长度上限",
    "time": "耗时过长",
    "memory": "占用内存过多",
    "broken": "文件在此处已损坏",
}
UNITS = {"line": "行", "cell": "个单元格"}
RESOURCES = {"time": "时间", "memory": "内存"}


# --- errors


def format_chinese_error(error: e.ToolError) -> str:
    """What happened, then what to do. Errors that only the owner of the machine can fix are those of `format_plain_error`."""
    path = truncate(error.path) if isinstance(error, e.PathError) else ""
    match error:
        case e.UnknownTool(tool=tool, known=known):
            return f"没有名为 {truncate(tool)} 的工具,可用的工具: {format_list(known)}"
        case e.BadArguments(argument=argument, got=got, wanted=wanted, example=example):
            like = f",例如 {example}" if example else ""
            if got == MISSING:
                return f"缺少参数 {truncate(argument)}: 需要 {wanted}{like}"
            if got == UNKNOWN_ARGUMENT:
                return f"没有名为 {truncate(argument)} 的参数: 需要 {wanted}{like}"
            return f"参数 {truncate(argument)} 有误: 收到 {got},需要 {wanted}{like}"
        case e.BadPath():
            return f"路径无效: {path}"
        case e.OutsideWorkspace():
            return f"禁止访问工作区外的路径: {path}"
        case e.NotFound():
            return f"文件不存在: {path}"
        case e.IsDirectory():
            return f"{path} 是目录,请提供文件路径"
        case e.NotDirectory():
            return f"{path} 不是目录"
        case e.NotRegularFile():
            return f"{path} 不是普通文件(管道、套接字或设备)"
        case e.AlreadyExists():
            return f"{path} 已存在,请先读取后再修改"
        case e.BinaryFile(size=size):
            return f"{path} 是二进制文件({size} 字节),无法作为文本读取或修改"
        case e.TooLarge(size=size, most=most):
            return f"{path} 过大({size} 字节,上限 {most} 字节)"
        case e.PastEnd(offset=offset, lines=lines, unit=unit):
            usable = f",请使用不超过 {lines} 的行号" if lines else ""
            return f"起始行号 {offset} 超出文件末尾: {path} 共 {lines} {UNITS[unit]}{usable}"
        case e.BrokenFile(medium=medium, because=because):
            return f"{path} 无法作为 {medium.upper()} 显示: {truncate(because)}。文件已损坏,或者并非此类文件,请向用户索取完好的文件"
        case e.EncryptedPdf():
            return f"{path} 已加密,需要密码才能打开"
        case e.TooManyPixels(width=width, height=height, most=most):
            return f"{path} 声明的尺寸为 {width} x {height} 像素,最多解码 {most} 像素,请先缩小图片"
        case e.ConversionLimitExceeded(resource=resource):
            return f"显示 {path} 所需的{RESOURCES[resource]}超出上限,请先简化或缩小该文件"
        case e.ChangedDuringRead():
            return f"{path} 在读取过程中不断变化,请稍后再试"
        case e.SymlinkLoop() | e.DanglingLink():
            return f"{path} 是无效的链接,请使用文件本身的路径"
        case e.Unencodable(encoding=encoding, characters=characters):
            return f"{path} 的编码 {encoding} 无法表示这些字符: {format_list(characters, max_items=10)}"
        case e.Unread():
            return f"请先用 read_file 读取 {path},再进行修改"
        case e.PartlyRead():
            return f"{path} 只读取了一部分,请读取全部内容后再覆盖"
        case e.Stale():
            return f"{path} 在读取之后已被修改,请重新 read_file 后再试"
        case e.NoChange():
            return "新旧文本相同,无需修改"
        case e.NoMatch():
            return f"在 {path} 中找不到要替换的文本,请重新读取文件并原样引用"
        case e.AlreadyApplied(line=line):
            return f"该修改已经存在于 {path} 第 {line} 行(旧文本已不在文件中),未做任何改动"
        case e.BreaksSyntax(line=line, message=message):
            return f"引用的文本与 {path} 不完全一致,按此修改后第 {line} 行将无法解析 ({truncate(message)}),未做任何改动,请原样引用"
        case e.Ambiguous(lines=lines):
            return f"要替换的文本在 {path} 中出现 {len(lines)} 次,请提供更多上下文"
        case e.OverlappingMatches(lines=lines):
            return f"要替换的文本在 {path} 中出现 {len(lines)} 次且互相重叠,请引用更长的文本"
        case e.Denied(because=because):
            return f"不允许: {path} ({because})"
        case e.NotApproved(word=word) if word:
            return f"未获批准: {path}。审批人说: {word}"
        case e.NotApproved(because=because, approval=approval, unasked=unasked):
            how = f";可由人运行 handhold approve {approval} 批准,然后重新调用" if approval else ""
            how = f";问题未能保留: {unasked}" if unasked else how
            return f"未获批准: {path} ({because}){how}"
        case e.ReadOnly():
            return f"{path} 是只读的"
        case _:
            return format_plain_error(error)


# --- images, PDFs and notebooks


def format_media(result: Media, continuation: str = "") -> str:
    """An image, pages or cells; `continuation` says how to request the next cells, with {next} in it."""
    match result:
        case ImageResult():
            return "\n".join(_format_image(result))
        case PdfResult():
            return "\n\n".join(_format_pages(result))
        case NotebookResult():
            return "\n".join(_format_cells(result, continuation))


def _format_image(image: ImageResult) -> Iterator[str]:
    size, sent = (f"{width} x {height}" for width, height in (image.size, image.sent_size))
    done = (",已转正" if image.is_rotated else "") + (f",显示为 {sent}" if sent != size else "")
    yield f"[{truncate(image.path)}: {FORMAT_NAMES[image.medium]} 图片,{size} 像素{done}]"
    yield from _format_type_mismatch(image.claimed_medium, FORMAT_NAMES[image.medium])
    if image.frames != 1:
        yield f"[动画,共 {image.frames or '多'} 帧,这是第一帧]"
    yield from _format_stale_note(image)


def _format_pages(pdf: PdfResult) -> Iterator[str]:
    here = format_ranges(merge_ranges([(page.number, page.number) for page in pdf.pages]))
    head = f"[{truncate(pdf.path)}: PDF,共 {pdf.page_count} 页,以下为第 {here} 页]"
    yield "\n".join([head, *_format_type_mismatch(pdf.claimed_medium, "PDF"), *_format_stale_note(pdf)])
    picture = 0
    for page in pdf.pages:
        picture += bool(page.picture)
        notes = [
            page.text,
            f"[本页还有 {page.omitted_chars} 个字符未显示]" if page.omitted_chars else "",
            f"[见第 {picture} 张图片]" if page.picture else "",
            "[本页已损坏,无法显示]" if page.is_broken else "",
        ]
        yield "\n".join([f"=== 第 {page.number} 页", *([note for note in notes if note] or ["[空白页]"])])
    if pdf.omitted_ranges:
        yield f"[未显示: 第 {format_ranges(pdf.omitted_ranges)} 页,{OMISSION_REASONS[pdf.stop_reason]}]"


def _format_cells(notebook: NotebookResult, continuation: str) -> Iterator[str]:
    yield f"[{truncate(notebook.path)}: notebook,共 {notebook.total} 个单元格]"
    for cell in notebook.cells:
        run = "" if cell.execution_count is None else f",第 {cell.execution_count} 次运行"
        yield f"=== 单元格 {cell.number}/{notebook.total} ({cell.kind}{run})"
        if cell.source:
            yield from (format_row(number, text) for number, text in enumerate(cell.source.split("\n"), 1))
        if cell.omitted_chars:
            yield f"[本单元格还有 {cell.omitted_chars} 个字符未显示]"
        for output in cell.outputs:
            yield from _format_output(output)
        if cell.omitted_outputs:
            yield f"[还有 {cell.omitted_outputs} 个输出未显示]"
    yield "[以上为各单元格;文件本身是 JSON,修改时须引用其原文]"
    if notebook.has_more:
        last = notebook.first + len(notebook.cells) - 1
        yield f"[以上为第 {format_ranges([(notebook.first, last)])} 个单元格,{continuation.format(next=last + 1) or '其余未显示'}]"
    yield from _format_stale_note(notebook)


def _format_output(output: CellOutput) -> Iterator[str]:
    picture = f",见第 {output.picture_number} 张图片" if output.picture_number else ""
    left = f",{output.mime} 未显示" if output.omitted_reason else ""
    yield f"   --- {output.kind}{picture}{left}"
    if output.text:
        yield from (f"      | {line}" for line in output.text.split("\n"))
    if output.omitted_chars:
        yield f"   --- 此处省略 {output.omitted_chars} 个字符"
        yield from (f"      | {line}" for line in output.tail.split("\n"))


def _format_type_mismatch(claimed_medium: str, actual_name: str) -> Iterator[str]:
    if claimed_medium:
        yield f"[文件名表明是 {FORMAT_NAMES[claimed_medium]},实际是 {actual_name}]"


def _format_stale_note(result: Media) -> Iterator[str]:
    if result.is_stale:
        yield "[文件自上次读取后已被修改]"
