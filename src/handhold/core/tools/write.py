"""Write: create or replace a whole file."""

from handhold.core.plans import Changes, FileChange, InlineContent
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import Write
from handhold.core.results import WriteResult
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text, check_encodable
from handhold.core.text.lines import count_lines
from handhold.core.text.splice import keep_line_endings


def plan(request: Write, files: GuardedView) -> Changes:
    if files.stat(request.path) is None:
        return plan_create(request.path, request.content, files)
    known = files.read_editable_text(request.path, fully=True)
    check_encodable(request.content, known.text.encoding, request.path)
    after = known.text.with_body(keep_line_endings(known.text.body, request.content))
    change = FileChange(
        known.snapshot.path, InlineContent(known.snapshot.data, known.snapshot.hash), InlineContent(after.encode())
    )
    return Changes((change,), build_result(request.path, known.snapshot.path, known.text, after), is_full_write=True)


def plan_create(path: str, content: str, files: GuardedView) -> Changes:
    after = files.create_text(content, path)
    change = FileChange(files.resolve(path), None, InlineContent(after.encode()))
    return Changes((change,), build_result(path, change.path, None, after), is_full_write=True)


def build_result(path: str, place: str, before: Text | None, after: Text) -> WriteResult:
    return WriteResult(
        path=path,
        resolved_path=place,
        created=before is None,
        size=len(after.encode()),
        lines=count_lines(after.body),
        encoding=after.encoding.name,
        encoding_source=after.encoding.basis,
        diff=unified_diff(path, before.body if before else None, after.body),
    )
