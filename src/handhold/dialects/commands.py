"""Words for commands, the same in every dialect: what was printed, how it ended, and what became of what it did.

Output comes first and stands bare; everything of ours is in brackets behind it. Silence is said in words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote

from handhold.core.facts import Clash, Exit, Held, Output
from handhold.core.results import Deed, JobShown, Ran, Touched
from handhold.core.text.encoding import REPLACEMENT
from handhold.dialects.quoting import clipped, listed

MOST_PATHS = 30  # named in a reply; the facts name a hundred
PATH_CHARS = 80
MOST_CONFLICTS = 5
MOST_HIDDEN = 5
MOST_NOTED = 500  # characters of a note
VERBS: tuple[Deed, ...] = ("created", "changed", "moved", "deleted")
INFINITIVES: dict[Deed, str] = {"created": "create", "changed": "change", "moved": "move", "deleted": "delete"}


@dataclass(frozen=True)
class Names:
    """What the tools for commands in the background are called in a dialect."""

    output: str
    stop: str
    offset: bool  # whether output can be asked for from an offset


def standing_in(folder: str, command: str) -> str:
    """The same command, begun in a folder; nothing, a dot and a slash are the workspace, where it begins anyway."""
    return f"cd -- {quote(folder)} || exit\n{command}" if folder not in ("", ".", "/") else command


# --- a command that ended


def ran(result: Ran) -> str:
    return "\n".join([*shown(result.output), *_behind(result)])


def _behind(result: Ran) -> Iterator[str]:
    yield status(result)
    if result.exit.timed_out:
        yield _what_remains(result)
    yield from _deeds(result)
    yield from _conflicts(result.conflicts)
    yield from _seen(result)
    yield from _notes(result)


def warnings(result: Ran) -> Iterator[str]:
    """What is told even by a family that says nothing of what a command did: that it is not as it seems."""
    if result.counts != "all":
        yield from _deeds(result)
    yield from _conflicts(result.conflicts)
    yield from _notes(result)


def _notes(result: Ran) -> Iterator[str]:
    for note in result.notes:
        yield f"[{clipped(note, MOST_NOTED)}.]"
    yield from _hidden(result.held)
    if result.undo != "all":
        yield f"[undo: file tools only. {_direct(result.held)}]"


def status(result: Ran) -> str:
    silence = "" if result.output.bytes else "No output. "
    return f"[{silence}{ended(result.exit)}]"


def ended(end: Exit) -> str:
    took = f"{end.seconds:.2f} s"
    if end.timed_out:
        return f"Timed out after {took}; it and everything that it had started were ended."
    if end.cancelled:
        return f"Stopped after {took}, with everything that it had started."
    if end.signal:
        return f"Ended by {end.signal} after {took}."
    return f"Exit status {end.code} after {took}."


def _what_remains(result: Ran) -> str:
    if result.counts != "all" or result.undo != "all":
        return "[Give it a longer timeout, or run it in the background.]"
    if not result.totals:
        return "[It had changed nothing. Give it a longer timeout, or run it in the background.]"
    return "[What it had changed until then counts, and can be taken back.]"


def _deeds(result: Ran) -> Iterator[str]:
    if result.counts == "nothing":
        yield "[The command ran, but nothing of what it did counts: the workspace is as it was before.]"
        return
    if result.counts == "preview":
        would = _sentence(result, INFINITIVES) or "change nothing"
        yield f"[A preview: nothing was changed. It would {would}.]"
        if result.protected:
            yield f"[Somebody would be asked first about {listed(result.protected, most=10)}.]"
    elif result.totals:
        yield f"[It {_sentence(result, {verb: verb for verb in VERBS})}.]"


def _conflicts(conflicts: tuple[tuple[str, Clash, str], ...]) -> Iterator[str]:
    for path, clash, kept in conflicts[:MOST_CONFLICTS]:
        yield f"[{clipped(path)} {_clash(clash, kept)}.]"
    if len(conflicts) > MOST_CONFLICTS:
        yield f"[So were {len(conflicts) - MOST_CONFLICTS:,} more.]"


def _clash(clash: Clash, kept: str) -> str:
    if clash == "closed":
        return f"was closed, so what was done in it does not count; the command's version is in {kept}"
    would = {
        "changed": f"the command's version is in {kept}",
        "deleted": "the command would have deleted it",
        "mode": "the command would have changed its mode",
    }
    return f"was changed by somebody else meanwhile and stays as they left it; {would[clash]}"


def _sentence(result: Ran, words: dict[Deed, str]) -> str:
    """created a, b and 3 more; deleted c."""
    parts: list[str] = []
    room = MOST_PATHS
    for verb in VERBS:
        total = result.totals.get(verb, 0)
        if not total:
            continue
        named = [thing(each) for each in result.touched if each.verb == verb][:room]
        room -= len(named)
        more = total - len(named)
        rest = f" and {more:,} more" if named and more else f"{more:,} paths" if more else ""
        parts.append(f"{words[verb]} {', '.join(named)}{rest}")
    return "; ".join(parts)


def thing(touched: Touched) -> str:
    path = clipped(touched.path, PATH_CHARS)
    source = f"{clipped(touched.source, PATH_CHARS)} to " if touched.source else ""
    if touched.kind == "folder":
        inside = f" ({touched.entries - 1:,} in it)" if touched.entries > 1 else ""
        return f"{source}{path}/{inside}"
    return f"{source}{path}"


def _seen(result: Ran) -> Iterator[str]:
    if result.seen:
        yield "[Files that you had read are different now:]"
        yield "".join(each.diff for each in result.seen).rstrip("\n")
        if partly := [each.path for each in result.seen if not each.complete]:
            yield f"[More changed than is shown here in {listed(partly, most=10)}: read again before changing it.]"
        else:
            yield "[This is all that changed in them: you need not read them again.]"
    if result.unseen:
        yield f"[Read again before changing: {listed(result.unseen, most=10)}.]"


def _hidden(held: Held) -> Iterator[str]:
    if held.hidden:
        more = held.hidden_total - len(named := held.hidden[:MOST_HIDDEN])
        rest = f" and {more:,} more" if more > 0 else ""
        yield f"[Hidden from it, since a rule denies reading: {listed(named)}{rest}.]"


def _direct(held: Held) -> str:
    why = f" ({'; '.join(held.why_not)})" if held.why_not else ""
    return f"The command ran on the workspace itself{why}, so what it changed cannot be taken back."


# --- output


def shown(output: Output) -> Iterator[str]:
    yield from printed(output)
    if output.handle:
        size = f"{several(output.lines, 'line')}, {several(output.bytes, 'byte')}"
        yield f"[The whole output ({size}) is in {output.handle}: read it from an offset, or search in it.]"
        if output.kept < output.bytes:
            yield f"[Of that only {output.kept:,} bytes were kept, its beginning and its end.]"


def printed(output: Output) -> Iterator[str]:
    if output.head:
        yield output.head.removesuffix("\n")
    if output.left_out or output.tail:
        what = several(output.left_out, "line") if output.left_out else "the middle of a line is"
        yield f"[… {what} left out here …]"
        yield output.tail.removesuffix("\n")
    if output.replaced:
        yield f"[Some bytes are no valid UTF-8 and are shown as {REPLACEMENT}.]"


def several(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# --- in the background


def job(result: JobShown, names: Names) -> str:
    return "\n".join([*printed(result.output), *_about(result, names)])


def _about(result: JobShown, names: Names) -> Iterator[str]:
    name = clipped(result.job)
    silence = "" if result.output.bytes else "No new output. "
    if result.more:
        on = f"with offset={result.next_offset}" if names.offset else f"with {names.output} again"
        yield f"[It has printed more: go on {on}, or read {result.output.handle}.]"
    if result.exit:
        yield f"[{silence}{name}: {lowered(ended(result.exit))}]"
    elif result.asked == "start":
        yield from _hidden(result.held)
        yield f"[{name} runs in the background. Read what it prints with {names.output}, end it with {names.stop}.]"
        yield "[undo: file tools only. It runs on the workspace itself, so what it changes cannot be taken back.]"
    else:
        sent = "Sent. " if result.asked == "input" else ""
        yield f"[{sent}{silence}{name} still runs.]"


def lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
