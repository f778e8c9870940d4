"""sed and awk: filters with a language of their own, which can run programs and write files."""

import re

from handhold.core.policy.shell.call import Call, Options
from handhold.core.policy.shell.grammar import Unsure
from handhold.core.policy.shell.words import HOLE, Word

# --- sed

_SED_TAKES = frozenset(("-e", "--expression", "-f", "--file", "-l", "--line-length"))
_ADDRESS = re.compile(r"\s*(?:\d+(?:~\d+)?|\$|\+\d+|~\d+)")


def sed(call: Call) -> None:
    words, in_place = list(call.arguments), False
    for at, word in enumerate(words):  # -i takes its suffix only right behind it
        if re.fullmatch(r"-[nErsuz]*i.*", word.text) and not word.text.startswith("--"):
            words[at], in_place = Word("-n"), True
    options = Options.read(words, _SED_TAKES)
    in_place = in_place or options.has("--in-place")
    scripts = [value for value in options.named("-e", "--expression") if value]
    files = [value for value in options.named("-f", "--file") if value]
    operands = options.operands
    if not scripts and not files:
        scripts, operands = list(operands[:1]), operands[1:]
    for script in scripts:
        _sed_script(call, script)
    for word in files:
        _script_file(call, word)
    for word in operands:
        (call.writes if in_place else call.reads)(word)
    if in_place:
        call.changes()


def _sed_script(call: Call, script: Word) -> None:
    if HOLE in script.text:
        call.unknown("the script of `sed` is not known before it runs")
        return
    for command, argument in sed_commands(re.sub("[\1\2]", "1", script.text)):
        match command:
            case "e":
                call.dangerous("`sed` runs a program with its `e`")
            case "w" | "W":
                call.writes(Word(argument))
                call.changes()
            case "r" | "R":
                call.reads(Word(argument))
            case _:
                pass


def sed_commands(script: str) -> list[tuple[str, str]]:
    """The commands of a script that do more than change text, with the file that they name."""
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(script):
        at = _past_addresses(script, at)
        if at >= len(script):
            break
        char = script[at]
        at += 1
        if char in "{};\n \t":
            continue
        if char in "sy":
            at, flags, name = _substitution(script, at)
            found += [("e", "")] if "e" in flags else []
            found += [("w", name)] if "w" in flags else []
        elif char in "wWrRe":
            end = _line_end(script, at)
            found.append((char, script[at:end].strip()))
            at = end
        elif char in "aic":
            at = _text_end(script, at)
        elif char in ":btT":
            at = _past(r"[^;\n}]*", script, at)
        elif char in "qQlL":
            at = _past(r"\s*\d*", script, at)
        elif char == "#":
            at = _line_end(script, at)
        elif char not in "=dDgGhHnNpPxzF":
            raise Unsure("the script of `sed` cannot be read")
    return found


def _past_addresses(script: str, at: int) -> int:
    while at < len(script):
        if found := _ADDRESS.match(script, at):
            at = found.end()
        elif script[at] == "/":
            at = _expression(script, at + 1, "/")
            at = _past(r"[IM]*", script, at)
        elif script[at] == "\\" and at + 1 < len(script):
            at = _expression(script, at + 2, script[at + 1])
            at = _past(r"[IM]*", script, at)
        elif script[at] in ", \t!;\n{":
            at += 1
        else:
            break
    return at


def _expression(script: str, at: int, end: str) -> int:
    """Behind a regular expression. A delimiter in brackets ends it for some versions of sed, and not for others."""
    stop = _delimited(script, at, end)
    for bracket in re.finditer(r"\[\^?\]?[^\]\n]*\]", script[at:]):
        if bracket.start() < stop - at <= bracket.end() and end != "[":
            raise Unsure("the script of `sed` cannot be read")
    return stop


def _delimited(script: str, at: int, end: str) -> int:
    """Behind the next delimiter."""
    while at < len(script):
        if script[at] == "\\":
            at += 2
        elif script[at] == end:
            return at + 1
        else:
            at += 1
    raise Unsure("the script of `sed` cannot be read")


def _substitution(script: str, at: int) -> tuple[int, str, str]:
    if at >= len(script) or script[at] in "\\\n":
        raise Unsure("the script of `sed` cannot be read")
    end = script[at]
    at = _delimited(script, _expression(script, at + 1, end), end)
    start, at = at, _past(r"[gpiImMe0-9]*", script, at)
    flags = script[start:at]
    if at < len(script) and script[at] == "w":
        stop = _line_end(script, at)
        return stop, flags + "w", script[at + 1 : stop].strip()
    return at, flags, ""


def _past(expression: str, script: str, at: int) -> int:
    found = re.compile(expression).match(script, at)
    return found.end() if found else at


def _line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end


def _text_end(script: str, at: int) -> int:
    """The text of a, i and c goes on where a line ends with a backslash."""
    while at < len(script):
        end = _line_end(script, at)
        if not script[at:end].endswith("\\"):
            return end
        at = end + 1
    return at


def _script_file(call: Call, word: Word) -> None:
    """A script of the workspace is daily work; one that a substitution hands over nobody could look at."""
    if word.text.startswith("/dev/") or word.text == "-":
        call.unknown(f"the script of `{call.name}` is not known before it runs")
    call.reads(word)
    call.changes()


# --- awk

_AWK_TAKES = frozenset(
    ("-F", "-v", "-f", "-i", "-l", "-e", "-E", "--field-separator", "--assign", "--file", "--source")
)
_AWK_CODE = re.compile(r"\bsystem\b|@|\|&|(?<!\|)\|(?!\|)|\bfflush\b(?!\s*\()")
_OPERAND_ENDS = re.compile(r"[\w)\]$\x02](?<!\bprint)(?<!\bprintf)(?<!\breturn)\s*\Z")


def awk(call: Call) -> None:
    options = Options.read(call.arguments, _AWK_TAKES, permute=False)
    if options.has("-l", "--load", "-i", "--include", "-E", "--exec", "-D", "--debug", "-p", "--profile", "-o", "-d"):
        call.dangerous(f"`{call.name}` loads more than its program, or writes a file")
    files = [value for value in options.named("-f", "--file") if value]
    sources = [value for value in options.named("-e", "--source") if value]
    operands = options.operands
    if not files and not sources:
        sources, operands = list(operands[:1]), operands[1:]
    for word in files:
        _script_file(call, word)
    for word in sources:
        _awk_program(call, word.text)
    for word in operands:
        if not re.match(r"\w+=", word.text):
            call.reads(word)


def _awk_program(call: Call, code: str) -> None:
    if HOLE in code:
        call.unknown("the program of `awk` is not known before it runs")
        return
    bare, strings = _without_strings(code)
    bare = re.sub(r"(,|&&|\|\||\\)\s*\n", r"\1 ", bare)  # where a statement goes on
    if _AWK_CODE.search(bare):
        call.unknown("`awk` would run another program")
    if any(text.startswith("/inet") for text in strings):
        call.connects()
    for found in re.finditer(r"\bprintf?\b([^;}\n]*)", bare):
        _awk_output(call, found[1], strings)
    for found in re.finditer(r"\bgetline\b[^;}\n<]*<\s*(?:\x02(\d+)\x02)?", bare):
        call.reads(_named(found[1], strings))


def _awk_output(call: Call, rest: str, strings: list[str]) -> None:
    """Behind `print`, a `>` outside brackets is a file."""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char in "([") - (char in ")]")
        if char == ">" and depth <= 0:
            named = re.match(r">?\s*\x02(\d+)\x02\s*\Z", rest[at + 1 :])
            call.writes(_named(named[1] if named else None, strings))
            call.changes()
            return


def _named(number: str | None, strings: list[str]) -> Word:
    text = strings[int(number)] if number else HOLE
    return Word(HOLE if "\\" in text else text)


def _without_strings(code: str) -> tuple[str, list[str]]:
    """The code with a number for each string, and nothing for each expression and comment."""
    bare, strings, at = "", list[str](), 0
    while at < len(code):
        char = code[at]
        if char == '"':
            end = _closed(code, at + 1, '"')
            bare += f"\x02{len(strings)}\x02"
            strings.append(code[at + 1 : end - 1])
            at = end
        elif char == "/" and not _OPERAND_ENDS.search(bare):
            at = _closed(code, at + 1, "/")
            bare += "\x03"
        elif char == "#":
            at = code.find("\n", at) if "\n" in code[at:] else len(code)
        else:
            bare += char
            at += 1
    return bare, strings


def _closed(code: str, at: int, end: str) -> int:
    while at < len(code):
        if code[at] == "\\":
            at += 2
        elif code[at] == end:
            return at + 1
        else:
            at += 1
    raise Unsure("the program of `awk` cannot be read")
