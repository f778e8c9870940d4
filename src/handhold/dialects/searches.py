"""Searches, as every dialect shows them: a tree, rows by file, and what was not looked at.

What a family's tools have for going on, and for including what was left out, differs: that is its `SearchPhrases`. That
something was left out is said in every one of them, whether hints are on or not.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handhold.core.facts import MatchRow, SearchHit, SkippedFiles
from handhold.core.results import GlobResult, GrepResult, ListResult, SearchSummary
from handhold.core.tools.list_files import INDENT_CHARS, count_shared_prefix
from handhold.core.tools.paging import INCOMPLETE_SKIP_REASONS
from handhold.dialects.formatting import format_list, format_row, pluralize, truncate

MAX_SEARCH_CHARS = (
    69_000  # characters of what was found: 20,000 tokens, less what the notes and the numbers of long files take
)
MAX_CONTEXT_LINES = 40  # lines on one side of a match, so that one match with its lines is always within the room
MAX_LISTED_SKIPS = 8  # ignore files that are told one by one


@dataclass(frozen=True)
class SearchPhrases:
    """What a family's tools take, as sentences for a note; empty where there is nothing to take."""

    next_page: str  # with {cursor} in it
    narrow: str
    unsorted: str  # what needs no whole scan
    ignored: str
    hidden: str
    explicit_path: str  # what is named is always looked at
    regex: str
    literal: str
    timed_out: str = ""  # what a source says at the time limit, with {seconds} in it


AnySearchResult = ListResult | GlobResult | GrepResult


# --- what was found


def normalize_folder(path: str) -> str:
    """The path of a folder as models spell it: nothing, a dot and a final slash mean what they do in a shell."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    return ("/" if path.startswith("/") or not names else "") + "/".join(names)


def format_tree(found: ListResult) -> Iterator[str]:
    """Names under the folders that they are in, which a later page names again."""
    top = found.summary.path.rstrip("/") + "/"
    yield top
    current: Sequence[str] = ()
    for path, kind in found.entries:
        names = path.removeprefix(top).split("/")
        for depth in range(count_shared_prefix(current, names[:-1]), len(names) - 1):
            yield indent_entry(depth, f"{names[depth]}/")
        yield indent_entry(len(names) - 1, names[-1] + {"directory": "/", "link": " (link)"}.get(kind, ""))
        current = names


def indent_entry(depth: int, name: str) -> str:
    return " " * INDENT_CHARS * (depth + 1) + name


def format_matches(found: GrepResult) -> Iterator[str]:
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
                yield from format_match_lines(hit)


def format_match_lines(hit: SearchHit) -> Iterator[str]:
    """Matches with an arrow behind their number, the lines around them with a dash; a gap is shown if there are any."""
    around = not all(each.is_match for each in hit.rows)
    before = None
    for each in hit.rows:
        if around and before is not None and each.number > before + 1:
            yield "   ..."
        yield format_row(each.number, format_match_row(each), separator="→" if each.is_match else "-")
        before = each.number


def format_match_row(match_row: MatchRow) -> str:
    before, after = match_row.omitted_chars
    start = f"({before:,} characters before) ..." if before else ""
    end = f"... ({after:,} more characters)" if after else ""
    return f"{start}{match_row.text}{end}"


# --- what was not


def format_empty_result(found: AnySearchResult) -> str:
    """What can be said for certain where nothing was found."""
    search = found.summary
    files, skipped = search.outcome.searched_count, search.outcome.skipped
    where = "the workspace" if search.path == "." else truncate(search.path)
    if search.start:
        return "There is nothing more."
    if search.outcome.abort_reason == "deadline":
        return f"Nothing was found in {where} before time ran out."
    if search.outcome.abort_reason == "entries":
        return f"Nothing was found in {where} among the entries that were visited."
    if isinstance(found, ListResult):
        return f"Nothing in {where} is shown." if skipped else f"There is nothing in {where}."
    among = f" that matches {truncate(found.glob)}" if isinstance(found, GrepResult) and found.glob else ""
    if files == 0 and among and skipped and all(each.rule == "denied" for each in skipped):
        # Whether the pattern matches one of those is not told: that would be half their names.
        return f"Nothing was searched: there is no file in {where}{among} and may be searched."
    if files == 0 and skipped:
        return f"Nothing was searched: every file in {where}{among} is left out."
    if files == 0:
        return f"Nothing was searched: there is no file in {where}{among}."
    filtered = (
        f", among files that match {truncate(found.glob)}" if isinstance(found, GrepResult) and found.glob else ""
    )
    return f"No match for {truncate(found.pattern)} in {where}{filtered}.{describe_coverage(files, '' if skipped else describe_omitted(found))}"


def describe_omitted(found: GlobResult | GrepResult) -> str:
    """What is known of the files that were left out. Where there is a glob, only those are told that it would match."""
    if isinstance(found, GlobResult):
        return "none that was left out matches"
    return "none of them was left out" if found.glob else "none was left out"


def describe_coverage(files: int | None, omitted: str) -> str:
    if files is None:
        return ""
    searched = f"{pluralize(files, 'file')} {'was' if files == 1 else 'were'} searched"
    return f" {searched}, and {omitted}." if omitted else f" {searched}."


def format_search_notes(found: AnySearchResult, phrases: SearchPhrases) -> Iterator[str]:
    """How far the search went: its order, where the rest is, and everything that makes it less than whole."""
    search = found.summary
    scan = search.outcome
    if search.shown_count:
        yield from format_page_notes(found, phrases)
    if scan.abort_reason == "deadline" and phrases.timed_out:
        yield phrases.timed_out.format(seconds=search.timeout_seconds)
    elif scan.abort_reason == "deadline":
        yield f"[Time ran out before everything was searched{describe_newest_only(found)}. {suggest_narrowing(found, phrases)}]"
    if scan.abort_reason == "entries":
        yield f"[Not every entry was visited: there are too many. {suggest_narrowing(found, phrases)}]"
    if scan.fallback_reason:
        yield f"[Searched by {scan.engine}, not by ripgrep: {scan.fallback_reason}.]"
    if scan.unstable_count:
        verb = "is" if scan.unstable_count == 1 else "are"
        yield f"[{pluralize(scan.unstable_count, 'file')} changed or went away meanwhile and {verb} not shown.]"
    if scan.changed_since_cursor:
        yield "[Something changed since this cursor was given, so some may be missing here or come twice. Start again without it to be sure.]"
    yield from format_skipped_notes(found, phrases)
    if search.hint:
        yield f"[{format_hint(found, phrases)}]"


def format_page_notes(found: AnySearchResult, phrases: SearchPhrases) -> Iterator[str]:
    search = found.summary
    if not search.has_more and not search.start:
        if not isinstance(found, ListResult):
            several_files = len(found.paths if isinstance(found, GlobResult) else found.files) > 1
            yield f"[{format_counts(found)}{describe_order(found) if several_files else ''}.]"
        return
    where = f"{format_item_range(found)}{describe_order(found) if search.has_more or search.shown_count > 1 else ''}"
    if not search.has_more:
        yield f"[{where}. That is the last page.]"
    elif search.cursor and phrases.next_page:
        yield f"[{where}, and there may be more. {phrases.next_page.format(cursor=search.cursor)}]"
    elif search.outcome.abort_reason in ("deadline", "entries"):
        yield f"[{where}.]"  # the next note says what to do
    else:
        yield f"[{where}, and there may be more. {suggest_narrowing(found, phrases)}]"


def format_item_range(found: AnySearchResult) -> str:
    """Which of all the items these are."""
    match found:
        case ListResult():
            one, many = "Entry", "Entries"
        case GrepResult(mode="content"):
            one, many = "Matching line", "Matching lines"
        case _:
            one, many = "File", "Files"
    first, last = found.summary.start + 1, found.summary.start + found.summary.shown_count
    return f"{many} {first:,}-{last:,}" if last > first else f"{one} {first:,}"


def describe_order(found: AnySearchResult) -> str:
    if not is_newest_first(found):
        return ""
    return (
        ", newest first"
        if not isinstance(found, GrepResult) or found.mode == "files_with_matches"
        else ", newest files first"
    )


def suggest_narrowing(found: AnySearchResult, phrases: SearchPhrases) -> str:
    unsorted = phrases.unsorted if is_newest_first(found) else ""
    return f"{phrases.narrow} {unsorted}".rstrip()


def describe_newest_only(found: AnySearchResult) -> str:
    some = is_newest_first(found) and found.summary.shown_count
    return "; these are the newest of the files seen until then" if some else ""


def is_newest_first(found: AnySearchResult) -> bool:
    return found.summary.outcome.order == "modified" and not isinstance(found, ListResult)


def format_counts(found: GlobResult | GrepResult) -> str:
    match found:
        case GrepResult(mode="content", files=files):
            return f"{pluralize(found.summary.shown_count, 'matching line')} in {pluralize(len(files), 'file')}"
        case GrepResult(mode="count", files=files):
            total = sum(hit.count for _, hit in files)
            return f"{pluralize(total, 'matching line')} in {pluralize(len(files), 'file')}"
        case _:
            return pluralize(found.summary.shown_count, "file")


def format_skipped_notes(found: AnySearchResult, phrases: SearchPhrases) -> Iterator[str]:
    """All of it after a miss and in a listing, else what nobody wanted left out."""
    everything = isinstance(found, ListResult) or not found.summary.shown_count
    skipped = [each for each in found.summary.outcome.skipped if everything or each.rule in INCOMPLETE_SKIP_REASONS]
    if not skipped:
        return
    noun = ("entry", "entries") if isinstance(found, ListResult) else ("file", "files")
    skipped.sort(key=lambda each: (-each.files, each.rule, each.source, each.line))
    descriptions = [describe_skipped(each, *noun) for each in skipped]
    verb = "shown" if isinstance(found, ListResult) else "searched"
    yield f"[Not {verb}: {format_list(descriptions, max_items=MAX_LISTED_SKIPS)}.{suggest_including(skipped, phrases)}]"


def describe_skipped(skipped: SkippedFiles, one: str, many: str) -> str:
    some = f"{'at least ' if skipped.at_least else ''}{skipped.files:,}"
    noun = one if skipped.files == 1 else many
    match skipped.rule:
        case "ignore file" if skipped.source:
            return f"{some} {noun} by {skipped.source}:{skipped.line} ({truncate(skipped.pattern)})"
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


def suggest_including(skipped: Sequence[SkippedFiles], phrases: SearchPhrases) -> str:
    """How to include what was left out."""
    rules = {each.rule for each in skipped}
    sentences = [
        phrases.ignored if rules & {"ignore file", "heavy folder"} else "",
        phrases.hidden if "hidden" in rules else "",
        phrases.explicit_path if rules & {"binary", "too large"} else "",
    ]
    return "".join(f" {sentence}" for sentence in dict.fromkeys(sentences) if sentence)


def format_hint(found: AnySearchResult, phrases: SearchPhrases) -> str:
    match found:
        case GlobResult(summary=SearchSummary(hint="deeper"), pattern=pattern):
            return f"A * stays in one folder: **/{truncate(pattern.rpartition('/')[2])} looks in all below."
        case GrepResult(summary=SearchSummary(hint="regex")):
            return phrases.regex
        case _:
            return phrases.literal
