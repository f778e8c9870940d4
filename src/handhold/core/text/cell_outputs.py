"""What a cell put out, as much of it as is worth showing.

Of several forms of one thing the plainest is shown: text before HTML. Pictures go beside the text, colours and progress
bars are as a terminal would leave them, and of a long text both ends are shown.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, cast

from handhold.core.results import Block, CellOutput
from handhold.core.text.image_headers import MIMES, declared_size
from handhold.core.text.lines import unified
from handhold.core.text.notebook import joined
from handhold.core.text.terminal import tidy

ENDS = 2_000  # characters of each end of a long text
TIDIED = 200_000  # characters at each end of a very long one that are looked at
MOST_PICTURES = 20  # of one reply
MOST_SIDE = 2_000  # pixels; what a conversation of many images takes
MOST_ENCODED = 5_000_000  # characters of an image in base64
MOST_FORMS, MOST_NAME = 5, 60  # forms that are only named, and characters of such a name
TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")  # the first that is there

OLD_NAMES = {  # of version 3
    "text": "text/plain",
    "html": "text/html",
    "latex": "text/latex",
    "json": "application/json",
    "javascript": "application/javascript",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpeg": "image/jpeg",
}


@dataclass
class Pictures:
    """The pictures of one reply, in the order in which its text names them."""

    blocks: list[Block] = field(default_factory=list[Block])

    def take(self, mime: str, encoded: str) -> CellOutput:
        """The picture under its number, or why it is left out."""
        encoded = "".join(encoded.split())
        size = _size(mime, encoded)
        if len(encoded) > MOST_ENCODED:
            because = "it is too large"
        elif size is None:
            because = f"it is no {mime}"
        elif max(size) > MOST_SIDE:
            because = f"it has {size[0]}x{size[1]} pixels, and at most {MOST_SIDE:,} a side are shown"
        elif len(self.blocks) >= MOST_PICTURES:
            because = f"a reply has at most {MOST_PICTURES} pictures"
        else:
            self.blocks.append(Block("image", mime=mime, base64=encoded))
            return CellOutput("display", picture=len(self.blocks), mime=mime, size=size)
        return CellOutput("display", mime=mime, left_out=because)


def _size(mime: str, encoded: str) -> tuple[int, int] | None:
    """All of it is decoded: a model's door refuses what is not base64 to its end."""
    try:
        return declared_size(b64decode(encoded, validate=True), MIMES[mime])
    except ValueError:
        return None


def outputs_of(facts: dict[str, Any], pictures: Pictures) -> Iterator[CellOutput]:
    """One after the other, so that no picture is taken of an output for which there is no room."""
    found = facts.get("outputs")
    if isinstance(found, list):
        for output in _run_together(_objects(cast("list[Any]", found))):
            yield _output(output, pictures)


def _objects(found: list[Any]) -> Iterator[dict[str, Any]]:
    return (cast("dict[str, Any]", each) for each in found if isinstance(each, dict))


def _run_together(outputs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """What was written to one stream piece by piece is one output."""
    for stream, run in groupby(outputs, _stream):
        if stream:
            text = "".join(joined(each.get("text")) or "" for each in run)
            yield {"output_type": "stream", "name": stream, "text": text}
        else:
            yield from run


def _stream(output: dict[str, Any]) -> str:
    """The stream that it went to; empty if it is no such output."""
    if output.get("output_type") != "stream":
        return ""
    return "stderr" if "stderr" in (output.get("name"), output.get("stream")) else "stdout"


def _output(output: dict[str, Any], pictures: Pictures) -> CellOutput:
    match output.get("output_type"):
        case "stream":
            return with_text(CellOutput("stderr" if output["name"] == "stderr" else "stdout"), output["text"])
        case "error" | "pyerr":
            return with_text(CellOutput("error"), _error(output))
        case "execute_result" | "pyout":
            return replace(_shown(_forms(output), pictures), kind="result")
        case _:
            return _shown(_forms(output), pictures)


def _error(output: dict[str, Any]) -> str:
    lines = output.get("traceback")
    lines = [each for each in cast("list[Any]", lines) if isinstance(each, str)] if isinstance(lines, list) else []
    return "\n".join(lines) or f"{output.get('ename', 'error')}: {output.get('evalue', '')}"


def _forms(output: dict[str, Any]) -> dict[str, Any]:
    """The forms that one thing was put out in."""
    data = output.get("data")
    if isinstance(data, dict):
        return cast("dict[str, Any]", data)
    return {OLD_NAMES[name]: value for name, value in output.items() if name in OLD_NAMES}


def _shown(forms: dict[str, Any], pictures: Pictures) -> CellOutput:
    text = next((mime for mime in TEXTS if mime in forms), "")
    picture = next((mime for mime in MIMES if isinstance(joined(forms.get(mime)), str)), "")
    shown = pictures.take(picture, joined(forms[picture]) or "") if picture else CellOutput("display")
    other = tuple(mime[:MOST_NAME] for mime in forms if mime not in (text, picture))[:MOST_FORMS]
    return with_text(replace(shown, other=other), _written(forms[text]) if text else "")


def _written(value: Any) -> str:
    if (found := joined(value)) is not None:
        return found
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # it could just be read
        return "nested too deeply to be shown"


def with_text(output: CellOutput, text: str) -> CellOutput:
    """The same with this text, of a long one both ends."""
    text = unified(text)
    if len(text) > 2 * TIDIED:  # to tidy megabytes of which nobody sees anything takes seconds
        head, tail = tidy(text[:TIDIED])[:ENDS], tidy(text[-TIDIED:]).removesuffix("\n")[-ENDS:]
        return replace(output, text=head, tail=tail, cut=len(text) - len(head) - len(tail))
    text = tidy(text).removesuffix("\n")
    if len(text) <= 2 * ENDS:
        return replace(output, text=text)
    return replace(output, text=text[:ENDS], tail=text[-ENDS:], cut=len(text) - 2 * ENDS)
