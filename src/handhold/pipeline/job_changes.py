"""What a background command changed, recorded when it has ended: from then on it can be undone."""

import json
from collections.abc import Callable

from handhold.core.errors import StaleBeforeCommit, ToolError
from handhold.core.plans import Conflict, Effects, FileChange
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.core.requests import Run
from handhold.pipeline.policy_review import PolicyReviewer
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import commit

DECISION = CallDecision("allowed", "each change was checked before it was made")


class JobChanges:
    """Records the changes of background commands of a session. Thread-safe."""

    def __init__(self, session: Session, reviewer: PolicyReviewer) -> None:
        self._session = session
        self._reviewer = reviewer

    def commit(
        self, started: Call, request: Run, effects: Effects, set_aside: Callable[[FileChange], Conflict]
    ) -> Effects:
        """What was recorded, as a call of its own in the turn of the one that started the command. What somebody else
        changed meanwhile stays, and is a conflict."""
        session = self._session
        if not effects.files:
            return effects
        arguments = json.dumps({"command": request.command, "background": True})
        seq = session.journal.begin(Call(started.session, started.turn, "", started.tool, arguments, started.dialect))
        session.secret_files.learn_from(effects.files)
        try:
            with session.journal.exclusive():
                while effects.files:
                    try:
                        commit(
                            session.files,
                            session.journal,
                            seq,
                            effects.files,
                            lambda _: Outcome("success", None, 0.0, None),
                            decision=DECISION,
                            times=self._reviewer.allowed_times(effects),
                            recording=session.recording,
                        )
                        break
                    except StaleBeforeCommit as stale:
                        late = [set_aside(change) for change in effects.files if change.path in stale.paths]
                        if not late:
                            raise
                        effects = effects.exclude(late)
        except ToolError as error:
            session.journal.record_outcome(seq, Outcome("error", error.code, 0.0, None), durable=False)
            raise
        return effects
