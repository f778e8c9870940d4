r"""Escape file names for display, and unescape them.

A name may contain a line break, a terminal escape, undecodable bytes, or a mark that changes the reading direction.
Shown unescaped, it could look like another name, or could not be sent at all. So invisible characters are escaped
(`\n`, `\xff`, `\u202e`), and the escaped form is accepted as input. Every name has exactly one escaped form, and nearly
every name is its own.
"""

import re

_INVISIBLE = re.compile(
    # Default_Ignorable_Code_Point in DerivedCoreProperties.txt of the Unicode Character Database, 14.0 to 16.0,
    "[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    # and further characters that are drawn as nothing: blanks of Braille, Khitan, hieroglyphs and music.
    "\u2800\U00016fe4\U00013441\U00013442\U0001d159]"
)

_SHORT_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SHORT_UNESCAPES = {spelled: char for char, spelled in _SHORT_ESCAPES.items()}
_ESCAPE = re.compile(r"\\(?:[\\ntr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})")
_ESCAPED_PART = re.compile(rf"(?:[^\\]|{_ESCAPE.pattern})*", re.DOTALL)


def escape_path(name: str) -> str:
    """The escaped form of a name or path."""
    if _is_plain(name):
        return name
    return "/".join(map(_escape_part, name.split("/")))


def unescape_path(name: str) -> str | None:
    """The name with this escaped form; None if nothing in it is escaped."""
    if "\\" not in name:
        return None
    parts = name.split("/")
    decoded = [_unescape_part(part) for part in parts]
    if all(part is None for part in decoded):
        return None
    return "/".join(part if other is None else other for part, other in zip(parts, decoded, strict=True))


def escape_ambiguous(name: str) -> str:
    """Escape a name only if it could be taken for the escaped form of another."""
    if unescape_path(name) is None:
        return name
    return "/".join(part if _unescape_part(part) is None else _escape_part(part) for part in name.split("/"))


def unescape_ambiguous(name: str) -> str:
    """Reverse `escape_ambiguous`."""
    return unescape_path(name) or name


def format_path(path: str) -> str:
    """Escape a path that may already be escaped, wholly or in part."""
    if _is_plain(path):
        return path
    return "/".join(part if _unescape_part(part) is not None else _escape_part(part) for part in path.split("/"))


def _is_plain(name: str) -> bool:
    if name.isascii():
        return name.isprintable() and "\\" not in name
    return name.isprintable() and "\\" not in name and not _INVISIBLE.search(name)


def _escape_part(part: str) -> str:
    if all(char == "\\" or is_visible(char) for char in part) and _unescape_part(part) is None:
        return part
    return "".join(char if char != "\\" and is_visible(char) else _escape_char(char) for char in part)


def is_visible(char: str) -> bool:
    """Whether this character is displayed as itself."""
    return char.isprintable() and not _INVISIBLE.match(char)


def _escape_char(char: str) -> str:
    if char in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # an undecodable byte
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _unescape_part(part: str) -> str | None:
    if "\\" not in part or not _ESCAPED_PART.fullmatch(part):
        return None
    decoded = _ESCAPE.sub(lambda escape: _decode_escape(escape.group()), part)
    return decoded if _escape_part(decoded) == part else None  # a slash, for example, is never escaped


def _decode_escape(escape: str) -> str:
    if escape in _SHORT_UNESCAPES:
        return _SHORT_UNESCAPES[escape]
    code = int(escape[2:], 16)
    return chr(code + 0xDC00) if escape[1] == "x" and code >= 0x80 else chr(code)
