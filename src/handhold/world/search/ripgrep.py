"""Searching with ripgrep, which walks faster than anybody; its hits are checked at the boundary before they are shown.

It is started in the folder of the search, by descriptor, and says names from there on. Newest first needs a whole scan,
and only the files found are looked at for their age. In the order of paths it is stopped as soon as a page is full.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from errno import EACCES, ENAMETOOLONG, ENOENT, EPERM
from functools import cached_property

from handhold.core.errors import BadGlob, BadRegex
from handhold.core.facts import Hit, Scan, Skipped
from handhold.core.plans import Search
from handhold.core.ports import Hiding
from handhold.core.requests import Glob, Grep
from handhold.world.files.workspace import Workspace
from handhold.world.search.checked import LeftOut, opened
from handhold.world.search.confinement import confine
from handhold.world.search.events import Found, by_file
from handhold.world.search.filling import MOST_BYTES, Account, ByFile, Counted, Filling
from handhold.world.search.needle import Needle, reading
from handhold.world.search.pages import LinePage
from handhold.world.search.programs import ENV, Program
from handhold.world.search.running import Broken, Deadline, Running, between_nuls

BATCH = 256  # files that are asked for their lines at a time

ALWAYS = ("--no-config", "--no-ignore-global", "--no-ignore-messages", "--color=never", "--no-mmap")
FILES = ("--files-with-matches", "--null")
COUNTS = ("--count", "--null", "--with-filename")
BY_PATH = "--sort=path"
IN_TURN = "--threads=1"  # files that are named come in the order in which they were
HERE = b"./"  # before every name: so none of them is an option
OPEN = b"/proc/self/fd/%d"
TROUBLE = re.compile(rb"^(?:rg: )?(.*): [^:]* \(os error (\d+)\)$", re.MULTILINE)
COUNT = re.compile(rb"([^\0]+)\0(\d+)\n")
ALL_LINES = 1 << 60


class Ripgrep:
    def __init__(self, workspace: Workspace, program: Program) -> None:
        self._workspace = workspace
        self._program = program

    def search(
        self, search: Search, visible: Callable[[str], bool], until: float, hiding: Hiding | None = None
    ) -> Scan:
        assert isinstance(search.request, Glob | Grep)
        with opened(self._workspace, search.place, visible, hiding) as (folder, name):
            if isinstance(search.request, Grep) and not name:
                # Telling ripgrep not to read larger ones costs a sixth of the time of every search.
                folder.most = MOST_BYTES
            return Run(folder, name, search.request, until, self._program).scan(search)


@dataclass
class Run(Filling):
    """A search that ripgrep does."""

    program: Program
    trouble: Counter[int] = field(default_factory=Counter[int])  # by number of the error

    @property
    def engine(self) -> str:
        return f"ripgrep {self.program.version}"

    def account(self, *, missed: bool) -> Account:
        from handhold.world.search.missed import Miss

        miss = Miss(self) if missed else None
        skipped = (*self._lost(), *(miss.skipped if miss else ()))
        return Account(miss.searched if miss else None, skipped, self.trouble[ENOENT])

    # --- what ripgrep says

    def counted(self, deadline: Deadline) -> Counted:
        how = () if self.whole else (BY_PATH,)
        match self.request:
            case Glob():
                return self._names(deadline, "--files", "--null", *how)
            case Grep(mode="count"):
                return self._counts(deadline, *COUNTS, *how)
            case _:
                return self._names(deadline, *FILES, *how)

    def _names(self, deadline: Deadline, *how: str) -> Counted:
        with closing(self.said(deadline, how)) as said:
            for names in between_nuls(said):
                yield [(name.removeprefix(HERE), 0) for name in names if b".git" not in name or self._shows(name)]

    def _counts(self, deadline: Deadline, *how: str) -> Counted:
        with closing(self.said(deadline, how)) as said:
            rest = b""
            for piece in said:
                *lines, rest = COUNT.split(rest + piece)
                counted = zip(lines[1::3], lines[2::3], strict=True)
                yield [(name.removeprefix(HERE), int(count)) for name, count in counted if self._shows(name)]

    def by_file(self, page: LinePage, deadline: Deadline, files: Sequence[bytes] | None = None) -> ByFile:
        if files is None:
            yield from self._rows(page, deadline, () if self.whole else (BY_PATH,))
        else:
            for at in range(0, len(files), BATCH):
                yield from self._rows(page, deadline, (IN_TURN,), files[at : at + BATCH])

    # --- what the files themselves say

    def confirmed(self, hits: Sequence[Hit], until: float) -> Generator[Hit]:
        """Each file is searched again, by descriptor: what stands there now need not be what ripgrep read."""
        if not isinstance(self.request, Grep):
            yield from hits
            return
        deadline, together = Deadline(until), BATCH if self.request.regex else 1
        for at in range(0, len(hits), together):
            deadline.left()
            some = hits[at : at + together]
            with ExitStack() as stack:
                fds = [self._opened(hit, stack) for hit in some]
                there = [fd for fd in fds if fd is not None]
                counts = self._by_pattern(there, deadline) if self.request.regex else self._by_text(there)
                for hit, fd in zip(some, fds, strict=True):
                    if count := counts.get(fd, 0) if fd is not None else 0:
                        yield replace(hit, count=count if hit.count else 0)
                    elif fd is not None:
                        self.folder.unsteady += 1

    def _opened(self, hit: Hit, stack: ExitStack) -> int | None:
        try:
            fd = self.folder.open(os.fsencode(hit.place.removeprefix(self.folder.place(b""))))
        except LeftOut:
            return None
        stack.callback(os.close, fd)
        return fd

    def _by_text(self, fds: Sequence[int]) -> dict[int, int]:
        """How many lines of open files match; of one at most, unless they are to be counted."""
        assert isinstance(self.request, Grep)
        needle, most = Needle(self.request), ALL_LINES if self.request.mode == "count" else 1
        sizes = {fd: os.fstat(fd).st_size for fd in fds}
        return {
            fd: needle.search(reading(fd, size), named=bool(self.name), most=most, is_hit=True).count
            for fd, size in sizes.items()
        }

    def _by_pattern(self, fds: Sequence[int], deadline: Deadline) -> dict[int, int]:
        """The same by ripgrep: a regular expression may mean something else to us, or take for ever."""
        if not fds:
            return {}
        how = [*self._wanted(), *COUNTS]
        with closing(self.heard(deadline, how, fds, Counter())) as said:
            counted = COUNT.findall(b"".join(said))
        return {int(path.rpartition(b"/")[2]): int(count) for path, count in counted}

    def search_again(self, fd: int, lines: Sequence[Found]) -> Sequence[Found]:
        assert isinstance(self.request, Grep)
        how = [*self._wanted(), *lines_around(self.request), f"--max-count={len(lines)}"]
        with closing(self.heard(Deadline(self.until), how, [fd], Counter())) as said:
            return [line for _, found in by_file(said, named=bool(self.name)) for line in found]

    # --- ripgrep itself

    def _rows(self, page: LinePage, deadline: Deadline, how: Sequence[str], files: Sequence[bytes] = ()) -> ByFile:
        most = f"--max-count={page.skip + page.limit + 1}"  # no file gives more to this page
        with closing(self.said(deadline, (*lines_around(page.request), most, *how), files)) as said:
            for name, lines in by_file(said, named=bool(self.name)):
                if self._shows(name):
                    yield name.removeprefix(HERE), lines

    def _shows(self, name: bytes) -> bool:
        """Whether a file may be shown: git's own stay out, though a line of an ignore file may have brought them in."""
        return bool(self.request.ignored or self.name) or b"/.git/" not in name + b"/"

    def said(self, deadline: Deadline, how: Sequence[str], files: Sequence[bytes] = ()) -> Generator[bytes]:
        """What it says to this request about the folder, or about some files of it."""
        known: Counter[int] = Counter()
        try:
            yield from self.heard(deadline, [*self._wanted(), *how], files or (self.name,), known)
        finally:
            if not files:
                self.trouble = known  # of the last time through all: what it met then, it met before

    def heard(
        self, deadline: Deadline, how: Sequence[str], files: Sequence[bytes] | Sequence[int], known: Counter[int]
    ) -> Generator[bytes]:
        """What it says about files, by name or open; errors that it met go to `known`, by their number."""
        names = [HERE + file if isinstance(file, bytes) else OPEN % file for file in files]
        argv = [*self._confinement, self.program.path, *ALWAYS, *how, "--", *names]
        fds = [file for file in files if isinstance(file, int)]
        with Running(argv, self.folder.fd, deadline, ENV, fds) as running:
            try:
                yield from running.pieces()
            finally:
                known.update(self._believed(running.complaints))
            if running.code not in (0, 1) and not (running.code == 2 and TROUBLE.search(running.complaints)):
                raise self._failure(running.complaints.decode(errors="replace"), running.code)

    @cached_property
    def _confinement(self) -> list[str | bytes]:
        return confine(self.folder, self.program.path, self.name, ignored=self.request.ignored)

    def _believed(self, complaints: bytes) -> Generator[int]:
        """Errors by number. What we could open ourselves changed meanwhile, like what is gone: to tell them apart would
        tell what lies where a link led for a moment."""
        for name, number in TROUBLE.findall(complaints):
            name, number = name.removeprefix(HERE), int(number)
            if self.folder.visible(self.folder.place(name)):
                refused = number in (EACCES, EPERM) and not self.folder.is_unreadable(name)
                yield ENOENT if refused else number

    def _wanted(self) -> list[str]:
        """What to look for, and in which files."""
        request = self.request
        if isinstance(request, Glob):
            # From the folder on: without the slash it would match at any depth.
            return which(request, glob=f"/{request.pattern}")
        wanted = [f"--regexp={request.pattern}"]
        if not request.regex:
            wanted.append("--fixed-strings")
        if request.ignore_case:
            wanted.append("--ignore-case")
        return [*wanted, *which(request, glob=request.glob)]

    def _failure(self, said: str, code: int) -> Exception:
        """Something is wrong with the pattern, or with ripgrep."""
        said = said.removeprefix("rg: ").strip()
        if "error parsing glob" in said:
            glob = self.request.pattern if isinstance(self.request, Glob) else self.request.glob
            return BadGlob(glob, said.partition("': ")[2])
        if code == 2 and "regex" in said:
            return BadRegex(self.request.pattern, said.rpartition("error: ")[2].partition("\n")[0])
        first = said.partition("\n")[0]  # the rest is for those who mend ripgrep
        return Broken(f"ripgrep failed: {first[:200] or code}")

    def _lost(self) -> Generator[Skipped]:
        """What it could not open. A folder counts as one, since nobody knows what is in it."""
        deep = self.trouble[ENAMETOOLONG]
        unreadable = self.trouble.total() - deep - self.trouble[ENOENT]
        if self.folder.too_large:
            yield Skipped("too large", self.folder.too_large)
        if deep:
            yield Skipped("too deep", deep, at_least=True)
        if unreadable:
            yield Skipped("unreadable", unreadable, at_least=True)


def lines_around(request: Grep) -> tuple[str, ...]:
    return ("--json", f"--before-context={request.before}", f"--after-context={request.after}")


def which(request: Glob | Grep, *, glob: str) -> list[str]:
    """In which files to look."""
    wanted: list[str] = []
    if request.ignored:
        wanted.append("--no-ignore")
    if request.hidden:
        wanted.append("--hidden")
    if glob:
        wanted.append(f"--glob={glob}")
    if not request.ignored and (request.hidden or brings_git(glob)):
        wanted.append("--glob=!.git")  # last, so that it holds against the other
    return wanted


def brings_git(glob: str) -> bool:
    """Whether a glob could match a folder `.git`, which would then be searched though it is hidden."""
    last = glob.rpartition("/")[2]
    return bool(glob) and (any(sign in last for sign in "?[{\\") or ".git".endswith(last.rpartition("*")[2]))
