"""Secret files of a workspace: which of them commands may not read, and which values are redacted in output.

File tools never show them. With `secrets="usable"` commands may read and move those that the built-in rules name, and
values that look secret are redacted in their output and in search hits. What the user's own rules deny is withheld from
commands in either mode.

Finding the files may mean to look at every folder. So values are read when there is a text that could contain one, and
before a change moves or removes a file that has one.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from threading import Lock
from time import monotonic

from handhold.core.errors import ToolError
from handhold.core.facts import FileIdentity, FileStat
from handhold.core.plans import FileChange, StagedContent
from handhold.core.policy.guarded_view import make_visibility_check
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.ports.files import Files, HiddenPaths, LinkNames
from handhold.core.ports.policy import Policy
from handhold.core.text.path_escaping import escape_ambiguous, unescape_ambiguous
from handhold.core.text.redaction import Redaction
from handhold.core.text.secrets import Secret, find_secrets
from handhold.logs import log_swallowed
from handhold.pipeline.checked_policy import judge_by_own_name

MAX_SECRET_FILE_BYTES = 256 * 1024  # bytes read of a secret file
MAX_SECRETS = 2_000  # per workspace
SEARCH_WAIT_SECONDS = 0.5  # how long a search waits for the list of secret files


class SecretFiles:
    """The secret files of one workspace under one policy. Thread-safe."""

    def __init__(self, files: Files, policy: Policy, hidden: HiddenPaths | None, links: LinkNames) -> None:
        """`hidden` has every path that file tools do not show."""
        self._files = files
        self._links = links
        self._hidden = hidden
        self._all_rules = policy
        self.policy = policy.for_commands if isinstance(policy, RulePolicy) else policy
        self._usable = self.policy is not policy
        self._known: dict[str, tuple[FileIdentity, tuple[Secret, ...]]] = {}
        self._secrets: dict[Secret, None] = {}  # every secret seen so far: its file may be moved to an ordinary name
        self._redaction = Redaction(())
        self._looked_at = 0.0  # when all secret files were last read, on the monotonic clock
        self._harmless: FileIdentity | None = None  # the last file with several names that has no secret
        self._lock = Lock()

    # --- what may not be read

    @cached_property
    def masked_hidden_paths(self) -> HiddenPaths | None:
        """The paths that commands may not read, or None if no rule denies any."""
        if not self._usable or not isinstance(self.policy, RulePolicy):
            return self._hidden
        if not self.policy.has_read_restrictions:
            return None
        return find_hidden_paths(self._files, self.policy)

    def masked_paths(self) -> Sequence[str]:
        """The places that a command may not read."""
        if self.masked_hidden_paths is None:
            return ()
        is_visible = make_visibility_check(judge_by_own_name(self.policy))
        spelled = self._links.find_spelled(lambda place: not is_visible(place))
        return tuple(dict.fromkeys((*self.masked_hidden_paths.paths(), *spelled)))

    def find_denied_name(self, path: str, stat: FileStat) -> str | None:
        """A denied name of a file with several names.

        Commands may print a usable secret file except its values. So if a file has none, it does not matter whether
        another of its names is that of a secret file, and not all folders must be searched for it.
        """
        key = stat.identity.device, stat.identity.inode
        if self.masked_hidden_paths and (denied := self.masked_hidden_paths.hard_links().get(key)):
            return denied
        if not self._usable or self._hidden is None or not self._may_have_secret(path, stat):
            return None
        return self._hidden.hard_links().get(key)

    def _may_have_secret(self, path: str, stat: FileStat) -> bool:
        if stat.identity == self._harmless:
            return False
        if stat.kind != "file" or stat.identity.size > MAX_SECRET_FILE_BYTES:
            return True
        try:
            head = self._files.read_head(path, MAX_SECRET_FILE_BYTES)
        except ToolError:
            log_swallowed()
            return True
        if head.identity != stat.identity or find_secrets(head.data, ""):
            return True
        self._harmless = stat.identity
        return False

    # --- what is redacted

    def redaction(self, *, searching: bool = False, since: float | None = None) -> Redaction | None:
        """The redaction of all current and earlier secrets, or None if there were none.

        A search waits only briefly for the list of secret files, then uses the last redaction. With `since`, the one
        that was made at or after that time is enough.
        """
        if self._hidden is None or not self._usable:
            return None
        if since is not None and self._looked_at >= since:
            return self._redaction or None
        now = monotonic()
        try:
            places = self._hidden.files(now + SEARCH_WAIT_SECONDS if searching else None)
        except TimeoutError:
            return self._redaction or None
        self._learn(places)
        self._looked_at = now
        return self._redaction or None

    @property
    def known_secrets(self) -> Sequence[Secret]:
        """Those that `redaction` has."""
        with self._lock:
            return list(self._secrets)[-MAX_SECRETS:]

    def learn_from(self, changes: Iterable[FileChange]) -> None:
        """Read the secrets of files that a change will move or remove: they may live on under an ordinary name."""
        if self._usable and isinstance(self._all_rules, RulePolicy):
            visible = self._all_rules.is_visible
            self._learn([place for change in changes for place in self._iter_old_places(change) if not visible(place)])

    def learn_content(self, path: str, data: bytes) -> None:
        """The same of a secret file as it was earlier."""
        if self._usable:
            with self._lock:
                self._add(find_secrets(data[:MAX_SECRET_FILE_BYTES], path.rpartition("/")[2]))

    def _iter_old_places(self, change: FileChange) -> Iterator[str]:
        place, before = unescape_ambiguous(change.path), change.before
        if before is None:
            return
        yield place
        if isinstance(before, StagedContent) and before.kind == "tree":
            entries = self._files.list_staged_tree(before, change.path, before.entry_count)
            yield from (f"{place}/{way}" for way, _ in entries)

    def _learn(self, places: Sequence[str]) -> None:
        with self._lock:
            self._add([secret for place in places for secret in self._secrets_in(place)])

    def _add(self, secrets: Iterable[Secret]) -> None:
        known = len(self._secrets)
        self._secrets |= dict.fromkeys(secrets)
        if len(self._secrets) != known:
            self._redaction = Redaction(list(self._secrets)[-MAX_SECRETS:])

    def _secrets_in(self, place: str) -> Iterator[Secret]:
        path = escape_ambiguous(place)
        try:
            if not self._is_inside(place):
                yield from self._secrets_outside(place)
                return
            stat = self._files.stat(path)
            if stat is None or stat.kind != "file":
                return
            identity, secrets = self._known.get(place, (None, ()))
            if identity != stat.identity:
                head = self._files.read_head(path, MAX_SECRET_FILE_BYTES).data
                secrets = find_secrets(head, place.rpartition("/")[2])
                self._known[place] = stat.identity, secrets
        except ToolError:  # unreadable, or no longer exists
            log_swallowed()
            return
        yield from secrets

    def _secrets_outside(self, place: str) -> Iterator[Secret]:
        """Of a file, or of the files in a folder, that a link with a secret name leads to."""
        for name, data in self._hidden.read_outside(place, MAX_SECRET_FILE_BYTES) if self._hidden else ():
            yield from find_secrets(data, name)

    def _is_inside(self, place: str) -> bool:
        return any(place.startswith(root.rstrip("/") + "/") for root in self._files.roots)


def find_hidden_paths(files: Files, policy: Policy) -> HiddenPaths | None:
    """The files that a policy denies reading; None if it denies none."""
    if isinstance(policy, ModePolicy):
        return None
    is_visible = make_visibility_check(judge_by_own_name(policy))  # the search finds the links itself
    tops = policy.read_restricted_tops if isinstance(policy, RulePolicy) else None
    return files.hidden_paths(lambda place: not is_visible(place), tops=tops)
