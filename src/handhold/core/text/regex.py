r"""Translate ripgrep's regular expressions to Python's.

Models write for ripgrep, whose syntax differs in details: `\A` and `\z` are the ends of a line, no class matches a line
break or undecodable bytes, `a*+` is a repeated star, and there are no lookarounds or backreferences. Syntax without a
counterpart is rejected by name, never misread.
"""

import re
import string
from dataclasses import dataclass, field
from functools import cache
from unicodedata import category

from handhold.core.errors import BadRegex

INVALID_BYTES = "\udc80-\udcff"  # undecodable bytes, as Python represents them
NEVER_MATCHED = f"\\n{INVALID_BYTES}"
SPACE = "\\t\\x0b\\x0c\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
GUARD = f"(?![{NEVER_MATCHED}])"
CLASS_ESCAPES = {
    "d": "\\d",
    "w": "\\w",
    "s": f"[{SPACE}]",
    "D": f"{GUARD}\\D",
    "W": f"{GUARD}\\W",
    "S": f"[^{SPACE}{NEVER_MATCHED}]",
}
ASSERTIONS = {"b": "\\b", "B": "\\B", "A": "^", "z": "$", "<": "\\b(?=\\w)", ">": "\\b(?<=\\w)"}
BOUNDARIES = {
    "start": "\\b(?=\\w)",
    "end": "\\b(?<=\\w)",
    "start-half": "(?<!\\w)",
    "end-half": "(?!\\w)",
}
CONTROL_ESCAPES = {"t": "\\t", "r": "\\r", "f": "\\x0c", "v": "\\x0b", "a": "\\x07"}
POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\x0b\\x0c\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
CATEGORIES = {"letter": "L", "mark": "M", "number": "N", "punctuation": "P", "symbol": "S", "separator": "Z"} | {
    "uppercase": "Lu", "lowercase": "Ll", "alphabetic": "L", "any": "", "digit": "Nd", "control": "Cc"
}  # fmt: skip
QUANTIFIER = re.compile(r"[*+?]|\{(\d+)(?:,(\d*))?\}")
GROUP = re.compile(r"\(\?(?:P?<(?P<name>[A-Za-z_][\w.\[\]]*)>|(?P<flags>[a-zA-Z-]*)(?P<end>[:)]))")
CODE_POINT = re.compile(r"x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[xuU]\{([0-9A-Fa-f]{1,8})\}")
PROPERTY = re.compile(r"[pP](?:\{(\^?)([^}]*)\}|([A-Z]))")
MAX_CODE_POINT = 0x10FFFF


def compile_regex(pattern: str, *, ignore_case: bool) -> "re.Pattern[str]":
    """Compile for text of whole lines, decoded with surrogateescape; raise BadRegex. Never matches across lines."""
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
    try:
        return re.compile(RegexTranslator(pattern).translate(), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadRegex(pattern, str(error)) from None


@dataclass
class RegexTranslator:
    pattern: str
    position: int = 0
    output: list[str] = field(default_factory=list[str])  # the translated expression, piece by piece
    flag_groups: list[list[str]] = field(default_factory=lambda: [[]])  # per open group: the flags set inside it
    group_starts: list[int] = field(default_factory=list[int])  # where in `output` each open group begins
    is_repeatable: bool = False

    def translate(self) -> str:
        while self.position < len(self.pattern):
            char = self.pattern[self.position]
            if quantifier := QUANTIFIER.match(self.pattern, self.position):
                self.translate_quantifier(quantifier)
            elif char == "{":
                raise self.error("a '{' that repeats nothing; write \\{ for the character")
            elif char == "\\":
                self.position += 1
                self.translate_escape()
            elif char == "[":
                self.emit(self.parse_class())
            elif char == "(":
                self.open_group()
            elif char == ")":
                self.close_group()
            elif char == "|":
                self.position += 1
                flag_group = self.flag_groups[-1]
                self.emit(f"{')' * len(flag_group)}|{''.join(flag_group)}", repeatable=False)
            elif char in "^$":
                self.position += 1
                self.emit(char)
            else:
                self.position += 1
                self.emit(f"[^{NEVER_MATCHED}]" if char == "." else re.escape(char))
        if self.group_starts:
            raise self.error("a ')' is missing")
        return "".join(self.output) + ")" * len(self.flag_groups[0])

    def error(self, because: str) -> BadRegex:
        return BadRegex(self.pattern, because)

    def emit(self, piece: str, *, repeatable: bool = True) -> None:
        self.output.append(piece)
        self.is_repeatable = repeatable

    def translate_quantifier(self, quantifier: "re.Match[str]") -> None:
        if not self.is_repeatable:
            raise self.error(f"{quantifier.group()!r} repeats nothing")
        self.position = quantifier.end()
        lazy = self.pattern[self.position : self.position + 1] == "?"
        self.position += lazy
        self.emit(f"(?:{self.output.pop()}){quantifier.group()}{'?' if lazy else ''}")

    def translate_escape(self) -> None:
        rest = self.pattern[self.position :]
        char = rest[:1]
        if not char:
            raise self.error("it ends with a backslash")
        if char == "b" and rest[1:2] == "{":
            kind = rest[2 : rest.find("}")] if "}" in rest else ""
            if kind not in BOUNDARIES:
                raise self.error("'\\b{' is not followed by start, end, start-half or end-half")
            self.position += len(kind) + 3
            return self.emit(BOUNDARIES[kind])
        if char in ASSERTIONS:
            self.position += 1
            return self.emit(ASSERTIONS[char])
        if char in CLASS_ESCAPES:
            self.position += 1
            return self.emit(CLASS_ESCAPES[char])
        if char in "pP":
            negated, ranges = self.parse_property()
            return self.emit(f"[^{ranges}{NEVER_MATCHED}]" if negated else f"[{ranges}]")
        return self.emit(self.parse_character())

    def parse_character(self) -> str:
        """One escaped character."""
        char = self.pattern[self.position]
        if code := CODE_POINT.match(self.pattern, self.position):
            self.position = code.end()
            number = int(code[1] or code.group()[1:], 16)
            if number > MAX_CODE_POINT or 0xD800 <= number <= 0xDFFF:
                raise self.error(f"'\\{code.group()}' is no character")
            return self.escape_character(chr(number))
        self.position += 1
        if char == "n":
            raise self.error("it contains a line break, but each line is searched separately")
        if char in CONTROL_ESCAPES:
            return CONTROL_ESCAPES[char]
        if char.isdigit():
            raise self.error("backreferences are not supported")
        if char in string.ascii_letters or not char.isascii():
            raise self.error(f"'\\{char}' means nothing")
        return re.escape(char)

    def escape_character(self, char: str) -> str:
        if char == "\n":
            raise self.error("it contains a line break, but each line is searched separately")
        return re.escape(char)

    def parse_property(self) -> tuple[bool, str]:
        named = PROPERTY.match(self.pattern, self.position)
        if not named:
            raise self.error("'\\p' is not followed by the name of a class")
        self.position = named.end()
        name = named[3] or named[2]
        short = CATEGORIES.get(name.lower().replace("_letter", ""), name)
        ranges = build_category_ranges(short) if len(short) <= 2 else ""
        if not ranges:
            raise self.error(f"the class {name!r} is not known here, only general categories are")
        return (named.group()[0] == "P") != bool(named[1]), ranges

    # --- groups

    def open_group(self) -> None:
        self.group_starts.append(len(self.output))
        self.flag_groups.append([])
        if self.pattern[self.position + 1 : self.position + 2] != "?":
            self.position += 1
            return self.emit("(", repeatable=False)
        group = GROUP.match(self.pattern, self.position)
        if not group:
            raise self.error("look-around and this kind of group are not supported")
        self.position = group.end()
        if group["name"]:
            return self.emit("(", repeatable=False)
        opening = f"(?{self.translate_flags(group['flags'])}:"
        if group["end"] == ")":  # flags for the rest of the enclosing group
            self.group_starts.pop()
            self.flag_groups.pop()
            self.flag_groups[-1].append(opening)
        return self.emit(opening, repeatable=False)

    def translate_flags(self, flags: str) -> str:
        """The flags that matter here: a line break is never matched, and every line has its ends."""
        on, _, off = flags.partition("-")
        if unknown := (set(on) - set("ismu")) | (set(off) - set("is")):
            raise self.error(f"the flag {min(unknown)!r} is not known here")
        return ("i" if "i" in on else "") + ("-i" if "i" in off else "")

    def close_group(self) -> None:
        if not self.group_starts:
            raise self.error("a '(' is missing")
        self.position += 1
        start = self.group_starts.pop()
        group = "".join(self.output[start:]) + ")" * (len(self.flag_groups.pop()) + 1)
        del self.output[start:]
        self.emit(group)

    # --- classes

    def parse_class(self) -> str:
        self.position += 1
        negated = self.pattern[self.position : self.position + 1] == "^"
        self.position += negated
        items: list[str] = []
        first = True
        while (char := self.pattern[self.position : self.position + 1]) != "]" or first:
            if not char:
                raise self.error("a ']' is missing")
            if char == "[" and not self.pattern.startswith("[:", self.position):
                raise self.error("a class within a class is not known here; write \\[ for the character")
            if self.pattern[self.position : self.position + 2] in ("&&", "--", "~~") and not first:
                raise self.error("classes are not combined here")
            items.append(self.parse_class_item())
            first = False
        self.position += 1
        if negated:
            return f"[^{''.join(items)}{NEVER_MATCHED}]"
        return f"{GUARD}[{''.join(items)}]"

    def parse_class_item(self) -> str:
        """A character, a range, or a named class."""
        if self.pattern.startswith("[:", self.position):
            end = self.pattern.find(":]", self.position)
            name = self.pattern[self.position + 2 : end]
            if name not in POSIX_CLASSES:
                raise self.error(f"'[:{name}:]' is not known here")
            self.position = end + 2
            return POSIX_CLASSES[name]
        if self.pattern[self.position] == "\\" and (char := self.pattern[self.position + 1 : self.position + 2]):
            if char in CLASS_ESCAPES:
                self.position += 2
                return SPACE if char == "s" else f"\\{char}"
            if char in "pP":
                self.position += 1
                negated, ranges = self.parse_property()
                if negated:
                    raise self.error("a class that leaves one out is not known within another here")
                return ranges
        low = self.parse_class_bound()
        if self.pattern[self.position : self.position + 1] != "-" or self.pattern[
            self.position + 1 : self.position + 2
        ] in ("]", ""):
            return low
        self.position += 1
        if self.pattern[self.position] == "[":
            raise self.error("a range ends with a '['")
        return f"{low}-{self.parse_class_bound()}"

    def parse_class_bound(self) -> str:
        char = self.pattern[self.position]
        self.position += 1
        if char != "\\":
            return re.escape(char)
        if self.position == len(self.pattern):
            raise self.error("it ends with a backslash")
        return self.parse_character()


@cache
def build_category_ranges(short: str) -> str:
    """The characters of a general category, as ranges for a class."""
    out: list[str] = []
    start = None
    for code in range(MAX_CODE_POINT + 2):
        inside = code <= MAX_CODE_POINT and not 0xD800 <= code <= 0xDFFF and category(chr(code)).startswith(short)
        inside = inside and code != 0x0A
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            out.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    return "".join(out)
