"""Converts images and PDFs, each in a process of its own that is thrown away afterwards.

Decoders are where a file becomes an attack. So none is ever loaded here: the worker gets the bytes and no path, has
512 MB and four seconds, and can only compute (see `worker`). What it says is the word of a process that may have been
turned: looked at, bounded, and never more than text and pixels.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from handhold.core.errors import (
    BrokenFile,
    Encrypted,
    ExtraMissing,
    NoSuchPage,
    SystemTrouble,
    TooCostly,
    ToolError,
    TooManyPixels,
)
from handhold.core.facts import ConvertedImage, ConvertedPdf, Ended, PdfPage, Picture
from handhold.core.plans import Convert
from handhold.world.convert.calls import program
from handhold.world.convert.process import Gone, worked

MEMORY = 512 << 20  # bytes of address space
SECONDS = 4  # of the processor; the kernel counts whole ones, and is a little late
MOST_SIDE = 4096  # pixels that are believed of a picture
MOST_COUNT = 10**9  # of pages, of frames, of pixels on a side
NEEDS = {"images": ("PIL",), "pdf": ("PIL", "pypdfium2", "pypdfium2_raw")}
START = (
    "import json, sys; job = json.loads(sys.argv[1]); sys.path += job['folders']; "
    "from handhold.world.convert.worker import main; main(job)"
)
SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
OUT_OF_TIME = (-signal.SIGXCPU, -signal.SIGKILL)

Record = tuple[dict[str, Any], bytes]


class ConfinedConverter:
    """Fulfils the port Converter. One worker at a time: several would take as many times its memory."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        try:
            gone = self.work(job_of(convert), convert.whole.data)
        except OSError as error:
            raise SystemTrouble(convert.request.path, f"the converter does not start: {error.strerror}") from error
        try:
            records = list(records_in(gone.said))
            return pdf(convert, records, gone) if convert.medium == "pdf" else image(convert, records, gone)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise BrokenFile(convert.request.path, convert.medium, "what was made of it makes no sense") from None

    def work(self, job: dict[str, Any], data: bytes) -> Gone:
        with self._turn:
            return worked((sys.executable, "-I", "-S", "-c", START, json.dumps(job)), data)


def job_of(convert: Convert) -> dict[str, Any]:
    return {
        "medium": convert.medium,
        "pages": convert.pages,
        "images": convert.images,
        "chars": convert.chars,
        "memory": MEMORY,
        "seconds": SECONDS,
        "filter": program().hex(),
        "folders": folders("pdf" if convert.medium == "pdf" else "images"),
    }


def folders(extra: str) -> list[str]:
    """Where the worker finds what it imports; ExtraMissing if that is nowhere."""
    found = [str(Path(__file__).parents[3])]  # where we ourselves are
    for module in NEEDS[extra]:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise ExtraMissing(extra)
        found.append(os.path.dirname(os.path.dirname(spec.origin)))
    return list(dict.fromkeys(found))


# --- what came of it


def image(convert: Convert, records: list[Record], gone: Gone) -> ConvertedImage:
    for record, data in records:
        if "too_many_pixels" in record:
            width, height, most = map(int, record["too_many_pixels"])
            raise TooManyPixels(convert.request.path, width, height, most)
        frames = record["frames"]
        return ConvertedImage(
            picture=picture(record, data),
            width=bounded(record["width"], 1, MOST_COUNT),
            height=bounded(record["height"], 1, MOST_COUNT),
            frames=None if frames is None else bounded(frames, 1, MOST_COUNT),
            turned=bool(record["turned"]),
        )
    raise failure(convert, gone)


def pdf(convert: Convert, records: list[Record], gone: Gone) -> ConvertedPdf:
    if not records:
        raise failure(convert, gone)
    (first, _), *rest = records
    if "encrypted" in first:
        raise Encrypted(convert.request.path)
    count = bounded(first["count"], 0, MOST_COUNT)
    if not count:
        raise BrokenFile(convert.request.path, "pdf", "it has no pages")
    if not any(number <= count for number in convert.pages):
        raise NoSuchPage(convert.request.path, convert.request.pages, count)
    told = [(record, data) for record, data in rest if "page" in record]
    pages = tuple(page(record, data) for record, data in told if record["page"] in convert.pages)
    if len({each.number for each in pages}) < len(pages) or sum(len(each.text) for each in pages) > convert.chars:
        raise ValueError("more than was asked for")
    ending: Ended | None = next((ended(record["ended"]) for record, _ in rest if "ended" in record), None)
    if ending is None:
        if not pages:
            raise failure(convert, gone)
        ending = why(gone)
    return ConvertedPdf(count, pages, ending)


def page(record: dict[str, Any], data: bytes) -> PdfPage:
    plain = PdfPage(
        number=int(record["page"]),
        text=str(record["text"]),
        cut=int(record["cut"]),
        broken=bool(record.get("broken", False)),
    )
    return replace(plain, picture=picture(record, data)) if "mime" in record else plain


def picture(record: dict[str, Any], data: bytes) -> Picture:
    mime = str(record["mime"])
    if not data.startswith(SIGNATURES[mime]):
        raise ValueError("not what it says")
    width, height = record["size"]
    return Picture(mime, data, bounded(width, 1, MOST_SIDE), bounded(height, 1, MOST_SIDE))


def bounded(value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{value!r} is not between {least} and {most}")
    return value


def ended(value: Any) -> Ended:
    match value:
        case "" | "room" | "time":
            return value
        case _:
            raise ValueError(f"{value!r} is no way to end")


def records_in(said: bytes) -> Iterator[Record]:
    """Each record with its bytes; one that was not said to its end is none."""
    at = 0
    while (end := said.find(b"\n", at)) >= 0:
        record = json.loads(said[at:end])
        at = end + 1 + bounded(record["bytes"], 0, len(said))
        if at > len(said):
            return
        yield record, said[end + 1 : at]


# --- what went wrong


def why(gone: Gone) -> Ended:
    if gone.late or gone.status in OUT_OF_TIME:
        return "time"
    return "memory" if "MemoryError" in last_words(gone) or at_its_limit(gone) else "broken"


def at_its_limit(gone: Gone) -> bool:
    """Whether it fell when its memory was used up, without a word of its own: that is how some decoders fail."""
    ours = getrusage(RUSAGE_SELF).ru_maxrss * 1024  # the kernel adds it to theirs
    return gone.status not in (0, 1) and gone.effort.memory > 0.9 * MEMORY > ours


def failure(convert: Convert, gone: Gone) -> ToolError:
    reason = why(gone)
    if reason in ("time", "memory"):
        return TooCostly(convert.request.path, reason)
    words = last_words(gone)
    because = words if gone.status == 1 and words else "the decoder gave up on it"
    return BrokenFile(convert.request.path, convert.medium, because)


def last_words(gone: Gone) -> str:
    """What it died of, without what only a programmer would understand."""
    lines = gone.complained.strip().splitlines()
    name, _, words = lines[-1].partition(": ") if lines else ("", "", "")
    return words.strip().rstrip(".")[:200] or name.rpartition(".")[2]
