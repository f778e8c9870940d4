"""sed and awk: filters with their own languages, which can run programs and write files."""

import re

from handhold.core.policy.shell.grammar import AnalysisError
from handhold.core.policy.shell.simple_command import ProgramArguments, SimpleCommand
from handhold.core.policy.shell.words import UNKNOWN, Word

# --- sed

_SED_VALUE_OPTIONS = frozenset(("-e", "--expression", "-f", "--file", "-l", "--line-length"))
_SED_ADDRESS = re.compile(r"\s*(?:\d+(?:~\d+)?|\$|\+\d+|~\d+)")


def analyze_sed(command: SimpleCommand) -> None:
    words, in_place = list(command.arguments), False
    for at, word in enumerate(words):  # a suffix of -i is part of the same word
        if re.fullmatch(r"-[nErsuz]*i.*", word.text) and not word.text.startswith("--"):
            words[at], in_place = Word("-n"), True
    options = ProgramArguments.parse(words, _SED_VALUE_OPTIONS)
    in_place = in_place or options.has_option("--in-place")
    scripts = [value for value in options.get_values("-e", "--expression") if value]
    files = [value for value in options.get_values("-f", "--file") if value]
    operands = options.operands
    if not scripts and not files:
        scripts, operands = list(operands[:1]), operands[1:]
    for script in scripts:
        _analyze_sed_script(command, script)
    for word in files:
        _analyze_script_file(command, word)
    for word in operands:
        (command.check_write if in_place else command.check_read)(word)
    if in_place:
        command.report_change()


def _analyze_sed_script(command: SimpleCommand, script: Word) -> None:
    if UNKNOWN in script.text:
        command.report_unknown("the script of `sed` is not known before it runs")
        return
    for sed_command, argument in parse_sed_commands(re.sub("[\1\2]", "1", script.text)):
        match sed_command:
            case "e":
                command.report_dangerous("the command `e` of `sed` runs a program")
            case "w" | "W":
                command.check_write(Word(argument))
                command.report_change()
            case "r" | "R":
                command.check_read(Word(argument))
            case _:
                pass


def parse_sed_commands(script: str) -> list[tuple[str, str]]:
    """The commands of a script that do more than edit text, each with the file it names."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(script):
        at = _skip_addresses(script, at)
        if at >= len(script):
            break
        char = script[at]
        at += 1
        if char in "{};\n \t":
            continue
        if char in "sy":
            at, flags, name = _parse_substitution(script, at)
            found += [("e", "")] if "e" in flags else []
            found += [("w", name)] if "w" in flags else []
        elif char in "wWrRe":
            end = _find_line_end(script, at)
            found.append((char, script[at:end].strip()))
            at = end
        elif char in "aic":
            at = _find_text_end(script, at)
        elif char in ":btT":
            at = _skip_match(r"[^;\n}]*", script, at)
        elif char in "qQlL":
            at = _skip_match(r"\s*\d*", script, at)
        elif char == "#":
            at = _find_line_end(script, at)
        elif char not in "=dDgGhHnNpPxzF":
            raise AnalysisError("the script of `sed` cannot be parsed")
    return found


def _skip_addresses(script: str, at: int) -> int:
    while at < len(script):
        if found := _SED_ADDRESS.match(script, at):
            at = found.end()
        elif script[at] == "/":
            at = _skip_regex(script, at + 1, "/")
            at = _skip_match(r"[IM]*", script, at)
        elif script[at] == "\\" and at + 1 < len(script):
            at = _skip_regex(script, at + 2, script[at + 1])
            at = _skip_match(r"[IM]*", script, at)
        elif script[at] in ", \t!;\n{":
            at += 1
        else:
            break
    return at


def _skip_regex(script: str, at: int, end: str) -> int:
    """Skip a regular expression. Reject a delimiter in brackets: versions of sed disagree on whether it ends there."""
    stop = _skip_delimited(script, at, end)
    for bracket in re.finditer(r"\[\^?\]?[^\]\n]*\]", script[at:]):
        if bracket.start() < stop - at <= bracket.end() and end != "[":
            raise AnalysisError("the script of `sed` cannot be parsed")
    return stop


def _skip_delimited(script: str, at: int, end: str) -> int:
    """The position after the next delimiter."""
    while at < len(script):
        if script[at] == "\\":
            at += 2
        elif script[at] == end:
            return at + 1
        else:
            at += 1
    raise AnalysisError("the script of `sed` cannot be parsed")


def _parse_substitution(script: str, at: int) -> tuple[int, str, str]:
    if at >= len(script) or script[at] in "\\\n":
        raise AnalysisError("the script of `sed` cannot be parsed")
    end = script[at]
    at = _skip_delimited(script, _skip_regex(script, at + 1, end), end)
    start, at = at, _skip_match(r"[gpiImMe0-9]*", script, at)
    flags = script[start:at]
    if at < len(script) and script[at] == "w":
        stop = _find_line_end(script, at)
        return stop, flags + "w", script[at + 1 : stop].strip()
    return at, flags, ""


def _skip_match(expression: str, script: str, at: int) -> int:
    found = re.compile(expression).match(script, at)
    return found.end() if found else at


def _find_line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end


def _find_text_end(script: str, at: int) -> int:
    """The end of the text of a, i or c, which continues after a backslash at the end of a line."""
    while at < len(script):
        end = _find_line_end(script, at)
        if not script[at:end].endswith("\\"):
            return end
        at = end + 1
    return at


def _analyze_script_file(command: SimpleCommand, word: Word) -> None:
    """Accept a script file of the workspace; code from a substitution cannot be inspected."""
    if word.text.startswith("/dev/") or word.text == "-":
        command.report_unknown(f"the script of `{command.name}` is not known before it runs")
    command.check_read(word)
    command.report_change()


# --- awk

_AWK_VALUE_OPTIONS = frozenset(
    ("-F", "-v", "-f", "-i", "-l", "-e", "-E", "--field-separator", "--assign", "--file", "--source")
)
_AWK_EXEC = re.compile(r"\bsystem\b|@|\|&|(?<!\|)\|(?!\|)|\bfflush\b(?!\s*\()")
_OPERAND_END = re.compile(r"[\w)\]$\x02](?<!\bprint)(?<!\bprintf)(?<!\breturn)\s*\Z")


def analyze_awk(command: SimpleCommand) -> None:
    options = ProgramArguments.parse(command.arguments, _AWK_VALUE_OPTIONS, permute=False)
    if options.has_option(
        "-l", "--load", "-i", "--include", "-E", "--exec", "-D", "--debug", "-p", "--profile", "-o", "-d"
    ):
        command.report_dangerous(f"`{command.name}` loads other code, or writes a file")
    files = [value for value in options.get_values("-f", "--file") if value]
    sources = [value for value in options.get_values("-e", "--source") if value]
    operands = options.operands
    if not files and not sources:
        sources, operands = list(operands[:1]), operands[1:]
    for word in files:
        _analyze_script_file(command, word)
    for word in sources:
        _analyze_awk_program(command, word.text)
    for word in operands:
        if not re.match(r"\w+=", word.text):
            command.check_read(word)


def _analyze_awk_program(command: SimpleCommand, code: str) -> None:
    if UNKNOWN in code:
        command.report_unknown("the program of `awk` is not known before it runs")
        return
    bare, strings = _extract_strings(code)
    bare = re.sub(r"(,|&&|\|\||\\)\s*\n", r"\1 ", bare)  # join continued statements
    if _AWK_EXEC.search(bare):
        command.report_unknown("`awk` would run another program")
    if any(text.startswith("/inet") for text in strings):
        command.report_network()
    for found in re.finditer(r"\bprintf?\b([^;}\n]*)", bare):
        _analyze_awk_output(command, found[1], strings)
    for found in re.finditer(r"\bgetline\b[^;}\n<]*<\s*(?:\x02(\d+)\x02)?", bare):
        command.check_read(_resolve_file_word(found[1], strings))


def _analyze_awk_output(command: SimpleCommand, rest: str, strings: list[str]) -> None:
    """After `print`, a `>` outside brackets names a file."""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char in "([") - (char in ")]")
        if char == ">" and depth <= 0:
            named = re.match(r">?\s*\x02(\d+)\x02\s*\Z", rest[at + 1 :])
            command.check_write(_resolve_file_word(named[1] if named else None, strings))
            command.report_change()
            return


def _resolve_file_word(number: str | None, strings: list[str]) -> Word:
    text = strings[int(number)] if number else UNKNOWN
    return Word(UNKNOWN if "\\" in text else text)


def _extract_strings(code: str) -> tuple[str, list[str]]:
    """The code with a numbered placeholder for each string, and without regular expressions and comments."""
    bare, strings, at = "", list[str](), 0
    while at < len(code):
        char = code[at]
        if char == '"':
            end = _find_closing(code, at + 1, '"')
            bare += f"\x02{len(strings)}\x02"
            strings.append(code[at + 1 : end - 1])
            at = end
        elif char == "/" and not _OPERAND_END.search(bare):
            at = _find_closing(code, at + 1, "/")
            bare += "\x03"
        elif char == "#":
            at = code.find("\n", at) if "\n" in code[at:] else len(code)
        else:
            bare += char
            at += 1
    return bare, strings


def _find_closing(code: str, at: int, end: str) -> int:
    while at < len(code):
        if code[at] == "\\":
            at += 2
        elif code[at] == end:
            return at + 1
        else:
            at += 1
    raise AnalysisError("the program of `awk` cannot be parsed")
