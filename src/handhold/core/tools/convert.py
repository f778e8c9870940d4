"""Read, where a file is not text: an image, or pages of a PDF. Somebody else makes them fit; here is what is asked for.

A picture costs a model about a token for 750 of its pixels, whatever its bytes: that is the price it has here.
"""

from base64 import b64encode

from handhold.core.errors import NotPaged
from handhold.core.facts import ConvertedImage, ConvertedPdf, Medium, Parts, PdfPage, Picture
from handhold.core.plans import Answer, Convert
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import MOST_PAGES, Read
from handhold.core.results import Block, PdfShown, Pictured
from handhold.core.text.kinds import named_medium
from handhold.core.text.lines import merged

HEADING = 80  # characters of a reply that a page costs beside its text


def plan(request: Read, medium: Medium, files: GuardedView) -> Convert:
    if medium != "pdf" and request.pages:
        raise NotPaged(request.path)
    whole = files.content(request.path)
    wanted = request.pages or ((1, MOST_PAGES),)
    pages = tuple(n for first, last in wanted for n in range(first, last + 1))[:MOST_PAGES]
    room = request.limits.chars - HEADING * len(pages)
    return Convert(request, whole, medium, pages, request.images, room)


def conclude(convert: Convert, made: ConvertedImage | ConvertedPdf, files: GuardedView) -> Answer:
    path = convert.request.path
    named = named_medium(path)
    lies = named if named and named != convert.medium else ""
    stale = files.was_other(convert.whole)
    if isinstance(made, ConvertedImage):
        picture = made.picture
        shown = Pictured(
            path=path,
            medium=convert.medium,
            named=lies,
            size=(made.width, made.height),
            sent=(picture.width, picture.height),
            mime=picture.mime,
            turned=made.turned,
            frames=made.frames,
            stale=stale,
            images=(block(picture),),
            mtime_ns=convert.whole.identity.mtime_ns,
        )
        return Answer(shown, parts=Parts(convert.whole, (1,), 1))
    pages = PdfShown(
        path=path,
        count=made.count,
        pages=made.pages,
        left=left(convert, made),
        ended=made.ended,
        named=lies,
        stale=stale,
        images=tuple(block(page.picture) for page in made.pages if page.picture),
        mtime_ns=convert.whole.identity.mtime_ns,
    )
    return Answer(pages, parts=Parts(convert.whole, tuple(n.number for n in made.pages if is_whole(n)), made.count))


def block(picture: Picture) -> Block:
    return Block("image", mime=picture.mime, base64=b64encode(picture.data).decode("ascii"))


def left(convert: Convert, made: ConvertedPdf) -> tuple[tuple[int, int], ...]:
    """The pages that were asked for, are there, and are not shown. Without a word about pages, all are asked for."""
    shown = {page.number for page in made.pages}
    here = [(n, n) for n in convert.pages if n <= made.count and n not in shown]
    beyond = [] if convert.request.pages or made.count <= MOST_PAGES else [(MOST_PAGES + 1, made.count)]
    return merged([*here, *beyond])


def is_whole(page: PdfPage) -> bool:
    return not page.cut and not page.broken
