"""Secret files of a workspace: which of them commands may not read, and which values are redacted in output.

File tools never show them. With `secrets="usable"` commands may read and move those that the built-in rules name, and
values that look secret are redacted in their output and in search hits. What the user's own rules deny is withheld from
commands in either mode, and so are paths outside the workspace.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from threading import Lock
from time import monotonic

from handhold.core.errors import ToolError
from handhold.core.facts import FileIdentity
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.ports.files import Files, HiddenPaths
from handhold.core.ports.policy import Policy
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.core.text.redaction import Redaction
from handhold.core.text.secrets import Secret, find_secrets
from handhold.logs import log_swallowed

MAX_SECRET_FILE_BYTES = 256 * 1024  # bytes read of a secret file
MAX_SECRETS = 2_000  # per workspace
SEARCH_WAIT_SECONDS = 0.5  # how long a search waits for the list of secret files


class SecretFiles:
    """The secret files of one workspace under one policy. Thread-safe."""

    def __init__(self, files: Files, policy: Policy, hidden: HiddenPaths | None) -> None:
        """`hidden` has every path that file tools do not show."""
        self._files = files
        self._hidden = hidden
        self.policy = policy.for_commands if isinstance(policy, RulePolicy) else policy
        self._usable = self.policy is not policy
        self._known: dict[str, tuple[FileIdentity, tuple[Secret, ...]]] = {}
        self._secrets: dict[Secret, None] = {}  # every secret seen so far: its file may be moved to an ordinary name
        self._redaction = Redaction(())
        self._lock = Lock()

    @cached_property
    def masked_hidden_paths(self) -> HiddenPaths | None:
        """The paths that commands may not read, or None if no rule denies any."""
        if not self._usable or not isinstance(self.policy, RulePolicy):
            return self._hidden
        if not self.policy.has_read_restrictions:
            return None
        visible = self.policy.is_visible
        return self._files.hidden_paths(lambda place: not visible(place))

    def masked_paths(self) -> Sequence[str]:
        """The places that a command may not read. These include secret files that link outside the workspace."""
        if self._hidden is None:
            return ()
        if not self._usable:
            return self._hidden.paths()
        outside = [place for place in self._hidden.paths() if not self._is_inside(place)]
        return tuple(
            _remove_nested([*outside, *(self.masked_hidden_paths.paths() if self.masked_hidden_paths else ())])
        )

    @property
    def last_redaction(self) -> Redaction:
        """The most recent redaction."""
        return self._redaction

    def redaction(self, *, searching: bool = False) -> Redaction | None:
        """The redaction of all current and earlier secrets, or None if there were none.

        A search waits only briefly for the list of secret files, then uses the last redaction.
        """
        if self._hidden is None or not self._usable:
            return None
        try:
            places = self._hidden.files(monotonic() + SEARCH_WAIT_SECONDS if searching else None)
        except TimeoutError:
            return self._redaction or None
        with self._lock:
            known = len(self._secrets)
            for place in places:
                self._secrets |= dict.fromkeys(self._secrets_in(place))
            if len(self._secrets) != known:
                self._redaction = Redaction(list(self._secrets)[-MAX_SECRETS:])
            return self._redaction or None

    def _secrets_in(self, place: str) -> Iterator[Secret]:
        path = escape_ambiguous(place)
        try:
            stat = self._files.stat(path) if self._is_inside(place) else None
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

    def _is_inside(self, place: str) -> bool:
        return any(place.startswith(root.rstrip("/") + "/") for root in self._files.roots)


def _remove_nested(places: Sequence[str]) -> Iterator[str]:
    last = ""
    for place in sorted(set(places), key=lambda each: each.split("/")):
        if not last or not place.startswith(last + "/"):
            yield (last := place)
