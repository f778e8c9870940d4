"""Searches, as every dialect shows them: a tree, rows by file, and what was not looked at.

What a family's tools have for going on, and for including what was left out, differs: that is its `Manner`. That
something was left out is said in every one of them, whether hints are on or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handhold.core.facts import Hit, Row, Skipped
from handhold.core.results import Globbed, Grepped, Listed, Searched
from handhold.core.tools.list_files import INDENT, shared
from handhold.core.tools.paging import LOST
from handhold.dialects.quoting import clipped, listed, row, several

ROOM = 69_000  # characters of what was found: 20,000 tokens, less what the notes and the numbers of long files take
MOST_CONTEXT = 40  # lines on one side of a match, so that one match with its lines is always within the room
MOST_RULES = 8  # ignore files that are told one by one


@dataclass(frozen=True)
class Manner:
    """What a family's tools take, as sentences for a note; empty where there is nothing to take."""

    rest: str  # with {cursor} in it
    narrow: str
    unsorted: str  # what needs no whole scan
    ignored: str
    hidden: str
    itself: str  # what is named is always looked at
    regex: str
    literal: str
    late: str = ""  # what a source says at the time limit, with {seconds} in it


Found = Listed | Globbed | Grepped


# --- what was found


def folder(path: str) -> str:
    """The path of a folder as models spell it: nothing, a dot and a final slash mean what they do in a shell."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    return ("/" if path.startswith("/") or not names else "") + "/".join(names)


def tree(found: Listed) -> Iterator[str]:
    """Names under the folders that they are in, which a later page names again."""
    top = found.search.path.rstrip("/") + "/"
    yield top
    there: Sequence[str] = ()
    for path, kind in found.entries:
        names = path.removeprefix(top).split("/")
        for depth in range(shared(there, names[:-1]), len(names) - 1):
            yield indented(depth, f"{names[depth]}/")
        yield indented(len(names) - 1, names[-1] + {"directory": "/", "link": " (link)"}.get(kind, ""))
        there = names


def indented(depth: int, name: str) -> str:
    return " " * INDENT * (depth + 1) + name


def rows(found: Grepped) -> Iterator[str]:
    match found.mode:
        case "files_with_matches":
            yield from (path for path, _ in found.files)
        case "count":
            yield from (f"{path}: {hit.count:,}" for path, hit in found.files)
        case "content":
            for n, (path, hit) in enumerate(found.files):
                if n:
                    yield ""
                yield path
                yield from lines(hit)


def lines(hit: Hit) -> Iterator[str]:
    """Matches with an arrow behind their number, the lines around them with a dash; a gap is shown if there are any."""
    around = not all(each.is_match for each in hit.rows)
    before = None
    for each in hit.rows:
        if around and before is not None and each.number > before + 1:
            yield "   ..."
        yield row(each.number, whole_or_cut(each), mark="→" if each.is_match else "-")
        before = each.number


def whole_or_cut(line: Row) -> str:
    before, after = line.cut
    start = f"({before:,} characters before) ..." if before else ""
    end = f"... ({after:,} more characters)" if after else ""
    return f"{start}{line.text}{end}"


# --- what was not


def miss(found: Found) -> str:
    """What can be said for certain where nothing was found."""
    search = found.search
    files, skipped = search.scan.searched, search.scan.skipped
    where = "the workspace" if search.path == "." else clipped(search.path)
    if search.start:
        return "There is nothing more."
    if search.scan.aborted == "deadline":
        return f"Nothing was found in {where} before time ran out."
    if search.scan.aborted == "entries":
        return f"Nothing was found in {where} among the entries that were visited."
    if isinstance(found, Listed):
        return f"Nothing in {where} is shown." if skipped else f"There is nothing in {where}."
    among = f" that matches {clipped(found.glob)}" if isinstance(found, Grepped) and found.glob else ""
    if files == 0 and among and skipped and all(each.rule == "denied" for each in skipped):
        # Whether the pattern matches one of those is not told: that would be half their names.
        return f"Nothing was searched: there is no file in {where}{among} and may be searched."
    if files == 0 and skipped:
        return f"Nothing was searched: every file in {where}{among} is left out."
    if files == 0:
        return f"Nothing was searched: there is no file in {where}{among}."
    filtered = f", among files that match {clipped(found.glob)}" if isinstance(found, Grepped) and found.glob else ""
    return (
        f"No match for {clipped(found.pattern)} in {where}{filtered}.{reach(files, '' if skipped else others(found))}"
    )


def others(found: Globbed | Grepped) -> str:
    """What is known of the files that were left out. Where there is a glob, only those are told that it would match."""
    if isinstance(found, Globbed):
        return "none that was left out matches"
    return "none of them was left out" if found.glob else "none was left out"


def reach(files: int | None, besides: str) -> str:
    if files is None:
        return ""
    searched = f"{several(files, 'file')} {'was' if files == 1 else 'were'} searched"
    return f" {searched}, and {besides}." if besides else f" {searched}."


def notes(found: Found, manner: Manner) -> Iterator[str]:
    """How far the search went: its order, where the rest is, and everything that makes it less than whole."""
    search = found.search
    scan = search.scan
    if search.shown:
        yield from on_page(found, manner)
    if scan.aborted == "deadline" and manner.late:
        yield manner.late.format(seconds=search.seconds)
    elif scan.aborted == "deadline":
        yield f"[Time ran out before everything was searched{on_newest(found)}. {narrow(found, manner)}]"
    if scan.aborted == "entries":
        yield f"[Not every entry was visited: there are too many. {narrow(found, manner)}]"
    if scan.weaker:
        yield f"[Searched by {scan.engine}, not by ripgrep: {scan.weaker}.]"
    if scan.unsteady:
        verb = "is" if scan.unsteady == 1 else "are"
        yield f"[{several(scan.unsteady, 'file')} changed or went away meanwhile and {verb} not shown.]"
    if scan.changed:
        yield "[Something changed since this cursor was given, so some may be missing here or come twice. Start again without it to be sure.]"
    yield from on_skipped(found, manner)
    if search.hint:
        yield f"[{hints(found, manner)}]"


def on_page(found: Found, manner: Manner) -> Iterator[str]:
    search = found.search
    if not search.more and not search.start:
        if not isinstance(found, Listed):
            several_files = len(found.paths if isinstance(found, Globbed) else found.files) > 1
            yield f"[{counted(found)}{order(found) if several_files else ''}.]"
        return
    where = f"{span(found)}{order(found) if search.more or search.shown > 1 else ''}"
    if not search.more:
        yield f"[{where}. That is the last page.]"
    elif search.cursor and manner.rest:
        yield f"[{where}, and there may be more. {manner.rest.format(cursor=search.cursor)}]"
    elif search.scan.aborted in ("deadline", "entries"):
        yield f"[{where}.]"  # the next note says what to do
    else:
        yield f"[{where}, and there may be more. {narrow(found, manner)}]"


def span(found: Found) -> str:
    """Which of all the items these are."""
    match found:
        case Listed():
            one, many = "Entry", "Entries"
        case Grepped(mode="content"):
            one, many = "Matching line", "Matching lines"
        case _:
            one, many = "File", "Files"
    first, last = found.search.start + 1, found.search.start + found.search.shown
    return f"{many} {first:,}-{last:,}" if last > first else f"{one} {first:,}"


def order(found: Found) -> str:
    if not newest_first(found):
        return ""
    return (
        ", newest first"
        if not isinstance(found, Grepped) or found.mode == "files_with_matches"
        else ", newest files first"
    )


def narrow(found: Found, manner: Manner) -> str:
    unsorted = manner.unsorted if newest_first(found) else ""
    return f"{manner.narrow} {unsorted}".rstrip()


def on_newest(found: Found) -> str:
    some = newest_first(found) and found.search.shown
    return "; these are the newest of the files seen until then" if some else ""


def newest_first(found: Found) -> bool:
    return found.search.scan.order == "modified" and not isinstance(found, Listed)


def counted(found: Globbed | Grepped) -> str:
    match found:
        case Grepped(mode="content", files=files):
            return f"{several(found.search.shown, 'matching line')} in {several(len(files), 'file')}"
        case Grepped(mode="count", files=files):
            total = sum(hit.count for _, hit in files)
            return f"{several(total, 'matching line')} in {several(len(files), 'file')}"
        case _:
            return several(found.search.shown, "file")


def on_skipped(found: Found, manner: Manner) -> Iterator[str]:
    """All of it after a miss and in a listing, else what nobody wanted left out."""
    everything = isinstance(found, Listed) or not found.search.shown
    skipped = [each for each in found.search.scan.skipped if everything or each.rule in LOST]
    if not skipped:
        return
    noun = ("entry", "entries") if isinstance(found, Listed) else ("file", "files")
    skipped.sort(key=lambda each: (-each.files, each.rule, each.source, each.line))
    told = [left_out(each, *noun) for each in skipped]
    verb = "shown" if isinstance(found, Listed) else "searched"
    yield f"[Not {verb}: {listed(told, most=MOST_RULES)}.{ways(skipped, manner)}]"


def left_out(skipped: Skipped, one: str, many: str) -> str:
    some = f"{'at least ' if skipped.at_least else ''}{skipped.files:,}"
    noun = one if skipped.files == 1 else many
    match skipped.rule:
        case "ignore file" if skipped.source:
            return f"{some} {noun} by {skipped.source}:{skipped.line} ({clipped(skipped.pattern)})"
        case "ignore file":
            return f"{some} {noun} by an ignore file"
        case "hidden" | "binary":
            return f"{some} {skipped.rule} {noun}"
        case "heavy folder":
            return f"{some} heavy {'folder' if skipped.files == 1 else 'folders'} such as node_modules"
        case "too large":
            return f"{some} {noun} over 1 GiB"
        case "denied":
            return f"{some} {noun} that the policy does not show"
        case "unreadable":
            return f"{some} {noun} that could not be read"
        case "too deep":
            return f"{some} {noun} in folders nested too deeply"


def ways(skipped: Sequence[Skipped], manner: Manner) -> str:
    """How to include what was left out."""
    rules = {each.rule for each in skipped}
    sentences = [
        manner.ignored if rules & {"ignore file", "heavy folder"} else "",
        manner.hidden if "hidden" in rules else "",
        manner.itself if rules & {"binary", "too large"} else "",
    ]
    return "".join(f" {sentence}" for sentence in dict.fromkeys(sentences) if sentence)


def hints(found: Found, manner: Manner) -> str:
    match found:
        case Globbed(search=Searched(hint="deeper"), pattern=pattern):
            return f"A * stays in one folder: **/{clipped(pattern.rpartition('/')[2])} looks in all below."
        case Grepped(search=Searched(hint="regex")):
            return manner.regex
        case _:
            return manner.literal
