"""Searches, as every dialect shows them: a tree, matches by file, and what was not searched.

How to continue, and how to include what was left out, differs by family: those are its `SearchPhrases`. Every dialect
reports that something was left out, with or without hints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handhold.core.facts import MatchRow, SearchHit, SkippedFiles
from handhold.core.results import GlobResult, GrepResult, ListResult, SearchSummary
from handhold.core.tools.list_files import INDENT_CHARS, count_shared_prefix
from handhold.core.tools.paging import INCOMPLETE_SKIP_REASONS
from handhold.dialects.formatting import format_list, format_row, pluralize, truncate

MAX_SEARCH_CHARS = 69_000  # characters of results: 20,000 tokens, minus the notes and the line numbers of long files
MAX_CONTEXT_LINES = 40  # lines on each side of a match, so that one match with its lines always fits
MAX_LISTED_SKIPS = 8  # ignore rules that are listed one by one


@dataclass(frozen=True)
class SearchPhrases:
    """What a family's tools offer, as sentences for a note; empty where they have nothing for it."""

    next_page: str  # with {cursor} in it
    narrow: str
    unsorted: str  # the order that needs no complete scan
    ignored: str
    hidden: str
    explicit_path: str  # a file that is named itself is always searched
    regex: str
    literal: str
    counts_results: bool = True  # False where the result itself begins with its count
    timed_out: str = ""  # the message of a source at the time limit, with {seconds} in it


AnySearchResult = ListResult | GlobResult | GrepResult


# --- results


def normalize_folder(path: str) -> str:
    """The path of a folder as models spell it: an empty path, a dot and a trailing slash mean what they do in a shell."""
    names = [name for name in path.split("/") if name not in ("", ".")]
    return ("/" if path.startswith("/") or not names else "") + "/".join(names)


def format_tree(found: ListResult) -> Iterator[str]:
    """Names under their folders; a later page names the folders again."""
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
    """Matches have an arrow after their number, the lines around them a dash; gaps between them are marked."""
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


# --- what was left out


def format_empty_result(found: AnySearchResult) -> str:
    """What is certain where nothing was found."""
    search = found.summary
    files, skipped = search.outcome.searched_count, search.outcome.skipped
    where = "the workspace" if search.path == "." else truncate(search.path)
    if search.start:
        return "There are no more results."
    if search.outcome.abort_reason == "deadline":
        return f"Nothing was found in {where} before the time limit."
    if search.outcome.abort_reason == "entries":
        return f"Nothing was found in {where} among the entries that were searched."
    if isinstance(found, ListResult):
        return f"Everything in {where} was left out." if skipped else f"There is nothing in {where}."
    among = f" that matches {truncate(found.glob)}" if isinstance(found, GrepResult) and found.glob else ""
    if files == 0 and among and skipped and all(each.rule == "denied" for each in skipped):
        # Whether the pattern matches one of them is not reported: that would reveal parts of their names.
        return f"Nothing was searched: no file in {where}{among} may be searched."
    if files == 0 and skipped:
        return f"Nothing was searched: every file in {where}{among} was left out."
    if files == 0:
        return f"Nothing was searched: {where} has no file{among}."
    filtered = (
        f", among files that match {truncate(found.glob)}" if isinstance(found, GrepResult) and found.glob else ""
    )
    return f"No match for {truncate(found.pattern)} in {where}{filtered}.{describe_coverage(files, '' if skipped else describe_omitted(found))}"


def describe_omitted(found: GlobResult | GrepResult) -> str:
    """What is known about the files that were left out. With a glob, only those that it matches are reported."""
    if isinstance(found, GlobResult):
        return "the files left out do not match either"
    return "none of them was left out" if found.glob else "none was left out"


def describe_coverage(files: int | None, omitted: str) -> str:
    if files is None:
        return " The files that were left out were not all counted."
    searched = f"{pluralize(files, 'file')} {'was' if files == 1 else 'were'} searched"
    return f" {searched}, and {omitted}." if omitted else f" {searched}."


def format_search_notes(found: AnySearchResult, phrases: SearchPhrases) -> Iterator[str]:
    """How complete the search is: its order, how to get the rest, and everything that was left out."""
    search = found.summary
    scan = search.outcome
    if search.shown_count:
        yield from format_page_notes(found, phrases)
    if scan.abort_reason == "deadline" and phrases.timed_out:
        yield phrases.timed_out.format(seconds=search.timeout_seconds)
    elif scan.abort_reason == "deadline":
        yield f"[The time limit was reached before everything was searched{describe_newest_only(found)}. {suggest_narrowing(found, phrases)}]"
    if scan.abort_reason == "entries":
        yield f"[There are too many entries; not all of them were searched. {suggest_narrowing(found, phrases)}]"
    if scan.fallback_reason:
        yield f"[Searched by {scan.engine} instead of ripgrep: {scan.fallback_reason}.]"
    if scan.unstable_count:
        verb = "is" if scan.unstable_count == 1 else "are"
        yield f"[{pluralize(scan.unstable_count, 'file')} changed or disappeared during the search and {verb} not shown.]"
    if scan.changed_since_cursor:
        yield "[Files have changed since the cursor was made, so results may be missing or repeated. Start again without the cursor to be sure.]"
    yield from format_skipped_notes(found, phrases)
    if search.hint:
        yield f"[{format_hint(found, phrases)}]"


def format_page_notes(found: AnySearchResult, phrases: SearchPhrases) -> Iterator[str]:
    search = found.summary
    if not search.has_more and not search.start:
        if phrases.counts_results and not isinstance(found, ListResult):
            several_files = len(found.paths if isinstance(found, GlobResult) else found.files) > 1
            yield f"[{format_counts(found)}{describe_order(found) if several_files else ''}.]"
        return
    where = f"{format_item_range(found)}{describe_order(found) if search.has_more or search.shown_count > 1 else ''}"
    if not search.has_more:
        yield f"[{where}. This is the last page.]"
    elif search.cursor and phrases.next_page:
        yield f"[{where}, and there may be more. {phrases.next_page.format(cursor=search.cursor)}]"
    elif search.outcome.abort_reason in ("deadline", "entries"):
        yield f"[{where}.]"  # the next note says how to continue
    else:
        yield f"[{where}, and there may be more. {suggest_narrowing(found, phrases)}]"


def format_item_range(found: AnySearchResult) -> str:
    """The position of these items among all of them."""
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
    return "; these are the newest files found by then" if some else ""


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
    """Everything that was left out, in a listing or after no match; otherwise only what makes the result incomplete."""
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
            return f"{some} {noun} ignored by {skipped.source}:{skipped.line} ({truncate(skipped.pattern)})"
        case "ignore file":
            return f"{some} {noun} ignored by an ignore file"
        case "hidden" | "binary":
            return f"{some} {skipped.rule} {noun}"
        case "heavy folder":
            return f"{some} heavy {'folder' if skipped.files == 1 else 'folders'} such as node_modules"
        case "too large":
            return f"{some} {noun} over 1 GiB"
        case "denied":
            return f"{some} {noun} hidden by the policy"
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
            return f"A * matches within one folder. Use **/{truncate(pattern.rpartition('/')[2])} to search all folders below."
        case GrepResult(summary=SearchSummary(hint="regex")):
            return phrases.regex
        case _:
            return phrases.literal
