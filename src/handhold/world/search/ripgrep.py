"""Searching with ripgrep, which walks faster than anybody; its hits are checked at the boundary before they are shown.

It is started in the folder of the search, by descriptor, and says names from there on. Newest first needs a whole scan,
and only the files found are looked at for their age. In the order of paths it is stopped as soon as a page is full.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from errno import ENAMETOOLONG, ENOENT
from time import monotonic
from typing import TYPE_CHECKING, Literal

from handhold.core.errors import BadGlob, BadRegex
from handhold.core.facts import Scan, Skipped
from handhold.core.plans import Search
from handhold.core.requests import Glob, Grep
from handhold.world.files.workspace import Workspace
from handhold.world.search.checked import Folder, opened
from handhold.world.search.events import Found, by_file
from handhold.world.search.pages import FilePage, LinePage, Newest
from handhold.world.search.programs import ENV, Program
from handhold.world.search.running import Broken, Deadline, Late, Running, between_nuls

if TYPE_CHECKING:
    from handhold.world.search.missed import Miss

SOFT = 1.5  # seconds, after which a full page of the newest so far is as good as one of all
MOST_LINES = 1_000  # matching lines that are held until all files are known; where there are more, files come first
MOST_HELD = 8 << 20  # bytes of them
BATCH = 256  # files that are asked for their lines at a time
FIRST_SHARE = 0.7  # of the time left, for finding the files whose lines are asked for then

# Telling ripgrep not to read such files costs a sixth of the time of every search, so their hits are left out here.
MOST_BYTES = 1 << 30  # of a file that is searched without having been named

ALWAYS = ("--no-config", "--no-ignore-global", "--no-ignore-messages", "--color=never", "--no-mmap")
FILES = ("--files-with-matches", "--null")
COUNTS = ("--count", "--null", "--with-filename")
BY_PATH = "--sort=path"
IN_TURN = "--threads=1"  # files that are named come in the order in which they were
HERE = b"./"  # before every name: so none of them is an option
TROUBLE = re.compile(rb"\(os error (\d+)\)$", re.MULTILINE)
COUNT = re.compile(rb"([^\0]+)\0(\d+)\n")


class Ripgrep:
    def __init__(self, workspace: Workspace, program: Program) -> None:
        self._workspace = workspace
        self._program = program

    def search(self, search: Search, visible: Callable[[str], bool], until: float) -> Scan:
        assert isinstance(search.request, Glob | Grep)
        with opened(self._workspace, search.place, visible) as (folder, name):
            if isinstance(search.request, Grep) and not name:
                folder.most = MOST_BYTES
            return Run(self._program, folder, name, search.request, until).scan(search)


@dataclass
class Run:
    """One search, of a folder or of the file `name` in it."""

    program: Program
    folder: Folder
    name: bytes
    request: Glob | Grep
    until: float
    began: float = field(default_factory=monotonic)
    aborted: Literal["", "limit", "deadline"] = ""
    trouble: Counter[int] = field(default_factory=Counter[int])  # by number of the error

    def scan(self, search: Search) -> Scan:
        whole = self.request.sort == "modified"
        if isinstance(self.request, Grep) and self.request.mode == "content":
            page = LinePage(self.folder, self.request, search.start, self.request.limit)
            fill = self._newest_lines if whole else self._lines
            fill(self.request, page)
        else:
            page = FilePage(self.folder, search.start, self.request.limit)
            fill = self._newest_files if whole else self._files
            fill(page)
        late = self.aborted == "deadline"
        miss = self._miss() if not page.hits and not search.start and not late else None
        return Scan(
            hits=tuple(page.hits),
            engine=f"ripgrep {self.program.version}",
            order="modified" if whole else "path",
            aborted=self.aborted,
            more=page.more or late,
            searched=miss.searched if miss else None,
            skipped=(*self._lost(), *(miss.skipped if miss else ())),
            changed=search.state not in (None, page.state) and not (whole and late),
            state=page.state,
            whole=whole,
            unsteady=self.folder.unsteady + self.trouble[ENOENT],
        )

    def _miss(self) -> "Miss":
        from handhold.world.search.missed import Miss

        return Miss(self)

    # --- files

    def _files(self, page: FilePage) -> None:
        with self._in_time(), closing(self._counted(Deadline(self.until), BY_PATH)) as found:
            for some in found:
                for name, count in some:
                    if not page.offer(name, count):
                        self.aborted = "limit"
                        return

    def _newest_files(self, page: FilePage) -> None:
        deadline = Deadline(self.until)
        newest = self._newest(self._counted(deadline), deadline, page.skip + page.limit + 1)
        for name, count in newest.first():
            page.offer(name, count)
        page.state = newest.state

    def _newest(self, found: Generator[list[tuple[bytes, int]]], deadline: Deadline, keep: int) -> Newest:
        newest = Newest(self.folder, keep)
        with self._in_time(), closing(found):
            for some in found:
                newest.add(some)
                if newest.seen >= keep:
                    deadline.sooner(self.began + SOFT)
        return newest

    # --- lines

    def _lines(self, request: Grep, page: LinePage) -> None:
        with self._in_time(), closing(self._by_file(request, page, Deadline(self.until), BY_PATH)) as found:
            for name, lines in found:
                if not page.offer(name, lines):
                    self.aborted = "limit"
                    return

    def _newest_lines(self, request: Grep, page: LinePage) -> None:
        """Files and lines at once if there are few of them; else the files first, and then lines of the newest."""
        held: dict[bytes, list[Found]] = {}
        wanted, count, size = page.skip + page.limit, 0, 0
        deadline = Deadline(self.until)
        with self._in_time(), closing(self._by_file(request, page, deadline)) as found:
            for name, lines in found:
                held[name] = lines
                count += sum(line.start >= 0 for line in lines)
                size += sum(len(line.data or b"") for line in lines)
                if count > wanted + MOST_LINES or size > MOST_HELD:
                    break
                if count > wanted:
                    deadline.sooner(self.began + SOFT)
            else:
                return self._held_lines(page, held)
        return self._held_lines(page, held) if self.aborted else self._lines_of_newest(request, page)

    def _held_lines(self, page: LinePage, held: dict[bytes, list[Found]]) -> None:
        newest = Newest(self.folder, len(held))
        newest.add([(name, 0) for name in held])
        for name, _ in newest.first():
            if not page.offer(name, held[name]):
                break
        page.state = newest.state

    def _lines_of_newest(self, request: Grep, page: LinePage) -> None:
        deadline = Deadline(monotonic() + FIRST_SHARE * (self.until - monotonic()))
        newest = self._newest(self.names(deadline, *FILES), deadline, page.skip + page.limit + 1)
        self._lines_of(request, page, [name for name, _ in newest.first()])
        page.state = newest.state

    def _lines_of(self, request: Grep, page: LinePage, files: Sequence[bytes]) -> None:
        for at in range(0, len(files), BATCH):
            missing = dict.fromkeys(files[at : at + BATCH])
            said = self._by_file(request, page, Deadline(self.until), IN_TURN, files=tuple(missing))
            with self._in_time(), closing(said) as found:
                for name, lines in found:
                    missing.pop(name, None)
                    if not page.offer(name, lines):
                        return
            if self.aborted:
                break
            self.folder.unsteady += len(missing)

    @contextmanager
    def _in_time(self) -> Generator[None]:
        try:
            yield
        except Late:
            self.aborted = "deadline"

    # --- what ripgrep says

    def _counted(self, deadline: Deadline, *how: str) -> Generator[list[tuple[bytes, int]]]:
        """Names as they come, each with a count of its lines where that was asked for, else with 0."""
        match self.request:
            case Glob():
                return self.names(deadline, "--files", "--null", *how)
            case Grep(mode="count"):
                return self._counts(deadline, *COUNTS, *how)
            case _:
                return self.names(deadline, *FILES, *how)

    def names(self, deadline: Deadline, *how: str) -> Generator[list[tuple[bytes, int]]]:
        with closing(self.said(deadline, how)) as said:
            for names in between_nuls(said):
                yield [(name.removeprefix(HERE), 0) for name in names if b".git" not in name or self._shows(name)]

    def _counts(self, deadline: Deadline, *how: str) -> Generator[list[tuple[bytes, int]]]:
        with closing(self.said(deadline, how)) as said:
            rest = b""
            for piece in said:
                *lines, rest = COUNT.split(rest + piece)
                counted = zip(lines[1::3], lines[2::3], strict=True)
                yield [(name.removeprefix(HERE), int(count)) for name, count in counted if self._shows(name)]

    def _by_file(
        self, request: Grep, page: LinePage, deadline: Deadline, *how: str, files: Sequence[bytes] = ()
    ) -> Generator[tuple[bytes, list[Found]]]:
        around = (f"--before-context={request.before}", f"--after-context={request.after}")
        most = f"--max-count={page.skip + page.limit + 1}"  # no file gives more to this page
        with closing(self.said(deadline, ("--json", *around, most, *how), files)) as said:
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
                self.trouble += known

    def heard(
        self, deadline: Deadline, how: Sequence[str], files: Sequence[bytes], known: Counter[int]
    ) -> Generator[bytes]:
        """What it says; errors that it met go to `known`, by their number."""
        argv = [self.program.path, *ALWAYS, *how, "--", *(HERE + name for name in files)]
        with Running(argv, self.folder.fd, deadline, ENV) as running:
            try:
                yield from running.pieces()
            finally:
                known.update(int(number) for number in TROUBLE.findall(running.complaints))
            if running.code not in (0, 1) and not (running.code == 2 and known):
                raise self._failure(running.complaints.decode(errors="replace"), running.code)

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
        return Broken(f"ripgrep failed: {said[:200] or code}")

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
