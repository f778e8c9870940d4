"""Images, PDFs and notebooks in words: the text around the pictures, and which pages are not shown.

The same in every dialect, except for how to request more pages.
"""

from collections.abc import Iterator

from handhold.core.facts import PdfPage
from handhold.core.requests import MAX_PDF_PAGES
from handhold.core.results import ImageResult, NotebookResult, PdfResult
from handhold.core.text.lines import merge_ranges
from handhold.dialects import notebooks
from handhold.dialects.formatting import format_ranges, pluralize, truncate

FORMAT_NAMES = {"png": "PNG", "jpeg": "JPEG", "gif": "GIF", "webp": "WebP", "pdf": "PDF"}
OMISSION_REASONS = {
    "": f"one call shows at most {MAX_PDF_PAGES} pages",
    "room": "the reply is full",
    "time": "the pages took too long",
    "memory": "the pages took too much memory",
    "broken": "the file is damaged there",
}
MORE_PAGES_HINT, SINGLE_PAGES_HINT = 'Continue with pages="{pages}".', 'Try them one at a time with pages="{pages}".'

Media = ImageResult | PdfResult | NotebookResult


def format_media(result: Media, phrases: notebooks.NotebookPhrases, *, with_page_hint: bool = False) -> str:
    match result:
        case ImageResult():
            return format_image(result)
        case PdfResult():
            return format_pdf(result, with_page_hint=with_page_hint)
        case NotebookResult():
            return "\n".join(notebooks.format_notebook(result, phrases))


def format_image(image: ImageResult) -> str:
    return "\n".join(_format_image_notes(image))


def _format_image_notes(image: ImageResult) -> Iterator[str]:
    done = ["turned upright"] if image.is_rotated else []
    done += [f"shown at {_format_size(image.sent_size)}"] if image.sent_size != image.size else []
    how = f", {' and '.join(done)}" if done else ""
    yield f"[{truncate(image.path)}: {FORMAT_NAMES[image.medium]} image, {_format_size(image.size)} pixels{how}.]"
    yield from _format_type_mismatch(image.claimed_medium, FORMAT_NAMES[image.medium])
    if image.frames != 1:
        count = f"{image.frames:,}" if image.frames else "many"
        yield f"[It is an animation of {count} frames; this is the first frame.]"
    if image.is_stale:
        yield "[The file has changed since you last read it.]"


def format_pdf(result: PdfResult, *, with_page_hint: bool) -> str:
    """With `with_page_hint`, it says how to request the remaining pages."""
    pictures = iter(range(1, len(result.images) + 1))
    pages = (
        f"=== Page {page.number}\n{_format_page(page, next(pictures) if page.picture else 0)}" for page in result.pages
    )
    here = format_ranges(merge_ranges([(page.number, page.number) for page in result.pages]))
    these = f"; showing {here}" if len(result.pages) < result.page_count else ""
    head = [
        f"[{truncate(result.path)}: PDF, {pluralize(result.page_count, 'page')}{these}.]",
        *_format_type_mismatch(result.claimed_medium, "PDF"),
    ]
    if result.is_stale:
        head.append("[The file has changed since you last read it.]")
    return "\n\n".join(["\n".join(head), *pages, *_format_omitted_pages(result, with_page_hint=with_page_hint)])


def _format_page(page: PdfPage, picture: int) -> str:
    if page.is_broken:
        return "[This page is damaged and cannot be shown.]"
    lines = [page.text] if page.text else []
    if page.omitted_chars:
        lines.append(f"[{page.omitted_chars:,} more characters of this page are not shown.]")
    if picture:
        lines.append(f"[{'See' if page.text else 'No text; see'} image {picture}.]")
    return "\n".join(lines) or "[Empty page.]"


def _format_omitted_pages(result: PdfResult, *, with_page_hint: bool) -> Iterator[str]:
    if not result.omitted_ranges:
        return
    why = OMISSION_REASONS[result.stop_reason]
    first, last = result.omitted_ranges[0]
    last = min(last, first + MAX_PDF_PAGES - 1)
    following = f"{first}-{last}" if last > first else f"{first}"
    more = SINGLE_PAGES_HINT if result.stop_reason not in ("", "room") else MORE_PAGES_HINT
    how = f" {more.format(pages=following)}" if with_page_hint else ""
    yield f"[Not shown: {'page' if _has_one_omitted_page(result) else 'pages'} {format_ranges(result.omitted_ranges)}, because {why}.{how}]"


def _has_one_omitted_page(result: PdfResult) -> bool:
    return len(result.omitted_ranges) == 1 and result.omitted_ranges[0][0] == result.omitted_ranges[0][1]


def _format_type_mismatch(claimed_medium: str, actual_name: str) -> Iterator[str]:
    if claimed_medium:
        yield f"[Its name says {FORMAT_NAMES[claimed_medium]}, but it is a {actual_name}.]"


def _format_size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
