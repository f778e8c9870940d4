"""Words for commands, the same in every dialect: what was printed, how it ended, and what became of what it did.

Output comes first and stands bare; everything of ours is in brackets behind it. Silence is said in words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

from handhold.core.facts import CommandOutput, ConflictKind, ExitStatus, SandboxStatus
from handhold.core.results import ChangedPath, ChangeVerb, JobResult, RunResult
from handhold.core.text.encoding import REPLACEMENT_CHAR
from handhold.dialects.formatting import format_list, truncate

MAX_LISTED_PATHS = 30  # named in a reply; the facts name a hundred
MAX_PATH_CHARS = 80
MAX_LISTED_CONFLICTS = 5
MAX_LISTED_HIDDEN = 5
MAX_NOTE_CHARS = 500  # characters of a note
VERBS: tuple[ChangeVerb, ...] = ("created", "changed", "moved", "deleted")
INFINITIVES: dict[ChangeVerb, str] = {"created": "create", "changed": "change", "moved": "move", "deleted": "delete"}


@dataclass(frozen=True)
class JobToolNames:
    """What the tools for commands in the background are called in a dialect."""

    output: str
    stop: str
    has_offset: bool  # whether output can be asked for from an offset


def prepend_cd(folder: str, command: str) -> str:
    """The same command, begun in a folder; nothing, a dot and a slash are the workspace, where it begins anyway."""
    return f"cd -- {quote(folder)} || exit\n{command}" if folder not in ("", ".", "/") else command


# --- a command that ended


def format_command(result: RunResult) -> str:
    return "\n".join([*format_output(result.output), *_format_outcome(result)])


def _format_outcome(result: RunResult) -> Iterator[str]:
    yield format_status(result)
    if result.exit_status.timed_out:
        yield _format_timeout_note(result)
    yield from _format_changes(result)
    yield from _format_conflicts(result.conflicts)
    yield from _format_read_file_changes(result)
    yield from _format_notes(result)


def format_warnings(result: RunResult) -> Iterator[str]:
    """What is told even by a family that says nothing of what a command did: that it is not as it seems."""
    if result.applied != "all":
        yield from _format_changes(result)
    yield from _format_conflicts(result.conflicts)
    yield from _format_notes(result)


def _format_notes(result: RunResult) -> Iterator[str]:
    for note in result.notes:
        yield f"[{truncate(note, MAX_NOTE_CHARS)}.]"
    yield from _format_hidden_paths(result.sandbox)
    if result.undo_scope != "all":
        yield f"[undo: file tools only. {_explain_no_undo(result.sandbox)}]"


def format_status(result: RunResult) -> str:
    silence = "" if result.output.total_bytes else "No output. "
    return f"[{silence}{format_exit(result.exit_status)}]"


def format_exit(exit_status: ExitStatus) -> str:
    took = f"{exit_status.seconds:.2f} s"
    if exit_status.timed_out:
        return f"Timed out after {took}; it and everything that it had started were ended."
    if exit_status.cancelled:
        return f"Stopped after {took}, with everything that it had started."
    if exit_status.signal:
        return f"Ended by {exit_status.signal} after {took}."
    return f"Exit status {exit_status.code} after {took}."


def _format_timeout_note(result: RunResult) -> str:
    if result.applied != "all" or result.undo_scope != "all":
        return "[Give it a longer timeout, or run it in the background.]"
    if not result.totals:
        return "[It had changed nothing. Give it a longer timeout, or run it in the background.]"
    return "[What it had changed until then counts, and can be taken back.]"


def _format_changes(result: RunResult) -> Iterator[str]:
    if result.applied == "nothing":
        yield "[The command ran, but nothing of what it did counts: the workspace is as it was before.]"
        return
    if result.applied == "preview":
        would = _format_change_summary(result, INFINITIVES) or "change nothing"
        yield f"[A preview: nothing was changed. It would {would}.]"
        if result.protected:
            yield f"[Somebody would be asked first about {format_list(result.protected, max_items=10)}.]"
    elif result.totals:
        yield f"[It {_format_change_summary(result, {verb: verb for verb in VERBS})}.]"


def _format_conflicts(conflicts: tuple[tuple[str, ConflictKind, str], ...]) -> Iterator[str]:
    for path, clash, saved_path in conflicts[:MAX_LISTED_CONFLICTS]:
        yield f"[{truncate(path)} {_describe_conflict(clash, saved_path)}.]"
    if len(conflicts) > MAX_LISTED_CONFLICTS:
        yield f"[So were {len(conflicts) - MAX_LISTED_CONFLICTS:,} more.]"


def _describe_conflict(clash: ConflictKind, saved_path: str) -> str:
    if clash == "closed":
        return f"was closed, so what was done in it does not count; the command's version is in {saved_path}"
    would = {
        "changed": f"the command's version is in {saved_path}",
        "deleted": "the command would have deleted it",
        "mode": "the command would have changed its mode",
    }
    return f"was changed by somebody else meanwhile and stays as they left it; {would[clash]}"


def _format_change_summary(result: RunResult, verbs: dict[ChangeVerb, str]) -> str:
    """created a, b and 3 more; deleted c."""
    parts: list[str] = []
    remaining = MAX_LISTED_PATHS
    for verb in VERBS:
        total = result.totals.get(verb, 0)
        if not total:
            continue
        named = [format_touched_path(each) for each in result.changed_paths if each.verb == verb][:remaining]
        remaining -= len(named)
        more = total - len(named)
        rest = f" and {more:,} more" if named and more else f"{more:,} paths" if more else ""
        parts.append(f"{verbs[verb]} {', '.join(named)}{rest}")
    return "; ".join(parts)


def format_touched_path(touched: ChangedPath) -> str:
    path = truncate(touched.path, MAX_PATH_CHARS)
    source = f"{truncate(touched.source, MAX_PATH_CHARS)} to " if touched.source else ""
    if touched.kind == "folder":
        inside = f" ({touched.entry_count - 1:,} in it)" if touched.entry_count > 1 else ""
        return f"{source}{path}/{inside}"
    return f"{source}{path}"


def _format_read_file_changes(result: RunResult) -> Iterator[str]:
    if result.seen_diffs:
        yield "[Files that you had read are different now:]"
        yield "".join(each.diff for each in result.seen_diffs).rstrip("\n")
        if partly := [each.path for each in result.seen_diffs if not each.complete]:
            yield f"[More changed than is shown here in {format_list(partly, max_items=10)}: read again before changing it.]"
        else:
            yield "[This is all that changed in them: you need not read them again.]"
    if result.undiffed_paths:
        yield f"[Read again before changing: {format_list(result.undiffed_paths, max_items=10)}.]"


def _format_hidden_paths(sandbox: SandboxStatus) -> Iterator[str]:
    if sandbox.hidden:
        more = sandbox.hidden_total - len(named := sandbox.hidden[:MAX_LISTED_HIDDEN])
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"[Hidden from it, since a rule denies reading: {format_list(named)}{rest}.]"


def _explain_no_undo(sandbox: SandboxStatus) -> str:
    why = f" ({'; '.join(sandbox.why_not)})" if sandbox.why_not else ""
    return f"The command ran on the workspace itself{why}, so what it changed cannot be taken back."


# --- output


def format_output(output: CommandOutput) -> Iterator[str]:
    yield from format_output_text(output)
    if output.handle:
        size = f"{pluralize(output.total_lines, 'line')}, {pluralize(output.total_bytes, 'byte')}"
        yield f"[The whole output ({size}) is in {output.handle}: read it from an offset, or search in it.]"
        if output.kept_bytes < output.total_bytes:
            yield f"[Of that only {output.kept_bytes:,} bytes were kept, its beginning and its end.]"


def format_output_text(output: CommandOutput) -> Iterator[str]:
    if output.head:
        yield output.head.removesuffix("\n")
    if output.omitted_lines or output.tail:
        what = pluralize(output.omitted_lines, "line") if output.omitted_lines else "the middle of a line is"
        yield f"[… {what} left out here …]"
        yield output.tail.removesuffix("\n")
    if output.has_undecodable_bytes:
        yield f"[Some bytes are no valid UTF-8 and are shown as {REPLACEMENT_CHAR}.]"


def pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# --- in the background


def format_job(result: JobResult, names: JobToolNames) -> str:
    return "\n".join([*format_output_text(result.output), *_format_job_status(result, names)])


def _format_job_status(result: JobResult, names: JobToolNames) -> Iterator[str]:
    name = truncate(result.job)
    silence = "" if result.output.total_bytes else "No new output. "
    if result.has_more:
        on = f"with offset={result.next_offset}" if names.has_offset else f"with {names.output} again"
        yield f"[It has printed more: go on {on}, or read {result.output.handle}.]"
    if result.exit_status:
        yield f"[{silence}{name}: {lower_first_letter(format_exit(result.exit_status))}]"
    elif result.action == "start":
        yield from _format_hidden_paths(result.sandbox)
        yield f"[{name} runs in the background. Read what it prints with {names.output}, end it with {names.stop}.]"
        yield "[undo: file tools only. It runs on the workspace itself, so what it changes cannot be taken back.]"
    else:
        sent = "Sent. " if result.action == "input" else ""
        yield f"[{sent}{silence}{name} still runs.]"


def lower_first_letter(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
