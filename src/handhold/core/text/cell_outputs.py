"""Render the outputs of a notebook cell.

If an output has several representations, the plainest is shown: text before HTML. Images are sent separately from the
text. Colors and progress bars are rendered as a terminal would leave them, and a long text is cut to its two ends.
"""

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, cast

from handhold.core.results import Block, CellOutput
from handhold.core.text.image_headers import MEDIUM_BY_MIME, read_image_size
from handhold.core.text.lines import normalize_newlines
from handhold.core.text.notebook import join_multiline_string
from handhold.core.text.terminal import render_terminal_text

EXCERPT_CHARS = 2_000  # characters shown of each end of a long text
MAX_RENDERED_CHARS = 200_000  # characters rendered at each end of a very long one
MAX_IMAGES = 20  # per reply
MAX_IMAGE_SIDE_PIXELS = 2_000  # the limit of models for conversations with many images
MAX_IMAGE_BASE64_CHARS = 5_000_000
MAX_OTHER_MIMES, MAX_MIME_CHARS = 5, 60  # representations that are only named, and the length of such a name
TEXT_MIMES = ("text/plain", "text/markdown", "text/latex", "application/json", "text/html")  # the first found is shown

V3_MIMES = {  # of format version 3
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
class ReplyImages:
    """The images of one reply, in the order in which its text refers to them."""

    blocks: list[Block] = field(default_factory=list[Block])

    def add(self, mime: str, encoded: str) -> CellOutput:
        """Add the image under the next number, or say why it is left out."""
        encoded = "".join(encoded.split())
        size = _read_size(mime, encoded)
        if len(encoded) > MAX_IMAGE_BASE64_CHARS:
            because = "it is too large"
        elif size is None:
            because = f"it is not a valid {mime}"
        elif max(size) > MAX_IMAGE_SIDE_PIXELS:
            because = f"it has {size[0]}x{size[1]} pixels; the limit is {MAX_IMAGE_SIDE_PIXELS:,} per side"
        elif len(self.blocks) >= MAX_IMAGES:
            because = f"a reply has at most {MAX_IMAGES} images"
        else:
            self.blocks.append(Block("image", mime=mime, base64=encoded))
            return CellOutput("display", picture_number=len(self.blocks), mime=mime, size=size)
        return CellOutput("display", mime=mime, omitted_reason=because)


def _read_size(mime: str, encoded: str) -> tuple[int, int] | None:
    """Decode the whole image: model APIs reject data that is not valid base64 to the end."""
    try:
        return read_image_size(b64decode(encoded, validate=True), MEDIUM_BY_MIME[mime])
    except ValueError:
        return None


def render_outputs(raw_cell: dict[str, Any], images: ReplyImages) -> Iterator[CellOutput]:
    """Render lazily, so that no image is added for an output that does not fit."""
    found = raw_cell.get("outputs")
    if isinstance(found, list):
        for output in _merge_streams(_iter_objects(cast("list[Any]", found))):
            yield _render_output(output, images)


def _iter_objects(found: list[Any]) -> Iterator[dict[str, Any]]:
    return (cast("dict[str, Any]", each) for each in found if isinstance(each, dict))


def _merge_streams(outputs: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Merge consecutive writes to the same stream into one output."""
    for stream, run in groupby(outputs, _get_stream_name):
        if stream:
            text = "".join(join_multiline_string(each.get("text")) or "" for each in run)
            yield {"output_type": "stream", "name": stream, "text": text}
        else:
            yield from run


def _get_stream_name(output: dict[str, Any]) -> str:
    """The stream it was written to; empty if it is not a stream output."""
    if output.get("output_type") != "stream":
        return ""
    return "stderr" if "stderr" in (output.get("name"), output.get("stream")) else "stdout"


def _render_output(output: dict[str, Any], images: ReplyImages) -> CellOutput:
    match output.get("output_type"):
        case "stream":
            return with_text(CellOutput("stderr" if output["name"] == "stderr" else "stdout"), output["text"])
        case "error" | "pyerr":
            return with_text(CellOutput("error"), _format_error(output))
        case "execute_result" | "pyout":
            return replace(_render_mime_bundle(_read_mime_bundle(output), images), kind="result")
        case _:
            return _render_mime_bundle(_read_mime_bundle(output), images)


def _format_error(output: dict[str, Any]) -> str:
    lines = output.get("traceback")
    lines = [each for each in cast("list[Any]", lines) if isinstance(each, str)] if isinstance(lines, list) else []
    return "\n".join(lines) or f"{output.get('ename', 'error')}: {output.get('evalue', '')}"


def _read_mime_bundle(output: dict[str, Any]) -> dict[str, Any]:
    """The representations of one output, by MIME type."""
    data = output.get("data")
    if isinstance(data, dict):
        return cast("dict[str, Any]", data)
    return {V3_MIMES[name]: value for name, value in output.items() if name in V3_MIMES}


def _render_mime_bundle(bundle: dict[str, Any], images: ReplyImages) -> CellOutput:
    text = next((mime for mime in TEXT_MIMES if mime in bundle), "")
    image = next((mime for mime in MEDIUM_BY_MIME if isinstance(join_multiline_string(bundle.get(mime)), str)), "")
    rendered = images.add(image, join_multiline_string(bundle[image]) or "") if image else CellOutput("display")
    other = tuple(mime[:MAX_MIME_CHARS] for mime in bundle if mime not in (text, image))[:MAX_OTHER_MIMES]
    return with_text(replace(rendered, other_formats=other), _format_value(bundle[text]) if text else "")


def _format_value(value: Any) -> str:
    if (found := join_multiline_string(value)) is not None:
        return found
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # nested just deeply enough to parse but not to dump
        return "nested too deeply to be shown"


def with_text(output: CellOutput, text: str) -> CellOutput:
    """The output with this text, cut to its two ends if it is long."""
    text = normalize_newlines(text)
    if len(text) > 2 * MAX_RENDERED_CHARS:  # cleaning up megabytes that nobody sees takes seconds
        head, tail = (
            render_terminal_text(text[:MAX_RENDERED_CHARS])[:EXCERPT_CHARS],
            render_terminal_text(text[-MAX_RENDERED_CHARS:]).removesuffix("\n")[-EXCERPT_CHARS:],
        )
        return replace(output, text=head, tail=tail, omitted_chars=len(text) - len(head) - len(tail))
    text = render_terminal_text(text).removesuffix("\n")
    if len(text) <= 2 * EXCERPT_CHARS:
        return replace(output, text=text)
    return replace(
        output, text=text[:EXCERPT_CHARS], tail=text[-EXCERPT_CHARS:], omitted_chars=len(text) - 2 * EXCERPT_CHARS
    )
