"""Read: a page of a text file with line numbers, or a folder's entries."""

from handhold.core.errors import IsDirectory, PagesNotSupported
from handhold.core.plans import Answer, Convert, Search
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import ListFiles, Read
from handhold.core.text.file_types import PROBE_BYTES, detect_medium
from handhold.core.tools import convert, searches, text_page

MAX_FOLDER_ENTRIES = 200


def plan(request: Read, files: GuardedView) -> Answer | Search | Convert:
    try:
        stat = files.stat_file(request.path)
    except IsDirectory:
        if files.options.lists_folders:
            return plan_listing(request, files)
        raise
    head = files.read_head(request.path, stat, PROBE_BYTES)
    if medium := detect_medium(head.data, request.path):
        return convert.plan(request, medium, files)
    if request.page_ranges:
        raise PagesNotSupported(request.path)
    if request.path.lower().endswith(".ipynb"):
        from handhold.core.tools import notebook

        return notebook.plan_read(request, head, files)
    return text_page.plan_text(request, head, files)


def plan_listing(request: Read, files: GuardedView) -> Search:
    """List the folder as ListFiles does, so that its cursor continues here; some dialects list deeper."""
    entries = min(request.limit or MAX_FOLDER_ENTRIES, MAX_FOLDER_ENTRIES)
    list_request = ListFiles(
        path=request.path, depth=files.options.folder_depth, limit=entries, chars=request.limits.chars
    )
    return searches.plan(list_request, files)
