"""Whether a change counts and a command runs: by the policy, by what a person allowed before, else by asking.

An answer is for what was asked and nothing else: for this call, with every file as it was and as it would be. What is
allowed for a session, or for the like of a command, is put down under a key, and asked about no more. Where nobody can
be asked the question waits in the store; whoever answers it there, the same call, sent again, goes ahead.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from time import time

from handhold.core.errors import ApproverInvalid, Denied, NotApproved
from handhold.core.plans import (
    Bytes,
    Content,
    Directory,
    Effects,
    FileChange,
    Folder,
    FolderTime,
    Shelved,
    Stored,
    digest,
)
from handhold.core.policy.protected import Protection
from handhold.core.policy.repositories import Repositories
from handhold.core.ports import (
    Approver,
    Asked,
    Call,
    Decision,
    Judgement,
    Policy,
    Question,
    Store,
    Study,
    Verb,
    Verdict,
)
from handhold.core.tools import run
from handhold.pipeline.approver import APPROVING, Wait, ask_approver

MANY = 30  # files that were there before: to lose more at once is a question, where somebody can answer it
NO_ROOM = (
    "too many questions, or too long ones, wait for an answer already."
    " A person can answer them with `handhold approve`; after that, send it again"
)
TOO_LONG = "what needs approval is too long to be shown. Do it in smaller steps"
RUN, RUN_DIRECTLY = "run", "run-directly"  # how the keys of commands begin
CHANGES = "changes"  # the key of changes in the workspace that nothing sets apart

LEAK = Judgement(
    Verdict.ASK, "it has another name outside the workspace, and would change there too", "hard links", "built in"
)
PRIVILEGED = Judgement(
    Verdict.ASK,
    "it would be a set-user-id or set-group-id file, a file with capabilities, or a device",
    "privileged files",
    "built in",
)

LOG = logging.getLogger("handhold.approvals")
_SEVERITY = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


def severity(judgement: Judgement) -> int:
    return _SEVERITY.index(judgement.verdict)


@dataclass(frozen=True)
class Doubt:
    """Something judged: which place, how, and the key under which a session may allow it; without one, it cannot."""

    place: str
    judgement: Judgement
    key: str = ""


@dataclass(frozen=True)
class Matter:
    """What a question is about."""

    call: Call
    files: Sequence[FileChange]
    command: str
    patterns: tuple[str, ...]
    spelled: Callable[[str], str]
    wait: Wait
    folder: str = ""  # where the command would run


class Asking:
    """The policy of a session, with the person behind it, if there is one."""

    def __init__(
        self,
        policy: Policy,
        commands: Policy,
        approver: Callable[[], Approver | None],
        store: Store,
        session: str,
        protection: Protection,
        diff: Callable[[Sequence[FileChange], Collection[str]], tuple[str, int] | None],
        leaks: Callable[[str], bool],
        exact_hash: Callable[[Shelved, str], str | None],
        repositories: Callable[[Sequence[FileChange]], Repositories],
    ) -> None:
        """`commands` is the policy for what commands do, and for taking that back: secrets may be usable there.

        `approver` is asked for each time: it may be set later, or taken away.

        `leaks` says whether a file has another name outside the workspace, under which a change would show.

        `diff` shows all that happens at some places first, and counts those lines; None if that is too long.
        `exact_hash` covers all that a shelved thing is. `repositories` finds the git directories among the changes
        of a call.
        """
        self.policy = policy
        self.commands = commands
        self._approver = approver
        self.store = store
        self.session = session
        self.protection = protection
        self._diff = diff
        self._leaks = leaks
        self._exact_hash = exact_hash
        self._repositories = repositories

    # --- before a command

    def may_run(
        self, call: Call, command: str, study: Study, folder: str, *, wait: Wait, directly: Sequence[str] = ()
    ) -> Decision:
        """`directly` are the roots of a command that would run on the workspace itself, where nothing is looked at.

        What was allowed on a shadow is not allowed there: it could not be taken back.
        """
        how = RUN_DIRECTLY if directly else RUN
        key = f"{how}={json.dumps([folder, command])}"
        doubts = [Doubt("", self.policy.may_run(study), key)]
        doubts += [Doubt(root, self.policy.may(Verb.CHANGE, root), key) for root in directly]
        patterns = tuple(f"{how} {each}" for each in study.patterns)
        return self._decided(Matter(call, (), command, patterns, lambda place: place, wait, folder), doubts)

    # --- before a change counts

    def may_change(
        self,
        call: Call,
        files: Sequence[FileChange],
        spelled: Callable[[str], str],
        *,
        wait: Wait,
        command: str = "",
        within: Sequence[str] = (),
        privileged: Sequence[str] = (),
    ) -> Decision:
        """`within` are places in folders that come or go whole, which a rule or a protected name may be about.

        `privileged` are files that would grant privileges to whoever runs them: asked about each time, in every mode.
        """
        repositories = self._repositories(files)
        policy = self.commands if command else self.policy
        doubts = [self._doubt(policy, run.verb_of(change), change.path, repositories) for change in files]
        doubts += [
            Doubt(each.path, LEAK, f"{Verb.CHANGE} {each.path}")
            for each in files
            if isinstance(each.after, Bytes) and each.before is not None and self._leaks(each.path)
        ]
        doubts += [self._doubt(policy, verb, place, repositories) for place, verb in run.within(within, files)]
        doubts += [Doubt(place, PRIVILEGED) for place in privileged]
        if command and (loss := self._loss(files)):
            doubts.append(loss)
        return self._decided(Matter(call, files, command, (), spelled, wait), doubts)

    def may_take_back(
        self, call: Call, files: Sequence[FileChange], within: Sequence[FileChange], *, wait: Wait
    ) -> Decision:
        """Whether undo or redo may do this today; `within` are the entries of folders that come or go whole.

        The host who asks for it is enough where only the mode would ask. A rule, a protected name or a file that would
        run as somebody else is still a question.
        """
        every = (*files, *within)
        repositories = self._repositories(every)
        # What goes again is obeyed by nobody: there the policy itself has the word, and no protected name.
        gone = [each.path for each in every if each.after is None]
        policy = self.commands
        going = [_doubt_of(Verb.DELETE, place, policy.may(Verb.DELETE, place)) for place in gone]
        coming = [
            self._doubt(policy, run.verb_of(each), each.path, repositories) for each in every if each.after is not None
        ]
        doubts = [
            each for each in (*going, *coming) if each.judgement.verdict is not Verdict.ASK or each.key != CHANGES
        ]
        doubts += [Doubt(each.path, PRIVILEGED) for each in every if _gains_set_id(each)]
        decision = self._decided(Matter(call, files, "", (), lambda place: place, wait), doubts)
        return decision if decision.verdict == "approved" else Decision("allowed", "the host asked for it")

    def judged(
        self, verb: Verb, place: str, repositories: Repositories | None = None, policy: Policy | None = None
    ) -> Judgement:
        """The policy's word; but what other programs obey is not changed without a question, whatever the mode.

        Without a `policy` it is the one for file tools.

        With `repositories`, a change in a git directory is judged by its content; without, by its name.
        """
        judgement = (policy or self.policy).may(verb, place)
        if judgement.verdict is not Verdict.DENY and (because := self._because(place, repositories)):
            return Judgement(Verdict.ASK, f"a protected name: {because}", "protected names", "built in")
        return judgement

    def _because(self, place: str, repositories: Repositories | None) -> str:
        if repositories and (because := repositories.objection(place)) is not None:
            return because
        return self.protection.because(place)

    def asks_about(self, files: Sequence[FileChange], within: Sequence[str]) -> tuple[str, ...]:
        """Those of the places `within` that do not change without a question, or at all."""
        repositories = self._repositories(files)
        judged = (
            (place, self.judged(verb, place, repositories, self.commands)) for place, verb in run.within(within, files)
        )
        return tuple(dict.fromkeys(place for place, judgement in judged if judgement.verdict is not Verdict.ALLOW))

    def allowed_times(self, effects: Effects) -> tuple[FolderTime, ...]:
        """Those that a command may set unasked: of folders in which its changes are, and of others that it may change.

        A time is not worth a question.
        """
        around = {change.path.rpartition("/")[0] for change in effects.files}
        return tuple(
            time
            for time in effects.times
            if time.path in around or self.judged(Verb.CHANGE, time.path, policy=self.commands).verdict is Verdict.ALLOW
        )

    def sets_apart(self, place: str, root: str) -> bool:
        """Whether a name or a rule sets a place apart from its root: it must not go unseen in a folder that changes."""
        if self.protection.covers(place) or place.endswith("/HEAD"):  # the folder may be a repository
            return True
        return self._is_stricter(place, root)

    def holds(self, place: str, change: FileChange | None = None) -> bool:
        """Whether nobody may change a place who cannot be asked about it: a command that works on the workspace itself.

        With the `change`, also what would make a git directory of a folder, or is obeyed in one under any name.
        """
        if self.protection.covers(place):
            return True
        if change and self._repositories([change]).objection(place):
            return True
        return self._is_stricter(place, self.protection.root_of(place))

    def _is_stricter(self, place: str, root: str) -> bool:
        policy = self.commands
        return policy.concerns(place) and any(
            severity(policy.may(verb, place)) > severity(policy.may(verb, root)) for verb in run.CHANGING
        )

    def _doubt(self, policy: Policy, verb: Verb, place: str, repositories: Repositories) -> Doubt:
        return _doubt_of(verb, place, self.judged(verb, place, repositories, policy))

    def _loss(self, files: Sequence[FileChange]) -> Doubt | None:
        """More than a few files gone or overwritten that this session did not make, and somebody who can be asked.

        Where nobody can, it is taken back if it was wrong, like every change.
        """
        if self._present_approver() is None or self.policy.name == "open":
            return None
        gone = [each for each in files if isinstance(each.before, Shelved) and "/.git/" not in each.path]
        total, lost = sum(map(_entries, gone)), 0
        for change in gone if total > MANY else ():
            lost += 0 if self._made(change) else _entries(change)
            if lost > MANY:
                because = f"{total} files would be deleted or overwritten, and more than {MANY} were there before"
                return Doubt(change.path, Judgement(Verdict.ASK, because, "many files", "built in"))
        return None

    def _made(self, change: FileChange) -> bool:
        before = change.before
        return isinstance(before, Shelved) and self.store.writer(change.path, before.hash) == self.session

    # --- the decision

    def _decided(self, matter: Matter, doubts: Sequence[Doubt]) -> Decision:
        worst = max(doubts, key=lambda each: severity(each.judgement), default=None)
        if worst is None or worst.judgement.verdict is Verdict.ALLOW:
            return Decision("allowed", _written(worst.judgement) if worst else "")
        path = matter.spelled(worst.place) if worst.place else matter.command
        if worst.judgement.verdict is Verdict.DENY:
            judgement = worst.judgement
            raise Denied(path, judgement.because, _written(judgement), not worst.place, judgement.remedy)
        allowed = self.store.allowed(self.session)
        doubts = [each for each in doubts if each.judgement.verdict is Verdict.ASK]
        keys = {each.key for each in doubts}
        for enough in (keys, set(matter.patterns)):
            if enough and enough <= allowed.keys():
                by = ", ".join(sorted({allowed[key] for key in enough}))
                return Decision("approved", _written(worst.judgement), f"{by} (session)")
        return self._asked(matter, [each for each in doubts if each.key not in allowed])

    def _asked(self, matter: Matter, doubts: Sequence[Doubt]) -> Decision:
        first = doubts[0]
        path = matter.spelled(first.place) if first.place else matter.command
        because, rule, of_command = "; ".join(_reasons(doubts)), _written(first.judgement), not matter.files
        keys = tuple(dict.fromkeys(each.key for each in doubts)) if all(each.key for each in doubts) else ()
        hash = self._hash(matter, doubts)
        if answer := self.store.spend(hash, self.session):
            if answer.answer not in APPROVING:
                raise NotApproved(path, because, asked=True, rule=rule, of_command=of_command)
            self._remember(answer.answer, answer.allows, answer.patterns, answer.by)
            return Decision("approved", rule, answer.by)
        unanswered = partial(NotApproved, path, because, asked=False, rule=rule, of_command=of_command)
        # Where the mode asks about every change, or many files would go, no place is set apart from the others.
        apart = {each.place for each in doubts if each.judgement is PRIVILEGED or each.key not in ("", CHANGES)}
        shown = self._diff(matter.files, apart)
        if shown is None:
            raise unanswered(unasked=TOO_LONG)
        consent, by = None, ""
        approver = self._present_approver()
        if approver is not None:
            invalid = ApproverInvalid(path, because, asked=False, rule=rule, of_command=of_command)
            question = self._question(matter, hash, because, rule, keys, shown)
            consent, by = ask_approver(approver, question, matter.wait, invalid)
        if consent is None:
            waiting = self._put_down(matter, hash, because, keys, shown)
            raise unanswered(approval=waiting.id) if waiting else unanswered(unasked=NO_ROOM)
        if consent not in APPROVING:
            raise NotApproved(path, because, asked=True, rule=rule, of_command=of_command)
        self._remember(consent, keys, matter.patterns, by)
        return Decision("approved", rule, f"{by} ({consent})")

    def _present_approver(self) -> Approver | None:
        """The approver of this moment, or None if there is none or it says that nobody is there."""
        approver = self._approver()
        try:
            return approver if getattr(approver, "present", True) else None
        except Exception:
            LOG.exception("The approver %r cannot say whether it is present, so it is asked", approver)
            return approver

    def _hash(self, matter: Matter, doubts: Sequence[Doubt]) -> str:
        """Of all that an answer is for: the request, where it is carried out, what is asked about, every change."""
        call = matter.call
        changes = [
            [each.path, self._covered(each.before, each.path), self._covered(each.after, each.path), each.mode]
            for each in matter.files
        ]
        reasons = [[each.place, each.key, each.judgement.because, each.judgement.rule] for each in doubts]
        asked = [call.session, call.tool, call.arguments, matter.folder, matter.command, reasons, changes]
        return digest(json.dumps(asked).encode())

    def _covered(self, content: Content | None, path: str) -> Sequence[str] | None:
        """One side of a change, by all that it is. What is no longer there is like nothing else: no answer fits it."""
        match content:
            case None:
                return None
            case Shelved():
                return "shelved", self._exact_hash(content, path) or token_hex()
            case Bytes() | Stored():
                return "file", content.hash
            case Directory() | Folder():
                return "folder", content.hash

    def _question(
        self, matter: Matter, hash: str, because: str, rule: str, keys: Sequence[str], shown: tuple[str, int]
    ) -> Question:
        diff, uncut = shown
        return Question(
            matter.call.tool,
            tuple(matter.files),
            diff,
            because,
            matter.command,
            id=hash,
            rule=rule,
            session=_in_words(keys),
            patterns=tuple(each.partition(" ")[2] for each in matter.patterns),
            uncut=uncut,
        )

    def _put_down(
        self, matter: Matter, hash: str, because: str, keys: tuple[str, ...], shown: tuple[str, int]
    ) -> Asked | None:
        diff, uncut = shown
        return self.store.ask(
            Asked(
                id="",
                hash=hash,
                session=self.session,
                at=time(),
                tool=matter.call.tool,
                because=because,
                command=matter.command,
                diff=diff,
                uncut=uncut,
                allows=keys,
                patterns=matter.patterns,
            )
        )

    def _remember(self, consent: str, keys: Sequence[str], patterns: Sequence[str], by: str) -> None:
        for key in {"session": keys, "pattern": patterns}.get(consent, ()):
            self.store.allow(self.session, key, by=by)


def _doubt_of(verb: Verb, place: str, judgement: Judgement) -> Doubt:
    by_mode = judgement.rule.startswith("mode ")
    return Doubt(place, judgement, CHANGES if by_mode else f"{verb} {place}")


def _gains_set_id(change: FileChange) -> bool:
    def bits(side: object) -> int:
        return side.mode & 0o6000 if isinstance(side, Shelved) and side.kind == "file" else 0

    made = (change.mode or 0) & 0o6000 if change.before is None and change.after is not None else 0
    return bool((bits(change.after) | made) & ~bits(change.before))


def _entries(change: FileChange) -> int:
    return change.before.entries if isinstance(change.before, Shelved) else 0


def _written(judgement: Judgement) -> str:
    """The deciding rule, with the place where it is written."""
    return f"{judgement.rule} ({judgement.source})" if judgement.source else judgement.rule


def _reasons(doubts: Sequence[Doubt]) -> Iterator[str]:
    yield from dict.fromkeys(each.judgement.because for each in doubts)


def _in_words(keys: Sequence[str]) -> str:
    """What these keys would allow from now on."""
    named = ("changes in the workspace that no rule is about" if key == CHANGES else _one(key) for key in keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(named) + more


def _one(key: str) -> str:
    return "this very command" if key.startswith((f"{RUN}=", f"{RUN_DIRECTLY}=")) else key
