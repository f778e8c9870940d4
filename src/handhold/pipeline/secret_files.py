"""Secret files of a workspace: what commands may not read of them, and what of them is redacted where it is printed.

File tools show none of them. With `secrets="usable"` commands may read and move those that the built-in rules name, and
values that look secret are redacted in their output and in search hits. What the user's own rules deny is withheld from
commands in either mode, and so is what lies outside the workspace.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from threading import Lock
from time import monotonic

from handhold.core.errors import ToolError
from handhold.core.facts import Identity
from handhold.core.policy.rules import RulePolicy
from handhold.core.ports import Files, Hiding, Policy
from handhold.core.text.names import unmistakable
from handhold.core.text.redaction import Redaction
from handhold.core.text.secrets import Secret, find_secrets

MOST_READ = 256 * 1024  # bytes of a secret file
MOST_SECRETS = 2_000  # of a workspace
SEARCH_SECONDS = 0.5  # that a search waits until it is known where the secret files are


class SecretFiles:
    """Of one workspace under one policy. Several threads may ask at once."""

    def __init__(self, files: Files, policy: Policy, hiding: Hiding | None) -> None:
        """`hiding` knows all that file tools do not show."""
        self._files = files
        self._hiding = hiding
        self.policy = policy.for_commands if isinstance(policy, RulePolicy) else policy
        self._usable = self.policy is not policy
        self._known: dict[str, tuple[Identity, tuple[Secret, ...]]] = {}
        self._secrets: dict[Secret, None] = {}  # all that were seen: a file may be moved to an ordinary name
        self._redaction = Redaction(())
        self._lock = Lock()

    @cached_property
    def withheld_hiding(self) -> Hiding | None:
        """What commands may not read; None if no rule denies them anything."""
        if not self._usable or not isinstance(self.policy, RulePolicy):
            return self._hiding
        if not self.policy.denies_reading:
            return None
        visible = self.policy.visible
        return self._files.hiding(lambda place: not visible(place))

    def withheld(self) -> Sequence[str]:
        """The places that a command may not see. A secret file that is a link to the outside is kept from it, too."""
        if self._hiding is None:
            return ()
        if not self._usable:
            return self._hiding.places()
        outside = [place for place in self._hiding.places() if not self._is_inside(place)]
        return tuple(_topmost([*outside, *(self.withheld_hiding.places() if self.withheld_hiding else ())]))

    @property
    def known(self) -> Redaction:
        """What was redacted last."""
        return self._redaction

    def redaction(self, *, searching: bool = False) -> Redaction | None:
        """Of the secrets in the files as they are now, and as they were before; None if there were none.

        A search does not wait longer than it usually takes: it goes by what was known last.
        """
        if self._hiding is None or not self._usable:
            return None
        try:
            places = self._hiding.files(monotonic() + SEARCH_SECONDS if searching else None)
        except TimeoutError:
            return self._redaction or None
        with self._lock:
            known = len(self._secrets)
            for place in places:
                self._secrets |= dict.fromkeys(self._secrets_in(place))
            if len(self._secrets) != known:
                self._redaction = Redaction(list(self._secrets)[-MOST_SECRETS:])
            return self._redaction or None

    def _secrets_in(self, place: str) -> Iterator[Secret]:
        path = unmistakable(place)
        try:
            look = self._files.look(path) if self._is_inside(place) else None
            if look is None or look.kind != "file":
                return
            identity, secrets = self._known.get(place, (None, ()))
            if identity != look.identity:
                head = self._files.begun(path, MOST_READ).head
                secrets = find_secrets(head, place.rpartition("/")[2])
                self._known[place] = look.identity, secrets
        except ToolError:  # it cannot be read, or is gone
            return
        yield from secrets

    def _is_inside(self, place: str) -> bool:
        return any(place.startswith(root.rstrip("/") + "/") for root in self._files.roots)


def _topmost(places: Sequence[str]) -> Iterator[str]:
    last = ""
    for place in sorted(set(places), key=lambda each: each.split("/")):
        if not last or not place.startswith(last + "/"):
            yield (last := place)
