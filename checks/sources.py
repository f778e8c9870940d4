"""Extracts what the five source documents prescribe into tests/sources/, where the tests of the dialects read it.

    python checks/sources.py FOLDER            write tests/sources/*.json from the documents in FOLDER
    python checks/sources.py FOLDER --check    report what would be written differently, and fail

A rule finds one piece in the text of a document: a string, a number, a schema, a format or an example. Nothing is taken
from our own code, so a dialect that drifts from its source fails its tests. The documents themselves are not stored.
"""

import ast
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

PROJECT = Path(__file__).parents[1]
TARGET = PROJECT / "tests/sources"


# --- reading a piece


def read_text(found: str) -> str:
    return found


def read_lines(found: str) -> str:
    r"""A literal with escaped line breaks and tabs."""
    return found.replace("\\n", "\n").replace("\\t", "\t")


def read_number(found: str) -> int | float:
    return float(found) if "." in found else int(found.replace(",", "").replace("_", ""))


def read_literal(found: str) -> Any:
    """A Python literal; a tuple becomes a list."""
    value = ast.literal_eval(found)
    return list(value) if isinstance(value, tuple) else value


def read_words(found: str) -> list[str]:
    """Names between other characters."""
    return re.findall(r"[\w.]+", found)


def read_joined(found: str) -> str:
    """A string in several parts, joined by plus signs."""
    return "".join(re.findall(r'"([^"]*)"', found))


def read_json(found: str) -> Any:
    """JSON that may have trailing commas."""
    return json.loads(re.sub(r",(?=\s*[}\]])", "", found))


def read_go(found: str) -> Any:
    """A Go literal: maps and lists of strings, both in braces."""
    lists = re.sub(r"\[\]string\{([^}]*)\}", r"[\1]", found)
    return read_json(lists.replace("map[string]interface{}", ""))


def read_typescript(found: str) -> Any:
    """A TypeScript literal: names without quotation marks."""
    return read_json(re.sub(r"(?<=[{,\n])\s*(\w+):", r'"\1":', found))


def read_signature(found: str) -> dict[str, Any]:
    """The parameters of a Python function, as a schema."""
    function = ast.parse(f"{found}\n    ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    names = [each.arg for each in function.args.args]
    types = {"str": "string", "bool": "boolean", "str | None": "string"}
    schema = {each.arg: {"type": types[ast.unparse(each.annotation)]} for each in function.args.args if each.annotation}
    given = names[len(names) - len(function.args.defaults) :]
    defaults = {name: ast.literal_eval(value) for name, value in zip(given, function.args.defaults, strict=True)}
    for name, value in defaults.items():
        if value is not None:
            schema[name]["default"] = value
    return {"properties": schema, "required": [name for name in names if name not in defaults]}


def read_ranges(found: str) -> dict[str, str]:
    r"""The arms of a Rust match: each character on the left, and its replacement."""
    becomes: dict[str, str] = {}
    for left, right in re.findall(r"^\s*('\\u.*?) => '(\\?.)',", found, re.MULTILINE):
        for first, last in re.findall(r"'\\u\{(\w+)\}'(?:\.\.='\\u\{(\w+)\}')?", left):
            for code in range(int(first, 16), int(last or first, 16) + 1):
                becomes[chr(code)] = right[-1]
    return becomes


class Rule(NamedTuple):
    """Where a piece is: the first group of a pattern that matches after an anchor."""

    section: str
    name: str
    pattern: str
    read: Callable[[str], Any] = read_text
    anchor: str = ""


# --- 000: file tools, patches, commands, large output

FILE_TOOLS = (
    Rule("5.2.1", "read.first_number", r"行号从 (\d+) 开始", read_number),
    Rule("5.2.1", "read.number_width", r"固定宽度\(通常 (\d+) 字符\)", read_number),
    Rule("5.2.1", "read.offset", r"^DEFAULT_READ_OFFSET = (\d+)$", read_number),
    Rule("5.2.1", "read.limit", r"^DEFAULT_READ_LIMIT = (\d+)$", read_number),
    Rule("5.2.1", "read.line_chars", r"当单行超过 (\d+) 字符时", read_number),
    Rule("5.2.1", "read.parts", r"续行标记\(如 ([\d., ]+)\)", read_words),
    Rule("5.2.1", "read.pictures", r"对于图片文件\(([^)]*)\)", lambda found: found.split("/")),
    Rule("5.2.1", "read.pages", r'如 pages="([^"]*)"'),
    Rule("5.2.1", "read.most_pages", r"每次请求最多 (\d+) 页", read_number),
    Rule("5.2.1", "read.empty", r'^EMPTY_CONTENT_WARNING = "(.*)"$'),
    Rule("5.2.1", "read.token_chars", r"^NUM_CHARS_PER_TOKEN = (\d+)$", read_number),
    Rule("5.2.1", "read.reformatter", r"建议 agent 使用 (\w+) 等工具格式化后重读"),
    Rule("5.2.2", "write.parameters", r"只接受 (file_pathcontent) 两个参数", lambda found: [found[:9], found[9:]]),
    Rule("5.2.2", "edit.read_first", r'^"(You must read the file before editing.*)"$'),
    Rule("5.2.2", "write.done", r'Write 返回的是确认信息\(如 "([^"]*)"\)'),
    Rule("5.2.2", "path.escapes", r'raise ValueError\(f"([^"]*)"\)'),
    Rule("5.2.3", "edit.schema", r"^(def edit_file\([\s\S]*?\) -> str:)$", read_signature),
    Rule("5.2.3", "edit.not_found", r'return f"(Error: Text not found[^"]*)"'),
    Rule("5.2.3", "edit.done", r'return f"(Edited [^"]*)"'),
    Rule("5.2.3", "edit.preferred", r'工具描述反复强调"([^"]*)"'),
    Rule("5.2.4", "glob.schema", r"^(def glob\([\s\S]*?\) -> str:)$", read_signature),
    Rule("5.2.4", "glob.signs", r"支持标准 glob 语法:(.*)。$", lambda found: re.findall(r"[*?]+", found)),
    Rule("5.2.4", "glob.seconds", r"^GLOB_TIMEOUT = ([\d.]+)", read_number),
    Rule("5.2.4", "glob.timed_out", r'return f"(Error: glob timed out[^"]*)"'),
    Rule("5.2.5", "grep.schema", r"^(def grep\([\s\S]*?\) -> str:)$", read_signature),
    Rule(
        "5.2.5", "grep.modes", r"^模式说明适用场景\n([\s\S]*?)\n\n", lambda found: re.findall(r"^[a-z_]+", found, re.M)
    ),
    Rule("5.2.5", "grep.literal", r'意味着 grep\(pattern="([^"]*)"\)'),
    Rule("5.3.1", "patch.call", r'^shell (\{"command":\["apply_patch".*\})$', json.loads),
    Rule("5.3.2", "patch.grammar", r"^(Patch     :=[\s\S]*?^HunkLine .*)$"),
    Rule("5.3.2", "patch.example", r"^一个完整示例:\n\npython\n([\s\S]*?^\*\*\* End Patch)$"),
    Rule("5.3.2", "patch.scopes", r"^(@@ class BaseClass\n@@   def method\(\):)$"),
    Rule("5.3.3", "patch.levels", r"^text\n(精确匹配 → .*)$", lambda found: found.split(" → ")),
    Rule("5.3.3", "patch.plain", r"\.map\(\|c\| match c \{\n([\s\S]*?)other => other", read_ranges),
    Rule("5.3.5", "patch.direct", r"^# 直接调用\n(.*)$"),
    Rule("5.3.5", "patch.heredoc", r"^# heredoc\(单引号\)\n([\s\S]*?)\n\n"),
    Rule("5.3.5", "patch.heredoc_after_cd", r"^# 带 cd 的 heredoc\n([\s\S]*?)\n\n"),
    Rule("5.3.5", "patch.unsafe", r"拒绝不安全的形式\(如 ([^)]*)\)"),
    Rule("5.4.1", "execute.dangerous", r"^dangerous = (\[.*\])$", read_literal),
    Rule("5.4.1", "execute.blocked", r'^    return "(Error: Dangerous[^"]*)"$'),
    Rule("5.4.1", "execute.seconds", r"默认 (\d+) 秒超时", read_number),
    Rule("5.4.1", "execute.most_seconds", r"但有上限\(通常 (\d+) 秒\)", read_number),
    Rule("5.4.1", "execute.too_long", r'return f"(Error: timeout [^"]*)"'),
    Rule("5.4.1", "execute.avoid", r'^"(You MUST avoid.*)"$'),
    Rule("5.5.1", "large.tokens", r"当输出超过阈值\(如 (\d+) token\)", read_number),
    Rule("5.5.1", "large.saved", r'^TOO_LARGE_TOOL_MSG = """([\s\S]*?)"""'),
    Rule("5.5.1", "large.lines", r"显示前 (\d+) 行和后 \d+ 行", read_number),
    Rule("5.5.2", "large.not_saved", r"^TOOLS_EXCLUDED_FROM_EVICTION = (\([\s\S]*?^\))", read_literal),
    Rule("5.5.3", "large.instructions", r'^"(When a tool result is too large.*)"$'),
    Rule("5.5.3", "large.folder", r"use grep within (/\w+/) if you need"),
)


# --- 001: four tools in Go


def go_tool(name: str) -> tuple[Rule, ...]:
    return (
        Rule(name, f"{name}.name", r'Name\(\) string \{\nreturn "(\w+)"', anchor=f"// internal/tools/{name}.go"),
        Rule(name, f"{name}.description", r'^Description: "(.*)",$', anchor=f"// internal/tools/{name}.go"),
        Rule(
            name, f"{name}.schema", r"^InputSchema: (map[\s\S]*?^\}),\n\}\n\}$", read_go, f"// internal/tools/{name}.go"
        ),
    )


def go_error(section: str, name: str, start: str) -> Rule:
    return Rule(section, name, rf'fmt\.Errorf\("({start}[^"]*)"', anchor=f"// internal/tools/{section}.go")


FOUR_TOOLS = (
    *(rule for name in ("read_file", "write_file", "bash", "edit_file") for rule in go_tool(name)),
    go_error("read_file", "arguments", "参数解析失败"),
    go_error("read_file", "read.not_opened", "打开文件失败"),
    go_error("read_file", "read.not_read", "读取文件内容失败"),
    Rule("read_file", "read.bytes", r"const maxLen = (\d+)", read_number, "// internal/tools/read_file.go"),
    Rule("read_file", "read.cut", r'truncatedMsg := fmt\.Sprintf\("%s([^"]*)"', read_lines),
    go_error("write_file", "write.no_folder", "创建父目录失败"),
    go_error("write_file", "write.not_written", "写入文件失败"),
    Rule("write_file", "write.done", r'fmt\.Sprintf\("(成功将内容写入到文件: %s)"'),
    Rule("bash", "bash.seconds", r"context\.WithTimeout\(ctx, (\d+)\*time\.Second\)", read_number),
    Rule("bash", "bash.timed_out", r'return outputStr \+ "([^"]*)", nil', read_lines),
    Rule("bash", "bash.failed", r'fmt\.Sprintf\("(执行报错: [^"]*)"', read_lines),
    Rule("bash", "bash.silent", r'return "(命令执行成功[^"]*)", nil'),
    Rule("bash", "bash.bytes", r"const maxLen = (\d+)", read_number, "// internal/tools/bash.go"),
    Rule("bash", "bash.cut", r'fmt\.Sprintf\("%s([^"]*终端输出过长[^"]*)"', read_lines),
    Rule("edit", "edit.many", r'fmt\.Errorf\("(old_text 匹配到了[^"]*)"'),
    Rule("edit", "edit.too_long", r'fmt\.Errorf\("(找不到该代码片段)"'),
    Rule("edit", "edit.none", r'fmt\.Errorf\("(在文件中未找到[^"]*)"'),
    Rule("edit", "edit.alike", r'fmt\.Errorf\("(模糊匹配到了[^"]*)"'),
    go_error("edit_file", "edit.not_read", "读取文件失败"),
    go_error("edit_file", "edit.not_written", "写回文件失败"),
    Rule("edit", "edit.done", r'fmt\.Sprintf\("(✅ [^"]*)"'),
)


# --- 002: Read, Edit and MultiEdit


def described(name: str) -> tuple[Rule, ...]:
    start = rf"^#+ {name}\nDesc:\n```\n"
    return (
        Rule(f"Schema, {name}", f"{name}.description", rf"{start}([\s\S]*?)\n```$"),
        Rule(f"Schema, {name}", f"{name}.schema", rf"{start}[\s\S]*?\n```\n\nParams:\n(\{{[\s\S]*?^\}})", read_json),
    )


def fenced(section: str, name: str, before: str) -> Rule:
    """The text in a fence, found by the line before it."""
    return Rule(section, name, rf"^{before}[^\n]*\n```\n([\s\S]*?)\n```$", anchor="## 工具实现")


THREE_TOOLS = (
    *(rule for name in ("Read", "Edit", "MultiEdit") for rule in described(name)),
    Rule("FileTracker", "tracker.unread", r'如果文件不存在，需要报错：```"(.*?)"```'),
    Rule("FileTracker", "tracker.stale", r"需要那么报错 ```(.*?)```"),
    fenced("Errors of all", "path.missing", "1. 如果路径不存在"),
    fenced("Errors of all", "path.directory", "2. 如果路径是一个目录"),
    fenced("Read", "read.page", "示例："),
    Rule("Read, cuts 1", "read.lines", r"读取的内容大于 (\d+) 行", read_number),
    fenced("Read, cuts 1", "read.more_lines", "1. 如果 limit\\+offset 下"),
    Rule("Read, cuts 2", "read.line_chars", r"单行的内容超过 (\d+) 个字符", read_number),
    fenced("Read, cuts 2", "read.more_characters", "2. 如果任意一行单行"),
    Rule("Read, errors 1", "read.most_kb", r"文件大于 (\d+) KB", read_number),
    fenced("Read, errors 1", "read.too_large", "1. 文件大于"),
    Rule("Read, errors 2", "read.most_chars", r"超过 (\d+) 字符，报错", read_number),
    fenced("Read, errors 2", "read.too_long", "2. 如果读取的总长度"),
    fenced("Read, errors 3", "read.past_end", "3. 如果 offset 大于文件行数"),
    Rule("Edit", "edit.diff_lines", r"context_line=(\d+)", read_number),
    fenced("Edit", "edit.done", "注意你需要返回一个 编辑 diff"),
    fenced("Edit, 1", "edit.not_found", "1. old_string 不存在"),
    fenced("Edit, 2", "edit.same", "2. old_string 和 new_string 相同"),
    fenced("Edit, 3", "edit.exists", "3. old_string 为空"),
    fenced("Edit, 4", "edit.created", "4. old_string 为空"),
    fenced("Edit, 5", "edit.many", "5. old_string 在文件中重复"),
    fenced("Edit, 6", "edit.every", "6. old_string 在文件中重复"),
    Rule("MultiEdit", "multi_edit.done", r"### MultiEdit 工具[\s\S]*?返回格式：\n```\n([\s\S]*?)\n```$"),
)


# --- 003: three tools in TypeScript, and the registry


def typescript_tool(section: str, name: str) -> tuple[Rule, ...]:
    start = f'function: {{\nname: "{name}",'
    return (
        Rule(section, f"{name}.description", r"description:\n([\s\S]*?),\nparameters: \{", read_joined, start),
        Rule(section, f"{name}.schema", r"parameters: (\{[\s\S]*?^\}),\n\},\n\}\),$", read_typescript, start),
    )


def returned(section: str, name: str, start: str) -> Rule:
    return Rule(section, name, rf'return "({start}[^"]*)";')


SESSION_TOOLS = (
    *typescript_tool("2", "read_file"),
    *typescript_tool("3", "write_file"),
    *typescript_tool("4", "edit_file"),
    returned("1", "path.outside", "错误:禁止访问"),
    returned("2", "path.empty", "错误:file_path"),
    returned("2", "path.missing", "错误:文件不存在"),
    Rule("2", "read.failed", r"return `(错误:读取失败 — )\$\{msg\}`"),
    Rule("2", "read.lines", r"const maxLines = (\d+);", read_number),
    Rule("2", "read.number_width", r"padStart\((\d+), \" \"\)", read_number),
    Rule("2", "read.arrow", r'padStart\(6, " "\)\}(.)\$\{line\}'),
    Rule("2", "read.chars", r"const cap = ([\d_]+);", read_number),
    Rule("2", "read.cut", r"\$\{out\.slice\(0, cap\)\}(\\n[^`]*)`", read_lines),
    Rule("3", "write.unread", r'return \(\n("错误:目标文件已存在[\s\S]*?")\n\);', read_joined),
    Rule("3", "write.done", r"JSON\.stringify\(\{ ([^}]*) \}, null, 2\)", read_words, "Buffer.byteLength"),
    Rule("4", "edit.done", r"JSON\.stringify\(\{ ([^}]*) \}, null, 2\)", read_words, "// 逻辑重点"),
    Rule("4", "json.indent", r"JSON\.stringify\(\{[^}]*\}, null, (\d+)\)", read_number),
    returned("4", "edit.same", "错误:old_string 与"),
    returned("4", "edit.unread", "错误:请先用 read_file"),
    returned("4", "edit.none_at_all", "错误:找不到任何"),
    returned("4", "edit.none", "错误:找不到 old_string"),
    Rule("4", "edit.many", r'return \(\n("错误:old_string 出现多次[\s\S]*?")\n\);', read_joined),
    Rule("5", "registry", r"AGENT_TOOLS: readonly AgentTool\[\] = \[\n([\s\S]*?)\];", read_words),
    Rule("6", "prompt.real_output", r"^\"你是命令行里的编码助手。(.*?)若用户明确要求"),
    Rule("6", "prompt.order", r"优先使用 `uppercase` 工具。(.*?)\";"),
    Rule("verification", "task", r"^# (修改 README\.md,把所有 TODO 改为 DONE)"),
)


# --- 004: LS, Glob, Grep and Read

LOOKING_TOOLS = (
    Rule("opening", "tools", r"四个最基础、也最常用的工具：\*\*(.*?)\*\*", lambda found: found.split("、")),
    Rule("1", "status", r"并明确标记 `(\w+)`"),
    Rule("2", "ls.heavy", r"`DEFAULT_IGNORE` 内置了 (.*?) 等", lambda found: re.findall(r"`([^`]*)`", found)),
    Rule("2", "ls.limit", r"\*\*支持分页\*\*：`limit` 最大 (\d+)", read_number),
    Rule("2", "ls.next", r"超出会被标记为 `partial`，并提示 `(\w+)` 继续"),
    Rule("2", "ls.hidden", r"\*\*隐藏文件控制\*\*：`(\w+)` 默认为 false"),
    Rule("2", "ls.ignore", r"支持 `(\w+)` 传入 glob 模式"),
    Rule("2", "ls.entries", r"`data\.(\w+)` 只包含 `\{path, type\}`"),
    Rule("2", "ls.entry", r"`data\.entries` 只包含 `\{(.*?)\}`", read_words),
    Rule("3", "glob.required", r"\*\*(\w+) 必填\*\*"),
    Rule("3", "glob.limit", r"\*\*结果数量受限\*\*（`limit` 最大 (\d+)）", read_number),
    Rule("3", "glob.most_visited", r"`MAX_VISITED_ENTRIES=([\d_]+)`", read_number),
    Rule("3", "glob.most_ms", r"`MAX_DURATION_MS=([\d_]+)`", read_number),
    Rule("3", "glob.flags", r"默认不遍历\*\*（(.*?) 控制）", lambda found: re.findall(r"`(\w+)`", found)),
    Rule("3", "glob.pattern", r"可能把 `([^`]*)` 错配到更深层级"),
    Rule("4", "grep.matches", r"`MAX_RESULTS = (\d+)`", read_number),
    Rule("4", "grep.seconds", r"`TIMEOUT_SEC = ([\d.]+)`", read_number),
    Rule("4", "grep.fallback", r"Grep 的返回会标记 `(\w+)`"),
    Rule("4", "grep.aborted", r"Grep 的返回会标记 `\w+` 或 `(\w+)`"),
    Rule("5", "read.lines", r"默认 (\d+) 行，最大 \d+ 行", read_number),
    Rule("5", "read.most_lines", r"默认 \d+ 行，最大 (\d+) 行", read_number),
    Rule("5", "read.probe_kb", r"读取前 (\d+)KB，遇到 null byte", read_number),
    Rule("5", "read.changed", r"会在输出中提示 `(\w+)`"),
    Rule("5", "read.mtime", r"因为它会提供 `(\w+)`"),
    Rule("5", "read.parameters", r"下方有 (\w+/\w+) 的标注", lambda found: found.split("/")),
    Rule("6", "instructions", r"^(一个典型的探索流程通常是：[\s\S]*?也更省 token。)$"),
)

RULES: Mapping[str, Sequence[Rule]] = {
    "000_76f0e4b8fd2da10e.txt": FILE_TOOLS,
    "001_4b7e0392cb4a5596.txt": FOUR_TOOLS,
    "002_514d1e3e15788c30.txt": THREE_TOOLS,
    "003_ed2811946ec4866f.txt": SESSION_TOOLS,
    "004_a39344133325a2e7.txt": LOOKING_TOOLS,
}


# --- extraction


def extract(document: Path) -> Iterator[dict[str, Any]]:
    """One row per rule; a rule that finds nothing ends the run."""
    data = document.read_bytes()
    text, digest = data.decode("utf-8"), sha256(data).hexdigest()
    for rule in RULES[document.name]:
        found = re.compile(rule.pattern, re.MULTILINE).search(text, text.index(rule.anchor))
        if not found:
            sys.exit(f"checks/sources.py: {document.name}: nothing matches {rule.name}: {rule.pattern}")
        yield {"name": rule.name, "section": rule.section, "sha256": digest, "value": rule.read(found[1])}


def target(name: str) -> Path:
    return TARGET / f"{name.removesuffix('.txt')}.json"


def format_rows(document: Path) -> str:
    return json.dumps(list(extract(document)), indent=2, ensure_ascii=False) + "\n"


def main(folder: str, *options: str) -> None:
    different: list[str] = []
    for name in RULES:
        made, file = format_rows(Path(folder) / name), target(name)
        if not file.exists() or file.read_text("utf-8") != made:
            different.append(file.name)
        if "--check" not in options:
            file.write_text(made, "utf-8")
    if different and "--check" in options:
        sys.exit(f"checks/sources.py: not what the documents say: {', '.join(different)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
