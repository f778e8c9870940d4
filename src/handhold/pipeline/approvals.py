"""Whether a change counts and a command runs: by the policy, by what a person allowed before, else by asking.

An answer is for what was asked and nothing else: for this call, with every file as it was and as it would be. What is
allowed for a session, or for the like of a command, is stored under a key, and asked about no more. Where nobody can
be asked the question waits in the store; whoever answers it there, the same call, sent again, goes ahead.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from time import time

from handhold.core.errors import ApproverInvalid, Denied, NotApproved
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
from handhold.core.ports.policy import CommandAnalysis, PolicyDecision, Verb, Verdict
from handhold.pipeline.approver import APPROVING_ANSWERS, WaitFor, ask_approver, find_present_approver
from handhold.pipeline.change_contents import ChangeContents
from handhold.pipeline.review import (
    CHANGES_KEY,
    PRIVILEGED,
    PolicyFinding,
    PolicyReviewer,
    describe_reasons,
    severity,
)
from handhold.pipeline.session import Session

QUEUE_FULL = (
    "too many questions, or too long ones, wait for an answer already."
    " A person can answer them with `handhold approve`; after that, send it again"
)
DIFF_TOO_LONG = "what needs approval is too long to be shown. Do it in smaller steps"
RUN_KEY, RUN_DIRECTLY_KEY = "run", "run-directly"  # how the keys of commands begin


@dataclass(frozen=True)
class ApprovalRequest:
    """What an approval would be for."""

    call: Call
    files: Sequence[FileChange]
    command: str
    patterns: tuple[str, ...]
    format_path: Callable[[str], str]
    wait: WaitFor
    folder: str = ""  # where the command would run


class ApprovalService:
    """The policy of a session, with the person behind it, if there is one."""

    def __init__(self, session: Session, reviewer: PolicyReviewer, contents: ChangeContents) -> None:
        self._session = session
        self._reviewer = reviewer
        self._contents = contents

    # --- what is decided

    def authorize_command(
        self,
        call: Call,
        command: str,
        analysis: CommandAnalysis,
        folder: str,
        *,
        wait: WaitFor,
        directly: Sequence[str] = (),
    ) -> CallDecision:
        """Before a command runs. Denied or NotApproved if it must not.

        `directly` are the roots of a command that would run on the workspace itself, where nothing is looked at.
        What was allowed on an overlay is not allowed there: it could not be undone.
        """
        policy = self._session.policy
        how = RUN_DIRECTLY_KEY if directly else RUN_KEY
        key = f"{how}={json.dumps([folder, command])}"
        findings = [PolicyFinding("", policy.decide_command(analysis), key)]
        findings += [PolicyFinding(root, policy.decide(Verb.CHANGE, root), key) for root in directly]
        patterns = tuple(f"{how} {each}" for each in analysis.patterns)
        return self._decide(ApprovalRequest(call, (), command, patterns, str, wait, folder), findings)

    def authorize_changes(
        self,
        call: Call,
        files: Sequence[FileChange],
        format_path: Callable[[str], str],
        *,
        wait: WaitFor,
        command: str = "",
        within: Sequence[str] = (),
        privileged: Sequence[str] = (),
    ) -> CallDecision:
        """Before a change set is committed. Denied or NotApproved if it must not be."""
        findings = self._reviewer.review_changes(files, by_command=bool(command), within=within, privileged=privileged)
        return self._decide(ApprovalRequest(call, files, command, (), format_path, wait), findings)

    def authorize_reversal(
        self, call: Call, files: Sequence[FileChange], within: Sequence[FileChange], *, wait: WaitFor
    ) -> CallDecision:
        """Whether undo or redo may do this today; `within` are the entries of folders that come or go whole."""
        findings = self._reviewer.review_reversal(files, within)
        decision = self._decide(ApprovalRequest(call, files, "", (), str, wait), findings)
        return decision if decision.verdict == "approved" else CallDecision("allowed", "the host asked for it")

    # --- how

    def _decide(self, request: ApprovalRequest, findings: Sequence[PolicyFinding]) -> CallDecision:
        worst = max(findings, key=lambda each: severity(each.decision), default=None)
        if worst is None or worst.decision.verdict is Verdict.ALLOW:
            return CallDecision("allowed", _format_rule(worst.decision) if worst else "")
        path = request.format_path(worst.place) if worst.place else request.command
        if worst.decision.verdict is Verdict.DENY:
            decision = worst.decision
            raise Denied(path, decision.because, _format_rule(decision), not worst.place, decision.remedy)
        granted = self._session.approvals.list_grants(self._session.name)
        findings = [each for each in findings if each.decision.verdict is Verdict.ASK]
        keys = {each.key for each in findings}
        for sufficient in (keys, set(request.patterns)):
            if sufficient and sufficient <= granted.keys():
                by = ", ".join(sorted({granted[key] for key in sufficient}))
                return CallDecision("approved", _format_rule(worst.decision), f"{by} (session)")
        return self._ask(request, [each for each in findings if each.key not in granted])

    def _ask(self, request: ApprovalRequest, findings: Sequence[PolicyFinding]) -> CallDecision:
        session, first = self._session, findings[0]
        path = request.format_path(first.place) if first.place else request.command
        because, rule = describe_reasons(findings), _format_rule(first.decision)
        of_command = not request.files
        keys = tuple(dict.fromkeys(each.key for each in findings)) if all(each.key for each in findings) else ()
        hash = self._hash(request, findings)
        if answer := session.approvals.consume_approval(hash, session.name):
            if answer.answer not in APPROVING_ANSWERS:
                raise NotApproved(path, because, asked=True, rule=rule, of_command=of_command)
            self._grant(answer.answer, answer.allows, answer.patterns, answer.by)
            return CallDecision("approved", rule, answer.by)
        unanswered = partial(NotApproved, path, because, asked=False, rule=rule, of_command=of_command)
        # Where the mode asks about every change, or many files would go, no place is set apart from the others.
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
        """Of all that an answer is for: the request, where it is carried out, what is asked about, every change."""
        call = request.call
        changes = [
            [each.path, self._hash_side(each.before, each.path), self._hash_side(each.after, each.path), each.mode]
            for each in request.files
        ]
        reasons = [[each.place, each.key, each.decision.because, each.decision.rule] for each in findings]
        asked = [call.session, call.tool, call.arguments, request.folder, request.command, reasons, changes]
        return digest(json.dumps(asked).encode())

    def _hash_side(self, content: Content | None, path: str) -> Sequence[str] | None:
        """One side of a change, by all that it is. What is no longer there is like nothing else: no answer fits it."""
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
        """The question waits in the store; None if there is no room for it."""
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
        """What the session need not ask about again."""
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


def _format_rule(decision: PolicyDecision) -> str:
    """The deciding rule, with the place where it is written."""
    return f"{decision.rule} ({decision.source})" if decision.source else decision.rule


def _describe_keys(keys: Sequence[str]) -> str:
    """What these keys would allow from now on."""
    named = (
        "changes in the workspace that no rule is about" if key == CHANGES_KEY else _describe_key(key)
        for key in keys[:3]
    )
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return ", ".join(named) + more


def _describe_key(key: str) -> str:
    return "this very command" if key.startswith((f"{RUN_KEY}=", f"{RUN_DIRECTLY_KEY}=")) else key
