"""Whether a change counts and a command runs: by the policy, by what a person allowed before, else by asking.

An answer is for what was asked and nothing else: for this call, with every file as it was and as it would be. What is
allowed for a session, or for the like of a command, is put down under a key, and asked about no more. Where nobody can
be asked the question waits in the store; whoever answers it there, the same call, sent again, goes ahead.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import time

from handhold.core.errors import Denied, NotApproved
from handhold.core.plans import Bytes, FileChange, Shelved, digest, hash_of
from handhold.core.policy.protected import Protection
from handhold.core.ports import (
    Approver,
    Asked,
    Call,
    Consent,
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

MANY = 30  # files that were there before: to lose more at once is a question, where somebody can answer it
LONGEST_DIFF = 100_000  # characters of one that wait in the store
SHORT = 12  # letters of a hash that name a question
RUN, RUN_DIRECTLY = "run", "run-directly"  # how the keys of commands begin
CHANGES = "changes"  # the key of changes in the workspace that nothing sets apart

LEAK = Judgement(
    Verdict.ASK, "it has another name outside the workspace, and would change there too", "hard links", "built in"
)

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
    folder: str = ""  # where the command would run

    @cached_property
    def hash(self) -> str:
        """Of the request, of where it is carried out, and of every change."""
        call = self.call
        changes = [[each.path, hash_of(each.before), hash_of(each.after), each.mode] for each in self.files]
        asked = [call.session, call.tool, call.arguments, self.folder, self.command, changes]
        return digest(json.dumps(asked).encode())


class Asking:
    """The policy of a session, with the person behind it, if there is one."""

    def __init__(
        self,
        policy: Policy,
        approver: Approver | None,
        store: Store,
        session: str,
        protection: Protection,
        diff: Callable[[Sequence[FileChange]], str],
        leaks: Callable[[str], bool],
    ) -> None:
        """`leaks` says whether a file has another name outside the workspace, under which a change would show."""
        self.policy = policy
        self.approver = approver
        self.store = store
        self.session = session
        self.protection = protection
        self._diff = diff
        self._leaks = leaks

    # --- before a command

    def may_run(self, call: Call, command: str, study: Study, folder: str, *, directly: Sequence[str] = ()) -> Decision:
        """`directly` are the roots of a command that would run on the workspace itself, where nothing is looked at.

        What was allowed on a shadow is not allowed there: it could not be taken back.
        """
        how = RUN_DIRECTLY if directly else RUN
        key = f"{how}={folder}={command}"
        doubts = [Doubt("", self.policy.may_run(study), key)]
        doubts += [Doubt(root, self.policy.may(Verb.CHANGE, root), key) for root in directly]
        patterns = tuple(f"{how} {each}" for each in study.patterns)
        return self._decided(Matter(call, (), command, patterns, lambda place: place, folder), doubts)

    # --- before a change counts

    def may_change(
        self,
        call: Call,
        files: Sequence[FileChange],
        spelled: Callable[[str], str],
        *,
        command: str = "",
        within: Sequence[str] = (),
    ) -> Decision:
        """`within` are places in folders that come or go whole, which a rule or a protected name may be about."""
        doubts = [self._doubt(run.verb_of(change), change.path) for change in files]
        doubts += [
            Doubt(each.path, LEAK, f"{Verb.CHANGE} {each.path}")
            for each in files
            if isinstance(each.after, Bytes) and each.before is not None and self._leaks(each.path)
        ]
        doubts += [self._doubt(verb, place) for place, verb in run.within(within, files)]
        if command and (loss := self._loss(files)):
            doubts.append(loss)
        return self._decided(Matter(call, files, command, (), spelled), doubts)

    def judged(self, verb: Verb, place: str) -> Judgement:
        """The policy's word; but what other programs obey is not changed without a question, whatever the mode."""
        judgement = self.policy.may(verb, place)
        if judgement.verdict is not Verdict.DENY and (because := self.protection.because(place)):
            return Judgement(Verdict.ASK, f"a protected name: {because}", "protected names", "built in")
        return judgement

    def sets_apart(self, place: str, root: str) -> bool:
        """Whether a name or a rule sets a place apart from its root: it must not go unseen in a folder that changes."""
        if self.protection.covers(place):
            return True
        return self.policy.concerns(place) and any(
            severity(self.policy.may(verb, place)) > severity(self.policy.may(verb, root)) for verb in run.CHANGING
        )

    def _doubt(self, verb: Verb, place: str) -> Doubt:
        judgement = self.judged(verb, place)
        by_mode = judgement.rule.startswith("mode ")
        return Doubt(place, judgement, CHANGES if by_mode else f"{verb} {place}")

    def _loss(self, files: Sequence[FileChange]) -> Doubt | None:
        """More than a few files gone or overwritten that this session did not make, and somebody who can be asked.

        Where nobody can, it is taken back if it was wrong, like every change.
        """
        if not self._somebody or self.policy.name == "open":
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
        if answer := self.store.spend(matter.hash, self.session):
            if answer.answer == "no":
                raise NotApproved(path, because, asked=True, rule=rule, of_command=of_command)
            self._remember(answer.answer or "once", keys, matter.patterns, answer.by)
            return Decision("approved", rule, answer.by)
        said = self.approver(self._question(matter, because, rule, keys)) if self.approver and self._somebody else None
        if said is None:
            waiting = self._put_down(matter, because, keys)
            raise NotApproved(path, because, asked=False, rule=rule, approval=waiting, of_command=of_command)
        consent: Consent = ("once" if said else "no") if isinstance(said, bool) else said
        if consent == "no":
            raise NotApproved(path, because, asked=True, rule=rule, of_command=of_command)
        by = getattr(self.approver, "name", "the approver")
        self._remember(consent, keys, matter.patterns, by)
        return Decision("approved", rule, f"{by} ({consent})")

    @property
    def _somebody(self) -> bool:
        return self.approver is not None and getattr(self.approver, "present", True)

    def _question(self, matter: Matter, because: str, rule: str, keys: Sequence[str]) -> Question:
        return Question(
            matter.call.tool,
            tuple(matter.files),
            self._diff(matter.files),
            because,
            matter.command,
            id=matter.hash[:SHORT],
            rule=rule,
            session=_in_words(keys),
            patterns=tuple(each.partition(" ")[2] for each in matter.patterns),
        )

    def _put_down(self, matter: Matter, because: str, keys: tuple[str, ...]) -> str:
        self.store.ask(
            Asked(
                id=matter.hash[:SHORT],
                hash=matter.hash,
                session=self.session,
                at=time(),
                tool=matter.call.tool,
                because=because,
                command=matter.command,
                diff=self._diff(matter.files)[:LONGEST_DIFF],
                allows=keys,
                patterns=matter.patterns,
            )
        )
        return matter.hash[:SHORT]

    def _remember(self, consent: str, keys: Sequence[str], patterns: Sequence[str], by: str) -> None:
        for key in {"session": keys, "pattern": patterns}.get(consent, ()):
            self.store.allow(self.session, key, by=by)


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
