"""A user's program, which must pass pyright and mypy in strict mode against the installed package."""

import asyncio
import logging
from collections.abc import Sequence

from handhold import (
    Approver,
    Block,
    Consent,
    Decision,
    JournalEntry,
    OutputChunk,
    Policy,
    Question,
    Reply,
    Rule,
    RunPaused,
    Target,
    Toolbox,
    ToolboxClosed,
    ToolError,
    ToolSpec,
    Verb,
    Verdict,
    __version__,
)
from handhold.core.ports.policy import CommandAnalysis
from handhold.core.results import EditResult, RunResult, TextResult

logging.getLogger("handhold").setLevel(logging.DEBUG)


def approve_tests(question: Question) -> bool:
    return all("tests/" in change.path for change in question.files)


def approve_in_words(question: Question) -> Consent | None:
    return Consent.SESSION if question.session else None


async def approve_later(question: Question) -> Consent:
    await asyncio.sleep(0)
    return Consent.ONCE if "README" in question.diff else Consent.NO


class PausingApprover:
    name = "the review queue"
    present = True

    def __call__(self, question: Question, /) -> bool:
        raise RunPaused(TimeoutError(question.because))


class Frozen:
    """A policy of one's own: nothing in generated/ is changed."""

    @property
    def name(self) -> str:
        return "frozen"

    @property
    def allows_hosts(self) -> bool:
        return False

    def decide(self, verb: Verb, target: str) -> Decision:
        if verb is not Verb.READ and "/generated/" in target:
            return Decision(Verdict.DENY, "it is generated", remedy="change the template instead")
        return Decision(Verdict.ALLOW, "free")

    def decide_command(self, analysis: CommandAnalysis) -> Decision:
        return Decision(Verdict.ASK if analysis.connects else Verdict.ALLOW, analysis.because)

    def has_rule_for(self, place: str) -> bool:
        return "/generated/" in place


NO_SECRETS = Rule(
    "no secrets",
    Verdict.DENY,
    [Verb.READ],
    "secrets stay out of the conversation",
    covers=["deploy/prod.env"],
    does_not_cover=["environment.md"],
    paths=["*.env"],
)
APPROVERS: Sequence[Approver] = (approve_tests, approve_in_words, approve_later, PausingApprover())
POLICY: Policy = Frozen()


def show(reply: Reply) -> str:
    if not reply.ok:
        return f"{reply.code} ({reply.error_source}): {reply.text}"
    match reply.result:
        case EditResult(steps=steps, diff=diff):
            return f"{sum(step.match_count for step in steps)} places\n{diff}"
        case TextResult() as page:
            return "\n".join(line.text for line in page.lines)
        case RunResult(exit_status=status):
            return f"exit status {status.code}"
        case None:
            return "a replay" if reply.replayed else ""
        case _:
            return reply.ui_extra or reply.text


def edit(root: str, state: str) -> list[str]:
    shown: list[str] = []
    with Toolbox.open(root, state=state, rules=[NO_SECRETS], approver=approve_tests, policy="ask") as box:
        specs: tuple[ToolSpec, ...] = box.specs
        arguments = {"path": "tests/a.py", "old_string": "1", "new_string": "2"}
        shown.append(show(box.call("read_file", {"path": "tests/a.py"})))
        shown.append(show(box.call("edit_file", arguments, call_id="one", turn="first")))
        entry: JournalEntry = box.log(last=1)[0]
        shown.append(box.diff(entry))
        shown.append(box.undo(Target.call("one"), preview=True).text)
        for target in (Target.turn("first"), Target.call(entry.seq, turn="first"), Target.session(), entry, None):
            undone, redone = box.undo(target), box.redo(target)
            assert undone.ok, undone.text
            assert redone.ok, redone.text
        decision: Decision = box.decide(Verb.CHANGE, "tests/a.py")
        shown.append(f"{decision.verdict}: {decision.because} {len(specs)} {__version__}")
        blocks: tuple[Block, ...] = box.call("read_file", {"path": "tests/a.py"}).blocks
        shown += [block.text for block in blocks]
    try:
        box.call("read_file", {"path": "tests/a.py"})
    except ToolboxClosed as closed:
        shown.append(type(closed).__name__)
    return shown


async def run(root: str, state: str) -> list[str]:
    shown: list[str] = []
    async with Toolbox.open(root, state=state, policy=POLICY, approver=approve_later) as box:
        async with box.stream("write_file", {"path": "README.md", "content": "# It\n"}) as events:
            async for event in events:
                shown.append(event.text if isinstance(event, OutputChunk) else show(event))
        shown.append(show(await box.acall("write_file", {"path": "generated/a.py", "content": ""})))
        for approver in APPROVERS:
            box.approver = approver
    return shown


def main(root: str, state: str) -> None:
    try:
        print(*edit(root, state), sep="\n")
        print(*asyncio.run(run(root, state)), sep="\n")
        print(Toolbox.in_memory({"a.py": "x\n"}, dialect="claude").specs[0].name)
    except ToolError as error:
        print(error.code, error.error_source, error.facts())


if __name__ == "__main__":
    from sys import argv

    main(argv[1], argv[2])
