"""Words for commands, the same in every dialect: what was printed, how it ended, and what it changed.

The output comes first, unchanged; our notes follow in brackets. A command without output says so.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from shlex import quote

from handhold.core.facts import CommandOutput, ConflictKind, ExitStatus, SandboxStatus
from handhold.core.results import ChangedPath, ChangeVerb, JobResult, RunResult
from handhold.core.text.encoding import REPLACEMENT_CHAR
from handhold.dialects.formatting import format_list, pluralize, truncate

MAX_LISTED_PATHS = 30  # named in a reply; `reply.data` has a hundred
MAX_PATH_CHARS = 120  # longer than most absolute paths, which a model copies
MAX_LISTED_CONFLICTS = 5
MAX_LISTED_HIDDEN = 5
MAX_NOTE_CHARS = 500  # characters of a note
VERBS: tuple[ChangeVerb, ...] = ("created", "changed", "moved", "deleted")
INFINITIVES: dict[ChangeVerb, str] = {"created": "create", "changed": "change", "moved": "move", "deleted": "delete"}


@dataclass(frozen=True)
class JobToolNames:
    """The tools of a dialect for background commands."""

    output: str
    stop: str
    has_offset: bool  # whether output can be requested from an offset


def prepend_cd(folder: str, command: str) -> str:
    """The same command, started in `folder`. An empty path, a dot and a slash mean the workspace, where it starts anyway."""
    return f"cd -- {quote(folder)} || exit\n{command}" if folder not in ("", ".", "/") else command


# --- a finished command


def format_command(
    result: RunResult,
    *,
    timeout_advice: str = "Run it in smaller steps.",
    output_advice: str = "Read it in parts, or search it.",
) -> str:
    """The advice says what this dialect can do about a command that takes too long, and how to read a long output."""
    return "\n".join([*format_output(result.output, output_advice), *_format_outcome(result, timeout_advice)])


def _format_outcome(result: RunResult, timeout_advice: str) -> Iterator[str]:
    yield format_status(result)
    if result.exit_status.timed_out:
        yield f"[{_explain_timeout(result, timeout_advice)}]"
    yield from _format_changes(result)
    yield from _format_conflicts(result.conflicts)
    yield from _format_read_file_changes(result)
    yield from _format_notes(result)


def format_warnings(result: RunResult, *, with_changes: bool = False) -> Iterator[str]:
    """What even a family that does not list changes reports: changes that were not applied, and limits of the sandbox."""
    if with_changes or result.applied != "all":
        yield from _format_changes(result)
    yield from _format_conflicts(result.conflicts)
    yield from _format_notes(result)


def _format_notes(result: RunResult) -> Iterator[str]:
    for note in result.notes:
        yield f"[{truncate(note, MAX_NOTE_CHARS)}.]"
    if result.sandbox_known:
        return
    yield from _format_hidden_paths(result.sandbox)
    if result.undo_scope != "all":
        yield f"[{_explain_no_undo(result.sandbox)}]"
    elif result.sandbox.is_broker:
        yield f"[The command was held by the broker, without namespaces: {'; '.join(result.sandbox.why_not)}.]"


def format_status(result: RunResult) -> str:
    silence = "" if result.output.total_bytes else "No output. "
    return f"[{silence}{format_exit(result.exit_status)}]"


def format_exit(exit_status: ExitStatus) -> str:
    took = f"{exit_status.seconds:.2f} s"
    if exit_status.timed_out:
        return f"Timed out after {took}; the command and all its processes were killed."
    if exit_status.cancelled:
        return f"Stopped after {took}; the command and all its processes were killed."
    if exit_status.signal:
        return f"Killed by {exit_status.signal} after {took}."
    return f"Exit status {exit_status.code} after {took}."


def _explain_timeout(result: RunResult, advice: str) -> str:
    if result.applied != "all" or result.undo_scope != "all":
        return advice
    if not result.totals:
        return f"It had changed nothing. {advice}"
    return "The changes it had made by then were applied and can be undone."


def _format_changes(result: RunResult) -> Iterator[str]:
    if result.applied == "nothing":
        yield "[The command ran, but its changes were discarded.]"
        return
    if result.applied == "preview":
        would = _format_change_summary(result, INFINITIVES) or "change nothing"
        yield f"[Preview: nothing was changed. The command would {would}.]"
        if result.protected:
            yield f"[It would need approval for {format_list(result.protected, max_items=10)}.]"
    elif result.totals:
        yield f"[The command {_format_change_summary(result, {verb: verb for verb in VERBS})}.]"


def _format_conflicts(conflicts: tuple[tuple[str, ConflictKind, str], ...]) -> Iterator[str]:
    for path, clash, saved_path in conflicts[:MAX_LISTED_CONFLICTS]:
        yield f"[{truncate(path)} {_describe_conflict(clash, saved_path)}.]"
    if len(conflicts) > MAX_LISTED_CONFLICTS:
        yield f"[{len(conflicts) - MAX_LISTED_CONFLICTS:,} more paths had such conflicts.]"


def _describe_conflict(clash: ConflictKind, saved_path: str) -> str:
    if clash == "closed":
        return f"is no longer accessible, so the changes in it were discarded; the command's version is in {saved_path}"
    if clash == "owner":
        return "belongs to another user, so what the command did to it was discarded"
    would = {
        "changed": f"; the command's version is in {saved_path}" if saved_path else "",
        "deleted": "; the command would have deleted it",
        "mode": "; the command would have changed its mode",
    }
    return f"was changed by someone else while the command ran and was left as it is{would[clash]}"


def _format_change_summary(result: RunResult, verbs: dict[ChangeVerb, str]) -> str:
    """created a, b and 3 more; deleted c; changed 23 files in .git."""
    parts: list[str] = []
    remaining = MAX_LISTED_PATHS
    totals, git_files = _split_git_data(result)
    for verb in VERBS:
        total = totals.get(verb, 0)
        if not total:
            continue
        listed = [each for each in result.changed_paths if each.verb == verb and not _is_git_data(each)]
        named = [format_touched_path(each) for each in listed[:remaining]]
        remaining -= len(named)
        more = total - len(named)
        rest = f" and {more:,} more" if named and more else f"{more:,} paths" if more else ""
        parts.append(f"{verbs[verb]} {', '.join(named)}{rest}")
    if git_files:
        parts.append(f"{verbs['changed']} {pluralize(git_files, 'file')} in .git")
    return "; ".join(parts)


def _split_git_data(result: RunResult) -> tuple[Mapping[ChangeVerb, int], int]:
    """The totals without git's data, and how many files of git's data changed.

    Git's data is last among the paths, so where some of it is listed, everything that is not listed is git's data too.
    """
    listed = [each for each in result.changed_paths if _is_git_data(each)]
    if not listed:
        return result.totals, 0
    others: Counter[ChangeVerb] = Counter(each.verb for each in result.changed_paths if not _is_git_data(each))
    unlisted = sum(result.totals.values()) - len(result.changed_paths)
    return others, unlisted + sum(max(each.entry_count - 1, 1) for each in listed)


def _is_git_data(touched: ChangedPath) -> bool:
    from handhold.core.policy.gitdir import is_git_data_path  # only commands that changed something need it

    return is_git_data_path(touched.path)


def format_touched_path(touched: ChangedPath) -> str:
    path = truncate(touched.path, MAX_PATH_CHARS)
    source = f"{truncate(touched.source, MAX_PATH_CHARS)} to " if touched.source else ""
    if touched.kind == "folder":
        inside = f" ({pluralize(touched.entry_count - 1, 'entry', 'entries')})" if touched.entry_count > 1 else ""
        return f"{source}{path}/{inside}"
    return f"{source}{path}"


def _format_read_file_changes(result: RunResult) -> Iterator[str]:
    if result.seen_diffs:
        yield "[Files that you have read were changed:]"
        yield "".join(each.diff for each in result.seen_diffs).rstrip("\n")
        if partly := [each.path for each in result.seen_diffs if not each.complete]:
            yield f"[More has changed than is shown here. Read again before you edit: {format_list(partly, max_items=10)}.]"
        else:
            yield "[These are all their changes; you do not need to read them again.]"
    if result.undiffed_paths:
        yield f"[Read again before you edit: {format_list(result.undiffed_paths, max_items=10)}.]"


def _format_hidden_paths(sandbox: SandboxStatus) -> Iterator[str]:
    if sandbox.hidden:
        more = sandbox.hidden_total - len(named := sandbox.hidden[:MAX_LISTED_HIDDEN])
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"[Hidden from commands, because a rule denies reading: {format_list(named)}{rest}.]"


def _explain_no_undo(sandbox: SandboxStatus) -> str:
    why = f" ({'; '.join(sandbox.why_not)})" if sandbox.why_not else ""
    return f"The command ran directly on the workspace{why}, so its changes cannot be undone."


# --- output


def format_output(output: CommandOutput, advice: str = "Read it in parts, or search it.") -> Iterator[str]:
    yield from format_output_text(output)
    if output.handle:
        size = f"{pluralize(output.total_lines, 'line')}, {pluralize(output.total_bytes, 'byte')}"
        yield f"[The whole output ({size}) is in {output.handle}. {advice}]"
        if output.kept_bytes < output.total_bytes:
            yield f"[Only {output.kept_bytes:,} bytes of it were kept: its beginning and its end.]"


def format_output_text(output: CommandOutput) -> Iterator[str]:
    if output.head:
        yield output.head.removesuffix("\n")
    if output.omitted_lines or output.tail:
        what = pluralize(output.omitted_lines, "line") if output.omitted_lines else "the middle of a line"
        yield f"[… {what} left out here …]"
        yield output.tail.removesuffix("\n")
    if output.has_undecodable_bytes:
        yield f"[Some bytes are not valid UTF-8 and are shown as {REPLACEMENT_CHAR}.]"


# --- background commands


def format_job(result: JobResult, names: JobToolNames) -> str:
    return "\n".join([*format_output_text(result.output), *_format_job_status(result, names)])


def _format_job_status(result: JobResult, names: JobToolNames) -> Iterator[str]:
    name = truncate(result.job)
    silence = "" if result.output.total_bytes else "No new output. "
    if result.has_more:
        on = f"with offset={result.next_offset}" if names.has_offset else f"with {names.output} again"
        yield f"[There is more output. Continue {on}, or read {result.output.handle}.]"
    if result.exit_status:
        yield f"[{silence}{name}: {lower_first_letter(format_exit(result.exit_status))}]"
        yield from (f"[{name}: {note}.]" for note in result.notes)
    elif result.action == "start":
        if not result.sandbox_known:
            yield from _format_hidden_paths(result.sandbox)
        yield f"[{name} runs in the background. Read its output with {names.output}; stop it with {names.stop}.]"
        if result.sandbox.is_broker:
            yield "[It runs directly on the workspace; its changes can be undone once it has ended.]"
        else:
            yield "[It runs directly on the workspace, so its changes cannot be undone.]"
    else:
        sent = "Sent. " if result.action == "input" else ""
        yield f"[{sent}{silence}{name} is still running.]"


def lower_first_letter(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
