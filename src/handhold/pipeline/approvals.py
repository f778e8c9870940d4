"""Approvals: by a person's earlier grant, else by asking.

An answer is valid only for what was asked: this call, with every file exactly as before and after. What is allowed for
a session, or for commands like one, is stored under a key and not asked about again. If nobody can be asked, the
question waits in the store; once it is answered there, the same call, sent again, is carried out.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from time import time

from handhold.core.errors import ApproverInvalid, NotApproved
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


class ApprovalService:
    """Asks the approver of a session, and remembers what was granted."""

    def __init__(self, session: Session, contents: ChangeContents) -> None:
        self._session = session
        self._contents = contents

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
        if answer := session.approvals.consume_approval(hash, session.name):
            if answer.answer not in APPROVING_ANSWERS:
                raise NotApproved(path, because, asked=True, rule=rule, of_command=of_command)
            self._grant(answer.answer, answer.allows, answer.patterns, answer.by)
            return CallDecision("approved", rule, answer.by)
        unanswered = partial(NotApproved, path, because, asked=False, rule=rule, of_command=of_command)
        # If the mode asks about every change, or about many deletions, no place needs to be shown first.
        apart = {each.place for each in findings if each.decision is PRIVILEGED or each.key not in ("", CHANGES_KEY)}
        diff = self._contents.diff_for_approval(request.files, apart)
        if diff is None:
            raise unanswered(unasked=DIFF_TOO_LONG)
        consent, by = None, ""
        approver = find_present_approver(session.approver)
        if approver is not None:
            invalid = ApproverInvalid(path, because, asked=False, rule=rule, of_command=of_command)
            question = _make_question(request, hash, because, rule, keys, diff)
            consent, by = ask_approver(approver, question, request.wait, invalid)
        if consent is None:
            pending = self._enqueue(request, hash, because, keys, diff)
            raise unanswered(approval=pending.id) if pending else unanswered(unasked=QUEUE_FULL)
        if consent not in APPROVING_ANSWERS:
            raise NotApproved(path, because, asked=True, rule=rule, of_command=of_command)
        self._grant(consent, keys, request.patterns, by)
        return CallDecision("approved", rule, f"{by} ({consent})")

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
        self, request: ApprovalRequest, hash: str, because: str, keys: tuple[str, ...], diff: tuple[str, int]
    ) -> PendingApproval | None:
        """Store the question; None if there is no room for it."""
        text, uncut = diff
        return self._session.approvals.enqueue(
            PendingApproval(
                id="",
                hash=hash,
                session=self._session.name,
                at=time(),
                tool=request.call.tool,
                because=because,
                command=request.command,
                diff=text,
                uncut=uncut,
                allows=keys,
                patterns=request.patterns,
            )
        )

    def _grant(self, consent: str, keys: Sequence[str], patterns: Sequence[str], by: str) -> None:
        """Store what the session need not ask about again."""
        for key in {"session": keys, "pattern": patterns}.get(consent, ()):
            self._session.approvals.grant(self._session.name, key, by=by)


def _make_question(
    request: ApprovalRequest, hash: str, because: str, rule: str, keys: Sequence[str], diff: tuple[str, int]
) -> Question:
    text, uncut = diff
    return Question(
        request.call.tool,
        tuple(request.files),
        text,
        because,
        request.command,
        id=hash,
        rule=rule,
        session=_describe_keys(keys),
        patterns=tuple(each.partition(" ")[2] for each in request.patterns),
        uncut=uncut,
    )


def _describe_keys(keys: Sequence[str]) -> str:
    """What these keys would allow, in words."""
    named = (
        "changes in the workspace that no rule covers" if key == CHANGES_KEY else _describe_key(key) for key in keys[:3]
    )
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(named) + more


def _describe_key(key: str) -> str:
    return "this very command" if key.startswith((f"{RUN_KEY}=", f"{RUN_DIRECTLY_KEY}=")) else key
