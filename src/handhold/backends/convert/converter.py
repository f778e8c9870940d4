"""Convert images and PDFs, each in a process of its own that is discarded afterwards.

Decoders are where a file becomes an attack. So none is loaded here: the worker gets the bytes but no path, has 512 MB
and four seconds, and can only compute (see `worker`). Its output may come from a compromised process: it is validated,
bounded, and never more than text and pixels.
"""

import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

from handhold.backends.convert.seccomp import build_filter
from handhold.backends.convert.worker_process import WorkerResult, run_worker
from handhold.backends.programs import find_interpreter
from handhold.core.errors import (
    BrokenFile,
    ConversionLimitExceeded,
    EncryptedPdf,
    ExtraMissing,
    NoSuchPage,
    SystemFailure,
    ToolError,
    TooManyPixels,
)
from handhold.core.facts import ConversionStopReason, ConvertedImage, ConvertedPdf, PdfPage, Picture
from handhold.core.plans import Convert

MAX_MEMORY_BYTES = 512 << 20  # of address space
MAX_CPU_SECONDS = 4  # the kernel counts whole seconds, and is a little late
MAX_SIDE_PIXELS = 4096  # the largest accepted from a worker
MAX_COUNT = 10**9  # of pages, frames, or pixels on a side
EXTRA_MODULES = {"images": ("PIL",), "pdf": ("PIL", "pypdfium2", "pypdfium2_raw")}
WORKER_CODE = (
    "import json, sys; job = json.loads(sys.argv[1]); sys.path += job['folders']; "
    "from handhold.backends.convert.worker import main; main(job)"
)
SIGNATURES = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff"}
TIMEOUT_STATUSES = (-signal.SIGXCPU, -signal.SIGKILL)

WorkerRecord = tuple[dict[str, Any], bytes]


class ConfinedConverter:
    """Implements the port Converter. One worker at a time, to bound memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def convert(self, convert: Convert) -> ConvertedImage | ConvertedPdf:
        try:
            result = self.run_job(build_job(convert), convert.snapshot.data)
        except OSError as error:
            raise SystemFailure(convert.request.path, f"the converter did not start: {error.strerror}") from error
        try:
            records = list(iter_records(result.stdout))
            return (
                parse_pdf(convert, records, result)
                if convert.medium == "pdf"
                else parse_image(convert, records, result)
            )
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise BrokenFile(convert.request.path, convert.medium, "its converted form is invalid") from None

    def run_job(self, job: dict[str, Any], data: bytes) -> WorkerResult:
        with self._lock:
            return run_worker((find_interpreter(), "-I", "-S", "-c", WORKER_CODE, json.dumps(job)), data)


def build_job(convert: Convert) -> dict[str, Any]:
    return {
        "medium": convert.medium,
        "pages": convert.pages,
        "images": convert.include_images,
        "chars": convert.chars,
        "memory": MAX_MEMORY_BYTES,
        "seconds": MAX_CPU_SECONDS,
        "filter": build_filter().hex(),
        "folders": find_import_paths("pdf" if convert.medium == "pdf" else "images"),
    }


def find_import_paths(extra: str) -> list[str]:
    """Where the worker finds its imports; raise ExtraMissing if they are not installed."""
    found = [str(Path(__file__).parents[3])]  # our own package
    for module in EXTRA_MODULES[extra]:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise ExtraMissing(extra)
        found.append(os.path.dirname(os.path.dirname(spec.origin)))
    return list(dict.fromkeys(found))


# --- results


def parse_image(convert: Convert, records: list[WorkerRecord], result: WorkerResult) -> ConvertedImage:
    for record, data in records:
        if "too_many_pixels" in record:
            width, height, maximum = map(int, record["too_many_pixels"])
            raise TooManyPixels(convert.request.path, width, height, maximum)
        frames = record["frames"]
        return ConvertedImage(
            picture=parse_picture(record, data),
            width=check_range(record["width"], 1, MAX_COUNT),
            height=check_range(record["height"], 1, MAX_COUNT),
            frames=None if frames is None else check_range(frames, 1, MAX_COUNT),
            is_rotated=bool(record["turned"]),
        )
    raise make_error(convert, result)


def parse_pdf(convert: Convert, records: list[WorkerRecord], result: WorkerResult) -> ConvertedPdf:
    if not records:
        raise make_error(convert, result)
    (first, _), *rest = records
    if "encrypted" in first:
        raise EncryptedPdf(convert.request.path)
    count = check_range(first["count"], 0, MAX_COUNT)
    if not count:
        raise BrokenFile(convert.request.path, "pdf", "it has no pages")
    if not any(number <= count for number in convert.pages):
        raise NoSuchPage(convert.request.path, convert.request.page_ranges, count)
    page_records = [(record, data) for record, data in rest if "page" in record]
    pages = tuple(parse_page(record, data) for record, data in page_records if record["page"] in convert.pages)
    if len({each.number for each in pages}) < len(pages) or sum(len(each.text) for each in pages) > convert.chars:
        raise ValueError("more than was asked for")
    stop_reason: ConversionStopReason | None = next(
        (parse_stop_reason(record["ended"]) for record, _ in rest if "ended" in record), None
    )
    if stop_reason is None:
        if not pages:
            raise make_error(convert, result)
        stop_reason = find_stop_reason(result)
    return ConvertedPdf(count, pages, stop_reason)


def parse_page(record: dict[str, Any], data: bytes) -> PdfPage:
    plain = PdfPage(
        number=int(record["page"]),
        text=str(record["text"]),
        omitted_chars=int(record["cut"]),
        is_broken=bool(record.get("broken", False)),
    )
    return replace(plain, picture=parse_picture(record, data)) if "mime" in record else plain


def parse_picture(record: dict[str, Any], data: bytes) -> Picture:
    mime = str(record["mime"])
    if not data.startswith(SIGNATURES[mime]):
        raise ValueError("not what it says")
    width, height = record["size"]
    return Picture(mime, data, check_range(width, 1, MAX_SIDE_PIXELS), check_range(height, 1, MAX_SIDE_PIXELS))


def check_range(value: Any, minimum: int, maximum: int) -> int:
    if not isinstance(value, int) or not minimum <= value <= maximum:
        raise ValueError(f"{value!r} is not between {minimum} and {maximum}")
    return value


def parse_stop_reason(value: Any) -> ConversionStopReason:
    match value:
        case "" | "room" | "time":
            return value
        case _:
            raise ValueError(f"{value!r} is no way to end")


def iter_records(output: bytes) -> Iterator[WorkerRecord]:
    """Each record with its bytes; an incomplete one is dropped."""
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        record = json.loads(output[at:end])
        at = end + 1 + check_range(record["bytes"], 0, len(output))
        if at > len(output):
            return
        yield record, output[end + 1 : at]


# --- errors


def find_stop_reason(result: WorkerResult) -> ConversionStopReason:
    if result.was_killed or result.exit_code in TIMEOUT_STATUSES:
        return "time"
    return "memory" if "MemoryError" in extract_error(result) or is_out_of_memory(result) else "broken"


def is_out_of_memory(result: WorkerResult) -> bool:
    """Whether it died without a message when its memory was used up, as some decoders do."""
    ours = getrusage(RUSAGE_SELF).ru_maxrss * 1024  # the kernel adds it to theirs
    return result.exit_code not in (0, 1) and result.usage.peak_memory_bytes > 0.9 * MAX_MEMORY_BYTES > ours


def make_error(convert: Convert, result: WorkerResult) -> ToolError:
    reason = find_stop_reason(result)
    if reason in ("time", "memory"):
        return ConversionLimitExceeded(convert.request.path, reason)
    words = extract_error(result)
    because = words if result.exit_code == 1 and words else "the decoder failed"
    return BrokenFile(convert.request.path, convert.medium, because)


def extract_error(result: WorkerResult) -> str:
    """Its error message, without what only a programmer would understand."""
    lines = result.stderr.strip().splitlines()
    name, _, words = lines[-1].partition(": ") if lines else ("", "", "")
    return words.strip().rstrip(".")[:200] or name.rpartition(".")[2]
