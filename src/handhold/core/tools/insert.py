"""Insert: add lines after a given line number."""

from itertools import islice

from handhold.core.errors import PastEnd
from handhold.core.plans import Changes, FileChange, InlineContent
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import Insert
from handhold.core.results import AppliedReplacement
from handhold.core.text.edits import AppliedEdits
from handhold.core.text.encoding import check_encodable
from handhold.core.text.kept_spans import KeptSpan
from handhold.core.text.lines import count_lines, detect_line_ending, iter_lines_with_endings, normalize_newlines
from handhold.core.tools.edit import build_edit_result


def plan(request: Insert, files: GuardedView) -> Changes:
    known = files.read_editable_text(request.path)
    check_encodable(request.text, known.text.encoding, request.path)
    body = known.text.body
    if request.line > count_lines(body):
        raise PastEnd(request.path, request.line, count_lines(body))
    ending = detect_line_ending(body)
    added = normalize_newlines(request.text).removesuffix("\n").replace("\n", ending)
    at = sum(len(line) + len(end) for line, end in islice(iter_lines_with_endings(body), request.line))
    above, below = body[:at], body[at:]
    unended = above and not above.endswith("\n")  # the file's last line has no newline; keep it that way
    after = known.text.with_body(above + ending + added if unended else above + added + ending + below)
    kept = (KeptSpan(0, 0, at), KeptSpan(at, len(after.body) - len(below), len(below)))
    step = AppliedReplacement("", request.text, every=False, match_count=1, matched_by="line")
    change = FileChange(
        known.snapshot.path, InlineContent(known.snapshot.data, known.snapshot.hash), InlineContent(after.encode())
    )
    result = build_edit_result(request.path, known.snapshot.path, known.text, AppliedEdits(after, (step,), kept))
    return Changes((change,), result, is_full_write=False)
