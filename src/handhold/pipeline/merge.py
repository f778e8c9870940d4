"""Merges of forks: decided by the policy, committed and recorded like the changes of any call."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from handhold.core.errors import Denied, NotApproved, RollbackIncomplete, ToolError
from handhold.core.plans import Effects
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.pipeline.authorization import Authorizer
from handhold.pipeline.cancellation import CancelToken
from handhold.pipeline.policy_review import PolicyReviewer
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import commit

TOOL_NAME = "merge"  # of a merge in the journal


class MergeCommitter:
    """Commits what a fork changed, as one change set of a session."""

    def __init__(self, session: Session, authorizer: Authorizer, reviewer: PolicyReviewer) -> None:
        self._session = session
        self._authorizer = authorizer
        self._reviewer = reviewer

    def commit(self, arguments: Mapping[str, Any], effects: Effects, prepare: Callable[[], None]) -> tuple[str, int]:
        """Commit the changes; returns the session and the number of the call in the journal.

        `arguments` are recorded with the call. `prepare` is called once the changes are allowed, before any is made.
        Denied or NotApproved if the policy does not allow a change.
        """
        session = self._session
        call = Call(session.name, "", "", TOOL_NAME, json.dumps(arguments), session.dialect.name)
        seq = session.journal.begin(call)
        try:
            decision = self._authorizer.authorize_changes(
                call,
                effects.files,
                session.format_path,
                wait=CancelToken().wait_for,
                command=f"handhold fork merge {arguments['fork']}",
                within=self._reviewer.paths_to_ask_about(effects.files, effects.protected),
                privileged=effects.privileged,
                seq=seq,
            )
            session.secret_files.learn_from(effects.files)
            prepare()
            with session.journal.exclusive():
                commit(
                    session.files,
                    session.journal,
                    seq,
                    effects.files,
                    lambda _: Outcome("success", None, 0.0, None),
                    decision=decision,
                    times=self._reviewer.allowed_times(effects),
                    recording=session.recording,
                    withheld=session.find_hidden_hashes(effects.files),
                )
        except RollbackIncomplete:
            raise
        except ToolError as error:
            refused = CallDecision("refused", error.rule) if isinstance(error, Denied | NotApproved) else None
            session.journal.record_outcome(
                seq, Outcome("error", error.code, 0.0, None), durable=False, decision=refused
            )
            raise
        session.confirm_change()
        return session.name, seq

    def is_undone(self, merge: tuple[str, int]) -> bool:
        session, seq = merge
        return bool(self._session.journal.find_changes(session, undone=True, call=seq, last=1))
