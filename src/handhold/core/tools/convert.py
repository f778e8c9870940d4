"""Read files that are not text: an image, or pages of a PDF. This module plans the request; a converter fulfils it.

An image costs a model about one token per 750 pixels, regardless of its bytes. The budget uses that cost.
"""

from base64 import b64encode

from handhold.core.errors import PagesNotSupported
from handhold.core.facts import ConvertedImage, ConvertedPdf, Medium, PdfPage, Picture, ShownParts
from handhold.core.plans import Answer, Convert
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import MAX_PDF_PAGES, Read
from handhold.core.results import Block, ImageResult, PdfResult
from handhold.core.text.file_types import medium_from_name
from handhold.core.text.lines import merge_ranges

PAGE_HEADING_CHARS = 80  # characters that a page costs in a reply, in addition to its text


def plan(request: Read, medium: Medium, files: GuardedView) -> Convert:
    if medium != "pdf" and request.page_ranges:
        raise PagesNotSupported(request.path)
    snapshot = files.read(request.path)
    wanted = request.page_ranges or ((1, MAX_PDF_PAGES),)
    pages = tuple(n for first, last in wanted for n in range(first, last + 1))[:MAX_PDF_PAGES]
    room = request.limits.chars - PAGE_HEADING_CHARS * len(pages)
    return Convert(request, snapshot, medium, pages, request.include_images, room)


def conclude(convert: Convert, converted: ConvertedImage | ConvertedPdf, files: GuardedView) -> Answer:
    path = convert.request.path
    named = medium_from_name(path)
    claimed = named if named and named != convert.medium else ""
    stale = files.has_seen_other_content(convert.snapshot)
    if isinstance(converted, ConvertedImage):
        picture = converted.picture
        shown = ImageResult(
            path=path,
            medium=convert.medium,
            claimed_medium=claimed,
            size=(converted.width, converted.height),
            sent_size=(picture.width, picture.height),
            mime=picture.mime,
            is_rotated=converted.is_rotated,
            frames=converted.frames,
            is_stale=stale,
            images=(encode_image(picture),),
            mtime_ns=convert.snapshot.identity.mtime_ns,
        )
        return Answer(shown, parts=ShownParts(convert.snapshot, (1,), 1))
    pages = PdfResult(
        path=path,
        page_count=converted.page_count,
        pages=converted.pages,
        omitted_ranges=list_omitted_pages(convert, converted),
        stop_reason=converted.stop_reason,
        claimed_medium=claimed,
        is_stale=stale,
        images=tuple(encode_image(page.picture) for page in converted.pages if page.picture),
        mtime_ns=convert.snapshot.identity.mtime_ns,
    )
    return Answer(
        pages,
        parts=ShownParts(
            convert.snapshot, tuple(n.number for n in converted.pages if is_complete(n)), converted.page_count
        ),
    )


def encode_image(picture: Picture) -> Block:
    return Block("image", mime=picture.mime, base64=b64encode(picture.data).decode("ascii"))


def list_omitted_pages(convert: Convert, converted: ConvertedPdf) -> tuple[tuple[int, int], ...]:
    """The requested pages that exist but are not shown. Without a page range, all pages are requested."""
    shown = {page.number for page in converted.pages}
    here = [(n, n) for n in convert.pages if n <= converted.page_count and n not in shown]
    beyond = (
        []
        if convert.request.page_ranges or converted.page_count <= MAX_PDF_PAGES
        else [(MAX_PDF_PAGES + 1, converted.page_count)]
    )
    return merge_ranges([*here, *beyond])


def is_complete(page: PdfPage) -> bool:
    return not page.omitted_chars and not page.is_broken
