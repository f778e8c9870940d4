"""Notebooks for tests: every version, every kind of cell, and every way of writing them."""

import json
from base64 import b64encode
from collections.abc import Callable
from struct import pack
from typing import Any
from zlib import compress, crc32

import nbformat
from hypothesis import strategies as st
from nbformat import v3, v4


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return pack(">I", len(data)) + kind + data + pack(">I", crc32(kind + data))

    rows = b"".join(b"\0" + b"\x80" * width for _ in range(height))
    head = pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", compress(rows)) + chunk(b"IEND", b"")


PICTURE = b64encode(png(8, 6)).decode()
OUTPUTS = (
    v4.new_output("stream", text="one\ntwo\n"),
    v4.new_output("stream", name="stderr", text="careful\n"),
    v4.new_output("execute_result", data={"text/plain": "4", "text/html": "<b>4</b>"}, execution_count=2),
    v4.new_output("display_data", data={"image/png": PICTURE, "text/plain": "<Figure>"}),
    v4.new_output("error", ename="ValueError", evalue="no", traceback=["\x1b[31mTraceback\x1b[0m", "ValueError: no"]),
)
MINORS = (0, 1, 2, 3, 4, 5)

# --- contents


def book(minor: int, *cells: Any) -> dict[str, Any]:
    """A valid notebook of version 4."""
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    made = v4.new_notebook(cells=list(cells), metadata=about)
    made.nbformat_minor = minor
    for number, cell in enumerate(made.cells):
        if minor < 5:
            cell.pop("id", None)
        else:
            cell["id"] = f"id-{number}"
    nbformat.validate(made)
    return json.loads(nbformat.writes(made, version=nbformat.NO_CONVERT))


def cells() -> list[Any]:
    """One cell of every kind, with every kind of output."""
    return [
        v4.new_markdown_cell("# A title\n\nwith é and ✓"),
        v4.new_code_cell("import math\n\nprint(math.pi)\n", execution_count=1, outputs=list(OUTPUTS[:2])),
        v4.new_raw_cell("as it is: ü", metadata={"format": "text/plain"}),
        v4.new_code_cell("2 + 2", execution_count=2, outputs=list(OUTPUTS[2:])),
        v4.new_markdown_cell("![x](attachment:a.png)", attachments={"a.png": {"image/png": PICTURE}}),
        v4.new_code_cell(""),
    ]


def old_book() -> dict[str, Any]:
    """A notebook of version 3."""
    code = v3.new_code_cell(
        "print(1)",
        prompt_number=1,
        outputs=[
            v3.new_output("stream", output_text="1\n"),
            v3.new_output("pyout", output_text="7", prompt_number=1),
            v3.new_output("pyerr", ename="E", evalue="v", traceback=["E: v"]),
        ],
    )
    sheet = v3.new_worksheet(cells=[v3.new_heading_cell("Head", level=1), v3.new_text_cell("markdown", "text"), code])
    return json.loads(v3.writes_json(v3.new_notebook(worksheets=[sheet])))


# --- formats


def in_one_string(made: Any) -> Any:
    """With each source as one string, as writers other than Jupyter do."""
    copy = json.loads(json.dumps(made))
    for cell in copy["cells"]:
        cell["source"] = "".join(cell["source"])
    return copy


def unsorted(made: Any) -> Any:
    """With the members of cells in another order."""
    copy = json.loads(json.dumps(made))
    copy["cells"] = [dict(reversed(cell.items())) for cell in copy["cells"]]
    return copy


MANNERS: dict[str, Callable[[Any], str]] = {
    "jupyter": lambda made: json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n",
    "two spaces": lambda made: json.dumps(made, indent=2, ensure_ascii=False),
    "tabs in ascii": lambda made: json.dumps(made, indent="\t") + "\n",
    "one line": lambda made: json.dumps(made, ensure_ascii=False),
    "tight": lambda made: json.dumps(made, separators=(",", ":")),
    "crlf": lambda made: (json.dumps(made, indent=1, ensure_ascii=False) + "\n").replace("\n", "\r\n"),
    "with a mark": lambda made: "\ufeff" + json.dumps(made, indent=1, ensure_ascii=False) + "\n",
    "in one string": lambda made: json.dumps(in_one_string(made), indent=1, ensure_ascii=False) + "\n",
    "unsorted": lambda made: json.dumps(unsorted(made), indent=4, ensure_ascii=False) + "\n",
    "spaced colons": lambda made: json.dumps(made, indent=1, separators=(" ,", " : ")) + "\n\n",
}


@st.composite
def written(draw: st.DrawFn, made: Any) -> str:
    """JSON with whitespace wherever it is allowed, and characters escaped in any way."""
    blank = st.text(alphabet=" \t\n\r", max_size=3)

    def string(value: str) -> str:
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def parts(found: list[str], opener: str, closer: str) -> str:
        inner = ",".join(draw(blank) + each + draw(blank) for each in found)
        return f"{opener}{inner or draw(blank)}{closer}"

    def value(node: Any) -> str:
        if isinstance(node, dict):
            return parts([f"{string(k)}{draw(blank)}:{draw(blank)}{value(v)}" for k, v in node.items()], "{", "}")
        if isinstance(node, list):
            return parts([value(each) for each in node], "[", "]")
        return string(node) if isinstance(node, str) else json.dumps(node)

    return draw(blank) + value(made) + draw(blank)
