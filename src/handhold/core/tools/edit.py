"""Edit and MultiEdit: replace text that the model quotes, once or several times, all or nothing."""

from collections.abc import Callable, Sequence

from handhold.core.choices import Matching
from handhold.core.errors import AlreadyExists, NoMatch, ToolError
from handhold.core.plans import Changes, FileChange, InlineContent
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.ports.checks import SyntaxChecker
from handhold.core.requests import Edit, MultiEdit, Replacement
from handhold.core.results import AppliedReplacement, EditResult
from handhold.core.text.diff import build_snippet, compute_hunks, unified_diff
from handhold.core.text.edits import AppliedEdits, FindSyntaxError, apply_edits
from handhold.core.text.encoding import Text


def plan(request: Edit, files: GuardedView) -> Changes:
    return plan_all(request.path, (request.edit,), files)


def plan_multi(request: MultiEdit, files: GuardedView) -> Changes:
    return plan_all(request.path, request.edits, files)


def plan_all(path: str, edits: Sequence[Replacement], files: GuardedView) -> Changes:
    first, *rest = edits
    stat = files.stat(path)
    is_folder = stat is not None and stat.kind == "directory"  # which is refused as one below
    if not first.old and files.options.empty_old_creates and not is_folder:
        if stat:
            raise AlreadyExists(path)
        return plan_create(path, first.new, rest, files)
    known = files.read_editable_text(path)
    judge = make_syntax_judge(files.load_syntax_checker, known.snapshot.path)
    try:
        applied = apply_edits(known.text, edits, path=path, matching=files.matching, find_error=judge)
    except NoMatch as error:
        if files.options.hints:
            error.elsewhere = files.find_read_text(error.old, path)
        raise
    change = FileChange(
        known.snapshot.path,
        InlineContent(known.snapshot.data, known.snapshot.hash),
        InlineContent(applied.text.encode()),
    )
    return Changes((change,), build_edit_result(path, known.snapshot.path, known.text, applied), is_full_write=False)


def plan_create(path: str, content: str, rest: Sequence[Replacement], files: GuardedView) -> Changes:
    """Create the file, as an empty old text requests, and apply the remaining edits to it."""
    made = files.create_text(content, path)
    applied = apply_edits(made, rest, path=path, matching=files.matching)
    applied = AppliedEdits(
        applied.text,
        (AppliedReplacement("", content, every=False, match_count=1, matched_by="exact"), *applied.steps),
        kept=(),
    )
    change = FileChange(files.resolve(path), None, InlineContent(applied.text.encode()))
    return Changes((change,), build_edit_result(path, change.path, None, applied), is_full_write=True)


def build_edit_result(path: str, place: str, before: Text | None, applied: AppliedEdits) -> EditResult:
    old, new = before.body if before else "", applied.text.body
    found = tuple(compute_hunks(old, new, applied.kept))
    return EditResult(
        path=path,
        resolved_path=place,
        created=before is None,
        steps=applied.steps,
        encoding=applied.text.encoding.name,
        encoding_source=applied.text.encoding.basis,
        diff=unified_diff(path, old if before else None, new, found),
        snippet=build_snippet(found),
    )


def find_edit_error(content: str, edit: Replacement, *, matching: Matching) -> ToolError | None:
    """The error that this edit would raise on this content, or None."""
    try:
        apply_edit(content, edit, matching=matching)
    except ToolError as error:
        return error
    return None


def apply_edit(
    content: str,
    edit: Replacement,
    *,
    matching: Matching,
    path: str = "",
    load_syntax_checker: Callable[[], SyntaxChecker] | None = None,
) -> str:
    """The content after the edit."""
    judge = make_syntax_judge(load_syntax_checker, path)
    return apply_edits(Text(content), (edit,), path=path, matching=matching, find_error=judge).text.body


def make_syntax_judge(load: Callable[[], SyntaxChecker] | None, path: str) -> FindSyntaxError | None:
    """What says which error a change of this file makes; None if syntax is not checked."""
    if load is None:
        return None

    def find_error(before: Text, after: Text) -> tuple[int, str] | None:
        syntax, old, new = load(), before.encode(), after.encode()
        if max(len(old), len(new)) > syntax.get_max_bytes(path):
            return None
        found = syntax.find_new_errors(path, old, new)
        return (found[0].line, found[0].message) if found else None

    return find_error
