"""Run ripgrep, and interpret its errors."""

import re
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from errno import EACCES, ENOENT, EPERM
from functools import cached_property

from handhold.backends.files.directory_tree import DiskTree
from handhold.backends.search.confinement import confine
from handhold.backends.search.exclusions import ExclusionClassifier, build_classifier
from handhold.backends.search.ignore_rules import load_parent_rules
from handhold.backends.search.ripgrep_binary import ENV, RipgrepBinary
from handhold.backends.search.search_process import Deadline, EngineFailed, SearchProcess
from handhold.backends.search.search_run import SearchRun
from handhold.core.errors import BadGlob, BadRegex
from handhold.core.requests import Glob, Grep
from handhold.core.text.default_ignores import DEFAULT_IGNORED_FOLDERS
from handhold.core.text.ignore import IgnoreRules

BASE_OPTIONS = ("--no-config", "--no-ignore-global", "--no-ignore-messages", "--color=never", "--no-mmap")

PATH_PREFIX = b"./"  # before every name, so that none is taken for an option

FD_PATH = b"/proc/self/fd/%d"

PLAIN_REGEX_ERRORS = {
    "unclosed group": "a ')' is missing",
    "unopened group": "a '(' is missing",
    "unclosed character class": "a ']' is missing",
    "unclosed counted repetition": "a '}' is missing",
    "repetition operator missing expression": "an operator such as '*' has nothing before it to repeat",
}

ERROR_LINE = re.compile(rb"^(?:rg: )?(.*): [^:]* \(os error (\d+)\)$", re.MULTILINE)


@dataclass
class RipgrepCommand(SearchRun):
    """Runs ripgrep in the folder of a search, and classifies its errors."""

    program: RipgrepBinary
    tree: DiskTree
    error_counts: Counter[int] = field(default_factory=Counter[int])  # by errno

    @property
    def engine(self) -> str:
        return f"ripgrep {self.program.version}"

    def stream_output(
        self,
        deadline: Deadline,
        options: Sequence[str],
        files: Sequence[bytes] | Sequence[int],
        error_counts: Counter[int],
    ) -> Generator[bytes]:
        """ripgrep's output for files given by name or descriptor; errors are counted in `error_counts` by errno."""
        names = [PATH_PREFIX + file if isinstance(file, bytes) else FD_PATH % file for file in files]
        argv = [*self._confinement, self.program.path, *BASE_OPTIONS, *options, "--", *names]
        fds = [file for file in files if isinstance(file, int)]
        with SearchProcess(argv, self.folder.fd, deadline, ENV, fds) as process:
            try:
                yield from process.read_chunks()
            finally:
                error_counts.update(self._confirm_errors(process.stderr))
            if process.exit_code not in (0, 1) and not (process.exit_code == 2 and ERROR_LINE.search(process.stderr)):
                raise self._make_error(process.stderr.decode(errors="replace"), process.exit_code)

    def is_shown(self, name: bytes) -> bool:
        """Whether a file may be shown. Git's own files are left out, even if an ignore file includes them; and if the
        flags decide, so are ignored files that ripgrep searched because a glob matches them."""
        request = self.request
        if self.name or (request.ignored and not request.flags_decide):
            return True
        if not request.ignored and b".git" in name and b"/.git/" in name + b"/":
            return False
        if not request.flags_decide or (isinstance(request, Grep) and not request.glob):
            return True
        rel_path, slash, last = name.removeprefix(PATH_PREFIX).rpartition(b"/")
        return self.classifier.find_rule(rel_path + slash, last) is None

    @cached_property
    def classifier(self) -> ExclusionClassifier:
        place = self.folder.to_place(b"").rstrip("/") or "/"
        rules = (
            IgnoreRules()
            if self.request.ignored
            else load_parent_rules(self.folder.workspace, place, self.folder.can_show_place)
        )
        return build_classifier(self.tree, place, rules, self.request)

    @cached_property
    def _confinement(self) -> list[str | bytes]:
        return confine(self.folder, self.program.path, self.name, ignored=self.request.ignored)

    def _confirm_errors(self, stderr: bytes) -> Generator[int]:
        """Errors by errno. A file that we could open ourselves changed meanwhile, and counts like one that is gone:
        telling them apart would reveal what a temporary link led to."""
        for name, number in ERROR_LINE.findall(stderr):
            name, number = name.removeprefix(PATH_PREFIX), int(number)
            if self.folder.visible(self.folder.to_place(name)):
                refused = number in (EACCES, EPERM) and not self.folder.is_unreadable(name)
                yield ENOENT if refused else number

    def _make_error(self, stderr: str, exit_code: int) -> Exception:
        """An error in the pattern, or in ripgrep itself."""
        stderr = stderr.removeprefix("rg: ").strip()
        if "error parsing glob" in stderr:
            glob = self.request.pattern if isinstance(self.request, Glob) else self.request.glob
            return BadGlob(glob, stderr.partition("': ")[2])
        if exit_code == 2 and "regex" in stderr:
            message = stderr.rpartition("error: ")[2].partition("\n")[0]
            return BadRegex(self.request.pattern, PLAIN_REGEX_ERRORS.get(message, message))
        first = stderr.partition("\n")[0]  # the rest is for developers of ripgrep
        return EngineFailed(f"ripgrep failed: {first[:200] or exit_code}")


def build_file_options(request: Glob | Grep, *, glob: str) -> list[str]:
    """Options that select the files to search."""
    options: list[str] = []
    if request.ignored:
        options.append("--no-ignore")
    if request.hidden:
        options.append("--hidden")
    if glob:
        options.append(f"--glob={glob}")
    if not request.ignored and (request.hidden or can_match_git(glob)):
        options.append("--glob=!.git")  # last, so that it overrides the other
    if request.flags_decide and not request.ignored:
        options += (f"--glob=!{folder}/" for folder in sorted(DEFAULT_IGNORED_FOLDERS))
    if request.flags_decide and not request.hidden:
        options.append("--glob=!.*")
    return options


def can_match_git(glob: str) -> bool:
    """Whether a glob could match a folder `.git`, which would then be searched although it is hidden."""
    last = glob.rpartition("/")[2]
    return bool(glob) and (any(sign in last for sign in "?[{\\") or ".git".endswith(last.rpartition("*")[2]))
