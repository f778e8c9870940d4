"""git: judged by its subcommand, and by options and settings that make it run programs."""

import re
from collections.abc import Sequence
from dataclasses import replace

from handhold.core.policy.shell.simple_command import ProgramArguments, SimpleCommand, require_single_words
from handhold.core.policy.shell.words import UNKNOWN, Word, split_words

READ_ONLY_COMMANDS = split_words("""
    status log diff show blame annotate grep ls-files ls-tree rev-parse rev-list describe cat-file shortlog name-rev
    merge-base for-each-ref show-ref var help version count-objects check-ignore check-attr whatchanged diff-tree
    diff-index diff-files cherry range-diff fsck show-branch merge-tree patch-id verify-pack stripspace
    check-ref-format fmt-merge-msg get-tar-commit-id column
""")
CHANGE_COMMANDS = split_words("""
    add commit checkout switch restore reset merge rebase cherry-pick revert stash branch tag rm mv clean apply am
    init worktree notes gc prune sparse-checkout update-index read-tree write-tree commit-tree hash-object
    update-ref symbolic-ref reflog replace rerere pack-refs repack mktree mktag format-patch archive bundle stage
    pack-objects unpack-objects index-pack checkout-index mailsplit mailinfo merge-file maintenance cherry bisect
    submodule config remote diff interpret-trailers clone
""")
NETWORK_COMMANDS = split_words(
    "push pull fetch clone ls-remote send-email svn p4 lfs fetch-pack send-pack request-pull daemon"
)
CODE_COMMANDS = split_words("""
    filter-branch difftool mergetool instaweb gui citool gitk web--browse credential hook cvsserver shell
    http-backend imap-send upload-pack receive-pack remote-ext remote-fd credential-store credential-cache
""")
EXEC_OPTIONS = (
    *("--ext-diff", "--textconv", "--open-files-in-pager", "-O", "--upload-pack", "--receive-pack", "--exec"),
    *("--exec-path", "--config-env", "--template", "--separate-git-dir", "--show-signature", "--gpg-sign", "-S"),
)
_EXEC_OPTION_COMMANDS = {
    "-O": ("grep",),
    "-S": ("commit", "merge", "rebase", "cherry-pick", "revert"),
    "--exec": ("push", "fetch", "ls-remote", "clone", "archive", "pull"),
    "--gpg-sign": ("commit", "merge", "rebase", "cherry-pick", "revert"),
}
"""The subcommands for which these options run programs; for others they are harmless."""
_GLOBAL_VALUE_OPTIONS = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--super-prefix", "--config-env")
)
_TEXT_OPTIONS = (
    *("-m", "--message", "--grep", "--author", "--committer", "-G", "-S", "--format", "--pretty", "--date", "--since"),
    *("--until", "--after", "--before", "-e", "-L", "--trailer", "--subject-prefix", "-n"),
)
_VALUE_OPTIONS = {
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
"""Short options that take the next word as their value, by subcommand."""
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


def analyze_git(command: SimpleCommand) -> None:
    options = ProgramArguments.parse(command.arguments, _GLOBAL_VALUE_OPTIONS, permute=False)
    before = len(command.arguments) - len(options.operands)
    require_single_words(command.arguments[: before + 1], "git")
    for name, value in options.options:
        command = _apply_global_option(command, name, value)
    if not options.operands:
        return
    subcommand, rest = options.operands[0].text, options.operands[1:]
    if any(
        word.text.startswith(("ext::", "fd::")) or ("--config" in word.text[:9] and subcommand == "clone")
        for word in rest
    ):
        command.report_dangerous("a remote or a setting of it would run a program")
    _analyze_options(command, subcommand, rest)
    if subcommand in CODE_COMMANDS:
        command.report_dangerous(f"`git {subcommand}` runs other programs")
    elif _needs_network(subcommand, rest):
        command.report_network("git", *_approval_words(subcommand, rest))
    elif subcommand not in READ_ONLY_COMMANDS and subcommand not in CHANGE_COMMANDS:
        command.report_unknown(f"`git {subcommand}` is not a known git command")
    elif _can_change_workspace(subcommand, rest):
        command.report("workspace-change", f"`git {subcommand}` may change the workspace")
    _analyze_subcommand(command, subcommand, rest)


def _apply_global_option(command: SimpleCommand, name: str, value: Word | None) -> SimpleCommand:
    if name in ("-C", "--work-tree", "--git-dir") and value:
        command.check_read(value)
        if name == "-C":
            target = command.classify(value.text)
            if target.region == "system":
                command.report_dangerous(
                    f"`git` would follow the settings in {value.display_text}, outside the workspace"
                )
            return replace(command, cwds=frozenset((UNKNOWN if target.region == "unknown" else target.path,)))
    elif name == "-c" and value and not _is_safe_setting(value.text):
        command.report_dangerous(f"`git -c {value.display_text}` may run a program")
    elif name in ("--exec-path", "--config-env") and value:
        command.report_dangerous(f"`git {name}` decides which programs run")
    return command


def _is_safe_setting(setting: str) -> bool:
    name, equals, value = setting.partition("=")
    return UNKNOWN not in name and _SAFE_SETTING.fullmatch(f"{name.lower()}{equals}{value}") is not None


def _approval_words(subcommand: str, rest: Sequence[Word]) -> tuple[str, ...]:
    if subcommand in ("remote", "submodule") and rest:
        return subcommand, rest[0].text
    return (subcommand,)


def _needs_network(subcommand: str, rest: Sequence[Word]) -> bool:
    first = next((word.text for word in rest if not word.text.startswith("-")), "")
    if subcommand == "remote":
        return first in ("update", "prune") or (first == "show" and not any(word.text == "-n" for word in rest))
    if subcommand == "submodule":
        return first in ("update", "add", "sync")
    if subcommand == "clone":
        return any(":" in word.text or not word.is_known for word in rest if not word.text.startswith("-"))
    if subcommand == "archive":
        return any(word.text.startswith("--remote") for word in rest)
    return subcommand in NETWORK_COMMANDS


def _analyze_options(command: SimpleCommand, subcommand: str, rest: Sequence[Word]) -> None:
    value_options = frozenset(
        (*_VALUE_OPTIONS.get(subcommand, ()), *(each for each in _TEXT_OPTIONS if each.startswith("--")), "--output")
    )
    options = ProgramArguments.parse(rest, value_options)
    for name, value in options.options:
        option = ProgramArguments(((name, value),), ())
        if name in ("--no-ext-diff", "--no-textconv", "--exclude-standard", "--exec-path", "--text"):
            continue
        if any(
            option.has_option(each) and subcommand in _EXEC_OPTION_COMMANDS.get(each, (subcommand,))
            for each in EXEC_OPTIONS
        ):
            command.report_dangerous(f"`git {subcommand} {name}` runs other programs")
        if value is None or name in _TEXT_OPTIONS:
            continue
        if option.has_option("--output", "--output-directory") or (
            name == "-o" and subcommand in ("archive", "format-patch")
        ):
            command.check_write(value)
        else:
            command.check_path_arguments((value,))
    for word in options.operands:
        if UNKNOWN in word.text[:1] and word.can_split:
            command.report_unknown(f"what `git {subcommand}` would do is not known before it runs")
    if subcommand not in ("commit", "tag", "grep", "config"):
        command.check_path_arguments(options.operands)


def _can_change_workspace(subcommand: str, rest: Sequence[Word]) -> bool:
    words = [word.text for word in rest]
    first = next((word for word in words if not word.startswith("-")), "")
    match subcommand:
        case "branch" | "tag":
            return bool(first) and not {"--list", "-l", "--contains", "--merged", "--no-merged", "--points-at"} & set(
                words
            )
        case "stash" | "worktree" | "reflog" | "notes":
            return first not in ("list", "show") and not (subcommand in ("reflog", "notes") and not first)
        case "remote":
            return first not in ("", "get-url", "show")
        case "submodule":
            return first not in ("status", "summary", "")
        case "config":
            return not _is_config_read(words)
        case "bundle":
            return first not in ("verify", "list-heads")
        case "symbolic-ref" | "hash-object":
            return len([word for word in words if not word.startswith("-")]) > 1 or "-w" in words
        case _:
            return subcommand not in READ_ONLY_COMMANDS


def _is_config_read(words: Sequence[str]) -> bool:
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


def _analyze_subcommand(command: SimpleCommand, subcommand: str, rest: Sequence[Word]) -> None:
    words = [word.text for word in rest]
    if subcommand == "config" and not _is_config_read(words):
        plain = [word for word in words if not word.startswith("-") and word not in ("set", "unset")]
        outside = {"--global", "--system", "-f", "--file", "--edit", "-e"} & set(words)
        if outside or not plain or not _is_safe_setting("=".join(plain[:2])):
            command.report_dangerous("`git config` changes settings that git follows later")
    if subcommand == "bisect" and words[:1] == ["run"]:
        command.analyze_nested(rest[1:])
    if subcommand == "submodule" and "foreach" in words:
        command.analyze_code(Word(" ".join(words[words.index("foreach") + 1 :])))
    if subcommand == "rebase":
        for value in ProgramArguments.parse(rest, frozenset(("-x", "--exec", "--onto", "-s", "-X"))).get_values(
            "-x", "--exec"
        ):
            if value:
                command.analyze_code(value)
    if subcommand == "clone":
        for word in [word for word in rest if not word.text.startswith("-")][1:]:
            command.check_write(word)
    if subcommand in ("rm", "mv", "clean", "checkout", "restore", "worktree", "init"):
        for word in rest:
            if not word.text.startswith("-") and command.classify(word.text).region in ("home", "outside", "private"):
                command.check_write(word)
