"""Plans a request: checks that its paths may be used, and computes what it would do. Nothing is changed."""

from handhold.core import tools
from handhold.core.errors import Denied, ReadOnly, ToolError
from handhold.core.plans import Answer, Changes, Command, Convert, JobAction, Restart, Search
from handhold.core.ports.conversion import Converter
from handhold.core.ports.journal import CallDecision
from handhold.core.ports.policy import Verb, Verdict
from handhold.core.ports.search import Searcher
from handhold.core.requests import Read, ReadMany, Request, SearchRequest
from handhold.core.results import GrepResult, Result
from handhold.core.tools.grep import redact_hits
from handhold.logs import log_swallowed
from handhold.pipeline.session import Session
from handhold.pipeline.workspace_policy import decide_names

READ_REQUESTS = Read | ReadMany | SearchRequest  # requests that change nothing


class Planner:
    def __init__(self, session: Session, searcher: Searcher, converter: Converter) -> None:
        self._session = session
        self.searcher = searcher
        self._converter = converter

    def plan(self, request: Request) -> tuple[Answer | Changes | Command | JobAction | Restart, CallDecision | None]:
        """The plan of a request. Searches and conversions are carried out here and answered."""
        allowed = self._authorize(request)
        view = self._session.view
        plan = tools.plan(request, view)
        if isinstance(plan, Search):
            scan = self.searcher.search(plan, visible=view.is_visible, hidden=view.hidden_paths)
            return Answer(self._redact(tools.conclude(plan, scan, view))), allowed
        if isinstance(plan, Convert):
            return tools.conclude_conversion(plan, self._converter.convert(plan), view), allowed
        if isinstance(plan, Command):
            for root in self._session.files.roots:
                self._session.files.stat(root)  # a root that does not answer fails here, not while the sandbox starts
        return plan, allowed

    def _authorize(self, request: Request) -> CallDecision | None:
        """Denied or ReadOnly if one of the paths may not be used in this way."""
        files, policy = self._session.files, self._session.policy
        verb = Verb.READ if isinstance(request, READ_REQUESTS) else Verb.CHANGE
        allowed = None
        for path in request.paths:
            names = self._session.view.reached_names(path)
            decision = decide_names(policy, verb, names)
            if verb is Verb.CHANGE and decision.verdict is Verdict.DENY and files.stat(path) is None:
                decision = decide_names(policy, Verb.CREATE, names)
            if decision.verdict is Verdict.DENY:
                raise Denied(path, decision.because, decision.rule, remedy=decision.remedy)
            if verb is Verb.CHANGE and not files.is_writable(path):
                raise ReadOnly(path)
            allowed = allowed or CallDecision("allowed", decision.rule)
        return allowed

    def _redact(self, result: Result) -> Result:
        """Search hits with secret values and tokens redacted."""
        if not isinstance(result, GrepResult) or not result.files:
            return result
        return redact_hits(result, self._session.redaction.make_redactor(searching=True), self._read_line)

    def _read_line(self, path: str, number: int, width: int) -> str:
        """The beginning of a line; nothing if the file is gone."""
        try:
            lines = self._session.view.page(path, number, 1, width).lines
        except ToolError:
            log_swallowed()
            return ""
        return lines[0].text if lines else ""
