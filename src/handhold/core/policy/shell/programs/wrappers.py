"""Programs that run another program: what counts is that one, and sometimes that they do."""

import re
from dataclasses import replace

from handhold.core.policy.shell.call import Call, Feed, Options, sure
from handhold.core.policy.shell.grammar import Unsure
from handhold.core.policy.shell.words import HOLE, NAME, Word, listed

TAKES: dict[str, str] = {
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
FIRST = {"timeout": 1, "taskset": 1, "chrt": 1, "setarch": 1, "chroot": 1, "start-stop-daemon": 99, "direnv": 2}
"""Operands before the program."""
DANGEROUS = {
    "sudo": "it becomes somebody else",
    "doas": "it becomes somebody else",
    "pkexec": "it becomes somebody else",
    "chroot": "it leaves the workspace",
    "unshare": "it leaves the sandbox",
    "nsenter": "it leaves the sandbox",
    "systemd-run": "it starts something that stays",
    "start-stop-daemon": "it starts something that stays",
    "daemonize": "it starts something that stays",
    "torsocks": "it hides where it connects to",
    "proxychains": "it hides where it connects to",
    "direnv": "it runs what a folder says",
}
WRITES = {"time": ("-o", "--output"), "strace": ("-o",), "ltrace": ("-o",)}
TIME = frozenset(("-p", "-v", "-f", "-o", "-a", "--verbose", "--format", "--output", "--append", "--portability"))
_DURATION = re.compile(r"[\d.\1\2]+[smhd]?")


def wrapper(call: Call) -> None:
    name = call.name
    options = Options.read(call.arguments, frozenset(TAKES[name].split()), permute=False)
    before = len(call.arguments) - len(options.operands) + FIRST.get(name, 0)
    sure(call.arguments[: before + 1], name)
    if because := DANGEROUS.get(name):
        call.dangerous(f"`{name}`: {because}")
    if call.background and name in ("nohup", "setsid"):
        call.dangerous(f"`{name} … &` is meant to outlive the command")
    if name in ("strace", "ltrace") and options.has("-p"):
        call.dangerous(f"`{name} -p` reaches into another process")
    for value in options.named(*WRITES.get(name, ())):
        if value:
            call.writes(value)
    if name == "command" and options.has("-v", "-V"):
        return
    if name == "timeout" and options.operands and not _DURATION.fullmatch(options.operands[0].text):
        call.unknown("what `timeout` would run is not known before it runs")
    if name == "time":
        if not {option for option, _ in options.given} <= TIME:
            raise Unsure("what `time` would run is not known before it runs")
        _timed(call, list(options.operands))
    else:
        call.runs(options.operands[FIRST.get(name, 0) :])


def _timed(call: Call, words: list[Word]) -> None:
    """`time` is a word of the grammar: variables, and more of the grammar, may follow it."""
    while words and (found := re.match(r"([A-Za-z_]\w*)\+?=", words[0].text)):
        call.hands.assigned(found[1], Word(words.pop(0).text[found.end() :]))
    if words and not re.match(r"[\w./~-]", words[0].text):
        raise Unsure("what `time` would run is not known before it runs")
    call.runs(words)


def env(call: Call) -> None:
    """env: variables, a folder, and with -S a text that is split."""
    words = list(call.arguments)
    while words:
        word, text = words[0], words[0].text
        sure((word,), "env")
        if found := re.match(r"(?:-[iv0]*S|--split-string=?)(.*)", text, re.DOTALL):
            rest = [Word(found[1])] if found[1] else words[1:2]
            if not rest or not rest[0].known or re.search(r"[\\'\"$#]", rest[0].text):
                call.unknown("`env -S` would run a text that is not known before it runs")
                return
            words = [*map(Word, rest[0].text.split()), *words[1 if found[1] else 2 :]]
        elif text in ("-u", "--unset", "-C", "--chdir"):
            if text in ("-C", "--chdir") and words[1:]:
                call = _in_folder(call, words[1])
            words = words[2:]
        elif text.startswith("--chdir="):
            call, words = _in_folder(call, Word(text.partition("=")[2])), words[1:]
        elif text.startswith("-"):
            words = words[1:]
        elif "=" in text:  # also names that no shell could write
            name, _, value = text.partition("=")
            call.hands.assigned(name, Word(value))
            words = words[1:]
        else:
            break
    call.runs(words)


def _in_folder(call: Call, word: Word) -> Call:
    call.reads(word)
    at = call.where(word.text)
    return replace(call, folders=frozenset((HOLE if at.region == "unknown" else at.path,)))


def joined(call: Call) -> None:
    """watch, entr: the words behind the options become one text for a shell."""
    options = Options.read(call.arguments, frozenset(("-n", "--interval")), permute=False)
    if options.operands:
        sure(options.operands, call.name)
        call.code(Word(" ".join(word.text for word in options.operands)))
    call.changes()


def each_code(call: Call) -> None:
    """hyperfine: every operand is a command of its own."""
    takes = frozenset(
        ("-w", "--warmup", "-r", "--runs", "-m", "-M", "-p", "--prepare", "-s", "--setup", "-c", "--cleanup")
    )
    options = Options.read(call.arguments, takes | {"--export-json", "--export-markdown", "-S", "--shell", "-n"})
    for code in (*options.operands, *options.named("-p", "--prepare", "-s", "--setup", "-c", "--cleanup", "-S")):
        if code:
            call.code(code)
    for value in options.named("--export-json", "--export-markdown", "--export-csv"):
        if value:
            call.writes(value)
    call.changes()


def flock(call: Call) -> None:
    options = Options.read(call.arguments, frozenset(("-w", "--timeout", "-E", "-c", "--command")), permute=False)
    for word in options.operands[:1]:
        call.writes(word)
    rest = options.operands[1:]
    if rest and rest[0].text in ("-c", "--command"):
        for code in rest[1:2]:
            call.code(code)
        return
    call.runs(rest)


def become(call: Call) -> None:
    """su, runuser, script: -c is for a shell."""
    options = Options.read(call.arguments, frozenset(("-c", "--command", "-s", "--shell", "-g", "-u", "-t")))
    if call.name != "script":
        call.dangerous(f"`{call.name}` becomes somebody else")
    for code in options.named("-c", "--command"):
        if code:
            call.code(code)
    for word in options.operands:
        call.writes(word)
    call.unknown(f"what `{call.name}` would run is not known before it runs")


# --- commands from a list


_XARGS = listed("-I -n -P -L -d -s -a -E --max-args --max-procs --max-lines --delimiter --arg-file --replace")


def xargs(call: Call) -> None:
    options = Options.read(call.arguments, _XARGS - {"--replace"}, permute=False)
    sure(options.operands[:1], "xargs")
    names = call.feed is not None and call.feed.names
    text = call.feed.text if call.feed else None
    lists = [value for value in options.named("-a", "--arg-file") if value]
    for word in lists:
        call.reads(word)
    fed: tuple[Word, ...] = (Word(NAME),) if names and not lists else (Word(HOLE, loose=True),)
    if text is not None and not lists and HOLE not in text and not re.search(r"[\\'\"]", text):
        fed = tuple(map(Word, text.split()))
    words = options.operands or (Word("echo"),)
    marks = [value.text if value else "{}" for value in options.named("-I", "-i", "--replace")]
    inner = replace(call, feed=Feed() if lists else None)
    if marks and marks[0]:
        value = " ".join(word.text for word in fed)
        inner.runs(tuple(replace(word, text=word.text.replace(marks[0], value)) for word in words))
    else:
        inner.runs((*words, *fed))


def parallel(call: Call) -> None:
    words = call.arguments
    stops = [at for at, word in enumerate(words) if word.text in (":::", "::::", ":::+")]
    template = Options.read(
        words[: stops[0]] if stops else words, frozenset(("-j", "-a", "-n", "-N", "--jobs")), permute=False
    )
    given = words[stops[0] + 1 :] if stops else ()
    if not template.operands or not all(word.known for word in (*template.operands, *given)):
        call.unknown("`parallel` would run commands that are not known before they run")
        return
    code = " ".join(word.text for word in template.operands)
    for word in given or (Word("x" if call.feed and call.feed.names else HOLE),):
        call.code(Word(re.sub(r"\{[./#%]*\}", word.text, code) if "{" in code else f"{code} {word.text}"))


# --- find

_WRITES = frozenset(("-fprint", "-fprint0", "-fls", "-fprintf"))
_RUNS = frozenset(("-exec", "-execdir", "-ok", "-okdir"))


def find(call: Call) -> None:
    words = call.arguments
    first = next((at for at, word in enumerate(words) if re.match(r"-[a-zA-Z]{2}|[(!]", word.text)), len(words))
    starts = [word for word in words[:first] if not word.text.startswith("-")] or [Word(".")]
    for word in starts:
        call.reads(word)
    if any(word.loose for word in words):
        call.unknown("what `find` would do is not known before it runs")
    regions = {call.where(word.text).region for word in starts}
    name = NAME if regions <= {"inside", "root", "temporary"} else HOLE
    at = first
    while at < len(words):
        text = words[at].text
        if text in _RUNS:
            end = next((i for i in range(at + 1, len(words)) if _ends(words, i)), len(words))
            inner = [replace(word, text=word.text.replace("{}", name)) for word in words[at + 1 : end]]
            replace(call, feed=None).runs(inner)
            at = end
        elif text == "-delete":
            for word in starts:
                call.writes(word, whole=first >= len(words) - 1)
            call.changes()
        elif text in _WRITES and at + 1 < len(words):
            call.writes(words[at + 1])
        elif text == "-files0-from" and at + 1 < len(words):
            call.reads(words[at + 1])
        at += 1


def _ends(words: tuple[Word, ...], at: int) -> bool:
    return words[at].text == ";" or (words[at].text == "+" and words[at - 1].text == "{}")


def fd(call: Call) -> None:
    words = call.arguments
    at = next(
        (i for i, word in enumerate(words) if re.fullmatch(r"-[a-zA-Z]*[xX]|--exec(?:-batch)?(?:=.*)?", word.text)),
        len(words),
    )
    call.sweep(words[:at])
    inner = [replace(word, text=re.sub(r"\{[/.]*\}", NAME, word.text)) for word in words[at + 1 :] if word.text != ";"]
    if inner and not any(NAME in word.text for word in inner):
        inner.append(Word(NAME))
    call.runs(inner)
