"""Findings about a change: the policy's decisions, and built-in protection of names, git directories and hard links.

No person is asked here: `authorization.py` decides what to do with the findings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from handhold.core.plans import Effects, FileChange, FolderMtime, InlineContent, StagedContent
from handhold.core.policy.repositories import NO_OTHER_NAMES, Repositories
from handhold.core.ports.policy import CommandAnalysis, Decision, Policy, Verb, Verdict
from handhold.core.tools import run
from handhold.pipeline.change_contents import ChangeContents
from handhold.pipeline.session import Session
from handhold.pipeline.workspace_policy import decide_names, severity

RUN_KEY, RUN_DIRECTLY_KEY = "run", "run-directly"  # how the keys of commands begin
NO_UNDO_RULE = "no undo"  # asks about commands whose changes cannot be undone
CHANGES_KEY = "changes"  # the key of changes in the workspace that no rule or protected name covers

OUTSIDE_LINK = Decision(
    Verdict.ASK, "it is hard-linked outside the workspace and would change there too", "hard links", "built in"
)
PRIVILEGED = Decision(
    Verdict.ASK,
    "it would be a set-user-id or set-group-id file, a file with capabilities, or a device",
    "privileged files",
    "built in",
)


@dataclass(frozen=True)
class PolicyFinding:
    """A decision about one place, and the key under which a session can allow it; without a key it cannot."""

    place: str
    decision: Decision
    key: str = ""


class PolicyReviewer:
    """The policy of a session, applied to changes."""

    def __init__(self, session: Session, contents: ChangeContents) -> None:
        self._session = session
        self._contents = contents
        self._protection = session.workspace_policy.protection

    @property
    def _command_policy(self) -> Policy:
        return self._session.workspace_policy.for_commands

    def _repositories(self, files: Sequence[FileChange]) -> Repositories:
        """The git directories among the changes of a call."""
        return Repositories(self._session.files, self._contents, self._protection, files)

    # --- findings about a command before it runs

    def review_command(
        self, analysis: CommandAnalysis, key: str, *, directly: bool, no_undo: str
    ) -> list[PolicyFinding]:
        """`directly`: it would run on the workspace itself, without a review of its changes, so it counts as a change.

        `no_undo` is why what it changes could not be undone; empty if it can. Such a command needs approval, whatever
        its text says, except in the mode `open`, in which a person has agreed to all commands.
        """
        policy, roots = self._session.policy, self._session.files.roots if directly else ()
        findings = [PolicyFinding("", policy.decide_command(analysis), key)]
        findings += [PolicyFinding(root, policy.decide(Verb.CHANGE, root), key) for root in roots]
        if no_undo and policy.name != "open":
            decision = Decision(Verdict.ASK, f"this cannot be undone: {no_undo}", NO_UNDO_RULE, "built in")
            findings.insert(0, PolicyFinding("", decision, key))
        return findings

    # --- findings about changes

    def review_changes(
        self,
        files: Sequence[FileChange],
        *,
        by_command: bool,
        within: Sequence[str],
        privileged: Sequence[str],
        refused: Sequence[str] = (),
        reached: Mapping[str, Sequence[str]] = NO_OTHER_NAMES,
    ) -> list[PolicyFinding]:
        """`within` are places in folders that are created or deleted whole, which a rule or protected name may cover.

        `refused` are places that the command would have changed, if a rule did not deny it. `reached` has the names
        by which the call has reached a place.

        `privileged` are files that would grant privileges to any user who runs them: they need approval in every mode.
        """
        repositories = replace(self._repositories(files), reached=reached)
        policy = self._command_policy if by_command else self._session.policy
        findings = [self._find(policy, run.classify_change(change), change.path, repositories) for change in files]
        findings += [
            PolicyFinding(each.path, OUTSIDE_LINK, f"{Verb.CHANGE} {each.path}")
            for each in files
            if isinstance(each.after, InlineContent)
            and each.before is not None
            and self._session.files.has_outside_link(each.path)
        ]
        findings += [
            self._find(policy, verb, place, repositories) for place, verb in run.classify_places(within, files)
        ]
        findings += [PolicyFinding(place, PRIVILEGED) for place in privileged]
        findings += [found for place in refused if (found := self.find_denial(place))]
        return findings

    def review_reversal(self, files: Sequence[FileChange], within: Sequence[FileChange]) -> list[PolicyFinding]:
        """For undo and redo; `within` are the entries of folders that are created or deleted whole.

        The caller's request is enough if only the mode would ask. A rule, a protected name or a file that would run as
        another user still needs approval.
        """
        every = (*files, *within)
        repositories = self._repositories(every)
        policy = self._command_policy
        # Programs cannot follow a deleted file: only the policy decides, not the protected names.
        deleted = [each.path for each in every if each.after is None]
        findings = [make_finding(Verb.DELETE, place, policy.decide(Verb.DELETE, place)) for place in deleted]
        findings += [
            self._find(policy, run.classify_change(each), each.path, repositories)
            for each in every
            if each.after is not None
        ]
        findings = [each for each in findings if each.decision.verdict is not Verdict.ASK or each.key != CHANGES_KEY]
        return findings + [PolicyFinding(each.path, PRIVILEGED) for each in every if _gains_set_id(each)]

    def _find(self, policy: Policy, verb: Verb, place: str, repositories: Repositories) -> PolicyFinding:
        return make_finding(verb, place, self.decide(verb, place, repositories, policy))

    def decide(
        self, verb: Verb, place: str, repositories: Repositories | None = None, policy: Policy | None = None
    ) -> Decision:
        """The policy's decision, except that files which other programs follow need approval in every mode.

        The default `policy` is the one for file tools.

        With `repositories`, a change in a git directory is judged by its content; otherwise by its name.
        """
        names = repositories.reached.get(place) if repositories else None
        decision = decide_names(policy or self._session.policy, verb, names or (place,))
        if decision.verdict is not Verdict.DENY and (because := self._protected_because(place, repositories)):
            return Decision(Verdict.ASK, f"it is protected: {because}", "protected names", "built in")
        return decision

    def decide_path(self, verb: Verb, path: str) -> Decision:
        """The strictest decision about any of a file's names."""
        names = list(self._session.view.iter_names(path))
        if verb is Verb.READ:
            return decide_names(self._session.policy, verb, names)
        names += self._session.files.list_hard_links(path)
        return max((self.decide(verb, name) for name in names), key=severity)

    def _protected_because(self, place: str, repositories: Repositories | None) -> str:
        if repositories is None:
            return self._protection.find_reason(place)
        reasons = (repositories.judge(place, name) for name in repositories.find_names(place))
        return next((because for because in reasons if because), "")

    def find_denial(self, place: str) -> PolicyFinding | None:
        """A rule that denies every change of a place to commands."""
        policy = self._command_policy
        if not policy.has_rule_for(place):
            return None
        findings = [make_finding(verb, place, policy.decide(verb, place)) for verb in run.CHANGE_VERBS]
        is_denied = all(each.decision.verdict is Verdict.DENY and each.key != CHANGES_KEY for each in findings)
        return findings[0] if is_denied else None

    # --- questions about places

    def paths_to_ask_about(self, files: Sequence[FileChange], within: Sequence[str]) -> tuple[str, ...]:
        """The places in `within` whose change needs approval or is denied."""
        repositories = self._repositories(files)
        decided = (
            (place, self.decide(verb, place, repositories, self._command_policy))
            for place, verb in run.classify_places(within, files)
        )
        with self._session.workspace_policy.links.held():
            return tuple(dict.fromkeys(place for place, decision in decided if decision.verdict is not Verdict.ALLOW))

    def allowed_times(self, effects: Effects) -> tuple[FolderMtime, ...]:
        """The folder times that a command may set: of folders that contain its changes, and of others it may change.

        Times that would need approval are dropped without asking.
        """
        around = {change.path.rpartition("/")[0] for change in effects.files}
        policy = self._command_policy
        with self._session.workspace_policy.links.held():
            return tuple(
                time
                for time in effects.folder_mtimes
                if time.path in around or self.decide(Verb.CHANGE, time.path, policy=policy).verdict is Verdict.ALLOW
            )

    def is_set_apart(self, place: str, root: str) -> bool:
        """Whether a protected name or a stricter rule covers a place, so that it is reviewed apart from its folder."""
        if self._protection.covers(place) or place.endswith("/HEAD"):  # the folder may be a repository
            return True
        return self._session.workspace_policy.is_stricter(place, root)

    def is_locked(self, change: FileChange) -> bool:
        """Whether a command that works directly on the workspace may not make a change, as nobody can be asked.

        This includes turning a folder into a git directory, and any file that git obeys in one.
        """
        if self._session.workspace_policy.is_locked(change.path):
            return True
        repositories = self._repositories([change])
        return any(repositories.find_objection(change.path, name) for name in repositories.find_names(change.path))


def make_finding(verb: Verb, place: str, decision: Decision) -> PolicyFinding:
    by_mode = decision.rule.startswith("mode ")
    return PolicyFinding(place, decision, CHANGES_KEY if by_mode else f"{verb} {place}")


def format_rule(decision: Decision) -> str:
    """The deciding rule, with the file that contains it."""
    return f"{decision.rule} ({decision.source})" if decision.source else decision.rule


def describe_reasons(findings: Sequence[PolicyFinding]) -> str:
    return "; ".join(dict.fromkeys(each.decision.because for each in findings))


def _gains_set_id(change: FileChange) -> bool:
    def bits(side: object) -> int:
        return side.mode & 0o6000 if isinstance(side, StagedContent) and side.kind == "file" else 0

    made = (change.mode or 0) & 0o6000 if change.before is None and change.after is not None else 0
    return bool((bits(change.after) | made) & ~bits(change.before))
