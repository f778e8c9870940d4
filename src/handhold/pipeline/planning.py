"""From a request to a plan: whether its paths may be touched at all, and what it would do. Nothing is changed."""

from handhold.core import tools
from handhold.core.errors import Denied, ReadOnly
from handhold.core.plans import Answer, Changes, Command, Convert, Job, Restart, Search
from handhold.core.ports import Converter, Decision, Searcher, Verb, Verdict
from handhold.core.requests import Below, Read, ReadMany, Request
from handhold.core.results import Grepped, Result
from handhold.core.tools.grep import redact_hits
from handhold.pipeline.session import Session

READ_REQUESTS = Read | ReadMany | Below  # requests that change nothing


class Planner:
    def __init__(self, session: Session, searcher: Searcher, converter: Converter) -> None:
        self._session = session
        self.searcher = searcher
        self._converter = converter

    def plan(self, request: Request) -> tuple[Answer | Changes | Command | Job | Restart, Decision | None]:
        """All that a call reads happens here: what was to be searched for or converted is an answer already."""
        allowed = self._authorize(request)
        view = self._session.view
        plan = tools.plan(request, view)
        if isinstance(plan, Search):
            scan = self.searcher.search(plan, visible=view.visible, hiding=view.hiding)
            return Answer(self._redact(tools.conclude(plan, scan, view))), allowed
        if isinstance(plan, Convert):
            return tools.converted(plan, self._converter.convert(plan), view), allowed
        if isinstance(plan, Command):
            for root in self._session.files.roots:
                self._session.files.look(root)  # a root that does not answer fails here, not while its sandbox is made
        return plan, allowed

    def _authorize(self, request: Request) -> Decision | None:
        """Denied or ReadOnly if one of the paths may not be touched in this way, whatever the change is."""
        files, policy = self._session.files, self._session.policy
        verb = Verb.READ if isinstance(request, READ_REQUESTS) else Verb.CHANGE
        allowed = None
        for path in request.paths:
            place = files.place(path)
            judgement = policy.may(verb, place)
            if verb is Verb.CHANGE and judgement.verdict is Verdict.DENY and files.look(path) is None:
                judgement = policy.may(Verb.CREATE, place)
            if judgement.verdict is Verdict.DENY:
                raise Denied(path, judgement.because, judgement.rule, remedy=judgement.remedy)
            if verb is Verb.CHANGE and not files.writable(path):
                raise ReadOnly(path)
            allowed = allowed or Decision("allowed", judgement.rule)
        return allowed

    def _redact(self, result: Result) -> Result:
        """Search hits without the values of secret files, should another file hold one."""
        if not isinstance(result, Grepped) or not result.files:
            return result
        redaction = self._session.secret_files.redaction(searching=True)
        return redact_hits(result, redaction.redact) if redaction else result
