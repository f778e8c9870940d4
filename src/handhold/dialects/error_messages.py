"""Plain words for every error: what a dialect says where its source has no words of its own.

Each says what happened, then what to do. None names a tool, since every dialect has its own.
"""

from handhold.core import errors as e
from handhold.dialects.formatting import format_list, truncate

MIB = 1024 * 1024


def format_plain_error(error: e.ToolError) -> str:
    path = truncate(error.path) if isinstance(error, e.PathError) else ""
    match error:
        # --- the call itself
        case e.UnknownTool(tool=tool, known=known):
            return f"There is no tool {truncate(tool)}. Use one of {format_list(known)}."
        case e.BadArguments(tool=tool, argument=argument, got=got, wanted=wanted, example=example):
            like = f", for example {example}" if example else "."
            return f"{tool}: {truncate(argument)} is {got}; wanted {wanted}. Call again with that mended{like}"
        case e.CallIdReused(call_id=call_id):
            return f"The call id {truncate(call_id)} was used before in this turn for another call, so nothing was done. Call again with a new id."
        # --- paths
        case e.BadPath(because=because):
            return f'"{path}" cannot name a file: {because}. Give the path of a file.'
        case e.OutsideWorkspace(roots=roots):
            inside = f" {format_list(roots)}" if roots else " it"
            return f"{path} is outside the workspace. Use a path inside{inside}."
        case e.NotFound():
            return f"{path} does not exist."
        case e.IsDirectory():
            return f"{path} is a directory. Give the path of a file in it."
        case e.NotDirectory():
            return f"A part of {path} that should be a directory is a file. Check the path."
        case e.RollbackIncomplete(paths=paths):
            return f"The machine failed in the middle of a change to {format_list(paths)}, and it could not be taken back at once. It will be before the next call; then try again."
        case e.NotRegularFile():
            return f"{path} is a pipe, a socket or a device, not a file with content. Choose a regular file."
        case e.SymlinkLoop():
            return f"The links in {path} lead round in a circle. Use the path of the file itself."
        case e.DanglingLink():
            return f"{path} is a link to something that does not exist. Use the path that the link should lead to."
        case e.AlreadyExists():
            return f"{path} already exists. Read it and edit it, or choose another path."
        # --- contents
        case e.BinaryFile(size=size):
            return f"{path} is a binary file ({size:,} bytes), which cannot be shown or edited as text."
        case e.TooLarge(size=size, most=most):
            return f"{path} is too large for this ({size / MIB:.1f} MB; at most {most / MIB:.1f} MB). Read it in parts, or change it with a command."
        case e.PageTooLong(chars=chars, most=most):
            return f"The lines asked for hold {chars:,} characters, and a page at most {most:,}. Ask for fewer lines with a smaller limit."
        case e.NeedsSeparateRead():
            return f"{path} is not plain text, and takes a reply of its own. Read it by itself."
        case e.BrokenFile(medium=medium, because=because):
            return f"{path} cannot be shown as a {medium.upper()}: {truncate(because)}. The file is damaged, or it is something else."
        case e.EncryptedPdf():
            return f"{path} is encrypted and opens only with a password. Ask for a copy without one."
        case e.TooManyPixels(width=width, height=height, most=most):
            return f"{path} says that it has {width:,} x {height:,} pixels, and at most {most:,} are decoded. Make a smaller copy of it with a command."
        case e.ConversionLimitExceeded(resource=resource):
            return f"Showing {path} takes more {resource} than there is for it. Make a simpler or smaller copy of it with a command."
        case e.NoSuchPage(count=count):
            return f"{path} has {count:,} page{'' if count == 1 else 's'}, and none of those that you asked for."
        case e.PagesNotSupported():
            return f"{path} is not a PDF, so it has no pages to choose from. Leave pages out."
        case e.PastEnd(offset=offset, lines=lines):
            return f"{path} ends before {error.unit} {offset}: it has {lines} {error.unit}s."
        case e.Unencodable(encoding=encoding, characters=characters):
            codes = format_list((f"U+{ord(char):04X}" for char in characters), max_items=10)
            return f"{path} is stored as {encoding}, which has no bytes for {codes}. Write the new text without these characters."
        case e.ChangedDuringRead():
            return f"{path} kept changing while it was read. Wait until whatever writes it is done, then try again."
        # --- what the session has seen
        case e.Unread():
            return f"{path} has not been read yet. Read it before changing it."
        case e.PartlyRead():
            return f"Only a part of {path} has been read (a line that was cut counts as unread). Read the rest before overwriting it, or edit the part you know."
        case e.Stale():
            return f"{path} has changed since it was read, so nothing was written. Read it again before changing it."
        # --- edits
        case e.NoChange():
            return "The old and the new text are the same, so there is nothing to change."
        case e.NoMatch(old=""):
            return "The text to replace is empty, which only makes a new file, as its first edit. Quote the text that should be replaced."
        case e.NoMatch():
            return f"The text to replace is not in {path}. Quote it exactly as it stands in the file."
        case e.Ambiguous(lines=lines):
            return (
                f"The text to replace is in {path} {len(lines)} times. Quote more of the lines around the one you mean."
            )
        case e.UnexpectedCount(wanted=wanted, lines=lines):
            return f"The text to replace is in {path} {len(lines)} times, and {wanted} were expected, so nothing was changed. Read the file again, and quote more around the places you mean."
        case e.OverlappingMatches(lines=lines):
            return f"The text to replace is in {path} {len(lines)} times, and these places overlap, so replacing all of them has no one meaning. Quote a longer text."
        # --- notebooks
        case e.NotNotebook(because=because):
            return f"{path} cannot be edited by cells: {truncate(because)}. Nothing was changed."
        case e.NoSuchCell(cell=cell, known=known):
            there = f"There is {format_list(known, max_items=10)}." if known else "It has no cells."
            return f'{path} has no cell "{truncate(cell)}", so nothing was changed. {there}'
        case e.CellAmbiguous(cell=cell, names=names):
            return f'{len(names)} cells of {path} have the id "{truncate(cell)}", so nothing was changed. Call the one you mean {format_list(names)}.'
        # --- patches
        case e.BadPatch(line=line, text=text, wanted=wanted):
            found = f'"{truncate(text)}"' if text.strip() else "empty"
            return f"Line {line} of the patch is {found}, where it should be {wanted}. Nothing was changed; send the whole patch again with that mended."
        case e.HunkMismatch(hunk=hunk, line=line, scope=scope) if scope:
            return f'Hunk {hunk} of {path} (line {line} of the patch) names "{truncate(scope.strip())}" behind @@, and there is no such line where it should be. Nothing was changed, in no file.'
        case e.HunkMismatch(hunk=hunk, line=line):
            return f"The old lines of hunk {hunk} of {path} (line {line} of the patch) are not there, in the scope that @@ names and after the hunk before. Nothing was changed, in no file. Quote them as they stand in the file."
        case e.HunkAmbiguous(hunk=hunk, line=line, lines=lines):
            return f"Hunk {hunk} of {path} (line {line} of the patch) fits in {len(lines)} places: lines {format_list(lines)}. Nothing was changed, in no file. Quote more lines around the one you mean, or name its class or function behind @@."
        case e.IsLink(target=target):
            return f"{path} is a link to {truncate(target)}. Name the file itself if that is meant."
        # --- searches
        case e.BadPattern(pattern=pattern, because=because):
            return f'Nothing can be searched for with the pattern "{truncate(pattern)}": {because}.'
        case e.BadGlob(pattern=pattern, because=because):
            return f'"{truncate(pattern)}" is not a pattern for paths: {because}.'
        case e.BadRegex(pattern=pattern, because=because):
            return f'"{truncate(pattern)}" is not a regular expression that can be searched for: {truncate(because)}.'
        case e.BadCursor(cursor=cursor):
            return f'The cursor "{truncate(cursor)}" does not belong to this search, or was not copied whole. Give it with the very arguments that it came from, or start again without it.'
        # --- commands
        case e.NotOnlyPatch(because=because):
            return f"This command calls apply_patch, and not in a form that is taken: {because}. Nothing was done. Call apply_patch alone or after one cd, with the patch in a heredoc whose delimiter is quoted."
        case e.NoShell(because=because):
            return f"The command was not run: {because}."
        case e.NoSuchJob(job=job, known=known):
            there = f"There is {format_list(known)}." if known else "There is none now."
            return f"No command in the background is called {truncate(job)}. {there}"
        case e.UnkillableProcess():
            return "The command could not be ended: a process of it hangs in the kernel, which may wait for a file system that does not answer. Nothing that it did on a shadow of the workspace counts; what it did without one may stand."
        case e.Cancelled():
            return "The command was cancelled and ended, with everything that it had started. Nothing of what it did counts."
        case e.ExtraMissing(extra=extra):
            return f"Handhold was installed without what this needs. Somebody must install handhold[{extra}]."
        # --- policy
        case e.Denied(because=because, of_command=True):
            return f"This command is not allowed ({truncate(because)}). It was not run."
        case e.Denied(because=because, remedy=""):
            return f"This is not allowed on {path} ({because})."
        case e.Denied(because=because, remedy=remedy):
            return f"This is not allowed on {path} ({because}). {remedy}"
        case e.SettingsBroken(because=because):
            return f"The settings in {path} cannot be taken as they are: {because}. Nothing was done; somebody must mend them."
        case e.ApproverInvalid(because=because, of_command=of_command):
            what = "The command" if of_command else f"The change to {path}"
            return f"{what} needs the approval of a person ({truncate(because)}), and the program that should ask gave no valid answer. Nothing was done. Tell the user that its approver is broken."
        case e.NotApproved(because=because, asked=asked, approval=approval, of_command=of_command, unasked=unasked):
            what = "The command" if of_command else f"The change to {path}"
            if asked:
                return f"{what} was shown to a person, who did not approve it ({truncate(because)}). Do not try again; ask what they want instead."
            how = (
                f" A person can allow exactly this with `handhold approve {approval}`; after that, send it again."
                if approval
                else f" The question was not kept for anybody to answer: {unasked}."
                if unasked
                else ""
            )
            return f"{what} needs the approval of a person, and there is nobody to ask ({truncate(because)}). Say what you would do instead.{how}"
        case e.NoPendingApproval(wanted=wanted, because=because):
            return f"No question waits for an answer as {truncate(wanted)}: {because}."
        case e.ReadOnly():
            return f"{path} is in a place that is read-only. Write somewhere else, or say what you would change."
        # --- taking back
        case e.NothingToUndo(wanted=wanted):
            return f"There is nothing to take back: {truncate(wanted)}."
        case e.UndoConflict(paths=paths):
            return f"Nothing was taken back: {format_list(paths)} changed since, and that change would be lost. Take the later change back first."
        case e.PartialUndo(verb=verb, done=done, left=left, because=because, paths=paths):
            so = "taken back" if verb == "undo" else "done again"
            return f"Only a part was {so}: {format_list(done)}. Not {so}: {format_list(left)}, since {format_list(paths)} stood in the way ({because})."
        case e.ContentDropped(paths=paths):
            return (
                f"This can no longer be taken back: the old content of {format_list(paths)} was dropped to make room."
            )
        # --- the machine
        case e.PermissionDenied(because=because):
            return f"The system does not permit this on {path}: {because}. The call itself was right; somebody must change the permissions."
        case e.NoSpace(because=because):
            return f"There is no room to write {path}: {because}. Nothing was changed; somebody must free space first."
        case e.SystemFailure(because=because):
            return f"The system failed on {path}: {because}. Nothing was changed; the same call may work later."
        case e.Busy(seconds=seconds):
            return f"{path} is held by another process, which did not let go in {seconds:g} seconds. Nothing was changed; try again."
        case e.StateDamaged(because=because):
            return f"The stored state at {path} is damaged: {because}. Nothing was done; somebody must look at it."
        case _:
            return format_unknown_error(error)


def format_unknown_error(error: e.ToolError) -> str:
    """The last resort, for an error that nobody found words for yet."""
    return f"The call failed ({error.code})."
