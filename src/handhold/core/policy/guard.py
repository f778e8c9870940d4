"""The view that a tool plans with: it hides what the policy denies, and knows what the session has seen.

So no plan and no error message can show a denied path, and no tool can forget to ask the tracker.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from handhold.core.choices import Matching
from handhold.core.errors import Denied, IsDirectory, IsLink, NotFound, NotRegularFile
from handhold.core.facts import Beginning, Look, Page, Whole
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rules import RulePolicy
from handhold.core.ports import FileView, Hiding, Policy, Traits, Verb, Verdict
from handhold.core.text.encoding import Text, must_fit
from handhold.core.text.names import escaped, unmistakable
from handhold.core.tracker import Tracker

MOST_NEAR = 5  # names that are told instead of a missing one
UNUSED = "\u200b"  # a name that no file has: where it would stand tells where its neighbours do


@dataclass(frozen=True)
class Known:
    """A file that the session has seen as it is: its content and its text."""

    whole: Whole
    text: Text


@dataclass(frozen=True)
class GuardedView:
    files: FileView
    policy: Policy
    tracker: Tracker
    traits: Traits
    hiding: Hiding | None = None  # what reading is denied of; None where no rule could

    @property
    def matching(self) -> Matching:
        return self.traits.matching

    def place(self, path: str) -> str:
        return self.files.place(path)

    def spelled(self, place: str) -> str:
        """A place as a reply spells it, and as a call may: from the first root on, or in full if the dialect does."""
        if self.traits.absolute_paths:
            return escaped(place)
        return escaped(place.removeprefix(self._first)) if place != self.files.roots[0] else "."

    @cached_property
    def visible(self) -> Callable[[str], bool]:
        """Whether a place may be shown, and be told from."""
        # A search asks a hundred thousand times: whoever can answer quickly does.
        if isinstance(self.policy, ModePolicy):
            return lambda _: True
        if isinstance(self.policy, RulePolicy):
            return self.policy.visible
        may = self.policy.may
        return lambda place: may(Verb.READ, unmistakable(place)).verdict is not Verdict.DENY

    def look(self, path: str) -> Look | None:
        return self._allowed(path)

    def there(self, path: str) -> Look:
        """What stands at a path; NotFound, with the names beside it that may be seen, if nothing does."""
        look = self.look(path)
        if look is None:
            near = (name if name.startswith("/") else self._first + name for name in self.files.near(path))
            raise NotFound(path, tuple(self.spelled(place) for place in near if self.visible(place))[:MOST_NEAR])
        return look

    def file(self, path: str) -> Look:
        """A regular file, or the reason why there is none."""
        look = self.there(path)
        if look.kind == "directory":
            raise IsDirectory(path)
        if look.kind == "other":
            raise NotRegularFile(path, look.kind)
        return look

    def begun(self, path: str, look: Look, count: int) -> Beginning:
        """How the file begins that was looked at."""
        begun = self.files.begun(path, count)
        if (begun.path, begun.identity) != (look.path, look.identity):  # a link may have been turned meanwhile
            self._allowed(path)
            self._may_read(path, begun.path)
        return begun

    def content(self, path: str) -> Whole:
        """A file that is only looked at, whether the session knew it or not."""
        self._allowed(path)
        whole = self.files.read(path)
        self._may_read(path, whole.path)
        return whole

    def page(self, path: str, offset: int, limit: int, width: int, whole: Whole | None = None) -> Page:
        if whole is not None:
            return self.files.page(path, offset, limit, width, whole=whole)
        self._allowed(path)
        page = self.files.page(path, offset, limit, width)
        self._may_read(path, page.path)  # a link may have been turned meanwhile
        return page

    def count(self, path: str) -> int:
        self._allowed(path)
        return self.files.count(path)

    def known(self, path: str, *, all_of_it: bool = False) -> Known:
        """A file that may be changed: there, text, seen by the session, and unchanged since."""
        whole = self.whole(path, all_of_it=all_of_it)
        return Known(whole, self.text(whole.data, path))

    def text(self, data: bytes, path: str) -> Text:
        """Bytes that stand at a path, or would, in the encoding that they have there."""
        return Text.decode(data, path, self.files.declared(path))

    def new(self, body: str, path: str) -> Text:
        """The text of a file that is to come, in the encoding asked for; Unencodable if that has no room for it."""
        made = Text.new(body, self.files.declared(path))
        must_fit(made.body, made.coding, path)
        return made

    def whole(self, path: str, *, all_of_it: bool = False) -> Whole:
        """The same, text or not."""
        try:
            self.file(path)
        except NotFound as error:
            error.was_read = self.tracker.marks.get(self.files.place(path), None) is not None
            raise
        whole = self.files.read(path)
        self._may_read(path, whole.path)
        if self.traits.needs_read:
            self.tracker.must_know(whole, path, all_of_it=all_of_it)
        return whole

    def saw_all(self, whole: Whole) -> bool:
        """Whether the session has seen this file from end to end."""
        mark = self.tracker.marks.get(whole.path, whole.identity)
        return mark is not None and mark.whole and mark.hash == whole.hash

    def no_link(self, path: str) -> None:
        """IsLink if the path is the name of a link, and not of the file that it leads to."""
        place = self.files.place(path)
        if place != self._named(path):
            raise IsLink(path, place)

    def _named(self, path: str) -> str:
        """Where a path is, if its last name is not followed: the place of a link itself."""
        above, _, name = path.rpartition("/")
        beside = self.files.place(f"{above}/{UNUSED}" if above or path.startswith("/") else UNUSED)
        return beside.removesuffix(UNUSED) + name

    def was_shown(self, page: Page) -> bool:
        """Whether the session was shown these very lines, and they are still the same."""
        return self.tracker.was_shown(page)

    def was_other(self, whole: Whole) -> bool:
        """Whether the session saw another content of this file."""
        mark = self.tracker.marks.get(whole.path, whole.identity)
        return mark is not None and mark.hash != whole.hash

    def changed_since(self, page: Page) -> tuple[bool, str]:
        """Whether the file is no longer what the session last saw of it, and how it differs."""
        return self.tracker.changed_since(page)

    def whole_changed_since(self, whole: Whole) -> tuple[bool, str]:
        return self.tracker.whole_changed_since(whole)

    @property
    def _first(self) -> str:
        return self.files.roots[0].rstrip("/") + "/"

    def _allowed(self, path: str) -> Look | None:
        """What stands there. Denied if one of its names is: its place, that of a link which leads there, or another of
        the same file."""
        look = self.files.look(path)
        for place in self._names(path, look):
            self._may_read(path, place)
        return look

    def names(self, path: str) -> Iterator[str]:
        """All names that a path stands for, each a place."""
        return self._names(path, self.files.look(path) if self.hiding else None)

    def _names(self, path: str, look: Look | None) -> Iterator[str]:
        place = look.path if look else self.files.place(path)
        yield place
        if self.hiding is None or place in self.files.roots:
            return
        if place not in (path, self._first + path) and (named := self._named(path)) != place:
            yield named
        if look and look.links > 1:
            twin = self.hiding.twins().get((look.identity.device, look.identity.inode))
            if twin is not None:
                yield unmistakable(twin)

    def _may_read(self, path: str, place: str) -> None:
        judgement = self.policy.may(Verb.READ, place)
        if judgement.verdict is Verdict.DENY:
            raise Denied(path, judgement.because, judgement.rule, remedy=judgement.remedy)
