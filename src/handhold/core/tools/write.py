"""Write: a whole file, made or replaced."""

from handhold.core.errors import IsDirectory, NotRegularFile
from handhold.core.plans import Bytes, Changes, FileChange
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import Write
from handhold.core.results import Written
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text, must_fit
from handhold.core.text.lines import count
from handhold.core.text.splice import rewritten


def plan(request: Write, files: GuardedView) -> Changes:
    look = files.look(request.path)
    if look is None:
        return create(request.path, request.content, files)
    if look.kind == "directory":
        raise IsDirectory(request.path)
    if look.kind == "other":
        raise NotRegularFile(request.path, look.kind)
    known = files.known(request.path, all_of_it=True)
    must_fit(request.content, known.text.coding, request.path)
    after = known.text.with_body(rewritten(known.text.body, request.content))
    change = FileChange(known.whole.path, Bytes(known.whole.data), Bytes(after.encode()))
    return Changes((change,), written(request.path, known.whole.path, known.text, after), whole=True)


def create(path: str, content: str, files: GuardedView) -> Changes:
    after = files.new(content, path)
    change = FileChange(files.place(path), None, Bytes(after.encode()))
    return Changes((change,), written(path, change.path, None, after), whole=True)


def written(path: str, place: str, before: Text | None, after: Text) -> Written:
    return Written(
        path=path,
        place=place,
        created=before is None,
        size=len(after.encode()),
        lines=count(after.body),
        encoding=after.coding.name,
        read_by=after.coding.how,
        diff=unified_diff(path, before.body if before else None, after.body),
    )
