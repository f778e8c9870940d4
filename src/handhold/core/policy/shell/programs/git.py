"""git: by its subcommand, and by the options and settings with which it runs programs."""

import re
from collections.abc import Sequence
from dataclasses import replace

from handhold.core.policy.shell.call import Call, Options, sure
from handhold.core.policy.shell.words import HOLE, Word, listed

LOOKING = listed("""
    status log diff show blame annotate grep ls-files ls-tree rev-parse rev-list describe cat-file shortlog name-rev
    merge-base for-each-ref show-ref var help version count-objects check-ignore check-attr whatchanged diff-tree
    diff-index diff-files cherry range-diff fsck show-branch merge-tree patch-id verify-pack stripspace
    check-ref-format fmt-merge-msg get-tar-commit-id column
""")
CHANGING = listed("""
    add commit checkout switch restore reset merge rebase cherry-pick revert stash branch tag rm mv clean apply am
    init worktree notes gc prune sparse-checkout update-index read-tree write-tree commit-tree hash-object
    update-ref symbolic-ref reflog replace rerere pack-refs repack mktree mktag format-patch archive bundle stage
    pack-objects unpack-objects index-pack checkout-index mailsplit mailinfo merge-file maintenance cherry bisect
    submodule config remote diff interpret-trailers clone
""")
NETWORK = listed("push pull fetch clone ls-remote send-email svn p4 lfs fetch-pack send-pack request-pull daemon")
CODE = listed("""
    filter-branch difftool mergetool instaweb gui citool gitk web--browse credential hook cvsserver shell
    http-backend imap-send upload-pack receive-pack remote-ext remote-fd credential-store credential-cache
""")
RUNS = (
    *("--ext-diff", "--textconv", "--open-files-in-pager", "-O", "--upload-pack", "--receive-pack", "--exec"),
    *("--exec-path", "--config-env", "--template", "--separate-git-dir", "--show-signature", "--gpg-sign", "-S"),
)
_ONLY = {
    "-O": ("grep",),
    "-S": ("commit", "merge", "rebase", "cherry-pick", "revert"),
    "--exec": ("push", "fetch", "ls-remote", "clone", "archive", "pull"),
    "--gpg-sign": ("commit", "merge", "rebase", "cherry-pick", "revert"),
}
"""Where these mean what they say here; elsewhere they are something harmless."""
_GLOBAL_TAKES = frozenset(("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env"))
_TEXTS = (
    *("-m", "--message", "--grep", "--author", "--committer", "-G", "-S", "--format", "--pretty", "--date", "--since"),
    *("--until", "--after", "--before", "-e", "-L", "--trailer", "--subject-prefix", "-n"),
)
_TAKES = {
    "commit": ("-m", "-F", "-C", "-c", "-t"),
    "tag": ("-m", "-F", "-u"),
    "notes": ("-m", "-F"),
    "stash": ("-m",),
    "merge": ("-m", "-F", "-s", "-X"),
    "log": ("-G", "-S", "-L", "-n"),
    "show": ("-G", "-S", "-L", "-n"),
    "diff": ("-G", "-S"),
    "blame": ("-L",),
    "grep": ("-e", "-f", "-A", "-B", "-C", "-m"),
    "checkout": ("-b", "-B"),
    "switch": ("-c", "-C"),
    "archive": ("-o",),
    "format-patch": ("-o", "-v"),
    "rebase": ("-x", "-s", "-X", "--onto"),
}
"""Short options with a value that stands apart, by subcommand."""
_SAFE_SETTING = re.compile(
    r"(?:user\.(?:name|email|useconfigonly)|color\..*|advice\..*|init\.defaultbranch|core\.(?:quotepath|autocrlf|filemode"
    r"|abbrev|safecrlf|eol|ignorecase|precomposeunicode|longpaths|preloadindex|untrackedcache)|commit\.gpgsign=false|tag\.gpgsign=false"
    r"|(?:core\.pager|pager\.\w+)=(?:cat|less|)|core\.(?:hookspath=/dev/null|editor=(?:true|:|cat)|fsmonitor=(?:false|0|))"
    r"|log\..*|diff\.(?:renames|renamelimit|algorithm|context|noprefix|colormoved|mnemonicprefix)|merge\.(?:conflictstyle|ff)"
    r"|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|rebase\.(?:autostash|autosquash)|status\..*|column\..*"
    r"|fetch\.prune|branch\.autosetuprebase|safe\.directory|gc\.auto|protocol\.version|http\.postbuffer|rerere\.enabled"
    r"|grep\.(?:linenumber|patterntype)|blame\..*|help\.autocorrect=0|index\..*|feature\.manyfiles|i18n\..*|stash\.\w+)(?:=.*)?",
    re.DOTALL,
)


def git(call: Call) -> None:
    options = Options.read(call.arguments, _GLOBAL_TAKES, permute=False)
    before = len(call.arguments) - len(options.operands)
    sure(call.arguments[: before + 1], "git")
    for name, value in options.given:
        call = _global(call, name, value)
    if not options.operands:
        return
    verb, rest = options.operands[0].text, options.operands[1:]
    if any(
        word.text.startswith(("ext::", "fd::")) or ("--config" in word.text[:9] and verb == "clone") for word in rest
    ):
        call.dangerous("a remote or a setting of it would run a program")
    _options(call, verb, rest)
    if verb in CODE:
        call.dangerous(f"`git {verb}` runs other programs")
    elif _connects(verb, rest):
        call.connects("git", *_verbs(verb, rest))
    elif verb not in LOOKING and verb not in CHANGING:
        call.unknown(f"`git {verb}` is no command of git that is known here")
    elif _changes(verb, rest):
        call.says("workspace-change", f"`git {verb}` may change the workspace")
    _special(call, verb, rest)


def _global(call: Call, name: str, value: Word | None) -> Call:
    if name in ("-C", "--work-tree", "--git-dir") and value:
        call.reads(value)
        if name == "-C":
            at = call.where(value.text)
            if at.region == "system":
                call.dangerous(f"`git` would obey the settings of {value.shown}, outside the workspace")
            return replace(call, folders=frozenset((HOLE if at.region == "unknown" else at.path,)))
    elif name == "-c" and value and not _safe(value.text):
        call.dangerous(f"`git -c {value.shown}` may run a program")
    elif name in ("--exec-path", "--config-env") and value:
        call.dangerous(f"`git {name}` decides which programs run")
    return call


def _safe(setting: str) -> bool:
    name, equals, value = setting.partition("=")
    return HOLE not in name and _SAFE_SETTING.fullmatch(f"{name.lower()}{equals}{value}") is not None


def _verbs(verb: str, rest: Sequence[Word]) -> tuple[str, ...]:
    if verb in ("remote", "submodule") and rest:
        return verb, rest[0].text
    return (verb,)


def _connects(verb: str, rest: Sequence[Word]) -> bool:
    first = next((word.text for word in rest if not word.text.startswith("-")), "")
    if verb == "remote":
        return first in ("update", "prune") or (first == "show" and not any(word.text == "-n" for word in rest))
    if verb == "submodule":
        return first in ("update", "add", "sync")
    if verb == "clone":
        return any(":" in word.text or not word.known for word in rest if not word.text.startswith("-"))
    if verb == "archive":
        return any(word.text.startswith("--remote") for word in rest)
    return verb in NETWORK


def _options(call: Call, verb: str, rest: Sequence[Word]) -> None:
    takes = frozenset((*_TAKES.get(verb, ()), *(each for each in _TEXTS if each.startswith("--")), "--output"))
    options = Options.read(rest, takes)
    for name, value in options.given:
        one = Options(((name, value),), ())
        if name in ("--no-ext-diff", "--no-textconv", "--exclude-standard", "--exec-path", "--text"):
            continue
        if any(one.has(each) and verb in _ONLY.get(each, (verb,)) for each in RUNS):
            call.dangerous(f"`git {verb} {name}` runs other programs")
        if value is None or name in _TEXTS:
            continue
        if one.has("--output", "--output-directory") or (name == "-o" and verb in ("archive", "format-patch")):
            call.writes(value)
        else:
            call.sweep((value,))
    for word in options.operands:
        if HOLE in word.text[:1] and word.loose:
            call.unknown(f"what `git {verb}` would do is not known before it runs")
    if verb not in ("commit", "tag", "grep", "config"):
        call.sweep(options.operands)


def _changes(verb: str, rest: Sequence[Word]) -> bool:
    words = [word.text for word in rest]
    first = next((word for word in words if not word.startswith("-")), "")
    match verb:
        case "branch" | "tag":
            return bool(first) and not {"--list", "-l", "--contains", "--merged", "--no-merged", "--points-at"} & set(
                words
            )
        case "stash" | "worktree" | "reflog" | "notes":
            return first not in ("list", "show") and not (verb in ("reflog", "notes") and not first)
        case "remote":
            return first not in ("", "get-url", "show")
        case "submodule":
            return first not in ("status", "summary", "")
        case "config":
            return not _reads_setting(words)
        case "bundle":
            return first not in ("verify", "list-heads")
        case "symbolic-ref" | "hash-object":
            return len([word for word in words if not word.startswith("-")]) > 1 or "-w" in words
        case _:
            return verb not in LOOKING


def _reads_setting(words: Sequence[str]) -> bool:
    if any(
        word in ("--get", "--get-all", "--get-regexp", "-l", "--list", "--get-urlmatch", "--get-color")
        for word in words
    ):
        return True
    if words[:1] in (["get"], ["list"]):
        return True
    plain = [word for word in words if not word.startswith("-")]
    return len(plain) <= 1 and not any(
        word in ("--unset", "--unset-all", "-e", "--edit", "--remove-section") for word in words
    )


def _special(call: Call, verb: str, rest: Sequence[Word]) -> None:
    words = [word.text for word in rest]
    if verb == "config" and not _reads_setting(words):
        plain = [word for word in words if not word.startswith("-") and word not in ("set", "unset")]
        outside = {"--global", "--system", "-f", "--file", "--edit", "-e"} & set(words)
        if outside or not plain or not _safe("=".join(plain[:2])):
            call.dangerous("`git config` sets what git obeys later")
    if verb == "bisect" and words[:1] == ["run"]:
        call.runs(rest[1:])
    if verb == "submodule" and "foreach" in words:
        call.code(Word(" ".join(words[words.index("foreach") + 1 :])))
    if verb == "rebase":
        for value in Options.read(rest, frozenset(("-x", "--exec", "--onto", "-s", "-X"))).named("-x", "--exec"):
            if value:
                call.code(value)
    if verb == "clone":
        for word in [word for word in rest if not word.text.startswith("-")][1:]:
            call.writes(word)
    if verb in ("rm", "mv", "clean", "checkout", "restore", "worktree", "init"):
        for word in rest:
            if not word.text.startswith("-") and call.where(word.text).region in ("home", "outside", "private"):
                call.writes(word)
