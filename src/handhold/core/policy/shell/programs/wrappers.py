"""Programs that run another program: that program is analyzed, and sometimes the wrapper itself is a finding."""

import re
from dataclasses import replace

from handhold.core.policy.shell.grammar import AnalysisError
from handhold.core.policy.shell.simple_command import (
    ProgramArguments,
    SimpleCommand,
    StdinContent,
    require_single_words,
)
from handhold.core.policy.shell.words import UNKNOWN, UNKNOWN_NAME, Word, split_words

WRAPPER_VALUE_OPTIONS: dict[str, str] = {
    "nice": "-n --adjustment",
    "timeout": "-k --kill-after -s --signal",
    "nohup": "",
    "setsid": "",
    "stdbuf": "-i -o -e --input --output --error",
    "time": "-f --format -o --output",
    "command": "",
    "builtin": "",
    "exec": "-a",
    "ionice": "-c -n --class --classdata",
    "chrt": "-T -P -D",
    "taskset": "",
    "prlimit": "",
    "setarch": "",
    "linux64": "",
    "unbuffer": "",
    "busybox": "",
    "toybox": "",
    "caffeinate": "-t -w",
    "strace": "-e -o -p -s -u -E -P -I -O -S -a -b -X",
    "ltrace": "-e -o -p -s -u -n -a -l -x",
    "valgrind": "",
    "xvfb-run": "-n -s -e -f -p -w",
    "fakeroot": "-l -s -i -b",
    "choom": "-n",
    "sudo": "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt",
    "doas": "-u -C",
    "pkexec": "--user",
    "chroot": "",
    "unshare": "",
    "nsenter": "-t -S -G",
    "systemd-run": "-p -u --unit --property",
    "start-stop-daemon": "",
    "daemonize": "",
    "torsocks": "",
    "proxychains": "",
    "direnv": "",
}
LEADING_OPERANDS = {
    "timeout": 1,
    "taskset": 1,
    "chrt": 1,
    "setarch": 1,
    "chroot": 1,
    "start-stop-daemon": 99,
    "direnv": 2,
}
"""Number of operands before the program."""
DANGEROUS_WRAPPERS = {
    "sudo": "it changes the user",
    "doas": "it changes the user",
    "pkexec": "it changes the user",
    "chroot": "it leaves the workspace",
    "unshare": "it leaves the sandbox",
    "nsenter": "it leaves the sandbox",
    "systemd-run": "it starts a process that keeps running",
    "start-stop-daemon": "it starts a process that keeps running",
    "daemonize": "it starts a process that keeps running",
    "torsocks": "it hides where it connects",
    "proxychains": "it hides where it connects",
    "direnv": "it runs code that a folder defines",
}
OUTPUT_OPTIONS = {"time": ("-o", "--output"), "strace": ("-o",), "ltrace": ("-o",)}
TIME_OPTIONS = frozenset(
    ("-p", "-v", "-f", "-o", "-a", "--verbose", "--format", "--output", "--append", "--portability")
)
_DURATION = re.compile(r"[\d.\1\2]+[smhd]?")


def analyze_wrapper(command: SimpleCommand) -> None:
    name = command.name
    options = ProgramArguments.parse(command.arguments, frozenset(WRAPPER_VALUE_OPTIONS[name].split()), permute=False)
    before = len(command.arguments) - len(options.operands) + LEADING_OPERANDS.get(name, 0)
    require_single_words(command.arguments[: before + 1], name)
    if because := DANGEROUS_WRAPPERS.get(name):
        command.report_dangerous(f"`{name}`: {because}")
    if command.background and name in ("nohup", "setsid"):
        command.report_dangerous(f"`{name} … &` outlives the command")
    if name in ("strace", "ltrace") and options.has_option("-p"):
        command.report_dangerous(f"`{name} -p` affects another process")
    for value in options.get_values(*OUTPUT_OPTIONS.get(name, ())):
        if value:
            command.check_write(value)
    if name == "command" and options.has_option("-v", "-V"):
        return
    if name == "timeout" and options.operands and not _DURATION.fullmatch(options.operands[0].text):
        command.report_unknown("what `timeout` would run is not known before it runs")
    if name == "time":
        if not {option for option, _ in options.options} <= TIME_OPTIONS:
            raise AnalysisError("what `time` would run is not known before it runs")
        _analyze_time(command, list(options.operands))
    else:
        command.analyze_nested(options.operands[LEADING_OPERANDS.get(name, 0) :])


def _analyze_time(command: SimpleCommand, words: list[Word]) -> None:
    """`time` is a shell keyword: assignments and more syntax may follow it."""
    while words and (found := re.match(r"([A-Za-z_]\w*)\+?=", words[0].text)):
        command.analyzer.assign_variable(found[1], Word(words.pop(0).text[found.end() :]))
    if words and not re.match(r"[\w./~-]", words[0].text):
        raise AnalysisError("what `time` would run is not known before it runs")
    command.analyze_nested(words)


def analyze_env(command: SimpleCommand) -> None:
    """env: variables, a working directory, and with -S a string that is split."""
    words = list(command.arguments)
    while words:
        word, text = words[0], words[0].text
        require_single_words((word,), "env")
        if found := re.match(r"(?:-[iv0]*S|--split-string=?)(.*)", text, re.DOTALL):
            rest = [Word(found[1])] if found[1] else words[1:2]
            if not rest or not rest[0].is_known or re.search(r"[\\'\"$#]", rest[0].text):
                command.report_unknown("`env -S` would run a command line that is not known before it runs")
                return
            words = [*map(Word, rest[0].text.split()), *words[1 if found[1] else 2 :]]
        elif text in ("-u", "--unset", "-C", "--chdir"):
            if text in ("-C", "--chdir") and words[1:]:
                command = _with_cwd(command, words[1])
            words = words[2:]
        elif text.startswith("--chdir="):
            command, words = _with_cwd(command, Word(text.partition("=")[2])), words[1:]
        elif text.startswith("-"):
            words = words[1:]
        elif "=" in text:  # including names that no shell could assign
            name, _, value = text.partition("=")
            command.analyzer.assign_variable(name, Word(value))
            words = words[1:]
        else:
            break
    command.analyze_nested(words)


def _with_cwd(command: SimpleCommand, word: Word) -> SimpleCommand:
    command.check_read(word)
    target = command.classify(word.text)
    return replace(command, cwds=frozenset((UNKNOWN if target.region == "unknown" else target.path,)))


def analyze_watch(command: SimpleCommand) -> None:
    """watch, entr: the words after the options are joined into shell code."""
    options = ProgramArguments.parse(command.arguments, frozenset(("-n", "--interval")), permute=False)
    if options.operands:
        require_single_words(options.operands, command.name)
        command.analyze_code(Word(" ".join(word.text for word in options.operands)))
    command.report_change()


def analyze_hyperfine(command: SimpleCommand) -> None:
    """hyperfine: every operand is a command."""
    value_options = frozenset(
        ("-w", "--warmup", "-r", "--runs", "-m", "-M", "-p", "--prepare", "-s", "--setup", "-c", "--cleanup")
    )
    options = ProgramArguments.parse(
        command.arguments, value_options | {"--export-json", "--export-markdown", "-S", "--shell", "-n"}
    )
    for code in (*options.operands, *options.get_values("-p", "--prepare", "-s", "--setup", "-c", "--cleanup", "-S")):
        if code:
            command.analyze_code(code)
    for value in options.get_values("--export-json", "--export-markdown", "--export-csv"):
        if value:
            command.check_write(value)
    command.report_change()


def analyze_flock(command: SimpleCommand) -> None:
    options = ProgramArguments.parse(
        command.arguments, frozenset(("-w", "--timeout", "-E", "-c", "--command")), permute=False
    )
    for word in options.operands[:1]:
        command.check_write(word)
    rest = options.operands[1:]
    if rest and rest[0].text in ("-c", "--command"):
        for code in rest[1:2]:
            command.analyze_code(code)
        return
    command.analyze_nested(rest)


def analyze_su(command: SimpleCommand) -> None:
    """su, runuser, script: the value of -c is shell code."""
    options = ProgramArguments.parse(
        command.arguments, frozenset(("-c", "--command", "-s", "--shell", "-g", "-u", "-t"))
    )
    if command.name != "script":
        command.report_dangerous(f"`{command.name}` changes the user")
    for code in options.get_values("-c", "--command"):
        if code:
            command.analyze_code(code)
    for word in options.operands:
        command.check_write(word)
    command.report_unknown(f"what `{command.name}` would run is not known before it runs")


# --- commands built from a list


_XARGS_VALUE_OPTIONS = split_words(
    "-I -n -P -L -d -s -a -E --max-args --max-procs --max-lines --delimiter --arg-file --replace"
)


def analyze_xargs(command: SimpleCommand) -> None:
    options = ProgramArguments.parse(command.arguments, _XARGS_VALUE_OPTIONS - {"--replace"}, permute=False)
    require_single_words(options.operands[:1], "xargs")
    names = command.stdin is not None and command.stdin.is_names_only
    text = command.stdin.text if command.stdin else None
    lists = [value for value in options.get_values("-a", "--arg-file") if value]
    for word in lists:
        command.check_read(word)
    input_words: tuple[Word, ...] = (Word(UNKNOWN_NAME),) if names and not lists else (Word(UNKNOWN, can_split=True),)
    if text is not None and not lists and UNKNOWN not in text and not re.search(r"[\\'\"]", text):
        input_words = tuple(map(Word, text.split()))
    words = options.operands or (Word("echo"),)
    replace_strings = [value.text if value else "{}" for value in options.get_values("-I", "-i", "--replace")]
    inner = replace(command, stdin=StdinContent() if lists else None)
    if replace_strings and replace_strings[0]:
        value = " ".join(word.text for word in input_words)
        inner.analyze_nested(tuple(replace(word, text=word.text.replace(replace_strings[0], value)) for word in words))
    else:
        inner.analyze_nested((*words, *input_words))


def analyze_parallel(command: SimpleCommand) -> None:
    words = command.arguments
    stops = [at for at, word in enumerate(words) if word.text in (":::", "::::", ":::+")]
    template = ProgramArguments.parse(
        words[: stops[0]] if stops else words, frozenset(("-j", "-a", "-n", "-N", "--jobs")), permute=False
    )
    inputs = words[stops[0] + 1 :] if stops else ()
    if not template.operands or not all(word.is_known for word in (*template.operands, *inputs)):
        command.report_unknown("`parallel` would run commands that are not known before they run")
        return
    code = " ".join(word.text for word in template.operands)
    for word in inputs or (Word("x" if command.stdin and command.stdin.is_names_only else UNKNOWN),):
        command.analyze_code(Word(re.sub(r"\{[./#%]*\}", word.text, code) if "{" in code else f"{code} {word.text}"))


# --- find

_FIND_OUTPUT_ACTIONS = frozenset(("-fprint", "-fprint0", "-fls", "-fprintf"))
_FIND_EXEC_ACTIONS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def analyze_find(command: SimpleCommand) -> None:
    words = command.arguments
    first = next((at for at, word in enumerate(words) if re.match(r"-[a-zA-Z]{2}|[(!]", word.text)), len(words))
    starts = [word for word in words[:first] if not word.text.startswith("-")] or [Word(".")]
    for word in starts:
        command.check_read(word)
    if any(word.can_split for word in words):
        command.report_unknown("what `find` would do is not known before it runs")
    regions = {command.classify(word.text).region for word in starts}
    name = UNKNOWN_NAME if regions <= {"inside", "root", "temporary"} else UNKNOWN
    at = first
    while at < len(words):
        text = words[at].text
        if text in _FIND_EXEC_ACTIONS:
            end = next((i for i in range(at + 1, len(words)) if _is_exec_end(words, i)), len(words))
            inner = [replace(word, text=word.text.replace("{}", name)) for word in words[at + 1 : end]]
            replace(command, stdin=None).analyze_nested(inner)
            at = end
        elif text == "-delete":
            for word in starts:
                command.check_write(word, deletes=first >= len(words) - 1)
            command.report_change()
        elif text in _FIND_OUTPUT_ACTIONS and at + 1 < len(words):
            command.check_write(words[at + 1])
        elif text == "-files0-from" and at + 1 < len(words):
            command.check_read(words[at + 1])
        at += 1


def _is_exec_end(words: tuple[Word, ...], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def analyze_fd(command: SimpleCommand) -> None:
    words = command.arguments
    at = next(
        (i for i, word in enumerate(words) if re.fullmatch(r"-[a-zA-Z]*[xX]|--exec(?:-batch)?(?:=.*)?", word.text)),
        len(words),
    )
    command.check_path_arguments(words[:at])
    inner = [
        replace(word, text=re.sub(r"\{[/.]*\}", UNKNOWN_NAME, word.text))
        for word in words[at + 1 :]
        if word.text != ";"
    ]
    if inner and not any(UNKNOWN_NAME in word.text for word in inner):
        inner.append(Word(UNKNOWN_NAME))
    command.analyze_nested(inner)
