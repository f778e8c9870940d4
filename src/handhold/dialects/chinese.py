"""Plain words in Chinese, for the families that speak it, where their sources have none of their own."""

from handhold.core import errors as e
from handhold.dialects.plain import plain
from handhold.dialects.quoting import clipped, listed


def chinese(error: e.ToolError) -> str:
    """What happened, then what to do. What only a machine's owner can mend stays as it is in `plain`."""
    path = clipped(error.path) if isinstance(error, e.PathError) else ""
    match error:
        case e.UnknownTool(tool=tool, known=known):
            return f"没有名为 {clipped(tool)} 的工具,可用的工具: {listed(known)}"
        case e.BadArguments(argument=argument, got=got, wanted=wanted, example=example):
            like = f",例如 {example}" if example else ""
            return f"参数 {clipped(argument)} 有误: 收到 {got},需要 {wanted}{like}"
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
        case e.PastEnd(offset=offset, lines=lines):
            return f"起始行号 {offset} 超出文件末尾: {path} 共 {lines} 行"
        case e.Unencodable(encoding=encoding, characters=characters):
            return f"{path} 的编码 {encoding} 无法表示这些字符: {listed(characters, most=10)}"
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
        case e.Ambiguous(lines=lines):
            return f"要替换的文本在 {path} 中出现 {len(lines)} 次,请提供更多上下文"
        case e.Overlapping(lines=lines):
            return f"要替换的文本在 {path} 中出现 {len(lines)} 次且互相重叠,请引用更长的文本"
        case e.Denied(because=because):
            return f"不允许: {path} ({because})"
        case e.NotApproved(because=because):
            return f"未获批准: {path} ({because})"
        case e.ReadOnly():
            return f"{path} 是只读的"
        case _:
            return plain(error)
