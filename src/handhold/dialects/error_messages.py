"""Plain words for every error: what a dialect says where its source has no words of its own.

Each message says what happened, then what to do next. None names a tool, since every dialect has its own.
"""

from handhold.core import errors as e
from handhold.dialects.arguments import MISSING, UNKNOWN_ARGUMENT
from handhold.dialects.formatting import format_list, pluralize, truncate
from handhold.dialects.problems import format_refusal

MIB = 1024 * 1024


def format_plain_error(error: e.ToolError) -> str:
    path = truncate(error.path) if isinstance(error, e.PathError) else ""
    match error:
        # --- the call itself
        case e.UnknownTool(tool=tool, known=known):
            return f"There is no tool {truncate(tool)}. Use one of {format_list(known)}."
        case e.BadArguments():
            return format_bad_arguments(error)
        case e.CallIdReused(call_id=call_id):
            return f"The call id {truncate(call_id)} was already used in this turn for a different call, so nothing was done. Call again with a new id."
        # --- paths
        case e.BadPath(because=because):
            return f'"{path}" is not a valid file path: {because}.'
        case e.OutsideWorkspace(roots=roots):
            inside = f" {format_list(roots)}" if roots else " it"
            return f"{path} is outside the workspace. Use a path inside{inside}."
        case e.NotFound():
            return f"{path} does not exist."
        case e.IsDirectory():
            return f"{path} is a folder. Give the path of a file in it."
        case e.NotDirectory():
            return f"Part of the path {path} is a file, not a folder. Check the path."
        case e.RollbackIncomplete(paths=paths):
            return f"A change to {format_list(paths)} failed halfway and is not rolled back yet. The next call rolls it back first. Try again."
        case e.NotRegularFile():
            return f"{path} is a pipe, a socket or a device. Choose a regular file."
        case e.SymlinkLoop():
            return f"{path} contains a loop of symbolic links. Use the path of the file itself."
        case e.DanglingLink():
            return (
                f"{path} is a symbolic link to a path that does not exist. Use the path that the link should point to."
            )
        case e.AlreadyExists():
            return f"{path} already exists. Read it and edit it, or choose another path."
        # --- contents
        case e.BinaryFile(size=size):
            return f"{path} is a binary file ({size:,} bytes) and cannot be shown or edited as text. Inspect it with a command."
        case e.TooLarge():
            return f"{format_too_large(error)} Read it in parts, or change it with a command."
        case e.PageTooLong(chars=chars, most=most):
            return f"The requested lines have {chars:,} characters; a page holds at most {most:,}. Use a smaller limit."
        case e.NeedsSeparateRead():
            return f"{path} is not plain text. Read it on its own."
        case e.BrokenFile(medium=medium, because=because):
            return f"{path} cannot be shown as a {medium.upper()}: {truncate(because)}. The file is damaged or not a {medium.upper()}. Ask the user for an intact copy."
        case e.EncryptedPdf():
            return f"{path} is encrypted and opens only with a password. Ask the user for a copy without one."
        case e.TooManyPixels(width=width, height=height, most=most):
            return f"{path} declares {width:,} x {height:,} pixels; at most {most:,} are decoded. Make a smaller copy with a command."
        case e.ConversionLimitExceeded(resource=resource):
            return f"Showing {path} takes more {resource} than allowed. Make a simpler or smaller copy with a command."
        case e.NoSuchPage(count=count):
            last = f"The last page of {path} is {count}." if count else f"{path} has no pages."
            return f"None of the requested pages exists. {last}"
        case e.PagesNotSupported():
            return f"{path} is not a PDF. Leave out `pages`."
        case e.PastEnd(lines=0):
            return f"{path} is empty."
        case e.PastEnd(offset=offset, lines=lines):
            return f"{path} has {pluralize(lines, error.unit)}; {error.unit} {offset} is past its end. Start at {error.unit} {lines} or before."
        case e.Unencodable(encoding=encoding, characters=characters):
            codes = format_list((f"U+{ord(char):04X}" for char in characters), max_items=10)
            return f"{path} is stored as {encoding}, which cannot represent {codes}. Write the new text without these characters."
        case e.ChangedDuringRead():
            return f"{path} kept changing while it was read. Wait until it is no longer being written, then try again."
        # --- what the session has seen
        case e.Unread():
            return f"{path} has not been read yet. Read it before changing it."
        case e.PartlyRead():
            return f"Only part of {path} has been read (a truncated line counts as unread). Read the rest before overwriting it, or edit the part you have read."
        case e.Stale():
            return f"{path} has changed since it was read, so nothing was written. Read it again before changing it."
        # --- edits
        case e.NoChange():
            return "The old and the new text are the same, so there is nothing to change."
        case e.NoMatch(old=""):
            return "The text to replace is empty, which is only allowed as the first edit of a new file. Quote the text to replace."
        case e.NoMatch():
            return f"The text to replace is not in {path}. Quote it exactly as in the file, without line numbers."
        case e.AlreadyApplied(line=line):
            return f"This edit is already applied at line {line} of {path}: the new text is there, and the old text is not. Nothing was changed."
        case e.BreaksSyntax(line=line, message=message, matched_by=strategy):
            return f"The text to replace is in {path} only if {truncate(strategy)} is ignored, and then line {line} would no longer parse ({truncate(message)}). Nothing was changed. Quote the text exactly as in the file."
        case e.Ambiguous(lines=lines):
            return f"The text to replace is in {path} {len(lines)} times. Quote more lines around the one you mean."
        case e.UnexpectedCount(wanted=wanted, lines=lines):
            return f"The text to replace is in {path} {len(lines)} times instead of the expected {wanted}, so nothing was changed. Read the file again, and quote more lines around the places you mean."
        case e.OverlappingMatches(lines=lines):
            return f"The text to replace is in {path} {len(lines)} times, and these places overlap, so they cannot all be replaced. Quote a longer text."
        # --- notebooks
        case e.NotNotebook(because=because):
            return f"{path} cannot be edited cell by cell: {truncate(because)}. Nothing was changed."
        case e.NoSuchCell(cell=cell, known=known):
            there = f"Its cells are {format_list(known, max_items=10)}." if known else "It has no cells."
            return f'{path} has no cell "{truncate(cell)}", so nothing was changed. {there}'
        case e.CellAmbiguous(cell=cell, names=names):
            return f'{len(names)} cells of {path} have the id "{truncate(cell)}", so nothing was changed. Use one of these names instead: {format_list(names)}.'
        # --- patches
        case e.BadPatch(line=line, text=text, wanted=wanted):
            found = f'"{truncate(text)}"' if text.strip() else "empty"
            return f"Line {line} of the patch is {found}; expected {wanted}. Nothing was changed. Correct the patch and send all of it again."
        case e.HunkMismatch(hunk=hunk, line=line, scope=scope) if scope:
            after = " after the previous hunk" if hunk > 1 else ""
            return f'Hunk {hunk} of {path} (line {line} of the patch) names "{truncate(scope.strip())}" after @@, but no such line was found{after}. No file was changed. Quote that line exactly as in the file, or leave it out.'
        case e.HunkMismatch(hunk=hunk, line=line):
            after = " after the previous hunk" if hunk > 1 else ""
            return f"Hunk {hunk} of {path} (line {line} of the patch) does not match the file{after}. No file was changed. Its context and removed lines must match the file and follow the line that @@ names, if any."
        case e.HunkAmbiguous(hunk=hunk, line=line, lines=lines):
            return f"Hunk {hunk} of {path} (line {line} of the patch) fits in {len(lines)} places: lines {format_list(lines)}. No file was changed. Quote more lines around the one you mean, or name its class or function after @@."
        case e.IsLink(target=target):
            return f"{path} is a symbolic link to {truncate(target)}. To delete or move the target, use its own path."
        # --- searches
        case e.BadPattern(pattern=pattern, because=because):
            return f'Cannot search for the pattern "{truncate(pattern)}": {because}.'
        case e.BadGlob(pattern=pattern, because=because):
            return f'"{truncate(pattern)}" is not a valid glob pattern: {because}.'
        case e.BadRegex(pattern=pattern, because=because):
            return f'"{truncate(pattern)}" is not a valid regular expression: {truncate(because)}.'
        case e.BadCursor(cursor=cursor):
            return f'The cursor "{truncate(cursor)}" is incomplete or belongs to another search. Use it with the same arguments as the search it came from, or start again without it.'
        # --- commands
        case e.NotOnlyPatch(because=because):
            return f"This command calls apply_patch in a form that is not supported: {because}. Nothing was done. Call apply_patch alone or after one cd, with the patch in a heredoc whose delimiter is quoted."
        case e.NoShell(because=because):
            return f"The command was not run: {because}."
        case e.NoSuchJob(job=job, known=known):
            there = (
                f"Use {'one of ' if len(known) > 1 else ''}{format_list(known)}."
                if known
                else "None exist; start it again."
            )
            return f"No background command is named {truncate(job)}. {there}"
        case e.UnkillableProcess():
            return "The command could not be killed: one of its processes hangs in the kernel, perhaps waiting for an unresponsive file system. Changes made in the sandbox were discarded; changes made directly on the workspace may remain. Tell the user."
        case e.Cancelled():
            return "The command was cancelled, and all its processes were killed. Its changes were discarded."
        case e.ExtraMissing(extra=extra):
            return f"This needs handhold[{extra}], which is not installed. Ask the user to install it."
        case e.BrokenSyntax(problems=problems, total=total, files=files):
            return f"Nothing was changed, because the change would break the syntax:\n{format_refusal(problems, total, files)}"
        # --- policy
        case e.Denied(because=because, of_command=True):
            return f"Denied, not run: {format_reason(because)}. Ask the user."
        case e.Denied(because=because, rule="mode read-only"):
            return f"Denied: {format_reason(because)}. Describe the change to {path} instead."
        case e.Denied(because=because, remedy=""):
            return f"Denied for {path}: {because.rstrip('.')}."
        case e.Denied(because=because, remedy=remedy):
            return f"Denied for {path}: {because.rstrip('.')}. {remedy}"
        case e.SettingsBroken(because=because):
            return f"The settings in {path} are invalid: {because.rstrip('.')}. Nothing was done. Ask the user to correct them."
        case e.ApproverInvalid(because=because):
            return f"{format_subject(error)} needs approval, but the program that should ask a person gave no valid answer, so nothing was done. Reason for asking: {format_reason(because)}. Tell the user that the approver is broken."
        case e.NotApproved(asked=True, word=word) if word:
            return f"{format_subject(error)} was shown to a person, who did not approve it and says: {word}"
        case e.NotApproved(because=because, asked=True):
            return f"{format_subject(error)} was shown to a person, who did not approve it. Reason for asking: {format_reason(because)}. Do not try again; ask what they want instead."
        case e.NotApproved(because=because, approval=approval, unasked=unasked):
            how = ""
            if approval:
                how = f" A person can allow exactly this with `handhold approve {approval}`; then repeat this call."
            elif unasked:
                how = f" The question was not saved: {unasked}."
            return f"{format_subject(error)} needs approval, and nobody is there to give it. Reason: {format_reason(because)}. Tell the user what you wanted to do.{how}"
        case e.NoPendingApproval(wanted=wanted, because=because):
            return f"No question is waiting under {truncate(wanted)}: {because}."
        case e.ReadOnly():
            return f"{path} is in a read-only folder. Write somewhere else, or tell the user how to change it."
        # --- undo
        case e.NotRecorded(because=because):
            return f"Changes in {path} that others make are not recorded: {because}."
        case e.NothingToUndo(wanted=wanted, verb=verb):
            return f"Nothing to {verb}: {truncate(wanted)}."
        case e.UndoConflict(paths=paths, reasons=reasons):
            why = f" ({'; '.join(dict.fromkeys(reasons))})" if reasons else ""
            return f'Nothing was undone: {format_list(paths)} changed since{why}, and that would be lost. Undo the later change first, or choose: take="old" restores the old version, "mine" keeps what is there now, "save" puts the old version beside it, "skip" leaves these files.'
        case e.PartialUndo(verb=verb, done=done, left=left, because=because, paths=paths):
            so = "undone" if verb == "undo" else "redone"
            return f"Only part was {so}: {format_list(done)}. Not {so}: {format_list(left)}, because of {format_list(paths)} ({because})."
        case e.ContentDropped(paths=paths):
            return f"This can no longer be undone: the old content of {format_list(paths)} was dropped to free space."
        # --- forks
        case e.ForkUnavailable(fork=fork, because=because):
            return f"The fork {truncate(fork)} cannot be used: {because}."
        case e.MergeConflict(fork=fork, paths=paths):
            return f"Nothing was merged from the fork {truncate(fork)}: {format_list(paths)} changed there and in the workspace. Choose a side, or make them equal and merge again."
        # --- the machine
        case e.PermissionDenied(because=because):
            return f"The operating system denied access to {path}: {because}. The call was correct; ask the user to change the permissions."
        case e.NoSpace(because=because):
            return (
                f"There is no space left to write {path}: {because}. Nothing was changed. Ask the user to free space."
            )
        case e.SystemFailure(because=because):
            return f"The system failed on {path}: {because}. Nothing was changed. The same call may work later."
        case e.NotRestored(paths=paths, kept=kept, because=because):
            copies = f" The old content is in {format_list(kept)}." if kept else ""
            return f"The command's changes were discarded, but {format_list(paths)} could not be restored: {because}.{copies} Tell the user."
        case e.Busy(seconds=seconds):
            return f"{path} is locked by another process, which did not release it within {seconds:g} seconds. Nothing was changed. Try again."
        case e.HubUnreachable(because=because):
            return f"The change is made here, but the hub has not acknowledged it. {because} Repeat this call with the same call id to learn whether it has."
        case e.HubBacklogFull(because=because):
            return f"Nothing was changed: too much waits for the hub. {because} Reading still works; ask the user to bring the hub back, or to give it up with `handhold forget --hub`."
        case e.StateDamaged(because=because):
            return f"The stored state at {path} is damaged: {because}. Nothing was done. Ask the user to run `handhold log --verify`."
        case _:
            return format_unknown_error(error)


def format_bad_arguments(error: e.BadArguments) -> str:
    name = f"`{truncate(error.argument)}`"
    example = f" Example: {error.tool} {error.example}" if error.example else ""
    if error.got == MISSING:
        return f"{name} is required: {error.wanted}.{example}"
    if error.got == UNKNOWN_ARGUMENT:
        return f"{name} is not an argument of {error.tool}. Use {error.wanted}.{example}"
    return f"{name} must be {error.wanted} (got {error.got}).{example}"


def format_too_large(error: e.TooLarge) -> str:
    return f"{truncate(error.path)} is too large ({error.size / MIB:.1f} MB; the limit is {error.most / MIB:.1f} MB)."


def format_subject(error: e.NotApproved) -> str:
    return "The command" if error.of_command else f"The change to {truncate(error.path)}"


def format_reason(because: str) -> str:
    """The reason of a rule as the end of a clause: short, without its full stop."""
    return truncate(because).rstrip(".")


def format_unknown_error(error: e.ToolError) -> str:
    """The last resort, for an error without a message of its own."""
    return f"The call failed ({error.code})."
