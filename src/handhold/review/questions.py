"""A pending question as the page shows it: effects first, by risk; and what an answer must match."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256

from handhold.core.change_diff import is_omission
from handhold.core.ports.approvals import Consent, Effect, PendingApproval
from handhold.pipeline.approvals import PAGE_TIMEOUT_SECONDS, describe_keys
from handhold.pipeline.policy_review import NO_UNDO_RULE
from handhold.review.diff_view import DiffView, build_view, parse_unified
from handhold.review.display import format_duration, format_size, has_hidden, plural

MAX_DIFF_LINES = 200  # of one file in a question; the rest is on a page of its own
MAX_SHOWN_EFFECTS = 60
MAX_WORD_CHARS = 4_000
ANSWERS: dict[str, Consent] = {
    "once": Consent.ONCE,
    "session": Consent.SESSION,
    "like": Consent.PATTERN,
    "no": Consent.NO,
    "word": Consent.NO,
}
SIGNS = {"new": "+", "changed": "~", "deleted": "−"}
WORDS = {"new": "New", "changed": "Changed", "deleted": "Deleted"}


@dataclass(frozen=True)
class Chip:
    """A state in a sign and a word."""

    state: str  # "ok", "wait", "bad", "undone" or "" for none
    text: str
    sign: str = ""


NOT_ALL = Chip("wait", "not all of it is shown", "▲")
NOT_SHOWN = Chip("wait", "content not shown", "▲")


@dataclass(frozen=True)
class EffectView:
    number: int
    sign: str
    word: str
    path: str
    target: str
    chips: tuple[Chip, ...]
    diff: DiffView
    is_cut: bool
    size: str
    risk: int


@dataclass(frozen=True)
class QuestionView:
    """A question with everything that its card says."""

    pending: PendingApproval
    digest: str
    title: str
    short_title: str
    chips: tuple[Chip, ...]
    effects: tuple[EffectView, ...]
    left_out: int  # effects that are not in the list
    is_cut: bool  # of those in the list, not everything can be seen
    folded_lines: int
    added: int
    removed: int
    age: str
    time_left: str  # until the call ends without an answer; empty if no call waits
    is_waiting: bool
    needs_token: bool
    session_scope: str  # what "for this session" allows; empty if it is not offered
    patterns: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.pending.id


def compute_digest(pending: PendingApproval) -> str:
    """A hash of all that the page shows of a question."""
    shown = [
        pending.id,
        pending.hash,
        pending.session,
        pending.tool,
        pending.because,
        pending.rule,
        pending.command,
        pending.diff,
        pending.allows,
        pending.patterns,
        [asdict(each) for each in pending.effects],
        pending.effect_count,
    ]
    return sha256(json.dumps(shown).encode()).hexdigest()


def build_question(pending: PendingApproval, *, is_waiting: bool, commands_reach_page: bool) -> QuestionView:
    effects = list_effects(pending)
    effects.sort(key=lambda each: (-each.risk, each.number))
    title, short = _make_titles(pending)
    age = time.time() - pending.at
    left = PAGE_TIMEOUT_SECONDS - age
    hidden = sum(each.diff.hidden_chars + has_hidden(each.path) for each in effects) + has_hidden(pending.command)
    is_cut = any(each.is_cut for each in effects)
    chips = [*_sum_chips(effects)]
    if is_cut:
        chips.append(NOT_ALL)
    if hidden:
        chips.append(Chip("wait", f"{plural(hidden, 'hidden character')}, shown as code points", "▲"))
    if pending.effects:
        chips.append(Chip("ok", "undo restores everything", "✓"))
    elif pending.command:
        chips.append(Chip("", "not run yet"))
        if pending.rule.startswith(NO_UNDO_RULE):
            chips.append(Chip("bad", "cannot be undone", "▲"))
    if pending.confined_by:
        is_broker = pending.confined_by == "broker"
        chips.append(Chip("", "held by the broker, no overlay here" if is_broker else pending.confined_by))
    return QuestionView(
        pending=pending,
        digest=compute_digest(pending),
        title=title,
        short_title=short,
        chips=tuple(chips),
        effects=tuple(effects[:MAX_SHOWN_EFFECTS]),
        left_out=max(0, pending.effect_count - min(len(effects), MAX_SHOWN_EFFECTS)),
        is_cut=is_cut,
        folded_lines=sum(each.diff.total - each.diff.shown for each in effects),
        added=sum(each.diff.added for each in effects),
        removed=sum(each.diff.removed for each in effects),
        age=format_duration(max(1.0, age)),
        time_left=format_duration(max(0.0, left)) if is_waiting else "",
        is_waiting=is_waiting,
        needs_token=pending.shares_loopback or commands_reach_page,
        session_scope=describe_keys(pending.allows),
        patterns=tuple(each.partition(" ")[2] or each for each in pending.patterns),
    )


def list_effects(pending: PendingApproval, *, limit: int = MAX_DIFF_LINES) -> list[EffectView]:
    lines = pending.diff.split("\n")
    found: dict[str, EffectView] = {}  # by path: what needs approval in a new folder comes first, and again with it
    at = 0
    for number, effect in enumerate(pending.effects):
        text = "\n".join(lines[at : at + effect.diff_lines])
        at += effect.diff_lines
        if effect.path not in found:
            found[effect.path] = _view_effect(number, effect, text, limit=limit)
    return list(found.values())


def view_effect(pending: PendingApproval, number: int, *, start: int) -> DiffView | None:
    """One file of a question, from a line on."""
    if not 0 <= number < len(pending.effects):
        return None
    at = sum(effect.diff_lines for effect in pending.effects[:number])
    effect = pending.effects[number]
    hunks, notes = parse_unified("\n".join(pending.diff.split("\n")[at : at + effect.diff_lines]))
    return build_view(effect.path, hunks, start=start, notes=notes)


def _view_effect(number: int, effect: Effect, text: str, *, limit: int) -> EffectView:
    hunks, notes = parse_unified(text)
    if hunks or effect.kind == "folder":  # the chips say the rest
        notes = [note for note in notes if is_omission(note)]
    diff = build_view(effect.path, hunks, limit=limit, notes=notes)
    is_cut = diff.is_cut or not effect.is_shown
    sign, word = describe_effect_kind(effect)
    return EffectView(
        number=number,
        sign=sign,
        word=word,
        path=effect.path,
        target=effect.target,
        chips=(*iter_marks(effect), *((NOT_ALL if effect.is_shown else NOT_SHOWN,) if is_cut else ())),
        diff=diff,
        is_cut=is_cut,
        size=format_size(effect.size) if effect.kind == "file" or (effect.kind == "folder" and effect.size) else "",
        risk=rate_risk(effect),
    )


def describe_effect_kind(effect: Effect) -> tuple[str, str]:
    if effect.kind == "link" and effect.verb != "deleted":
        return "→", "Link"
    return SIGNS[effect.verb], WORDS[effect.verb]


def rate_risk(effect: Effect) -> int:
    """Leads out of the workspace, grants privileges, executable, deleted, changed, new."""
    mode, old_mode = effect.mode or 0, effect.old_mode or 0
    if mode & 0o6000 & ~old_mode:
        return 6
    if effect.leads_out or effect.kind == "other":
        return 5
    if effect.kind == "file" and mode & 0o111 & ~old_mode:
        return 4
    if effect.kind == "link":
        return 3
    return {"deleted": 2, "changed": 1, "new": 0}[effect.verb]


def iter_marks(effect: Effect) -> list[Chip]:
    found: list[Chip] = []
    mode, old_mode = effect.mode, effect.old_mode
    if effect.leads_out:
        found.append(Chip("wait", "leads out of the workspace", "▲"))
    if mode is not None and mode & 0o6000 & ~(old_mode or 0):
        found.append(Chip("bad", f"runs as its owner, mode {mode:04o}", "✕"))
    elif effect.kind == "file" and mode is not None and mode & 0o111 & ~(old_mode or 0):
        found.append(Chip("wait", f"executable, mode {mode:04o}", "▲"))
    elif mode is not None and old_mode is not None and mode != old_mode:
        found.append(Chip("", f"mode {old_mode:04o} → {mode:04o}"))
    if effect.kind == "folder":
        count = effect.entry_count - 1
        entries = "1 entry" if count == 1 else f"{count:,} entries"
        found.append(Chip("", f"folder, {entries} inside" if count else "folder"))
    if effect.kind == "other":
        found.append(Chip("bad", "pipe, socket or device", "✕"))
    return found


def _sum_chips(effects: Sequence[EffectView]) -> list[Chip]:
    """What to look at first, over all effects."""
    found: list[Chip] = []
    out = sum(any(chip.text.startswith("leads out") for chip in each.chips) for each in effects)
    runs = sum(any(chip.text.startswith("executable") for chip in each.chips) for each in effects)
    owners = sum(any(chip.text.startswith("runs as") for chip in each.chips) for each in effects)
    if owners:
        found.append(Chip("bad", f"{plural(owners, 'file')} that would run as another user", "✕"))
    if out:
        verb = "leads" if out == 1 else "lead"
        found.append(Chip("wait", f"{plural(out, 'link')} that {verb} out of the workspace", "▲"))
    if runs:
        found.append(Chip("wait", f"{plural(runs, 'new executable')}", "▲"))
    return found


def _make_titles(pending: PendingApproval) -> tuple[str, str]:
    """The heading of a question, and the same for a small place."""
    if not pending.effect_count:
        return ("Would run a command", "Run a command") if pending.command else ("Needs your approval", pending.tool)
    verbs = {effect.verb for effect in pending.effects}
    verb = "delete" if verbs == {"deleted"} else "create" if verbs == {"new"} else "change"
    folders = len({effect.path for effect in pending.effects if effect.kind == "folder"})
    files = max(0, pending.effect_count - folders)
    many = plural(files, "file") if files else plural(folders, "folder")
    return f"Would {verb} {many} in your workspace", f"{verb.capitalize()} {many}"
