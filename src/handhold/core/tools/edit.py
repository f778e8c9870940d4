"""Edit and MultiEdit: replace text that the model quotes, one time or several, all or nothing."""

from collections.abc import Sequence

from handhold.core.choices import Matching
from handhold.core.errors import AlreadyExists, IsDirectory, ToolError
from handhold.core.plans import Bytes, Changes, FileChange
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Edit, MultiEdit, Replacement
from handhold.core.results import Edited, Step
from handhold.core.text.diff import hunks, snippet, unified_diff
from handhold.core.text.edits import Applied, apply
from handhold.core.text.encoding import Text


def plan(request: Edit, files: GuardedView) -> Changes:
    return plan_all(request.path, (request.edit,), files)


def plan_multi(request: MultiEdit, files: GuardedView) -> Changes:
    return plan_all(request.path, request.edits, files)


def plan_all(path: str, edits: Sequence[Replacement], files: GuardedView) -> Changes:
    look = files.look(path)
    if look and look.kind == "directory":
        raise IsDirectory(path)
    first, *rest = edits
    if not first.old:
        if look:
            raise AlreadyExists(path)
        return create(path, first.new, rest, files)
    known = files.known(path)
    applied = apply(known.text, edits, path=path, matching=files.matching)
    change = FileChange(known.whole.path, Bytes(known.whole.data), Bytes(applied.text.encode()))
    return Changes((change,), edited(path, known.whole.path, known.text, applied), whole=False)


def create(path: str, content: str, rest: Sequence[Replacement], files: GuardedView) -> Changes:
    """An empty old text makes the file; what follows edits what was made."""
    made = files.new(content, path)
    applied = apply(made, rest, path=path, matching=files.matching)
    applied = Applied(applied.text, (Step("", content, every=False, places=1, matched_by="exact"), *applied.steps))
    change = FileChange(files.place(path), None, Bytes(applied.text.encode()))
    return Changes((change,), edited(path, change.path, None, applied), whole=True)


def edited(path: str, place: str, before: Text | None, applied: Applied) -> Edited:
    old, new = before.body if before else "", applied.text.body
    found = tuple(hunks(old, new))
    return Edited(
        path=path,
        place=place,
        created=before is None,
        steps=applied.steps,
        encoding=applied.text.coding.name,
        read_by=applied.text.coding.how,
        diff=unified_diff(path, old if before else None, new, found),
        snippet=snippet(found),
    )


def valid(content: str, edit: Replacement, *, matching: Matching) -> ToolError | None:
    """Why this edit of this content would be refused; None if it would not."""
    try:
        execute(content, edit, matching=matching)
    except ToolError as error:
        return error
    return None


def execute(content: str, edit: Replacement, *, matching: Matching) -> str:
    """The content with the edit made."""
    return apply(Text(content), (edit,), path="", matching=matching).text.body
