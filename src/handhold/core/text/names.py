r"""Names as they can be shown, and back.

A name may hold a line break, a colour of the terminal, bytes that are no text, or a mark that turns the reading
direction. Shown as it is, it would look like another name, or could not be sent at all. So what cannot be seen is
spelled out (`\n`, `\xff`, `\u202e`), and what is spelled out can be given back. Every name has its own spelling, and
nearly every name is its own spelling.
"""

import re

FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
"""Printable by their category, and seen by nobody."""

_SHORT = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_LONG = {spelled: char for char, spelled in _SHORT.items()}
_ESCAPE = re.compile(r"\\(?:[\\ntr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U00(?:0[0-9a-f]|10)[0-9a-f]{4})")
_ESCAPED = re.compile(rf"(?:[^\\]|{_ESCAPE.pattern})*", re.DOTALL)


def escaped(name: str) -> str:
    """A name, or a path name by name, as it is shown."""
    if _plain(name):
        return name
    return "/".join(map(_escaped, name.split("/")))


def unescaped(name: str) -> str | None:
    """The name that is shown like this; None if nothing in it is spelled out."""
    if "\\" not in name:
        return None
    parts = name.split("/")
    meant = [_unescaped(part) for part in parts]
    if all(part is None for part in meant):
        return None
    return "/".join(part if other is None else other for part, other in zip(parts, meant, strict=True))


def unmistakable(name: str) -> str:
    """The name itself, unless it could be taken for the shown form of another: then its own shown form."""
    if unescaped(name) is None:
        return name
    return "/".join(part if _unescaped(part) is None else _escaped(part) for part in name.split("/"))


def real(place: str) -> str:
    """The name that `unmistakable` spells like this."""
    return unescaped(place) or place


def spelled(path: str) -> str:
    """A path that may be shown already, or in part, as it is shown."""
    if _plain(path):
        return path
    return "/".join(part if _unescaped(part) is not None else _escaped(part) for part in path.split("/"))


def _plain(name: str) -> bool:
    if name.isascii():
        return name.isprintable() and "\\" not in name
    return name.isprintable() and "\\" not in name and not any(char in FILLERS for char in name)


def _escaped(part: str) -> str:
    if all(char == "\\" or _seen(char) for char in part) and _unescaped(part) is None:
        return part
    return "".join(char if char != "\\" and _seen(char) else _spelled(char) for char in part)


def _seen(char: str) -> bool:
    return char.isprintable() and char not in FILLERS


def _spelled(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no text
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _unescaped(part: str) -> str | None:
    if "\\" not in part or not _ESCAPED.fullmatch(part):
        return None
    meant = _ESCAPE.sub(lambda escape: _meant(escape.group()), part)
    return meant if _escaped(meant) == part else None  # a slash, say, has no spelling but its own


def _meant(escape: str) -> str:
    if escape in _LONG:
        return _LONG[escape]
    code = int(escape[2:], 16)
    return chr(code + 0xDC00) if escape[1] == "x" and code >= 0x80 else chr(code)
