"""What is not plain text in words: what stands beside the pictures, and where the pages are that do not stand here.

The same in every dialect; how to ask for more pages is not.
"""

from collections.abc import Iterator

from handhold.core.facts import PdfPage
from handhold.core.requests import MOST_PAGES
from handhold.core.results import NotebookShown, PdfShown, Pictured
from handhold.core.text.lines import merged
from handhold.dialects import notebooks
from handhold.dialects.quoting import clipped, ranges, several

NAMES = {"png": "PNG", "jpeg": "JPEG", "gif": "GIF", "webp": "WebP", "pdf": "PDF"}
WHY_LEFT = {
    "": f"one call shows at most {MOST_PAGES}",
    "room": "there was no more room",
    "time": "the pages took too long",
    "memory": "the pages took too much memory",
    "broken": "the file is broken there, or made to break what reads it",
}
MORE, ONE_BY_ONE = 'Go on with pages="{pages}".', 'Try them one by one with pages="{pages}".'

Media = Pictured | PdfShown | NotebookShown


def shown(result: Media, ways: notebooks.Ways, *, by_pages: bool = False) -> str:
    match result:
        case Pictured():
            return pictured(result)
        case PdfShown():
            return pdf(result, by_pages=by_pages)
        case NotebookShown():
            return "\n".join(notebooks.page(result, ways))


def pictured(image: Pictured) -> str:
    return "\n".join(_of_image(image))


def _of_image(image: Pictured) -> Iterator[str]:
    done = ["turned upright"] if image.turned else []
    done += [f"shown at {_size(image.sent)}"] if image.sent != image.size else []
    how = f", {' and '.join(done)}" if done else ""
    yield f"[{clipped(image.path)}: {NAMES[image.medium]} image, {_size(image.size)} pixels{how}.]"
    yield from _named(image.named, NAMES[image.medium])
    if image.frames != 1:
        count = f"{image.frames:,}" if image.frames else "many"
        yield f"[It is an animation of {count} frames; this is the first.]"
    if image.stale:
        yield "[The file has changed since you last saw it.]"


def pdf(shown: PdfShown, *, by_pages: bool) -> str:
    """With `by_pages`, how to ask for the pages that are left."""
    pictures = iter(range(1, len(shown.images) + 1))
    pages = (f"=== Page {page.number}\n{_page(page, next(pictures) if page.picture else 0)}" for page in shown.pages)
    here = ranges(merged([(page.number, page.number) for page in shown.pages]))
    these = f"; {'these are' if len(shown.pages) > 1 else 'this is'} {here}" if len(shown.pages) < shown.count else ""
    head = [f"[{clipped(shown.path)}: PDF, {several(shown.count, 'page')}{these}.]", *_named(shown.named, "PDF")]
    if shown.stale:
        head.append("[The file has changed since you last saw it.]")
    return "\n\n".join(["\n".join(head), *pages, *_rest(shown, by_pages=by_pages)])


def _page(page: PdfPage, picture: int) -> str:
    if page.broken:
        return "[This page is broken and cannot be shown.]"
    lines = [page.text] if page.text else []
    if page.cut:
        lines.append(f"[{page.cut:,} more characters of this page do not fit.]")
    if picture:
        lines.append(f"[{'See' if page.text else 'No text; see'} image {picture}.]")
    return "\n".join(lines) or "[Empty.]"


def _rest(shown: PdfShown, *, by_pages: bool) -> Iterator[str]:
    if not shown.left:
        return
    why = WHY_LEFT[shown.ended]
    first, last = shown.left[0]
    last = min(last, first + MOST_PAGES - 1)
    following = f"{first}-{last}" if last > first else f"{first}"
    more = ONE_BY_ONE if shown.ended not in ("", "room") else MORE
    how = f" {more.format(pages=following)}" if by_pages else ""
    yield f"[Not shown: {'page' if _is_one(shown) else 'pages'} {ranges(shown.left)}, since {why}.{how}]"


def _is_one(shown: PdfShown) -> bool:
    return len(shown.left) == 1 and shown.left[0][0] == shown.left[0][1]


def _named(named: str, is_a: str) -> Iterator[str]:
    if named:
        yield f"[Its name says {NAMES[named]}, but it is a {is_a}.]"


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"
