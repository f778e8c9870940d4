r"""Regular expressions as ripgrep reads them, said in Python's.

Models write for ripgrep, whose grammar differs in small things: `\A` and `\z` are the ends of a line, no class holds
the line break or bytes that are no text, `a*+` is a star said twice, and there is no looking around or back. What has
no counterpart here is refused by name, never read as something else.
"""

import re
import string
from dataclasses import dataclass, field
from functools import cache
from unicodedata import category

from handhold.core.errors import BadRegex

BROKEN = "\udc80-\udcff"  # bytes that are no UTF-8, as Python decodes them
NEVER = f"\\n{BROKEN}"
SPACE = "\\t\\x0b\\x0c\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000"
GUARD = f"(?![{NEVER}])"
PLAIN = {
    "d": "\\d",
    "w": "\\w",
    "s": f"[{SPACE}]",
    "D": f"{GUARD}\\D",
    "W": f"{GUARD}\\W",
    "S": f"[^{SPACE}{NEVER}]",
}
ASSERTIONS = {"b": "\\b", "B": "\\B", "A": "^", "z": "$", "<": "\\b(?=\\w)", ">": "\\b(?<=\\w)"}
BOUNDARIES = {
    "start": "\\b(?=\\w)",
    "end": "\\b(?<=\\w)",
    "start-half": "(?<!\\w)",
    "end-half": "(?!\\w)",
}
CONTROLS = {"t": "\\t", "r": "\\r", "f": "\\x0c", "v": "\\x0b", "a": "\\x07"}
POSIX = {
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
CODE = re.compile(r"x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[xuU]\{([0-9A-Fa-f]{1,8})\}")
PROPERTY = re.compile(r"[pP](?:\{(\^?)([^}]*)\}|([A-Z]))")
LARGEST = 0x10FFFF


def compiled(pattern: str, *, ignore_case: bool) -> "re.Pattern[str]":
    """For text of whole lines, decoded with surrogateescape; BadRegex. It never matches across a line's end."""
    flags = re.MULTILINE | (re.IGNORECASE if ignore_case else 0)
    try:
        return re.compile(Translation(pattern).whole(), flags)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadRegex(pattern, str(error)) from None


@dataclass
class Translation:
    pattern: str
    at: int = 0
    said: list[str] = field(default_factory=list[str])  # the expression so far, piece by piece
    flagged: list[list[str]] = field(default_factory=lambda: [[]])  # of each open group: what was set in it on the way
    openings: list[int] = field(default_factory=list[int])  # where in `said` each open group begins
    repeatable: bool = False

    def whole(self) -> str:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if quantifier := QUANTIFIER.match(self.pattern, self.at):
                self.repeat(quantifier)
            elif char == "{":
                raise self.bad("a '{' that repeats nothing; write \\{ for the character")
            elif char == "\\":
                self.at += 1
                self.escape()
            elif char == "[":
                self.say(self.bracket())
            elif char == "(":
                self.open()
            elif char == ")":
                self.close()
            elif char == "|":
                self.at += 1
                flagged = self.flagged[-1]
                self.say(f"{')' * len(flagged)}|{''.join(flagged)}", repeatable=False)
            elif char in "^$":
                self.at += 1
                self.say(char)
            else:
                self.at += 1
                self.say(f"[^{NEVER}]" if char == "." else re.escape(char))
        if self.openings:
            raise self.bad("unclosed group")
        return "".join(self.said) + ")" * len(self.flagged[0])

    def bad(self, because: str) -> BadRegex:
        return BadRegex(self.pattern, because)

    def say(self, piece: str, *, repeatable: bool = True) -> None:
        self.said.append(piece)
        self.repeatable = repeatable

    def repeat(self, quantifier: "re.Match[str]") -> None:
        if not self.repeatable:
            raise self.bad(f"{quantifier.group()!r} repeats nothing")
        self.at = quantifier.end()
        lazy = self.pattern[self.at : self.at + 1] == "?"
        self.at += lazy
        self.say(f"(?:{self.said.pop()}){quantifier.group()}{'?' if lazy else ''}")

    def escape(self) -> None:
        rest = self.pattern[self.at :]
        char = rest[:1]
        if not char:
            raise self.bad("it ends with a backslash")
        if char == "b" and rest[1:2] == "{":
            kind = rest[2 : rest.find("}")] if "}" in rest else ""
            if kind not in BOUNDARIES:
                raise self.bad("'\\b{' is not followed by start, end, start-half or end-half")
            self.at += len(kind) + 3
            return self.say(BOUNDARIES[kind])
        if char in ASSERTIONS:
            self.at += 1
            return self.say(ASSERTIONS[char])
        if char in PLAIN:
            self.at += 1
            return self.say(PLAIN[char])
        if char in "pP":
            negated, ranges = self.property()
            return self.say(f"[^{ranges}{NEVER}]" if negated else f"[{ranges}]")
        return self.say(self.character())

    def character(self) -> str:
        """One character that is spelled out behind a backslash."""
        char = self.pattern[self.at]
        if code := CODE.match(self.pattern, self.at):
            self.at = code.end()
            number = int(code[1] or code.group()[1:], 16)
            if number > LARGEST or 0xD800 <= number <= 0xDFFF:
                raise self.bad(f"'\\{code.group()}' is no character")
            return self.sole(chr(number))
        self.at += 1
        if char == "n":
            raise self.bad("it holds a line break, and lines are searched one by one")
        if char in CONTROLS:
            return CONTROLS[char]
        if char.isdigit():
            raise self.bad("there is no going back to a group")
        if char in string.ascii_letters or not char.isascii():
            raise self.bad(f"'\\{char}' means nothing")
        return re.escape(char)

    def sole(self, char: str) -> str:
        if char == "\n":
            raise self.bad("it holds a line break, and lines are searched one by one")
        return re.escape(char)

    def property(self) -> tuple[bool, str]:
        named = PROPERTY.match(self.pattern, self.at)
        if not named:
            raise self.bad("'\\p' is not followed by the name of a class")
        self.at = named.end()
        name = named[3] or named[2]
        short = CATEGORIES.get(name.lower().replace("_letter", ""), name)
        ranges = ranges_of(short) if len(short) <= 2 else ""
        if not ranges:
            raise self.bad(f"the class {name!r} is not known here, only general categories are")
        return (named.group()[0] == "P") != bool(named[1]), ranges

    # --- groups

    def open(self) -> None:
        self.openings.append(len(self.said))
        self.flagged.append([])
        if self.pattern[self.at + 1 : self.at + 2] != "?":
            self.at += 1
            return self.say("(", repeatable=False)
        group = GROUP.match(self.pattern, self.at)
        if not group:
            raise self.bad("it looks around, or has a group of an unknown kind")
        self.at = group.end()
        if group["name"]:
            return self.say("(", repeatable=False)
        opening = f"(?{self.flags(group['flags'])}:"
        if group["end"] == ")":  # for the rest of the group that it is in
            self.openings.pop()
            self.flagged.pop()
            self.flagged[-1].append(opening)
        return self.say(opening, repeatable=False)

    def flags(self, flags: str) -> str:
        """Those that mean something here: a line break is never matched, and every line has its ends."""
        on, _, off = flags.partition("-")
        if unknown := (set(on) - set("ismu")) | (set(off) - set("is")):
            raise self.bad(f"the flag {min(unknown)!r} is not known here")
        return ("i" if "i" in on else "") + ("-i" if "i" in off else "")

    def close(self) -> None:
        if not self.openings:
            raise self.bad("unopened group")
        self.at += 1
        start = self.openings.pop()
        group = "".join(self.said[start:]) + ")" * (len(self.flagged.pop()) + 1)
        del self.said[start:]
        self.say(group)

    # --- classes

    def bracket(self) -> str:
        self.at += 1
        negated = self.pattern[self.at : self.at + 1] == "^"
        self.at += negated
        items: list[str] = []
        first = True
        while (char := self.pattern[self.at : self.at + 1]) != "]" or first:
            if not char:
                raise self.bad("unclosed character class")
            if char == "[" and not self.pattern.startswith("[:", self.at):
                raise self.bad("a class within a class is not known here; write \\[ for the character")
            if self.pattern[self.at : self.at + 2] in ("&&", "--", "~~") and not first:
                raise self.bad("classes are not combined here")
            items.append(self.item())
            first = False
        self.at += 1
        if negated:
            return f"[^{''.join(items)}{NEVER}]"
        return f"{GUARD}[{''.join(items)}]"

    def item(self) -> str:
        """A character, a range of them, or a class by name."""
        if self.pattern.startswith("[:", self.at):
            end = self.pattern.find(":]", self.at)
            name = self.pattern[self.at + 2 : end]
            if name not in POSIX:
                raise self.bad(f"'[:{name}:]' is not known here")
            self.at = end + 2
            return POSIX[name]
        if self.pattern[self.at] == "\\" and (char := self.pattern[self.at + 1 : self.at + 2]):
            if char in PLAIN:
                self.at += 2
                return SPACE if char == "s" else f"\\{char}"
            if char in "pP":
                self.at += 1
                negated, ranges = self.property()
                if negated:
                    raise self.bad("a class that leaves one out is not known within another here")
                return ranges
        low = self.bound()
        if self.pattern[self.at : self.at + 1] != "-" or self.pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return low
        self.at += 1
        if self.pattern[self.at] == "[":
            raise self.bad("a range ends with a '['")
        return f"{low}-{self.bound()}"

    def bound(self) -> str:
        char = self.pattern[self.at]
        self.at += 1
        if char != "\\":
            return re.escape(char)
        if self.at == len(self.pattern):
            raise self.bad("it ends with a backslash")
        return self.character()


@cache
def ranges_of(short: str) -> str:
    """The characters of a general category, as they stand in a class."""
    out: list[str] = []
    start = None
    for code in range(LARGEST + 2):
        inside = code <= LARGEST and not 0xD800 <= code <= 0xDFFF and category(chr(code)).startswith(short)
        inside = inside and code != 0x0A
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            out.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    return "".join(out)
