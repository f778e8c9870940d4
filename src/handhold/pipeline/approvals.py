"""Approvals: by a person's earlier grant, else by asking.

An answer is valid only for what was asked: this call, with every file exactly as before and after. What is allowed for
a session, or for commands like one, is stored under a key and not asked about again. If nobody can be asked, the
question waits in the store; once it is answered there, the same call, sent again, is carried out. While somebody has
the review page open, the call itself waits.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from time import monotonic, time

from handhold.core.change_diff import ApprovalDiff, count_entries
from handhold.core.errors import ApproverInvalid, NotApproved
from handhold.core.facts import SandboxStatus
from handhold.core.plans import (
    Content,
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    InlineContent,
    StagedContent,
    digest,
)
from handhold.core.ports.approvals import PendingApproval, Question
from handhold.core.ports.journal import Call, CallDecision
from handhold.pipeline.approver import APPROVING_ANSWERS, WaitFor, ask_approver, find_present_approver
from handhold.pipeline.change_contents import ChangeContents
from handhold.pipeline.effects import describe_effects
from handhold.pipeline.policy_review import (
    CHANGES_KEY,
    PRIVILEGED,
    RUN_DIRECTLY_KEY,
    RUN_KEY,
    PolicyFinding,
    describe_reasons,
    format_rule,
)
from handhold.pipeline.session import Session

QUEUE_FULL = (
    "too many questions, or too long ones, are already waiting."
    " A person can answer them with `handhold approve`; then repeat this call"
)
PAGE_TIMEOUT_SECONDS = 30 * 60  # a call waits this long for an answer from the review page
PAGE_POLL_SECONDS = 0.2
DIFF_TOO_LONG = "the change is too long to be shown. Make it in smaller steps"


@dataclass(frozen=True)
class ApprovalRequest:
    """What an approval is asked for."""

    call: Call
    files: Sequence[FileChange]
    command: str
    patterns: tuple[str, ...]
    format_path: Callable[[str], str]
    wait: WaitFor
    folder: str = ""  # where the command would run
    seq: int = 0  # of the call in the journal; 0 if it is not there yet


class ApprovalService:
    """Asks the approver of a session, and remembers what was granted."""

    def __init__(
        self,
        session: Session,
        contents: ChangeContents,
        find_sandbox: Callable[[], SandboxStatus | None] = lambda: None,
    ) -> None:
        """`find_sandbox` tells what confines the commands of the session; None if it can run none."""
        self._session = session
        self._contents = contents
        self._find_sandbox = find_sandbox

    def approve(self, request: ApprovalRequest, findings: Sequence[PolicyFinding]) -> CallDecision:
        """Approve by earlier grants, else ask about the findings. NotApproved if the answer is not a consent."""
        granted = self._session.approvals.list_grants(self._session.name)
        keys = {each.key for each in findings}
        for sufficient in (keys, set(request.patterns)):
            if sufficient and sufficient <= granted.keys():
                by = ", ".join(sorted({granted[key] for key in sufficient}))
                return CallDecision("approved", format_rule(findings[0].decision), f"{by} (session)")
        return self._ask(request, [each for each in findings if each.key not in granted])

    def _ask(self, request: ApprovalRequest, findings: Sequence[PolicyFinding]) -> CallDecision:
        session, first = self._session, findings[0]
        path = request.format_path(first.place) if first.place else request.command
        because, rule = describe_reasons(findings), format_rule(first.decision)
        of_command = not request.files
        keys = tuple(dict.fromkeys(each.key for each in findings)) if all(each.key for each in findings) else ()
        hash = self._hash(request, findings)
        refused = partial(NotApproved, path, because, asked=True, rule=rule, of_command=of_command)
        if decision := self._use_answer(hash, rule, refused):
            return decision
        unanswered = partial(NotApproved, path, because, asked=False, rule=rule, of_command=of_command)
        # If the mode asks about every change, or about many deletions, no place needs to be shown first.
        apart = {each.place for each in findings if each.decision is PRIVILEGED or each.key not in ("", CHANGES_KEY)}
        diff = self._contents.diff_for_approval(request.files, apart)
        if diff is None:
            raise unanswered(unasked=DIFF_TOO_LONG)
        consent, by = None, ""
        approver = find_present_approver(session.approver)
        if approver is not None and not (
            getattr(approver, "defers_to_page", False) and session.approvals.is_reviewed()
        ):
            invalid = ApproverInvalid(path, because, asked=False, rule=rule, of_command=of_command)
            question = _make_question(request, hash, because, rule, keys, diff)
            consent, by = ask_approver(approver, question, request.wait, invalid)
        if consent is None:
            pending = self._enqueue(request, hash, because, rule, keys, diff)
            if pending is None:
                raise unanswered(unasked=QUEUE_FULL)
            if session.approvals.is_reviewed():
                self._wait_for_page(hash, request.wait)
                if decision := self._use_answer(hash, rule, refused):
                    return decision
            raise unanswered(approval=pending.id)
        if consent not in APPROVING_ANSWERS:
            raise refused()
        self._grant(consent, keys, request.patterns, by)
        return CallDecision("approved", rule, f"{by} ({consent})")

    def _use_answer(self, hash: str, rule: str, refused: Callable[..., NotApproved]) -> CallDecision | None:
        """The decision by an answer in the store, which is used up; None without one. Raises `refused` for a no."""
        answer = self._session.approvals.consume_approval(hash, self._session.name)
        if answer is None:
            return None
        if answer.answer not in APPROVING_ANSWERS:
            raise refused(word=answer.word)
        self._grant(answer.answer, answer.allows, answer.patterns, answer.by)
        return CallDecision("approved", rule, answer.by)

    def _wait_for_page(self, hash: str, wait: WaitFor) -> None:
        """Wait until the question is answered, nobody has a review page open, or the time is up."""
        import asyncio

        session, until = self._session, monotonic() + PAGE_TIMEOUT_SECONDS
        if notify := getattr(session.approver, "notify_waiting", None):
            notify()

        def is_over() -> bool:
            approvals = session.approvals
            return approvals.is_answered(hash, session.name) or not approvals.is_reviewed() or monotonic() > until

        async def poll() -> None:
            while not await asyncio.to_thread(is_over):
                await asyncio.sleep(PAGE_POLL_SECONDS)

        wait(poll())

    def _hash(self, request: ApprovalRequest, findings: Sequence[PolicyFinding]) -> str:
        """A hash of all that an answer is valid for: the request, its folder, the findings, and every change."""
        call = request.call
        changes = [
            [each.path, self._hash_side(each.before, each.path), self._hash_side(each.after, each.path), each.mode]
            for each in request.files
        ]
        reasons = [[each.place, each.key, each.decision.because, each.decision.rule] for each in findings]
        asked = [call.session, call.tool, call.arguments, request.folder, request.command, reasons, changes]
        return digest(json.dumps(asked).encode())

    def _hash_side(self, content: Content | None, path: str) -> Sequence[str] | None:
        """One side of a change. Content that no longer exists gets a random hash, so that no answer fits it."""
        match content:
            case None:
                return None
            case StagedContent():
                return "shelved", self._session.files.exact_hash(content, path) or token_hex()
            case InlineContent() | ContentRef():
                return "file", content.hash
            case Directory() | DirectoryMetadata():
                return "folder", content.hash

    def _enqueue(
        self, request: ApprovalRequest, hash: str, because: str, rule: str, keys: tuple[str, ...], diff: ApprovalDiff
    ) -> PendingApproval | None:
        """Store the question; None if there is no room for it."""
        sandbox = self._find_sandbox()
        return self._session.approvals.enqueue(
            PendingApproval(
                id="",
                hash=hash,
                session=self._session.name,
                at=time(),
                tool=request.call.tool,
                because=because,
                command=request.command,
                diff=diff.text,
                uncut=diff.uncut,
                allows=keys,
                patterns=request.patterns,
                rule=rule,
                seq=request.seq,
                confined_by=sandbox.by if sandbox else "",
                shares_loopback=sandbox is not None and not sandbox.has_own_loopback,
                effects=describe_effects(diff.lines_by_change, self._contents, self._session.files.roots),
                effect_count=sum(count_entries(change) for change in request.files if not change.is_directory),
            )
        )

    def _grant(self, consent: str, keys: Sequence[str], patterns: Sequence[str], by: str) -> None:
        """Store what the session need not ask about again."""
        for key in {"session": keys, "pattern": patterns}.get(consent, ()):
            self._session.approvals.grant(self._session.name, key, by=by)


def _make_question(
    request: ApprovalRequest, hash: str, because: str, rule: str, keys: Sequence[str], diff: ApprovalDiff
) -> Question:
    return Question(
        request.call.tool,
        tuple(request.files),
        diff.text,
        because,
        request.command,
        id=hash,
        rule=rule,
        session=describe_keys(keys),
        patterns=tuple(each.partition(" ")[2] for each in request.patterns),
        uncut=diff.uncut,
    )


def describe_keys(keys: Sequence[str]) -> str:
    """What these keys would allow, in words."""
    named = (
        "changes in the workspace that no rule covers" if key == CHANGES_KEY else _describe_key(key) for key in keys[:3]
    )
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(named) + more


def _describe_key(key: str) -> str:
    return "this very command" if key.startswith((f"{RUN_KEY}=", f"{RUN_DIRECTLY_KEY}=")) else key
