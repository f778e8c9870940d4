"""Searching with git where there is no ripgrep: it names the files that may hold what is looked for, quickly.

What it says is only a hint. Its regular expressions are others, it knows no UTF-16, and files that are binary or
ignored mean something else to it. So it is asked about everything there is, and those files are then searched as in
our own walk, with its rules. No setting reaches it, of the user's or of a repository's: those can name programs to run.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from handhold.core.facts import Scan
from handhold.core.plans import Search
from handhold.core.ports import Hiding
from handhold.core.requests import Grep
from handhold.core.text.ignore import Rules
from handhold.core.text.regex import compiled
from handhold.world.files.workspace import Workspace
from handhold.world.search.checked import opened
from handhold.world.search.filling import Account
from handhold.world.search.folders import Run, overrides_of
from handhold.world.search.pages import order
from handhold.world.search.programs import ENV, Program
from handhold.world.search.running import Broken, Deadline, Running, between_nuls
from handhold.world.search.tree import DiskTree, rules_above
from handhold.world.search.unsearched import Judge
from handhold.world.search.walk import Looking

ALONE = ENV | {
    "GIT_DIR": "/dev/null",  # no repository, so that none is looked for: its settings would be heeded
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
COMMAND = (
    *("--no-pager", "grep", "--no-index", "--no-exclude-standard", "--no-color", "--text"),
    *("--files-with-matches", "--null", "--perl-regexp"),
)
IN_BYTES, IN_CHARACTERS = "C", "C.UTF-8"
WIDE = r"^(\xff\xfe|\xfe\xff)"  # text in UTF-16, in which it finds nothing
# The same where those bytes are no characters, and whatever else holds a NUL; and a mark, behind which a line begins.
NUL, MARK = r"\x00", r"^\x{feff}"
OTHERWISE = re.compile(r"[*+?}]\+|\\[<>]|\\b\{")  # what a regular expression of Perl's takes for something else
UNREADABLE = b"Permission denied"


class GitGrep:
    def __init__(self, workspace: Workspace, program: Program) -> None:
        self._workspace = workspace
        self._program = program

    def search(
        self, search: Search, visible: Callable[[str], bool], until: float, because: str, hiding: Hiding | None = None
    ) -> Scan:
        request = search.request
        assert isinstance(request, Grep)
        if request.regex:
            compiled(request.pattern, ignore_case=request.ignore_case)  # what we cannot read, nobody need look for
        with opened(self._workspace, search.place, visible, hiding) as (folder, name), DiskTree(folder.fd) as tree:
            if name or (request.ignored and (request.hidden or request.glob)):  # a glob may bring in what is hidden
                raise Broken("git looks neither into one file nor into its own folder")
            rules = Rules() if request.ignored else rules_above(self._workspace, search.place)
            looking = FromGit(folder, name, request, until, tree, search.place, rules, program=self._program)
            return looking.scan(search, because)


@dataclass(kw_only=True)
class FromGit(Looking):
    """As the walk does it, but with the files that git names, instead of all."""

    program: Program
    _hinted: list[bytes] | None = field(default=None, init=False)  # git is asked only once
    _unreadable: int = field(default=0, init=False)

    @property
    def engine(self) -> str:
        return f"git grep {self.program.version}"

    def account(self, *, missed: bool) -> Account:
        return super().account(missed=missed)._replace(searched=None)  # git does not tell of how many it gave hints

    def _runs(self, deadline: Deadline) -> Iterator[Run]:
        request, folder = self.request, self.folder
        assert isinstance(request, Grep)
        if self._hinted is None:
            judge = Judge(self.tree, self.place, self.rules, overrides_of(request), request.hidden, request.ignored)
            names = sorted(self._hints(request, deadline), key=order)
            self._hinted = [name for name in names if folder.visible(folder.place(name)) and wanted(judge, name)]
        self.told.unreadable += self._unreadable
        for way, some in groupby(self._hinted, key=lambda name: name[: name.rfind(b"/") + 1]):
            yield Run(way, [name[len(way) :] for name in some])

    def _hints(self, request: Grep, deadline: Deadline) -> Iterator[bytes]:
        """Every file that could match, and some others."""
        how, locale = asked(request)
        argv = [self.program.path, *COMMAND, *how, "--", "."]
        with Running(argv, self.folder.fd, deadline, ALONE | {"LC_ALL": locale}) as running:
            for names in between_nuls(running.pieces()):
                yield from names
            self._unreadable = running.complaints.count(UNREADABLE)
            if running.code not in (0, 1) and UNREADABLE not in running.complaints:
                said = running.complaints.decode(errors="replace").strip()
                raise Broken(f"git grep failed: {said[:200] or running.code}")


def asked(request: Grep) -> tuple[list[str], str]:
    """The patterns, as git takes them, and the locale in which they mean what they should."""
    if not request.regex:
        pattern = request.pattern.replace("\\E", "\\E\\\\E\\Q")
        pattern = f"\\Q{pattern}\\E"
    elif OTHERWISE.search(request.pattern):
        raise Broken("git would take the regular expression for another")
    else:
        pattern = f"(*UCP){request.pattern}"
    if request.regex or request.ignore_case:
        case = ["--ignore-case"] if request.ignore_case else []
        return [*case, "-e", pattern, "-e", NUL, "-e", MARK], IN_CHARACTERS
    return ["-e", pattern, "-e", WIDE], IN_BYTES


def wanted(judge: Judge, name: bytes) -> bool:
    """Whether a search looks at a file: neither a pattern of the caller's nor a rule leaves it out."""
    way, slash, last = name.rpartition(b"/")
    verdict = judge.overrides.verdict
    if verdict(name, last, directory=False) is False or judge.reason(way + slash, last):
        return False
    while way:
        if verdict(way, way.rpartition(b"/")[2], directory=True) is False:
            return False
        way = way.rpartition(b"/")[0]
    return True
