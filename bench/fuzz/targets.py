"""The fuzz targets: each takes arbitrary bytes, and fails only on a bug.

Half of the inputs are decoded as tokens, one per byte, since random bytes seldom form a notebook or a patch.
"""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from handhold.core.errors import BadArguments, BadPatch, BinaryFile, BrokenFile, ToolError, Unencodable
from handhold.core.requests import CellKind, UpdateFile
from handhold.core.text.cell_outputs import ReplyImages, render_outputs
from handhold.core.text.encoding import Text, check_encodable, detect_sample_encoding, replace_undecodable
from handhold.core.text.file_types import detect_medium
from handhold.core.text.hunks import apply_hunks
from handhold.core.text.image_headers import MEDIUM_BY_MIME, read_image_size
from handhold.core.text.lines import normalize_newlines
from handhold.core.text.notebook import InvalidNotebook, Notebook, parse_notebook
from handhold.core.text.notebook_splice import delete_cell, insert_cell, replace_cell
from handhold.core.text.patch import parse_patch
from handhold.dialects.arguments import fit, parse_lenient_json
from handhold.dialects.claude import dialect as claude
from handhold.dialects.handhold import dialect as handhold

JSON = (
    *'{}[]:," \n\t\\0',
    *("null", "true", "-1.5e3", "NaN", "999999999999999999999", "\\n", "\\u00e9", "\\ud800", "é", "\r\n", "\ufeff"),
)
CELLS = (
    *JSON,
    *('{"nbformat":4,"nbformat_minor":5,"cells":[', '{"cell_type":"raw","source":', '{"cell_type":"code","source":"a"'),
    *('"nbformat":4', '"nbformat":3', '"nbformat_minor":5', '"cells":[', '"worksheets":[{"cells":[', '"metadata":{}'),
    *('"cell_type":"code"', '"cell_type":"markdown"', '"source":[', '"source":"x"', '"id":"a"', '"input":"x"', "},"),
    *('"outputs":[', '"output_type":"stream"', '"text":', '"data":{', '"image/png":', '"traceback":['),
)
PATCH = (
    *("*** Begin Patch\n", "*** End Patch\n", "*** Add File: a\n", "*** Delete File: b\n", "*** Update File: a\n"),
    *("*** Move to: c\n", "*** End of File\n", "@@\n", "@@ def f():\n", "+", "-", " ", "\n", "x", "def f():\n"),
    *("apply_patch <<'EOF'\n", "EOF\n", "```\n", '"', "\\n", "\\ No newline at end of file\n", "\r\n", "\t", "    y\n"),
)
KINDS: tuple[CellKind, ...] = ("code", "markdown", "raw")


def spelled(data: bytes, tokens: Sequence[str]) -> str:
    """Bytes as text: the first byte chooses between plain bytes and tokens."""
    if not data or data[0] % 2:
        return data[1:].decode("utf-8", "surrogateescape")
    return "".join(tokens[byte % len(tokens)] for byte in data[1:])


# --- the targets


def decoding(data: bytes) -> None:
    """Decoding round-trips, and a page can be read in the encoding that was guessed for it."""
    try:
        text = Text.decode(data)
    except BinaryFile:
        return
    assert text.encode() == data
    replace_undecodable(text.body).encode()
    try:
        check_encodable(text.body[:100], text.encoding, "")
    except Unencodable:
        pass
    detect_sample_encoding(data[:4096], "", len(data))


def patch(data: bytes) -> None:
    """A patch parses, or the error names the bad line; its hunks go where they match, or nowhere."""
    text = spelled(data, PATCH)
    try:
        operations = parse_patch(text)
    except BadPatch:
        return
    assert operations
    for each in operations:
        if isinstance(each, UpdateFile) and each.hunks:
            before = "\n".join(line for hunk in each.hunks for line in hunk.old)
            try:
                apply_hunks(Text(before), each.hunks, path=each.path, matching="safe")
            except ToolError:
                pass


def notebook(data: bytes) -> None:
    """A notebook parses, or the error says why not; an edit changes nothing outside its cell."""
    try:
        text = Text.decode(data) if data[:1] == b"\xef" else Text(spelled(data, CELLS))
        book = parse_notebook(text)
    except (InvalidNotebook, BinaryFile):
        return
    for cell in book.cells:
        list(render_outputs(cell.raw, ReplyImages()))
    if book.is_editable:
        _changed(book, Random(len(data)))


def _changed(book: Notebook, choose: Random) -> None:
    source = choose.choice(["", "a", "a\nb\n", 'é"\\\r\n'])
    kind = choose.choice(KINDS)
    number = choose.randint(1, len(book.cells) + 1)
    made, _ = insert_cell(book, number, source, kind)
    assert [cell.raw for cell in parse_notebook(Text(made)).cells if cell.number != number] == _facts(book)
    if not book.cells:
        return
    cell = choose.choice(book.cells)
    after = replace_cell(book, cell, source, kind)
    assert after.startswith(book.text[: cell.node.start])
    assert after.endswith(book.text[cell.node.end :])
    now = parse_notebook(Text(after)).cells[cell.number - 1]
    assert (normalize_newlines(now.source), now.kind, now.id) == (normalize_newlines(source), kind, cell.id)
    rest = [facts for at, facts in enumerate(_facts(book), 1) if at != cell.number]
    assert _facts(parse_notebook(Text(delete_cell(book, cell)))) == rest


def _facts(book: Notebook) -> list[Any]:
    return [cell.raw for cell in book.cells]


def arguments(data: bytes) -> None:
    """Arguments are repaired or refused; repaired ones are valid, and a dialect decodes them or says why not."""
    try:
        given = _built(data) if data[:1] == b"\x02" else parse_lenient_json(spelled(data, JSON))
    except ValueError:
        return
    for dialect in (handhold, claude):
        for spec in dialect.specs:
            try:
                fitted = fit(spec.name, given, spec.input_schema)
            except BadArguments:
                continue
            again = fit(spec.name, fitted.values, spec.input_schema)
            assert not again.repairs
            assert repr(again.values) == repr(fitted.values)
            try:
                dialect.decode(spec.name, fitted.values)
            except ToolError:
                pass


def _built(data: bytes) -> dict[str, Any]:
    """An object with argument names that tools use, each with some value: two bytes per member."""
    pairs = zip(data[1::2], data[2::2], strict=False)
    return {NAMES[name % len(NAMES)]: VALUES[value % len(VALUES)] for name, value in pairs}


NAMES = tuple(
    dict.fromkeys(
        name
        for spec in (*handhold.specs, *claude.specs)
        for name in ("File", "old", "newText", "-i", "x", *spec.input_schema["properties"])
    )
)
REPLACED = {"old_string": "a", "new_string": "b"}
VALUES: tuple[Any, ...] = (
    *(
        "a",
        "",
        "3",
        " -1.0",
        "true",
        "/",
        "\ud800",
        "\0",
        "1-5",
        "a\nb",
        "content",
        "replace",
        "append",
        "none",
        "code",
    ),
    *(0, 3, -1, 10**30, 2.5, 4.0, 1e400, float("nan"), True, False, None),
    *([], ["a"], [3], {}, REPLACED, [REPLACED], [{**REPLACED, "replace_all": "True"}], [[REPLACED]]),
    *(json.dumps([REPLACED]), json.dumps(REPLACED)[:-1] + ",}", '["a",]', "[" * 2000, "*** Begin Patch\n*** End Patch"),
)


def kinds(data: bytes) -> None:
    """The type of a file is detected from its first bytes and its name, or the file is reported as broken."""
    path = ("a.png", "a.txt", "a.pdf", "a", "a.GIF", ".webp")[data[0] % 6 if data else 0]
    try:
        detect_medium(data[1:], path)
    except BrokenFile:
        pass
    for medium in MEDIUM_BY_MIME.values():
        size = read_image_size(data[1:], medium)
        assert size is None or min(size) > 0


TARGETS: dict[str, Callable[[bytes], None]] = {
    "decoding": decoding,
    "patch": patch,
    "notebook": notebook,
    "arguments": arguments,
    "kinds": kinds,
}
