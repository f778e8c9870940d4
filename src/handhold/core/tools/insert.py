"""Insert: new lines behind a line that is named by its number."""

from itertools import islice

from handhold.core.errors import PastEnd
from handhold.core.plans import Bytes, Changes, FileChange
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Insert
from handhold.core.results import Step
from handhold.core.text.edits import Applied
from handhold.core.text.encoding import must_fit
from handhold.core.text.lines import count, pieces, prevailing_ending, unified
from handhold.core.tools.edit import edited


def plan(request: Insert, files: GuardedView) -> Changes:
    known = files.known(request.path)
    must_fit(request.text, known.text.coding, request.path)
    body = known.text.body
    if request.line > count(body):
        raise PastEnd(request.path, request.line, count(body))
    ending = prevailing_ending(body)
    added = unified(request.text).removesuffix("\n").replace("\n", ending)
    at = sum(len(line) + len(end) for line, end in islice(pieces(body), request.line))
    above, below = body[:at], body[at:]
    unended = above and not above.endswith("\n")  # the file's last line: it gets an end, and the new ones none
    after = known.text.with_body(above + ending + added if unended else above + added + ending + below)
    step = Step("", request.text, every=False, places=1, matched_by="line")
    change = FileChange(known.whole.path, Bytes(known.whole.data), Bytes(after.encode()))
    result = edited(request.path, known.whole.path, known.text, Applied(after, (step,)))
    return Changes((change,), result, whole=False)
