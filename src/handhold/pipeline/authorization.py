"""Decides whether a command may run and a change may be committed: by the policy, and if it asks, by an approval."""

import json
from collections.abc import Callable, Mapping, Sequence

from handhold.core.errors import Denied
from handhold.core.plans import FileChange
from handhold.core.policy.repositories import NO_OTHER_NAMES
from handhold.core.ports.journal import Call, CallDecision
from handhold.core.ports.policy import CommandAnalysis, Decision, Verdict
from handhold.pipeline.allowed_hosts import make_host_key
from handhold.pipeline.approvals import ApprovalRequest, ApprovalService
from handhold.pipeline.approver import WaitFor, find_present_approver
from handhold.pipeline.policy_review import (
    RUN_DIRECTLY_KEY,
    RUN_KEY,
    PolicyFinding,
    PolicyReviewer,
    format_rule,
)
from handhold.pipeline.session import Session
from handhold.pipeline.workspace_policy import severity


class Authorizer:
    """Decides about the commands and changes of a session."""

    def __init__(self, session: Session, reviewer: PolicyReviewer, approvals: ApprovalService) -> None:
        self._session = session
        self._reviewer = reviewer
        self._approvals = approvals

    def authorize_command(
        self,
        call: Call,
        command: str,
        analysis: CommandAnalysis,
        folder: str,
        *,
        wait: WaitFor,
        directly: bool = False,
        no_undo: str = "",
        seq: int = 0,
    ) -> CallDecision:
        """Called before a command runs. Denied or NotApproved if it must not. `seq` is its number in the journal.

        `directly`, `no_undo`: see `PolicyReviewer.review_command`. A grant for the sandbox is not valid for a command
        that would run directly.
        """
        how = RUN_DIRECTLY_KEY if directly else RUN_KEY
        key = f"{how}={json.dumps([folder, command])}"
        findings = self._reviewer.review_command(analysis, key, directly=directly, no_undo=no_undo)
        patterns = tuple(f"{how} {each}" for each in analysis.patterns)
        return self._decide(ApprovalRequest(call, (), command, patterns, str, wait, folder, seq), findings)

    def authorize_hosts(
        self, call: Call, command: str, hosts: Sequence[str], folder: str, *, wait: WaitFor, seq: int = 0
    ) -> CallDecision:
        """Called after a command was refused `hosts` (each with its port) and failed. NotApproved if it stays so."""
        because = (
            f"it could not reach {', '.join(hosts)}. If that is allowed, it runs again,"
            " and can send there what it can read, .env included"
        )
        closed = Decision(Verdict.ASK, because, "network", "built in")
        findings = [PolicyFinding("", closed, make_host_key(host)) for host in hosts]
        return self._approvals.approve(ApprovalRequest(call, (), command, (), str, wait, folder, seq), findings)

    def can_ask(self) -> bool:
        """Whether somebody would answer a question now."""
        session = self._session
        return find_present_approver(session.approver) is not None or session.approvals.is_reviewed()

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
        refused: Sequence[str] = (),
        reached: Mapping[str, Sequence[str]] = NO_OTHER_NAMES,
        seq: int = 0,
    ) -> CallDecision:
        """Called before a change set is committed. Denied or NotApproved if it must not be.

        `reached` has the names by which the call has reached places.
        """
        with self._session.workspace_policy.links.held():
            findings = self._reviewer.review_changes(
                files, by_command=bool(command), within=within, privileged=privileged, refused=refused, reached=reached
            )
        return self._decide(ApprovalRequest(call, files, command, (), format_path, wait, seq=seq), findings)

    def authorize_reversal(
        self, call: Call, files: Sequence[FileChange], within: Sequence[FileChange], *, wait: WaitFor
    ) -> CallDecision:
        """Whether today's policy allows this undo or redo; `within` are the entries of folders that are moved whole."""
        with self._session.workspace_policy.links.held():
            findings = self._reviewer.review_reversal(files, within)
        decision = self._decide(ApprovalRequest(call, files, "", (), str, wait), findings)
        return (
            decision
            if decision.verdict == "approved"
            else CallDecision("allowed", "requested by the user or the application")
        )

    def _decide(self, request: ApprovalRequest, findings: Sequence[PolicyFinding]) -> CallDecision:
        worst = max(findings, key=lambda each: severity(each.decision), default=None)
        if worst is None or worst.decision.verdict is Verdict.ALLOW:
            return CallDecision("allowed", format_rule(worst.decision) if worst else "")
        if worst.decision.verdict is Verdict.DENY:
            decision = worst.decision
            path = request.format_path(worst.place) if worst.place else request.command
            raise Denied(path, decision.because, format_rule(decision), not worst.place, decision.remedy)
        return self._approvals.approve(request, [each for each in findings if each.decision.verdict is Verdict.ASK])
